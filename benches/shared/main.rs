//! The release server with shared quotas and a real store, beside itself without. See `benches/README.md`.
#![expect(
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

#[path = "../common/mod.rs"]
mod common;

use rustix::process::Signal;

use crate::common::prelude::*;
use crate::common::world::{issue_key, serve_command};

const TARGET: &str = "/v1";
/// Daily limit of an address.
const LIMIT: u32 = 1_000;
const CONNECTIONS: usize = 32;
/// During an outage, a few dozen requests wait for the store at a time.
const OUTAGE_CONNECTIONS: usize = 128;
/// Requests per second of the open loops: a fraction of what one core handles.
const RATE: f64 = 2_000.0;
/// Requests of a client during an outage, which are less than the server's share of its day.
const REQUESTS_OF_CLIENT: u32 = 20;
/// A request that waits for the store for 20 ms takes less.
const SLOW_NANOS: u64 = 25_000_000;
/// Longest wait for the recovery.
const RECOVERY_MAX: Duration = Duration::from_secs(20);

/// A store without files, on an address that stays the same when it is started again.
struct Store {
    address: SocketAddr,
    process: Option<Server>,
}

impl Store {
    fn start() -> Outcome<Store> {
        let address = free_address()?;
        let mut store = Store {
            address,
            process: None,
        };
        store.run()?;
        Ok(store)
    }

    /// Starts the program, and waits until it accepts connections.
    fn run(&mut self) -> Outcome<()> {
        let mut program = command("redis-server", Some(SERVER_CORE));
        program.args(["--bind", "127.0.0.1", "--save", ""]);
        program.arg("--port").arg(self.address.port().to_string());
        self.process = Some(Server::start_silent(program, self.address)?);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        let process = self.process.as_ref();
        process.ok_or("the store is down")?.signal(signal)
    }

    /// Use by so many servers, which share the limits without it.
    fn shared(&self, servers: u32) -> Sharing<'_> {
        Sharing(self, servers, "share")
    }

    /// Sends a command, and returns the answer.
    fn command(&self, words: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(format!("{words}\r\nQUIT\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Removes all data: the servers of an earlier measurement are those that need no store for first requests.
    fn clear(&self) -> Outcome<()> {
        self.command("FLUSHALL").map(drop)
    }

    /// Calls of the script since the store was started.
    fn calls(&self) -> Outcome<f64> {
        let text = self.command("INFO commandstats")?;
        let mut calls = 0.0;
        for name in ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="] {
            let count = text
                .split_once(name)
                .and_then(|(_, rest)| rest.split(',').next());
            calls += count.map_or(Ok(0.0), str::parse::<f64>)?;
        }
        Ok(calls)
    }
}

/// How a server uses the store: the number of servers, and the rule without the store.
#[derive(Clone, Copy)]
struct Sharing<'a>(&'a Store, u32, &'a str);

fn serve(state: &Path, sharing: Option<Sharing<'_>>) -> Outcome<Server> {
    let mut serve = serve_command(LIMIT);
    serve.args(["--trusted-proxy", "127.0.0.0/8"]);
    // An open loop uses few of its connections while the server is fast.
    serve.args(["--first-byte-seconds", "3600", "--idle-seconds", "3600"]);
    serve.arg("--state").arg(state);
    if let Some(Sharing(store, servers, outage)) = sharing {
        let url = format!("redis://{}", store.address);
        serve.arg("--shared-quota").arg(url);
        serve
            .arg("--shared-quota-replicas")
            .arg(servers.to_string());
        serve.args(["--shared-quota-outage", outage]);
    }
    Server::start(serve)
}

/// Addresses of clients, as a trusted proxy forwards them.
struct Clients(u32);

impl Clients {
    fn fresh(&mut self) -> Vec<u8> {
        self.0 += 1;
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + self.0);
        get(TARGET, &format!("x-forwarded-for: {address}\r\n"))
    }

    /// Requests of groups of fresh clients, one group after the other; in a group, the clients send
    /// in turn.
    fn requests(&mut self, groups: u32, clients: u32, each: u32) -> Requests {
        let mut requests = Vec::new();
        for _ in 0..groups {
            let group: Vec<Vec<u8>> = (0..clients).map(|_| self.fresh()).collect();
            requests.extend((0..each).flat_map(|_| group.iter().cloned()));
        }
        Requests::distinct(requests, 1)
    }
}

