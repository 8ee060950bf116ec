//! The links of lists lead from one page to the next; the rows of a page are compared with the oracle in `responses`.

use crate::key_texts::forged;
use crate::oracle_query::READER;
use crate::prelude::*;

/// A world, served from its directory.
fn serve() -> (World, TempDir, Server) {
    let world = World::with_more_than(40, 3, 60);
    let (dir, server) = world.serve();
    (world, dir, server)
}

/// The links of a response: relation, and path with query.
fn links(reply: &Reply) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in reply.expect("link").split(", ") {
        let (url, parameters) = part.split_once('>').unwrap();
        let url = url.strip_prefix('<').unwrap();
        let relation = parameters
            .strip_prefix("; rel=\"")
            .and_then(|r| r.strip_suffix('"'));
        let target = url.strip_prefix(BASE_URL).unwrap_or(url);
        assert!(target.starts_with("/v1/"), "{part}");
        found.push((relation.unwrap().to_owned(), target.to_owned()));
    }
    let names: BTreeSet<_> = found.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), found.len(), "a relation twice in {found:?}");
    found
}

fn link(reply: &Reply, relation: &str) -> Option<String> {
    links(reply)
        .into_iter()
        .find(|(name, _)| name == relation)
        .map(|(_, target)| target)
}

fn get(client: &mut Client, target: &str) -> Reply {
    let reply = client.get(target);
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    reply
}

/// The pages from `target` on, each by the `next` link of the one before.
fn follow(client: &mut Client, target: &str, relation: &str) -> Vec<Reply> {
    let mut pages = vec![get(client, target)];
    while let Some(next) = link(pages.last().unwrap(), relation) {
        pages.push(get(client, &next));
        assert!(
            pages.len() < 1000,
            "{relation} leads round in circles from {target}"
        );
    }
    pages
}

fn rows(replies: &[Reply], name: &str) -> Vec<Value> {
    replies
        .iter()
        .flat_map(|reply| reply.json()[name].as_array().unwrap().clone())
        .collect()
}

#[test]
fn following_next_visits_every_row_once() {
    let (world, _dir, server) = serve();
    let mut client = server.connect();
    let islands = ("islands", "code", world.islands.len());
    let creators = ("creators", "slug", world.slugs().len());
    for (list, (name, key, total)) in [
        ("/v1/islands?limit=7", islands),
        ("/v1/islands?limit=7&sort=plays&order=asc", islands),
        ("/v1/creators?limit=2", creators),
    ] {
        let visited = rows(&follow(&mut client, list, "next"), name);
        assert_eq!(visited.len(), total, "{list}");
        let distinct: BTreeSet<_> = visited.iter().map(|row| row[key].to_string()).collect();
        assert_eq!(distinct.len(), total, "{list}");
        let last = link(&get(&mut client, list), "last").unwrap();
        let backwards = rows(&follow(&mut client, &last, "prev"), name);
        let seen: BTreeSet<_> = backwards.iter().map(|row| row[key].to_string()).collect();
        assert_eq!(seen, distinct, "{list} from its last page back");
    }
}

#[test]
fn next_is_there_if_more_follows_and_prev_if_rows_were_skipped() {
    let (world, _dir, server) = serve();
    let mut client = server.connect();
    let total = world.islands.len();
    for list in ["/v1/islands", "/v1/creators"] {
        for limit in [1, 3, 50, 200] {
            for offset in [0, 1, 2, total - 1, total, total + 1, usize::MAX] {
                let target = format!("{list}?limit={limit}&offset={offset}");
                let reply = get(&mut client, &target);
                let more = reply.json()["meta"]["hasMore"].as_bool().unwrap();
                assert_eq!(link(&reply, "next").is_some(), more, "{target}");
                assert_eq!(link(&reply, "prev").is_some(), offset > 0, "{target}");
                let first = get(&mut client, &link(&reply, "first").unwrap()).json();
                assert_eq!(first["meta"]["offset"], 0, "{target}");
                let last = get(&mut client, &link(&reply, "last").unwrap()).json();
                assert_eq!(last["meta"]["hasMore"], false, "{target}");
            }
        }
    }
    let none = get(&mut client, "/v1/islands?q=no+such+title+anywhere");
    let names: BTreeSet<_> = links(&none).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        BTreeSet::from(["first".to_owned(), "last".to_owned()])
    );
}

/// The pairs of a query without `limit` and `offset`.
fn filters(target: &str) -> BTreeSet<(String, String)> {
    let mut pairs = READER.pairs(target.split_once('?').map(|at| at.1)).unwrap();
    pairs.retain(|(name, _)| name != "limit" && name != "offset");
    pairs.into_iter().collect()
}

#[test]
fn links_keep_the_filters() {
    let (_world, _dir, server) = serve();
    let mut client = server.connect();
    for query in words(
        "tag=R%26B&sort=plays&order=asc&limit=1 tag=free+for+all&createdIn=uefn&limit=1 \
         q=%C4%B0&limit=2 q=%22%3C%26%5C&limit=2&offset=5 creator=two%20words&limit=1&offset=1 \
         q=100%25&limit=1",
    ) {
        let target = format!("/v1/islands?{query}");
        let reply = get(&mut client, &target);
        let limit = reply.json()["meta"]["limit"].clone();
        for (relation, linked) in links(&reply) {
            assert_eq!(filters(&linked), filters(&target), "{relation} of {target}");
            assert_eq!(
                get(&mut client, &linked).json()["meta"]["limit"],
                limit,
                "{linked}"
            );
        }
    }
}

/// The headers that are not the same for all clients.
const OWN: [&str; 3] = ["date", "x-request-id", "x-ratelimit-"];

/// Nor does a key in the query change them, wherever it is there.
#[test]
fn a_response_from_a_cache_has_the_headers_and_the_body_of_the_first() {
    let world = World::with_more_than(40, 3, 60);
    let dir = TempDir::new();
    let state = dir.join("state");
    let key = issue(&state, "ann@x.test", "pro");
    let more = ["--state", state.to_str().unwrap()];
    let server = Server::of(&world.publish(&dir), &more);
    let mut client = server.connect();
    let island = format!("/v1/islands/{}?", world.islands.keys().next().unwrap());
    for target in [
        "/v1/islands?limit=2&offset=2&page=1",
        "/v1/creators?limit=3",
        "/v1/new?",
        &island,
    ] {
        let etag = get(&mut client, target).expect("etag").to_owned();
        let key_first = target.replace('?', &format!("?key={key}&"));
        let key_last = format!("{target}&key={key}");
        for header in [
            ("Accept", "*/*"),
            ("Accept-Encoding", "gzip"),
            ("If-None-Match", &etag),
        ] {
            let first = client.request("GET", target, &[header]);
            for target in [target, &key_first, &key_last].repeat(4) {
                let reply = client.request("GET", target, &[header]);
                assert_eq!(reply.status, first.status, "{target} {header:?}");
                assert_eq!(
                    reply.headers_but(&OWN),
                    first.headers_but(&OWN),
                    "{target} {header:?}"
                );
                assert_eq!(reply.body, first.body, "{target} {header:?}");
                let refused = client.get(&target.replace(&key, &forged(&key)));
                let is_keyed = target.contains("key=");
                assert_eq!(refused.status, if is_keyed { 401 } else { 200 });
                let ignored = "x-ignored-parameters";
                assert_eq!(refused.header(ignored), first.header(ignored), "{target}");
            }
        }
    }
}
