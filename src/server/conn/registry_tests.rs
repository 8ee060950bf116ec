//! The tests advance the time and choose the phases.

use std::task::{Context, Poll};

use super::*;
use crate::server::conn::context::ConnectionContext;
use crate::sync::WakeCount;

fn join(registry: &Arc<ConnectionRegistry>) -> Arc<ConnectionContext> {
    ConnectionContext::join(registry, None, false)
}

struct Connection {
    context: Arc<ConnectionContext>,
    woken: Arc<WakeCount>,
}

impl Connection {
    fn new(registry: &Arc<ConnectionRegistry>) -> Connection {
        let (context, woken) = (join(registry), Arc::default());
        let connection = Connection { context, woken };
        assert_eq!(connection.ends(), None);
        connection
    }

    fn doing(registry: &Arc<ConnectionRegistry>, phase: ConnectionPhase) -> Connection {
        let connection = Connection::new(registry);
        connection.context.enter(phase);
        connection
    }

    /// Polls the connection, which has nothing to do, twice: as its task is when it was woken and
    /// has yielded.
    fn ends(&self) -> Option<CloseReason> {
        let waker = Arc::clone(&self.woken).into();
        let mut cx = Context::from_waker(&waker);
        let mut poll = || match self.context.state.poll(&mut cx, |_| Poll::<()>::Pending) {
            Poll::Ready(ended) => ended.err(),
            Poll::Pending => None,
        };
        poll().or_else(poll)
    }

    fn times_woken(&self) -> u64 {
        self.woken.get()
    }
}

#[test]
fn each_phase_has_its_limit_and_a_moment() {
    let limits = ConnectionLimits {
        first_byte: Duration::from_secs(3),
        head: Duration::from_secs(5),
        idle: Duration::from_secs(7),
        send: Duration::from_secs(4),
        ..ConnectionLimits::default()
    };
    for (phase, limit, cut) in [
        (ConnectionPhase::New, 30, CloseReason::FirstByte),
        (ConnectionPhase::Head, 50, CloseReason::Head),
        (ConnectionPhase::Idle, 70, CloseReason::Idle),
        (ConnectionPhase::Sending, 40, CloseReason::Send),
        (ConnectionPhase::Processing, DISK_TICKS, CloseReason::Send),
        (ConnectionPhase::Closing, CLOSING_TICKS, CloseReason::Idle),
    ] {
        for begun in [0, 1, 4, 17] {
            let registry = Arc::new(ConnectionRegistry::new(limits, None));
            registry.tick(begun);
            let (late, busy) = (
                Connection::doing(&registry, phase),
                Connection::doing(&registry, phase),
            );
            for passed in 1..=limit + 2 * CHECK_TICKS + 2 {
                registry.tick(begun + passed);
                busy.context.enter(phase);
                let ends = late.ends();
                if passed <= limit {
                    assert_eq!(ends, None, "{phase:?} after {passed}");
                }
            }
            assert_eq!(late.ends(), Some(cut), "{phase:?}");
            assert!(late.times_woken() > 0);
            assert_eq!((busy.ends(), busy.times_woken()), (None, 0));
        }
    }
}

#[test]
fn a_slow_client_has_time_for_what_it_has_taken() {
    let registry = Arc::new(ConnectionRegistry::default());
    let slow = Connection::new(&registry);
    let send = ticks(ConnectionLimits::default().send);
    // A minute at 1 KiB/s, and no more than that.
    slow.context
        .wait_for_reader(ConnectionPhase::Sending, 1 << 30);
    registry.tick(send + 600);
    assert_eq!(slow.ends(), None);
    slow.context.wait_for_reader(ConnectionPhase::Sending, 1024);
    let late = send + 600 + send + 10 + CHECK_TICKS + 2;
    registry.tick(late);
    assert_eq!(slow.ends(), None, "what it took may not have been noticed");
    registry.tick(late + CHECK_TICKS);
    assert_eq!(slow.ends(), Some(CloseReason::Send));
}

#[test]
fn no_connection_is_closed_before_its_task_has_run_and_found_nothing_to_do() {
    for phase in ConnectionPhase::ALL {
        let registry = Arc::new(ConnectionRegistry::default());
        let (unpolled, served) = (
            Connection::doing(&registry, phase),
            Connection::doing(&registry, phase),
        );
        let mut now = DISK_TICKS + 10;
        registry.tick(now);
        // The worker is busy elsewhere for a minute, and the client has done its part meanwhile.
        for _ in 0..600 {
            now += 1;
            registry.tick(now);
        }
        assert_eq!(unpolled.times_woken(), 1, "{phase:?}");
        assert_eq!((unpolled.ends(), served.ends()), (None, None), "{phase:?}");
        served.context.enter(ConnectionPhase::Idle);
        for _ in 0..2 * CHECK_TICKS {
            now += 1;
            registry.tick(now);
        }
        assert_eq!(unpolled.ends(), Some(phase.close_reason()), "{phase:?}");
        assert_eq!(served.ends(), None, "{phase:?}");
    }
}

