//! Requests that wait for credits, and those that the store answers late.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::quota::lease::server_model_tests::{Counter, Counts, NOW, answer, table};
use crate::sync::WakeCount;

/// A request that waits, and its last waker.
struct Waiting<'a> {
    client: LeaseClient,
    wait: Pin<Box<dyn Future<Output = ()> + 'a>>,
    woken: Arc<WakeCount>,
}

impl Waiting<'_> {
    fn poll(&mut self) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.wait.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Random requests wait, are polled with the same waker or new ones without a reason, and are woken by an answer or by
/// the loss of the store, or when another client's request of the next day removes the lease.
#[test]
fn each_request_that_waits_is_woken_however_often_it_is_polled() {
    arbtest::arbtest(|u| {
        let (table, sent) = table(2, OutagePolicy::Refuse);
        table.set_state(StoreState::Ready);
        let counts = Counts::default();
        let mut waiting: Vec<Waiting<'_>> = Vec::new();
        for _ in 0..30 {
            match u.int_in_range(0..=3)? {
                0 => {
                    let client = LeaseClient::Key(u.int_in_range(1..=3)?);
                    let counter = Counter(&counts, (client, NOW.day));
                    if let Err(NoLease::Wait(wait)) = table.admit(client, 60, NOW, None, &counter) {
                        let mut request = Waiting {
                            client,
                            wait: Box::pin(table.wait(wait)),
                            woken: Arc::default(),
                        };
                        assert!(request.poll().is_pending());
                        waiting.push(request);
                    }
                }
                1 if !waiting.is_empty() => {
                    let at = u.choose_index(waiting.len())?;
                    if u.arbitrary()? {
                        waiting[at].woken = Arc::default();
                    }
                    assert!(waiting[at].poll().is_pending());
                }
                2 if !lock(&sent).is_empty() => {
                    let request = lock(&sent).remove(0);
                    answer(&table, &request, 1, 0);
                    let is_of_it = |other: &mut Waiting<'_>| other.client == request.client;
                    for mut woken in waiting.extract_if(.., is_of_it) {
                        assert_eq!(woken.woken.get(), 1);
                        assert!(woken.poll().is_ready());
                    }
                }
                _ => {}
            }
        }
        assert!(waiting.iter().all(|request| request.woken.get() == 0));
        if u.arbitrary()? {
            table.set_away();
        } else {
            let day = UtcDay(NOW.day.0 + 1);
            table.shards.iter().for_each(|shard| lock(shard).begin(day));
        }
        for mut request in waiting {
            assert_eq!(request.woken.get(), 1);
            assert!(request.poll().is_ready());
        }
        Ok(())
    })
    .budget_ms(500);
}

/// Admits a request, which waits for an answer as long as it may.
pub(super) fn admit_without_answer(
    table: &LeaseTable,
    client: LeaseClient,
    counter: &Counter<'_>,
) -> Result<Decision, NoLease> {
    match table.admit(client, 200, NOW, None, counter) {
        Err(NoLease::Wait(wait)) => table.admit(client, 200, NOW, Some(wait), counter),
        other => other,
    }
}

/// One late answer, or an outage that has ended, gives a server no more of the day than what it admitted meanwhile.
#[test]
fn credits_are_taken_without_the_store_only_while_it_does_not_answer() {
    for is_outage in [false, true] {
        let (table, sent) = table(3, OutagePolicy::Share);
        let (client, counts) = (LeaseClient::Key(1), Counts::default());
        let counter = Counter(&counts, (client, NOW.day));
        let admitted = |count: u32| {
            let requests = (0..count).map(|_| admit_without_answer(&table, client, &counter));
            requests
                .filter(|outcome| matches!(outcome, Ok(Decision::Admit { .. })))
                .count()
        };
        let request = if is_outage {
            assert_eq!(admitted(2), 2);
            // Back again, with the counts of all servers.
            table.set_state(StoreState::Ready);
            table.settlements().next().unwrap()
        } else {
            table.set_state(StoreState::Ready);
            assert_eq!(admitted(1), 1);
            lock(&sent).remove(0)
        };
        // The other servers have admitted all but one of the day.
        let granted = request.granted.max(1);
        answer(&table, &request, granted, 199);
        let more = (0..300).filter_map(|_| table.admit(client, 200, NOW, None, &counter).ok());
        let more = more.filter(|decision| *decision != Decision::Refuse);
        assert_eq!(more.count(), 0, "after an outage: {is_outage}");
    }
}