fn print(what: &str, alone: &[f64], shared: &[f64]) {
    let [alone, shared] = [alone, shared].map(|micros| median(micros.iter().copied()));
    println!("{what}: {alone:.2} us alone, {shared:.2} us shared");
}

/// CPU time per request of a client with a high limit: the ratio to a server without a store.
fn cpu(scratch: &Path, store: &Store, sources: &mut Sources) -> Outcome<f64> {
    let rounds = if is_quick() { 3 } else { 25 };
    let duration = Duration::from_millis(if is_quick() { 50 } else { 400 });
    let mut sides = Vec::new();
    for (name, sharing) in [("alone", None), ("shared", Some(store.shared(1)))] {
        let state = scratch.join(name);
        let key = issue_key(&state, "ann@x.test")?;
        let request = get(TARGET, &format!("authorization: Bearer {key}\r\n"));
        let server = serve(&state, sharing)?;
        let pool = sources.pool(server.address, CONNECTIONS)?;
        let requests = Requests::same(&request, 1, 200);
        sides.push((server, pool, requests));
    }
    let mut micros = |side: usize| -> Outcome<f64> {
        let (server, pool, requests) = &mut sides[side];
        server.cpu_micros_each(|| Ok(closed(pool, requests, duration)?.0))
    };
    // Both warm up.
    in_turns(1, &mut micros)?;
    let [alone, shared] = in_turns(rounds, &mut micros)?;
    print("CPU per request", &alone, &shared);
    Ok(median_ratio(&shared, &alone))
}

/// CPU time per request of clients with one request each: the ratio to a server without a store.
fn cpu_of_many(scratch: &Path, store: &Store, sources: &mut Sources) -> Outcome<f64> {
    let (rounds, count) = if is_quick() { (3, 300) } else { (15, 20_000) };
    let mut sides = Vec::new();
    for (name, sharing) in [("many-alone", None), ("many-shared", Some(store.shared(1)))] {
        let server = serve(&scratch.join(name), sharing)?;
        let pool = sources.pool(server.address, CONNECTIONS)?;
        sides.push((server, pool, Clients(1 << 20)));
    }
    let mut micros = |side: usize| -> Outcome<f64> {
        let (server, pool, clients) = &mut sides[side];
        let mut requests = clients.requests(count, 1, 1);
        server.cpu_micros_each(|| Ok(closed(pool, &mut requests, RECOVERY_MAX)?.0))
    };
    in_turns(1, &mut micros)?;
    let [alone, shared] = in_turns(rounds, &mut micros)?;
    print("CPU per request of clients with one each", &alone, &shared);
    Ok(median_ratio(&shared, &alone))
}

/// The p99 that a store adds for clients that use up their limit, in milliseconds.
fn added_p99(scratch: &Path, store: &Store, clients: &mut Clients) -> Outcome<f64> {
    let (rounds, count) = if is_quick() { (2, 1) } else { (15, 4) };
    let mut sources = Sources::new();
    let mut sides = Vec::new();
    for (name, sharing) in [("p99-alone", None), ("p99-shared", Some(store.shared(1)))] {
        let server = serve(&scratch.join(name), sharing)?;
        let pool = sources.pool(server.address, CONNECTIONS)?;
        sides.push((server, pool));
    }
    let [alone, shared] = in_turns(rounds, |side| {
        // Not the last requests: with a late answer, one could be refused.
        let mut requests = clients.requests(1, count, LIMIT - 10);
        let all = f64::from(count * (LIMIT - 10));
        let duration = Duration::from_secs_f64(all / RATE);
        let latencies = open(&mut sides[side].1, &mut requests, RATE, duration)?;
        Ok(latencies.quantile_micros(0.99))
    })?;
    print("p99 near a limit", &alone, &shared);
    let added = shared
        .iter()
        .zip(&alone)
        .map(|(shared, alone)| shared - alone);
    Ok(median(added) / 1000.0)
}

