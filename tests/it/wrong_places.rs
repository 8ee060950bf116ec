//! Parameters that an endpoint does not declare, and keys where no key is read: both must show.

use crate::cli::table;
use crate::key_texts::Service;
use crate::prelude::*;

const IGNORED: &str = "x-ignored-parameters";
/// Enough for the second and later responses to come from a worker's cache.
const REPEATED: usize = 4;

/// Targets, the status of each, and the parameters that it ignores. Outside the API, other sites add some to links.
const SENT: &str = "
/v1/islands?limit=2 | 200
/v1/islands?limit=2&page=3 | 200 page
/v1/islands?tag[]=a&Limit=5&sort_by=plays | 200 tag%5B%5D, Limit, sort_by
/v1/islands?a=1&b&c&d&e&f&g&h&i&j | 200 a, b, c, d, e, f, g, h
/v1/islands?%0d%0aset-cookie:%20x=1 | 200 %0D%0Aset-cookie%3A%20x
/v1/creators?sort=plays&q=e | 200 sort
/v1?limit=1 | 200 limit
/v1/health?x=1&y=%zz | 200 x, y
/v1/rankings/latest?date=2024-01-01 | 200 date
/v1/islands?limit=0&page=1 | 400 page
/v1/live?x=%zz | 400 x
/v1/islands/9999-9999-9999?a=1 | 404 a
/v1/nothing?q=1 | 404 q
/docs?utm_source=x | 200
";

#[test]
fn ignored_parameters_are_named_in_every_response() {
    let (_dir, server) = World::with_more_than(5, 3, 20).serve();
    let mut client = server.connect();
    for (target, result) in table(SENT) {
        let (status, names) = result.split_once(' ').unwrap_or((result, ""));
        let names = Some(names).filter(|names| !names.is_empty());
        let first = client.get(target);
        assert_eq!(first.status.to_string(), status, "{target}");
        assert_eq!(first.header(IGNORED), names, "{target}");
        let etag = first.header("etag").unwrap_or("\"none\"").to_owned();
        for method in ["GET", "HEAD", "OPTIONS"] {
            for headers in [
                &[][..],
                &[("Accept-Encoding", "gzip")],
                &[("If-None-Match", &*etag)],
            ] {
                for _ in 0..REPEATED {
                    let reply = client.request(method, target, headers);
                    assert_eq!(
                        reply.header(IGNORED),
                        names,
                        "{method} {target} {headers:?}"
                    );
                }
            }
        }
        let exposed = first.expect("access-control-expose-headers").to_lowercase();
        assert!(exposed.contains(IGNORED), "{exposed}");
        // The same route without them is another response.
        if let Some((path, _)) = target.split_once('?') {
            assert_eq!(client.get(path).header(IGNORED), None, "{path}");
        }
    }
}

#[test]
fn a_key_in_the_wrong_place_is_an_error_that_says_where_it_goes() {
    let service = Service::start(&[]);
    let mut client = service.server.connect();
    let key = &service.active;
    let anonymous = client.get("/v1").left();
    let bearer = format!("Bearer {key}");
    let encoded = key.replace('_', "%5F");
    for name in words("api_key apikey KEY Key token access_token %74oken apiKey") {
        for value in [key, &encoded, "im_live_a", &format!("Bearer+{key}")] {
            let target = format!("/v1?{name}={value}");
            let reply = service.get(&mut client, &target, &[]);
            assert_eq!(reply.status, 401, "{target}");
            assert_eq!(reply.json()["error"]["code"], "invalid_key");
            has(&reply.message(), "Authorization: Bearer KEY");
            assert_eq!(reply.expect("www-authenticate"), "Bearer");
            assert_eq!(reply.expect("x-ratelimit-limit"), "100");
            assert_eq!(reply.left(), anonymous, "nothing is spent");
        }
    }
    // Also for a target that is in the worker's cache.
    for target in ["/v1/health", "/v1/live", "/v1/live", "/v1/live", "/v1/live"] {
        for line in [&**key, &bearer, "im_live_"] {
            let reply = service.get(&mut client, target, &[("X-API-Key", line)]);
            assert_eq!(reply.status, 401, "{target} {line}");
            assert!(reply.message().contains("X-API-Key"));
        }
        assert_eq!(client.get(target).status, 200);
    }
    // Text that is not like a key of this service does not identify the caller.
    for (target, headers) in [
        ("/v1?token=abc", &[][..]),
        ("/v1?api_key=sk_live_1", &[]),
        ("/v1?q=im_live_a", &[]),
        ("/v1", &[("X-API-Key", "abc")]),
        ("/v1", &[("X-API-Key", "")]),
    ] {
        let reply = client.request("GET", target, headers);
        assert_eq!(
            (reply.status, reply.expect("x-ratelimit-limit")),
            (200, "100"),
            "{target}"
        );
    }
}

#[test]
fn a_key_in_its_place_is_used_whatever_is_in_the_others() {
    let service = Service::start(&[]);
    let mut client = service.server.connect();
    let bearer = format!("Bearer {}", service.active);
    let target = format!("/v1/live?api_key={}", service.active);
    for _ in 0..REPEATED {
        let headers = [("Authorization", &*bearer), ("X-API-Key", &service.active)];
        let reply = service.get(&mut client, &target, &headers);
        assert_eq!(
            (reply.status, reply.expect("x-ratelimit-limit")),
            (200, "1000")
        );
        assert_eq!(reply.header(IGNORED), Some("api_key"));
    }
    // The target is not cached: a request without a key in its place is refused.
    assert_eq!(service.get(&mut client, &target, &[]).status, 401);
    let both = format!("/v1/live?token=im_live_x&key={}", service.active);
    assert_eq!(service.get(&mut client, &both, &[]).status, 200);
    // Nor is a key shown that is the name of a parameter, a value, or a path.
    for target in words(
        "/v1?KEY&x=1 /v1/islands?limit=KEY&x=1 /v1/KEY?x=1 /v1/creators/KEY?x=1 \
         /v1/islands?q=KEY&x=1 /v1/islands?x=1&offset=2&tag=KEY \
         /v1/islands?x=1&creator=KEY&limit=1 /v1/creators?x=1&q=KEY",
    ) {
        let target = target.replace("KEY", &service.active);
        let reply = service.get(&mut client, &target, &[("Authorization", &bearer)]);
        assert_eq!(reply.header(IGNORED), Some("x"), "{target}");
    }
}

#[test]
fn a_429_says_whether_a_key_was_sent() {
    let service = Service::start(&["--limit-free", "1", "--limit-anonymous", "1"]);
    let mut client = service.server.connect();
    let bearer = format!("Bearer {}", service.active);
    for (headers, sent) in [
        (&[][..], "no key"),
        (&[("Authorization", &*bearer)], "a key"),
    ] {
        let want = format!("the daily quota of 1 requests is spent ({sent} was sent); ");
        assert_eq!(service.get(&mut client, "/v1", headers).status, 200);
        let reply = service.get(&mut client, "/v1", headers);
        assert_eq!(reply.status, 429);
        assert!(reply.message().starts_with(&want), "{}", reply.message());
    }
}
