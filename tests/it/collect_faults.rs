//! Unusable responses by kind, what a collector prints, and settings that cannot work.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::collect::{Paths, arguments, assert_days, assert_sound, once, paths};
use crate::fake_upstream::{FakeUpstream, Fault, Script};
use crate::processes::{code_and_stderr, report_skipped, stderr_of};
use crate::support::{TempDir, command, is_slowest, run, write_file};

/// Fails the fifth request in one way, and the part of the log line about it.
const FAULTS: [(Script, &str); 13] = [
    (
        |number| (number == 5).then_some(Fault::EmptyOk),
        "throttled by an empty 200",
    ),
    (
        |number| (number == 5).then_some(Fault::TooMany),
        "throttled by status 429",
    ),
    (
        |number| (number == 5).then_some(Fault::Html),
        "throttled by status 522",
    ),
    (
        |number| (number == 5).then_some(Fault::Challenge),
        "throttled by an HTML page with status 403",
    ),
    (
        |number| (number == 5).then_some(Fault::CutShort),
        "the body was cut short",
    ),
    (
        |number| (number == 5).then_some(Fault::NotJson),
        "the body is not as expected",
    ),
    (
        |number| (number == 5).then_some(Fault::Hangup),
        "no response",
    ),
    (
        |number| (number == 5).then_some(Fault::Rejected),
        "status 400",
    ),
    (
        |number| (number == 5).then_some(Fault::TextType),
        "the content type must be application/json",
    ),
    (
        |number| (number == 5).then_some(Fault::MembersMissing),
        "missing field",
    ),
    (
        |number| (number == 5).then_some(Fault::Redirect),
        "the status must be 200, got 301",
    ),
    (
        |number| (number == 5).then_some(Fault::Unauthorized),
        "the status must be 200, got 401",
    ),
    (
        |number| (number == 5).then_some(Fault::DamagedGzip),
        "the gzip body is damaged",
    ),
];

#[test]
fn each_fault_is_named_with_its_correlation_id_and_the_request_repeated() {
    thread::scope(|scope| {
        for (script, reason) in FAULTS {
            scope.spawn(move || {
                let directory = TempDir::new();
                let paths = paths(&directory);
                let upstream = FakeUpstream::start(8, script);
                let output = once(&paths, &upstream);
                let log = stderr_of(&output, 0);
                let lines: Vec<&str> = log.lines().filter(|line| line.contains(reason)).collect();
                assert_eq!(lines.len(), 1, "{reason}: {log}");
                // Without a response there is no id.
                let has_id = lines[0].contains("(x-epic-correlation-id FN-");
                assert!(has_id || reason == "no response", "{log}");
                assert!(
                    log.contains("the upstream responds again after 1 failures"),
                    "{log}"
                );
                assert_days(&paths, 8);
                let seen = upstream.seen();
                // Other endpoints keep their pace meanwhile.
                let again = seen[5..]
                    .iter()
                    .find(|later| later.target == seen[4].target);
                assert!(again.unwrap().at - seen[4].at >= Duration::from_secs(2));
                upstream.assert_polite(200.0);
            });
        }
    });
}

/// Compressed, it is 9 KiB.
#[test]
fn a_body_without_end_is_not_read_to_it() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let is_sent = AtomicBool::new(false);
    let bodies = move |path: &str| {
        let is_due = path.starts_with("/islands?") && !is_sent.swap(true, Ordering::Relaxed);
        is_due.then(|| " ".repeat(9 << 20) + "{}")
    };
    let upstream = FakeUpstream::with(8, |_| None, Box::new(bodies));
    let output = once(&paths, &upstream);
    let log = stderr_of(&output, 0);
    let problem =
        "/islands?size=1000: the body is longer than 8388608 bytes (x-epic-correlation-id FN-";
    assert!(log.contains(problem), "{log}");
    assert_days(&paths, 8);
}

/// A 404 means that an island is gone; a catalogue is never gone.
#[test]
fn an_upstream_without_a_catalogue_is_requested_at_the_rate_of_failures() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(8, |_| Some(Fault::NotFound));
    let url = upstream.url();
    let mut collector = command();
    collector.args(arguments(&paths, &url, &["--once"]));
    let begun = Instant::now();
    if is_slowest() {
        let output = collector.output().unwrap();
        let log = stderr_of(&output, 69);
        assert!(begun.elapsed() >= Duration::from_mins(5));
        assert!(
            log.contains("no usable response to 10 requests in a row"),
            "{log}"
        );
    } else {
        let mut child = collector.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = log.next().unwrap().unwrap();
        assert!(line.contains("the status must be 200, got 404"), "{line}");
        thread::sleep(Duration::from_secs(3));
        child.kill().unwrap();
        child.wait().unwrap();
        let log: Vec<String> = log.map(Result::unwrap).collect();
        assert!(
            log.len() <= 1,
            "an outage of an endpoint is logged once: {log:?}"
        );
        // The platform and the catalogue, and both again after two seconds.
        assert!(
            (2..=4).contains(&upstream.seen().len()),
            "{:?}",
            upstream.seen()
        );
    }
    assert_sound(&paths);
}

