//! Requests: the cases in which servers are compared, bodies of given sizes, and more distinct pages
//! and searches than a cache has room for.

use std::collections::{BTreeSet, HashSet};

use island_metrics::model::{CreatedIn, SortField, SortOrder};
use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;

use crate::common::prelude::*;

pub(crate) const PAGE: &str = "/v1/islands?limit=50";
/// Tags, and creators, used as filters.
const FILTERS: usize = 40;

/// A case in which every server sends the same response.
#[derive(Clone)]
pub(crate) struct Compared {
    pub(crate) name: &'static str,
    pub(crate) request: Vec<u8>,
    /// Requests sent at a time on each connection.
    pub(crate) depth: usize,
    /// Status of every response.
    pub(crate) status: u16,
}

/// The compared cases of a release server, which has issued `key`.
pub(crate) fn compared(address: SocketAddr, key: &str) -> Outcome<Vec<Compared>> {
    let sizes = nearest(address, [300, 2_000, 20_000, 200_000])?;
    let [small, two, twenty, large] = sizes.each_ref().map(String::as_str);
    let page = found(address, PAGE)?;
    let known = if_none_match(page.header("etag").ok_or("no entity tag")?);
    let key = format!("authorization: Bearer {key}\r\n");
    let cases = [
        ("300 B", small, "", 1, 200),
        ("2 KB", two, "", 1, 200),
        ("20 KB", twenty, "", 1, 200),
        ("200 KB", large, "", 1, 200),
        ("page of 50, cached", PAGE, "", 1, 200),
        ("page of 50, gzip", PAGE, GZIP, 1, 200),
        ("page of 50, 304", PAGE, known.as_str(), 1, 304),
        ("300 B, with a key", small, key.as_str(), 1, 200),
        ("300 B, 16 pipelined", small, "", 16, 200),
    ];
    let cases = cases.map(|(name, target, headers, depth, status)| Compared {
        name,
        request: get(target, headers),
        depth,
        status,
    });
    Ok(cases.into())
}

/// The header line of a client that has a response with this entity tag.
pub(crate) fn if_none_match(tag: &str) -> String {
    format!("if-none-match: {tag}\r\n")
}

/// Number of rows that match a filter.
fn total(address: SocketAddr, filter: &str) -> Outcome<usize> {
    let page = text(address, &format!("/v1/islands?limit=1&{filter}"))?;
    let page: Value = serde_json::from_str(&page)?;
    Ok(page["meta"]["total"].as_u64().ok_or("no total")? as usize)
}

/// For each size the target with the nearest body: islands, histories, creators, `/v1/live`.
fn nearest<const N: usize>(address: SocketAddr, sizes: [usize; N]) -> Outcome<[String; N]> {
    let islands = text(address, "/v1/islands?limit=120&offset=100")?;
    let creators = text(address, "/v1/creators?limit=60")?;
    let mut targets = vec!["/v1/live".to_owned()];
    for code in values(&islands, "code") {
        targets.push(format!("/v1/islands/{code}/ccu"));
        targets.push(format!("/v1/islands/{code}"));
    }
    for slug in values(&creators, "slug") {
        targets.push(format!("/v1/creators/{slug}"));
    }
    let mut bodies = Vec::new();
    for target in targets {
        bodies.push((found(address, &target)?.body().len(), target));
    }
    Ok(sizes.map(|size| {
        let nearest = bodies.iter().min_by_key(|(bytes, _)| bytes.abs_diff(size));
        nearest.expect("there is /v1/live").1.clone()
    }))
}

/// All values of a JSON member, at any depth; the values are plain strings.
pub(crate) fn values<'a>(json: &'a str, member: &str) -> Vec<&'a str> {
    let name = format!("\"{member}\":\"");
    let rest = json.split(name.as_str()).skip(1);
    rest.filter_map(|rest| rest.split('"').next()).collect()
}

