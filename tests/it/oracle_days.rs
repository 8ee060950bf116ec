//! Oracle of single days and live steps; like `oracle`, it shares no code with the crate.

use crate::oracle::{BAD, MISSING, NOT_READY, Refusal, Verdict, by_value, sum};
use crate::plain::has_shape;
use crate::prelude::*;

impl World {
    /// The day of the dataset that a path names.
    pub(crate) fn held_day(&self, date: &str) -> Result<String, Refusal> {
        if date != "latest" && !has_shape(date, "0000-00-00") {
            return Err(BAD);
        }
        let days = self.days();
        let latest = days.last().ok_or(NOT_READY)?;
        let wanted = if date == "latest" {
            latest.as_str()
        } else {
            date
        };
        days.iter()
            .find(|day| *day == wanted)
            .cloned()
            .ok_or(MISSING)
    }

    pub(crate) fn day_list(&self) -> Verdict {
        let mut days = self.days();
        let latest = days.last().cloned().ok_or(NOT_READY)?;
        days.reverse();
        Ok(json!({"days": days, "latest": latest, "meta": self.meta()}))
    }

    /// A day's islands with a peak, the highest first.
    fn order_of(&self, day: &str) -> Vec<&str> {
        let mut codes = self.codes();
        codes.retain(|code| self.count(code, Some(day), 0).is_some());
        codes.sort_by_key(|code| (by_value(self.count(code, Some(day), 0), false), *code));
        codes
    }

    pub(crate) fn ranking(&self, day: &str) -> Value {
        let previous = self.days().into_iter().rfind(|held| held.as_str() < day);
        let before = previous
            .as_ref()
            .map(|day| self.order_of(day))
            .unwrap_or_default();
        let mut ranking = Vec::new();
        for (place, code) in self.order_of(day).into_iter().take(10).enumerate() {
            let rank = i64::try_from(place).unwrap() + 1;
            let place_before = before.iter().position(|other| *other == code);
            let previous_rank = place_before.map(|place| i64::try_from(place).unwrap() + 1);
            let island = &self.islands[code];
            ranking.push(
                json!({"rank": rank, "delta": previous_rank.map(|before| before - rank),
                "previousRank": previous_rank, "code": code, "title": island.title,
                "creator": island.creator, "createdIn": island.created_in,
                "peakCCU": self.count(code, Some(day), 0)}),
            );
        }
        json!({"date": day, "previousDate": previous, "ranking": ranking, "meta": self.meta()})
    }

    pub(crate) fn newcomers(&self, day: &str) -> Value {
        let mut codes = self.codes();
        codes.retain(|code| self.days_of(code).first().is_some_and(|first| first == day));
        codes.sort_by_key(|code| (by_value(self.count(code, Some(day), 0), false), *code));
        let islands: Vec<_> = codes
            .iter()
            .map(|code| self.summary(code, Some(day)))
            .collect();
        json!({"date": day, "islands": islands, "meta": self.meta()})
    }

    pub(crate) fn live_snapshot(&self) -> Verdict {
        let (time, rows) = self.live.last_key_value().ok_or(NOT_READY)?;
        let mut present: Vec<(&str, u64)> = Vec::new();
        for (code, players) in rows {
            present.extend(players.map(|players| (code.as_str(), players)));
        }
        present.sort_by_key(|(code, players)| (u64::MAX - players, *code));
        let total: u64 = present.iter().map(|(_, players)| players).sum();
        let mut islands = Vec::new();
        for (code, players) in present {
            let title = &self.islands[code].title;
            islands.push(json!({"code": code, "title": title, "players": players}));
        }
        Ok(
            json!({"time": time, "resolutionSeconds": 600, "players": total,
            "islands": islands, "meta": self.meta()}),
        )
    }

    pub(crate) fn intraday(&self) -> Verdict {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        if let Some(platform) = &self.platform {
            for (time, players) in platform {
                steps.extend(players.map(|players| (*time, players)));
            }
        } else if self.live.is_empty() {
            return Err(NOT_READY);
        } else {
            for (time, rows) in &self.live {
                steps.extend(sum(rows.values().copied()).map(|players| (*time, players)));
            }
        }
        steps.sort_unstable();
        let newest = steps.last().map_or(0, |(time, _)| *time);
        steps.retain(|(time, _)| *time + 86_400 > newest);
        Ok(json!({"resolutionSeconds": 600, "points": steps, "meta": self.meta()}))
    }
}
