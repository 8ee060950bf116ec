//! `/islands/{code}`: an island's newest day and the history of its peaks.

use std::fmt::Write as _;

use serde_json::from_slice;

use super::api_bodies::{CcuHistory, Island, IslandDetail, titled};
use super::chart::Chart;
use super::frame::{Extra, Frame};
use super::home_page::tile;
use super::html::{Count, Escaped, encoded};
use super::unread;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// The page of an island, from the bodies of `/v1/islands/{code}` and, where histories are published,
/// of `/v1/islands/{code}/ccu`.
pub fn island(detail: &[u8], history: Option<&[u8]>) -> String {
    let Ok(IslandDetail { island, meta }) = from_slice(detail) else {
        return unread("../");
    };
    let history = history.and_then(|body| from_slice::<CcuHistory>(body).ok());
    let generated_at = Escaped(&meta.generated_at);
    let name = titled(&island.title, &island.code);
    let content = format!(
        "<h1><bdi>{}</bdi></h1>{}{}{}<p class=soft>Published <time class=ago datetime=\"{generated_at}\">{generated_at}</time>. \
         Served by <a href=\"../docs#getIsland\"><code>/v1/islands/{}</code></a></p>",
        Escaped(name),
        about(&island),
        newest(&island),
        history.as_ref().map_or_else(String::new, peaks),
        Escaped(&island.code),
    );
    let title = format!("{name} \u{2013} Island metrics");
    let frame = Frame {
        title: &title,
        root: "../",
        extra: Extra::Charts,
    };
    frame.around(&content)
}

fn about(island: &Island) -> String {
    let mut out = format!("<p><code>{}</code>", Escaped(&island.code));
    if let Some(slug) = &island.creator {
        let encoded = encoded(slug);
        let _ = write!(
            out,
            " by <a href=\"../?creator={encoded}\"><bdi>{}</bdi></a>",
            Escaped(slug)
        );
    }
    if let Some(tool) = &island.created_in {
        let encoded = encoded(tool);
        let _ = write!(
            out,
            ", made in <a href=\"../?createdIn={encoded}\">{}</a>",
            Escaped(tool)
        );
    }
    if let (Some(first), Some(last)) = (&island.first_seen, &island.last_seen) {
        let _ = write!(out, "; seen {} to {}", Escaped(first), Escaped(last));
    }
    if !island.tags.is_empty() {
        out.push_str("<br>Tags:");
        for tag in &island.tags {
            let encoded = encoded(tag);
            let _ = write!(
                out,
                " <a href=\"../?tag={encoded}\"><bdi>{}</bdi></a>",
                Escaped(tag)
            );
        }
    }
    out.push_str("</p>");
    out
}

fn newest(island: &Island) -> String {
    let Some(date) = &island.date else {
        return String::new();
    };
    let share = |part: Option<f64>| {
        part.map_or_else(
            || "\u{2013}".to_owned(),
            |part| format!("{:.0}%", part * 100.0),
        )
    };
    let average = island
        .average_minutes_per_player
        .map_or_else(|| "\u{2013}".to_owned(), |minutes| format!("{minutes:.1}"));
    let count = |name, value| tile(name, &Count(value).to_string());
    format!(
        "<h2>{}</h2><dl>{}{}{}{}{}{}{}{}{}</dl>",
        Escaped(date),
        count("Peak players", island.peak_ccu),
        count("Unique players", island.unique_players),
        count("Plays", island.plays),
        count("Minutes played", island.minutes_played),
        tile("Minutes per player", &average),
        count("Favorites", island.favorites),
        count("Recommendations", island.recommendations),
        tile("Back after a day", &share(island.retention_d1)),
        tile("Back after a week", &share(island.retention_d7)),
    )
}

fn peaks(history: &CcuHistory) -> String {
    let points: Vec<(i64, u64)> = history
        .ccu
        .iter()
        .filter_map(|(day, peak)| Some((i64::from(UtcDay::parse(day)?.0) * DAY_SECONDS, *peak)))
        .collect();
    let name = |time: i64| UnixSeconds(time).day().to_string();
    let Some(chart) = Chart::new("Daily peaks", &points, DAY_SECONDS, name) else {
        return "<h2>Daily peaks</h2><p>No peaks are known.</p>".to_owned();
    };
    format!(
        "<h2>Daily peaks</h2>{}<p class=soft>Days known: {}; a gap is a day without data. Served by \
         <a href=\"../docs#getIslandCcu\"><code>ccu</code></a></p>",
        chart.figure(),
        Count(Some(points.len() as u64)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETAIL: &str = r#"{"island":{"code":"0000-0000-0001","title":"A <b>","creator":"é/x","createdIn":
        "uefn","tags":["pvp"],"firstSeen":"2026-11-01","lastSeen":"2026-11-20","date":"2026-11-20",
        "peakCCU":1200,"uniquePlayers":null,"minutesPlayed":3,"favorites":4,"plays":5,"recommendations":6,
        "averageMinutesPerPlayer":1.25,"retentionD1":0.114,"retentionD7":null,"series":[{"date":"x"}]},
        "meta":{"generatedAt":"2026-11-21T12:05:00Z"}}"#;

    #[test]
    fn an_island_shows_its_newest_day_and_its_peaks() {
        let history =
            br#"{"code":"0000-0000-0001","ccu":[["2026-11-01",5],["2026-11-03",9]],"meta":{}}"#;
        let page = island(DETAIL.as_bytes(), Some(history));
        for part in [
            "<h1><bdi>A &lt;b&gt;</bdi></h1>",
            "<a href=\"../?creator=%C3%A9%2Fx\"><bdi>é/x</bdi></a>",
            "<a href=\"../?tag=pvp\"><bdi>pvp</bdi></a>",
            "<a href=\"../?createdIn=uefn\">uefn</a>",
            "<dt>Peak players<dd>1,200",
            "<dt>Unique players<dd>\u{2013}",
            "<dt>Back after a day<dd>11%",
            "data-values=\"5,,9\"",
            "highest 9 on 2026-11-03, lowest 5 on 2026-11-01",
            "Days known: 2",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        let without = island(
            DETAIL.as_bytes(),
            Some(br#"{"code":"c","ccu":[],"meta":{}}"#),
        );
        assert!(without.contains("No peaks are known"));
        assert!(!island(DETAIL.as_bytes(), None).contains("Daily peaks"));
    }
}
