//! The machines of a history of losses: servers, each with a proxy between it and the store, and clients
//! that send requests to them. See `shared_pairs` and `shared_faults`.

use Step::{
    Cut, Flush, Follow, Forget, Hurry, Join, Kill, Restore, Save, Settle, Start, Stop, StoreDown,
    StoreUp, Visit,
};

use crate::prelude::*;
use crate::shared_quota::TARGET;
use crate::store::{LIMIT, Peer, Store};
use crate::store_proxy::{Mode, StoreProxy};

/// Time after a loss of data in which servers that reach the store have settled.
const SETTLING: Duration = Duration::from_secs(3);
/// Time in which a server notices a loss, with four attempts.
const NOTICE: Duration = Duration::from_secs(1);
/// A server requests credits again so long after the store has refused them, and a little more.
pub(crate) const RECHECK: Duration = Duration::from_secs(7);
/// The longest that a request waits for the store, and the time that it needs itself.
const WAIT_MAX: Duration = Duration::from_millis(25);
/// A fault of the waiting would show as a second, the time after which a request to the store has failed.
const PAUSE_MAX: Duration = Duration::from_millis(900);
/// A step of a history. Servers have numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Each client sends up to so many requests to each server of its habit.
    Visit(u32),
    /// SIGTERM.
    Stop(usize),
    /// SIGKILL.
    Kill(usize),
    /// A server starts with the state directory that it had, and reaches the store if it can.
    Start(usize),
    /// A server starts, and the next step follows at once.
    Hurry(usize),
    /// A server cannot reach the store until it is joined.
    Cut(usize),
    Join(usize),
    /// The store is killed. It starts without data.
    StoreDown,
    StoreUp,
    /// The store loses its data while it runs.
    Flush,
    /// The store follows an empty one for a moment, and loses its data while it runs.
    Follow,
    /// The store loses the key with the marker alone.
    Forget,
    /// The store's data are copied.
    Save,
    /// The store is killed, and starts with the copy.
    Restore,
    /// Time in which servers notice a loss and settle.
    Settle,
}

/// The servers that a client sends requests to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    /// All servers.
    Everywhere,
    /// The first server before the first loss, then the others.
    Leaves,
    /// The same, but until its limit is reached.
    Spends,
    /// The first server until the end.
    Stays,
    /// None until the end.
    Late,
}

const HABITS: [Habit; 5] = [
    Habit::Everywhere,
    Habit::Leaves,
    Habit::Spends,
    Habit::Stays,
    Habit::Late,
];

