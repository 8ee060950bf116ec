//! Bytes of a connection, handled by hyper and the whole server: the server sends only complete and
//! well-formed responses with all required headers, no more of them than there are requests, and the same
//! ones however the bytes are split, also over TLS. The connection then ends, or waits for its client.
//!
//! The server runs in this process, and the socket is in memory. With TCP, the kernel would split the bytes,
//! other threads would respond, and connecting would take longer than everything else.
#![no_main]

mod draws;
mod known;
mod replies;
#[expect(dead_code, reason = "no command is run here")]
mod scratch;
mod socket;
mod tls;

use std::cell::RefCell;
use std::fs;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use island_metrics::calendar::{Clock, ManualTime};
use island_metrics::model::TierLimits;
use island_metrics::publish::open_sample;
use island_metrics::quota::{AnonymousQuota, KeyedQuota, TableSize};
use island_metrics::regular_file::Directory;
use island_metrics::request::{ProxyNetwork, TrustedProxies};
use island_metrics::server::{InMemoryServer, QuotaGate};
use island_metrics::site::SiteSettings;
use island_metrics::snapshot::{Dumps, Payload, Snapshot};
use island_metrics::sync::Replicated;
use libfuzzer_sys::fuzz_target;
use zlib_rs::crc32::crc32;

use draws::Draws;
use replies::{Asked, Reply, Seen, heads, places};
use socket::{Manner, Outcome, converse};
use tls::Tls;

const BASE_URL: &str = "http://x.test";
/// The quota of a day is enough for so many inputs, whatever they request.
const INPUTS_A_DAY: u32 = 40;
/// One input in so many is also sent in pieces over TLS: its handshake takes longer than everything else.
const INPUTS_A_HANDSHAKE: usize = 8;
/// Time until the rate limit of rendered pages allows every address its full burst again.
const REST_SECONDS: i64 = 300;
/// A client, and a trusted proxy.
const PEERS: [[u8; 4]; 2] = [[192, 0, 2, 1], [10, 0, 0, 1]];
/// A part of a secret of this length in a response is a leak.
const PART_BYTES: usize = 12;
/// Nothing counts as leaked if a part of the secret of this length is elsewhere in the input.
const ELSEWHERE_BYTES: usize = 4;

struct World {
    /// One server gets each input as a whole, the other one in pieces, so both always have the same state.
    servers: [InMemoryServer; 2],
    tls: Tls,
    clock: Clock,
    time: Arc<ManualTime>,
    inputs: u32,
    seen: Seen,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

impl World {
    fn new() -> World {
        let time = Arc::new(ManualTime::default());
        time.pass(1_795_262_700);
        let clock = || Clock::new(Some(Arc::clone(&time)), None);
        let servers = [(), ()]
            .map(|()| InMemoryServer::new(snapshot(), gate(), clock()).expect("a thread starts"));
        let mut world = World {
            servers,
            tls: Tls::new(),
            clock: clock(),
            time,
            inputs: 0,
            seen: Seen::default(),
        };
        world.controls();
        world
    }

    fn begin_day(&self) {
        self.time.pass(self.clock.now().reset_seconds().into());
        let spent = known::TEXTS[1];
        self.send(&format!(
            "GET /v1?key={spent} HTTP/1.1\r\nHost: x.test\r\n\r\n"
        ));
    }

    /// Sends an input to both, and returns the result of one.
    fn send(&self, text: &str) -> Outcome {
        let manner = Manner {
            is_piecemeal: false,
            ends: true,
        };
        let sent = |server| converse(server, PEERS[0].into(), text.as_bytes(), manner);
        let [one, _] = self.servers.each_ref().map(sent);
        one
    }

