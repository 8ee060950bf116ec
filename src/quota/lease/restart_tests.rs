//! Tests of clients that were counted before a restart, and of servers without the store.

use super::tests::admit_without_answer;
use super::*;
use crate::quota::lease::server_model_tests::{Counter, Counts, NOW, answer, table};

fn count_before_a_restart(counter: &Counter<'_>) {
    for _ in 0..30 {
        let _ = counter.admit(200);
    }
}

/// Only the store knows the requests that other servers admitted before a restart.
#[test]
fn a_server_that_starts_without_the_store_shows_what_it_admits_then() {
    for returns_after in [0, 5, 70] {
        let (table, _) = table(2, OutagePolicy::Share);
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        count_before_a_restart(&counter);
        // It had shown 70: another server had admitted 100.
        let peek = || table.peek(client, 200, NOW.day, &counter).unwrap();
        assert_eq!(peek(), 70);
        for left in (0..70).rev().take(returns_after) {
            // The limit may not be reached when the share is.
            let remaining = left.max(1);
            let admitted = table.admit(client, 200, NOW, None, &counter);
            assert!(matches!(admitted, Ok(admitted) if admitted == Decision::Admit { remaining }));
            assert_eq!(peek(), remaining);
        }
        if returns_after == 70 {
            let refused = table.admit(client, 200, NOW, None, &counter);
            assert!(matches!(refused, Err(NoLease::Unavailable)));
            assert_eq!(peek(), 1);
        }
        let shown = peek();
        table.set_state(StoreState::Ready);
        assert_eq!(peek(), shown);
        let requests: Vec<_> = table.settlements().collect();
        assert_eq!(requests.len(), 1);
        answer(&table, &requests[0], requests[0].granted, 130);
        assert_eq!(peek(), shown.min(70 - requests[0].granted));
    }
}

/// A store that answers late, and requests that are not counted, show no more than a store that is away.
#[test]
fn a_server_shows_its_share_until_the_store_has_answered() {
    for state in [StoreState::Settling, StoreState::Late, StoreState::Ready] {
        let (table, sent) = table(2, OutagePolicy::Share);
        table.set_state(state);
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        count_before_a_restart(&counter);
        let peek = || table.peek(client, 200, NOW.day, &counter).unwrap();
        assert_eq!(peek(), 70);
        let admitted = admit_without_answer(&table, client, &counter);
        assert!(matches!(admitted, Ok(Decision::Admit { remaining: 69 })));
        let request = lock(&sent).remove(0);
        answer(&table, &request, request.granted + 10, 60);
        assert_eq!(peek(), 69);
    }
}

/// The counts that a server sends after a restart bring back what all servers have admitted.
#[test]
fn a_restarted_server_shows_what_the_store_knows_of_a_client_that_was_counted() {
    for (others, state, shown) in [
        (100, StoreState::Ready, 70),
        (170, StoreState::Late, 0),
        // The store may not know yet what others admitted.
        (100, StoreState::Settling, 70),
    ] {
        let (table, sent) = table(2, OutagePolicy::Share);
        table.set_state(state);
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        count_before_a_restart(&counter);
        let settlement = table.settlement(client, NOW.day, 30);
        answer(&table, &settlement, 0, 30 + others);
        assert_eq!(table.clients(), u64::from(state.grants()));
        // As for a request that is not counted.
        assert_eq!(table.peek(client, 200, NOW.day, &counter), Some(shown));
        let admitted = table.admit(client, 200, NOW, None, &counter);
        match (state, admitted) {
            (StoreState::Ready, Err(NoLease::Wait(_))) => {
                let request = lock(&sent).remove(0);
                assert_eq!((request.limit, request.counted), (200, 30));
                answer(&table, &request, 10, 30 + others);
                let admitted = table.admit(client, 200, NOW, None, &counter);
                assert!(matches!(admitted, Ok(Decision::Admit { remaining: 69 })));
            }
            (StoreState::Late, Ok(Decision::Refuse))
            | (StoreState::Settling, Ok(Decision::Admit { remaining: 69 })) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The share of a server that is the only one is the whole limit: it knows when that is reached.
#[test]
fn the_only_server_refuses_what_is_beyond_the_limit_without_the_store() {
    let (table, _) = table(1, OutagePolicy::Share);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    for remaining in (0..20).rev() {
        let admitted = table.admit(client, 20, NOW, None, &counter);
        assert!(matches!(admitted, Ok(admitted) if admitted == Decision::Admit { remaining }));
    }
    let refused = table.admit(client, 20, NOW, None, &counter);
    assert!(matches!(refused, Ok(Decision::Refuse)));
}

/// Another server may have given credits back since the store answered.
#[test]
fn a_restarted_server_asks_again_before_it_refuses_a_client() {
    let (table, sent) = table(2, OutagePolicy::Share);
    table.set_state(StoreState::Ready);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    count_before_a_restart(&counter);
    answer(&table, &table.settlement(client, NOW.day, 30), 0, 200);
    let admit = || table.admit(client, 200, NOW, None, &counter);
    assert!(matches!(admit(), Err(NoLease::Wait(_))));
    answer(&table, &lock(&sent).remove(0), 1, 150);
    assert!(matches!(admit(), Ok(Decision::Admit { remaining: 49 })));
    assert!(matches!(admit(), Err(NoLease::Wait(_))));
    answer(&table, &lock(&sent).remove(0), 1, 199);
    assert!(matches!(admit(), Ok(Decision::Refuse)));
}
