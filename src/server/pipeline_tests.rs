//! Requests through the whole pipeline: the order of checks, what spends quota, and what the quota shows.

use std::sync::Arc;

use super::*;
use crate::quota::KeyedQuota;
use crate::server::conn::context::ResponseBody;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::snapshot::Encoded;
use scene::{HOST, Lines, Scene, nothing_published, with_a_long_body};

#[path = "pipeline_scene_tests.rs"]
mod scene;

fn lines(handled: &Handled) -> &str {
    std::str::from_utf8(&handled.response.lines).unwrap()
}

fn body(handled: &Handled) -> &str {
    let ResponseBody::Whole(body) = &handled.response.body else {
        panic!("no body");
    };
    std::str::from_utf8(body).unwrap()
}

#[test]
fn each_request_has_the_status_of_the_first_check_that_fails_and_its_price() {
    let mut scene = Scene::with_sample("price", 1000);
    let revoked = format!("/v1?key={}", scene.revoked);
    let chunked = [HOST, ("transfer-encoding", "chunked")];
    let known = [HOST, ("if-none-match", "*")];
    let (get, head, post) = (Method::GET, Method::HEAD, Method::POST);
    let cases: [(&Method, &str, Lines<'_>, u16, u32); 25] = [
        (&get, "/v1", &[HOST], 200, 1),
        (&head, "/v1", &[HOST], 200, 1),
        (&get, "/v1", &known, 304, 1),
        (&head, "/v1", &known, 304, 1),
        (&get, "/v1/islands?limit=1", &[HOST], 200, 1),
        (&get, "/v1/islands?limit=x", &[HOST], 400, 1),
        (&get, "/v1/islands/0000-0000-0000", &[HOST], 404, 1),
        (&get, "/v1/nothing", &[HOST], 404, 1),
        (&get, "/v1/health", &[HOST], 200, 0),
        (&get, "/v1/health", &known, 304, 0),
        (&head, "/v1/health", &[HOST], 200, 0),
        (&get, "/openapi.json", &[HOST], 200, 0),
        (&get, "/nothing", &[HOST], 404, 0),
        (&get, "/v1?key=im_live_x_y", &[HOST], 401, 0),
        (&get, "/v1/nothing?key=im_live_x_y", &[HOST], 401, 0),
        (&get, &revoked, &[HOST], 403, 0),
        (&Method::OPTIONS, "/v1", &[HOST], 204, 0),
        (&Method::OPTIONS, "/v1/nothing?key=x", &[HOST], 204, 0),
        (&post, "/v1", &[HOST], 405, 0),
        (&post, "/v1?key=x", &chunked, 405, 0),
        (&post, "/keys", &[HOST], 405, 0),
        (&get, "/v1", &chunked, 400, 0),
        (&get, "/openapi.json", &chunked, 400, 0),
        (&get, "/v1", &[], 400, 0),
        (&post, "/v1", &[HOST, HOST], 400, 0),
    ];
    // The second and the third time, the worker's cache has some of the responses.
    for (method, target, sent, status, price) in cases.iter().cycle().take(3 * cases.len()) {
        let before = scene.left();
        let handled = scene.send(method, target, sent);
        let case = format!("{method} {target} {sent:?}");
        assert_eq!(handled.response.status, *status, "{case}");
        assert_eq!(before - scene.left(), *price, "{case}");
        let quota = (handled.quota.limit, handled.quota.remaining);
        assert_eq!(quota, (1000, scene.left()), "{case}");
        assert_eq!(handled.is_head, **method == Method::HEAD, "{case}");
    }
}

#[test]
fn a_spent_quota_refuses_all_requests_but_those_that_spend_nothing() {
    let mut scene = Scene::with_sample("spent", 5);
    for left in [4, 3, 2, 1, 0] {
        let handled = scene.get("/v1?colour=red");
        assert_eq!(
            (handled.response.status.as_u16(), handled.quota.remaining),
            (200, left)
        );
    }
    for (target, want) in [
        ("/v1?colour=red", 429),
        ("/v1/live", 429),
        ("/v1/nothing", 429),
        ("/v1/islands?limit=x", 429),
        ("/v1?key=x", 401),
        ("/v1/health", 200),
        ("/openapi.json", 200),
    ] {
        let handled = scene.get(target);
        assert_eq!(handled.response.status, want, "{target}");
        assert_eq!(handled.quota.remaining, 0, "{target}");
    }
    // The key has a quota of its own.
    let bearer = format!("Bearer {}", scene.key);
    let handled = scene.send(&Method::GET, "/v1", &[HOST, ("authorization", &bearer)]);
    assert_eq!(
        (handled.response.status.as_u16(), handled.quota.remaining),
        (200, 4)
    );
}

#[test]
fn what_is_not_published_spends_nothing_and_comes_after_the_quota() {
    let mut scene = Scene::new("nothing", 2, nothing_published());
    for (target, want, left) in [
        ("/v1/islands", 503, 2),
        ("/v1/live", 503, 2),
        ("/v1/health", 200, 2),
        ("/v1/islands?limit=x", 400, 1),
        ("/v1/islands", 503, 1),
        ("/v1/nothing", 404, 0),
        ("/v1/islands", 429, 0),
        ("/v1/health", 200, 0),
    ] {
        let handled = scene.get(target);
        assert_eq!(handled.response.status, want, "{target}");
        assert_eq!(
            (handled.quota.remaining, scene.left()),
            (left, left),
            "{target}"
        );
    }
    // A key without a counter has no quota that could be spent.
    scene.services.gate.keyed = Arc::new(KeyedQuota::new(None));
    let bearer = format!("Bearer {}", scene.key);
    for (target, want) in [
        ("/v1/islands", 503),
        ("/v1/nothing", 503),
        ("/v1/health", 200),
    ] {
        let handled = scene.send(&Method::GET, target, &[HOST, ("authorization", &bearer)]);
        let shown = (handled.response.status.as_u16(), handled.quota.remaining);
        assert_eq!(shown, (want, 0), "{target}");
    }
}

#[test]
fn ignored_parameters_are_named_once_in_every_response() {
    let mut scene = Scene::with_sample("ignored", 4);
    let named = "x-ignored-parameters: colour\r\n";
    for status in [200, 200, 200, 200, 429, 429] {
        let handled = scene.get("/v1?colour=red");
        assert_eq!(handled.response.status, status);
        assert_eq!(lines(&handled).matches(named).count(), 1, "{status}");
    }
    for (method, sent, status) in [(Method::POST, &[HOST][..], 405), (Method::GET, &[], 400)] {
        // The cache has one of the targets, for GET.
        for target in ["/v1?colour=red", "/v1/live?colour=red"] {
            let handled = scene.send(&method, target, sent);
            assert_eq!(handled.response.status, status);
            assert_eq!(lines(&handled).matches(named).count(), 1, "{target}");
        }
    }
}

#[test]
fn a_repeated_target_is_answered_from_the_cache_whichever_key_is_sent() {
    let mut scene = Scene::with_sample("cached", 1000);
    let live = scene.snapshot.in_memory(Endpoint::Live).unwrap();
    let cached = Encoded {
        content: Content::Whole("cached".into()),
        is_costly: true,
        ..live.choose(false).clone()
    };
    let form = ("/v1/live", None, false);
    scene.cache.put(form, Endpoint::Live, (&cached, None));
    assert_eq!(body(&scene.get("/v1/live")), "cached");
    let with_key = format!("/v1/live?key={}", scene.key);
    let handled = scene.get(&with_key);
    assert_eq!(body(&handled), "cached");
    assert!(matches!(handled.caller, Some(Caller::Keyed(_))));
    assert_ne!(body(&scene.get("/v1/live?limit=1")), "cached");
    // The cache knows no keys, so it cannot admit one, nor does it see whether the encoding of one is broken.
    assert_eq!(scene.get("/v1/live?key=x").response.status, 401);
    let bearer = format!("Bearer {}", scene.key);
    let sent = [HOST, ("authorization", &bearer)];
    let handled = scene.send(&Method::GET, "/v1/live?key=%zz", &sent);
    assert_eq!(handled.response.status, 400);
}

#[test]
fn a_response_to_head_does_not_depend_on_what_the_cache_has() {
    let mut scene = Scene::with_sample("head", 1000);
    let sent = [HOST, ("accept-encoding", "gzip")];
    let target = "/v1/islands?limit=2";
    let head = |scene: &mut Scene| {
        let handled = scene.send(&Method::HEAD, target, &sent);
        (lines(&handled).to_owned(), handled.response.body.length())
    };
    let before = head(&mut scene);
    for _ in 0..3 {
        scene.send(&Method::GET, target, &sent);
    }
    assert_eq!(head(&mut scene), before);
}

#[test]
fn no_key_stays_in_the_cache() {
    let mut scene = Scene::with_sample("kept", 1000);
    let bearer = format!("Bearer {}", scene.key);
    let has = |scene: &mut Scene, query: Option<&str>| {
        let form = ("/v1/creators", query, false);
        scene.cache.get(form, |_| false).is_some()
    };
    for query in [
        format!("key={}", scene.key),
        format!("api_key={}", scene.key),
        format!("limit=2&token={}", scene.key),
    ] {
        for _ in 0..3 {
            let target = format!("/v1/creators?{query}");
            let handled = scene.send(&Method::GET, &target, &[HOST, ("authorization", &bearer)]);
            assert_eq!(handled.response.status, 200);
        }
        assert!(!has(&mut scene, Some(&query)), "{query}");
    }
    // The same with the key left out is kept.
    assert!(has(&mut scene, None));
}

#[test]
fn forms_are_taken_at_keys_alone_and_while_sign_up_is_open() {
    let allows = |handled: &Handled| {
        let line = lines(handled)
            .split("\r\n")
            .find(|line| line.starts_with("allow: "));
        line.map(str::to_owned)
    };
    let without = Some("allow: GET, HEAD, OPTIONS".to_owned());
    let with = Some("allow: GET, HEAD, OPTIONS, POST".to_owned());
    let mut closed = Scene::with_sample("closed", 9);
    for method in [Method::POST, Method::PUT, Method::OPTIONS] {
        assert_eq!(allows(&closed.send(&method, "/keys", &[HOST])), without);
        assert_eq!(allows(&closed.send(&method, "/v1", &[HOST])), without);
    }
    let mut open = Scene::with_sample("open", 9).with_sign_up();
    for method in [Method::PUT, Method::OPTIONS] {
        assert_eq!(allows(&open.send(&method, "/keys", &[HOST])), with);
        assert_eq!(allows(&open.send(&method, "/v1", &[HOST])), without);
    }
    let handled = open.send(&Method::POST, "/v1", &[HOST]);
    assert_eq!(
        (handled.response.status.as_u16(), allows(&handled)),
        (405, without)
    );
    let handled = open.send(&Method::POST, "/keys", &[HOST]);
    let pending = handled.response.pending_body.as_deref();
    assert!(matches!(pending, Some(PendingBody::SignUp(..))));
}

#[test]
fn a_refusal_names_the_page_of_keys_to_those_without_a_key_where_it_issues_some() {
    let refusal = |mut scene: Scene, sends_key: bool| {
        let bearer = format!("Bearer {}", scene.key);
        let sent = [HOST, ("authorization", bearer.as_str())];
        let sent = if sends_key { &sent[..] } else { &sent[..1] };
        let handled = scene.send(&Method::GET, "/v1/nothing", sent);
        assert_eq!(handled.response.status, 429);
        (
            body(&handled).contains("no key was sent"),
            body(&handled).contains("http://x.test/keys"),
        )
    };
    let scene = |name| Scene::new(name, 0, nothing_published());
    assert_eq!(refusal(scene("none"), false), (true, false));
    assert_eq!(refusal(scene("none"), true), (false, false));
    assert_eq!(refusal(scene("advice").with_sign_up(), false), (true, true));
    assert_eq!(
        refusal(scene("advice").with_sign_up(), true),
        (false, false)
    );
}

#[test]
fn a_long_body_needs_a_permit_and_only_a_request_that_gets_it_spends_quota() {
    let mut scene = Scene::new("long", 9, with_a_long_body("long"));
    scene.services.downloads = Arc::new(ConnectionLimiter::new(u32::MAX, 1));
    let long = "/v1/new/2026-11-20";
    let first = scene.get(long);
    assert_eq!(
        (first.response.status.as_u16(), first.quota.remaining),
        (200, 8)
    );
    let pending = first.response.pending_body.as_deref();
    assert!(matches!(pending, Some(PendingBody::Download(_))));
    // The permit is taken until the body is sent.
    for (target, sent, method, want, left) in [
        (long, &[HOST][..], Method::GET, 503, 8),
        (long, &[HOST], Method::HEAD, 200, 7),
        (long, &[HOST, ("if-none-match", "*")], Method::GET, 304, 6),
        ("/v1/new", &[HOST], Method::GET, 200, 5),
        (long, &[HOST], Method::GET, 503, 5),
    ] {
        let handled = scene.send(&method, target, sent);
        assert_eq!(handled.response.status, want, "{method} {target} {sent:?}");
        assert_eq!(handled.quota.remaining, left, "{method} {target} {sent:?}");
        assert!(handled.response.pending_body.is_none());
    }
    drop(first);
    assert_eq!(scene.get(long).response.status, 200);
}
