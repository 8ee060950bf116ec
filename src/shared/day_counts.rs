//! [`DayCounts`]: the counters of a state directory, from which the store is filled after a start and after a loss
//! of data.

use std::ops::Range;
use std::sync::Arc;

use crate::calendar::UtcDay;
use crate::keys::KeyTable;
use crate::quota::{
    AnonymousQuota, KeyedQuota, LeaseAction, LeaseClient, LeaseRequest, LeaseTable,
};
use crate::sync::Replicated;

/// Requests of one step, and of one call to the store.
pub(super) const BATCH: usize = 256;
/// Counters that are read in one step: a fraction of a millisecond.
const READ_AT_ONCE: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct DayCounts {
    pub(crate) anonymous: Arc<AnonymousQuota>,
    pub(crate) keyed: Arc<KeyedQuota>,
    pub(crate) keys: Arc<Replicated<KeyTable>>,
}

/// A pass over all counts of a day.
#[derive(Debug)]
pub(super) struct SettlingPass {
    day: UtcDay,
    leases: Vec<LeaseRequest>,
    slots: Range<usize>,
    /// The numbers and ids of the keys.
    keys: Vec<(u32, u64)>,
    is_over: bool,
}

impl SettlingPass {
    /// Begins a pass over the leases and the counters of a day.
    pub(super) fn new(counts: &DayCounts, leases: &LeaseTable, day: UtcDay) -> SettlingPass {
        SettlingPass {
            day,
            leases: leases.settlements(),
            slots: 0..counts.anonymous.slots(),
            keys: counts.keys.current().active().collect(),
            is_over: false,
        }
    }

    /// Returns `true` if all counts have been returned by `step`.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the next requests, at most `count`, perhaps none before the pass is over.
    pub(super) fn step(
        &mut self,
        counts: &DayCounts,
        leases: &LeaseTable,
        count: usize,
    ) -> Vec<LeaseRequest> {
        let at = self.leases.len().saturating_sub(count);
        let mut batch = self.leases.split_off(at);
        let mut read = 0;
        while batch.len() < count && read < READ_AT_ONCE && !self.slots.is_empty() {
            let end = self.slots.end.min(self.slots.start + count - batch.len());
            let slots = self.slots.start..end;
            self.slots.start = end;
            read += slots.len();
            let found = counts.anonymous.counts(self.day, slots);
            self.add(found, leases, &mut batch);
        }
        while batch.len() < count && self.slots.is_empty() {
            let Some((number, id)) = self.keys.pop() else {
                self.is_over = true;
                break;
            };
            let found = counts.keyed.counts(self.day, number..number + 1);
            let found = found
                .into_iter()
                .map(|(_, count)| (LeaseClient::Key(id), count));
            self.add(found.collect(), leases, &mut batch);
        }
        batch
    }

    /// Adds the counts of clients. Those of a lease are sent with it: it may have begun during the pass.
    fn add(
        &self,
        found: Vec<(LeaseClient, u32)>,
        leases: &LeaseTable,
        batch: &mut Vec<LeaseRequest>,
    ) {
        batch.extend(found.into_iter().map(|(client, counted)| {
            let of_lease = leases.settlement(client, self.day);
            of_lease.unwrap_or(LeaseRequest {
                client,
                day: self.day,
                granted: 0,
                counted,
                limit: 0,
                action: LeaseAction::Settle,
            })
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::RequestTime;
    use crate::keys::{KeyPrefix, KeyRecords};
    use crate::quota::{
        AnonymousClient, ClientCounter, Decision, OutagePolicy, SharingSettings, StoreState,
        TableSize,
    };

    const LIMIT: u16 = 9;
    const DAY: UtcDay = UtcDay(20_800);

    impl ClientCounter for (&AnonymousQuota, AnonymousClient) {
        fn admit(&self, _: u32) -> Decision {
            self.0.admit(self.1, LIMIT, DAY)
        }

        fn peek(&self, _: u32) -> u32 {
            self.0.peek(self.1, LIMIT, DAY)
        }
    }

    #[test]
    fn counts_of_a_client_that_returns_during_a_pass_are_sent() {
        let counts = DayCounts {
            anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100))),
            keyed: Arc::new(KeyedQuota::new(None)),
            keys: Arc::new(Replicated::new(KeyTable::new(
                KeyPrefix::default(),
                &KeyRecords::default(),
            ))),
        };
        let client = AnonymousClient::new(&counts.anonymous, [198, 18, 0, 1].into());
        for _ in 0..3 {
            let admitted = counts.anonymous.admit(client, LIMIT, DAY);
            assert_ne!(admitted, Decision::Refuse);
        }
        let settings = SharingSettings {
            servers: 2,
            outage: OutagePolicy::Refuse,
            clients_max: 100,
        };
        let leases = LeaseTable::new(settings, |_| ());
        leases.set_state(StoreState::Settling);
        let mut pass = SettlingPass::new(&counts, &leases, DAY);
        let (name, _) = counts.anonymous.counts(DAY, 0..counts.anonymous.slots())[0];
        let now = RequestTime {
            day: DAY,
            reset_seconds: 9,
        };
        let counter = (&*counts.anonymous, client);
        let refused = leases.admit(name, LIMIT.into(), now, false, &counter);
        assert!(refused.is_err() && leases.clients() == 1);
        let mut sent = Vec::new();
        while !pass.is_over() {
            sent.extend(pass.step(&counts, &leases, BATCH));
        }
        let sent: Vec<_> = sent.iter().map(|one| (one.client, one.counted)).collect();
        assert_eq!(sent, [(name, 3)]);
    }
}
