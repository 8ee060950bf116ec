//! Four servers and a store, random faults between them, and what clients see.
//!
//! A script is a client of its own, with requests to random servers at random moments. The scripts
//! of a round meet the same faults. After the faults, each client sends requests until all servers
//! refuse them, and then its script is checked:
//!
//! - What was admitted is what the store granted: no credit was spent twice, and none was lost.
//! - It is at least the limit, and exactly the limit if no server took a share. Each that did adds its share at most
//!   (CONTRACT section 9).
//! - `X-RateLimit-Remaining` never rises at a server.
//! - Each response is 200, 429 or 503, the latter two with `Retry-After`, and none waits for the
//!   store.

use crate::prelude::*;
use crate::shared_quota::TARGET;
use crate::shared_world::{RECHECK, Site, Visitor, World};
use crate::store::{LIMIT, Store};
use crate::store_proxy::{Mode, StoreProxy};

const SERVERS: usize = 4;
/// Largest share that a server takes.
const SHARE: u32 = LIMIT / 4;
/// Duration of the faults of a round.
const FAULTS: Duration = Duration::from_millis(2_500);
/// Time after a loss of data in which servers that reach the store settle: two seconds without
/// grants follow the connection of the first of them.
const SETTLING: Duration = Duration::from_millis(2_500);
/// A request may take so much longer than the slowest one that needs no credit. A fault of the
/// waiting would show as a second, the time after which a request to the store has failed.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// A round that takes longer has failed.
const ROUND_MAX: Duration = Duration::from_mins(2);

/// Rounds of each kind of faults, and scripts in each.
fn size() -> (u64, u32) {
    if is_slow() { (12, 21) } else { (1, 5) }
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    keeps_data: bool,
    /// Without the store, servers admit only what they were granted.
    refuses: bool,
}

/// Faults for some time. Returns whether a server was cut off during a loss of data.
fn disturb(sites: &[Site], store: &mut Store, kind: Kind, rng: &mut Rng) -> bool {
    let mut was_cut = false;
    let is_mild = rng.one_in(4);
    let begun = Instant::now();
    while begun.elapsed() < FAULTS {
        thread::sleep(Duration::from_millis(10 + rng.below(150)));
        let first = usize::try_from(rng.below(SERVERS as u64)).unwrap();
        let some = if rng.one_in(3) {
            sites
        } else {
            &sites[first..=first]
        };
        let set = |mode| some.iter().for_each(|site| site.proxy.set(mode));
        match if is_mild { 0 } else { rng.below(9) } {
            0..=4 => set(mode(rng, is_mild)),
            5 => some.iter().for_each(|site| site.proxy.cut()),
            6 => set(Mode::Pass),
            7 => {
                store.signal("-STOP");
                thread::sleep(Duration::from_millis(10 + rng.below(1_200)));
                store.signal("-CONT");
            }
            _ => was_cut |= restart_store(sites, store, kind, rng),
        }
    }
    pass(sites);
    was_cut
}

fn pass(sites: &[Site]) {
    for site in sites {
        site.proxy.set(Mode::Pass);
    }
}

/// Kills the store, and starts it again. If it loses its data, the faults of the network stay
/// as they are until all servers that reach the store have settled. Returns whether others do not reach it then.
fn restart_store(sites: &[Site], store: &mut Store, kind: Kind, rng: &mut Rng) -> bool {
    let loses_data = !kind.keeps_data;
    if loses_data && rng.one_in(2) {
        pass(sites);
    }
    store.kill();
    thread::sleep(Duration::from_millis(rng.below(700)));
    assert!(store.run());
    if loses_data {
        thread::sleep(SETTLING);
    }
    let reaches = |site: &Site| [Mode::Pass, Mode::Double].contains(&site.proxy.mode());
    loses_data && !sites.iter().all(reaches)
}