/// A client's requests and the responses.
pub(crate) struct Visitor {
    habit: Habit,
    /// The header that identifies it.
    pub(crate) header: (&'static str, String),
    /// By server.
    admitted: Vec<u32>,
    /// The same at the last check.
    checked: Vec<u32>,
    /// `Remaining` of the last response of each server since its start.
    shown: Vec<u32>,
    /// The same before its start, if the next response must not show more.
    shown_before: Vec<Option<u32>>,
    /// The share of each server that may have been admitted beyond the limit.
    allowed: Vec<u32>,
}

impl Visitor {
    /// A client of so many servers, which has sent no request.
    fn new(habit: Habit, sites: usize, header: (&'static str, String)) -> Visitor {
        Visitor {
            habit,
            header,
            admitted: vec![0; sites],
            checked: vec![0; sites],
            shown: vec![LIMIT; sites],
            shown_before: vec![None; sites],
            allowed: vec![0; sites],
        }
    }

    /// The same of all servers, by an IPv4 address.
    pub(crate) fn of_address(sites: usize, address: &str) -> Visitor {
        let header = ("X-Forwarded-For", address.to_owned());
        Visitor::new(Habit::Everywhere, sites, header)
    }

    pub(crate) fn admitted(&self) -> u32 {
        self.admitted.iter().sum()
    }

    /// Sends a request to a server, and checks the response. Returns the status, and what is wrong if it shows
    /// more than the last response before a start of the server.
    pub(crate) fn request(
        &mut self,
        at: usize,
        client: &mut Client,
        target: &str,
        label: &str,
    ) -> (u16, Option<String>) {
        let (name, value) = &self.header;
        let reply = client.request("GET", target, &[(name, value)]);
        let label = format!("{:?} {value} at server {at} of {label}", self.habit);
        match (reply.status, reply.header("retry-after")) {
            (200, None) | (429, Some(_)) | (503, Some("1")) => {}
            (status, retry) => panic!("{status}, {retry:?}: {}, {label}", reply.text()),
        }
        let remaining = reply.left();
        let before = std::mem::replace(&mut self.shown[at], remaining);
        assert!(
            remaining <= before,
            "{remaining} remain after {before}, {label}"
        );
        let before = self.shown_before[at].take().unwrap_or(LIMIT);
        let rise = (remaining > before)
            .then(|| format!("{remaining} remain after a start, {before} before it, {label}"));
        self.admitted[at] += u32::from(reply.status == 200 && target == TARGET);
        (reply.status, rise)
    }

    /// A server may have taken its share: a part of the rest of the day, as far as it was used there.
    fn allow(&mut self, at: usize, servers: usize) {
        let servers = u32::try_from(servers).unwrap();
        let share = LIMIT.saturating_sub(self.checked[at]) / servers;
        self.allowed[at] = self.allowed[at].max(share);
    }

    /// A server starts. Its next response must not show more than the last one if it is `calm`, but for what
    /// others have given back.
    fn restart(&mut self, at: usize, is_calm: bool, given_back: u32) {
        let shown = std::mem::replace(&mut self.shown[at], LIMIT);
        self.shown_before[at] = is_calm.then_some(shown + given_back);
    }

    fn requests(&self, at: usize, count: u32, is_first: bool) -> u32 {
        match (self.habit, is_first) {
            (Habit::Everywhere, _) => count,
            (Habit::Stays, _) | (Habit::Leaves, true) if at == 0 => count,
            (Habit::Spends, true) if at == 0 => u32::MAX,
            (Habit::Leaves | Habit::Spends, false) if at != 0 => count,
            _ => 0,
        }
    }
}

/// A server, its network and its state directory.
pub(crate) struct Site {
    state: PathBuf,
    pub(crate) proxy: StoreProxy,
    pub(crate) peer: Option<Peer>,
    is_cut: bool,
    /// The store may lack the counts of this server.
    store_lacks_counts: bool,
    /// When it began to reach the store.
    since: Instant,
    /// Shares that it has taken since its start.
    pub(crate) shares: f64,
    /// Credits of a client that other servers may have given back since its start.
    given_back: u32,
    /// Responses after a start that show more than those before it.
    rises: Vec<String>,
}

impl Site {
    fn reaches(&self) -> bool {
        self.peer.is_some() && !self.is_cut
    }
}

/// The machines of a history.
pub(crate) struct World {
    pub(crate) label: String,
    servers: usize,
    refuses: bool,
    pub(crate) store: Store,
    is_store_up: bool,
    data: PathBuf,
    pub(crate) sites: Vec<Site>,
    pub(crate) visitors: Vec<Visitor>,
    visits: u32,
    /// The last loss of the store's data.
    loss: Option<Instant>,
    /// Credits of a client that may be lost to it.
    lost_credits: u32,
    /// Durations of requests, and of those that need no credit.
    waits: Vec<Duration>,
    other_waits: Vec<Duration>,
    _directory: TempDir,
}

impl World {
    /// Starts the servers, which reach the store, and beside them prepares a spare one if `has_spare`. The
    /// label names the history. A store that keeps its data writes them to a file before it answers, and reads it when
    /// it starts.
    pub(crate) fn start(
        label: String,
        servers: usize,
        has_spare: bool,
        refuses: bool,
        keeps_data: bool,
    ) -> Option<World> {
        let directory = TempDir::new();
        let data = directory.join("store");
        fs::create_dir(&data).unwrap();
        let place = ["--dir", data.to_str().unwrap()];
        // The process is killed, not the machine: what was written is there.
        let keep = ["--appendonly", "yes", "--appendfsync", "no"];
        let keep = if keeps_data { &keep[..] } else { &[] };
        let store = Store::start(&[&place, keep].concat())?;
        let state = |at: usize| directory.join(&format!("state-{at}"));
        let sites = servers + usize::from(has_spare);
        let visitors = visitors(sites, &state(0));
        let keys = state(0).join("keys.jsonl");
        let site = |at: usize| {
            fs::create_dir_all(state(at)).unwrap();
            if at > 0 {
                fs::copy(&keys, state(at).join("keys.jsonl")).unwrap();
            }
            Site {
                state: state(at),
                proxy: StoreProxy::start(store.port),
                peer: None,
                is_cut: false,
                store_lacks_counts: false,
                since: Instant::now(),
                shares: 0.0,
                given_back: 0,
                rises: Vec::new(),
            }
        };
        let mut world = World {
            label,
            servers,
            refuses,
            sites: (0..sites).map(site).collect(),
            store,
            is_store_up: true,
            data,
            visitors,
            visits: 0,
            loss: None,
            lost_credits: 0,
            waits: Vec::new(),
            other_waits: Vec::new(),
            _directory: directory,
        };
        for at in 0..servers {
            world.start_server(at, false);
        }
        world.running().for_each(|(_, peer)| peer.await_up(true));
        let first = world.sites[0].peer.as_ref().unwrap();
        first.server.wait_for_a_day_with(600);
        Some(world)
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let sites = self.sites.iter().enumerate();
        sites.filter_map(|(at, site)| Some((at, site.peer.as_ref()?)))
    }