    /// Self-test: wrong responses are detected.
    fn controls(&mut self) {
        self.begin_day();
        let input = "GET /v1/nothing HTTP/1.1\r\nHost: x.test\r\n\r\n\
            GET /v1 HTTP/1.1\r\nHost: x.test\r\n\r\n\
            HEAD /v1/creators?limit=1 HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n";
        let received = String::from_utf8(self.send(input).received).expect("nothing is compressed");
        let asked = heads(input.as_bytes());
        let read = |text: &str| {
            Seen::default()
                .read(text.as_bytes(), &asked)
                .map(|it| it.len())
        };
        assert_eq!(read(&received), Ok(3));
        let id = received.split("x-request-id: ").nth(1).expect("an id");
        let other_id = received.split("x-request-id: ").nth(2).expect("an id");
        for (sound, wrong) in [
            (
                "HTTP/1.1 404 Not Found",
                "HTTP/1.1 500 Internal Server Error",
            ),
            ("HTTP/1.1 404 Not Found", "HTTP/1.1 400 Bad Request"),
            ("HTTP/1.1 200 OK", "HTTP/1.1 200 "),
            ("content-length: ", "content-length: 1"),
            ("content-length: ", "length: "),
            ("x-ratelimit-reset: ", "x-ratelimit-rest: "),
            ("x-request-id: ", "x-request-id: g"),
            (&id[..16], &other_id[..16]),
            ("date: ", "date: x"),
            ("access-control-allow-origin: *\r\n", ""),
            ("no-store\r\n", "no-store\r\ncache-control: no-store\r\n"),
            ("no-store\r\n", "no-store\r\nx: y\r\n"),
            ("no-store\r\n", "no-store\n"),
            ("connection: close", "connection: x"),
            ("{\"error\":{", "{\"error\":["),
            (">; rel=\"next\"", "&key=x>; rel=\"next\""),
            ("HTTP/1.1 404", "\r\nHTTP/1.1 404"),
        ] {
            assert!(received.contains(sound), "{sound}: {received}");
            let wrong = received.replacen(sound, wrong, 1);
            assert!(read(&wrong).is_err(), "taken for sound: {wrong}");
        }
        let behind = [&received, "HTTP/1.1 200 OK\r\n\r\n"].concat();
        assert!(read(&behind).is_err());
        let one = |text: &str| Seen::default().read(text.as_bytes(), &asked[..2]).is_err();
        assert!(one(&received), "three answers to two requests");
        let key = known::TEXTS[0];
        let sent = format!("GET /v1?key={key} HTTP/1.1\r\n");
        assert!(leaks(sent.as_bytes(), &key.as_bytes()[30..45]));
        assert!(!leaks(b"GET /v1 HTTP/1.1\r\n", key.as_bytes()));
    }

