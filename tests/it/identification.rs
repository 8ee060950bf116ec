//! Random requests of many clients: every response agrees with the oracle.

use crate::key_texts::forged;
use crate::prelude::*;
use crate::quota_model::{Ask, KnownKey, Model, Outcome, TARGETS, Want};

/// A tier, its limit, and the limit as the flag's value. All differ, and from the anonymous 5.
const TIERS: [(&str, u32); 3] = [("free", 7), ("starter", 9), ("pro", 11)];
const ANONYMOUS_LIMIT: u32 = 5;
const LIMITS: &str = "--limit-anonymous 5 --limit-free 7 --limit-starter 9 --limit-pro 11";

fn publish_without_live(dir: &TempDir) -> PathBuf {
    let mut world = World::with_more_than(5, 2, 12);
    world.live.clear();
    world.platform = None;
    world.publish(dir)
}

/// Texts sent as keys.
struct Keys {
    known: BTreeMap<String, KnownKey>,
    /// Valid and active.
    active: Vec<String>,
    /// Those, revoked keys, keys with a wrong secret, keys of another service, and other texts.
    any: Vec<String>,
}

impl Keys {
    /// Issues keys of all tiers and revokes some.
    fn issue(dir: &TempDir, state: &Path) -> Self {
        let mut known = BTreeMap::new();
        let (mut active, mut any) = (Vec::new(), Vec::new());
        for (at, (tier, limit)) in TIERS.iter().cycle().take(6).enumerate() {
            let key = issue(state, "ann@x.test", tier);
            let is_revoked = at >= 4;
            if is_revoked {
                change_key("revoke", state, &key);
            } else {
                active.push(key.clone());
            }
            let limit = *limit;
            known.insert(key.clone(), KnownKey { limit, is_revoked });
            any.extend([forged(&key), key[..key.len() - 1].to_owned(), key]);
        }
        any.push(issue(&dir.join("another"), "bob@x.test", "pro"));
        any.extend(["x", "", "im_live_", "im_live_0123456789"].map(str::to_owned));
        Self { known, active, any }
    }

    fn pick(&self, rng: &mut Rng) -> String {
        let from = if rng.one_in(3) {
            &self.any
        } else {
            &self.active
        };
        let keys: Vec<&str> = from.iter().map(String::as_str).collect();
        rng.pick(&keys).to_owned()
    }

    /// An `Authorization` line with one of the keys.
    fn bearer(&self, rng: &mut Rng) -> (&'static str, String) {
        let scheme = rng.pick(&["Bearer ", "Bearer ", "bearer ", "BEARER   "]);
        ("Authorization", format!("{scheme}{}", self.pick(rng)))
    }

    /// A `key` parameter with one of the keys.
    fn piece(&self, rng: &mut Rng) -> String {
        let key = self.pick(rng);
        in_query(rng, &key)
    }

    /// Adds a key, several keys, something else, or nothing.
    fn send(&self, rng: &mut Rng, ask: &mut Ask) {
        match rng.below(16) {
            0..=6 => {}
            7..=9 => ask.lines.push(self.bearer(rng)),
            10 | 11 => {
                let mut piece = self.piece(rng);
                if piece.contains('=') && rng.one_in(6) {
                    // Not UTF-8: the error of the key precedes that of the parameter.
                    piece.push_str("%ff");
                }
                ask.pieces.push(piece);
            }
            12 => {
                ask.lines.push(self.bearer(rng));
                ask.pieces.push(self.piece(rng));
            }
            13 => {
                let piece = self.piece(rng);
                let other = self.piece(rng);
                let same = rng.one_in(2);
                let second = if same { piece.clone() } else { other };
                ask.pieces.extend([piece, second]);
            }
            14 => {
                let line = self.bearer(rng);
                ask.lines.extend([line.clone(), line]);
            }
            _ => {
                let scheme = rng.pick(&["Basic ", "", "Bearer:", "Bearer", "Token "]);
                let line = format!("{scheme}{}", self.pick(rng));
                ask.lines.push(("Authorization", line));
                if rng.one_in(2) {
                    ask.pieces.push(self.piece(rng));
                }
            }
        }
    }
}

/// The parameter `key`, with name and value in one of their encodings.
fn in_query(rng: &mut Rng, key: &str) -> String {
    let name = rng.pick(&["key", "key", "k%65y", "%6B%65%79"]);
    match rng.below(4) {
        0 => format!("{name}={}", key.replace('_', "%5F")),
        1 => format!("{name}={}", key.replace('l', "%6c").replace('0', "%30")),
        2 if key.is_empty() => name.to_owned(),
        _ => format!("{name}={key}"),
    }
}

/// The address of one of two dozen clients. An IPv6 client uses any address of its network.
fn client(rng: &mut Rng) -> String {
    let number = rng.below(12);
    if rng.one_in(2) {
        format!("198.51.100.{number}")
    } else {
        format!("2001:db8:0:{number:x}::{:x}", rng.below(1 << 16))
    }
}

