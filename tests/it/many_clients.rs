//! Many concurrent clients, and unlimited numbers of them: quotas are exact, and memory is fixed.

use std::ops::Range;

use crate::prelude::*;

/// Requests pipelined on a connection. Their responses fit into the buffers of two sockets, which
/// excludes a deadlock.
const BATCH: usize = 200;
const THREADS: u32 = 8;
/// Growth allowed for memory that is allocated once and late.
const GROWTH_KIB_MAX: u64 = 2048;

/// A connection that pipelines `HEAD /v1`, whose responses have no body.
struct Pipe {
    stream: BufReader<TcpStream>,
    requests: String,
    head: Vec<u8>,
}

impl Pipe {
    fn new(server: &Server) -> Self {
        Self {
            stream: BufReader::with_capacity(1 << 16, socket(server.addr())),
            requests: String::new(),
            head: Vec::new(),
        }
    }

    /// Adds a request with this header line to the next batch.
    fn add(&mut self, line: &str) {
        self.requests.push_str("HEAD /v1 HTTP/1.1\r\nHost: x\r\n");
        self.requests.push_str(line);
        self.requests.push_str("\r\n\r\n");
    }

    fn send(&mut self) {
        let requests = self.requests.as_bytes();
        self.stream.get_mut().write_all(requests).unwrap();
        self.requests.clear();
    }

    /// Reads the head of the next response.
    fn read(&mut self) -> &str {
        self.head.clear();
        while !self.head.ends_with(b"\r\n\r\n") {
            let count = self.stream.read_until(b'\n', &mut self.head).unwrap();
            assert!(count > 0, "the server closed the connection");
        }
        std::str::from_utf8(&self.head).unwrap()
    }
}

/// Arguments that allow more requests on a connection than the default.
const LONG: [&str; 2] = ["--connection-requests", "4000000000"];

/// The quota headers of a response.
struct Figures {
    status: u16,
    limit: u32,
    remaining: u32,
}

fn figures(head: &str) -> Figures {
    let number = |name| {
        let (_, rest) = head.split_once(name).unwrap();
        rest.split('\r').next().unwrap().parse().unwrap()
    };
    Figures {
        status: head[9..12].parse().unwrap(),
        limit: number("x-ratelimit-limit: "),
        remaining: number("x-ratelimit-remaining: "),
    }
}

/// The responses to a client: how often each `Remaining` was on an admitted one, and how many were
/// refused.
#[derive(Clone)]
struct Tally {
    admitted: Vec<u32>,
    refused: u32,
}

/// Sends `2 * limit` requests of every client, in random order on all connections. `line` is the
/// header that identifies a client, on its n-th turn.
fn storm(
    server: &Server,
    callers: u32,
    limit: u32,
    connections: u32,
    line: &(impl Fn(u32, u32) -> String + Sync),
) -> Vec<Tally> {
    let mut tallies = vec![
        Tally {
            admitted: vec![0; limit as usize],
            refused: 0
        };
        callers as usize
    ];
    let answers: Vec<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mine = (thread..connections).step_by(THREADS as usize);
                let plans = mine.map(|at| plan(callers, 2 * limit, connections, at));
                let plans: Vec<_> = plans.collect();
                scope.spawn(move || ask_all(server, &plans, line))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for (caller, figures) in answers.into_iter().flatten() {
        let tally = &mut tallies[caller as usize];
        assert_eq!(figures.limit, limit, "caller {caller}");
        match figures.status {
            200 => tally.admitted[figures.remaining as usize] += 1,
            429 => {
                assert_eq!(figures.remaining, 0, "left to caller {caller} on a 429");
                tally.refused += 1;
            }
            other => panic!("{other} to caller {caller}"),
        }
    }
    tallies
}

