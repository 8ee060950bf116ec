//! What is mailed, to whom and how often.

use std::time::{Duration, Instant};

use super::*;

/// A desk whose mails end up in files.
fn mailing(state: &Path, daily_max: u32) -> Desk {
    durable::create_private_directory(state).unwrap();
    let script = format!(
        "cat > {0}/$$.tmp && mv {0}/$$.tmp {0}/$$.mail\n",
        state.display()
    );
    durable::replace(&state.join("sendmail"), script.as_bytes()).unwrap();
    let command = format!("sh {}", state.join("sendmail").display());
    open(state, mailer(&command), daily_max).0
}

/// The passes of the mails, once there are so many.
fn mailed(state: &Path, count: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let names = fs::read_dir(state)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mails: Vec<PathBuf> = names
            .filter(|path| path.extension().is_some_and(|end| end == "mail"))
            .collect();
        if mails.len() >= count {
            let link = |path: &PathBuf| {
                let text = fs::read_to_string(path).unwrap();
                let mut lines = text.lines();
                let pass = lines.find_map(|line| line.strip_prefix("https://x.test/keys?pass="));
                pass.unwrap().to_owned()
            };
            return mails.iter().map(link).collect();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{mails:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_mailed_link_leads_to_a_key_and_holds_for_an_hour_whatever_is_done_with_it() {
    let state = state("link");
    let mut desk = mailing(&state, 100);
    let mut serve = |last, wish, at| seen(desk.serve(ip(last), wish, UnixSeconds(NOON + at)));
    let (asked, form) = serve(1, look(""), 0);
    assert_eq!(asked, Seen::Ask);
    let invalid = Seen::Refused(Refused::Invalid);
    // Another's form, and a form where a link is wanted.
    assert_eq!(serve(2, mail("ann@x.test", &form), 0).0, invalid);
    assert_eq!(serve(1, look(&form), 0).0, invalid);
    assert_eq!(serve(1, issue(&form), 0).0, invalid);
    let no_email = Seen::Refused(Refused::NoEmail);
    assert_eq!(serve(1, mail("ann@x.test,b@x.test", &form), 0).0, no_email);
    assert_eq!(serve(1, mail(" Ann@X.test", &form), 0).0, Seen::Mailed);
    let link = mailed(&state, 1).remove(0);
    // A link where a form is wanted.
    assert_eq!(serve(1, mail("ann@x.test", &link), 0).0, invalid);
    // From wherever the mail is read, and looked at as often as scanners like.
    for _ in 0..3 {
        let (asked, _) = serve(2, look(&link), 10);
        assert!(matches!(asked, Seen::Keys { keys, .. } if keys.is_empty()));
    }
    let (asked, next) = serve(2, issue(&link), 20);
    assert!(
        matches!(asked, Seen::Keys { is_issued: true, address, .. } if address == "ann@x.test")
    );
    assert_eq!(serve(2, issue(&link), 30).0, Seen::Refused(Refused::Used));
    assert!(matches!(serve(2, look(&link), 40).0, Seen::Keys { .. }));
    let (_, last) = serve(2, look(&next), 3599);
    for pass in [&link, &next, &last] {
        let expired = Seen::Refused(Refused::Expired);
        assert_eq!(serve(2, look(pass), 3600).0, expired);
    }
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn nobody_floods_a_mailbox_or_learns_from_the_answer_that_it_is_spared() {
    let state = state("flood");
    let mut desk = mailing(&state, 100);
    let mut serve = |last, wish| seen(desk.serve(ip(last), wish, UnixSeconds(NOON)));
    for last in 1..4 {
        let (_, form) = serve(last, look(""));
        for spelling in ["ann@x.test", "a.nn+1@x.test", "ann+2@x.test", "ANN@x.test."] {
            assert_eq!(serve(last, mail(spelling, &form)).0, Seen::Mailed);
        }
    }
    let (_, form) = serve(4, look(""));
    for number in 0..10 {
        let asked = serve(4, mail(&format!("b{number}@x.test"), &form)).0;
        assert_eq!(asked, Seen::Mailed);
    }
    let retry_after_seconds = 360;
    let many = Refused::TooManyMails {
        retry_after_seconds,
    };
    assert_eq!(serve(4, mail("c@x.test", &form)).0, Seen::Refused(many));
    assert_eq!(mailed(&state, 13).len(), 13);
    drop(desk);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_day_has_three_mails_for_each_of_its_keys() {
    let state = state("mails");
    let mut desk = mailing(&state, 2);
    let mut now = NOON;
    let mut count = 0;
    let mut one = |desk: &mut Desk, now| {
        count += 1;
        let (_, form) = seen(desk.serve(ip(count), look(""), UnixSeconds(now)));
        let wish = mail(&format!("a{count}@x.test"), &form);
        seen(desk.serve(ip(count), wish, UnixSeconds(now))).0
    };
    for _ in 0..6 {
        assert_eq!(one(&mut desk, now), Seen::Mailed);
    }
    let retry_after_seconds = 43_200;
    let full = Seen::Refused(Refused::DayFull {
        retry_after_seconds,
    });
    assert_eq!(one(&mut desk, now), full);
    now += 43_200;
    assert_eq!(one(&mut desk, now), Seen::Mailed);
    assert_eq!(mailed(&state, 7).len(), 7);
    drop(desk);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn who_asks_while_too_many_mails_wait_is_told_so_whatever_the_address() {
    let state = state("waiting");
    durable::create_private_directory(&state).unwrap();
    let script = format!(
        "while test -d {0} && test ! -e {0}/go; do sleep 0.02; done; exec cat > /dev/null\n",
        state.display()
    );
    durable::replace(&state.join("sendmail"), script.as_bytes()).unwrap();
    let command = format!("sh {}", state.join("sendmail").display());
    let (mut desk, said) = open(&state, mailer(&command), 100);
    let mut ask = |last: u8, to: &str| {
        let (_, form) = seen(desk.serve(ip(last), look(""), UnixSeconds(NOON)));
        seen(desk.serve(ip(last), mail(to, &form), UnixSeconds(NOON))).0
    };
    for count in 0..64 {
        let asked = ask(count / 8, &format!("a{count}@x.test"));
        assert_eq!(asked, Seen::Mailed, "{count}");
    }
    let busy = Seen::Refused(Refused::MailsWait);
    // However often: nothing is used up by it.
    for _ in 0..12 {
        assert_eq!(ask(9, "b@x.test"), busy);
    }
    // A mailbox that is spared more is answered alike.
    for last in 10..14 {
        assert_eq!(ask(last, "a0@x.test"), busy);
    }
    drop(desk);
    let said: Vec<String> = said.iter().collect();
    assert_eq!(
        said,
        ["sign-up failed: too many mails wait for the mailer's command"]
    );
    durable::replace(&state.join("go"), b"").unwrap();
    fs::remove_dir_all(state).unwrap();
}
