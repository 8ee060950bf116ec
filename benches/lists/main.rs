//! The two lists, without sockets: queries, rows of a page, searches. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints its results and stops at the first failure"
)]

#[path = "../common/mod.rs"]
mod common;
mod data;
mod rounds;
mod search;

use std::cell::Cell;
use std::hint::black_box;

use island_metrics::model::{SortField, SortOrder};
use island_metrics::request::{
    Argument, Endpoint, Filter, ISLAND_PARAMETERS, ListQuery, Page, Query, Route, parse,
};
use island_metrics::snapshot::Content;

use common::is_quick;
use data::{TOOL, World};
use rounds::{Work, medians};

fn main() {
    let quick = is_quick();
    let rounds = if quick { 1 } else { 15 };
    let sizes: &[u32] = if quick {
        &[1_000, 5_000]
    } else {
        &[1_000, 10_000, 100_000, 300_000, 1_000_000]
    };
    requests(rounds);
    let mut worlds: Vec<World> = sizes.iter().map(|islands| World::new(*islands)).collect();
    growth(&worlds, rounds);
    // The goals for searches are set for the second largest size.
    let world = worlds.swap_remove(sizes.len() - 2);
    drop(worlds);
    combined(&world, rounds);
    search::tables(&world, rounds.min(7));
}

/// The query of the first page in the default order, with filters as in a request.
pub(crate) fn filtered(filters: &str) -> ListQuery {
    ListQuery::parse(&Query::split(Some(filters)), ISLAND_PARAMETERS).unwrap()
}

/// A query of another page.
pub(crate) fn at(offset: u64, query: ListQuery) -> ListQuery {
    let page = Page { limit: 50, offset };
    ListQuery { page, ..query }
}

pub(crate) fn searching(needle: &str, mut query: ListQuery) -> ListQuery {
    query.filters.push(("q", Filter::search(needle)));
    query
}

/// The router and the parser of queries.
fn requests(rounds: usize) {
    let targets = [
        ("/v1", None),
        ("/v1/islands/1234-5678-9012", None),
        ("/v1/islands", None),
        ("/v1/islands", Some("limit=50&offset=100")),
        (
            "/v1/islands",
            Some("sort=plays&order=asc&tag=free+for+all&q=b%C3%A4r"),
        ),
        ("/v1/creators", Some("q=studios&limit=50")),
    ];
    let (mut names, mut kinds): (Vec<String>, Vec<Work<'_>>) = Default::default();
    for (path, query) in targets {
        names.push(format!("route {path} {}", query.unwrap_or_default()));
        let parse = move || parse(black_box(path), black_box(query));
        kinds.push(Box::new(move || usize::from(parse().route.is_ok())));
    }
    for query in targets.into_iter().filter_map(|(_, query)| query) {
        names.push(format!("query {query}"));
        let parse =
            move || ListQuery::parse(&Query::split(Some(black_box(query))), ISLAND_PARAMETERS);
        kinds.push(Box::new(move || usize::from(parse().is_ok())));
    }
    println!("{:<74} {:>10}", "parsing a request", "ns");
    for (name, time) in names.iter().zip(medians(&kinds, rounds)) {
        println!("{name:<74} {time:>10.0}");
    }
}

/// A query in all twelve orders.
fn orders(query: &ListQuery) -> Vec<ListQuery> {
    let of = |sort: SortField| {
        SortOrder::ALL.map(|order| ListQuery {
            sort,
            order,
            ..query.clone()
        })
    };
    SortField::ALL.into_iter().flat_map(of).collect()
}

/// Selects rows in all twelve orders in turn, so that the CPU caches do not hold one order's rows.
pub(crate) fn in_every_order<'a>(world: &'a World, query: &ListQuery) -> Work<'a> {
    let (queries, turn) = (orders(query), Cell::new(0));
    Box::new(move || {
        turn.set((turn.get() + 1) % queries.len());
        let selected = world.history.select_islands(&queries[turn.get()]);
        selected.rows.len() + selected.total as usize
    })
}

