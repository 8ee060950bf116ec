//! Sign-up: rate limits, timeouts, and isolation of clients.

use crate::dumps::failed_with;
use crate::prelude::*;
use crate::sign_up::{by_ip, make, pass, post, shown};

fn page_of(client: &mut Client, address: &str) -> Reply {
    client.request("GET", "/keys", &[("X-Forwarded-For", address)])
}

/// Requests a key as one of a proxy's clients.
fn make_for(client: &mut Client, address: &str) -> Reply {
    let page = page_of(client, address);
    let fields = format!("do=issue&pass={}", pass(&page));
    post(client, &fields, &format!("X-Forwarded-For: {address}\r\n"))
}

#[test]
fn a_day_has_the_configured_number_of_keys_for_all_clients_of_a_proxy() {
    let more = ["--signup-daily", "2", "--trusted-proxy", "127.0.0.1"];
    let (_dir, server) = by_ip(&more);
    let mut client = server.connect();
    for address in ["192.0.2.1", "2001:db8::1"] {
        let made = make_for(&mut client, address);
        assert!(shown(&made).is_some());
        assert!(
            page_of(&mut client, address)
                .text()
                .contains("value=revoke")
        );
    }
    let third = make_for(&mut client, "192.0.2.3");
    assert_eq!((third.status, shown(&third)), (429, None));
    let until_midnight = third.number("retry-after");
    let reset = third.number("x-ratelimit-reset");
    assert!(until_midnight.abs_diff(reset) <= 2);
    // A client does not see another's key.
    assert!(
        !page_of(&mut client, "192.0.2.3")
            .text()
            .contains("value=revoke")
    );
}

#[test]
fn a_client_that_opens_pages_too_fast_gets_retry_after() {
    let (_dir, server) = by_ip(&[]);
    let mut client = server.connect();
    let page = [("Accept", "text/html")];
    let mut last = client.request("GET", "/keys", &page);
    for _ in 0..200 {
        if last.status != 200 {
            break;
        }
        last = client.request("GET", "/keys", &page);
    }
    assert_eq!(last.status, 429);
    failed_with(&client.get("/keys"), 429, "rate_limited");
    let wait = last.number("retry-after");
    assert!((1..=2).contains(&wait), "{wait}");
    assert_eq!(last.expect("content-type"), "text/html; charset=utf-8");
    assert_eq!(client.get("/v1/islands?limit=1").status, 200);
}

#[test]
fn slow_forms_still_count_towards_the_rate_limit() {
    const HELD: usize = 12;
    let (_dir, server) = by_ip(&[]);
    let held: Vec<TcpStream> = (0..HELD)
        .map(|_| {
            let mut stream = socket(server.addr());
            let head = b"POST /keys HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n";
            stream.write_all(head).unwrap();
            stream
        })
        .collect();
    // The heads arrived 6 seconds ago, which permits six more requests.
    thread::sleep(Duration::from_secs(6));
    let mut client = server.connect();
    let page = "/islands/2708-3623-7025";
    let begun = Instant::now();
    let drawn = (0..140).filter(|_| client.get(page).status == 200).count();
    // One more every second, which a loaded machine may take for them.
    let due = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!((120..=120 + due).contains(&drawn), "{drawn}");
    let begun = Instant::now();
    let mut more = 0;
    for mut stream in held {
        stream.write_all(b"do=look").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        more += usize::from(client.get(page).status == 200);
    }
    let due = begun.elapsed().as_secs() + 1;
    assert!(more as u64 <= due, "{more} where {due} were due");
}

#[test]
fn a_lock_that_is_never_unlocked_delays_forms_for_a_limited_time() {
    let (dir, server) = by_ip(&[]);
    let mut client = server.connect();
    let page = client.get("/keys");
    let lock = File::options().write(true).open(dir.join("state/.lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let begun = Stopwatch::start();
    let refused = thread::scope(|scope| {
        let asks = scope.spawn(|| make(&mut server.connect(), &page));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(client.get("/keys").status, 200);
        asks.join().unwrap()
    });
    assert!(begun.running() < Duration::from_secs(15));
    assert_eq!((refused.status, shown(&refused)), (503, None));
    assert!(refused.header("retry-after").is_some());
    server.await_line("another process holds the lock");
    drop(lock);
    assert!(shown(&make(&mut client, &page)).is_some());
}

#[test]
fn a_request_that_waited_too_long_gets_no_key() {
    let (dir, server) = by_ip(&["--trusted-proxy", "127.0.0.1"]);
    let state = dir.join("state");
    let mut client = server.connect();
    let pages: Vec<(String, String)> = (1..=6)
        .map(|last| {
            let address = format!("192.0.2.{last}");
            let page = page_of(&mut client, &address);
            (address, pass(&page))
        })
        .collect();
    let lock = File::options().write(true).open(state.join(".lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    // Each takes two seconds, one after the other: the last exceed the longest wait.
    let begun = Stopwatch::start();
    let replies: Vec<Reply> = thread::scope(|scope| {
        let asks: Vec<_> = pages
            .iter()
            .map(|(address, pass)| {
                let fields = format!("do=issue&pass={pass}");
                let header = format!("X-Forwarded-For: {address}\r\n");
                let server = &server;
                scope.spawn(move || post(&mut server.connect(), &fields, &header))
            })
            .collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    let took = begun.running();
    assert!(replies.iter().all(|reply| reply.status == 503));
    assert!(took < Duration::from_secs(11), "{took:?}");
    drop(lock);
    let key = issue(&state, "192.0.2.9", "free");
    change_key("revoke", &state, &key);
    for (address, _) in &pages {
        let page = page_of(&mut client, address);
        assert!(!page.text().contains("value=revoke"), "{address} has a key");
    }
}
