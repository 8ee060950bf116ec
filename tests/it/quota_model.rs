//! Oracle of clients: which client a request counts for, and what it costs, in the simplest way.
//!
//! Written from CONTRACT sections 6 and 7. Shares nothing with the server: a key is valid if its
//! text is one of those issued, addresses are compared as text, counts are in a map.

use crate::oracle_query::READER;
use crate::prelude::*;

/// The result of GET for a target, for a client with quota left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Found,
    Bad,
    Missing,
    NotReady,
    Health,
    /// Outside the API: no key is checked, no quota is used.
    FoundOutside,
    MissingOutside,
}

/// Targets of a service that has published everything but live players.
pub(crate) const TARGETS: [(&str, Outcome); 38] = [
    ("/v1", Outcome::Found),
    ("/v%31", Outcome::Found),
    ("http://other.test/v1", Outcome::Found),
    ("/v1/islands", Outcome::Found),
    ("/v1/islands?limit=2&sort=plays&order=asc", Outcome::Found),
    ("/%76%31/islands?q=a&offset=1", Outcome::Found),
    ("/v1/creators?q=e&limit=1", Outcome::Found),
    ("/v1/rankings", Outcome::Found),
    ("/v1/rankings/latest", Outcome::Found),
    ("/v1/new/latest?limit=0", Outcome::Found),
    ("/v1/islands?limit=0", Outcome::Bad),
    ("/v1/islands?limit=2&limit=2", Outcome::Bad),
    ("/v1/islands?sort=key", Outcome::Bad),
    ("/v1/creators?limit=many", Outcome::Bad),
    ("/v1/islands/12", Outcome::Bad),
    ("/v1/rankings/today", Outcome::Bad),
    ("/v1/creators/%ff", Outcome::Bad),
    ("/v1?x=%zz", Outcome::Bad),
    ("/v1/islands?%ff", Outcome::Bad),
    // Parameters are validated before readiness is checked.
    ("/v1/live?x=%zz", Outcome::Bad),
    ("/v1/islands/9999-9999-9999", Outcome::Missing),
    ("/v1/islands/9999-9999-9999/ccu", Outcome::Missing),
    ("/v1/nothing", Outcome::Missing),
    ("/v1/", Outcome::Missing),
    ("/v1/health/", Outcome::Missing),
    ("/v1/new/2024-13-45", Outcome::Missing),
    ("/v1/live", Outcome::NotReady),
    ("/v1/live/intraday", Outcome::NotReady),
    ("/v1/health", Outcome::Health),
    ("/v%31/health?x=1", Outcome::Health),
    ("/v1/health?limit=0", Outcome::Health),
    ("/v1/health?x=%zz", Outcome::Health),
    ("/v1/health?%ff", Outcome::Health),
    ("/openapi.json", Outcome::FoundOutside),
    ("/docs?x=1", Outcome::FoundOutside),
    ("/nothing", Outcome::MissingOutside),
    ("/v2/islands", Outcome::MissingOutside),
    // A segment with an escaped slash is one segment, and not `v1`.
    ("/v1%2Fislands", Outcome::MissingOutside),
];

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) target: (&'static str, Outcome),
    /// Parts of the query before or after those of the target.
    pub(crate) pieces: Vec<String>,
    pub(crate) pieces_first: bool,
    pub(crate) lines: Vec<(&'static str, String)>,
}

impl Ask {
    /// The bytes to send.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.uri());
        for (name, value) in &self.lines {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        head + "\r\n"
    }

    fn uri(&self) -> String {
        let (path, query) = self.target.0.split_once('?').unwrap_or((self.target.0, ""));
        let own = (!query.is_empty()).then(|| query.to_owned());
        let mut pieces: Vec<String> = own.into_iter().collect();
        let at = if self.pieces_first { 0 } else { pieces.len() };
        pieces.splice(at..at, self.pieces.iter().cloned());
        if pieces.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", pieces.join("&"))
        }
    }

    fn values(&self, name: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(n, _)| *n == name);
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The client that the request counts for without a key: an IPv4 address, or the network of an IPv6 address. The
    /// peer is 127.0.0.1, a trusted proxy.
    fn address(&self) -> String {
        let forwarded = self.values("X-Forwarded-For");
        let address = forwarded.first().unwrap_or(&"127.0.0.1");
        address.split("::").next().unwrap().to_owned()
    }

    /// The text sent as a key; `None` without one, `Err` if it cannot be a key.
    fn key(&self) -> Result<Option<String>, ()> {
        match self.values("Authorization")[..] {
            [] => {}
            [line] => {
                let (scheme, key) = line.split_once(' ').ok_or(())?;
                let is_bearer = scheme.eq_ignore_ascii_case("bearer");
                return is_bearer
                    .then(|| Some(key.trim_start().to_owned()))
                    .ok_or(());
            }
            _ => return Err(()),
        }
        let uri = self.uri();
        match &READER.keys(uri.split_once('?').map(|parts| parts.1))[..] {
            [] => Ok(None),
            [value] => value.clone().map(Some).ok_or(()),
            _ => Err(()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownKey {
    pub(crate) limit: u32,
    pub(crate) is_revoked: bool,
}

/// The required response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) status: u16,
    /// Of an error.
    pub(crate) code: Option<&'static str>,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
}

/// The state of the oracle: the keys, and the requests counted today.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) keys: BTreeMap<String, KnownKey>,
    pub(crate) anonymous_limit: u32,
    /// By address or key.
    spent: BTreeMap<String, u32>,
}

impl Model {
    pub(crate) fn new(keys: BTreeMap<String, KnownKey>, anonymous_limit: u32) -> Self {
        Self {
            keys,
            anonymous_limit,
            spent: BTreeMap::new(),
        }
    }

    /// Begins a new day.
    pub(crate) fn next_day(&mut self) {
        self.spent.clear();
    }

    /// The response to a request, which is counted if the contract says so. The order of checks is
    /// the contract's: method, key, quota, route and parameters, readiness.
    pub(crate) fn answer(&mut self, ask: &Ask) -> Want {
        let anonymous = (ask.address(), self.anonymous_limit);
        let outcome = ask.target.1;
        if ask.values("Host").len() != 1 {
            return self.unspent(&anonymous, 400, Some("bad_request"));
        }
        match ask.method {
            "GET" | "HEAD" => {}
            "OPTIONS" => return self.unspent(&anonymous, 204, None),
            _ => return self.unspent(&anonymous, 405, Some("method_not_allowed")),
        }
        let is_known = !ask.values("If-None-Match").is_empty();
        let found = if is_known { 304 } else { 200 };
        match outcome {
            Outcome::FoundOutside => return self.unspent(&anonymous, found, None),
            Outcome::MissingOutside => return self.unspent(&anonymous, 404, Some("not_found")),
            _ => {}
        }
        let caller = match ask.key() {
            Ok(None) => anonymous,
            Ok(Some(key)) => match self.keys.get(&key) {
                Some(known) if known.is_revoked => {
                    return self.unspent(&anonymous, 403, Some("key_revoked"));
                }
                Some(known) => (key, known.limit),
                None => return self.unspent(&anonymous, 401, Some("invalid_key")),
            },
            Err(()) => return self.unspent(&anonymous, 401, Some("invalid_key")),
        };
        if outcome == Outcome::Health {
            return self.unspent(&caller, 200, None);
        }
        if self.left(&caller) == 0 {
            return self.unspent(&caller, 429, Some("rate_limited"));
        }
        if outcome == Outcome::NotReady {
            return self.unspent(&caller, 503, Some("not_ready"));
        }
        *self.spent.entry(caller.0.clone()).or_default() += 1;
        match outcome {
            Outcome::Bad => self.unspent(&caller, 400, Some("bad_request")),
            Outcome::Missing => self.unspent(&caller, 404, Some("not_found")),
            _ => self.unspent(&caller, found, None),
        }
    }

    fn left(&self, (name, limit): &(String, u32)) -> u32 {
        limit - self.spent.get(name).unwrap_or(&0)
    }

    /// A response that uses no more quota.
    fn unspent(&self, caller: &(String, u32), status: u16, code: Option<&'static str>) -> Want {
        Want {
            status,
            code,
            limit: caller.1,
            remaining: self.left(caller),
        }
    }
}
