//! Identification and admission of clients (address, key, quota), without sockets. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its results and stops at the first failure"
)]

#[path = "../common/mod.rs"]
mod common;
mod keys;
mod timing;

use std::hint::black_box;
use std::net::IpAddr;

use hyper::HeaderMap;
use island_metrics::calendar::{RequestTime, UtcDay};
use island_metrics::keys::{KeyPrefix, KeyRecords, KeyStore, KeyTable};
use island_metrics::model::TierLimits;
use island_metrics::observe::{STATUS_CODES, WorkerMetrics};
use island_metrics::quota::{AnonymousClient, AnonymousQuota, Decision, KeyedQuota, TableSize};
use island_metrics::request::{Endpoint, ProxyNetwork, Query, SentKeys, TrustedProxies};
use island_metrics::server::{Caller, ConnectionIdentity, KeyError, QuotaGate};
use island_metrics::sync::Replicated;
use timing::{Chase, report};

use crate::common::prelude::*;

const DAY: i32 = 20_777;
/// Requests a day, below every limit, so that all are admitted.
const A_DAY: usize = 60_000;
const DAYS: i32 = 5;
const A_ROUND: usize = A_DAY * DAYS.unsigned_abs() as usize;

/// A size in the status of this process.
fn own_kib(field: &str) -> i64 {
    status_kib("/proc/self", field).unwrap().cast_signed()
}

fn main() {
    let count = full_or_quick(100_000, 1_000);
    // First, before freed memory can be reused.
    counters(count);
    let scratch = Scratch::new().unwrap();
    keys::write(scratch.path(), count);
    let store = KeyStore::new(scratch.path());
    key_table(&store);
    let records = store.read().unwrap();
    requests(&gate(&records), count, full_or_quick(25, 1));
    timing::same_time(&records, full_or_quick(1_000_000, 2_000));
    throughput(full_or_quick(20_000_000, 100_000));
}

fn gate(records: &KeyRecords) -> QuotaGate {
    let keyed = KeyedQuota::new(None);
    let ids = records.as_slice().iter().map(|key| key.id.number());
    let (places, claimed) = keyed.places(ids, &|_| {});
    claimed.unwrap();
    let ring = KeyTable::new(KeyPrefix::default(), records.clone(), places);
    let proxies = ["10.0.0.0/8", "192.168.0.0/16"];
    let proxies = proxies.map(|text| ProxyNetwork::parse(text).unwrap());
    QuotaGate {
        keys: Replicated::new(ring).replica(),
        anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(5_000_000))),
        keyed: Arc::new(keyed),
        leases: None,
        limits: TierLimits {
            anonymous: u16::MAX,
            free: 100_000,
            starter: 100_000,
            pro: 100_000,
        },
        proxies: Arc::new(TrustedProxies(proxies.into())),
    }
}

