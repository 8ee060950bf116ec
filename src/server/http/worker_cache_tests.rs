//! The worker's cache: its keys, its bounds, what it admits and what it evicts.

use super::*;
use crate::server::conn::send_buffer::{pooled_buffers, take_buffer};

fn found(text: String, is_costly: bool) -> Encoded {
    Encoded {
        content: Content::Whole(text.into()),
        etag: EntityTag::new(UnixSeconds(0), 0, false),
        gzip: false,
        links: None,
        next_due: None,
        is_costly,
    }
}

/// Requests a path; `text` is the response elsewhere. Returns whether the cache had it, and
/// the text.
fn request(
    cache: &mut WorkerCache,
    (path, gzip): (&str, bool),
    text: &str,
    is_costly: bool,
) -> (bool, Bytes) {
    let form = (path, Some("limit=2"), gzip);
    let Some((entry, is_known)) = cache.get(form, |_| false) else {
        let found = found(text.to_owned(), is_costly);
        cache.put(form, Endpoint::Creator, (&found, None));
        return (false, text.to_owned().into());
    };
    assert_eq!((entry.endpoint, is_known), (Endpoint::Creator, false));
    (true, body(entry.response(false, UnixSeconds(0))))
}

/// The body of a 200.
fn body(response: ApiResponse) -> Bytes {
    assert_eq!(response.status, StatusCode::OK);
    put_buffer(response.lines);
    let ResponseBody::Whole(body) = response.body else {
        panic!("no body");
    };
    body
}

/// Checks the sums of bytes and their bounds.
fn check(cache: &WorkerCache) {
    let bytes_of = |queue: &Queue| {
        let entries = queue.hashes.iter().map(|hash| cache.entries[hash].bytes);
        assert_eq!(queue.bytes, entries.sum::<usize>());
        queue.hashes.len()
    };
    let queued = bytes_of(&cache.probation) + bytes_of(&cache.protected);
    assert_eq!(queued, cache.entries.len());
    assert!(cache.probation.bytes + cache.protected.bytes <= cache.bytes_max);
    // Were there more, new entries would evict protected ones.
    assert!(cache.protected.bytes <= cache.bytes_max - cache.bytes_max / PROBATION_SHARE);
}

#[test]
fn a_cached_response_is_of_the_target_and_the_form_requested() {
    arbtest::arbtest(|u| {
        let bytes_max = u.int_in_range(0..=200_000)?;
        let mut cache = WorkerCache::new(bytes_max);
        for _ in 0..u.int_in_range(0..=1000)? {
            let path = format!("/v1/creators/{}", u.int_in_range(0..=300)?);
            let gzip = u.arbitrary()?;
            let text = format!("{path} {gzip}").repeat(u.int_in_range(1..=50)?);
            let is_whole = u.ratio(9, 10)?;
            let form = (path.as_str(), None, gzip);
            match cache.get(form, |_| !is_whole) {
                Some((entry, true)) => assert!(!is_whole && entry.form() == form),
                Some((entry, false)) => {
                    let body = body(entry.response(false, UnixSeconds(0)));
                    assert!(body.starts_with(format!("{path} {gzip}").as_bytes()));
                }
                None => {
                    let mut found = found(text, u.arbitrary()?);
                    if !is_whole {
                        found.content = Content::Omitted(None);
                    }
                    cache.put(form, Endpoint::Creator, (&found, None));
                }
            }
            check(&cache);
        }
        Ok(())
    })
    .budget_ms(2_000);
}

#[test]
fn targets_that_differ_in_their_query_are_different() {
    let mut cache = WorkerCache::new(100_000);
    let forms = [
        ("/v1", None, false),
        ("/v1", Some(""), false),
        ("/v", Some("1"), false),
    ];
    for form in forms {
        assert!(cache.get(form, |_| false).is_none(), "{form:?}");
        let text = found(format!("{form:?}"), true);
        cache.put(form, Endpoint::Index, (&text, None));
    }
    for form in forms {
        let (entry, is_known) = cache.get(form, |_| false).unwrap();
        let response = entry.response(is_known, UnixSeconds(0));
        assert_eq!(body(response), format!("{form:?}"));
    }
}

#[test]
fn a_costly_response_is_cached_at_once_and_a_cheap_one_on_its_second_request() {
    let mut cache = WorkerCache::new(100_000);
    for (path, is_costly, misses) in [("/v1/a", true, 1), ("/v1/b", false, 2)] {
        let hits: Vec<bool> = (0..10)
            .map(|_| request(&mut cache, (path, false), "x", is_costly).0)
            .collect();
        assert_eq!(hits.iter().filter(|hit| !**hit).count(), misses);
        assert!(hits[misses..].iter().all(|hit| *hit));
    }
}