#[test]
fn the_plan_is_printed_without_a_request() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(30, |_| None);
    let url = upstream.url();
    let plan = || {
        let output = run(&arguments(&paths, &url, &["--plan"]));
        stderr_of(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    let before = plan();
    assert!(before.contains("islands: 0\n"), "{before}");
    let cold = "a cold start of 300000 islands takes 0.4 hours at 200 requests per second";
    assert!(before.contains(cold), "{before}");
    assert!(!directory.join("state").exists() && !directory.join("dataset").exists());
    assert!(upstream.seen().is_empty());
    assert!(once(&paths, &upstream).status.success());
    let seen = upstream.seen().len();
    let after = plan();
    for line in [
        "islands: 30\n",
        "never requested: 0, 0.0 hours",
        "active and due: 0\n",
        "within 36 hours: 0\n",
        "due in total: 0, 0.0 hours at 200 requests per second\n",
    ] {
        assert!(after.contains(line), "{line}: {after}");
    }
    assert!(!after.contains("never, so"), "{after}");
    // A dataset of another publisher, without a state.
    fs::remove_dir_all(&paths.1).unwrap();
    let adopted = plan();
    assert!(adopted.contains("never requested: 30,"), "{adopted}");
    assert_eq!(upstream.seen().len(), seen);
}

/// Runs a command on a terminal, if the tool for that is there. Returns what it printed.
fn on_a_terminal(arguments: &[&str]) -> Option<String> {
    let mut words = vec![env!("CARGO_BIN_EXE_island-metrics")];
    words.extend(arguments);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut script = Command::new("script");
    script
        .args(["-qec", &quoted.join(" "), "/dev/null"])
        .stdin(Stdio::null());
    if let Ok(output) = script.output() {
        return Some(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    report_skipped("script, `apt-get install bsdutils`");
    None
}

#[test]
fn a_long_run_shows_its_progress_on_a_terminal() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(900, |_| None);
    let url = upstream.url();
    let arguments = arguments(&paths, &url, &["--once"]);
    if let Some(shown) = on_a_terminal(&arguments) {
        let has_progress = shown.contains("\rislands up to date: ") && shown.contains(" of 900 (");
        assert!(has_progress, "{shown:?}");
    }
}

fn code_and_line(paths: &Paths, more: &[&str]) -> (Option<i32>, String) {
    let base = [
        "collect",
        "--dataset",
        &paths.0,
        "--state",
        &paths.1,
        "--contact",
        "a@b.cc",
    ];
    let output = run(&[&base[..], &["--once"], more].concat());
    code_and_stderr(output)
}

#[test]
fn directories_and_addresses_that_cannot_be_used_end_with_a_line_and_an_exit_code() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(4, |_| None);
    let url = upstream.url();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let pem = directory.join("not.pem");
    write_file(&pem, "no certificate\n");
    let pem = pem.to_str().unwrap();
    let local = ["--upstream", url.as_str()];
    let file = directory.join("file");
    write_file(&file, "");
    let file = file.to_str().unwrap().to_owned();
    let faulty = directory.join("faulty");
    write_file(
        &faulty.join("islands.csv"),
        "code,title,creator,createdIn,tags\nnonsense,x,,,\n",
    );
    let faulty = faulty.to_str().unwrap().to_owned();
    for (dataset, state, more, code, part) in [
        (
            &paths.0,
            &paths.0,
            &local[..],
            78,
            "--state and --dataset must be different directories",
        ),
        (
            &paths.0,
            &paths.1,
            &["--upstream", "https://localhost:1/", "--ca-file", pem],
            78,
            "not.pem",
        ),
        (
            &paths.0,
            &paths.1,
            &[local[0], local[1], "--admin", &taken],
            69,
            "--admin",
        ),
        (&file, &paths.1, &local, 74, "file"),
        (&paths.0, &file, &local, 74, "file"),
        (&faulty, &paths.1, &local, 65, "islands.csv:2"),
        (&paths.0, &paths.1, &["--rate", "1e2"], 64, "--rate"),
        (&paths.0, &paths.1, &["--live", "-1"], 64, "--live"),
        (
            &paths.0,
            &paths.1,
            &["--upstream", "https://h/?a=b"],
            64,
            "--upstream",
        ),
        (
            &paths.0,
            &paths.1,
            &["--upstream", "https://u@h/"],
            64,
            "--upstream",
        ),
        (&paths.0, &paths.1, &["--admin", "8080"], 64, "--admin"),
    ] {
        let (found, line) = code_and_line(&(dataset.clone(), state.clone()), more);
        assert_eq!(found, Some(code), "{more:?}: {line}");
        assert!(line.contains(part), "{more:?}: {line}");
    }
    assert!(upstream.seen().is_empty());
}