/// The headers of a browser, and `more`.
fn headers(more: &[(&'static str, &str)]) -> HeaderMap {
    let usual = [
        ("host", "api.example.com"),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        ),
        ("accept", "application/json"),
        ("accept-language", "en-GB,en;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("origin", "https://dashboard.example.com"),
        ("connection", "keep-alive"),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in usual.iter().chain(more) {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

/// Requests of one connection, all admitted: a client uses no day twice.
fn admitted(
    gate: &QuotaGate,
    from: IpAddr,
    headers: &HeaderMap,
    query: Option<&str>,
    first: i32,
) -> f64 {
    let visit = gate.connect(from);
    nanos_each(A_ROUND, || {
        for day in first..first + DAYS {
            for _ in 0..A_DAY {
                let query = Query::split(black_box(query));
                let keys = query.keys();
                let caller = gate.authenticate(&visit, black_box(headers), &keys);
                let day = UtcDay(day);
                let moment = day.start();
                let now = RequestTime { day, moment };
                let decision = gate.admit(caller.unwrap(), now, None);
                assert_ne!(black_box(decision.unwrap()), Decision::Refuse);
            }
        }
    })
}

/// Counting of a response for metrics: route, status, bytes, and the time of one in 16.
fn counted() -> f64 {
    let metrics = WorkerMetrics::new(Endpoint::LABELS.len());
    let nanos = nanos_each(A_ROUND, || {
        for number in 0..A_ROUND {
            let begun = metrics.times_next().then(Instant::now);
            let (route, status) = (black_box(number % 16), black_box(STATUS_CODES[number % 4]));
            metrics.count_response(route, status, black_box(300), black_box(false));
            metrics.counters.sent_bytes.add(black_box(900));
            metrics.count_batch();
            if let Some(begun) = begun {
                metrics.durations.observe(begun.elapsed());
            }
        }
    });
    black_box(&metrics);
    nanos
}

/// Kinds of requests, measured in turn.
fn requests(gate: &QuotaGate, keys: u32, rounds: usize) {
    let plain = headers(&[]);
    let bearer = headers(&[("authorization", &format!("Bearer {}", keys::known(7)))]);
    let forwarded = headers(&[("x-forwarded-for", "198.51.100.7, 10.1.2.3")]);
    let query = format!("sort=plays&limit=50&key={}", keys::known(10));
    let (peer, proxy): (IpAddr, IpAddr) =
        ("192.0.2.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
    let listed = Some("sort=plays&limit=50");
    let chase = Chase::new();
    let run = |from: IpAddr, headers: &HeaderMap, query: Option<&str>, day: i32| {
        admitted(gate, from, headers, query, day)
    };
    let kinds: [(&str, &dyn Fn(i32) -> f64); 9] = [
        ("a cache miss, for comparison", &|_| chase.round()),
        ("address", &|day| run(peer, &plain, None, day)),
        // The same address as before, so on other days.
        ("address, with a query string", &|day| {
            run(peer, &plain, listed, day + DAYS)
        }),
        ("key in the header, known on the connection", &|day| {
            run(peer, &bearer, None, day)
        }),
        ("key in the query, known on the connection", &|day| {
            run(peer, &plain, Some(&query), day)
        }),
        ("address behind a trusted proxy", &|day| {
            run(proxy, &forwarded, None, day)
        }),
        ("key, first use on a connection (hashed)", &|_| {
            first_use(gate, keys)
        }),
        ("key, malformed", &|_| refused(gate, &bearer)),
        ("counting a response for metrics", &|_| counted()),
    ];
    let mut all: [Vec<f64>; 9] = Default::default();
    let days = (DAY..).step_by(2 * DAYS.unsigned_abs() as usize);
    for day in days.take(rounds) {
        for ((_, kind), rounds) in kinds.iter().zip(&mut all) {
            rounds.push(kind(day));
        }
    }
    report(&kinds.map(|(name, _)| name), &all);
}

fn first_use(gate: &QuotaGate, keys: u32) -> f64 {
    // Only keys that are not revoked.
    let count = (keys / 3).min(20_000);
    let bearer = |at: u32| format!("Bearer {}", keys::known(3 * at + 1));
    let sent: Vec<HeaderMap> = (0..count)
        .map(|at| headers(&[("authorization", &bearer(at))]))
        .collect();
    let visits: Vec<ConnectionIdentity> = sent
        .iter()
        .map(|_| gate.connect(Ipv4Addr::LOCALHOST.into()))
        .collect();
    nanos_each(sent.len(), || {
        for (visit, headers) in visits.iter().zip(&sent) {
            let caller = gate.authenticate(visit, headers, &SentKeys::default());
            assert!(matches!(black_box(caller), Ok(Caller::Keyed(_))));
        }
    })
}

fn refused(gate: &QuotaGate, bearer: &HeaderMap) -> f64 {
    let mut broken = bearer.clone();
    let text = format!("{}0", bearer["authorization"].to_str().unwrap());
    broken.insert("authorization", text.parse().unwrap());
    let visit = gate.connect(Ipv4Addr::LOCALHOST.into());
    nanos_each(A_DAY, || {
        for _ in 0..A_DAY {
            let caller = gate.authenticate(&visit, black_box(&broken), &SentKeys::default());
            assert_eq!(black_box(caller), Err(KeyError::Invalid));
        }
    })
}

/// Admissions a second of two threads, with a million clients at random.
fn throughput(calls: usize) {
    let quota = AnonymousQuota::new(TableSize::for_clients(5_000_000));
    let clients: Vec<AnonymousClient> = (0..1_000_000)
        .map(|number| AnonymousClient::new(&quota, Ipv4Addr::from_bits(number).into()))
        .collect();
    let begun = Instant::now();
    let admitted: usize = thread::scope(|scope| {
        let run = |seed: u64| {
            let (quota, clients) = (&quota, &clients);
            move || {
                let (mut random, mut admitted) = (Random(seed), 0);
                for _ in 0..calls / 2 {
                    let client = clients[random.next() % clients.len()];
                    let decision = quota.admit(client, 60_000, UtcDay(DAY));
                    admitted += usize::from(matches!(decision, Decision::Admit { .. }));
                }
                admitted
            }
        };
        let threads = [1, 2].map(|seed| scope.spawn(run(seed)));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "\n{:.1} million admissions a second, two threads, a million clients at random",
        admitted as f64 / seconds / 1e6
    );
}

fn counters(keys: u32) {
    let before = own_kib("VmRSS:");
    let quota = AnonymousQuota::new(TableSize::for_clients(5_000_000));
    let with_table = own_kib("VmRSS:");
    let keyed = KeyedQuota::new(None);
    keyed.places(0..keys.into(), &|_| {}).1.unwrap();
    println!(
        "counters of five million addresses {} KiB, of {keys} keys {} KiB",
        with_table - before,
        own_kib("VmRSS:") - with_table
    );
    black_box((quota, keyed));
}

/// Memory and loading time of the keys.
fn key_table(store: &KeyStore) {
    let before = own_kib("VmRSS:");
    let begun = Instant::now();
    let ring = KeyTable::new(KeyPrefix::default(), store.read().unwrap(), 0..);
    let loaded = begun.elapsed().as_secs_f64() * 1e3;
    println!(
        "{} keys {} KiB, loaded in {loaded:.0} ms with a peak of {} KiB\n",
        ring.count(),
        own_kib("VmRSS:") - before,
        own_kib("VmHWM:") - before
    );
}