/// The clients and turns of one connection, shuffled.
fn plan(callers: u32, turns: u32, connections: u32, at: u32) -> Vec<(u32, u32)> {
    let all = (0..callers).flat_map(|caller| (0..turns).map(move |turn| (caller, turn)));
    let mut mine: Vec<_> = all
        .filter(|(caller, turn)| (caller + turn) % connections == at)
        .collect();
    Rng(at.into()).shuffle(&mut mine);
    mine
}

/// Runs plans, one on each connection, in batches: all requests are sent before a response is read.
fn ask_all(
    server: &Server,
    plans: &[Vec<(u32, u32)>],
    line: &impl Fn(u32, u32) -> String,
) -> Vec<(u32, Figures)> {
    let mut pipes: Vec<Pipe> = plans.iter().map(|_| Pipe::new(server)).collect();
    let mut batches: Vec<_> = plans.iter().map(|plan| plan.chunks(BATCH)).collect();
    let mut answers = Vec::new();
    loop {
        let now: Vec<&[_]> = batches
            .iter_mut()
            .map(|batches| batches.next().unwrap_or(&[]))
            .collect();
        if now.iter().all(|batch| batch.is_empty()) {
            return answers;
        }
        for (pipe, batch) in pipes.iter_mut().zip(&now) {
            for (caller, turn) in *batch {
                pipe.add(&line(*caller, *turn));
            }
            pipe.send();
        }
        for (pipe, batch) in pipes.iter_mut().zip(&now) {
            for (caller, _) in *batch {
                answers.push((*caller, figures(pipe.read())));
            }
        }
    }
}

/// Asserts that every client was admitted `limit` times, with each `Remaining` once, and refused
/// otherwise.
#[track_caller]
fn each_got_its_limit(tallies: &[Tally], limit: u32) {
    for (caller, tally) in tallies.iter().enumerate() {
        assert!(
            tally.admitted.iter().all(|times| *times == 1),
            "caller {caller}: {:?}",
            tally.admitted
        );
        assert_eq!(tally.refused, limit, "caller {caller}");
    }
}

/// The address of a client: an IPv4 address, or another one of an IPv6 network on each turn.
fn forwarded(client: u32, turn: u32) -> String {
    let [a, b, c, d] = client.to_be_bytes();
    match (client % 2, turn % 2) {
        (0, 0) => format!("X-Forwarded-For: {}.{b}.{c}.{d}", 11 + a),
        (0, _) => format!("X-Forwarded-For: ::ffff:{}.{b}.{c}.{d}", 11 + a),
        _ => {
            let (high, low) = (client >> 16, client & 0xffff);
            format!("X-Forwarded-For: 2001:db8:{high:x}:{low:x}:{turn:x}::{turn:x}")
        }
    }
}

#[test]
fn a_crowd_of_addresses_gets_exactly_its_limits() {
    let (clients, limit) = if is_slow() { (10_000, 100) } else { (300, 20) };
    let flag = limit.to_string();
    let mut args = words("--trusted-proxy 127.0.0.0/8 --workers 4 --limit-anonymous");
    args.push(&flag);
    args.extend(LONG);
    let server = Server::start(&args);
    server.wait_for_a_day_with(if is_slow() { 300 } else { 30 });
    let tallies = storm(&server, clients, limit, 64, &forwarded);
    each_got_its_limit(&tallies, limit);
}

#[test]
fn one_key_on_sixteen_connections_gets_exactly_its_limit() {
    let limit = if is_slow() { 500_000 } else { 100_000 };
    let (dir, flag) = (TempDir::new(), limit.to_string());
    let state = dir.join("state");
    let key = issue(&state, "ann@x.test", "pro");
    let mut args = vec!["--state", state.to_str().unwrap(), "--limit-pro", &flag];
    args.extend(["--workers", "4", "--quota-clients", "9999"]);
    args.extend(LONG);
    let server = Server::start(&args);
    server.wait_for_a_day_with(60);
    let line = |_, _| format!("Authorization: Bearer {key}");
    let tallies = storm(&server, 1, limit, 16, &line);
    each_got_its_limit(&tallies, limit);
}