/// Calls to the store for a client that sends as many requests as its limit to four servers in
/// turn.
fn calls(scratch: &Path, store: &Store, clients: &mut Clients) -> Outcome<f64> {
    let mut servers = Vec::new();
    for at in 0..4 {
        let state = scratch.join(format!("calls-{at}"));
        servers.push(serve(&state, Some(store.shared(4)))?);
    }
    let (before, request) = (store.calls()?, clients.fresh());
    let mut admitted = 0;
    for number in 0..LIMIT as usize {
        let server = &servers[number % servers.len()];
        admitted += u32::from(fetch(server.address, &request)?.status == 200);
    }
    let calls = store.calls()? - before;
    println!("store calls: {calls:.0} for {LIMIT} requests to four servers, {admitted} admitted");
    Ok(calls * 1000.0 / f64::from(LIMIT))
}

/// Latencies of a load during which the store is lost by a signal, if one is given.
fn outage(
    server: &Server,
    store: &mut Store,
    clients: &mut Clients,
    lost_by: Option<Signal>,
) -> Outcome<Histogram> {
    let groups = if is_quick() { 100 } else { 300 };
    let all = f64::from(groups * REQUESTS_OF_CLIENT);
    let mut requests = clients.requests(groups, 1, REQUESTS_OF_CLIENT);
    let duration = Duration::from_secs_f64(all / RATE);
    let mut pool = Sources::new().pool(server.address, OUTAGE_CONNECTIONS)?;
    let latencies = thread::scope(|scope| -> Outcome<Histogram> {
        let store = &*store;
        let losing = scope.spawn(move || {
            thread::sleep(duration / 3);
            lost_by.map_or(Ok(()), |signal| store.signal(signal))
        });
        let latencies = open(&mut pool, &mut requests, RATE, duration);
        losing.join().map_err(|_| "a thread panicked")??;
        latencies
    })?;
    match lost_by {
        Some(Signal::STOP) => store.signal(Signal::CONT)?,
        Some(_) => {
            store.process = None;
            store.run()?;
        }
        None => {}
    }
    Ok(latencies)
}

/// Slow requests with the store, and while it is frozen or killed. Returns the largest number of
/// slow requests of an outage beyond those of the round without one.
fn outages(scratch: &Path, store: &mut Store, clients: &mut Clients) -> Outcome<f64> {
    let server = serve(&scratch.join("outages"), Some(store.shared(1)))?;
    let rounds = if is_quick() { 1 } else { 5 };
    let mut added = Vec::new();
    for (name, signal) in [("frozen", Signal::STOP), ("killed", Signal::KILL)] {
        let (mut usual, mut during) = (Histogram::default(), Histogram::default());
        for _ in 0..rounds {
            let before = outage(&server, store, clients, None)?;
            usual.add(&before);
            during.add(&outage(&server, store, clients, Some(signal))?);
            recovered(&server, clients, Instant::now())?;
            // The server has sent its counts, and the store answers in time.
            thread::sleep(Duration::from_secs(3));
        }
        let [slow, slow_before] = [&during, &usual].map(|all| all.count_above(SLOW_NANOS));
        let [slowest, slowest_before] =
            [&during, &usual].map(|all| all.quantile_micros(1.0) / 1000.0);
        println!(
            "store {name}: {slow} requests over 25 ms, slowest {slowest:.1} ms; \
             before: {slow_before}, {slowest_before:.1} ms"
        );
        added.push(f64::from(slow) - f64::from(slow_before));
    }
    Ok(largest(&added))
}

