//! Keys and addresses sent in different ways, and the callers that result.

use super::*;
use crate::calendar::UnixSeconds;
use crate::keys::{KeyPrefix, KeyStore};
use crate::model::{Tier, TierLimits};
use crate::quota::TableSize;
use crate::request::{ProxyNetwork, Query};
use crate::sync::Replicated;

const DAY: UtcDay = UtcDay(20_777);

struct World {
    store: KeyStore,
    latest: Replicated<KeyTable>,
    gate: QuotaGate,
    directory: std::path::PathBuf,
}

impl World {
    fn new(name: &str) -> World {
        let directory = std::env::temp_dir().join(format!("im-gate-{}-{name}", std::process::id()));
        let store = KeyStore::new(&directory);
        let table = KeyTable::new(KeyPrefix::default(), store.read().unwrap(), 0..);
        let latest = Replicated::new(table);
        let keyed = KeyedQuota::new(None);
        keyed.places(0..9, &|_| {}).1.unwrap();
        let proxies = vec![ProxyNetwork::parse("10.0.0.0/8").unwrap()];
        let gate = QuotaGate {
            keys: latest.replica(),
            anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(100))),
            keyed: Arc::new(keyed),
            leases: None,
            limits: TierLimits {
                anonymous: 2,
                free: 3,
                starter: 4,
                pro: 5,
            },
            proxies: Arc::new(TrustedProxies(proxies)),
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
            .replace(KeyTable::new(KeyPrefix::default(), records, 0..));
    }

    fn identity(&self) -> ConnectionIdentity {
        self.gate.connect("198.51.100.1".parse().unwrap())
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
    let identity = world.identity();
    let caller = |lines: &[(&'static str, &str)], query: Option<&str>| {
        world
            .gate
            .authenticate(&identity, &headers(lines), &Query::split(query).keys())
    };
    let id_of = |key: &str| key.split('_').nth(2).unwrap().parse().unwrap();
    let keyed = |place, tier| {
        let id = id_of(if place == 0 { &one } else { &other });
        Ok(Caller::Keyed(KeyEntry { place, id, tier }))
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
    for gap in ["\t", " \t", "\t "] {
        let line = format!("Bearer {gap}{one}");
        let caller = caller(&[("authorization", &line)], None);
        assert_eq!(caller, Err(KeyError::Invalid), "{gap:?}");
    }
    let encoded = format!("%6Bey={}", one.replace('_', "%5F"));
    assert_eq!(caller(&[], Some(&encoded)), keyed(0, Tier::Free));
    let both = [("authorization", &*bearer), ("authorization", &*bearer)];
    assert_eq!(caller(&both, None), Err(KeyError::Twice));
    let twice = format!("key={one}&key={one}");
    assert_eq!(caller(&[], Some(&twice)), Err(KeyError::Twice));
    for line in ["", "Bearer", &one, "Basic aTpq", "Bearer: x", "Bearer\tx"] {
        let fault = caller(&[("authorization", line)], Some(&in_query));
        assert_eq!(fault, Err(KeyError::Scheme), "{line}");
    }
    for query in ["key", "key=", "key=%ff", "key=im_live_x", "a=1&key=+"] {
        assert_eq!(caller(&[], Some(query)), Err(KeyError::Invalid), "{query}");
    }
}

#[test]
fn a_key_where_none_is_read_is_an_error_unless_one_is_where_it_is_read() {
    let world = World::new("misplaced");
    let key = world.issue(Tier::Free);
    let identity = world.identity();
    let caller = |lines: &[(&'static str, &str)], query: Option<&str>| {
        world
            .gate
            .authenticate(&identity, &headers(lines), &Query::split(query).keys())
    };
    let bearer = format!("Bearer {key}");
    let in_query = format!("limit=2&Api_Key={key}");
    for line in [&*key, &bearer, "\"im_live_\""] {
        let lines = [("x-api-key", "other"), ("x-api-key", line)];
        assert_eq!(caller(&lines, None), Err(KeyError::Misplaced), "{line}");
        let lines = [&lines[..], &[("authorization", &bearer)]].concat();
        assert!(matches!(
            caller(&lines, Some(&in_query)),
            Ok(Caller::Keyed(_))
        ));
    }
    assert_eq!(caller(&[], Some(&in_query)), Err(KeyError::Misplaced));
    let both = format!("{in_query}&key={key}");
    assert!(matches!(caller(&[], Some(&both)), Ok(Caller::Keyed(_))));
    // Another error of a key in its place is the one to report.
    let wrong = format!("{in_query}&key=x");
    assert_eq!(caller(&[], Some(&wrong)), Err(KeyError::Invalid));
    for line in ["", "im", "live_im_", "ima_live_x", "IM_LIVE_X", "im_test_x"] {
        let query = format!("token={line}");
        let found = caller(&[("x-api-key", line)], Some(&query));
        assert!(matches!(found, Ok(Caller::Anonymous(_))), "{line}");
    }
}

#[test]
fn a_recognized_key_is_verified_again_when_keys_change() {
    let world = World::new("again");
    let key = world.issue(Tier::Free);
    let identity = world.identity();
    let line = format!("Bearer {key}");
    let sent = headers(&[("authorization", &line)]);
    let verify = || {
        world
            .gate
            .authenticate(&identity, &sent, &Query::split(None).keys())
    };
    assert!(verify().is_ok() && verify().is_ok());
    let id = key[8..18].parse().unwrap();
    assert!(world.store.set_revoked(id, true, UnixSeconds(1)).unwrap());
    assert!(verify().is_ok(), "not loaded yet");
    world.reload();
    assert_eq!(verify(), Err(KeyError::Revoked));
    assert_eq!(verify(), Err(KeyError::Revoked));
    assert!(world.store.set_revoked(id, false, UnixSeconds(1)).unwrap());
    world.reload();
    assert!(verify().is_ok());
    // A wrong secret of the same length on the same connection is not the recognized key.
    let mut wrong = line.clone().into_bytes();
    wrong[40] ^= 1;
    let wrong = headers(&[("authorization", std::str::from_utf8(&wrong).unwrap())]);
    let fault = world
        .gate
        .authenticate(&identity, &wrong, &Query::split(None).keys());
    assert_eq!(fault, Err(KeyError::Invalid));
}

#[test]
fn forwarded_addresses_are_trusted_from_trusted_proxies_only() {
    let world = World::new("proxies");
    let gate = &world.gate;
    let client = |text: &str| AnonymousClient::new(&gate.anonymous, text.parse().unwrap());
    let forwarded = headers(&[
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-for", "2.2.2.2"),
    ]);
    let direct = gate.connect("198.51.100.1".parse().unwrap());
    assert_eq!(gate.client(&direct, &forwarded), client("198.51.100.1"));
    for proxy in ["10.0.0.1", "::ffff:10.0.0.1"] {
        let identity = gate.connect(proxy.parse().unwrap());
        assert_eq!(gate.client(&identity, &forwarded), client("2.2.2.2"));
        assert_eq!(gate.client(&identity, &headers(&[])), client("10.0.0.1"));
    }
}

#[test]
fn connections_opened_before_a_tag_seed_was_adopted_use_the_new_tags() {
    let world = World::new("seed");
    let gate = &world.gate;
    let connections =
        ["198.51.100.1", "2001:db8::1"].map(|text| gate.connect(text.parse().unwrap()));
    let clients = || [0, 1].map(|at| gate.client(&connections[at], &headers(&[])));
    let before = clients();
    gate.anonymous
        .adopt_tag_seed(!gate.anonymous.tag_seed())
        .unwrap();
    let after = clients();
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1].lease_client(), before[1].lease_client());
    assert_eq!(
        after[1],
        AnonymousClient::new(&gate.anonymous, connections[1].peer)
    );
    assert_eq!(
        gate.address(&connections[1], &headers(&[])),
        connections[1].peer
    );
}

#[test]
fn each_tier_has_its_own_limit_and_counter() {
    let world = World::new("tiers");
    let issued = Tier::ALL.map(|tier| world.issue(tier));
    let now = RequestTime {
        day: DAY,
        moment: DAY.start(),
    };
    let admit = |caller| world.gate.admit(caller, now, None).unwrap();
    for (key, limit) in issued.iter().zip(3_u32..) {
        let query = format!("key={key}");
        let caller = world.gate.authenticate(
            &world.identity(),
            &headers(&[]),
            &Query::split(Some(&query)).keys(),
        );
        let caller = caller.unwrap();
        assert_eq!(world.gate.limit(caller), limit);
        for remaining in (0..limit).rev() {
            assert_eq!(world.gate.remaining(caller, DAY), Some(remaining + 1));
            let decision = admit(caller);
            assert_eq!(decision, Decision::Admit { remaining });
        }
        assert_eq!(admit(caller), Decision::Refuse);
    }
    let anonymous = world
        .gate
        .authenticate(&world.identity(), &headers(&[]), &Query::split(None).keys())
        .unwrap();
    assert_eq!(world.gate.remaining(anonymous, DAY), Some(2));
}

#[test]
fn a_key_without_a_counter_has_no_quota_that_could_be_spent() {
    let world = World::new("no-counter");
    let query = format!("key={}", world.issue(Tier::Free));
    let records = world.store.read().unwrap();
    let table = KeyTable::new(KeyPrefix::default(), records, [u32::MAX]);
    world.latest.replace(table);
    let keys = Query::split(Some(&query)).keys();
    let headers = headers(&[]);
    let caller = world.gate.authenticate(&world.identity(), &headers, &keys);
    let now = RequestTime {
        day: DAY,
        moment: DAY.start(),
    };
    let admitted = world.gate.admit(caller.unwrap(), now, None);
    assert!(matches!(admitted, Err(NoLease::Unavailable)));
    assert_eq!(world.gate.remaining(caller.unwrap(), DAY), None);
}
