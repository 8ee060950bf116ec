//! Time passes by hand; connections do one thing or another.

use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Connection {
    membership: Membership,
    woken: Arc<Woken>,
}

impl Connection {
    fn new(roster: &Arc<Roster>) -> Connection {
        let (membership, woken) = (roster.join(None), Arc::default());
        let connection = Connection { membership, woken };
        assert_eq!(connection.ends(), None);
        connection
    }

    fn doing(roster: &Arc<Roster>, phase: Phase) -> Connection {
        let connection = Connection::new(roster);
        connection.membership.enter(phase);
        connection
    }

    /// Polls the connection, which has nothing to do, twice: as its task is when it was woken and has yielded.
    fn ends(&self) -> Option<CloseReason> {
        let waker = Arc::clone(&self.woken).into();
        let mut cx = Context::from_waker(&waker);
        let mut poll = || match self.membership.poll(&mut cx, |_| Poll::<()>::Pending) {
            Poll::Ready(ended) => ended.err(),
            Poll::Pending => None,
        };
        poll().or_else(poll)
    }

    fn times_woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
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
        (Phase::Fresh, 30, CloseReason::FirstByte),
        (Phase::Head, 50, CloseReason::Head),
        (Phase::Idle, 70, CloseReason::Idle),
        (Phase::Sending, 40, CloseReason::Send),
        (Phase::Answering, DISK_TICKS, CloseReason::Send),
        (Phase::Closing, CLOSING_TICKS, CloseReason::Idle),
    ] {
        for begun in [0, 1, 4, 17] {
            let roster = Arc::new(Roster::new(limits));
            roster.tick(begun);
            let (late, busy) = (
                Connection::doing(&roster, phase),
                Connection::doing(&roster, phase),
            );
            for passed in 1..=limit + 2 * LOOK_TICKS + 2 {
                roster.tick(begun + passed);
                busy.membership.enter(phase);
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
fn who_takes_an_answer_slowly_has_the_grace_that_its_system_needs() {
    let roster = Arc::new(Roster::default());
    let slow = Connection::new(&roster);
    let send = ticks(ConnectionLimits::default().send);
    slow.membership.send(Duration::from_mins(1));
    roster.tick(send + 600);
    assert_eq!(slow.ends(), None);
    slow.membership.send(Duration::from_secs(1));
    let late = send + 600 + send + 10 + LOOK_TICKS + 2;
    roster.tick(late);
    assert_eq!(slow.ends(), None, "what it took may not have been noticed");
    roster.tick(late + LOOK_TICKS);
    assert_eq!(slow.ends(), Some(CloseReason::Send));
}

#[test]
fn no_connection_is_cut_before_its_task_has_run_and_found_nothing_to_do() {
    for phase in Phase::ALL {
        let roster = Arc::new(Roster::default());
        let (unpolled, served) = (
            Connection::doing(&roster, phase),
            Connection::doing(&roster, phase),
        );
        let mut now = DISK_TICKS + 10;
        roster.tick(now);
        // The worker is busy elsewhere for a minute, and the client has done its part meanwhile.
        for _ in 0..600 {
            now += 1;
            roster.tick(now);
        }
        assert_eq!(unpolled.times_woken(), 1, "{phase:?}");
        assert_eq!((unpolled.ends(), served.ends()), (None, None), "{phase:?}");
        served.membership.enter(Phase::Idle);
        for _ in 0..2 * LOOK_TICKS {
            now += 1;
            roster.tick(now);
        }
        assert_eq!(unpolled.ends(), Some(phase.cut()), "{phase:?}");
        assert_eq!(served.ends(), None, "{phase:?}");
    }
}

#[test]
fn a_server_that_stops_ends_who_is_silent_for_a_second_and_no_one_who_is_answered() {
    let roster = Arc::new(Roster::default());
    let phases = [
        (Phase::Fresh, STOPPING_SILENT_TICKS),
        (Phase::Idle, STOPPING_SILENT_TICKS),
        (Phase::Head, STOPPING_HEAD_TICKS),
        (Phase::Answering, DISK_TICKS),
    ];
    let all = phases.map(|(phase, limit)| (Connection::doing(&roster, phase), limit));
    roster.stop();
    for now in 1..STOPPING_HEAD_TICKS + 20 {
        roster.tick(now);
        for (connection, limit) in &all {
            if now <= *limit {
                assert_eq!(connection.ends(), None);
            }
            let ends = connection.ends();
            if now > limit + 2 * LOOK_TICKS + 1 {
                assert!(ends.is_some());
            }
        }
    }
    assert!(roster.join(None).is_stopping());
}

#[test]
fn room_is_made_of_those_who_keep_the_server_waiting_for_longest() {
    let roster = Arc::new(Roster::default());
    let mut all = Vec::new();
    let phases = [Phase::Head, Phase::Answering, Phase::Idle, Phase::Sending];
    for (now, phase) in (0..320).zip(phases.into_iter().cycle()) {
        // Looked at seldom enough here that nobody is overdue.
        roster.ticks.store(now, Ordering::Relaxed);
        all.push(Connection::doing(&roster, phase));
    }
    roster.make_room();
    let ended = |all: &[Connection]| -> Vec<usize> {
        let ends = all.iter().enumerate();
        ends.filter(|(_, connection)| connection.ends().is_some())
            .map(|(at, _)| at)
            .collect()
    };
    // One in 64 of the 160 that wait for their clients.
    assert_eq!(ended(&all), [0, 2, 4]);
    assert_eq!(all[0].ends(), Some(CloseReason::Evicted));
    roster.make_room();
    assert_eq!(ended(&all), [0, 2, 4, 6, 8, 10]);
}

#[test]
fn no_room_is_made_of_who_has_just_come() {
    let roster = Arc::new(Roster::default());
    let newcomer = Connection::doing(&roster, Phase::Fresh);
    for (now, is_cut) in [(0, false), (4, false), (5, true)] {
        roster.ticks.store(now, Ordering::Relaxed);
        roster.make_room();
        assert_eq!(newcomer.ends().is_some(), is_cut, "at {now}");
    }
}

#[test]
fn members_leave_in_any_order() {
    let roster = Arc::new(Roster::default());
    arbtest::arbtest(|u| {
        let mut held = Vec::new();
        for _ in 0..u.int_in_range(0..=40)? {
            if held.is_empty() || u.ratio(3, 5)? {
                held.push(roster.join(None));
            } else {
                held.swap_remove(u.choose_index(held.len())?);
            }
            let members = roster.members();
            assert_eq!(members.len(), held.len());
            for (at, member) in members.iter().enumerate() {
                assert_eq!(member.place(), at);
            }
        }
        Ok(())
    });
    assert!(roster.members().is_empty());
}

#[test]
fn a_worker_that_gives_no_sign_of_life_is_known_by_it() {
    let roster = Roster::default();
    roster.tick(100);
    roster.beat();
    assert_eq!(roster.silent_for(), Duration::ZERO);
    roster.tick(135);
    assert_eq!(roster.silent_for(), Duration::from_millis(3500));
}