/// The status of the second request of a fresh client, which is the first that needs a credit of the store.
fn status_of_lease(server: &Server, clients: &mut Clients) -> Outcome<u16> {
    let request = clients.fresh();
    fetch(server.address, &request)?;
    Ok(fetch(server.address, &request)?.status)
}

/// The time until a fresh client gets a lease.
fn recovered(server: &Server, clients: &mut Clients, since: Instant) -> Outcome<f64> {
    let recovered = wait_for(RECOVERY_MAX, Duration::from_millis(5), || {
        let status = status_of_lease(server, clients)?;
        Ok((status == 200).then(|| since.elapsed().as_secs_f64()))
    });
    recovered?.ok_or_else(|| "the server has not recovered".into())
}

/// Seconds from the store's return until a fresh client gets a lease, the longest of some rounds.
fn recovery(scratch: &Path, store: &mut Store, clients: &mut Clients) -> Outcome<[f64; 2]> {
    let server = serve(&scratch.join("recovery"), Some(Sharing(store, 1, "refuse")))?;
    let rounds = if is_quick() { 1 } else { 5 };
    let (mut frozen, mut killed) = (Vec::new(), Vec::new());
    let lost = |clients: &mut Clients, server: &Server| -> Outcome<()> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1_500) {
            let status = status_of_lease(server, clients)?;
            if status != 503 {
                return Err(format!("status {status} without the store").into());
            }
        }
        Ok(())
    };
    for _ in 0..rounds {
        recovered(&server, clients, Instant::now())?;
        store.signal(Signal::STOP)?;
        lost(clients, &server)?;
        store.signal(Signal::CONT)?;
        frozen.push(recovered(&server, clients, Instant::now())?);
        store.process = None;
        lost(clients, &server)?;
        store.run()?;
        killed.push(recovered(&server, clients, Instant::now())?);
    }
    println!(
        "recovery: {:.2} s median after a freeze, {:.2} s after a restart",
        median(frozen.iter().copied()),
        median(killed.iter().copied())
    );
    Ok([largest(&frozen), largest(&killed)])
}

fn main() -> Outcome<()> {
    if installed("redis-server").is_none() {
        println!("skipped: needs redis-server, `apt-get install redis-server`");
        return Ok(());
    }
    println!("{}", pin_load()?);
    let scratch = Scratch::new()?;
    let mut store = Store::start()?;
    let (mut sources, mut clients) = (Sources::new(), Clients(0));
    let path = scratch.path();
    let ratio = cpu(path, &store, &mut sources)?;
    store.clear()?;
    let ratio_of_many = cpu_of_many(path, &store, &mut sources)?;
    store.clear()?;
    let added = added_p99(path, &store, &mut clients)?;
    store.clear()?;
    let calls = calls(path, &store, &mut clients)?;
    store.clear()?;
    let slow = outages(path, &mut store, &mut clients)?;
    store.clear()?;
    let [frozen, killed] = recovery(path, &mut store, &mut clients)?;
    println!("\n{:<52}{:>10}{:>8}", "", "measured", "goal");
    for (name, measured, goal) in [
        ("CPU per request, times that without a store", ratio, 1.03),
        (
            "the same, clients with one request each",
            ratio_of_many,
            1.2,
        ),
        ("p99 added near a limit, ms", added, 1.0),
        ("store calls per 1,000 requests near a limit", calls, 100.0),
        ("more requests over 25 ms without the store", slow, 0.0),
        ("recovery after a freeze, longest, s", frozen, 2.0),
        ("recovery after a restart, longest, s", killed, 2.0),
    ] {
        println!("{name:<52}{measured:>10.2}{goal:>8.2}");
    }
    Ok(())
}
