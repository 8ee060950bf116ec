//! Who asks, and may they: address and key to a caller, and a caller to its quota.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};

use crate::calendar::UtcDay;
use crate::keys::{Grant, KeyId, KeyRing, Verdict, is_equal};
use crate::quota::{AnonymousQuota, Client, Decision, KeyedQuota, TierLimits};
use crate::request::{self, SentKey, TrustedProxies};
use crate::sync::LatestReader;

const FORWARDED_FOR: &str = "x-forwarded-for";
const SCHEME: &[u8] = b"bearer ";

/// Tells callers apart and counts their requests. One for each worker; the counters are shared.
#[derive(Debug)]
pub struct Gate {
    /// The keys that are valid now.
    pub keys: LatestReader<KeyRing>,
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
        client: Client,
        address: IpAddr,
    },
    /// A trusted proxy: each request has a client of its own.
    Proxy(IpAddr),
}

#[derive(Debug)]
struct Recognised {
    generation: u64,
    key: Box<[u8]>,
    grant: Grant,
}

/// Names of what callers are by their quota: without a key, and the tiers of keys in their order.
pub(super) const TIERS: [&str; 4] = ["anonymous", "free", "starter", "pro"];

/// Whom a request counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An address.
    Anonymous(Client),
    /// A key.
    Keyed(Grant),
}

impl Caller {
    /// Its key, if it has one.
    pub fn key(self) -> Option<KeyId> {
        match self {
            Caller::Anonymous(_) => None,
            Caller::Keyed(grant) => Some(grant.id),
        }
    }

    /// Its place among [`TIERS`].
    pub fn tier(self) -> usize {
        match self {
            Caller::Anonymous(_) => 0,
            Caller::Keyed(grant) => 1 + grant.tier as usize,
        }
    }

