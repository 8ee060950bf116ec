//! Clients without a counter or a lease, and figures that no server counts.

use super::*;
use crate::quota::lease::server_model_tests::{Counter, Counts, table};

const NOW: RequestTime = RequestTime {
    day: UtcDay(20_000),
    reset_seconds: 9,
};

#[test]
fn a_client_without_a_counter_is_refused_and_sends_the_store_nothing() {
    struct None;
    impl ClientCounter for None {
        fn admit(&self, _: u32) -> Decision {
            Decision::Refuse
        }

        fn peek(&self, _: u32) -> Option<u32> {
            Option::None
        }
    }
    for state in [StoreState::Away, StoreState::Ready] {
        let (table, sent) = table(2, OutagePolicy::Share);
        table.set_state(state);
        let client = LeaseClient::Key(1);
        assert_eq!(table.peek(client, 200, NOW.day, &None), 0);
        let refused = table.admit(client, 200, NOW, true, &None);
        assert!(matches!(refused, Ok(Decision::Refuse)));
        assert!(table.settlements().is_empty() && lock(&sent).is_empty());
    }
}

#[test]
fn figures_that_no_server_counts_end_in_a_refusal() {
    let (table, sent) = table(2, OutagePolicy::Share);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let admitted = table.admit(client, 200, NOW, false, &counter);
    assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    table.set_state(StoreState::Ready);
    let settlement = table.settlement(client, NOW.day, u32::MAX);
    let lost = LeaseAnswer {
        granted: 0,
        total: u32::MAX,
        limit: 200,
    };
    table.answer(&settlement, lost, UnixSeconds(0));
    let refused = table.admit(client, 200, NOW, true, &counter);
    assert!(matches!(refused, Ok(Decision::Refuse)));
    assert!(lock(&sent).iter().all(|request| request.counted == 0));
    // Also if the damaged figure is that of this server.
    let damaged = table.settlement(LeaseClient::Key(2), NOW.day, u32::MAX);
    assert_eq!(damaged.counted, super::super::FIGURE_MAX);
    table.answer(&damaged, lost, UnixSeconds(0));
    assert_eq!(table.peek(LeaseClient::Key(2), 200, NOW.day, &counter), 0);
}

/// Admits a request of each key.
fn admit_each(table: &LeaseTable, keys: std::ops::Range<u64>) {
    for key in keys {
        let (client, counts) = (LeaseClient::Key(key), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        let admitted = table.admit(client, 200, NOW, true, &counter);
        assert!(matches!(admitted, Ok(Decision::Admit { .. })));
    }
}

/// A client for which no lease can be kept has the share of this server, in every figure.
#[test]
fn a_full_table_shows_the_share_that_it_admits() {
    let (mut table, _) = table(2, OutagePolicy::Share);
    table.settings.clients_max = 64;
    admit_each(&table, 2..6_000);
    // One in each part, and eight beyond.
    assert_eq!(table.clients(), 64 * 9);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    for remaining in [99, 98, 97] {
        let admitted = table.admit(client, 200, NOW, true, &counter);
        assert!(matches!(admitted, Ok(admitted) if admitted == Decision::Admit { remaining }));
    }
    assert_eq!(table.peek(client, 200, NOW.day, &counter), 97);
}

#[test]
fn a_small_table_has_a_lease_for_each_client() {
    let (mut table, _) = table(2, OutagePolicy::Share);
    table.settings.clients_max = 1_000;
    admit_each(&table, 0..1_000);
    assert_eq!(table.clients(), 1_000);
}
