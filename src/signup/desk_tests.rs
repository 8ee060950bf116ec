//! The desk's limits, and what several desks do at once.

#[path = "desk_mail_tests.rs"]
mod mails;
#[path = "desk_model_tests.rs"]
mod model;

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use super::super::index::ListedKey;
use super::super::mailer::Mailer;
use super::*;
use crate::calendar::DAY_SECONDS;
use crate::durable;

const NOON: i64 = DAY_SECONDS * 20_000 + DAY_SECONDS / 2;
const NOBODYS_ID: &str = "0123456789";

/// A state directory of its own for each.
fn state(name: &str) -> PathBuf {
    let state = std::env::temp_dir().join(format!("im-desk-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&state);
    state
}

fn open(state: &Path, mode: Mode, daily_max: u32) -> (Desk, Receiver<String>) {
    let (tell, said) = channel();
    let say = Box::new(move |line: &str| {
        // The test may have ended.
        let _ = tell.send(line.to_owned());
    });
    let (prefix, terms) = (KeyPrefix::default(), Terms { daily_max });
    let desk = Desk::open(state, mode, prefix, "https://x.test/", terms, say);
    (desk.unwrap(), said)
}

fn mailer(command: &str) -> Mode {
    Mode::Email(Mailer::start(command, Box::new(|_| ())).unwrap())
}

/// A reply that can be compared: the ids and what became of them.
#[derive(Debug, PartialEq)]
enum Seen {
    Ask,
    Mailed,
    Keys {
        address: String,
        keys: Vec<ListedKey>,
        is_issued: bool,
        revoked: Option<KeyId>,
    },
    Refused(Refused),
}

/// And the pass that it holds.
fn seen(reply: Reply) -> (Seen, String) {
    match reply {
        Reply::Ask { pass } => (Seen::Ask, pass),
        Reply::Mailed => (Seen::Mailed, String::new()),
        Reply::Refused(refused) => (Seen::Refused(refused), String::new()),
        Reply::Keys {
            address,
            keys,
            pass,
            issued,
            revoked,
        } => {
            if let Some(key) = &issued {
                assert_eq!(keys.last().unwrap().id, key.id);
                assert!(key.reveal().starts_with("im_live_"));
            }
            let (address, is_issued) = (address.to_string(), issued.is_some());
            let seen = Seen::Keys {
                address,
                keys,
                is_issued,
                revoked,
            };
            (seen, pass)
        }
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn look(pass: &str) -> Wish {
    let pass = (!pass.is_empty()).then(|| pass.to_owned());
    Wish::Look { pass }
}

fn issue(pass: &str) -> Wish {
    Wish::Issue { pass: pass.into() }
}

fn revoke(pass: &str, id: &str) -> Wish {
    Wish::Revoke {
        pass: pass.into(),
        id: id.into(),
    }
}

fn mail(email: &str, pass: &str) -> Wish {
    Wish::Mail {
        email: email.into(),
        pass: pass.into(),
    }
}

#[test]
fn a_pass_issues_one_key_however_many_desks_it_is_shown_to_at_once() {
    let state = state("once");
    let (mut desk, _said) = open(&state, Mode::Ip, 100);
    let now = UnixSeconds(NOON);
    let (_, pass) = seen(desk.serve(ip(1), look(""), now));
    let asked: Vec<Seen> = std::thread::scope(|scope| {
        let desks = (0..6).map(|_| {
            scope.spawn(|| {
                let (mut desk, _said) = open(&state, Mode::Ip, 100);
                seen(desk.serve(ip(1), issue(&pass), now)).0
            })
        });
        let desks: Vec<_> = desks.collect();
        desks.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let used = Seen::Refused(Refused::Used);
    assert_eq!(asked.iter().filter(|seen| **seen == used).count(), 5);
    assert_eq!(KeyStore::new(&state).read().unwrap().iter().len(), 1);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn desks_together_issue_what_a_day_has_and_no_more() {
    let state = state("day");
    let now = UnixSeconds(NOON);
    let issued = std::thread::scope(|scope| {
        let desks = (0..4_u8).map(|part| {
            let state = &state;
            scope.spawn(move || {
                let (mut desk, _said) = open(state, Mode::Ip, 7);
                let mut one = |last| {
                    let (_, pass) = seen(desk.serve(ip(last), look(""), now));
                    seen(desk.serve(ip(last), issue(&pass), now)).0
                };
                let all = (0..4).map(|of| one(part * 4 + of));
                all.filter(|seen| matches!(seen, Seen::Keys { .. })).count()
            })
        });
        let desks: Vec<_> = desks.collect();
        desks
            .into_iter()
            .map(|one| one.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(issued, 7);
    assert_eq!(KeyStore::new(&state).read().unwrap().iter().len(), 7);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn who_issues_and_revokes_by_turns_is_stopped_for_a_day_even_by_another_desk() {
    let state = state("turns");
    let mut now = NOON;
    let mut pass = String::new();
    let mut refused = None;
    for turn in 0..10 {
        // A restart each time: what counts is in the records, and passes outlive it.
        let (mut desk, _said) = open(&state, Mode::Ip, 100);
        let mut serve = |wish| seen(desk.serve(ip(1), wish, UnixSeconds(now)));
        if turn == 0 {
            pass = serve(look("")).1;
        }
        let (asked, next) = serve(issue(&pass));
        if let Seen::Keys { keys, .. } = asked {
            let id = keys.last().unwrap().id.to_string();
            pass = serve(revoke(&next, &id)).1;
        } else {
            refused = Some((turn, asked));
        }
        now += 10;
    }
    let retry_after_seconds = 86_400 - 90;
    let lately = Refused::TooManyLately {
        retry_after_seconds,
    };
    assert_eq!(refused, Some((9, Seen::Refused(lately))));
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn who_asks_too_fast_waits_and_another_does_not() {
    let state = state("fast");
    let (mut desk, _said) = open(&state, Mode::Ip, 100);
    let mut serve = |last| seen(desk.serve(ip(last), look(""), UnixSeconds(NOON))).0;
    for _ in 0..30 {
        assert!(matches!(serve(1), Seen::Keys { .. }));
    }
    let retry_after_seconds = 2;
    let fast = Refused::TooFast {
        retry_after_seconds,
    };
    assert_eq!(serve(1), Seen::Refused(fast));
    assert_eq!(fast.retry_after_seconds(), Some(2));
    assert!(matches!(serve(2), Seen::Keys { .. }));
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_damaged_key_file_is_told_to_the_operator_once_in_a_while_and_to_nobody_else() {
    let state = state("damaged");
    let (mut desk, said) = open(&state, Mode::Ip, 100);
    let (_, pass) = seen(desk.serve(ip(1), look(""), UnixSeconds(NOON)));
    durable::replace(&state.join("keys.jsonl"), b"no keys\n").unwrap();
    for wish in [look(""), issue(&pass), revoke(&pass, NOBODYS_ID), look("")] {
        let asked = seen(desk.serve(ip(1), wish, UnixSeconds(NOON + 1))).0;
        assert_eq!(asked, Seen::Refused(Refused::Failed));
    }
    let _ = desk.serve(ip(1), look(""), UnixSeconds(NOON + 61));
    let lines: Vec<String> = said.try_iter().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("keys.jsonl:1: "), "{lines:?}");
    fs::remove_file(state.join("keys.jsonl")).unwrap();
    let asked = seen(desk.serve(ip(1), issue(&pass), UnixSeconds(NOON + 62))).0;
    assert!(matches!(
        asked,
        Seen::Keys {
            is_issued: true,
            ..
        }
    ));
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_desk_can_be_given_to_a_thread() {
    fn given<T: Send + 'static>() {}
    given::<Desk>();
}

#[test]
fn texts_that_links_cannot_begin_with_are_refused() {
    let state = state("base");
    let (mode, prefix) = (mailer("true"), KeyPrefix::default());
    let opened = Desk::open(
        &state,
        mode,
        prefix,
        "x",
        Terms::default(),
        Box::new(|_| ()),
    );
    assert!(matches!(opened, Err(SignupError::BaseUrl(_))));
}

#[test]
fn where_addresses_are_the_clients_nothing_is_mailed_and_no_other_pass_is_good() {
    let state = state("modes");
    let (mut by_ip, _said) = open(&state, Mode::Ip, 100);
    let (mut by_email, _other_said) = open(&state, mailer("true"), 100);
    let now = UnixSeconds(NOON);
    let (_, pass) = seen(by_ip.serve(ip(1), look(""), now));
    let (_, form) = seen(by_email.serve(ip(1), look(""), now));
    let invalid = Seen::Refused(Refused::Invalid);
    for pass in [&pass, &form] {
        let wish = mail("ann@x.test", pass);
        assert_eq!(seen(by_ip.serve(ip(1), wish, now)).0, invalid);
    }
    // Both have one secret, as before and after the setting is changed.
    assert_eq!(seen(by_email.serve(ip(1), look(&pass), now)).0, invalid);
    assert_eq!(seen(by_ip.serve(ip(2), issue(&pass), now)).0, invalid);
    assert_eq!(seen(by_ip.serve(ip(1), issue(&form), now)).0, invalid);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_network_of_many_clients_does_not_use_up_the_day() {
    let state = state("network");
    let (mut desk, _said) = open(&state, Mode::Ip, 1000);
    let mut one = |address: String| {
        let client = address.parse().unwrap();
        let (_, pass) = seen(desk.serve(client, look(""), UnixSeconds(NOON)));
        seen(desk.serve(client, issue(&pass), UnixSeconds(NOON))).0
    };
    for part in 0..60 {
        assert!(matches!(
            one(format!("2001:db8:0:{part}::1")),
            Seen::Keys { .. }
        ));
    }
    let retry_after_seconds = 600;
    let fast = Refused::TooFast {
        retry_after_seconds,
    };
    assert_eq!(one("2001:db8:0:99::1".into()), Seen::Refused(fast));
    for other in ["2001:db8:1::1", "192.0.2.1"] {
        assert!(matches!(one(other.into()), Seen::Keys { .. }));
    }
    fs::remove_dir_all(state).unwrap();
}
