//! Targets of the load: every kind of response that a publish changes.

use std::collections::BTreeSet;

use crate::common::prelude::*;
use crate::common::requests::{filters, orders, stride};

/// How a response is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `/v1`, always of the newest publish.
    Index,
    Live,
    Intraday,
    /// A fixed body of the history.
    Fixed,
    Page,
}

impl Kind {
    /// Whether it is part of the history, which most publishes do not change.
    pub(crate) fn is_history(self) -> bool {
        matches!(self, Kind::Fixed | Kind::Page)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// Text in each response to it, and in none to most other targets.
    pub(crate) contains: String,
}

/// A request: a target, and whether gzip is accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) target: usize,
    pub(crate) gzip: bool,
}

/// Days of which rankings and new islands are requested; none of them is removed.
const DAYS: usize = 8;
/// The first so many targets are requested more often.
const HOT: usize = 6;
/// One in so many requests is for one of those.
const HOT_EVERY: usize = 8;

fn target(kind: Kind, path: &str, contains: &str) -> Target {
    Target {
        path: path.to_owned(),
        kind,
        contains: contains.to_owned(),
    }
}

fn fixed(path: &str, contains: &str) -> Target {
    target(Kind::Fixed, path, contains)
}

/// All targets, those that change with every publish first: of some islands, and in proportion
/// creators, pages and searches.
pub(crate) fn targets(address: SocketAddr) -> Outcome<Vec<Target>> {
    let islands: usize = full_or_quick(600, 60);
    let mut targets = vec![
        target(Kind::Index, "/v1", "\"version\":\"v1\""),
        target(Kind::Live, "/v1/live", "{\"time\":"),
        target(Kind::Intraday, "/v1/live/intraday", "\"points\":"),
        page("/v1/islands?", 50, 0),
        fixed("/v1/rankings/latest", "\"ranking\":"),
        fixed("/v1/new/latest", ",\"islands\":"),
        fixed("/v1/rankings", "{\"days\":"),
        fixed("/v1/new", "{\"days\":"),
    ];
    let days = text(address, "/v1/rankings")?;
    let days = days.split('"').filter(|text| text.starts_with("20"));
    for day in days.take(DAYS) {
        for (list, next) in [("rankings", "previousDate"), ("new", "islands")] {
            let contains = format!("{{\"date\":\"{day}\",\"{next}\"");
            targets.push(fixed(&format!("/v1/{list}/{day}"), &contains));
        }
    }
    let mut listed = String::new();
    // Both islands with players and islands without.
    for offset in (0..islands.max(200)).step_by(200) {
        let offset = offset * 4;
        listed += &text(address, &format!("/v1/islands?limit=200&offset={offset}"))?;
    }
    for code in values(&listed, "code").into_iter().take(islands) {
        let path = format!("/v1/islands/{code}");
        targets.push(fixed(&path, &format!("{{\"island\":{{\"code\":\"{code}\"")));
        targets.push(fixed(
            &format!("{path}/ccu"),
            &format!("{{\"code\":\"{code}\",\"ccu\":"),
        ));
    }
    let slugs: BTreeSet<&str> = values(&listed, "creator").into_iter().collect();
    for slug in slugs.iter().take(islands / 3) {
        let contains = format!("{{\"creator\":{{\"slug\":\"{slug}\"");
        targets.push(fixed(&format!("/v1/creators/{slug}"), &contains));
    }
    targets.extend(pages(&listed).take(islands * 5 / 6));
    targets.extend(searches(&listed).into_iter().take(islands / 2));
    Ok(targets)
}

fn page(query: &str, limit: usize, offset: usize) -> Target {
    let path = format!("{query}&limit={limit}&offset={offset}").replace("?&", "?");
    let contains = format!("\"limit\":{limit},\"offset\":{offset}}}}}");
    target(Kind::Page, &path, &contains)
}

/// Pages of all orders and some filters, at larger and larger offsets, without end.
fn pages(listed: &str) -> impl Iterator<Item = Target> {
    let mut queries = vec!["/v1/creators?".to_owned()];
    queries.extend(orders().map(|order| format!("/v1/islands?{order}")));
    let filters = filters(listed, 10).into_iter().zip(orders().cycle());
    queries.extend(filters.map(|(filter, order)| format!("/v1/islands?{order}{filter}")));
    (0..).step_by(75).flat_map(move |offset| {
        let queries = queries.clone().into_iter();
        queries.map(move |query| page(&query, 50, offset))
    })
}

/// Searches for words in titles.
fn searches(listed: &str) -> Vec<Target> {
    let mut words = BTreeSet::new();
    for title in values(listed, "title") {
        let is_plain =
            |word: &&str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        words.extend(title.split(' ').filter(is_plain));
    }
    let search = |(at, word)| page(&format!("/v1/islands?q={word}"), 20, at % 3 * 20);
    words.iter().enumerate().map(search).collect()
}

/// The order of requests, to be repeated: each target with gzip and without, neighbours far apart,
/// and one of the hot targets at intervals.
pub(crate) fn order(targets: usize) -> Vec<Request> {
    let all = targets * 2;
    let step = stride(all);
    let request = |number: usize| Request {
        target: number / 2,
        gzip: number.is_multiple_of(2),
    };
    let mut order = Vec::new();
    for at in 0..all {
        if at.is_multiple_of(HOT_EVERY - 1) {
            order.push(request(order.len() / HOT_EVERY % (2 * HOT)));
        }
        order.push(request(at * step % all));
    }
    order
}