    /// A number for the caller, which hardly any other has.
    pub fn number(self) -> u64 {
        match self {
            Caller::Anonymous(client) => client.number(),
            Caller::Keyed(grant) => !u64::from(grant.number),
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
        let peer = if self.proxies.trust(peer) {
            Peer::Proxy(peer)
        } else {
            Peer::Client {
                client: Client::new(&self.anonymous, peer),
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
    pub fn client(&self, visit: &Visit, headers: &HeaderMap) -> Client {
        match visit.peer {
            Peer::Client { client, .. } => client,
            Peer::Proxy(_) => Client::new(&self.anonymous, self.address(visit, headers)),
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
        self.proxies.trust(peer)
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
            && is_equal(&known.key, key)
        {
            return Ok(Caller::Keyed(known.grant));
        }
        let (generation, ring) = self.keys.current_with_generation();
        match ring.judge(key) {
            Verdict::Active(grant) => {
                let known = Recognised {
                    generation,
                    key: key.into(),
                    grant,
                };
                visit.recognised.replace(Some(known));
                Ok(Caller::Keyed(grant))
            }
            Verdict::Revoked => Err(KeyFault::Revoked),
            Verdict::Unknown => Err(KeyFault::Invalid),
        }
    }

    /// What a caller may ask a day.
    pub fn limit(&self, caller: Caller) -> u32 {
        match caller {
            Caller::Anonymous(_) => self.limits.anonymous.into(),
            Caller::Keyed(grant) => self.limits.of(grant.tier),
        }
    }

    /// Counts a request of the caller, if it has one left.
    #[inline]
    pub fn admit(&self, caller: Caller, day: UtcDay) -> Decision {
        match caller {
            Caller::Anonymous(client) => self.anonymous.admit(client, self.limits.anonymous, day),
            Caller::Keyed(grant) => self
                .keyed
                .admit(grant.number, self.limits.of(grant.tier), day),
        }
    }

    /// Requests that the caller has left. Counts nothing.
    pub fn left(&self, caller: Caller, day: UtcDay) -> u32 {
        match caller {
            Caller::Anonymous(client) => self.anonymous.peek(client, self.limits.anonymous, day),
            Caller::Keyed(grant) => self
                .keyed
                .peek(grant.number, self.limits.of(grant.tier), day),
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
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::keys::{KeyPrefix, KeyStore};
    use crate::model::Tier;
    use crate::quota::Sizes;
    use crate::sync::Latest;

    const DAY: UtcDay = UtcDay(20_777);

    struct World {
        store: KeyStore,
        latest: Arc<Latest<KeyRing>>,
        gate: Gate,
        directory: std::path::PathBuf,
    }

    impl World {
        fn new(name: &str) -> World {
            let directory =
                std::env::temp_dir().join(format!("im-gate-{}-{name}", std::process::id()));
            let store = KeyStore::new(&directory);
            let ring = KeyRing::new(KeyPrefix::default(), &store.read().unwrap());
            let latest = Arc::new(Latest::new(ring));
            let keyed = KeyedQuota::new(None);
            keyed.make_room(9, DAY, &|_| {}).unwrap();
            let proxies: Vec<_> = vec!["10.0.0.0/8".parse().unwrap()];
            let gate = Gate {
                keys: LatestReader::new(Arc::clone(&latest)),
                anonymous: Arc::new(AnonymousQuota::new(Sizes::for_clients(100))),
                keyed: Arc::new(keyed),
                limits: TierLimits {
                    anonymous: 2,
                    free: 3,
                    starter: 4,
                    pro: 5,
                },
                proxies: Arc::new(proxies.into()),
            };
            World {
                store,
                latest,
                gate,
                directory,
            }
        }

        fn issue(&self, tier: Tier) -> String {
            let address = "a@x.test".parse().unwrap();
            let now = UnixSeconds(0);
            let key = self.store.issue(&KeyPrefix::default(), &address, tier, now);
            self.reload();
            key.unwrap().reveal().to_owned()
        }

        fn reload(&self) {
            let records = self.store.read().unwrap();
            self.latest
                .replace(KeyRing::new(KeyPrefix::default(), &records));
        }

        fn visit(&self) -> Visit {
            self.gate.arrive("198.51.100.1".parse().unwrap())
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _gone_already = std::fs::remove_dir_all(&self.directory);
        }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_header_wins_over_the_query_and_both_over_the_address() {
        let world = World::new("wins");
        let (one, other) = (world.issue(Tier::Free), world.issue(Tier::Pro));
        let visit = world.visit();
        let caller = |lines: &[(&'static str, &str)], query: Option<&str>| {
            world.gate.caller(&visit, &headers(lines), query)
        };
        let id_of = |key: &str| key.split('_').nth(2).unwrap().parse().unwrap();
        let keyed = |number, tier| {
            let id = id_of(if number == 0 { &one } else { &other });
            Ok(Caller::Keyed(Grant { number, id, tier }))
        };
        let in_query = format!("limit=2&key={other}");
        let bearer = format!("Bearer {one}");
        assert_eq!(
            caller(&[("authorization", &bearer)], Some(&in_query)),
            keyed(0, Tier::Free)
        );
        assert_eq!(caller(&[], Some(&in_query)), keyed(1, Tier::Pro));
        assert!(matches!(
            caller(&[], Some("limit=2")),
            Ok(Caller::Anonymous(_))
        ));
        for spelling in ["bearer ", "BEARER ", "Bearer   "] {
            let line = format!("{spelling}{one}");
            assert_eq!(
                caller(&[("authorization", &line)], None),
                keyed(0, Tier::Free)
            );
        }
        let encoded = format!("%6Bey={}", one.replace('_', "%5F"));
        assert_eq!(caller(&[], Some(&encoded)), keyed(0, Tier::Free));
        let both = [("authorization", &*bearer), ("authorization", &*bearer)];
        assert_eq!(caller(&both, None), Err(KeyFault::Twice));
        let twice = format!("key={one}&key={one}");
        assert_eq!(caller(&[], Some(&twice)), Err(KeyFault::Twice));
        for line in ["", "Bearer", &one, "Basic aTpq", "Bearer: x", "Bearer\tx"] {
            let fault = caller(&[("authorization", line)], Some(&in_query));
            assert_eq!(fault, Err(KeyFault::Scheme), "{line}");
        }
        for query in ["key", "key=", "key=%ff", "key=im_live_x", "a=1&key=+"] {
            assert_eq!(caller(&[], Some(query)), Err(KeyFault::Invalid), "{query}");
        }
    }

    #[test]
    fn a_recognised_key_is_judged_anew_when_keys_change() {
        let world = World::new("anew");
        let key = world.issue(Tier::Free);
        let visit = world.visit();
        let line = format!("Bearer {key}");
        let sent = headers(&[("authorization", &line)]);
        let judge = || world.gate.caller(&visit, &sent, None);
        assert!(judge().is_ok() && judge().is_ok());
        let id = key[8..18].parse().unwrap();
        assert!(world.store.revoke(id, UnixSeconds(1)).unwrap());
        assert!(judge().is_ok(), "not loaded yet");
        world.reload();
        assert_eq!(judge(), Err(KeyFault::Revoked));
        assert_eq!(judge(), Err(KeyFault::Revoked));
        assert!(world.store.restore(id).unwrap());
        world.reload();
        assert!(judge().is_ok());
        // A wrong secret of the same length on the same connection is not the recognised key.
        let mut wrong = line.clone().into_bytes();
        wrong[40] ^= 1;
        let wrong = headers(&[("authorization", std::str::from_utf8(&wrong).unwrap())]);
        let fault = world.gate.caller(&visit, &wrong, None);
        assert_eq!(fault, Err(KeyFault::Invalid));
    }

    #[test]
    fn addresses_are_believed_from_trusted_proxies_only() {
        let world = World::new("proxies");
        let gate = &world.gate;
        let client = |text: &str| Client::new(&gate.anonymous, text.parse().unwrap());
        let forwarded = headers(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
        ]);
        let direct = gate.arrive("198.51.100.1".parse().unwrap());
        assert_eq!(gate.client(&direct, &forwarded), client("198.51.100.1"));
        for proxy in ["10.0.0.1", "::ffff:10.0.0.1"] {
            let visit = gate.arrive(proxy.parse().unwrap());
            assert_eq!(gate.client(&visit, &forwarded), client("2.2.2.2"));
            assert_eq!(gate.client(&visit, &headers(&[])), client("10.0.0.1"));
        }
    }

    #[test]
    fn each_tier_has_its_own_limit_and_counter() {
        let world = World::new("tiers");
        let keys = Tier::ALL.map(|tier| world.issue(tier));
        for (key, limit) in keys.iter().zip(3_u32..) {
            let query = format!("key={key}");
            let caller = world
                .gate
                .caller(&world.visit(), &headers(&[]), Some(&query));
            let caller = caller.unwrap();
            assert_eq!(world.gate.limit(caller), limit);
            for remaining in (0..limit).rev() {
                assert_eq!(world.gate.left(caller, DAY), remaining + 1);
                let decision = world.gate.admit(caller, DAY);
                assert_eq!(decision, Decision::Admit { remaining });
            }
            assert_eq!(world.gate.admit(caller, DAY), Decision::Refuse);
        }
        let anonymous = world
            .gate
            .caller(&world.visit(), &headers(&[]), None)
            .unwrap();
        assert_eq!(world.gate.left(anonymous, DAY), 2);
    }
}
