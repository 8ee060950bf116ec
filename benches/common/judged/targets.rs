//! What the load asks for: every kind of answer that publishing changes.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::common::Outcome;
use crate::common::http::found;
use crate::common::text::{encode, values};

/// How an answer is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `/v1`, which is of the newest publish.
    Index,
    Live,
    Intraday,
    /// A fixed body of the history.
    Fixed,
    /// A page of a list.
    Page,
}

impl Kind {
    /// Whether it comes from the history, which most publishes keep.
    pub(crate) fn is_history(self) -> bool {
        matches!(self, Kind::Fixed | Kind::Page)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// What each answer to it has, and to most others none.
    pub(crate) says: String,
}

/// One request: a target, and whether gzip is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) target: usize,
    pub(crate) gzip: bool,
}

/// How many of each kind there are.
pub(crate) struct Counts {
    pub(crate) islands: usize,
    pub(crate) creators: usize,
    pub(crate) pages: usize,
    pub(crate) searches: usize,
}

/// Days of which rankings and new islands are asked for; all of them stay held.
const DAYS: usize = 8;
/// The first of the targets, which are asked for more often.
const HOT: usize = 6;
/// One in so many requests is for one of them.
const HOT_EVERY: usize = 8;
const SORTS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];

fn text(address: SocketAddr, target: &str) -> Outcome<String> {
    Ok(String::from_utf8(found(address, target)?.body)?)
}

fn target(kind: Kind, path: String, says: String) -> Target {
    Target { path, kind, says }
}

/// All targets, those that change with every publish first.
pub(crate) fn targets(address: SocketAddr, counts: &Counts) -> Outcome<Vec<Target>> {
    let fixed = |path: &str, says: &str| target(Kind::Fixed, path.to_owned(), says.to_owned());
    let mut targets = vec![
        target(
            Kind::Index,
            "/v1".to_owned(),
            "\"version\":\"v1\"".to_owned(),
        ),
        target(Kind::Live, "/v1/live".to_owned(), "{\"time\":".to_owned()),
        target(
            Kind::Intraday,
            "/v1/live/intraday".to_owned(),
            "\"points\":".to_owned(),
        ),
        page("/v1/islands?", 50, 0),
        fixed("/v1/rankings/latest", "\"ranking\":"),
        fixed("/v1/new/latest", ",\"islands\":"),
        fixed("/v1/rankings", "{\"days\":"),
        fixed("/v1/new", "{\"days\":"),
    ];
    let days = text(address, "/v1/rankings")?;
    for day in days
        .split('"')
        .filter(|text| text.starts_with("20"))
        .take(DAYS)
    {
        let says = format!("{{\"date\":\"{day}\",");
        targets.push(fixed(
            &format!("/v1/rankings/{day}"),
            &format!("{says}\"previousDate\""),
        ));
        targets.push(fixed(
            &format!("/v1/new/{day}"),
            &format!("{says}\"islands\""),
        ));
    }
    let mut listed = String::new();
    // Islands that are played and islands that are not.
    for offset in (0..counts.islands.max(200)).step_by(200) {
        let offset = offset * 4;
        listed += &text(address, &format!("/v1/islands?limit=200&offset={offset}"))?;
    }
    for code in values(&listed, "code").into_iter().take(counts.islands) {
        let path = format!("/v1/islands/{code}");
        targets.push(fixed(&path, &format!("{{\"island\":{{\"code\":\"{code}\"")));
        targets.push(fixed(
            &format!("{path}/ccu"),
            &format!("{{\"code\":\"{code}\",\"ccu\":"),
        ));
    }
    let slugs: BTreeSet<&str> = values(&listed, "creator").into_iter().collect();
    for slug in slugs.iter().take(counts.creators) {
        let says = format!("{{\"creator\":{{\"slug\":\"{slug}\"");
        targets.push(fixed(&format!("/v1/creators/{slug}"), &says));
    }
    targets.extend(pages(&listed).take(counts.pages));
    targets.extend(searches(&listed).into_iter().take(counts.searches));
    Ok(targets)
}

fn page(query: &str, limit: usize, offset: usize) -> Target {
    let path = format!("{query}&limit={limit}&offset={offset}").replace("?&", "?");
    let says = format!("\"limit\":{limit},\"offset\":{offset}}}}}");
    target(Kind::Page, path, says)
}

/// Pages of all orders and some filters, deeper and deeper, without end.
fn pages(listed: &str) -> impl Iterator<Item = Target> {
    let mut queries = vec!["/v1/creators?".to_owned()];
    for sort in SORTS {
        for order in ["asc", "desc"] {
            queries.push(format!("/v1/islands?sort={sort}&order={order}"));
        }
        queries.push(format!("/v1/islands?sort={sort}&createdIn=uefn"));
    }
    let tags = listed.split("\"tags\":[\"").skip(1);
    let tags: BTreeSet<&str> = tags.filter_map(|rest| rest.split('"').next()).collect();
    queries.extend(
        tags.iter()
            .take(10)
            .map(|tag| format!("/v1/islands?tag={}", encode(tag))),
    );
    let slugs: BTreeSet<&str> = values(listed, "creator").into_iter().collect();
    queries.extend(
        slugs
            .iter()
            .take(10)
            .map(|slug| format!("/v1/islands?creator={slug}")),
    );
    (0..).step_by(75).flat_map(move |offset| {
        let queries = queries.clone().into_iter();
        queries.map(move |query| page(&query, 50, offset))
    })
}

/// Searches for words of titles.
fn searches(listed: &str) -> Vec<Target> {
    let mut words = BTreeSet::new();
    for title in values(listed, "title") {
        let is_plain =
            |word: &&str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        words.extend(title.split(' ').filter(is_plain));
    }
    let searches = words.iter().enumerate();
    let searches =
        searches.map(|(at, word)| page(&format!("/v1/islands?q={word}"), 20, at % 3 * 20));
    searches.collect()
}

/// The order in which all is asked for, over and over: each target in both forms, neighbours far
/// apart, and every now and then one of those that change most.
pub(crate) fn order(targets: usize) -> Vec<Ask> {
    let all = targets * 2;
    // Shares no factor with what it walks through, so that it meets each once.
    let mut steps = [7919, 7907, 7901].into_iter();
    let step = steps.find(|step| !all.is_multiple_of(*step)).unwrap_or(1);
    let mut order = Vec::new();
    for at in 0..all {
        if at.is_multiple_of(HOT_EVERY - 1) {
            let hot = order.len() / HOT_EVERY;
            order.push(Ask {
                target: hot / 2 % HOT,
                gzip: hot.is_multiple_of(2),
            });
        }
        let chosen = at * step % all;
        order.push(Ask {
            target: chosen / 2,
            gzip: chosen.is_multiple_of(2),
        });
    }
    order
}
