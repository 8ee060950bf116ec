//! Every response has the status and body of the oracle, and the required headers.

use std::io::Read;

use serde_json::Value;

use crate::oracle::{Refusal, World};
use crate::oracle_query::ignored;
use crate::random_dataset::Rng;
use crate::random_requests::target;
use crate::support::{Client, Reply, Server, TempDir, is_slow};

/// `--limit-anonymous` of [`Server::of`].
const LIMIT: u64 = 60_000;

/// A random dataset, published and served.
fn serve(world: &World, dir: &TempDir) -> Server {
    Server::of(&world.publish(dir), &[])
}

/// Equality as JSON: members in any order, integers exactly, other numbers as doubles.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
                a == b
            } else {
                // Both are parsed from the same text, so they are equal to the last bit.
                a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits)
                    || a.as_u64().is_some() && a.as_u64() == b.as_u64()
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// A connection to a server, and the client's remaining quota.
struct Session<'a> {
    world: &'a World,
    client: Client,
    remaining: u64,
    reset: u64,
    /// Included in every failure message.
    place: String,
    gzipped: u32,
}

impl<'a> Session<'a> {
    fn new(world: &'a World, server: &Server, seed: u64) -> Self {
        let place = format!("seed {seed}");
        let client = server.connect();
        Self {
            world,
            client,
            remaining: LIMIT,
            reset: u64::MAX,
            place,
            gzipped: 0,
        }
    }

    fn ask(&mut self, target: &str, headers: &[(&str, &str)]) -> Reply {
        let reply = self.client.request("GET", target, headers);
        let metered = reply.status != 503 && !is_health(target);
        self.check_quota(&reply, metered);
        assert_eq!(reply.expect("access-control-allow-origin"), "*", "{target}");
        let exposed = reply.expect("access-control-expose-headers").to_lowercase();
        assert!(
            exposed.contains("x-ratelimit-remaining"),
            "{target}: {exposed}"
        );
        assert_eq!(
            reply.header("x-ignored-parameters").map(str::to_owned),
            ignored(target),
            "{target}"
        );
        assert_eq!(
            reply.expect("x-content-type-options"),
            "nosniff",
            "{target}"
        );
        assert_eq!(
            reply.header("retry-after").is_some(),
            reply.status == 503,
            "{target}"
        );
        reply
    }

    fn check_quota(&mut self, reply: &Reply, metered: bool) {
        let number = |name| reply.expect(name).parse::<u64>().unwrap();
        assert_eq!(number("x-ratelimit-limit"), LIMIT);
        let reset = number("x-ratelimit-reset");
        assert!((1..=86_400).contains(&reset), "reset in {reset}");
        let left = number("x-ratelimit-remaining");
        if reset > self.reset {
            // The day has changed.
            self.remaining = left + u64::from(metered);
        }
        self.reset = reset;
        self.remaining -= u64::from(metered);
        assert_eq!(
            left, self.remaining,
            "{}: one for each metered request",
            self.place
        );
    }

    /// Sends a request and compares the response with the oracle's.
    fn compare(&mut self, target: &str) -> Reply {
        let reply = self.ask(target, &[]);
        let kind = reply.expect("content-type").to_lowercase();
        assert!(
            kind.starts_with("application/json"),
            "{}: {target}: {kind}",
            self.place
        );
        let got = reply.json();
        let agree = match self.world.answer(target) {
            Ok(body) if reply.status == 200 && same(&body, &got) => Ok(()),
            Ok(body) => Err(format!("200 {body}")),
            Err(refusal) if is_refused(&reply, &got, refusal) => Ok(()),
            Err((status, code)) => Err(format!("{status} {code}")),
        };
        if let Err(expected) = agree {
            let (place, status) = (&self.place, reply.status);
            panic!("{place}: GET {target}\nexpected {expected}\n     got {status} {got}");
        }
        if reply.status == 200 {
            let tag = reply.expect("etag");
            assert!(
                tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"'),
                "{target}: {tag}"
            );
            let cache = reply.expect("cache-control");
            assert!(cache.starts_with("private, max-age="), "{target}: {cache}");
            let vary = reply.expect("vary").to_lowercase();
            assert!(
                vary.contains("accept-encoding") && vary.contains("authorization"),
                "{vary}"
            );
        }
        reply
    }