    /// The largest part of a client's day that a server has without having spent it.
    fn unspent_leases(&self) -> u32 {
        let servers = u32::try_from(self.servers).unwrap();
        // A share, or two grants of a quarter of it.
        LIMIT / servers / if self.refuses { 2 } else { 1 }
    }

    fn start_server(&mut self, at: usize, is_awaited: bool) {
        let outage = if self.refuses { "refuse" } else { "share" };
        let more = ["--shared-quota-outage", outage];
        let more = [&more[..], &["--trusted-proxy", "127.0.0.0/8"]].concat();
        // Clients may connect to all servers, and begin later.
        let more = [&more[..], &["--first-byte-seconds", "60"]].concat();
        let is_settled = self.loss.is_none_or(|loss| loss.elapsed() > SETTLING);
        let are_known = self.sites.iter().all(|site| !site.store_lacks_counts);
        let is_awaited = is_awaited && self.grants_with(at);
        let site = &mut self.sites[at];
        let peer = Peer::start(&site.proxy.url(), &site.state, self.servers, &more);
        wait_for("a server that is ready", || is_ready(&peer));
        if is_awaited && !site.is_cut {
            // Before it has reached the store, a server takes its share.
            peer.await_up(true);
        }
        (site.peer, site.since, site.shares) = (Some(peer), Instant::now(), 0.0);
        let given_back = std::mem::take(&mut site.given_back);
        for visitor in &mut self.visitors {
            visitor.restart(at, is_awaited && is_settled && are_known, given_back);
        }
    }

    /// Whether the store has the counts of all other servers, so that it grants credits to a server.
    fn grants_with(&self, at: usize) -> bool {
        let mut others = self
            .sites
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        self.is_store_up && others.all(|(_, site)| !site.store_lacks_counts)
    }

