//! The service's limits, and several services on one state directory.

#[path = "service_mail_tests.rs"]
mod mails;
#[path = "service_model_tests.rs"]
mod model;

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::*;
use crate::calendar::DAY_SECONDS;
use crate::durable;
use crate::keys::SharedKeysState;
use crate::signup::SignupPolicy;
use crate::sync::{AtomicBool, Mutex, Ordering, PollTrigger, lock};

const NOON: i64 = DAY_SECONDS * 20_000 + DAY_SECONDS / 2;
const NOBODYS_ID: &str = "0123456789";

/// A state directory of its own for each.
fn state(name: &str) -> PathBuf {
    let state = std::env::temp_dir().join(format!("im-signup-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&state);
    state
}

/// The log of a service.
struct Lines(Log, Receiver<String>);

impl Lines {
    fn read(&self) -> Vec<String> {
        self.0.flush();
        self.1.try_iter().collect()
    }
}

fn open(state: &Path, mailer: Option<&str>, daily_max: u32) -> (SignupService, Lines) {
    let (log, lines) = Log::received();
    let mailer = mailer.map(str::to_owned);
    let policy = SignupPolicy { mailer, daily_max };
    let prefix = KeyPrefix::default();
    let store = KeyStore::new(state);
    let lines = Lines(log.clone(), lines);
    let service = SignupService::open((store, None), &policy, prefix, "https://x.test/", log);
    (service.unwrap(), lines)
}

/// The parts of a record that are compared.
#[derive(Clone, Debug, PartialEq)]
struct ListedKey {
    id: KeyId,
    tier: Tier,
    issued: UnixSeconds,
    revoked: Option<UnixSeconds>,
}

impl ListedKey {
    fn free(id: KeyId, issued: UnixSeconds) -> ListedKey {
        ListedKey {
            id,
            tier: Tier::Free,
            issued,
            revoked: None,
        }
    }
}

/// A response in a form that can be compared.
#[derive(Debug, PartialEq)]
enum Seen {
    EmailForm,
    LinkMailed,
    Keys {
        address: String,
        keys: Vec<ListedKey>,
        is_issued: bool,
        revoked: Option<KeyId>,
    },
    Rejected(SignupError),
}

fn seen(response: SignupResult) -> (Seen, String) {
    match response {
        Ok(SignupResponse::EmailForm { token }) => (Seen::EmailForm, token),
        Ok(SignupResponse::LinkMailed) => (Seen::LinkMailed, String::new()),
        Err(error) => (Seen::Rejected(error), String::new()),
        Ok(SignupResponse::Keys {
            address,
            keys,
            token,
            issued,
            revoked,
        }) => {
            if let Some(key) = &issued {
                assert_eq!(keys.last().unwrap().id, key.id);
                assert!(key.reveal().starts_with("im_live_"));
            }
            let (address, is_issued) = (address.to_string(), issued.is_some());
            let keys = keys.iter().map(|key| ListedKey {
                id: key.id,
                tier: key.tier,
                issued: key.issued,
                revoked: key.revoked,
            });
            let seen = Seen::Keys {
                address,
                keys: keys.collect(),
                is_issued,
                revoked,
            };
            (seen, token)
        }
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn show(token: &str) -> SignupRequest {
    let token = (!token.is_empty()).then(|| token.to_owned());
    SignupRequest::Show { token }
}

fn issue(token: &str) -> SignupRequest {
    let token = token.into();
    SignupRequest::Issue { token }
}

fn revoke(token: &str, id: &str) -> SignupRequest {
    let (token, id) = (token.into(), id.into());
    SignupRequest::Revoke { token, id }
}

fn mail(email: &str, token: &str) -> SignupRequest {
    let (email, token) = (email.into(), token.into());
    SignupRequest::MailLink { email, token }
}

#[test]
fn a_token_issues_one_key_from_concurrent_services() {
    let state = state("once");
    let (mut service, _log) = open(&state, None, 100);
    let now = UnixSeconds(NOON);
    let (_, token) = seen(service.handle(ip(1), show(""), now));
    let got: Vec<Seen> = std::thread::scope(|scope| {
        let services = (0..6).map(|_| {
            scope.spawn(|| {
                let (mut service, _log) = open(&state, None, 100);
                seen(service.handle(ip(1), issue(&token), now)).0
            })
        });
        let services: Vec<_> = services.collect();
        services
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect()
    });
    let used = Seen::Rejected(SignupError::UsedToken);
    assert_eq!(got.iter().filter(|seen| **seen == used).count(), 5);
    let records = KeyStore::new(&state).read().unwrap();
    assert_eq!(records.as_slice().len(), 1);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn concurrent_services_share_the_daily_limit() {
    let state = state("day");
    let now = UnixSeconds(NOON);
    let issued = std::thread::scope(|scope| {
        let services = (0..4_u8).map(|part| {
            let state = &state;
            scope.spawn(move || {
                let (mut service, _log) = open(state, None, 7);
                let mut one = |last| {
                    let (_, token) = seen(service.handle(ip(last), show(""), now));
                    seen(service.handle(ip(last), issue(&token), now)).0
                };
                let all = (0..4).map(|of| one(part * 4 + of));
                all.filter(|seen| matches!(seen, Seen::Keys { .. })).count()
            })
        });
        let services: Vec<_> = services.collect();
        services
            .into_iter()
            .map(|one| one.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(issued, 7);
    let records = KeyStore::new(&state).read().unwrap();
    assert_eq!(records.as_slice().len(), 7);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn issuing_and_revoking_in_turns_is_limited_across_restarts() {
    let state = state("turns");
    let mut now = NOON;
    let mut token = String::new();
    let mut rejected = None;
    for turn in 0..10 {
        // A restart each time: what counts is in the records, and tokenes outlive it.
        let (mut service, _log) = open(&state, None, 100);
        let mut handle = |request| seen(service.handle(ip(1), request, UnixSeconds(now)));
        if turn == 0 {
            token = handle(show("")).1;
        }
        let (got, next) = handle(issue(&token));
        if let Seen::Keys { keys, .. } = got {
            let id = keys.last().unwrap().id.to_string();
            token = handle(revoke(&next, &id)).1;
        } else {
            rejected = Some((turn, got));
        }
        now += 10;
    }
    let retry_after_seconds = 86_400 - 90;
    let recent = SignupError::TooManyRecent(retry_after_seconds);
    assert_eq!(rejected, Some((9, Seen::Rejected(recent))));
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_damaged_key_file_is_logged_once_in_ten_seconds() {
    let state = state("damaged");
    let (mut service, log) = open(&state, None, 100);
    let (_, token) = seen(service.handle(ip(1), show(""), UnixSeconds(NOON)));
    durable::replace(&state.join("keys.jsonl"), b"no keys\n").unwrap();
    for request in [
        show(""),
        issue(&token),
        revoke(&token, NOBODYS_ID),
        show(""),
    ] {
        let got = seen(service.handle(ip(1), request, UnixSeconds(NOON + 1))).0;
        assert_eq!(got, Seen::Rejected(SignupError::Internal));
    }
    let lines = log.read();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("keys.jsonl:1: "), "{lines:?}");
    fs::remove_file(state.join("keys.jsonl")).unwrap();
    let got = seen(service.handle(ip(1), issue(&token), UnixSeconds(NOON + 62))).0;
    assert!(matches!(
        got,
        Seen::Keys {
            is_issued: true,
            ..
        }
    ));
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_key_of_several_servers_is_issued_if_the_store_adds_it() {
    let state = state("shared");
    durable::create_private_directory(&state).unwrap();
    let store = KeyStore::new(&state);
    let exchanged = |secret| SharedKeysState {
        is_up: true,
        has_exchanged: true,
        exchanged: Instant::now(),
        secret,
    };
    let shared = Arc::new(Mutex::new(exchanged(None)));
    let is_reached = Arc::new(AtomicBool::new(false));
    // Keys that other servers add before.
    let others: Arc<Mutex<Vec<KeyRecord>>> = Arc::default();
    let (reaches, other_keys, own) = (Arc::clone(&is_reached), Arc::clone(&others), store.clone());
    let sharing = KeySharing {
        state: Arc::clone(&shared),
        add: Arc::new(move |key, check| {
            own.merge(&mem::take(&mut *lock(&other_keys))).unwrap();
            let is_added = reaches.load(Ordering::Relaxed) && check(&own.known());
            if is_added {
                own.merge(slice::from_ref(key)).unwrap();
            }
            own.repair().unwrap();
            is_added
        }),
        exchange: PollTrigger::start("test", |_| {}).unwrap(),
    };
    let (prefix, (log, _lines)) = (KeyPrefix::default(), Log::received());
    let keys = (store.clone(), Some(sharing));
    let policy = SignupPolicy {
        mailer: None,
        daily_max: 100,
    };
    let service = SignupService::open(keys, &policy, prefix, "https://x.test/", log);
    let (mut service, now) = (service.unwrap(), UnixSeconds(NOON));
    let unavailable = Seen::Rejected(SignupError::Unavailable);
    // Without the secret of all servers there is no page.
    assert_eq!(seen(service.handle(ip(1), show(""), now)).0, unavailable);
    assert!(!state.join(SignupSecret::FILE).exists());
    *lock(&shared) = exchanged(Some(SignupSecret::random()));
    let (_, token) = seen(service.handle(ip(1), show(""), now));
    let got = seen(service.handle(ip(1), issue(&token), now)).0;
    assert_eq!(got, unavailable);
    assert_eq!(store.read().unwrap(), KeyRecords::default());
    is_reached.store(true, Ordering::Relaxed);
    let (page, token) = seen(service.handle(ip(1), issue(&token), now));
    assert!(matches!(page, Seen::Keys { is_issued, .. } if is_issued));
    let count = || store.read().unwrap().as_slice().len();
    assert_eq!(count(), 1);
    // The same form, sent to another server at the same time.
    let of = (&ip(1).into(), Tier::Free);
    let (_, other) = KeyRecord::random(&KeyPrefix::default(), of, now);
    lock(&others).push(other);
    let (got, _) = seen(service.handle(ip(1), issue(&token), now));
    assert_eq!(got, Seen::Rejected(SignupError::UsedToken));
    assert_eq!(count(), 2);
    // Revoking needs no store.
    is_reached.store(false, Ordering::Relaxed);
    let (_, token) = seen(service.handle(ip(1), show(""), now));
    let id = store.read().unwrap().as_slice()[0].id.to_string();
    let (page, _) = seen(service.handle(ip(1), revoke(&token, &id), now));
    assert!(matches!(page, Seen::Keys { .. }));
    assert!(store.read().unwrap().as_slice()[0].revoked.is_some());
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_service_can_be_moved_to_a_thread() {
    fn given<T: Send + 'static>() {}
    given::<SignupService>();
}

#[test]
fn tokens_are_valid_for_their_client_and_proof_only() {
    let state = state("modes");
    let (mut by_ip, _log) = open(&state, None, 100);
    let (mut by_email, _other_log) = open(&state, Some("true"), 100);
    let now = UnixSeconds(NOON);
    let (_, token) = seen(by_ip.handle(ip(1), show(""), now));
    let (_, form) = seen(by_email.handle(ip(1), show(""), now));
    let invalid = Seen::Rejected(SignupError::InvalidToken);
    for token in [&token, &form] {
        let request = mail("ann@x.test", token);
        assert_eq!(seen(by_ip.handle(ip(1), request, now)).0, invalid);
    }
    // Both have one secret, as before and after the setting is changed.
    assert_eq!(seen(by_email.handle(ip(1), show(&token), now)).0, invalid);
    assert_eq!(seen(by_ip.handle(ip(2), issue(&token), now)).0, invalid);
    assert_eq!(seen(by_ip.handle(ip(1), issue(&form), now)).0, invalid);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_network_of_many_clients_is_limited() {
    let state = state("network");
    let (mut service, _log) = open(&state, None, 1000);
    let mut one = |address: String| {
        let client = address.parse().unwrap();
        let (_, token) = seen(service.handle(client, show(""), UnixSeconds(NOON)));
        seen(service.handle(client, issue(&token), UnixSeconds(NOON))).0
    };
    for part in 0..60 {
        assert!(matches!(
            one(format!("2001:db8:0:{part}::1")),
            Seen::Keys { .. }
        ));
    }
    let retry_after_seconds = 600;
    let fast = SignupError::RateLimited(retry_after_seconds);
    assert_eq!(one("2001:db8:0:99::1".into()), Seen::Rejected(fast));
    for other in ["2001:db8:1::1", "192.0.2.1"] {
        assert!(matches!(one(other.into()), Seen::Keys { .. }));
    }
    fs::remove_dir_all(state).unwrap();
}
