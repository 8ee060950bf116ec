//! [`DayCounts`]: the counters of a state directory, from which the store is filled after a start and after a loss
//! of data.

use std::iter;
use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;

use crate::calendar::UtcDay;
use crate::quota::{AnonymousQuota, KeyedQuota, LeaseClient, LeaseRequest, LeaseTable};

/// Requests of one call to the store.
pub(super) const BATCH: usize = 256;
/// Counters of clients that are read at a time.
const SLOTS: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct DayCounts {
    pub(crate) anonymous: Arc<AnonymousQuota>,
    pub(crate) keyed: Arc<KeyedQuota>,
}

impl DayCounts {
    /// Returns the clients with requests on a day, and their number.
    pub(super) fn of_day(&self, day: UtcDay) -> impl Iterator<Item = (LeaseClient, u32)> + use<> {
        let DayCounts { anonymous, keyed } = self.clone();
        let slots = (0..anonymous.slots()).step_by(SLOTS);
        let of_addresses = slots.flat_map(move |at| anonymous.counts(day, at..at + SLOTS));
        let of_keys = iter::once_with(move || keyed.counts(day));
        of_addresses.chain(of_keys.flatten())
    }

    /// Returns the requests that settle all leases and all counts of a day. Counts of a client with a lease are sent
    /// with it: it may have begun meanwhile.
    fn settlements(&self, leases: &LeaseTable, day: UtcDay) -> impl Iterator<Item = LeaseRequest> {
        let of_leases = leases.settlements();
        let counts = self.of_day(day);
        let of_counts =
            counts.map(move |(client, counted)| leases.settlement(client, day, counted));
        of_leases.chain(of_counts)
    }

    /// Begins a pass over all leases and all counts of a day. Returns the requests that settle them.
    pub(super) fn pass(&self, leases: Arc<LeaseTable>, day: UtcDay) -> Receiver<LeaseRequest> {
        let (sender, settlements) = channel(BATCH);
        let counts = self.clone();
        spawn_blocking(move || {
            let mut requests = counts.settlements(&leases, day);
            // The receiver is dropped when another pass begins.
            requests.all(|request| sender.blocking_send(request).is_ok())
        });
        settlements
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::RequestTime;
    use crate::quota::{
        AnonymousClient, ClientCounter, Decision, NoLease, OutagePolicy, SharingSettings,
        StoreState, TableSize,
    };

    const LIMIT: u16 = 9;
    const DAY: UtcDay = UtcDay(20_800);

    impl ClientCounter for (&AnonymousQuota, AnonymousClient) {
        fn admit(&self, _: u32) -> Result<Decision, NoLease> {
            Ok(self.0.admit(self.1, LIMIT, DAY))
        }

        fn peek(&self, _: u32) -> Option<u32> {
            Some(self.0.peek(self.1, LIMIT, DAY))
        }
    }

    #[test]
    fn counts_of_a_client_that_returns_during_a_pass_are_sent() {
        let counts = DayCounts {
            anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100))),
            keyed: Arc::new(KeyedQuota::new(None)),
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
        let leases = Arc::new(LeaseTable::new(settings, |_| ()));
        leases.set_state(StoreState::Settling);
        let (name, _) = counts.of_day(DAY).next().unwrap();
        let sent = counts.settlements(&leases, DAY);
        let now = RequestTime {
            day: DAY,
            moment: DAY.start(),
        };
        let counter = (&*counts.anonymous, client);
        let refused = leases.admit(name, LIMIT.into(), now, None, &counter);
        assert!(refused.is_err() && leases.clients() == 1);
        let sent: Vec<_> = sent.map(|one| (one.client, one.counted)).collect();
        assert_eq!(sent, [(name, 3); 2], "of the lease, and of the counts");
    }
}
