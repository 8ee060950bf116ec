//! The model of the store, as the oracle for its scripts.

use std::collections::{BTreeSet, HashMap};

use super::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest};
use crate::calendar::UtcDay;

/// The rules of the store, in the plainest form.
#[derive(Clone, Debug)]
pub(crate) struct StoreModel {
    /// The number of the marker; `None` in an empty store.
    pub(crate) marker: Option<u32>,
    /// The run of the store in which the marker was checked last.
    pub(crate) run: u32,
    /// The day of the marker: the newest day of a server that had not sent its counts.
    pub(crate) day: UtcDay,
    /// The state directories whose counts were sent under the marker.
    pub(crate) sent: BTreeSet<u32>,
    /// All servers have sent theirs.
    pub(crate) has_all: bool,
    days: HashMap<(LeaseClient, UtcDay), ClientDay>,
}

#[derive(Clone, Debug, Default)]
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
}

impl Default for StoreModel {
    fn default() -> StoreModel {
        StoreModel {
            marker: None,
            run: 0,
            day: UtcDay(0),
            sent: BTreeSet::new(),
            has_all: false,
            days: HashMap::new(),
        }
    }
}

impl StoreModel {
    /// A server joins; returns the marker.
    pub(crate) fn join(&mut self, join: &JoinModel) -> u32 {
        let kept = self.marker.filter(|_| self.run == join.run);
        let marker = kept.unwrap_or(join.new_marker);
        if kept.is_none() {
            (self.marker, self.day) = (Some(marker), UtcDay(0));
            self.sent.clear();
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
        marker
    }

    /// The last day for which nothing is granted.
    pub(crate) fn blocked(&self) -> UtcDay {
        UtcDay((self.day.0 - i32::from(self.has_all)).max(0))
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
        match request.action {
            LeaseAction::Return => received = request.granted,
            LeaseAction::Grant(wanted) if received == request.granted && request.day > blocked => {
                let left = request.limit.saturating_sub(others + received);
                let usual = (left / (4 * servers)).clamp(1, GRANT_MAX);
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