    /// The same response with gzip has the same text.
    fn compare_gzip(&mut self, target: &str, plain: &Reply) {
        let packed = self.ask(target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(packed.status, plain.status, "{}: {target}", self.place);
        let mut body = packed.body.clone();
        if let Some(coding) = packed.header("content-encoding") {
            assert_eq!(coding, "gzip", "{}: {target}", self.place);
            assert_ne!(
                packed.header("etag"),
                plain.header("etag"),
                "a strong tag is of one body"
            );
            body.clear();
            flate2::read::GzDecoder::new(&packed.body[..])
                .read_to_end(&mut body)
                .unwrap();
            self.gzipped += 1;
        }
        assert!(
            body == plain.body,
            "{}: {target}: gzip differs from identity",
            self.place
        );
    }

    /// The entity tag of a response gets a 304.
    fn compare_not_modified(&mut self, target: &str, plain: &Reply) {
        let tag = plain.expect("etag");
        let again = self.ask(target, &[("If-None-Match", tag)]);
        assert_eq!(again.status, 304, "{}: {target}", self.place);
        for name in ["etag", "cache-control", "vary"] {
            assert_eq!(
                again.header(name),
                plain.header(name),
                "{}: {target}",
                self.place
            );
        }
    }
}

fn is_health(target: &str) -> bool {
    target.split('?').next() == Some("/v1/health")
}

/// An error has its status and code, and a message.
fn is_refused(reply: &Reply, body: &Value, (status, code): Refusal) -> bool {
    let message = body["error"]["message"].as_str();
    reply.status == status
        && body["error"]["code"] == code
        && message.is_some_and(|message| !message.is_empty())
}

#[test]
fn every_answer_agrees_with_the_oracle_over_random_datasets_and_queries() {
    let slow = is_slow();
    let (worlds, requests) = if slow { (100, 300) } else { (25, 250) };
    let mut gzipped = 0;
    for seed in 0..worlds {
        let dir = TempDir::new();
        let world = World::random(seed, 40);
        let server = serve(&world, &dir);
        let mut session = Session::new(&world, &server, seed);
        let mut rng = Rng(seed ^ 0xa5a5_a5a5);
        for _ in 0..requests {
            let target = target(&mut rng, &world);
            let plain = session.compare(&target);
            if rng.one_in(6) {
                session.compare_gzip(&target, &plain);
            }
            if plain.status == 200 && !is_health(&target) && rng.one_in(12) {
                session.compare_not_modified(&target, &plain);
            }
        }
        gzipped += session.gzipped;
    }
    assert!(gzipped > 0, "no answer was ever compressed");
}

/// The names appear in this order.
fn assert_order(body: &str, names: &[&str]) {
    let mut from = 0;
    for name in names {
        let quoted = format!("\"{name}\":");
        let Some(at) = body[from..].find(&quoted) else {
            panic!("no {name} after byte {from} of {body}");
        };
        from += at + quoted.len();
    }
}

/// The first dataset with at least one of everything that bodies list.
fn seed_of_a_full_world() -> u64 {
    let full = (0..1000).find(|seed| {
        let world = World::random(*seed, 40);
        let ranked = world.answer("/v1/rankings/latest");
        let has_rank = ranked.is_ok_and(|body| !body["ranking"][0].is_null());
        let live = world.answer("/v1/live");
        let has_live = live.is_ok_and(|body| !body["islands"][0].is_null());
        let has_series = world.islands.keys().next().is_some_and(|code| {
            world.answer(&format!("/v1/islands/{code}")).unwrap()["island"]["series"][0].is_object()
        });
        let named = world
            .islands
            .values()
            .any(|i| i.creator.as_deref() == Some("epic"));
        has_rank && has_live && has_series && named
    });
    full.unwrap()
}

#[test]
fn members_are_in_the_order_of_the_contract() {
    let seed = seed_of_a_full_world();
    let world = World::random(seed, 40);
    let dir = TempDir::new();
    let server = serve(&world, &dir);
    let mut client = server.connect();
    let code = world.islands.keys().next().unwrap();
    let summary = "code title creator createdIn tags firstSeen lastSeen date";
    let counts = "peakCCU uniquePlayers minutesPlayed favorites plays recommendations";
    let metrics = format!("{counts} averageMinutesPerPlayer retentionD1 retentionD7");
    let paged = "meta generatedAt total hasMore limit offset";
    let sum = format!("slug islandCount {counts}");
    let entry = "rank delta previousRank code title creator createdIn peakCCU";
    let profile = "profile name followers following lifetimePlays";
    let series = format!("series date {metrics}");
    let ready = "payloads islands creators ccu rankings new live intraday";
    let tally = "counts islands creators ccuHistories rankings new endpoints docs license";
    let orders = [
        (
            "/v1".to_owned(),
            format!("generatedAt version {tally} meta generatedAt"),
        ),
        (
            "/v1/health".to_owned(),
            format!("status version {ready} lastPublish meta generatedAt"),
        ),
        (
            "/v1/islands?limit=1".to_owned(),
            format!("islands {summary} {metrics} {paged}"),
        ),
        (
            format!("/v1/islands/{code}"),
            format!("island {summary} {metrics} {series} meta"),
        ),
        (
            format!("/v1/islands/{code}/ccu"),
            "code ccu meta generatedAt".to_owned(),
        ),
        (
            "/v1/creators?limit=1".to_owned(),
            format!("creators {sum} {paged}"),
        ),
        (
            "/v1/creators/epic".to_owned(),
            format!("creator {sum} {profile} islands {summary} meta"),
        ),
        ("/v1/live".to_owned(), {
            "time resolutionSeconds players islands code title players meta".to_owned()
        }),
        (
            "/v1/live/intraday".to_owned(),
            "resolutionSeconds points meta".to_owned(),
        ),
        ("/v1/rankings".to_owned(), "days latest meta".to_owned()),
        ("/v1/new".to_owned(), "days latest meta".to_owned()),
        (
            "/v1/rankings/latest".to_owned(),
            format!("date previousDate ranking {entry} meta"),
        ),
        ("/v1/new/latest".to_owned(), "date islands meta".to_owned()),
    ];
    for (target, names) in orders {
        let reply = client.get(&target);
        assert_eq!(reply.status, 200, "seed {seed}: {target}");
        assert_order(reply.text(), &names.split(' ').collect::<Vec<_>>());
    }
}
