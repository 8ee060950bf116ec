//! Payload files of any content: a file is refused, or gives a snapshot that handles every request without
//! a panic, in bounded time and memory.
//!
//! The first byte of an input is its kind: a payload file, or changes to a valid one, whose checksums are
//! then corrected. The valid files are published from a synthetic dataset at the start.
#![no_main]

mod draws;
mod payload;
mod scratch;

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use island_metrics::calendar::UtcDay;
use island_metrics::model::IslandCode;
use island_metrics::request::{
    Argument, CREATOR_PARAMETERS, DayRef, Endpoint, ISLAND_PARAMETERS, Kind, ListQuery, Parameter,
    Query, Route,
};
use island_metrics::site::SiteSettings;
use island_metrics::snapshot::{History, Live, Snapshot, Storage};
use libfuzzer_sys::fuzz_target;

use draws::Draws;
use payload::{CHANGE_BYTES, Payload};
use scratch::Scratch;

/// Pages and searches of creators that are requested from each snapshot.
const PAGES: usize = 6;
/// Islands and creators that are requested from each snapshot, of all that it has: more runs find more than longer ones.
const ROWS: usize = 2;
/// The start of one page in so many is also requested: for that, the whole page is made again.
const STARTS_SHARE: usize = 4;
/// All bodies of one snapshot in so many are verified.
const VERIFIED_SHARE: usize = 4;
/// One snapshot in so many renders the pages in memory: they take many times as long as everything else.
const RENDERED_SHARE: usize = 256;
/// Needles of every kind: common ones with a stored set, rare ones, an empty one, and one longer than the
/// sort key of suffixes.
const NEEDLES: [&str; 12] = [
    "",
    "a",
    "e",
    "ma",
    "an ",
    "hunt",
    "%F0%9F%8C%B4",
    "zone",
    "zzz",
    "1v1",
    "%20",
    "ultimate+maze+of+the+day",
];
const TAGS: [&str; 6] = ["", "just+for+fun", "free+for+all", "pvp", "1v1", "none"];
const PLACES: [&str; 6] = [
    "",
    "limit=1",
    "limit=200",
    "offset=7",
    "limit=3&offset=60",
    "offset=18446744073709551615",
];

/// A changed snapshot with the codes and slugs of its islands and creators.
struct Sound {
    history: Payload,
    live: Payload,
    codes: Vec<IslandCode>,
    slugs: Vec<String>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let dataset = scratch.join("dataset");
    let from = dataset.to_str().expect("plain");
    let counts = "--islands 70 --creators 16 --days 1 --long-run-days 1 --seed 1";
    let synth: Vec<&str> = counts
        .split(' ')
        .chain(["--until", "2026-11-20", "--to", from])
        .collect();
    scratch::run(&[&["synth"], &synth[..]].concat());
    let published = scratch::publish(&scratch, from);
    let islands = fs::read_to_string(dataset.join("islands.csv")).expect("just written");
    let column = |at: usize| {
        let rows = islands.lines().skip(1);
        rows.filter_map(move |row| row.split(',').nth(at))
    };
    Sound {
        history: payload(&published, "history-").with_one_body(),
        live: payload(&published, "live-"),
        codes: column(0).filter_map(|code| code.parse().ok()).collect(),
        slugs: column(2).map(str::to_owned).collect(),
    }
});

/// A snapshot whose fixed files the others share: rendering them for each would take most of the time.
static EMPTY: LazyLock<Snapshot> =
    LazyLock::new(|| Snapshot::new(None, None, None, &SiteSettings::new("http://x.test"), None));

fn payload(published: &Path, kind: &str) -> Payload {
    let mut entries = fs::read_dir(published).expect("just published").flatten();
    let is_it = |name: &str| name.starts_with(kind);
    let found = entries.find(|entry| entry.file_name().to_str().is_some_and(is_it));
    let path = found.expect("each publish has one").path();
    Payload::of(&fs::read(path).expect("just published"))
}

fn pick<'t>(draws: &mut Draws, from: &'t [impl AsRef<str>]) -> &'t str {
    from[draws.below(from.len())].as_ref()
}

