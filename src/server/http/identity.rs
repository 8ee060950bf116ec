//! The caller of a request, and its quota: from address and key to a [`Caller`], and from that to
//! admission.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::calendar::{RequestTime, UtcDay};
use crate::keys::{KeyEntry, KeyId, KeyStatus, KeyTable, constant_time_eq};
use crate::model::TierLimits;
use crate::quota::{
    AnonymousClient, AnonymousQuota, ClientCounter, Decision, KeyedQuota, LeaseClient, LeaseTable,
    LeaseWait, NoLease,
};
use crate::request::{SentKey, SentKeys, TrustedProxies};
use crate::server::http::request_head::values;
use crate::sync::{Replica, lock};

const FORWARDED_FOR: &str = "x-forwarded-for";
/// The header of other services for keys.
static API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const SCHEME: &[u8] = b"bearer ";

/// Authenticates callers, and counts their requests against their quotas. Each worker has its own;
/// all share the counters.
#[derive(Debug)]
pub struct QuotaGate {
    pub keys: Replica<Arc<KeyTable>>,
    pub anonymous: Arc<AnonymousQuota>,
    pub keyed: Arc<KeyedQuota>,
    /// The credits of this server, if it shares the limits with others.
    pub leases: Option<Arc<LeaseTable>>,
    /// Requests per day, by tier.
    pub limits: TierLimits,
    pub proxies: Arc<TrustedProxies>,
}

#[derive(Debug)]
pub struct ConnectionIdentity {
    pub peer: IpAddr,
    /// `None` for a trusted proxy: each request has its own client.
    client: Option<AnonymousClient>,
    /// The key verified last, which the client is likely to send again.
    verified: RefCell<Option<VerifiedKey>>,
}

#[derive(Debug)]
struct VerifiedKey {
    /// The table that has the key. Compared by address, which no other table gets while this
    /// reference exists.
    table: Weak<KeyTable>,
    key: Box<[u8]>,
    entry: KeyEntry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Anonymous(AnonymousClient),
    Keyed(KeyEntry),
}

impl Caller {
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

    /// The caller as other servers know it.
    fn lease_client(self) -> LeaseClient {
        match self {
            Caller::Anonymous(client) => client.lease_client(),
            Caller::Keyed(entry) => LeaseClient::Key(entry.id.number()),
        }
    }
}

/// The quota of a caller on the current day (SPEC section 8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaStatus {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) reset_seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The header is not `Bearer` and a key.
    Scheme,
    /// More than one key, so that the caller is ambiguous.
    Twice,
    /// Sent where no key is read, and none where it is.
    Misplaced,
    /// Malformed, unknown, or with a wrong secret: indistinguishable on purpose.
    Invalid,
    /// Disabled; the secret was right.
    Revoked,
}

impl QuotaGate {
    /// The identity of a new connection. Finds the counter of a direct client.
    pub fn connect(&self, peer: IpAddr) -> ConnectionIdentity {
        let is_client = !self.proxies.contains(peer);
        ConnectionIdentity {
            peer,
            client: is_client.then(|| AnonymousClient::new(&self.anonymous, peer)),
            verified: RefCell::new(None),
        }
    }

    /// The client that a request without a key counts for (CONTRACT section 7).
    #[inline]
    pub fn client(&self, identity: &ConnectionIdentity, headers: &HeaderMap) -> AnonymousClient {
        match identity.client {
            Some(client) if !client.is_outdated(&self.anonymous) => client,
            _ => AnonymousClient::new(&self.anonymous, self.address(identity, headers)),
        }
    }

    /// The address of the client, as far as it is trusted.
    pub fn address(&self, identity: &ConnectionIdentity, headers: &HeaderMap) -> IpAddr {
        if identity.client.is_some() {
            return identity.peer;
        }
        let lines = headers.get_all(FORWARDED_FOR).iter();
        let lines = lines.map(HeaderValue::as_bytes);
        self.proxies.client(identity.peer, lines)
    }

    /// The caller of a request: the key of the header, else of the query, else the address.
    #[inline]
    pub fn authenticate(
        &self,
        identity: &ConnectionIdentity,
        headers: &HeaderMap,
        in_query: &SentKeys<'_>,
    ) -> Result<Caller, KeyError> {
        // One pass over the names takes less time than a search for each.
        let (mut sent, mut is_repeated, mut has_api_key) = (None, false, false);
        for (name, line) in headers {
            if *name == AUTHORIZATION {
                is_repeated |= sent.replace(line).is_some();
            }
            has_api_key |= *name == API_KEY;
        }
        match sent {
            None => match &in_query.key {
                SentKey::None if self.has_misplaced_key(has_api_key, headers, in_query) => {
                    Err(KeyError::Misplaced)
                }
                SentKey::None => Ok(Caller::Anonymous(self.client(identity, headers))),
                SentKey::Once(key) => self.verify(identity, key.as_bytes()),
                SentKey::Twice => Err(KeyError::Twice),
            },
            Some(_) if is_repeated => Err(KeyError::Twice),
            Some(line) => {
                let key = bearer(line.as_bytes()).ok_or(KeyError::Scheme)?;
                self.verify(identity, key)
            }
        }
    }

