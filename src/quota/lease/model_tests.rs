//! The model of the store, as the oracle for its scripts.

use std::collections::{BTreeSet, HashMap};

use super::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest, has_reserves};
use crate::calendar::UtcDay;

/// The rules of the store, in the plainest form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoreModel {
    /// The number of the marker; `None` in an empty store.
    pub(crate) marker: Option<u32>,
    /// The run of the store in which the marker was checked last.
    pub(crate) run: u32,
    /// The day of the marker: the newest day of a server that had not sent its counts.
    pub(crate) day: UtcDay,
    /// The next day, if a server may have been on it when the marker began.
    pub(crate) ahead: UtcDay,
    /// The state directories whose counts were sent under the marker.
    pub(crate) sent: BTreeSet<u32>,
    /// All servers have sent theirs.
    pub(crate) has_all: bool,
    /// The state directories with a reserve for each client of a day; `None` if some were forgotten.
    reserves: HashMap<UtcDay, Option<BTreeSet<u32>>>,
    days: HashMap<(LeaseClient, UtcDay), ClientDay>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ClientDay {
    limit: u32,
    /// Credits by state directory and start; of start 0, what was counted before.
    received: HashMap<(u32, u32), u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct JoinModel {
    pub(crate) new_marker: u32,
    pub(crate) run: u32,
    pub(crate) directory: u32,
    pub(crate) day: UtcDay,
    pub(crate) servers: u32,
    /// The marker for which its counts were sent.
    pub(crate) settled: Option<u32>,
    /// It may have counts of `day`.
    pub(crate) has_counts: bool,
    /// Less than an hour of `day` is left, by which clocks may differ.
    pub(crate) ends_soon: bool,
}

impl StoreModel {
    /// A server joins; returns the marker, and `true` if the server has reserves on its day.
    pub(crate) fn join(&mut self, join: &JoinModel) -> (u32, bool) {
        let kept = self.marker.filter(|_| self.run == join.run);
        let marker = kept.unwrap_or(join.new_marker);
        if kept.is_none() {
            (self.marker, self.day) = (Some(marker), UtcDay(0));
            self.ahead = UtcDay(if join.ends_soon { join.day.0 + 1 } else { 0 });
            self.sent.clear();
            self.reserves.clear();
            self.has_all = false;
        }
        self.run = join.run;
        if !self.sent.contains(&join.directory) {
            self.day = self.day.max(join.day);
        }
        if join.settled == Some(marker) {
            self.sent.insert(join.directory);
        }
        self.has_all |= self.sent.len() >= join.servers as usize;
        let reserves = self.reserves.get(&join.day).cloned().flatten();
        let is_known = reserves.is_some_and(|of_day| of_day.contains(&join.directory));
        if join.has_counts && join.day <= self.day && !is_known && !self.has_all {
            self.reserves.insert(join.day, None);
        }
        let reserves = self.reserves_of(join.day, join.directory, join.servers);
        let has_reserve = reserves.is_some_and(|of_day| of_day.contains(&join.directory));
        (marker, has_reserve)
    }

    /// The servers with reserves on a day: the first that join or request credits.
    fn reserves_of(&mut self, day: UtcDay, directory: u32, servers: u32) -> Option<BTreeSet<u32>> {
        let reserves = self.reserves.entry(day).or_insert(Some(BTreeSet::new()));
        if let Some(of_day) = reserves
            && of_day.len() < servers as usize
        {
            of_day.insert(directory);
        }
        reserves.clone()
    }

    /// The last day for which nothing is granted.
    pub(crate) fn blocked(&self) -> UtcDay {
        if self.has_all {
            UtcDay((self.day.0 - 1).max(0))
        } else {
            self.day.max(self.ahead)
        }
    }

    /// Handles a request of a start of a server. `None`: the store has lost data since the server joined.
    pub(crate) fn handle(
        &mut self,
        (marker, directory, start): (u32, u32, u32),
        request: &LeaseRequest,
        servers: u32,
    ) -> Option<LeaseAnswer> {
        if self.marker != Some(marker) {
            return None;
        }
        let blocked = self.blocked();
        let reserves = self.reserves_of(request.day, directory, servers);
        let day = self.days.entry((request.client, request.day)).or_default();
        if day.limit == 0 {
            day.limit = request.limit;
        }
        let own = (directory, start);
        let is_earlier = |at: &(u32, u32)| at.0 == directory && *at != own;
        let earlier = day.received.iter().filter(|(at, _)| is_earlier(at));
        let earlier: u32 = earlier.map(|(_, count)| count).sum();
        let missing = request.counted.saturating_sub(earlier);
        *day.received.entry((directory, 0)).or_default() += missing;
        let stored = day.received.get(&own).copied().unwrap_or(0);
        let mut received = stored.max(request.granted);
        let others: u32 = day.received.values().sum::<u32>() - stored;
        // A credit is kept for each server that may have admitted one request that the store does not know yet.
        let has_figures = |directory: &&u32| {
            let mut figures = day.received.iter();
            figures.any(|(at, count)| at.0 == **directory && *count > 0)
        };
        let known = |at: &&u32| **at == directory || has_figures(at);
        let kept = reserves.map_or(0, |of_day| {
            (servers as usize).max(of_day.len()) - of_day.iter().filter(known).count()
        });
        let kept = u32::try_from(kept).expect("a few servers");
        let named = [request.limit, day.limit]
            .into_iter()
            .find(|limit| *limit > 0);
        let others = others + kept * u32::from(has_reserves(named.unwrap_or(0), servers));
        match request.action {
            LeaseAction::Return => received = request.granted,
            LeaseAction::Grant(wanted) if received == request.granted && request.day > blocked => {
                let left = request.limit.saturating_sub(others + received);
                let usual = left.div_ceil(4 * servers).clamp(1, GRANT_MAX);
                received += usual.max(wanted).min(left);
            }
            LeaseAction::Grant(_) | LeaseAction::Settle => {}
        }
        day.received.insert(own, received);
        Some(LeaseAnswer {
            granted: received,
            total: others + received,
            limit: day.limit,
        })
    }
}
