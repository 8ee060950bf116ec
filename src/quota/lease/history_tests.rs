//! Histories of the simulation: all short ones, random long ones, and some that are known to be difficult.

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::quota::lease::server_model_tests::{NOW, answer, table};

impl World {
    /// Requests of a client to a server: those admitted.
    fn admitted_of(&mut self, at: usize, count: u32) -> u32 {
        let requests = (0..count).map(|_| self.request(at, LeaseClient::Key(7)));
        let admitted = requests.filter(|decision| matches!(decision, Some(Decision::Admit { .. })));
        u32::try_from(admitted.count()).expect("at most `count`")
    }
}

fn is_slow() -> bool {
    std::env::var_os("IM_TEST_SLOW").is_some()
}

fn run(outage: OutagePolicy, servers: u32, events: &[Event]) {
    let mut world = World::new(10 * servers, servers, outage);
    for event in events {
        world.apply(*event);
    }
    world.end();
}

#[test]
fn a_restart_shows_a_client_no_more() {
    for (spent, event) in (0..200).flat_map(|n| [(n, Event::Stop(0)), (n, Event::Kill(0))]) {
        let mut world = World::new(100, 3, OutagePolicy::Share);
        let _ = world.admitted_of(0, spent % 100);
        // Others admit the rest, which this server learns.
        for at in [1, 2, 0].into_iter().filter(|_| spent >= 100) {
            let _ = world.admitted_of(at, 100);
        }
        let shown = |world: &World| {
            let (server, client) = (&world.servers[0], LeaseClient::Key(7));
            let counter = Counter(&server.counts, (client, server.day));
            let left = server.table.peek(client, 100, server.day, &counter);
            left.unwrap()
        };
        let before = shown(&world);
        world.apply(event);
        world.apply(Event::Start(0));
        world.settle(0);
        assert!(shown(&world) <= before, "{} after {before}", shown(&world));
    }
}

/// All events of two servers.
fn events() -> Vec<Event> {
    use Event::{Copy, Cut, Empty, Heartbeat, Kill, Midnight, Restore, Spend, Start, Stop};
    let of_server = |at| {
        [
            Spend(at, 22),
            Heartbeat(at),
            Stop(at),
            Kill(at),
            Start(at),
            Cut(at, Link::Down),
            Cut(at, Link::Mute),
            Cut(at, Link::Up),
            Midnight(at),
        ]
    };
    let of_store = [Empty(false), Empty(true), Copy, Restore];
    (0..2).flat_map(of_server).chain(of_store).collect()
}

#[test]
fn no_short_history_admits_more_than_the_limit_and_the_shares() {
    let events = events();
    let depth = if is_slow() { 4 } else { 3 };
    let count = events.len().pow(depth);
    for outage in [OutagePolicy::Share, OutagePolicy::Refuse] {
        for number in 0..count {
            let mut rest = number;
            let mut history = vec![Event::Spend(0, 6), Event::Spend(1, 8)];
            for _ in 0..depth {
                history.push(events[rest % events.len()]);
                rest /= events.len();
            }
            run(outage, 2, &history);
        }
    }
}

fn random_event(u: &mut Unstructured<'_>, servers: usize) -> Result<Event> {
    let at = u.choose_index(servers)?;
    Ok(match u.int_in_range(0..=24)? {
        0..=9 => Event::Spend(at, u.int_in_range(1..=9)?),
        10..=12 => Event::Heartbeat(at),
        13 => Event::Stop(at),
        14 => Event::Kill(at),
        15 | 16 => Event::Start(at),
        17 => Event::Cut(at, Link::Down),
        18 => Event::Cut(at, Link::Mute),
        19 => Event::Cut(at, Link::Up),
        20 => Event::Empty(u.arbitrary()?),
        21 => Event::Copy,
        22 => Event::Restore,
        23 => Event::Replace(at),
        _ => Event::Midnight(at),
    })
}