    fn end_server(&mut self, at: usize, is_killed: bool) {
        self.leave(at);
        let unspent_leases = self.unspent_leases();
        let site = &mut self.sites[at];
        let Peer { server, .. } = site.peer.take().unwrap();
        if is_killed {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        let returns = !is_killed && !site.is_cut && self.is_store_up;
        if returns {
            let sites = self.sites.iter_mut().enumerate();
            let others = sites.filter(|(other, _)| *other != at);
            others.for_each(|(_, site)| site.given_back += unspent_leases);
        } else {
            self.lost_credits += unspent_leases;
        }
    }

    /// A server no longer reaches the store: it may not have settled since the last loss.
    fn leave(&mut self, at: usize) {
        let is_settling = self.loss.is_some_and(|loss| loss.elapsed() < SETTLING);
        let site = &mut self.sites[at];
        site.store_lacks_counts |= is_settling && site.reaches();
    }

    fn lose(&mut self) {
        self.loss = Some(Instant::now());
        for (at, site) in self.sites.iter_mut().enumerate() {
            let has_counts = self.visitors.iter().any(|visitor| visitor.admitted[at] > 0);
            site.store_lacks_counts |= has_counts && !site.reaches();
            site.since = Instant::now();
        }
        // A server that has started since its last response cannot know what others admitted.
        for visitor in &mut self.visitors {
            visitor.shown_before.fill(None);
        }
    }

    fn dump(&self) -> PathBuf {
        self.data.join("dump.rdb")
    }

    fn run_store(&mut self) {
        assert!(self.store.run());
        self.is_store_up = true;
        self.lose();
    }

    /// Takes a step, and checks what clients have seen.
    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Visit(count) => self.visit(count),
            Stop(at) => self.end_server(at, false),
            Kill(at) => self.end_server(at, true),
            Start(at) => self.start_server(at, true),
            Hurry(at) => self.start_server(at, false),
            Cut(at) => {
                self.leave(at);
                self.sites[at].is_cut = true;
                self.sites[at].proxy.set(Mode::Refuse);
                self.sites[at].proxy.cut();
            }
            Join(at) => {
                self.sites[at].proxy.set(Mode::Pass);
                self.sites[at].is_cut = false;
                self.sites[at].since = Instant::now();
            }
            StoreDown => {
                self.store.kill();
                self.is_store_up = false;
            }
            StoreUp => self.run_store(),
            Flush => {
                assert_eq!(self.store.command("FLUSHALL"), "+OK");
                self.lose();
            }
            Follow => {
                let empty = Store::start(&[]).unwrap();
                let answer = self
                    .store
                    .command(&format!("REPLICAOF 127.0.0.1 {}", empty.port));
                assert_eq!(answer, "+OK");
                let link = "redis.call('info','replication'):match('master_link_status:(%a+)')";
                let link = format!("EVAL \"return {{ok={link}}}\" 0");
                wait_for("the data of the empty store", || {
                    self.store.command(&link) == "+up"
                });
                assert_eq!(self.store.command("REPLICAOF NO ONE"), "+OK");
                self.lose();
            }
            Forget => {
                self.store.command("DEL imq:3:service");
                self.lose();
            }
            Save => {
                assert_eq!(self.store.command("SAVE"), "+OK");
                fs::rename(self.dump(), self.data.join("copy.rdb")).unwrap();
            }
            Restore => {
                self.store.kill();
                fs::copy(self.data.join("copy.rdb"), self.dump()).unwrap();
                self.run_store();
                fs::remove_file(self.dump()).unwrap();
                // Credits that were given back since the copy.
                self.lost_credits += self.unspent_leases() * u32::try_from(self.servers).unwrap();
            }
            Settle => {
                thread::sleep(NOTICE);
                for (at, peer) in self.running().filter(|(at, _)| self.sites[*at].reaches()) {
                    if self.grants_with(at) {
                        peer.await_up(true);
                    }
                }
            }
        }
        self.check(&format!("after {step:?}"));
    }

    /// Requests of all clients to all servers that run.
    fn visit(&mut self, count: u32) {
        let is_first = self.visits == 0;
        self.visits += 1;
        for at in 0..self.sites.len() {
            let Some(peer) = &self.sites[at].peer else {
                continue;
            };
            let mut client = peer.connect();
            for visitor in 0..self.visitors.len() {
                let requests = self.visitors[visitor].requests(at, count, is_first);
                for _ in 0..requests {
                    if self.request(visitor, at, &mut client) != 200 {
                        break;
                    }
                }
                self.request_health(&mut client);
            }
        }
    }

    fn request(&mut self, visitor: usize, at: usize, client: &mut Client) -> u16 {
        let begun = Stopwatch::start();
        let visitor = &mut self.visitors[visitor];
        let (status, rise) = visitor.request(at, client, TARGET, &self.label);
        self.waits.push(begun.running());
        self.sites[at].rises.extend(rise);
        status
    }

    fn request_health(&mut self, client: &mut Client) {
        let begun = Stopwatch::start();
        assert_eq!(client.get("/v1/health").status, 200);
        self.other_waits.push(begun.running());
    }

    /// Checks what was admitted so far.
    pub(crate) fn check(&mut self, moment: &str) {
        let label = format!("{moment}, {}", self.label);
        for (at, peer) in self.running() {
            assert!(is_ready(peer), "server {at}, {label}");
        }
        for at in 0..self.sites.len() {
            let site = &mut self.sites[at];
            let Some(peer) = &site.peer else { continue };
            let shares = peer.metric("shares_total");
            if shares > site.shares {
                let servers = self.servers;
                let visitors = self.visitors.iter_mut();
                visitors.for_each(|visitor| visitor.allow(at, servers));
            }
            site.shares = shares;
            // A late answer is not one of a store that is in use.
            let rise = site.rises.drain(..).next();
            assert!(
                rise.is_none() || !peer.was_answered_in_time(),
                "{}",
                rise.unwrap()
            );
            let has_settled = site.reaches() && self.is_store_up && site.since.elapsed() > SETTLING;
            site.store_lacks_counts &= !has_settled;
        }
        for visitor in &mut self.visitors {
            // A server adds nothing to a client to which it has admitted nothing.
            let allowed = visitor.allowed.iter().zip(&visitor.admitted);
            let allowed = allowed.filter(|(_, admitted)| **admitted > 0);
            let allowed: u32 = allowed.map(|(share, _)| share).sum();
            let most = LIMIT + if self.refuses { 0 } else { allowed };
            assert!(
                visitor.admitted() <= most,
                "{:?} of {most} admitted to {:?} {}, {label}",
                visitor.admitted,
                visitor.habit,
                visitor.header.1
            );
            visitor.checked.clone_from(&visitor.admitted);
        }
    }