/// Percent-encodes all bytes but letters and digits.
fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

/// The orders of the list of islands, as parts of queries.
pub(crate) fn orders() -> impl Iterator<Item = String> + Clone {
    SortField::ALL.into_iter().flat_map(|sort| {
        SortOrder::ALL.map(|order| format!("sort={}&order={}", sort.as_str(), order.as_str()))
    })
}

/// Single filters of the list of islands, as parts of queries: tags and creators of the listed islands,
/// `most` of each, and both tools.
pub(crate) fn filters(listed: &str, most: usize) -> Vec<String> {
    let tags = listed.split("\"tags\":[").skip(1);
    let tags = tags.filter_map(|rest| rest.split(']').next());
    let tags = tags.flat_map(|tags| tags.split('"').skip(1).step_by(2));
    let tags: BTreeSet<String> = tags.map(|tag| format!("&tag={}", encode(tag))).collect();
    let tools = CreatedIn::ALL.map(|tool| format!("&createdIn={}", tool.as_str()));
    let slugs: BTreeSet<&str> = values(listed, "creator").into_iter().collect();
    let slugs = slugs.into_iter().map(|slug| format!("&creator={slug}"));
    let tags = tags.into_iter().take(most);
    tags.chain(tools).chain(slugs.take(most)).collect()
}

/// A step whose multiples visit each of `count` positions once, neighbours far apart: a prime that does
/// not divide `count`.
pub(crate) fn stride(count: usize) -> usize {
    let mut primes = [7919, 7907, 7901].into_iter();
    let prime = primes.find(|prime| !count.is_multiple_of(*prime));
    prime.unwrap_or(1)
}

/// Distinct pages of 50 of all orders and of single filters. Only a creator's may be shorter.
pub(crate) fn pages(address: SocketAddr, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let listed = text(address, "/v1/islands?limit=200")?;
    let mut kinds = Vec::new();
    for filter in [String::new()].into_iter().chain(filters(&listed, FILTERS)) {
        // Fewer than 50 rows have one page, a short one.
        let offsets = total(address, &filter)?.saturating_sub(49).max(1);
        for order in orders() {
            kinds.push((format!("/v1/islands?limit=50&{order}{filter}"), offsets));
        }
    }
    // The kinds in turn, each time from another row on.
    let turns = kinds.iter().map(|(_, offsets)| *offsets).max().unwrap_or(0);
    let all = (0..turns).flat_map(|turn| {
        let left = kinds.iter().filter(move |(_, offsets)| turn < *offsets);
        left.map(move |(target, offsets)| {
            let offset = turn * stride(*offsets) % offsets;
            get(&format!("{target}&offset={offset}"), "")
        })
    });
    Ok(all.take(count).collect())
}

/// Distinct searches, for pieces of titles.
pub(crate) fn searches(address: SocketAddr, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let (mut known, mut searches) = (HashSet::new(), Vec::new());
    for offset in (0..).step_by(200) {
        let listed = text(address, &format!("/v1/islands?limit=200&offset={offset}"))?;
        let titles = values(&listed, "title");
        if titles.is_empty() || searches.len() >= count {
            break;
        }
        for title in titles.iter().filter(|title| title.is_ascii()) {
            let title = title.to_lowercase();
            for length in 4..=8 {
                for piece in title.as_bytes().windows(length).step_by(3) {
                    let piece = std::str::from_utf8(piece)?.trim();
                    if piece.len() >= 3 && known.insert(piece.to_owned()) {
                        let target = format!("{PAGE}&q={}", encode(piece));
                        searches.push(get(&target, ""));
                    }
                }
            }
        }
    }
    // Neighbouring pieces are of one title and match the same rows: separate them.
    let step = (searches.len() as f64).sqrt() as usize + 1;
    let mixed = (0..step).flat_map(|first| (first..searches.len()).step_by(step));
    Ok(mixed.map(|at| searches[at].clone()).take(count).collect())
}