#[test]
fn a_response_without_content_is_for_clients_that_know_it_until_another_asks() {
    let mut cache = WorkerCache::new(100_000);
    let form = ("/v1", None, false);
    let whole = found("x".to_owned(), true);
    let bare = Encoded {
        content: Content::Omitted(None),
        ..whole.clone()
    };
    let get = |cache: &mut WorkerCache, knows: bool| {
        let found = cache.get(form, |etag| knows && *etag == whole.etag);
        found.map(|(entry, is_known)| entry.response(is_known, UnixSeconds(0)).status.as_u16())
    };
    for _ in 0..2 {
        assert_eq!(get(&mut cache, true), None);
        cache.put(form, Endpoint::Index, (&bare, None));
    }
    assert_eq!(get(&mut cache, true), Some(304));
    assert_eq!(get(&mut cache, false), None);
    cache.put(form, Endpoint::Index, (&whole, None));
    assert_eq!(
        (get(&mut cache, false), get(&mut cache, true)),
        (Some(200), Some(304))
    );
    check(&cache);
}

#[test]
fn long_targets_and_long_bodies_are_not_cached() {
    let bytes_max = 1 << 20;
    let mut cache = WorkerCache::new(bytes_max);
    let long_path = "x".repeat(TARGET_BYTES_MAX + 1);
    let long_body = "x".repeat(bytes_max / PROBATION_SHARE);
    for (path, body) in [(long_path.as_str(), "x"), ("/v1", long_body.as_str())] {
        for _ in 0..3 {
            assert!(!request(&mut cache, (path, false), body, true).0);
        }
    }
}

#[test]
fn an_empty_cache_takes_little_memory() {
    for bytes_max in [0, 1, 1 << 40, usize::MAX] {
        let mut cache = WorkerCache::new(bytes_max);
        assert_eq!(cache.recent.capacity(), 0);
        cache.is_requested_again(1);
        assert!((1..=TARGETS_MAX).contains(&cache.recent.len()));
    }
}

/// Requests a response of 1,000 bytes that is cached at once.
fn request_1000(cache: &mut WorkerCache, key: u32) -> bool {
    let path = format!("/v1/creators/{key:06}");
    request(cache, (&path, false), &"x".repeat(1_000), true).0
}

#[test]
fn a_sweep_evicts_nothing_that_is_in_use() {
    const IN_USE: u32 = 500;
    for between in [1, 10] {
        let mut cache = WorkerCache::new(1_000 * 2_000);
        for _ in 0..2 {
            for key in 0..IN_USE {
                request_1000(&mut cache, key);
            }
        }
        let mut others = IN_USE..;
        for round in 0..10_000 {
            for key in others.by_ref().take(between) {
                request_1000(&mut cache, key);
            }
            assert!(request_1000(&mut cache, round % IN_USE), "round {round}");
        }
    }
}

#[test]
fn a_response_that_is_not_used_takes_no_buffer() {
    let mut cache = WorkerCache::new(100_000);
    put_buffer(take_buffer());
    for _ in 0..3 {
        request(&mut cache, ("/v1", false), "x", false);
        assert_eq!(pooled_buffers(), 1);
    }
    let form = ("/v1", Some("limit=2"), false);
    for knows in [false, true] {
        assert!(cache.get(form, |_| knows).is_some());
        assert_eq!(pooled_buffers(), 1);
    }
}

#[test]
fn the_time_until_new_content_is_that_of_each_request() {
    let mut cache = WorkerCache::new(100_000);
    let form = ("/v1/live", None, false);
    let due = Encoded {
        next_due: Some(UnixSeconds(1_000_600)),
        ..found("x".to_owned(), true)
    };
    for knows in [false, true] {
        if cache.get(form, |_| knows).is_none() {
            cache.put(form, Endpoint::Live, (&due, None));
        }
        for (now, seconds) in [
            (i64::MIN, 600),
            (999_000, 600),
            (1_000_000, 600),
            (1_000_001, 599),
            (1_000_539, 61),
            (1_000_541, 60),
            (1_000_600, 60),
            (i64::MAX, 60),
        ] {
            let (entry, is_known) = cache.get(form, |_| knows).unwrap();
            let cached = entry.response(is_known, UnixSeconds(now));
            let first = ApiResponse::published(is_known, due.clone(), UnixSeconds(now));
            assert_eq!((is_known, &cached.lines), (knows, &first.lines), "{now}");
            let lines = String::from_utf8(cached.lines).unwrap();
            let want = format!("cache-control: private, max-age={seconds}\r\n");
            assert_eq!(lines.matches("cache-control: ").count(), 1, "{lines}");
            assert!(lines.contains(&want), "{now}: {lines}");
        }
    }
}