/// Renders whole pages of every order in turn, each from another row on if `step` is not 0.
fn whole_pages(world: &World, step: u64) -> Work<'_> {
    // A prime, so that all rows are visited.
    const FAR: u64 = 7919;
    let (queries, turn) = (orders(&filtered("")), Cell::new(0));
    Box::new(move || {
        turn.set(turn.get() + 1);
        let offset = turn.get() * step * FAR % u64::from(world.islands);
        let query = at(offset, queries[turn.get() as usize % queries.len()].clone());
        let route = Route::new(Endpoint::Islands, Argument::Islands(query));
        let found = world.snapshot.find(&route, false).unwrap();
        let found = found.read(true).unwrap();
        let Content::Whole(text) = found.content else {
            unreachable!("a page is in memory");
        };
        text.len()
    })
}

type PageKind<'a> = (&'static str, &'a dyn Fn(&World) -> ListQuery);

/// Pages by the number of islands.
fn growth(worlds: &[World], rounds: usize) {
    let rows = |world: &World, share: f64| (f64::from(world.islands) * share) as u64;
    let kinds: [PageKind<'_>; 9] = [
        ("page", &|_| filtered("")),
        ("page, half-way in", &|world| {
            at(rows(world, 0.5), filtered(""))
        }),
        ("tag", &|world| filtered(&world.tag(0))),
        ("tag, 10 % in", &|world| {
            at(rows(world, 0.1), filtered(&world.tag(0)))
        }),
        ("creator", &|world| filtered(&world.creator())),
        ("createdIn", &|_| filtered(TOOL)),
        ("tag and createdIn", &|world| {
            filtered(&format!("{}&{TOOL}", world.tag(0)))
        }),
        ("search for a common word", &|world| {
            searching(&world.words[0], filtered(""))
        }),
        ("search for one byte", &|_| searching("a", filtered(""))),
    ];
    let work = kinds.iter().flat_map(|(_, query)| {
        worlds
            .iter()
            .map(|world| in_every_order(world, &query(world)))
    });
    let whole = [1, 0].into_iter();
    let whole = whole.flat_map(|step| worlds.iter().map(move |world| whole_pages(world, step)));
    let times = medians(&work.chain(whole).collect::<Vec<_>>(), rounds);
    let names = kinds.iter().map(|(name, _)| *name);
    let names = names.chain(["whole page, from anywhere", "whole page, the first again"]);
    print!("\n{:<30}", "ns, by islands");
    for world in worlds {
        print!(" {:>9}", world.islands);
    }
    println!(" {:>12}", "last / first");
    for (name, times) in names.zip(times.chunks(worlds.len())) {
        print!("{name:<30}");
        for time in times {
            print!(" {time:>9.0}");
        }
        println!(" {:>12.2}", times[times.len() - 1] / times[0]);
    }
    print!("{:<30}", "ms to open the file");
    for world in worlds {
        print!(" {:>9.1}", world.opened.as_secs_f64() * 1e3);
    }
    println!();
}

/// Several filters together, beside the one with fewest rows.
fn combined(world: &World, rounds: usize) {
    let (tag, rare) = (world.tag(0), world.tag(world.tags.len() - 1));
    // A creator of an island that has the commonest tag.
    let creator = world.creator();
    let kinds = [
        ("rarest tag alone", rare.clone()),
        ("rarest tag, createdIn", format!("{rare}&{TOOL}")),
        ("commonest tag, createdIn", format!("{tag}&{TOOL}")),
        ("commonest tag, largest creator", format!("{tag}&{creator}")),
        ("largest creator, createdIn", format!("{creator}&{TOOL}")),
        ("all three", format!("{tag}&{creator}&{TOOL}")),
    ]
    .map(|(name, filters)| (name, filtered(&filters)));
    println!(
        "\n{:<46} {:>9} {:>10} {:>10}",
        format!("filters, {} islands", world.islands),
        "match",
        "ns",
        "deep ns"
    );
    let work = kinds.iter().flat_map(|(_, query)| {
        let total = world.history.select_islands(query).total;
        [0, total * 3 / 4].map(|offset| in_every_order(world, &at(offset, query.clone())))
    });
    let times = medians(&work.collect::<Vec<_>>(), rounds);
    for ((name, query), times) in kinds.iter().zip(times.chunks(2)) {
        let total = world.history.select_islands(query).total;
        println!(
            "{name:<46} {total:>9} {:>10.0} {:>10.0}",
            times[0], times[1]
        );
    }
}
