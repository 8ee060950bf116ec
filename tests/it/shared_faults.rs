//! Four servers and a store, random faults between them, and what clients see.
//!
//! A script is a client of its own, with requests to random servers at random moments. The scripts
//! of a round meet the same faults. After the faults, each client sends requests until all servers
//! refuse them, and then its script is checked:
//!
//! - What was admitted is what the store granted: no credit was spent twice, and none was lost.
//! - It is at least the limit, and exactly the limit if the store kept its data and no server took
//!   a share. Otherwise the bound of `quota::lease` holds: see [`Bound`].
//! - `X-RateLimit-Remaining` never rises at a server.
//! - Each response is 200, 429 or 503, the latter two with `Retry-After`, and none waits for the
//!   store.

use crate::prelude::*;
use crate::shared_quota::TARGET;
use crate::store::{LIMIT, Peer, Store};
use crate::store_proxy::{Mode, StoreProxy};

const SERVERS: usize = 4;
/// Largest share that a server takes.
const SHARE: u32 = LIMIT / 4;
/// Duration of the faults of a round.
const FAULTS: Duration = Duration::from_millis(2_500);
/// Time after a loss of data in which servers that reach the store settle: two seconds without
/// grants follow the connection of the first of them.
const SETTLING: Duration = Duration::from_millis(2_500);
/// A server requests credits again so long after the store has refused them, and a little more.
const RECHECK: Duration = Duration::from_secs(7);
/// A request may take so much longer than the slowest one that needs no credit. A fault of the
/// waiting would show as a second, the time after which a request to the store has failed.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// A round that takes longer has failed.
const ROUND_MAX: Duration = Duration::from_mins(2);

/// Rounds of each kind of faults, and scripts in each.
fn size() -> (u64, u32) {
    if is_slow() { (12, 21) } else { (1, 5) }
}

/// Servers, each of which reaches the store through a proxy.
struct Cluster {
    peers: Vec<Peer>,
    proxies: Vec<StoreProxy>,
    store: Store,
    kind: Kind,
    _directory: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The store writes all it knows to a file before it answers, and reads it when it starts.
    keeps_data: bool,
    /// Without the store, servers admit only what they were granted.
    refuses: bool,
}

impl Cluster {
    fn start(kind: Kind) -> Option<Cluster> {
        let directory = TempDir::new();
        let data = directory.join("store");
        fs::create_dir(&data).unwrap();
        let keep = ["--dir", data.to_str().unwrap(), "--appendonly", "yes"];
        // The process is killed, not the machine: what was written is there.
        let keep = [&keep[..], &["--appendfsync", "no"]].concat();
        let store = Store::start(if kind.keeps_data { &keep[..] } else { &[] })?;
        let proxies: Vec<StoreProxy> = (0..SERVERS)
            .map(|_| StoreProxy::start(store.port))
            .collect();
        let outage = if kind.refuses { "refuse" } else { "share" };
        let more = ["--shared-quota-outage", outage];
        let more = [&more[..], &["--trusted-proxy", "127.0.0.0/8"]].concat();
        // Clients connect to all servers, and begin later.
        let more = [&more[..], &["--first-byte-seconds", "60"]].concat();
        let start = |(at, proxy): (usize, &StoreProxy)| {
            let state = directory.join(&format!("state-{at}"));
            Peer::start(&proxy.url(), &state, SERVERS, &more)
        };
        Some(Cluster {
            peers: proxies.iter().enumerate().map(start).collect(),
            proxies,
            store,
            kind,
            _directory: directory,
        })
    }

    /// The shares that each server has taken so far.
    fn shares(&self) -> Vec<f64> {
        let shares = self.peers.iter().map(|peer| peer.metric("shares_total"));
        shares.collect()
    }

