//! The worker's cache: its keys, its bounds, and what it evicts.

use super::*;
use crate::calendar::UnixSeconds;
use crate::server::conn::send_buffer::{pooled_buffers, take_buffer};

fn found(text: String) -> Encoded {
    Encoded {
        content: Content::Whole(text.into()),
        etag: EntityTag::new(UnixSeconds(0), 0, false),
        gzip: false,
        links: None,
        next_due: None,
    }
}

/// Requests a path; `text` is the response elsewhere. Returns whether the cache had it, and
/// the text.
fn request(cache: &mut WorkerCache, (path, gzip): (&str, bool), text: &str) -> (bool, Bytes) {
    let form = (path, Some("limit=2"), gzip);
    let Some((entry, is_known)) = cache.get(form, |_| false) else {
        let found = found(text.to_owned());
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

#[test]
fn a_cached_response_is_of_the_target_and_the_form_requested() {
    arbtest::arbtest(|u| {
        let bytes_max = u.int_in_range(0..=SLOTS * (ENTRY_BYTES + 60))?;
        let mut cache = WorkerCache::new(bytes_max);
        for _ in 0..u.int_in_range(0..=2000)? {
            let path = format!("/v1/creators/{}", u.int_in_range(0..=600)?);
            let gzip = u.arbitrary()?;
            let text = format!("{path} {gzip}");
            let (_, body) = request(&mut cache, (&path, gzip), &text);
            assert_eq!(body, text);
            let entries = cache.slots.iter().filter_map(|slot| slot.entry.as_ref());
            assert_eq!(cache.bytes, entries.map(|entry| entry.bytes).sum::<usize>());
            assert!(cache.bytes <= bytes_max);
        }
        Ok(())
    });
}

#[test]
fn targets_that_differ_in_their_query_are_different() {
    let mut cache = WorkerCache::new(10_000);
    let forms = [
        ("/v1", None, false),
        ("/v1", Some(""), false),
        ("/v", Some("1"), false),
    ];
    for form in forms {
        for _ in 0..2 {
            assert!(cache.get(form, |_| false).is_none(), "{form:?}");
            let text = found(format!("{form:?}"));
            cache.put(form, Endpoint::Index, (&text, None));
        }
    }
    let mut hits = 0;
    for form in forms {
        // Two of them may have one slot.
        let Some((entry, is_known)) = cache.get(form, |_| false) else {
            continue;
        };
        assert_eq!(
            body(entry.response(is_known, UnixSeconds(0))),
            format!("{form:?}")
        );
        hits += 1;
    }
    assert!(hits > 0);
}

#[test]
fn a_target_that_is_requested_again_and_again_is_looked_up_twice() {
    let mut cache = WorkerCache::new(10_000);
    let hits: Vec<bool> = (0..100)
        .map(|_| request(&mut cache, ("/v1", false), "x").0)
        .collect();
    assert_eq!(hits[..2], [false, false]);
    assert!(hits[2..].iter().all(|hit| *hit));
}

#[test]
fn a_response_without_content_is_for_clients_that_know_it_until_another_asks() {
    let mut cache = WorkerCache::new(10_000);
    let form = ("/v1", None, false);
    let whole = found("x".to_owned());
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
}

#[test]
fn long_targets_and_long_bodies_are_not_cached() {
    let mut cache = WorkerCache::new(usize::MAX);
    let long_path = "x".repeat(TARGET_BYTES_MAX + 1);
    let long_body = "x".repeat(BODY_BYTES_MAX + 1);
    for (path, body) in [(long_path.as_str(), "x"), ("/v1", long_body.as_str())] {
        for _ in 0..3 {
            assert!(!request(&mut cache, (path, false), body).0);
        }
    }
}

#[test]
fn a_sweep_does_not_evict_what_is_in_use() {
    for bytes_max in [usize::MAX, 20 * (ENTRY_BYTES + 10)] {
        let mut cache = WorkerCache::new(bytes_max);
        let mut misses = 0;
        for round in 0..20_000 {
            let hit = request(&mut cache, ("/v1", false), "x").0;
            misses += usize::from(!hit);
            let path = format!("/v1/creators/{round}");
            for _ in 0..2 {
                request(&mut cache, (&path, false), "y");
            }
        }
        // Only a path with the same slot takes it, one in 256, for two requests.
        assert!(misses < 600, "{misses}");
    }
}

#[test]
fn a_response_that_is_not_used_takes_no_buffer() {
    let mut cache = WorkerCache::new(10_000);
    put_buffer(take_buffer());
    for _ in 0..3 {
        request(&mut cache, ("/v1", false), "x");
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
    let mut cache = WorkerCache::new(10_000);
    let form = ("/v1/live", None, false);
    let due = Encoded {
        next_due: Some(UnixSeconds(1_000_600)),
        ..found("x".to_owned())
    };
    for knows in [false, true] {
        for _ in 0..2 {
            if cache.get(form, |_| knows).is_none() {
                cache.put(form, Endpoint::Live, (&due, None));
            }
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