fn random_histories(outage: OutagePolicy) {
    let budget = if is_slow() { 20_000 } else { 2_000 };
    arbtest::arbtest(|u| {
        let servers = u.int_in_range(1..=4)?;
        let mut world = World::new(60, servers, outage);
        for _ in 0..u.int_in_range(0..=200)? {
            let event = random_event(u, servers as usize)?;
            world.apply(event);
            if u.ratio(1, 10)? {
                world.seconds += 2;
            }
        }
        world.end();
        if outage == OutagePolicy::Refuse {
            assert_eq!(world.shares.values().sum::<u32>(), 0);
        }
        Ok(())
    })
    .budget_ms(budget);
}

#[test]
fn random_histories_admit_no_more_than_the_limit_and_the_shares() {
    let policies = [OutagePolicy::Share, OutagePolicy::Refuse];
    policies.into_iter().for_each(random_histories);
}

#[test]
fn without_faults_all_servers_together_admit_exactly_the_limit() {
    arbtest::arbtest(|u| {
        let servers = u.int_in_range(1..=4)?;
        let mut world = World::new(60, servers, OutagePolicy::Share);
        for _ in 0..u.int_in_range(0..=100)? {
            let at = u.choose_index(servers as usize)?;
            let event = match u.int_in_range(0..=9)? {
                0 => Event::Stop(at),
                1..=3 => Event::Start(at),
                4 => Event::Heartbeat(at),
                _ => Event::Spend(at, u.int_in_range(1..=9)?),
            };
            world.apply(event);
        }
        world.end();
        for client in &world.clients {
            let day = world.servers[0].day;
            assert_eq!(world.admitted[&(*client, day)], 60);
        }
        assert!(world.shares.is_empty());
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn a_day_is_not_given_again_by_pairs_of_losses() {
    use Event::{Cut, Empty, Heartbeat, Kill, Midnight, Restore, Spend, Start, Stop};
    let histories: [&[Event]; 7] = [
        // A server restarts, then the store comes back empty.
        &[Spend(0, 60), Kill(0), Start(0), Empty(true)],
        // All restart, one after the other, and then the store is emptied in the same run.
        &[
            Spend(0, 30),
            Spend(1, 30),
            Stop(0),
            Start(0),
            Stop(1),
            Start(1),
            Empty(false),
        ],
        // A server is down while the store is emptied, and the other one restarts.
        &[
            Spend(0, 60),
            Kill(0),
            Empty(true),
            Kill(1),
            Start(1),
            Heartbeat(1),
            Spend(1, 60),
            Start(0),
        ],
        // The store starts with an old copy while no server runs.
        &[
            Event::Copy,
            Spend(0, 60),
            Kill(0),
            Kill(1),
            Restore,
            Start(1),
            Heartbeat(1),
            Spend(1, 60),
        ],
        // What was admitted alone is sent after a restart.
        &[
            Cut(0, Link::Down),
            Spend(0, 60),
            Kill(0),
            Start(0),
            Cut(0, Link::Up),
            Heartbeat(0),
        ],
        // A server is cut off while the store is emptied.
        &[
            Spend(0, 60),
            Cut(0, Link::Mute),
            Empty(false),
            Heartbeat(1),
            Spend(1, 60),
        ],
        // The clock of a server is ahead when the store is emptied.
        &[
            Midnight(0),
            Spend(0, 60),
            Empty(false),
            Spend(1, 3),
            Midnight(1),
            Spend(1, 60),
        ],
    ];
    for history in histories {
        for servers in 2..=3 {
            for outage in [OutagePolicy::Share, OutagePolicy::Refuse] {
                run(outage, servers, history);
            }
        }
    }
}

#[test]
fn a_new_server_has_no_reserve_on_the_day_of_a_loss() {
    let mut world = World::new(60, 2, OutagePolicy::Refuse);
    let day = world.servers[0].day;
    assert_eq!(world.admitted_of(0, 60), 59);
    assert!(world.request(1, LeaseClient::Anonymous(7)).is_some());
    world.apply(Event::Kill(0));
    world.apply(Event::Kill(1));
    world.apply(Event::Empty(true));
    // It comes first, before those with counts.
    let new = world.server(9, Arc::default(), day);
    world.servers.push(new);
    for at in [2, 1, 0, 2, 1] {
        world.apply(Event::Start(at));
        world.settle(at);
    }
    let more: u32 = (0..3).map(|at| world.admitted_of(at, 60)).sum();
    assert_eq!(more, 1);
    world.end();
}

#[test]
fn a_server_may_take_a_share_on_each_of_two_days() {
    use Event::{Empty, Heartbeat, Midnight, Replace, Spend};
    let mut world = World::new(60, 3, OutagePolicy::Share);
    for event in [
        Midnight(1),
        Empty(false),
        Spend(2, 60),
        Midnight(2),
        Spend(2, 60),
    ] {
        world.apply(event);
    }
    let shares = |day: i32| {
        let of_day = (LeaseClient::Anonymous(7), UtcDay(20_000 + day));
        world.shares.get(&of_day).copied()
    };
    // On the first day, one of its requests was admitted from the reserve. On the second one, nothing is granted either:
    // the clock of server 1 was ahead when the store was emptied.
    assert_eq!([shares(0), shares(1)], [Some(19), Some(20)]);
    for event in [
        Replace(1),
        Heartbeat(1),
        Spend(1, 60),
        Spend(2, 60),
        Midnight(0),
        Spend(0, 60),
    ] {
        world.apply(event);
    }
    world.end();
}

#[test]
fn restarts_without_the_store_give_no_further_share() {
    let mut world = World::new(60, 3, OutagePolicy::Share);
    world.apply(Event::Cut(0, Link::Down));
    let mut admitted = 0;
    for start in 0..5 {
        world.apply(Event::Kill(0));
        world.apply(Event::Start(0));
        // Some of the share in the first runs, and as much as possible in the last.
        admitted += world.admitted_of(0, if start < 3 { 3 } else { 60 });
    }
    assert_eq!(admitted, 60 / 3);
}

#[test]
fn a_reserve_is_a_part_of_the_share() {
    for limit in [30, 61, 62] {
        let mut world = World::new(limit, 3, OutagePolicy::Share);
        let before = world.store.clone();
        assert_eq!(world.admitted_of(0, 1), 1);
        assert_eq!(world.store, before, "the first request needs no store");
        world.apply(Event::Cut(0, Link::Down));
        assert_eq!(1 + world.admitted_of(0, limit), limit / 3);
    }
}

#[test]
fn a_client_of_one_server_gets_the_limit_but_for_the_reserves_of_the_others() {
    for (limit, reserves) in [(60, 2), (30, 2), (29, 0), (1, 0)] {
        let mut world = World::new(limit, 3, OutagePolicy::Share);
        assert_eq!(world.admitted_of(0, limit), limit - reserves);
        world.seconds += 6;
        assert_eq!(world.admitted_of(1, limit), reserves / 2);
        // The third server has been replaced: its reserve of this day is not used.
        world.apply(Event::Replace(2));
        assert_eq!(world.admitted_of(2, limit), 0);
        let day = world.servers[2].day.0;
        (0..3).for_each(|at| world.apply(Event::Midnight(at)));
        (0..3).for_each(|at| world.apply(Event::Heartbeat(at)));
        assert_eq!(world.servers[2].day.0, day + 1);
        assert_eq!(world.admitted_of(2, 1), 1);
        world.end();
    }
}

#[test]
fn a_share_taken_before_all_have_settled_depends_on_what_was_known_before() {
    let (table, outbox) = table(4, OutagePolicy::Share);
    let (client, counts) = (LeaseClient::Key(7), Counts::default());
    let counter = Counter(&counts, (client, NOW.day));
    let admit = || {
        let outcome = table.admit(client, 60, NOW, None, &counter);
        matches!(outcome, Ok(Decision::Admit { .. }))
    };
    table.set_state(StoreState::Ready);
    assert!(!admit());
    let sent = std::mem::take(&mut *lock(&outbox));
    // The store has granted all but eight credits, most of them to other servers.
    answer(&table, &sent[0], 1, 59 - 8);
    // It loses its data, and this server is the first that settles.
    table.set_away();
    table.set_state(StoreState::Settling);
    let settlements: Vec<_> = table.settlements().collect();
    assert_eq!(settlements.len(), 1);
    answer(&table, &settlements[0], 1, 0);
    let admitted = (0..60).filter(|_| admit()).count();
    assert_eq!(admitted, 1 + 8 / 4);
}
