//! Mailed links and their limits.

use std::time::{Duration, Instant};

use super::*;

/// A service whose mails end up in files.
fn mailing(state: &Path, daily_max: u32) -> SignupService {
    durable::create_private_directory(state).unwrap();
    let script = format!(
        "cat > {0}/$$.tmp && mv {0}/$$.tmp {0}/$$.mail\n",
        state.display()
    );
    durable::replace(&state.join("sendmail"), script.as_bytes()).unwrap();
    let command = format!("sh {}", state.join("sendmail").display());
    open(state, Some(&command), daily_max).0
}

/// Waits for that many mails and returns their tokens.
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
                let token = lines.find_map(|line| line.strip_prefix("https://x.test/keys?pass="));
                token.unwrap().to_owned()
            };
            return mails.iter().map(link).collect();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{mails:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_mailed_link_is_valid_for_an_hour_and_issues_a_key() {
    let state = state("link");
    let mut service = mailing(&state, 100);
    let mut handle =
        |last, request, at| seen(service.handle(ip(last), request, UnixSeconds(NOON + at)));
    let (got, form) = handle(1, show(""), 0);
    assert_eq!(got, Seen::EmailForm);
    let invalid = Seen::Rejected(SignupError::InvalidToken);
    // Another's form, and a form where a link is wanted.
    assert_eq!(handle(2, mail("ann@x.test", &form), 0).0, invalid);
    assert_eq!(handle(1, show(&form), 0).0, invalid);
    assert_eq!(handle(1, issue(&form), 0).0, invalid);
    let no_email = Seen::Rejected(SignupError::InvalidEmail);
    assert_eq!(handle(1, mail("ann@x.test,b@x.test", &form), 0).0, no_email);
    assert_eq!(handle(1, mail(" Ann@X.test", &form), 0).0, Seen::LinkMailed);
    let link = mailed(&state, 1).remove(0);
    // A link where a form is wanted.
    assert_eq!(handle(1, mail("ann@x.test", &link), 0).0, invalid);
    // From wherever the mail is read, and looked at as often as scanners like.
    for _ in 0..3 {
        let (got, _) = handle(2, show(&link), 10);
        assert!(matches!(got, Seen::Keys { keys, .. } if keys.is_empty()));
    }
    let (got, next) = handle(2, issue(&link), 20);
    assert!(matches!(got, Seen::Keys { is_issued: true, address, .. } if address == "ann@x.test"));
    assert_eq!(
        handle(2, issue(&link), 30).0,
        Seen::Rejected(SignupError::UsedToken)
    );
    assert!(matches!(handle(2, show(&link), 40).0, Seen::Keys { .. }));
    let (_, last) = handle(2, show(&next), 3599);
    for token in [&link, &next, &last] {
        let expired = Seen::Rejected(SignupError::ExpiredToken);
        assert_eq!(handle(2, show(token), 3600).0, expired);
    }
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn mails_to_a_mailbox_are_limited_and_the_response_does_not_reveal_it() {
    let state = state("flood");
    let mut service = mailing(&state, 100);
    let mut handle = |last, request| seen(service.handle(ip(last), request, UnixSeconds(NOON)));
    for last in 1..4 {
        let (_, form) = handle(last, show(""));
        for spelling in ["ann@x.test", "a.nn+1@x.test", "ann+2@x.test", "ANN@x.test."] {
            assert_eq!(handle(last, mail(spelling, &form)).0, Seen::LinkMailed);
        }
    }
    let (_, form) = handle(4, show(""));
    for number in 0..10 {
        let got = handle(4, mail(&format!("b{number}@x.test"), &form)).0;
        assert_eq!(got, Seen::LinkMailed);
    }
    let retry_after_seconds = 360;
    let many = SignupError::TooManyMails(retry_after_seconds);
    assert_eq!(handle(4, mail("c@x.test", &form)).0, Seen::Rejected(many));
    assert_eq!(mailed(&state, 13).len(), 13);
    drop(service);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_day_has_three_mails_per_key() {
    let state = state("mails");
    let mut service = mailing(&state, 2);
    let mut now = NOON;
    let mut count = 0;
    let mut one = |service: &mut SignupService, now| {
        count += 1;
        let (_, form) = seen(service.handle(ip(count), show(""), UnixSeconds(now)));
        let request = mail(&format!("a{count}@x.test"), &form);
        seen(service.handle(ip(count), request, UnixSeconds(now))).0
    };
    for _ in 0..6 {
        assert_eq!(one(&mut service, now), Seen::LinkMailed);
    }
    let retry_after_seconds = 43_200;
    let full = Seen::Rejected(SignupError::DailyLimit(retry_after_seconds));
    assert_eq!(one(&mut service, now), full);
    now += 43_200;
    assert_eq!(one(&mut service, now), Seen::LinkMailed);
    assert_eq!(mailed(&state, 7).len(), 7);
    drop(service);
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_full_mail_queue_rejects_requests_for_every_address() {
    let state = state("waiting");
    durable::create_private_directory(&state).unwrap();
    let script = format!(
        ": > {0}/started; while test -d {0} && test ! -e {0}/go; do sleep 0.02; done; exec cat > /dev/null\n",
        state.display()
    );
    durable::replace(&state.join("sendmail"), script.as_bytes()).unwrap();
    let command = format!("sh {}", state.join("sendmail").display());
    let (mut service, log) = open(&state, Some(&command), 100);
    let mut ask = |last: u8, to: &str| {
        let (_, form) = seen(service.handle(ip(last), show(""), UnixSeconds(NOON)));
        seen(service.handle(ip(last), mail(to, &form), UnixSeconds(NOON))).0
    };
    // The mail that is being sent, and the queue.
    for count in 0..65 {
        let got = ask(count / 8, &format!("a{count}@x.test"));
        assert_eq!(got, Seen::LinkMailed, "{count}");
        while !state.join("started").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let busy = Seen::Rejected(SignupError::MailQueueFull);
    // However often: nothing is used up by it.
    for _ in 0..12 {
        assert_eq!(ask(9, "b@x.test"), busy);
    }
    // A mailbox that is spared more is answered alike.
    for last in 10..14 {
        assert_eq!(ask(last, "a0@x.test"), busy);
    }
    drop(service);
    let lines = log.read();
    assert_eq!(
        lines,
        ["sign-up failed: the queue of the mail command is full"]
    );
    durable::replace(&state.join("go"), b"").unwrap();
    fs::remove_dir_all(state).unwrap();
}
