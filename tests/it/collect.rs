//! `collect` against a fake upstream (CONTRACT section 8).

use crate::fake_upstream::{FakeUpstream, code, now, peak};
use crate::prelude::*;

const DAY: i64 = 86_400;

pub(crate) fn arguments<'a>(directory: &'a Paths, url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let (dataset, state) = (directory.0.as_str(), directory.1.as_str());
    let mut arguments = vec![
        "collect",
        "--dataset",
        dataset,
        "--state",
        state,
        "--contact",
        "ann@example.com",
        "--upstream",
        url,
        "--rate",
        "200",
    ];
    arguments.extend(more);
    arguments
}

/// The paths of the dataset and the state directory.
pub(crate) type Paths = (String, String);

pub(crate) fn paths(directory: &TempDir) -> Paths {
    let path = |name| directory.join(name).to_str().unwrap().to_owned();
    (path("dataset"), path("state"))
}

pub(crate) fn once(paths: &Paths, upstream: &FakeUpstream) -> Output {
    run(&arguments(paths, &upstream.url(), &["--once"]))
}

#[track_caller]
pub(crate) fn assert_sound(paths: &Paths) {
    let checked = run(&["check", "--dataset", &paths.0]);
    stderr_of(&checked, 0);
}

fn day_name(day: i64) -> String {
    let time = jiff::Timestamp::from_second(day * DAY).unwrap();
    format!("{}.csv", &time.to_string()[..10])
}

/// The daily files that the fake upstream's islands give.
fn expected_days(islands: u64) -> BTreeMap<String, String> {
    let today = now() / DAY;
    let row = |number, day| {
        peak(number, day).map(|peak| format!("{},{peak},{peak},{peak},,,,,,\n", code(number)))
    };
    (today - 7..today)
        .map(|day| {
            let rows: String = (0..islands).filter_map(|number| row(number, day)).collect();
            (day_name(day), format!("{DAILY}{rows}"))
        })
        .collect()
}

#[track_caller]
pub(crate) fn assert_days(paths: &Paths, islands: u64) {
    let found = files(&Path::new(&paths.0).join("daily"));
    let found: BTreeMap<String, String> = found
        .into_iter()
        .map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
        .collect();
    let expected = expected_days(islands);
    let names = |days: &BTreeMap<String, String>| days.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
    for (name, text) in &expected {
        assert_eq!(&found[name], text, "{name}");
    }
}

pub(crate) fn is_daily(target: &str) -> bool {
    target.contains("/metrics/day")
}

/// Number of requests for days so far.
pub(crate) fn daily_requests(upstream: &FakeUpstream) -> usize {
    let seen = upstream.seen();
    seen.iter().filter(|seen| is_daily(&seen.target)).count()
}

#[test]
fn one_run_collects_everything_within_the_rate_and_the_next_asks_for_nothing() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(50, |_| None);
    let output = once(&paths, &upstream);
    stderr_of(&output, 0);
    assert_sound(&paths);
    assert_days(&paths, 50);
    let seen = upstream.seen();
    assert_eq!(
        seen.iter()
            .filter(|request| is_daily(&request.target))
            .count(),
        50
    );
    assert!(seen.iter().all(|request| {
        request.user_agent.starts_with("island-metrics/")
            && request.user_agent.ends_with("(+ann@example.com)")
    }));
    upstream.assert_polite(200.0);
    let live = files(&Path::new(&paths.0).join("live"));
    assert_eq!(live.len(), 1);
    let platform = fs::read_to_string(directory.join("dataset").join("platform.csv")).unwrap();
    assert!(platform.ends_with(",77\n"), "{platform}");
    let islands = fs::read_to_string(directory.join("dataset").join("islands.csv")).unwrap();
    assert!(
        islands.contains("1000-0000-0007,Island 7,creator2,uefn,pvp|1v1\n"),
        "{islands}"
    );
    let before = files(&Path::new(&paths.0).join("daily"));
    assert!(once(&paths, &upstream).status.success());
    let again = &upstream.seen()[seen.len()..];
    assert!(
        again.iter().all(|request| !is_daily(&request.target)),
        "{again:?}"
    );
    assert_eq!(files(&Path::new(&paths.0).join("daily")), before);
}

#[test]
fn what_is_collected_can_be_published_and_served() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(20, |_| None);
    assert!(once(&paths, &upstream).status.success());
    let published = directory.join("published");
    publish(Path::new(&paths.0), &published, "2026-11-20T12:05:00Z");
    let server = Server::of(&published, &[]);
    let reply = server.connect().get("/v1/islands?limit=1");
    assert!(reply.text().contains("Island 19"), "{}", reply.text());
}

#[test]
fn a_collector_runs_until_it_is_stopped_and_two_never_share_a_directory() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(10, |_| None);
    let url = upstream.url();
    let mut child = command()
        .args(arguments(&paths, &url, &[]))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the days of all islands", || {
        daily_requests(&upstream) >= 10
    });
    let other = |path: &str| format!("{path}-2");
    for (second, shared) in [
        ((other(&paths.0), paths.1.clone()), &paths.1),
        ((paths.0.clone(), other(&paths.1)), &paths.0),
    ] {
        let log = stderr_of(&once(&second, &upstream), 74);
        let is_named = log.contains("another process holds the lock") && log.contains(shared);
        assert!(is_named, "{log}");
    }
    signal(child.id(), "-TERM");
    assert!(child.wait().unwrap().success());
    assert_sound(&paths);
}

#[test]
fn with_codes_only_the_islands_of_a_file_are_collected() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(12, |_| None);
    let file = directory.join("codes");
    let text = format!(
        "# two\n{}\n\n{} # the second\n9999-9999-9999\n",
        code(3),
        code(5)
    );
    write_file(&file, &text);
    let more = ["--once", "--live", "2", "--codes", file.to_str().unwrap()];
    let chosen = || {
        let output = run(&arguments(&paths, &upstream.url(), &more));
        stderr_of(&output, 0)
    };
    let islands = || -> Vec<String> {
        let text = fs::read_to_string(Path::new(&paths.0).join("islands.csv")).unwrap();
        let rows = text.lines().skip(1);
        rows.map(|row| row[..14].to_owned()).collect()
    };
    let log = chosen();
    assert!(log.contains("never listed 1 of the islands"), "{log}");
    assert_eq!(daily_requests(&upstream), 2);
    assert_sound(&paths);
    assert_eq!(islands(), [code(3), code(5)]);
    // Without the file, the others are added; with it, they stay and are not requested.
    assert!(once(&paths, &upstream).status.success());
    assert_eq!(daily_requests(&upstream), 12);
    assert_eq!(islands().len(), 12);
    fs::remove_dir_all(&paths.1).unwrap();
    chosen();
    assert_eq!(daily_requests(&upstream), 14);
    assert_eq!(islands().len(), 12);
    assert_days(&paths, 12);
}
