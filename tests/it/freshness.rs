//! `max-age` of responses, dates of files, and lengths of heads.

use island_metrics::calendar::UnixSeconds;

use crate::prelude::*;

const STEP_SECONDS: i64 = 600;

fn max_age(reply: &Reply) -> i64 {
    let value = reply.expect("cache-control");
    let seconds = value.strip_prefix("private, max-age=");
    seconds
        .unwrap_or_else(|| panic!("{value}"))
        .parse()
        .unwrap()
}

/// The bytes of a head after the status line.
fn head_bytes(reply: &Reply) -> usize {
    let lines = reply.headers.iter();
    lines
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum()
}

#[test]
fn live_data_may_be_reused_until_the_next_step_is_due() {
    let now = UnixSeconds::now().0;
    let newest = now / STEP_SECONDS * STEP_SECONDS;
    // Of the newest step and of the publish, and when the next step is due.
    for (step, published, due) in [
        (newest, now, newest + STEP_SECONDS),
        (newest - 4 * STEP_SECONDS, now - 100, now + 500),
        (newest - 4 * STEP_SECONDS, now - 3000, now),
        (newest + 6 * STEP_SECONDS, now, newest + 7 * STEP_SECONDS),
    ] {
        let dir = TempDir::new();
        let [dataset, published_to] = ["dataset", "published"].map(|name| dir.join(name));
        write_file(
            &dataset.join("islands.csv"),
            "code,title,creator,createdIn,tags\n0000-0000-0001,a,,,\n",
        );
        let live = "code,players\n0000-0000-0001,5\n";
        write_file(&dataset.join(format!("live/{step}.csv")), live);
        publish(&dataset, &published_to, &UnixSeconds(published).to_string());
        let server = Server::of(&published_to, &[]);
        let mut client = server.connect();
        for target in ["/v1/live", "/v1/live/intraday"] {
            let etag = client.get(target).expect("etag").to_owned();
            // The second and later responses come from a cache.
            for _ in 0..4 {
                for headers in [&[][..], &[("If-None-Match", &*etag)]] {
                    let before = UnixSeconds::now().0;
                    let reply = client.request("GET", target, headers);
                    assert_eq!(reply.status, if headers.is_empty() { 200 } else { 304 });
                    assert_eq!(reply.expect("vary"), "Accept-Encoding, Authorization");
                    let bounds = [UnixSeconds::now().0, before].map(|at| (due - at).clamp(60, 600));
                    let seconds = max_age(&reply);
                    assert!(
                        (bounds[0]..=bounds[1]).contains(&seconds),
                        "{target}: {seconds}, not {bounds:?}"
                    );
                }
            }
        }
        assert_eq!(max_age(&client.get("/v1/islands")), 60);
    }
}

#[test]
fn no_file_is_dated_later_than_its_response() {
    let (world, dir) = (World::random(1, 10), TempDir::new());
    let [dataset, published] = ["dataset", "published"].map(|name| dir.join(name));
    world.write(&dataset);
    let ahead = UnixSeconds(UnixSeconds::now().0 + 3600);
    publish(&dataset, &published, &ahead.to_string());
    let server = Server::of(&published, &[]);
    let mut client = server.connect();
    for target in ["/dumps/islands.csv", "/dumps/islands.csv.gz"] {
        let reply = client.get(target);
        let of = |name| UnixSeconds::parse_http(reply.expect(name)).unwrap();
        let (modified, date) = (of("last-modified"), of("date"));
        assert!(modified <= date, "{target}: {modified} after {date}");
        assert!(modified.0 > date.0 - 60, "{target}");
        // The rest of a file whose date has moved is not mixed with the first part.
        let headers = [
            ("Range", "bytes=1-"),
            ("If-Range", reply.expect("last-modified")),
        ];
        let part = client.request("GET", target, &headers);
        assert!(
            part.status == 200 || part.expect("last-modified") == reply.expect("last-modified")
        );
    }
}

#[test]
fn heads_stay_short_whatever_is_requested() {
    let (_dir, server) = World::random(1, 10).serve();
    let mut client = server.connect();
    let long = |bytes: usize| "%C3%A9".repeat(bytes / 6);
    for (parameters, has_link) in [
        (format!("q={}", long(60)), true),
        (format!("q={}", long(300)), true),
        (format!("q={}", long(900)), false),
        (format!("tag={}", long(7000)), false),
        (format!("creator={}&tag=a", "x".repeat(3000)), false),
    ] {
        for list in ["islands", "creators"] {
            if list == "creators" && !parameters.starts_with("q=") {
                continue;
            }
            let target = format!("/v1/{list}?{parameters}&offset=5");
            for method in ["GET", "HEAD", "GET", "GET"] {
                let reply = client.request(method, &target, &[]);
                assert_eq!(reply.status, 200, "{target}");
                assert_eq!(reply.header("link").is_some(), has_link, "{target}");
                let bytes = head_bytes(&reply);
                assert!(bytes < 4000, "{bytes} bytes for {target}");
            }
        }
    }
}