/// Credits of a client's day that all servers have received. If the answer to a server was
/// late, it settles a share a moment later.
fn settled(store: &Store, visitor: &Visitor) -> u32 {
    let begun = Instant::now();
    loop {
        let granted = store.credits(&visitor.header.1);
        if granted == visitor.admitted() || begun.elapsed() > SETTLING {
            return granted;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the scripts of a round, and checks them.
fn round(world: &mut World, kind: Kind, number: u64, scripts: u32, report: &mut Report) {
    let Kind {
        keeps_data,
        refuses,
    } = kind;
    let mut rng = Rng(4 * number + 2 * u64::from(keeps_data) + u64::from(refuses));
    world.label = format!("{kind:?}, round {number}");
    let address = |client| format!("198.18.{number}.{client}");
    let visitor = |client| Visitor::of_address(SERVERS, &address(client));
    world.visitors = (0..scripts).map(visitor).collect();
    let shares = |world: &World| world.sites.iter().map(|site| site.shares).sum::<f64>();
    let shares_before = shares(world);
    let peers: Vec<_> = world
        .running()
        .map(|(_, peer)| peer.server.addr())
        .collect();
    let (are_disturbed, are_running) = (&AtomicBool::new(true), &AtomicBool::new(true));
    let (waits, was_cut, slowest_other) = thread::scope(|scope| {
        let (label, peers) = (&world.label, &peers);
        let spawn = |visitor| {
            let rng = Rng(rng.next());
            scope.spawn(move || run_script(visitor, rng, peers, label, are_disturbed))
        };
        let scripts: Vec<_> = world.visitors.iter_mut().map(spawn).collect();
        let other = scope.spawn(|| slowest_health(peers, are_running));
        let was_cut = disturb(&world.sites, &mut world.store, kind, &mut rng);
        let sites = world.sites.iter();
        sites.for_each(|site| site.peer.as_ref().unwrap().await_up(true));
        are_disturbed.store(false, Ordering::Relaxed);
        let waits: Vec<_> = scripts
            .into_iter()
            .map(|script| script.join().unwrap())
            .collect();
        // Until now: the scripts load the machine most at their end.
        are_running.store(false, Ordering::Relaxed);
        (waits, was_cut, other.join().unwrap())
    });
    world.check("at the end");
    let (mut excess, label) = (0, &world.label);
    for (visitor, waits) in world.visitors.iter().zip(waits) {
        let (admitted, address) = (visitor.admitted(), &visitor.header.1);
        let granted = settled(&world.store, visitor);
        assert_eq!(
            admitted, granted,
            "{label}, {address}: admitted and granted"
        );
        assert!(admitted >= LIMIT, "{label}, {address}: only {admitted}");
        excess += admitted - LIMIT;
        let slowest = *waits.iter().max().unwrap();
        assert!(
            slowest < slowest_other + WAIT_MAX,
            "{label}, {address}: {slowest:?}, without credits {slowest_other:?}"
        );
        report.add(admitted, waits);
    }
    // Each share that was taken added at most its size, whichever client it was for.
    let shares = shares(world) - shares_before;
    assert!(
        was_cut || f64::from(excess) <= shares * f64::from(SHARE),
        "{label}: {excess} beyond the limits with {shares} shares"
    );
    report.slowest_other = report.slowest_other.max(slowest_other);
}

/// A client's requests in a round. Returns the durations of those that need a credit.
fn run_script(
    visitor: &mut Visitor,
    mut rng: Rng,
    peers: &[SocketAddr],
    label: &str,
    are_disturbed: &AtomicBool,
) -> Vec<Duration> {
    let mut clients: Vec<Client> = peers.iter().map(|peer| Client::connect(*peer)).collect();
    let mut waits = Vec::new();
    let mut request = |visitor: &mut Visitor, at: usize, target: &str| {
        let begun = Instant::now();
        let (status, _) = visitor.request(at, &mut clients[at], target, label);
        if target == TARGET {
            waits.push(begun.elapsed());
        }
        status
    };
    thread::sleep(Duration::from_millis(rng.below(1_000)));
    let pause = [5, 30, 80, 200][usize::try_from(rng.below(4)).unwrap()];
    let begun = Instant::now();
    while are_disturbed.load(Ordering::Relaxed) && begun.elapsed() < ROUND_MAX {
        let at = usize::try_from(rng.below(SERVERS as u64)).unwrap();
        let is_counted = !rng.one_in(10);
        request(visitor, at, if is_counted { TARGET } else { "/v1/health" });
        thread::sleep(Duration::from_millis(rng.below(2 * pause)));
    }
    let begun = Instant::now();
    wait_for("429 of all servers", || {
        let mut is_refused = true;
        for at in 0..SERVERS {
            while request(visitor, at, TARGET) == 200 {}
            is_refused &= request(visitor, at, TARGET) == 429;
        }
        is_refused && (visitor.admitted() >= LIMIT || begun.elapsed() > RECHECK)
    });
    waits
}

fn mode(rng: &mut Rng, is_mild: bool) -> Mode {
    let short = Duration::from_millis(rng.below(4));
    let long = Duration::from_millis(5 + rng.below(395));
    match rng.below(if is_mild { 4 } else { 10 }) {
        0 => Mode::Delay(short),
        1 => Mode::AnswerLate(short),
        2 => Mode::Pass,
        3 | 4 => Mode::Double,
        5 => Mode::Delay(long),
        6 => Mode::AnswerLate(long),
        7 => Mode::Drop,
        8 => Mode::DropAnswers,
        _ => Mode::Refuse,
    }
}

/// Sends requests that need no credit, and returns the duration of the slowest.
fn slowest_health(peers: &[SocketAddr], are_running: &AtomicBool) -> Duration {
    let mut clients: Vec<Client> = peers.iter().map(|peer| Client::connect(*peer)).collect();
    let (mut slowest, begun) = (Duration::ZERO, Instant::now());
    while are_running.load(Ordering::Relaxed) && begun.elapsed() < ROUND_MAX {
        for client in &mut clients {
            let begun = Instant::now();
            assert_eq!(client.get("/v1/health").status, 200);
            slowest = slowest.max(begun.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
    }
    slowest
}

/// Figures of the scripts of one kind of faults.
#[derive(Default)]
struct Report {
    scripts: u32,
    exact: u32,
    largest: u32,
    waits: Vec<Duration>,
    slowest_other: Duration,
}

impl Report {
    fn add(&mut self, admitted: u32, waits: Vec<Duration>) {
        self.scripts += 1;
        self.exact += u32::from(admitted == LIMIT);
        self.largest = self.largest.max(admitted);
        self.waits.extend(waits);
    }

    fn line(&mut self, kind: Kind, sites: &[Site]) -> String {
        self.waits.sort();
        let at = |share: usize| self.waits[(self.waits.len() - 1) * share / 1000];
        let disturbed = sites.iter().map(|site| site.proxy.disturbed());
        let mut sums = [0; 3];
        for proxy in disturbed {
            for (sum, count) in sums
                .iter_mut()
                .zip([&proxy.delayed, &proxy.lost, &proxy.doubled])
            {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        assert!(!is_slow() || sums.iter().all(|sum| *sum > 0), "{sums:?}");
        let mut line = format!("{kind:?}: {} scripts", self.scripts);
        let _ = write!(line, ", {} exact, most {}", self.exact, self.largest);
        let _ = write!(line, "; {} requests", self.waits.len());
        let _ = write!(line, ", p50 {:?}, p99 {:?}", at(500), at(990));
        let _ = write!(line, ", slowest {:?}", at(1000));
        let _ = write!(line, ", without credits {:?}", self.slowest_other);
        let _ = write!(line, "; messages delayed, lost and doubled: {sums:?}");
        line
    }
}

#[expect(clippy::print_stdout, reason = "the figures are of interest")]
fn run(keeps_data: bool, refuses: bool) {
    let kind = Kind {
        keeps_data,
        refuses,
    };
    let label = format!("{kind:?}");
    let Some(mut world) = World::start(label, SERVERS, false, refuses, keeps_data) else {
        return;
    };
    let (rounds, scripts) = size();
    let mut report = Report::default();
    for number in 1..=rounds {
        round(&mut world, kind, number, scripts, &mut report);
    }
    println!("{}", report.line(kind, &world.sites));
    if kind.refuses {
        assert_eq!(report.exact, report.scripts);
    }
}

#[test]
fn faults_of_a_store_that_keeps_its_data_add_at_most_the_shares_of_servers_that_were_cut_off() {
    run(true, false);
}

#[test]
fn servers_that_refuse_alone_admit_exactly_the_limit_whatever_a_store_with_data_does() {
    run(true, true);
}

#[test]
fn a_store_that_returns_empty_grants_again_at_most_what_cut_off_servers_had() {
    run(false, false);
}

#[test]
fn a_store_that_returns_empty_grants_nothing_again_to_servers_that_refuse_alone() {
    run(false, true);
}

/// Sends a command through a proxy, and returns the first line of the answer if there is one soon.
fn ask(client: &mut TcpStream, words: &[&str]) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(command, "${}\r\n{word}\r\n", word.len());
    }
    client.write_all(command.as_bytes()).ok()?;
    let mut answer = [0; 256];
    let count = uninterrupted(|| client.read(&mut answer))
        .ok()
        .filter(|count| *count > 0)?;
    let answer = std::str::from_utf8(&answer[..count]).unwrap();
    Some(answer.lines().next().unwrap().to_owned())
}

#[test]
fn the_proxy_disturbs_connections_as_its_mode_requires() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let proxy = StoreProxy::start(store.port);
    let time = Duration::from_millis(300);
    let connect = || {
        let client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        client.set_read_timeout(Some(3 * time)).unwrap();
        client
    };
    let pong = Some("+PONG".to_owned());
    let mut client = connect();
    assert_eq!(ask(&mut client, &["PING"]), pong);
    for mode in [Mode::Delay(time), Mode::AnswerLate(time)] {
        proxy.set(mode);
        let begun = Instant::now();
        assert_eq!(ask(&mut client, &["PING"]), pong);
        assert!(begun.elapsed() >= time);
    }
    proxy.set(Mode::Double);
    let first = ask(&mut client, &["INCR", "doubled"]);
    assert!([":1", ":2"].contains(&first.unwrap().as_str()));
    let doubled = || store.command("INCRBY doubled 0");
    wait_for("the second command", || doubled() == ":2");
    for (mode, arrived) in [(Mode::Drop, ":0"), (Mode::DropAnswers, ":1")] {
        let mut client = connect();
        proxy.set(mode);
        assert_eq!(ask(&mut client, &["INCR", "lost"]), None);
        assert_eq!(store.command("INCRBY lost 0"), arrived);
        // Nothing arrives on this connection any more, and all on another one.
        proxy.set(Mode::Pass);
        assert_eq!(ask(&mut client, &["PING"]), None);
        assert_eq!(ask(&mut connect(), &["PING"]), pong);
    }
    let mut adding = connect();
    proxy.set(Mode::DropAfterKey);
    for answer in [pong.clone(), Some(":1".to_owned()), None] {
        let command: &[&str] = match answer.as_deref() {
            Some(":1") => &["HSET", "key", "id", "{\"address\":\"\"}"],
            _ => &["PING"],
        };
        assert_eq!(ask(&mut adding, command), answer);
    }
    proxy.set(Mode::Refuse);
    assert_eq!(ask(&mut connect(), &["PING"]), None);
    assert_eq!(ask(&mut client, &["PING"]), pong);
    proxy.cut();
    assert_eq!(ask(&mut client, &["PING"]), None);
    proxy.set(Mode::Pass);
    assert_eq!(ask(&mut connect(), &["PING"]), pong);
}