    /// Everything runs again, and each client sends requests until all servers refuse them.
    pub(crate) fn finish(mut self) {
        if !self.is_store_up {
            self.step(StoreUp);
        }
        for at in 0..self.sites.len() {
            if self.sites[at].is_cut {
                self.step(Join(at));
            }
            if self.sites[at].peer.is_none() {
                self.step(Start(at));
            }
        }
        self.running().for_each(|(_, peer)| peer.await_up(true));
        let mut clients: Vec<Client> = self.running().map(|(_, peer)| peer.connect()).collect();
        let begun = Instant::now();
        wait_for("429 of all servers", || {
            let is_refused = self.spend(&mut clients);
            // In the long form, credits that were given back are looked for.
            let is_over = !is_slow() && self.visitors.iter().all(|one| self.has_its_day(one));
            is_refused && (is_over || begun.elapsed() > RECHECK)
        });
        self.check("at the end");
        for visitor in &self.visitors {
            assert!(
                self.has_its_day(visitor),
                "only {:?} admitted to {:?} {}, {}",
                visitor.admitted,
                visitor.habit,
                visitor.header.1,
                self.label
            );
        }
        let (wait, longest) = middle(&mut self.waits);
        let (other, longest_other) = middle(&mut self.other_waits);
        assert!(
            wait < WAIT_MAX + other && longest < PAUSE_MAX + longest_other,
            "{wait:?}, at most {longest:?}; without credits {other:?}, at most {longest_other:?}; {}",
            self.label
        );
    }

    /// Whether a client has used its day, but for the leases that servers kept or lost.
    fn has_its_day(&self, visitor: &Visitor) -> bool {
        let leaves = [Habit::Leaves, Habit::Spends].contains(&visitor.habit);
        let lost = self.lost_credits + if leaves { self.unspent_leases() } else { 0 };
        visitor.admitted() + lost >= LIMIT
    }

    /// Requests of each client to all its servers until they admit no more. Returns whether all of them
    /// answered 429.
    fn spend(&mut self, clients: &mut [Client]) -> bool {
        let mut is_refused = true;
        for visitor in 0..self.visitors.len() {
            let leaves = [Habit::Leaves, Habit::Spends].contains(&self.visitors[visitor].habit);
            for (at, client) in clients.iter_mut().enumerate().skip(usize::from(leaves)) {
                while self.request(visitor, at, client) == 200 {}
                is_refused &= self.request(visitor, at, client) == 429;
            }
        }
        for client in clients {
            self.request_health(client);
        }
        is_refused
    }
}

/// Clients of each habit, by IPv4 address, by IPv6 network and by key.
fn visitors(sites: usize, state: &Path) -> Vec<Visitor> {
    let visitor = |habit, name, value| Visitor::new(habit, sites, (name, value));
    let mut all = Vec::new();
    for (number, habit) in HABITS.into_iter().enumerate() {
        let key = issue(state, &format!("ann-{number}@x.test"), "free");
        let (v4, v6) = (
            format!("198.18.0.{number}"),
            format!("2001:db8:0:{number}::1"),
        );
        all.push(visitor(habit, "X-Forwarded-For", v4));
        all.push(visitor(habit, "X-Forwarded-For", v6));
        all.push(visitor(habit, "Authorization", format!("Bearer {key}")));
    }
    all
}

fn is_ready(peer: &Peer) -> bool {
    Client::connect(peer.admin).get("/readyz").status == 200
}

/// The middle of durations, and the longest.
fn middle(durations: &mut [Duration]) -> (Duration, Duration) {
    durations.sort();
    (
        durations[durations.len() / 2],
        durations[durations.len() - 1],
    )
}