#[test]
fn a_shutdown_closes_connections_that_are_silent_for_a_second_and_none_that_is_processed() {
    let registry = Arc::new(ConnectionRegistry::default());
    let phases = [
        (ConnectionPhase::New, 10),
        (ConnectionPhase::Idle, 10),
        (ConnectionPhase::Head, 50),
        (ConnectionPhase::Processing, DISK_TICKS),
    ];
    let all = phases.map(|(phase, limit)| (Connection::doing(&registry, phase), limit));
    registry.stop();
    for now in 1..50 + 20 {
        registry.tick(now);
        for (connection, limit) in &all {
            if now <= *limit {
                assert_eq!(connection.ends(), None);
            }
            let ends = connection.ends();
            if now > limit + 2 * CHECK_TICKS + 1 {
                assert!(ends.is_some());
            }
        }
    }
    assert!(join(&registry).registry.is_stopping());
}

#[test]
fn the_connections_that_wait_longest_for_their_clients_are_evicted() {
    let registry = Arc::new(ConnectionRegistry::default());
    let mut all = Vec::new();
    let phases = [
        ConnectionPhase::Head,
        ConnectionPhase::Processing,
        ConnectionPhase::Idle,
        ConnectionPhase::Sending,
    ];
    for (now, phase) in (0..320).zip(phases.into_iter().cycle()) {
        // Without a check, so that none is overdue.
        registry.ticks.store(now, Ordering::Relaxed);
        all.push(Connection::doing(&registry, phase));
    }
    // None of these is slow.
    for sender in all.iter().skip(3).step_by(4) {
        sender.context.enter(ConnectionPhase::Sending);
    }
    registry.evict();
    let ended = |all: &[Connection]| -> Vec<usize> {
        let ends = all.iter().enumerate();
        ends.filter(|(_, connection)| connection.ends().is_some())
            .map(|(at, _)| at)
            .collect()
    };
    // One in 64 of the 160 that wait for their clients.
    assert_eq!(ended(&all), [0, 2, 4]);
    assert_eq!(all[0].ends(), Some(CloseReason::Evicted));
    registry.evict();
    assert_eq!(ended(&all), [0, 2, 4, 6, 8, 10]);
}

#[test]
fn clients_that_are_slow_to_take_a_response_are_evicted_before_all_others() {
    let registry = Arc::new(ConnectionRegistry::default());
    let idle = Connection::doing(&registry, ConnectionPhase::Idle);
    let senders = [(); 3].map(|()| Connection::doing(&registry, ConnectionPhase::Sending));
    registry
        .ticks
        .store(SLOW_AFTER_TICKS + 1, Ordering::Relaxed);
    for left in (0..3).rev() {
        registry.evict();
        let open = senders
            .iter()
            .filter(|sender| !sender.context.state.is_closing());
        assert_eq!((open.count(), idle.ends()), (left, None));
    }
    registry.evict();
    assert_eq!(idle.ends(), Some(CloseReason::Evicted));
}

#[test]
fn a_client_that_takes_four_times_the_minimum_rate_is_not_evicted() {
    for rate in [512, 1024, 10_000] {
        let limits = ConnectionLimits {
            send_rate: rate,
            ..ConnectionLimits::default()
        };
        let registry = Arc::new(ConnectionRegistry::new(limits, None));
        let bytes_per_tick = u64::from(rate) * 4 / 10;
        // Each has taken as much as the slowest that is spared takes in so many ticks.
        let senders: Vec<Connection> = (0..100)
            .map(|ticks| {
                let sender = Connection::new(&registry);
                let phase = ConnectionPhase::Sending;
                sender
                    .context
                    .wait_for_reader(phase, ticks * bytes_per_tick);
                sender
            })
            .collect();
        for now in 0..SLOW_AFTER_TICKS + 100 {
            registry.ticks.store(now, Ordering::Relaxed);
            // More often than necessary: at most two become slow in a tick.
            for _ in 0..3 {
                registry.evict();
            }
            for (ticks, sender) in (0..).zip(&senders) {
                let is_slow = now > SLOW_AFTER_TICKS + ticks;
                let is_spared = now + 1 < SLOW_AFTER_TICKS + ticks;
                let ends = sender.context.state.is_closing();
                assert!(!(is_slow && !ends || is_spared && ends), "{ticks} at {now}");
            }
        }
    }
}

#[test]
fn a_new_connection_is_not_evicted() {
    let registry = Arc::new(ConnectionRegistry::default());
    let newcomer = Connection::doing(&registry, ConnectionPhase::New);
    for (now, is_evicted) in [(0, false), (4, false), (5, true)] {
        registry.ticks.store(now, Ordering::Relaxed);
        registry.evict();
        assert_eq!(newcomer.ends().is_some(), is_evicted, "at {now}");
    }
}

#[test]
fn connections_leave_in_any_order() {
    let registry = Arc::new(ConnectionRegistry::default());
    arbtest::arbtest(|u| {
        let mut contexts = Vec::new();
        for _ in 0..u.int_in_range(0..=40)? {
            if contexts.is_empty() || u.ratio(3, 5)? {
                contexts.push(join(&registry));
            } else {
                contexts.swap_remove(u.choose_index(contexts.len())?);
            }
            assert_eq!(registry.size(), contexts.len() as u64);
        }
        Ok(())
    });
    assert!(registry.connections().is_empty());
}

#[test]
fn a_worker_without_heartbeats_is_noticed() {
    let registry = ConnectionRegistry::default();
    registry.tick(100);
    registry.beat();
    assert_eq!(registry.silent_for(), Duration::ZERO);
    registry.tick(135);
    assert_eq!(registry.silent_for(), Duration::from_millis(3500));
}