#[test]
fn one_address_on_sixteen_connections_gets_exactly_its_limit() {
    // The highest valid limit.
    let limit = 65_535;
    let server = Server::start(&["--limit-anonymous", "65535", "--workers", "4"]);
    server.wait_for_a_day_with(60);
    let tallies = storm(&server, 1, limit, 16, &|_, _| "Accept: */*".to_owned());
    each_got_its_limit(&tallies, limit);
}

/// Sends one request of each of these new clients; returns how many are admitted.
fn spray(server: &Server, clients: Range<u32>) -> u32 {
    let share = clients.len().div_ceil(4);
    let clients: Vec<u32> = clients.collect();
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .chunks(share)
            .map(|mine| {
                scope.spawn(move || {
                    let (mut pipe, mut admitted) = (Pipe::new(server), 0);
                    for batch in mine.chunks(BATCH) {
                        for client in batch {
                            pipe.add(&forwarded(*client, 0));
                        }
                        pipe.send();
                        for _ in batch {
                            admitted += u32::from(pipe.read().starts_with("HTTP/1.1 200 "));
                        }
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    })
}

/// Clients before the spray: every second one has used its quota, the others half of it.
const WATCHED: u32 = 500;
/// Their `--limit-anonymous`.
const LIMIT: u32 = 40;

fn statuses(pipe: &mut Pipe, client: u32, times: u32) -> Vec<u16> {
    for turn in 0..times {
        pipe.add(&forwarded(client, turn));
    }
    pipe.send();
    (0..times).map(|_| figures(pipe.read()).status).collect()
}

/// Sprays a server whose clients have used all or half of their quota. Its memory does not grow,
/// and their counts are kept. Returns how many of the spray were admitted.
fn spray_among_clients(flags: &[&str], clients: u32) -> u32 {
    let limit = LIMIT.to_string();
    let text = format!("--trusted-proxy 127.0.0.0/8 --limit-anonymous {limit}");
    let own = words(&text);
    let server = Server::start(&[flags, &own, &LONG].concat());
    server.wait_for_a_day_with(if is_slow() { 600 } else { 60 });
    let watched = clients..clients + WATCHED;
    let spent = |client: u32| if client % 4 < 2 { LIMIT } else { LIMIT / 2 };
    let mut pipe = Pipe::new(&server);
    for client in watched.clone() {
        let statuses = statuses(&mut pipe, client, spent(client));
        assert!(statuses.iter().all(|status| *status == 200), "{client}");
    }
    spray(&server, watched.end..watched.end + 4000);
    let before = server.resident_kib();
    let admitted = spray(&server, 0..clients);
    let after = server.resident_kib();
    assert!(after <= before + GROWTH_KIB_MAX, "{before} to {after} KiB");
    // A new connection: the old one may have exceeded the idle timeout.
    let mut pipe = Pipe::new(&server);
    for client in watched {
        let statuses = statuses(&mut pipe, client, LIMIT);
        let left = (LIMIT - spent(client)) as usize;
        let want = [vec![200; left], vec![429; LIMIT as usize - left]].concat();
        assert_eq!(statuses, want, "client {client}");
    }
    admitted
}

#[test]
fn a_spray_of_addresses_takes_no_memory_and_changes_no_count() {
    if is_slowest() {
        // Twice the default size of the table.
        spray_among_clients(&["--quota-clients", "5000000"], 10_000_000);
    } else if is_slow() {
        spray_among_clients(&["--quota-clients", "1000000"], 2_000_000);
    } else {
        let admitted = spray_among_clients(&["--quota-clients", "200000"], 200_000);
        assert_eq!(admitted, 200_000, "all are admitted");
    }
}

#[test]
fn a_spray_of_ten_times_the_capacity_takes_no_memory_and_changes_no_count() {
    let dir = TempDir::new();
    let state = dir.join("state");
    let text = format!("--quota-clients 10000 --state {}", state.display());
    let flags = words(&text);
    spray_among_clients(&flags, 100_000);
}