    /// Returns `true` if something like a key is where clients of other services send theirs. Such a request would
    /// otherwise count as anonymous without a sign of it.
    #[inline]
    fn has_misplaced_key(
        &self,
        has_api_key: bool,
        headers: &HeaderMap,
        in_query: &SentKeys<'_>,
    ) -> bool {
        let resembles = |text: &[u8]| lock(&self.keys).resembles_key(text);
        let in_header = || values(headers, &API_KEY).any(|line| resembles(line.as_bytes()));
        let mut misplaced = in_query.misplaced.iter();
        has_api_key && in_header() || misplaced.any(|text| resembles(text.as_bytes()))
    }

    /// Verifies a key. The one verified last on this connection is recognized by its bytes, until
    /// the key table changes.
    fn verify(&self, identity: &ConnectionIdentity, key: &[u8]) -> Result<Caller, KeyError> {
        let table = lock(&self.keys);
        if let Some(last) = &*identity.verified.borrow()
            && last.table.as_ptr() == Arc::as_ptr(&table)
            && constant_time_eq(&last.key, key)
        {
            return Ok(Caller::Keyed(last.entry));
        }
        match table.verify(key) {
            KeyStatus::Active(entry) => {
                identity.verified.replace(Some(VerifiedKey {
                    table: Arc::downgrade(&table),
                    key: key.into(),
                    entry,
                }));
                Ok(Caller::Keyed(entry))
            }
            KeyStatus::Revoked => Err(KeyError::Revoked),
            KeyStatus::Unknown => Err(KeyError::Invalid),
        }
    }

    pub fn limit(&self, caller: Caller) -> u32 {
        match caller {
            Caller::Anonymous(_) => self.limits.anonymous.into(),
            Caller::Keyed(entry) => self.limits.of(entry.tier),
        }
    }

    /// The quota of a caller for response headers, which show an unknown remainder as 0.
    pub(in crate::server) fn status(
        &self,
        caller: Caller,
        remaining: Option<u32>,
        now: RequestTime,
    ) -> QuotaStatus {
        QuotaStatus {
            limit: self.limit(caller),
            remaining: remaining.unwrap_or(0),
            reset_seconds: now.reset_seconds(),
        }
    }

    /// Counts a request of a caller, if its quota is not spent. With shared limits it may require an
    /// answer of the store, unless it has waited long enough, which is `waited`.
    #[inline]
    pub fn admit(
        &self,
        caller: Caller,
        now: RequestTime,
        waited: Option<LeaseWait>,
    ) -> Result<Decision, NoLease> {
        let (limit, counter) = (self.limit(caller), (self, caller, now.day));
        match &self.leases {
            None => counter.admit(limit),
            Some(leases) => leases.admit(caller.lease_client(), limit, now, waited, &counter),
        }
    }

    /// Requests that remain of a caller's quota; `None` if that is unknown. Counts nothing.
    pub fn remaining(&self, caller: Caller, day: UtcDay) -> Option<u32> {
        let (limit, counter) = (self.limit(caller), (self, caller, day));
        match &self.leases {
            None => counter.peek(limit),
            Some(leases) => leases.peek(caller.lease_client(), limit, day, &counter),
        }
    }
}

/// The counter of a caller at this server.
impl ClientCounter for (&QuotaGate, Caller, UtcDay) {
    #[inline]
    fn admit(&self, limit: u32) -> Result<Decision, NoLease> {
        let (gate, caller, day) = *self;
        let decided = match caller {
            Caller::Anonymous(client) => Some(gate.anonymous.admit(client, anonymous(limit), day)),
            // A new key may have no counter: the disk has no room for it.
            Caller::Keyed(entry) => gate.keyed.admit(entry.place, limit, day),
        };
        decided.ok_or(NoLease::Unavailable)
    }

    fn peek(&self, limit: u32) -> Option<u32> {
        let (gate, caller, day) = *self;
        match caller {
            Caller::Anonymous(client) => Some(gate.anonymous.peek(client, anonymous(limit), day)),
            Caller::Keyed(entry) => gate.keyed.peek(entry.place, limit, day),
        }
    }
}

/// A limit of an address, which has 16 bits.
fn anonymous(limit: u32) -> u16 {
    u16::try_from(limit).unwrap_or(u16::MAX)
}

/// The credentials, perhaps empty, of an `Authorization` line whose scheme is `Bearer` in any case.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = line.split_at_checked(SCHEME.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME);
    // Only spaces (RFC 6750 section 2.1): a balancer that selects a server by the key skips nothing else.
    let start = credentials.iter().position(|byte| *byte != b' ');
    is_bearer.then(|| &credentials[start.unwrap_or(credentials.len())..])
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
