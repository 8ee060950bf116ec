//! Which clients have a lease, what is sent for them, and figures that no server counts.

use super::*;
use crate::quota::lease::server_model_tests::{Counter, Counts, NOW, answer, table};

const TOMORROW: RequestTime = RequestTime {
    day: UtcDay(NOW.day.0 + 1),
    ..NOW
};

#[test]
fn a_client_without_a_counter_or_with_a_limit_of_0_sends_the_store_nothing() {
    struct NoCounter;
    impl ClientCounter for NoCounter {
        fn admit(&self, _: u32) -> Result<Decision, NoLease> {
            Err(NoLease::Unavailable)
        }

        fn peek(&self, _: u32) -> Option<u32> {
            None
        }
    }
    for state in [StoreState::Away, StoreState::Ready] {
        let (table, sent) = table(2, OutagePolicy::Share);
        table.set_state(state);
        let client = LeaseClient::Key(1);
        assert_eq!(table.peek(client, 200, NOW.day, &NoCounter), None);
        let unknown = table.admit(client, 200, NOW, None, &NoCounter);
        assert!(matches!(unknown, Err(NoLease::Unavailable)));
        let (counts, of_day) = (Counts::default(), (client, NOW.day));
        let refused = table.admit(client, 0, NOW, None, &Counter(&counts, of_day));
        assert!(matches!(refused, Ok(Decision::Refuse)));
        assert!(table.settlements().next().is_none() && lock(&sent).is_empty());
    }
}

#[test]
fn figures_that_no_server_counts_end_in_a_refusal() {
    let (table, sent) = table(2, OutagePolicy::Share);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let admitted = table.admit(client, 200, NOW, None, &counter);
    assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    table.set_state(StoreState::Ready);
    let settlement = table.settlement(client, NOW.day, u32::MAX);
    answer(&table, &settlement, 0, u32::MAX);
    let refused = table.admit(client, 200, NOW, None, &counter);
    assert!(matches!(refused, Ok(Decision::Refuse)));
    assert!(lock(&sent).iter().all(|request| request.counted == 0));
    // Also if the damaged figure is that of this server.
    let damaged = table.settlement(LeaseClient::Key(2), NOW.day, u32::MAX);
    assert_eq!(damaged.counted, super::super::FIGURE_MAX);
    answer(&table, &damaged, 0, u32::MAX);
    assert_eq!(
        table.peek(LeaseClient::Key(2), 200, NOW.day, &counter),
        Some(0)
    );
}

/// Admits a request of each key.
fn admit_each(table: &LeaseTable, keys: std::ops::Range<u64>, now: RequestTime) {
    for key in keys {
        let (client, counts) = (LeaseClient::Key(key), Counts::default());
        let counter = Counter(&counts, (client, now.day));
        let admitted = table.admit(client, 200, now, None, &counter);
        assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    }
}

/// A client for which no lease can be kept has the share of this server, in every figure, or nothing by the policy. The
/// leases of a day leave their room to those of the next one.
#[test]
fn a_full_table_shows_the_share_that_it_admits() {
    let (mut table, _) = table(2, OutagePolicy::Share);
    table.settings.clients_max = 64;
    admit_each(&table, 2..6_000, NOW);
    // One in each part, and eight beyond.
    assert_eq!(table.clients(), 64 * 9);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    for remaining in [99, 98, 97] {
        let admitted = table.admit(client, 200, NOW, None, &counter);
        assert!(matches!(admitted, Ok(admitted) if admitted == Decision::Admit { remaining }));
        assert_eq!(table.peek(client, 200, NOW.day, &counter), Some(remaining));
    }
    table.settings.outage = OutagePolicy::Refuse;
    for state in [StoreState::Ready, StoreState::Away] {
        table.set_state(state);
        let refused = table.admit(client, 200, NOW, None, &counter);
        assert!(matches!(refused, Err(NoLease::Unavailable)));
        assert_eq!(table.peek(client, 200, NOW.day, &counter), None);
    }
    let counter = Counter(&counts, (client, TOMORROW.day));
    table.settings.outage = OutagePolicy::Share;
    let admitted = table.admit(client, 200, TOMORROW, None, &counter);
    assert!(admitted.is_ok() && table.shard(client).leases.contains_key(&client));
}