/// A request, mostly an ordinary one.
fn ask(rng: &mut Rng, keys: &Keys, tags: &BTreeMap<&'static str, String>) -> Ask {
    let at = rng.below(TARGETS.len() as u64);
    let target = TARGETS[usize::try_from(at).unwrap()];
    let mut ask = Ask {
        method: "GET",
        target,
        pieces: Vec::new(),
        pieces_first: rng.one_in(2),
        lines: Vec::new(),
    };
    if rng.one_in(4) {
        ask.method = rng.pick(&["HEAD", "HEAD", "OPTIONS", "POST", "DELETE", "BREW"]);
    }
    match rng.below(30) {
        0 => {}
        1 => ask
            .lines
            .extend([("Host", "a".into()), ("Host", "b".into())]),
        _ => ask.lines.push(("Host", "x.test".into())),
    }
    if !rng.one_in(12) {
        ask.lines.push(("X-Forwarded-For", client(rng)));
    }
    keys.send(rng, &mut ask);
    if let Some(tag) = tags.get(target.0)
        && rng.one_in(3)
    {
        let tag = if rng.one_in(3) { "*" } else { tag };
        ask.lines.push(("If-None-Match", tag.to_owned()));
    }
    ask
}

/// Checks a response by itself and converts it to the oracle's type.
fn checked(ask: &Ask, reply: &Reply) -> Want {
    let reset = reply.expect("x-ratelimit-reset");
    assert!((1..=86_400).contains(&reply.number("x-ratelimit-reset")));
    let retry = reply.header("retry-after");
    match reply.status {
        429 => assert_eq!(retry, Some(reset), "{ask:?}"),
        503 => assert!(retry.is_some(), "{ask:?}"),
        _ => assert_eq!(retry, None, "{ask:?}"),
    }
    let has_code = reply.status >= 400 && ask.method != "HEAD";
    let json = has_code.then(|| reply.json());
    let code = json
        .as_ref()
        .and_then(|json| json["error"]["code"].as_str());
    let codes = words(
        "bad_request invalid_key key_revoked not_found method_not_allowed rate_limited \
         not_ready",
    );
    Want {
        status: reply.status,
        code: codes.into_iter().find(|known| Some(*known) == code),
        limit: reply.number("x-ratelimit-limit"),
        remaining: reply.left(),
    }
}

/// Sends random requests on some connections; `statuses` counts the responses.
fn compare(seed: u64, requests: u32, published: &Path, statuses: &mut BTreeMap<u16, u32>) {
    let mut rng = Rng(seed);
    let dir = TempDir::new();
    let state = dir.join("state");
    let keys = Keys::issue(&dir, &state);
    let mut args = vec!["--published", published.to_str().unwrap()];
    args.extend(["--state", state.to_str().unwrap(), "--workers", "2"]);
    args.extend(["--trusted-proxy", "127.0.0.0/8", "--quota-clients", "9999"]);
    args.extend(words(LIMITS));
    let server = Server::start(&args);
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    let mut model = Model::new(keys.known.clone(), ANONYMOUS_LIMIT);
    let (mut reset, mut tags) = (u32::MAX, BTreeMap::new());
    for turn in 0..requests {
        let ask = ask(&mut rng, &keys, &tags);
        let at = usize::try_from(rng.below(clients.len() as u64)).unwrap();
        let reply = clients[at].send(ask.head().as_bytes(), ask.method == "HEAD");
        let resets = reply.number("x-ratelimit-reset");
        if resets > reset {
            model.next_day();
        }
        reset = resets;
        let mut want = model.answer(&ask);
        if ask.method == "HEAD" {
            want.code = None;
        }
        let got = checked(&ask, &reply);
        assert!(
            got == want,
            "seed {seed}, request {turn}: {got:?}, want {want:?}: {ask:?}"
        );
        *statuses.entry(got.status).or_default() += 1;
        // A health response has a tag, but is never a 304.
        if got.status == 200 && ask.target.1 != Outcome::Health {
            tags.insert(ask.target.0, reply.expect("etag").to_owned());
        }
    }
}

#[test]
fn every_client_is_identified_and_counted_like_the_oracle() {
    let dir = TempDir::new();
    let published = publish_without_live(&dir);
    let (seeds, requests) = if is_slow() { (60, 1500) } else { (15, 600) };
    let mut statuses = BTreeMap::new();
    for seed in 0..seeds {
        compare(seed, requests, &published, &mut statuses);
    }
    let met: BTreeSet<u16> = statuses.keys().copied().collect();
    let all = [200, 204, 304, 400, 401, 403, 404, 405, 429, 503];
    assert_eq!(met, all.into(), "each kind of answer: {statuses:?}");
}
