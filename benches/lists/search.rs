//! Searches by kind of needle, beside scans of all titles with a prebuilt finder.

use island_metrics::model::fold;
use island_metrics::request::ListQuery;
use memchr::memmem::Finder;

use crate::common::prelude::*;
use crate::data::{TOOL, World};
use crate::rounds::{self, Work, medians};
use crate::{at, filtered, in_every_order, searching};

fn needles(world: &World) -> Vec<(&'static str, Vec<String>)> {
    let own = |list: &str| list.split('|').map(fold).collect::<Vec<_>>();
    let titles = (1..10).map(|at| world.title(world.ends.len() / 10 * at));
    vec![
        ("1 byte", own("a|e|r| |q|z|0")),
        ("2 bytes", own("e |ar|er| s|in|zz|x3")),
        ("3 bytes", own("er |on |ic |le |al |ing|zzz")),
        ("4 bytes", own(" par| war|ight|wars|mble|tic ")),
        (
            "5 to 8 bytes",
            own(" part|level|0 levels|fights|battle|royal"),
        ),
        ("commonest words", world.words[..20].to_vec()),
        (
            "phrases",
            own("with friends|100 levels|free for all|castle battle| part 2|battle with friends"),
        ),
        ("whole titles", titles.map(str::to_owned).collect()),
        (
            "absent",
            own("xyzzy|no such title|battlf|qqq|simulators of the past and future"),
        ),
        (
            "not ASCII",
            own("🔥|🏝|é|й|château|замок|忍者|قلعة الرمال|の"),
        ),
    ]
}

/// Number of titles that contain the needle, by a scan of each.
fn scan_titles(world: &World, finder: &Finder<'_>) -> usize {
    let text = world.text.as_bytes();
    let titles = world.ends.windows(2).map(|at| &text[at[0]..at[1]]);
    titles.filter(|title| finder.find(title).is_some()).count()
}

/// The same, by a scan of the one text of all titles.
fn scan_text(world: &World, finder: &Finder<'_>) -> usize {
    let (text, ends) = (world.text.as_bytes(), &world.ends);
    let (mut at, mut row, mut count) = (0, 0, 0);
    while let Some(found) = finder.find(&text[at..]) {
        at += found;
        while ends[row + 1] <= at {
            row += 1;
        }
        if at + finder.needle().len() <= ends[row + 1] {
            count += 1;
            at = ends[row + 1];
        } else {
            at += 1;
        }
    }
    count
}

/// Offsets of pages as shares of the matches: the start, half-way, near the end.
const DEPTHS: [(u64, u64); 3] = [(0, 1), (1, 2), (9, 10)];

/// Filters combined with a search.
fn filters(world: &World) -> [(&'static str, String); 6] {
    let tag = |place| world.tag(place);
    [
        ("no filter", String::new()),
        ("commonest tag", tag(0)),
        ("middling tag", tag(world.tags.len() / 2)),
        ("creator", world.creator()),
        ("createdIn", TOOL.to_owned()),
        ("commonest tag, createdIn", format!("{}&{TOOL}", tag(0))),
    ]
}

pub(crate) fn tables(world: &World, rounds: usize) {
    for (name, filter) in filters(world) {
        table(world, name, &filtered(&filter), rounds);
    }
    creators(world, rounds);
}

struct Measured {
    needle: String,
    total: u64,
    /// Nanoseconds of a search.
    search: f64,
    /// Ratio to the scan of each title.
    to_titles: f64,
    /// Ratio to the scan of the one text.
    to_text: f64,
}

/// Measures one needle at every offset, and both scans.
fn measure(world: &World, filter: &ListQuery, needle: &str, rounds: usize) -> Vec<Measured> {
    let finder = Finder::new(needle.as_bytes());
    let query = searching(needle, filter.clone());
    let total = world.history.select_islands(&query).total;
    let mut kinds: Vec<Work<'_>> = vec![
        Box::new(|| scan_titles(world, &finder)),
        Box::new(|| scan_text(world, &finder)),
    ];
    assert_eq!(kinds[0](), kinds[1](), "both scans of {needle:?}");
    if filter.filters.is_empty() {
        assert_eq!(kinds[0]() as u64, total, "{needle:?}");
    }
    for (part, of) in DEPTHS {
        let page = at(total * part / of, query.clone());
        kinds.push(in_every_order(world, &page));
    }
    let times = rounds::measure(&kinds, rounds);
    let measured = |search: &Vec<f64>| Measured {
        needle: needle.to_owned(),
        total,
        search: median(search),
        to_titles: median_ratio(search, &times[0]),
        to_text: median_ratio(search, &times[1]),
    };
    times[2..].iter().map(measured).collect()
}

fn table(world: &World, name: &str, filter: &ListQuery, rounds: usize) {
    println!(
        "\n{:<38} {:>10} {:>10} {:>8} {:>8} {:>8}  worst needle, its matches and ns",
        format!("search, {} titles, {name}", world.islands),
        "median ns",
        "worst ns",
        "median /",
        "worst /",
        "/ text"
    );
    let mut all = Vec::new();
    for (kind, needles) in needles(world) {
        let measured: Vec<Measured> = needles
            .iter()
            .flat_map(|needle| measure(world, filter, needle, rounds))
            .collect();
        row(kind, &measured);
        all.extend(measured);
    }
    row("all", &all);
}

fn row(kind: &str, measured: &[Measured]) {
    let of = |figure: &dyn Fn(&Measured) -> f64| measured.iter().map(figure).collect::<Vec<f64>>();
    let worst = measured
        .iter()
        .max_by(|a, b| a.to_titles.total_cmp(&b.to_titles));
    let worst = worst.unwrap();
    println!(
        "{kind:<38} {:>10.0} {:>10.0} {:>8.4} {:>8.4} {:>8.4}  {:?} {} {:.0}",
        median(of(&|one| one.search)),
        largest(&of(&|one| one.search)),
        median(of(&|one| one.to_titles)),
        worst.to_titles,
        largest(&of(&|one| one.to_text)),
        worst.needle,
        worst.total,
        worst.search,
    );
}

fn creators(world: &World, rounds: usize) {
    let needles = ["a", "er", "studios", "lucky", "zzz", "fox_koala"];
    let work = needles.iter().map(|needle| -> Work<'_> {
        let query = searching(needle, filtered(""));
        Box::new(move || world.history.select_creators(&query).rows.len())
    });
    let times = medians(&work.collect::<Vec<_>>(), rounds);
    println!("\n{:<46} {:>10}", "search of creators", "ns");
    for (needle, time) in needles.iter().zip(times) {
        println!("{needle:<46} {time:>10.0}");
    }
}