    /// Credits of a client's day that all servers have received. If the answer to a server was
    /// late, it settles a share a moment later.
    fn settled(&self, script: &Script) -> u32 {
        let begun = Instant::now();
        loop {
            let granted = self.store.credits(&script.address);
            if granted == script.admitted() || begun.elapsed() > SETTLING {
                return granted;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Faults for some time. Returns the servers that were cut off during each loss of data.
    fn disturb(&mut self, rng: &mut Rng) -> Vec<[bool; SERVERS]> {
        let mut losses = Vec::new();
        let is_mild = rng.one_in(4);
        let begun = Instant::now();
        while begun.elapsed() < FAULTS {
            thread::sleep(Duration::from_millis(10 + rng.below(150)));
            let first = usize::try_from(rng.below(SERVERS as u64)).unwrap();
            let some = if rng.one_in(3) {
                &self.proxies[..]
            } else {
                &self.proxies[first..=first]
            };
            match if is_mild { 0 } else { rng.below(9) } {
                0..=4 => {
                    let mode = mode(rng, is_mild);
                    for proxy in some {
                        proxy.set(mode);
                    }
                }
                5 => some.iter().for_each(StoreProxy::cut),
                6 => some.iter().for_each(|proxy| proxy.set(Mode::Pass)),
                7 => {
                    self.store.signal("-STOP");
                    thread::sleep(Duration::from_millis(10 + rng.below(1_200)));
                    self.store.signal("-CONT");
                }
                _ => losses.extend(self.restart_store(rng)),
            }
        }
        self.proxies.iter().for_each(|proxy| proxy.set(Mode::Pass));
        losses
    }

    /// Kills the store, and starts it again. If it loses its data, the faults of the network stay
    /// as they are until all servers that reach the store have settled.
    fn restart_store(&mut self, rng: &mut Rng) -> Option<[bool; SERVERS]> {
        let loses_data = !self.kind.keeps_data;
        if loses_data && rng.one_in(2) {
            self.proxies.iter().for_each(|proxy| proxy.set(Mode::Pass));
        }
        self.store.kill();
        thread::sleep(Duration::from_millis(rng.below(700)));
        assert!(self.store.run());
        loses_data.then(|| {
            thread::sleep(SETTLING);
            let reaches = |proxy: &StoreProxy| [Mode::Pass, Mode::Double].contains(&proxy.mode());
            std::array::from_fn(|at| !reaches(&self.proxies[at]))
        })
    }

    /// Runs the scripts of a round, and checks them.
    fn round(&mut self, number: u64, scripts: u32, report: &mut Report) {
        let Kind {
            keeps_data,
            refuses,
        } = self.kind;
        let mut rng = Rng(4 * number + 2 * u64::from(keeps_data) + u64::from(refuses));
        let name = format!("{:?}, round {number}", self.kind);
        let shares_before = self.shares();
        let peers: Vec<_> = self.peers.iter().map(|peer| peer.server.addr()).collect();
        let (are_disturbed, are_running) = (&AtomicBool::new(true), &AtomicBool::new(true));
        let (scripts, losses, slowest_other) = thread::scope(|scope| {
            let scripts: Vec<_> = (0..scripts)
                .map(|client| {
                    let address = format!("198.18.{number}.{client}");
                    let script = Script::new(&name, address, &peers);
                    let (label, rng) = (script.label.clone(), Rng(rng.next()));
                    (label, scope.spawn(move || script.run(rng, are_disturbed)))
                })
                .collect();
            let other = scope.spawn(|| slowest_health(&peers, are_running));
            let losses = self.disturb(&mut rng);
            self.peers.iter().for_each(|peer| peer.await_up(true));
            are_disturbed.store(false, Ordering::Relaxed);
            let join = |(label, script): (String, thread::ScopedJoinHandle<'_, Script>)| {
                script.join().unwrap_or_else(|_| panic!("{label}"))
            };
            let scripts: Vec<Script> = scripts.into_iter().map(join).collect();
            // Until now: the scripts load the machine most at their end.
            are_running.store(false, Ordering::Relaxed);
            (scripts, losses, other.join().unwrap())
        });
        let shares = self.shares().into_iter().zip(shares_before);
        let bound = Bound {
            kind: self.kind,
            losses,
            shares: shares.map(|(after, before)| after - before).collect(),
        };
        let mut excess = 0;
        for script in &scripts {
            let granted = self.settled(script);
            excess += bound.check(script, granted);
            script.check_waits(slowest_other);
            report.add(script);
        }
        // Each share that was taken added at most its size, whichever client it was for.
        let shares: f64 = bound.shares.iter().sum();
        assert!(
            bound.losses.iter().flatten().any(|is_cut| *is_cut)
                || f64::from(excess) <= shares * f64::from(SHARE),
            "{name}: {excess} beyond the limits with {shares} shares"
        );
        report.slowest_other = report.slowest_other.max(slowest_other);
    }
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

/// A client's requests in a round, and the responses.
struct Script {
    label: String,
    address: String,
    clients: Vec<Client>,
    /// By server.
    admitted: [u32; SERVERS],
    shown: [u32; SERVERS],
    waits: Vec<Duration>,
}

impl Script {
    fn new(round: &str, address: String, peers: &[SocketAddr]) -> Script {
        Script {
            label: format!("{round}, client {address}"),
            address,
            clients: peers.iter().map(|peer| Client::connect(*peer)).collect(),
            admitted: [0; SERVERS],
            shown: [LIMIT; SERVERS],
            waits: Vec::new(),
        }
    }

    fn admitted(&self) -> u32 {
        self.admitted.iter().sum()
    }

    fn run(mut self, mut rng: Rng, are_disturbed: &AtomicBool) -> Script {
        thread::sleep(Duration::from_millis(rng.below(1_000)));
        let pause = [5, 30, 80, 200][usize::try_from(rng.below(4)).unwrap()];
        let begun = Instant::now();
        while are_disturbed.load(Ordering::Relaxed) && begun.elapsed() < ROUND_MAX {
            let at = usize::try_from(rng.below(SERVERS as u64)).unwrap();
            let is_counted = !rng.one_in(10);
            self.request(at, if is_counted { TARGET } else { "/v1/health" });
            thread::sleep(Duration::from_millis(rng.below(2 * pause)));
        }
        let begun = Instant::now();
        wait_for("429 of all servers", || {
            let mut is_refused = true;
            for at in 0..SERVERS {
                while self.request(at, TARGET) == 200 {}
                is_refused &= self.request(at, TARGET) == 429;
            }
            is_refused && (self.admitted() >= LIMIT || begun.elapsed() > RECHECK)
        });
        self
    }

    fn request(&mut self, at: usize, target: &str) -> u16 {
        let begun = Instant::now();
        let headers = [("X-Forwarded-For", self.address.as_str())];
        let reply = self.clients[at].request("GET", target, &headers);
        let label = &self.label;
        match (reply.status, reply.header("retry-after")) {
            (200, None) | (429, Some(_)) | (503, Some("1")) => {}
            (status, retry) => panic!("{label}: {status}, {retry:?}: {}", reply.text()),
        }
        if target == TARGET {
            self.waits.push(begun.elapsed());
            self.admitted[at] += u32::from(reply.status == 200);
        }
        let remaining: u32 = reply.expect("x-ratelimit-remaining").parse().unwrap();
        let shown = &mut self.shown[at];
        assert!(
            remaining <= *shown,
            "{label}: {remaining} remain at server {at} after {shown}"
        );
        *shown = remaining;
        reply.status
    }

    fn check_waits(&self, slowest_other: Duration) {
        let slowest = self.waits.iter().max().unwrap();
        assert!(
            *slowest < slowest_other + WAIT_MAX,
            "{}: {slowest:?}, without credits {slowest_other:?}",
            self.label
        );
    }
}

/// The most that may be admitted to a client (CONTRACT section 9). Servers that refuse without the store add
/// nothing to the limit. Others add their shares, each at most `limit / servers`:
///
/// - a server that was cut off;
/// - a server that reached the store after a loss of data, while the figures of another one were missing.
struct Bound {
    kind: Kind,
    /// The servers that were cut off, for each loss of data.
    losses: Vec<[bool; SERVERS]>,
    /// Shares that each server took in the round, for any client.
    shares: Vec<f64>,
}

impl Bound {
    /// Checks a script, and returns what was admitted beyond the limit.
    fn check(&self, script: &Script, granted: u32) -> u32 {
        let (label, admitted) = (&script.label, script.admitted());
        let mut most = LIMIT;
        for at in 0..SERVERS {
            let was_alone = self.shares[at] > 0.0;
            let is_other_cut =
                |is_cut: &[bool; SERVERS]| (0..SERVERS).any(|other| other != at && is_cut[other]);
            let has_share = was_alone || self.losses.iter().any(is_other_cut);
            let adds = has_share && !self.kind.refuses && script.admitted[at] > 0;
            most += if adds { SHARE } else { 0 };
        }
        assert!(
            (LIMIT..=most).contains(&admitted),
            "{label}: {:?} admitted, which is not from {LIMIT} to {most}",
            script.admitted
        );
        assert_eq!(admitted, granted, "{label}: admitted and granted");
        admitted - LIMIT
    }
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
    fn add(&mut self, script: &Script) {
        self.scripts += 1;
        self.exact += u32::from(script.admitted() == LIMIT);
        self.largest = self.largest.max(script.admitted());
        self.waits.extend(&script.waits);
    }

    fn line(&mut self, cluster: &Cluster) -> String {
        self.waits.sort();
        let at = |share: usize| self.waits[(self.waits.len() - 1) * share / 1000];
        let disturbed = cluster.proxies.iter().map(StoreProxy::disturbed);
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
        let mut line = format!("{:?}: {} scripts", cluster.kind, self.scripts);
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
    let Some(mut cluster) = Cluster::start(kind) else {
        return;
    };
    let (rounds, scripts) = size();
    cluster.peers[0].server.wait_for_a_day_with(600);
    cluster.peers.iter().for_each(|peer| peer.await_up(true));
    let mut report = Report::default();
    for number in 1..=rounds {
        cluster.round(number, scripts, &mut report);
    }
    println!("{}", report.line(&cluster));
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
