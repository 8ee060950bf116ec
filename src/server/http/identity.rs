//! Who asks, and may they: address and key to a caller, and a caller to its quota.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};

use crate::calendar::UtcDay;
use crate::keys::{KeyEntry, KeyId, KeyStatus, KeyTable, constant_time_eq};
use crate::quota::{AnonymousClient, AnonymousQuota, Decision, KeyedQuota, TierLimits};
use crate::request::{self, SentKey, TrustedProxies};
use crate::sync::ArcSwapCache;

const FORWARDED_FOR: &str = "x-forwarded-for";
const SCHEME: &[u8] = b"bearer ";

/// Tells callers apart and counts their requests. One for each worker; the counters are shared.
#[derive(Debug)]
pub struct Gate {
    /// The keys that are valid now.
    pub keys: ArcSwapCache<KeyTable>,
    /// The counters of addresses.
    pub anonymous: Arc<AnonymousQuota>,
    /// The counters of keys.
    pub keyed: Arc<KeyedQuota>,
    /// What each may ask.
    pub limits: TierLimits,
    /// Whose word on addresses is believed.
    pub proxies: Arc<TrustedProxies>,
}

/// What is known of a connection.
#[derive(Debug)]
pub struct Visit {
    peer: Peer,
    /// The key that was found valid last, which its client is likely to send again.
    recognised: RefCell<Option<Recognised>>,
}

#[derive(Debug)]
enum Peer {
    Client {
        client: AnonymousClient,
        address: IpAddr,
    },
    /// A trusted proxy: each request has a client of its own.
    Proxy(IpAddr),
}

#[derive(Debug)]
struct Recognised {
    generation: u64,
    key: Box<[u8]>,
    entry: KeyEntry,
}

/// Whom a request counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An address.
    Anonymous(AnonymousClient),
    /// A key.
    Keyed(KeyEntry),
}

impl Caller {
    /// Its key, if it has one.
    pub fn key(self) -> Option<KeyId> {
        match self {
            Caller::Anonymous(_) => None,
            Caller::Keyed(entry) => Some(entry.id),
        }
    }

    /// Its index in `observe::CALLER_TIERS`.
    pub fn tier(self) -> usize {
        match self {
            Caller::Anonymous(_) => 0,
            Caller::Keyed(entry) => 1 + entry.tier as usize,
        }
    }

    /// A number for the caller, which hardly any other has.
    pub fn number(self) -> u64 {
        match self {
            Caller::Anonymous(client) => client.number(),
            Caller::Keyed(entry) => !u64::from(entry.number),
        }
    }
}

/// Why what was sent as a key is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The header is not `Bearer` and a key.
    Scheme,
    /// More than one key, so that it is not clear whose request this is.
    Twice,
    /// Malformed, unknown, or with a wrong secret: never told apart.
    Invalid,
    /// Disabled; the secret was right.
    Revoked,
}

impl Gate {
    /// A new connection. A direct peer's place among the counters is found here, once.
    pub fn arrive(&self, peer: IpAddr) -> Visit {
        let peer = if self.proxies.contains(peer) {
            Peer::Proxy(peer)
        } else {
            Peer::Client {
                client: AnonymousClient::new(&self.anonymous, peer),
                address: peer,
            }
        };
        Visit {
            peer,
            recognised: RefCell::new(None),
        }
    }

    /// Whom a request counts for without a key (CONTRACT section 7).
    #[inline]
    pub fn client(&self, visit: &Visit, headers: &HeaderMap) -> AnonymousClient {
        match visit.peer {
            Peer::Client { client, .. } => client,
            Peer::Proxy(_) => AnonymousClient::new(&self.anonymous, self.address(visit, headers)),
        }
    }

    /// The address that a request comes from, as far as it is believed.
    pub fn address(&self, visit: &Visit, headers: &HeaderMap) -> IpAddr {
        match visit.peer {
            Peer::Client { address, .. } => address,
            Peer::Proxy(proxy) => {
                let lines = headers.get_all(FORWARDED_FOR).iter();
                self.proxies.client(proxy, lines.map(HeaderValue::as_bytes))
            }
        }
    }

    /// Whether a peer is a proxy that is trusted.
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.contains(peer)
    }

    /// Whom a request counts for: the key of the header, else of the query, else the address.
    #[inline]
    pub fn caller(
        &self,
        visit: &Visit,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Caller, KeyFault> {
        let mut lines = headers.get_all(AUTHORIZATION).iter();
        match (lines.next(), lines.next()) {
            (None, _) => match request::key(query) {
                SentKey::None => Ok(Caller::Anonymous(self.client(visit, headers))),
                SentKey::Once(key) => self.judge(visit, key.as_bytes()),
                SentKey::Twice => Err(KeyFault::Twice),
            },
            (Some(line), None) => {
                let key = bearer(line.as_bytes()).ok_or(KeyFault::Scheme)?;
                self.judge(visit, key)
            }
            (Some(_), Some(_)) => Err(KeyFault::Twice),
        }
    }

    /// Judges a key. One that was valid on this connection is known again by its bytes, until any
    /// key is issued, revoked or restored.
    fn judge(&self, visit: &Visit, key: &[u8]) -> Result<Caller, KeyFault> {
        if let Some(known) = &*visit.recognised.borrow()
            && known.generation == self.keys.generation()
            && constant_time_eq(&known.key, key)
        {
            return Ok(Caller::Keyed(known.entry));
        }
        let (generation, table) = self.keys.load_full_with_generation();
        match table.verify(key) {
            KeyStatus::Active(entry) => {
                let known = Recognised {
                    generation,
                    key: key.into(),
                    entry,
                };
                visit.recognised.replace(Some(known));
                Ok(Caller::Keyed(entry))
            }
            KeyStatus::Revoked => Err(KeyFault::Revoked),
            KeyStatus::Unknown => Err(KeyFault::Invalid),
        }
    }

    /// What a caller may ask a day.
    pub fn limit(&self, caller: Caller) -> u32 {
        match caller {
            Caller::Anonymous(_) => self.limits.anonymous.into(),
            Caller::Keyed(entry) => self.limits.of(entry.tier),
        }
    }

    /// Counts a request of the caller, if it has one left.
    #[inline]
    pub fn admit(&self, caller: Caller, day: UtcDay) -> Decision {
        match caller {
            Caller::Anonymous(client) => self.anonymous.admit(client, self.limits.anonymous, day),
            Caller::Keyed(entry) => self
                .keyed
                .admit(entry.number, self.limits.of(entry.tier), day),
        }
    }

    /// Requests that the caller has left. Counts nothing.
    pub fn left(&self, caller: Caller, day: UtcDay) -> u32 {
        match caller {
            Caller::Anonymous(client) => self.anonymous.peek(client, self.limits.anonymous, day),
            Caller::Keyed(entry) => self
                .keyed
                .peek(entry.number, self.limits.of(entry.tier), day),
        }
    }
}

/// The credentials of an `Authorization` line whose scheme, in any case, is `Bearer`; perhaps none.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = line.split_at_checked(SCHEME.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME);
    is_bearer.then(|| credentials.trim_ascii_start())
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