/// Credits for a second answer may all be granted to other servers: the first request has waited for two, both in time.
#[test]
fn no_share_is_taken_while_each_answer_comes_in_time() {
    let (table, sent) = table(2, OutagePolicy::Share);
    table.set_state(StoreState::Ready);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let admit = |waited| table.admit(client, 200, NOW, waited, &counter);
    let waits = [admit(None), admit(None)].map(|outcome| match outcome {
        Err(NoLease::Wait(wait)) => wait,
        other => panic!("{other:?}"),
    });
    answer(&table, &lock(&sent).remove(0), 1, 100);
    assert!(matches!(admit(None), Ok(Decision::Admit { .. })));
    // The credit before the last is spent: the second request is under way, and the time of the waiting ones ends.
    for wait in waits {
        assert!(matches!(admit(Some(wait)), Err(NoLease::Unavailable)));
    }
    answer(&table, &lock(&sent).remove(0), 1, 199);
    assert!(matches!(admit(None), Ok(Decision::Refuse)));
}

#[test]
fn a_client_is_low_when_half_of_the_last_grant_is_spent() {
    let mut credits = Credits::new(NOW.day, 100, 0, 2);
    (credits.grant, credits.granted, credits.total) = (10, 10, 10);
    for (spent, total, is_low) in [(4, 10, false), (5, 10, true), (9, 100, false)] {
        (credits.spent, credits.total) = (spent, total);
        assert_eq!(credits.is_low(), is_low, "{spent} of {total}");
    }
}

#[test]
fn credits_taken_without_the_store_are_a_part_of_the_share() {
    let mut credits = Credits::new(NOW.day, 100, 0, 2);
    credits.take_alone();
    credits.take_alone();
    credits.set_share(2);
    assert_eq!(credits.share, 48);
    let answer = LeaseAnswer {
        granted: 1,
        limit: 100,
        total: 99,
    };
    credits.apply(LeaseAction::Grant(1), answer, 1_000, 2);
    assert!(credits.is_unsettled, "the store knows one of two credits");
    assert_eq!((credits.total, credits.recheck), (100, 1_005));
    let all = LeaseAnswer {
        granted: 2,
        limit: 100,
        total: 50,
    };
    credits.apply(LeaseAction::Return, all, 1_000, 2);
    assert!(!credits.is_unsettled);
    assert_eq!((credits.total, credits.share), (50, 25));
}

#[test]
fn the_state_of_the_store_reads_back() {
    let (table, _) = table(2, OutagePolicy::Refuse);
    for state in [
        StoreState::Settling,
        StoreState::Late,
        StoreState::Ready,
        StoreState::Away,
    ] {
        table.set_state(state);
        assert_eq!(table.state(), state);
        assert_eq!(table.state().grants(), state >= StoreState::Late);
    }
}

#[test]
fn a_client_at_its_limit_is_looked_up_again_after_five_seconds() {
    let (table, sent) = table(2, OutagePolicy::Refuse);
    table.set_state(StoreState::Ready);
    let (client, counts) = (LeaseClient::Key(1), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let admit = |seconds| {
        let now = RequestTime {
            moment: UnixSeconds(NOW.moment.0 + seconds),
            ..NOW
        };
        table.admit(client, 1, now, None, &counter)
    };
    assert!(matches!(admit(0), Err(NoLease::Wait(_))));
    let request = lock(&sent).remove(0);
    let answer = LeaseAnswer {
        granted: 0,
        total: 1,
        limit: 1,
    };
    table.answer(&request, answer, NOW.moment);
    for (seconds, requests) in [(0, 0), (4, 0), (5, 1), (6, 1)] {
        assert!(matches!(admit(seconds), Ok(Decision::Refuse)));
        assert_eq!(lock(&sent).len(), requests, "{seconds}");
    }
}

#[test]
fn each_request_to_the_store_ends_once_as_answered_late_or_failed() {
    let (table, outbox) = table(2, OutagePolicy::Refuse);
    let counts = Counts::default();
    // The last one takes no request to the store: one is under way.
    let mut wait = None;
    for (key, waits) in [(1, false), (2, false), (2, true), (3, false), (2, false)] {
        let client = LeaseClient::Key(key);
        let counter = Counter(&counts, (client, NOW.day));
        table.set_state(StoreState::Ready);
        let waited = wait.take().filter(|_| waits);
        let refused = table.admit(client, 60, NOW, waited, &counter).unwrap_err();
        if let NoLease::Wait(begun) = refused {
            wait = Some(begun);
        }
    }
    let requests = std::mem::take(&mut *lock(&outbox));
    assert_eq!(requests.len(), 3);
    let outcomes = || {
        let LeaseMetrics {
            answered,
            late,
            failed,
            ..
        } = &table.metrics;
        [answered, late, failed].map(|count| count.load(Ordering::Relaxed))
    };
    assert_eq!(outcomes(), [0, 1, 0], "a client has given up");
    for request in &requests[..2] {
        answer(&table, request, 1, 0);
        answer(&table, request, 1, 0);
    }
    assert_eq!(outcomes(), [1, 1, 0]);
    table.set_away();
    table.set_away();
    assert_eq!(outcomes(), [1, 1, 1]);
}
