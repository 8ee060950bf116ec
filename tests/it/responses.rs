//! Every response has the status and body of the oracle, and the required headers.

use crate::cli::table;
use crate::endpoint_cases::filled;
use crate::oracle::{GROUPS, ORDERS, Refusal};
use crate::oracle_query::ignored;
use crate::prelude::*;
use crate::random_requests::target;

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
        has(&exposed, "x-ratelimit-remaining");
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

/// The members of a body in the order of the document, in the form of [`ORDERS`].
fn described(document: &Value, schema: &Value) -> String {
    let target = schema["$ref"].as_str();
    let schema = target.map_or(schema, |target| document.pointer(&target[1..]).unwrap());
    let row = schema.get("items").map(|items| described(document, items));
    let row = row.filter(|names| !names.is_empty());
    let Some(properties) = schema["properties"].as_object() else {
        return row.map(|names| format!("[{names}]")).unwrap_or_default();
    };
    let required = schema["required"].as_array().unwrap();
    assert_eq!(required.len(), properties.len(), "{required:?}");
    let names = required.iter().map(|name| name.as_str().unwrap());
    let parts = names.flat_map(|name| [name.to_owned(), described(document, &properties[name])]);
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Asserts the order of all members of a body, and that a list of rows has some. No value contains `":`.
fn assert_order(body: &str, order: &str) {
    let mut names: Vec<&str> = body.split("\":").collect();
    // After the last name.
    names.pop();
    let names: Vec<&str> = names
        .iter()
        .map(|text| text.rsplit('"').next().unwrap())
        .collect();
    let (before, rest) = order.split_once('[').unwrap_or((order, "]"));
    let (row, after) = rest.split_once(']').unwrap();
    let [before, row, after] = [before, row, after].map(words);
    let in_rows = names.len() - before.len() - after.len();
    let rows = in_rows.checked_div(row.len()).unwrap_or(0);
    assert_eq!(names, [before, row.repeat(rows), after].concat(), "{order}");
    assert!(rows > 0 || row.is_empty(), "no row in {body}");
}

/// A dataset with at least one of everything that bodies list.
fn full_world() -> World {
    let mut worlds = (0..1000).map(|seed| World::random(seed, 40));
    let is_full = |world: &World| {
        let island = format!("/v1/islands/{}", world.islands.keys().next().unwrap());
        [
            ("/v1/rankings/latest", "/ranking/0"),
            ("/v1/new/latest", "/islands/0"),
            ("/v1/live", "/islands/0"),
            ("/v1/creators/epic", "/creator/islands/0"),
            (&island, "/island/series/0"),
        ]
        .iter()
        .all(|(target, row)| {
            world
                .answer(target)
                .is_ok_and(|body| body.pointer(row).is_some())
        })
    };
    worlds.find(is_full).unwrap()
}

#[test]
fn members_are_in_the_order_of_the_contract_and_of_the_document() {
    let world = full_world();
    let (_dir, server) = world.serve();
    let mut client = server.connect();
    let document = client.get("/openapi.json").json();
    let code = world.islands.keys().next().unwrap();
    let mut templates = Vec::new();
    for (template, order) in table(ORDERS) {
        let order = table(GROUPS).fold(order.to_owned(), |order, (group, names)| {
            order.replace(group, names)
        });
        let content = &document["paths"][template]["get"]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        assert_eq!(described(&document, schema), order, "{template}");
        let reply = client.get(&filled(template, [code, "epic", "latest"]));
        assert_eq!(reply.status, 200, "{template}");
        assert_order(reply.text(), &order);
        templates.push(template);
    }
    templates.retain(|template| template.starts_with("/v1"));
    assert_eq!(templates, Endpoint::API_PATHS);
}