fn query(draws: &mut Draws, slugs: &[String]) -> String {
    let mut words = Vec::new();
    for Parameter { name, kind, .. } in ISLAND_PARAMETERS {
        let choices: Vec<&str>;
        let number;
        let value = match kind {
            _ if ["limit", "offset"].contains(name) => continue,
            Kind::Text { .. } => match *name {
                "tag" => pick(draws, &TAGS),
                "q" => pick(draws, &NEEDLES),
                _ => pick(draws, slugs),
            },
            Kind::Name { names, .. } => {
                choices = ["", ""].iter().chain(*names).copied().collect();
                pick(draws, &choices)
            }
            Kind::Integer { range, .. } => {
                let value = pick(draws, &["", "", "0", "9", "1000"]).parse::<u64>();
                number = value.map(|value| value.clamp(range.0, range.1).to_string());
                number.as_deref().unwrap_or_default()
            }
        };
        if !value.is_empty() {
            words.push(format!("{name}={value}"));
        }
    }
    words.push(pick(draws, &PLACES).to_owned());
    words.join("&")
}

fn day(number: i32) -> DayRef {
    DayRef::Day(UtcDay(number))
}

fn ask_everything(snapshot: &Snapshot, draws: &mut Draws) {
    let sound = &*SOUND;
    for accepts_gzip in [false, true] {
        let get = |endpoint, argument, needs_start: bool| {
            let route = Route::new(endpoint, argument);
            let found = snapshot.find(&route, accepts_gzip).ok();
            let is_tracked = found.is_some();
            // Long bodies are read too; damage in them is an error.
            let _ = found.map(|found| found.start(u32::MAX));
            if needs_start {
                let found = snapshot.find(&route, accepts_gzip);
                let _ = found.map(|found| found.start(99));
            }
            is_tracked
        };
        // Without gzip: compressing pages would take most of the time, and is not tested here.
        for _ in 0..if accepts_gzip { 1 } else { PAGES } {
            let query = query(draws, &sound.slugs);
            let parsed = ListQuery::parse(&Query::split(Some(&query)), ISLAND_PARAMETERS)
                .expect("every query is a good one");
            if let Some(history) = &snapshot.history {
                let found = history.select_islands(&parsed);
                assert!(found.rows.len() <= parsed.page.limit as usize, "{query}");
                assert!(found.rows.len() as u64 <= found.total, "{query}");
            }
            let needs_start = draws.one_in(STARTS_SHARE);
            get(Endpoint::Islands, Argument::Islands(parsed), needs_start);
        }
        for _ in 0..if accepts_gzip { 1 } else { PAGES } {
            let query = format!("q={}&{}", pick(draws, &NEEDLES), pick(draws, &PLACES));
            let parsed = ListQuery::parse(&Query::split(Some(&query)), CREATOR_PARAMETERS)
                .expect("every query is a good one");
            let needs_start = draws.one_in(STARTS_SHARE);
            get(Endpoint::Creators, Argument::Creators(parsed), needs_start);
        }
        let days = [DayRef::Latest, day(20_777), day(i32::MIN)];
        for endpoint in Endpoint::all() {
            get(endpoint, Argument::None, true);
            for _ in 0..ROWS {
                let code = sound.codes[draws.below(sound.codes.len())];
                let is_there = get(endpoint, Argument::Code(code), true);
                assert!(endpoint != Endpoint::Island || is_there == snapshot.tracks(code));
                let slug = pick(draws, &sound.slugs).to_owned();
                get(endpoint, Argument::Slug(slug), true);
            }
            for day in &days {
                get(endpoint, Argument::Day(day.clone()), true);
            }
        }
    }
    let history = snapshot.history.as_ref();
    let history = history.filter(|_| draws.one_in(VERIFIED_SHARE));
    let _ = history.map(|history| history.verify_bodies(&mut |_, _| {}));
}

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else {
        return;
    };
    let (is_file, is_live, seal_bodies) = (first & 1 > 0, first & 2 > 0, first & 4 > 0);
    let sound = if is_live { &SOUND.live } else { &SOUND.history };
    let file = if is_file {
        rest.to_vec()
    } else {
        let mut payload = sound.clone();
        for change in rest.as_chunks::<CHANGE_BYTES>().0 {
            payload.change(*change);
        }
        payload.sealed(seal_bodies)
    };
    let storage = Storage::Memory(Bytes::from(file));
    let (history, live) = if is_live {
        (None, Live::open(storage).ok())
    } else {
        (History::open(storage).ok().map(Arc::new), None)
    };
    let is_open = history.is_some() || live.is_some();
    assert!(
        is_open || !rest.is_empty() || is_file,
        "a sound file is refused"
    );
    if is_open {
        let mut draws = Draws::of(input);
        let service = &EMPTY.service;
        let snapshot = if draws.one_in(RENDERED_SHARE) {
            Snapshot::new(history, live, None, service, Some(&EMPTY))
        } else {
            Snapshot::unrendered(history, live, None, service)
        };
        ask_everything(&snapshot, &mut draws);
    }
});