#[test]
fn a_small_table_has_a_lease_for_each_client() {
    let (mut table, _) = table(2, OutagePolicy::Share);
    table.settings.clients_max = 1_000;
    admit_each(&table, 0..1_000, NOW);
    assert_eq!(table.clients(), 1_000);
}

/// Most clients send one request a day, to one server.
#[test]
fn a_client_with_one_request_has_no_lease() {
    // From the second one on, the share of this server: what others admitted is not known before the answer.
    for (requests, shown, total, leases) in [(1, 199, 1, 0), (1, 199, 3, 1), (2, 98, 2, 1)] {
        let (table, _) = table(2, OutagePolicy::Share);
        table.set_state(StoreState::Ready);
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        (0..requests).for_each(|_| _ = counter.admit(200));
        let settlement = table.settlement(client, NOW.day, requests);
        answer(&table, &settlement, 0, total);
        assert_eq!(table.clients(), leases);
        let left = 200 - total;
        assert_eq!(table.peek(client, 200, NOW.day, &counter), Some(left));
        // A lease that has ended does not begin again.
        table.shard(client).begin(TOMORROW.day);
        answer(&table, &settlement, 0, total);
        assert_eq!(table.clients(), 0);
        assert_eq!(table.peek(client, 200, NOW.day, &counter), Some(shown));
    }
}

#[test]
fn leases_of_days_that_have_passed_are_removed_with_half_of_their_room() {
    let (mut table, _) = table(2, OutagePolicy::Share);
    table.settings.clients_max = 10_000;
    admit_each(&table, 0..6_000, NOW);
    let rooms = |table: &LeaseTable| {
        let room = |shard: &Mutex<Shard>| lock(shard).leases.capacity();
        table.shards.iter().map(room).collect::<Vec<_>>()
    };
    let before = rooms(&table);
    admit_each(&table, 0..6_000, NOW);
    assert_eq!((table.clients(), rooms(&table)), (6_000, before.clone()));
    admit_each(&table, 0..1_000, TOMORROW);
    assert_eq!(table.clients(), 1_000);
    for (before, after) in before.into_iter().zip(rooms(&table)) {
        assert!((before / 4..before).contains(&after), "{before} {after}");
    }
}

#[test]
fn only_unspent_credits_are_given_back() {
    let (table, sent) = table(2, OutagePolicy::Share);
    table.set_state(StoreState::Ready);
    let counts = Counts::default();
    for (key, granted) in [(1, 1), (2, 5)] {
        let client = LeaseClient::Key(key);
        let counter = Counter(&counts, (client, NOW.day));
        let waits = table.admit(client, 200, NOW, None, &counter);
        assert!(matches!(waits, Err(NoLease::Wait(_))));
        answer(&table, &lock(&sent).remove(0), granted, 200 - granted);
        let admitted = table.admit(client, 200, NOW, None, &counter);
        assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    }
    let returned = table.give_back();
    let returned: Vec<_> = returned.map(|it| (it.client, it.granted)).collect();
    assert_eq!(returned, [(LeaseClient::Key(2), 1)]);
}

#[test]
fn a_settled_lease_is_not_settled_again() {
    let (table, sent) = table(2, OutagePolicy::Refuse);
    table.set_state(StoreState::Settling);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let refused = table.admit(client, 200, NOW, None, &counter);
    assert!(matches!(refused, Err(NoLease::Unavailable)));
    assert!(lock(&sent).is_empty());
}

/// It does not make a store that is away answer.
#[test]
fn no_request_waits_for_a_store_that_is_late() {
    for state in [StoreState::Away, StoreState::Settling, StoreState::Ready] {
        let (table, _) = table(2, OutagePolicy::Share);
        table.set_state(state);
        table.set_late();
        let is_late = state == StoreState::Ready;
        assert_eq!(
            table.state(),
            if is_late { StoreState::Late } else { state }
        );
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        let admitted = table.admit(client, 200, NOW, None, &counter);
        assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    }
}