    fn check(&mut self, input: &[u8]) {
        if self.inputs.is_multiple_of(INPUTS_A_DAY) {
            self.begin_day();
        }
        self.inputs = self.inputs.wrapping_add(1);
        self.time.pass(REST_SECONDS);
        let mut draws = Draws::of(input);
        let peer = IpAddr::from(PEERS[draws.below(PEERS.len())]);
        let ends = draws.one_in(2);
        let is_tls = draws.one_in(INPUTS_A_HANDSHAKE);
        let manners = [(false, ends), (true, !ends)];
        let asked = heads(input);
        let [whole, cut] = [0, 1].map(|at| {
            let (is_piecemeal, ends) = manners[at];
            if is_piecemeal && is_tls {
                return self.tls.converse(&self.servers[at], peer, input, ends);
            }
            let manner = Manner { is_piecemeal, ends };
            converse(&self.servers[at], peer, input, manner)
        });
        let whole = self.replies(input, &whole, &asked);
        let cut = self.replies(input, &cut, &asked);
        let [certain, certain_cut] = [&whole, &cut].map(|replies| certain(replies, &asked));
        let is_same = certain.len() == certain_cut.len()
            && certain.iter().zip(certain_cut).all(|(one, other)| {
                // Which of two faults of a head is found first depends on how the bytes are split.
                one.is_refusal() && other.is_refusal() || one.lasting() == other.lasting()
            });
        assert!(
            is_same,
            "all at once: {certain:#?}
in pieces: {certain_cut:#?}"
        );
        if asked.iter().all(Asked::is_plain) {
            assert_eq!(whole.len(), asked.len(), "answers to plain requests");
            let refused = whole.iter().find(|it| it.status == 431);
            assert_eq!(refused, None, "a plain request is refused");
        }
    }

    fn replies<'a>(
        &mut self,
        input: &[u8],
        outcome: &'a Outcome,
        asked: &[Asked<'_>],
    ) -> Vec<Reply<'a>> {
        let received = &outcome.received;
        let replies = self.seen.read(received, asked);
        let replies = replies.unwrap_or_else(|fault| {
            panic!("{fault}\n{}", String::from_utf8_lossy(received));
        });
        let is_last = replies.last().is_some_and(Reply::is_last);
        assert!(
            outcome.has_ended || !is_last,
            "it waits behind its last answer"
        );
        assert!(!leaks(input, received), "a key comes back");
        replies
    }
}

/// The responses that do not depend on how the bytes are split. An incomplete head may be refused
/// immediately, if the received part is malformed, or the server may wait for the rest.
fn certain<'r, 'a>(replies: &'r [Reply<'a>], asked: &[Asked<'_>]) -> &'r [Reply<'a>] {
    match (replies, asked) {
        (
            [before @ .., last],
            [
                ..,
                Asked {
                    is_whole: false, ..
                },
            ],
        ) if replies.len() == asked.len() && last.is_refusal() => before,
        _ => replies,
    }
}

/// Whether the received bytes contain a part of a secret that was sent as a key, and of which no part is
/// elsewhere in the input.
fn leaks(input: &[u8], received: &[u8]) -> bool {
    known::TEXTS
        .into_iter()
        .zip(&*SECRETS)
        .any(|(key, secret)| {
            if places(input, key.as_bytes()).next().is_none() {
                return false;
            }
            let mut rest = input.to_vec();
            for at in places(input, key.as_bytes()) {
                if is_sent_as_key(&input[..at]) {
                    rest[at..at + key.len()].fill(b'\n');
                }
            }
            rest != input
                && !secret.is_partly_in(&rest, ELSEWHERE_BYTES)
                && secret.is_partly_in(received, PART_BYTES)
        })
}

/// The last part of a key.
struct Secret {
    text: &'static [u8],
    /// Whether two bytes follow each other in the text, by both.
    pairs: Vec<bool>,
}

static SECRETS: LazyLock<Vec<Secret>> = LazyLock::new(|| {
    let secret = |key: &'static str| {
        let (_, text) = key.rsplit_once('_').expect("a key's parts");
        let text = text.as_bytes();
        let mut pairs = vec![false; 1 << 16];
        for pair in text.windows(2) {
            pairs[place_of(pair)] = true;
        }
        Secret { text, pairs }
    };
    known::TEXTS.into_iter().map(secret).collect()
});

fn place_of(begin: &[u8]) -> usize {
    usize::from(begin[0]) << 8 | usize::from(begin[1])
}

impl Secret {
    /// Whether a text contains so many bytes of the secret in a row.
    fn is_partly_in(&self, text: &[u8], bytes: usize) -> bool {
        // One pass for all parts.
        let mut may_be = text.windows(bytes).filter(|it| self.pairs[place_of(it)]);
        may_be.any(|it| places(self.text, it).next().is_some())
    }
}

/// Whether these bytes are followed by the value of the `key` of a query, or of `Authorization`.
fn is_sent_as_key(before: &[u8]) -> bool {
    let line = before
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.to_ascii_lowercase();
    let marks = places(&line, b"?").count();
    line == b"authorization: bearer "
        || (marks > 0 && line.ends_with(b"&key="))
        || (marks == 1 && line.ends_with(b"?key="))
}

/// Keys and limits of the server under test.
fn gate() -> QuotaGate {
    let keyed = KeyedQuota::new(None);
    let (_, claimed) = keyed.places(0..known::TEXTS.len() as u64, &|_| {});
    claimed.expect("in memory");
    let proxies = ProxyNetwork::parse("10.0.0.0/8").expect("a network");
    QuotaGate {
        keys: Replicated::new(known::ring()).replica(),
        anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100_000))),
        keyed: Arc::new(keyed),
        leases: None,
        limits: TierLimits {
            anonymous: u16::MAX,
            free: u32::MAX,
            // The key whose quota is spent.
            starter: 1,
            pro: u32::MAX,
        },
        proxies: Arc::new(TrustedProxies(vec![proxies])),
    }
}

/// The sample, in memory; of the dumps only the index.
#[expect(clippy::disallowed_methods, reason = "it need not survive a crash")]
fn snapshot() -> Snapshot {
    let scratch = scratch::Scratch::new();
    let index = br#"{"generatedAt":"2026-11-21T12:05:00Z","license":"","licenseUrl":"","credit":"","notice":"","files":[]}"#;
    fs::write(scratch.join("dumps-1.json"), index).expect("there is room");
    let named = Payload {
        file: "dumps-1.json".to_owned(),
        bytes: index.len() as u64,
        checksum: format!("{:08x}", crc32(0, index)),
        generated_at: "2026-11-21T12:05:00Z".to_owned(),
    };
    let published = Directory::open(&scratch.join("")).expect("it was made");
    let dumps = Dumps::open(&published, &named);
    assert!(dumps.is_ok(), "{dumps:?}");
    let mut sample = open_sample(&SiteSettings::new(BASE_URL)).expect("it is sound");
    sample.dumps = Some(dumps.map(Arc::new));
    sample
}

fuzz_target!(|input: &[u8]| {
    WORLD.with_borrow_mut(|world| world.get_or_insert_with(World::new).check(input));
});
