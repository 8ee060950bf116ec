//! Unusable responses by kind, what a collector prints, and settings that cannot work.

use crate::collect::{arguments, assert_days, assert_sound, once, paths};
use crate::fake_upstream::{FakeUpstream, Fault, code};
use crate::prelude::*;

/// Each way in which a request fails, and the part of the log line about it.
const FAULTS: [(Fault, &str); 13] = [
    (Fault::EmptyOk, "throttled by an empty 200"),
    (Fault::TooMany, "throttled by status 429"),
    (Fault::Html, "throttled by status 522"),
    (
        Fault::Challenge,
        "throttled by an HTML page with status 403",
    ),
    (Fault::CutShort, "the body was cut short"),
    (Fault::NotJson, "the body is not as expected"),
    (Fault::Hangup, "no response"),
    (Fault::Rejected, "status 400"),
    (Fault::TextType, "the content type must be application/json"),
    (Fault::MembersMissing, "missing field"),
    (Fault::Redirect, "the status must be 200, got 301"),
    (Fault::Unauthorized, "the status must be 200, got 401"),
    (Fault::DamagedGzip, "the gzip body is damaged"),
];

/// The number of the request that fails: one for the catalogue.
const FAULTY: usize = 2;

#[test]
fn each_fault_is_named_with_its_correlation_id_and_the_request_repeated() {
    thread::scope(|scope| {
        for (fault, reason) in FAULTS {
            scope.spawn(move || {
                let directory = TempDir::new();
                let paths = paths(&directory);
                let upstream =
                    FakeUpstream::start(8, move |number| (number == FAULTY).then_some(fault));
                let output = once(&paths, &upstream);
                let log = stderr_of(&output, 0);
                let lines: Vec<&str> = log.lines().filter(|line| line.contains(reason)).collect();
                assert_eq!(lines.len(), 1, "{reason}: {log}");
                // Without a response there is no id.
                let has_id = lines[0].contains("(x-epic-correlation-id FN-");
                assert!(has_id || reason == "no response", "{log}");
                assert_days(&paths, 8);
                let seen = upstream.seen();
                // Other endpoints keep their pace meanwhile.
                let again = seen[FAULTY..]
                    .iter()
                    .find(|later| later.target == seen[FAULTY - 1].target);
                assert!(again.unwrap().at - seen[FAULTY - 1].at >= Duration::from_secs(2));
                upstream.assert_polite(200.0);
            });
        }
    });
}

/// The body has 9 MiB, and 9 KiB compressed.
#[test]
fn a_body_without_end_is_not_read_to_it() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let is_sent = AtomicBool::new(false);
    let bodies = move |path: &str| {
        let is_due = path.starts_with("/islands?") && !is_sent.swap(true, Ordering::Relaxed);
        is_due.then(|| " ".repeat(9 << 20) + "{}")
    };
    let upstream = FakeUpstream::with(8, Box::new(bodies));
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
    let cold = "islands: 0; the catalogue was never read, so islands are missing\n";
    assert!(before.contains(cold), "{before}");
    assert!(!directory.join("state").exists() && !directory.join("dataset").exists());
    assert!(upstream.seen().is_empty());
    assert!(once(&paths, &upstream).status.success());
    let seen = upstream.seen().len();
    let after = plan();
    for line in [
        "islands: 30\n",
        "never requested: 0\n",
        "active and due: 0\n",
        "within 36 hours: 0\n",
        "due in total: 0, 0.0 hours at 200 requests per second\n",
    ] {
        assert!(after.contains(line), "{line}: {after}");
    }
    let codes = directory.join("codes");
    write_file(&codes, &code(2));
    let other = ["--plan", "--codes", codes.to_str().unwrap()];
    let other = run(&arguments(&paths, &url, &other));
    let other = String::from_utf8(other.stdout).unwrap();
    let note = "islands: 30; as of the last run, which had other --codes\n";
    assert!(other.contains(note), "{other}");
    // A dataset of another publisher, without a state.
    fs::remove_dir_all(&paths.1).unwrap();
    let adopted = plan();
    assert!(adopted.contains("never requested: 30\n"), "{adopted}");
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
    let upstream = FakeUpstream::start(900, |number| (number == 600).then_some(Fault::Rejected));
    let url = upstream.url();
    let arguments = arguments(&paths, &url, &["--once"]);
    if let Some(shown) = on_a_terminal(&arguments) {
        let has_progress = shown.contains("\rislands up to date: ") && shown.contains(" of 900 (");
        assert!(has_progress, "{shown:?}");
        // The progress is cleared before each line of the log, such as that of the fault.
        assert!(shown.contains("status 400"), "{shown:?}");
        let mut cleared = shown
            .split('\n')
            .filter_map(|line| line.rsplit_once("\x1b[K"));
        assert!(
            cleared.all(|(before, _)| before.ends_with('\r')),
            "{shown:?}"
        );
    }
}

#[test]
fn what_cannot_be_used_ends_with_a_line_and_an_exit_code() {
    let directory = TempDir::new();
    let (usual, upstream) = (paths(&directory), FakeUpstream::start(4, |_| None));
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let check = |[dataset, state]: [&str; 2], words: &str, code: i32, part: &str| {
        let mut collect = command();
        collect.args(["collect", "--once", "--dataset", dataset, "--state", state]);
        let output = collect.args(words.split_whitespace()).output().unwrap();
        let line = stderr_of(&output, code);
        assert!(line.contains(part), "{words}: {line}");
        // That of a dataset is followed by its faults.
        assert!(line.lines().count() == 1 || code == 65, "{line}");
    };
    let places = [usual.0.as_str(), &usual.1];
    check(places, "", 64, "--contact");
    check(places, "--contact a(b)", 64, "--contact");
    let with = |words: &str, code: i32, part: &str| {
        check(places, &format!("--contact a@b.cc {words}"), code, part);
    };
    with("--rate 0", 64, "--rate");
    with("--rate 1e2", 64, "--rate");
    with("--rate 10.1", 64, "--rate must be at most 10");
    with("--upstream http://example.com/", 64, "--upstream");
    with("--upstream https://h/?a=b", 64, "--upstream");
    with(
        "--upstream https://u:password@h/",
        64,
        "the value is not shown",
    );
    with("--platform both", 64, "--platform");
    with("--live -1", 64, "--live");
    with("--admin 8080", 64, "--admin");
    with("--codes /nonexistent.txt", 78, "/nonexistent.txt");
    with("--ca-file /nonexistent.pem", 78, "/nonexistent.pem");
    write_file(&directory.join("codes"), "0000-0000-0001\n1 # no code\n");
    let codes = format!("--codes {}", path("codes"));
    with(&codes, 78, "codes:2: an island code");
    write_file(&directory.join("not.pem"), "no certificate\n");
    let remote = format!(
        "--upstream https://localhost:1/ --ca-file {}",
        path("not.pem")
    );
    with(&remote, 78, "not.pem");
    let local = format!("--contact a@b.cc --upstream {}", upstream.url());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("{local} --admin {}", listener.local_addr().unwrap());
    check(places, &taken, 69, "--admin");
    let same = "--state and --dataset must be different directories";
    check([&usual.0; 2], &local, 78, same);
    write_file(&directory.join("file"), "");
    check([&path("file"), &usual.1], &local, 74, "file");
    check([&usual.0, &path("file")], &local, 74, "file");
    let islands = "code,title,creator,createdIn,tags\nnonsense,x,,,\n";
    write_file(&directory.join("faulty/islands.csv"), islands);
    check([&path("faulty"), &usual.1], &local, 65, "islands.csv:2");
    write_file(&directory.join("of-server/keys.jsonl"), "");
    check([&usual.0, &path("of-server")], &local, 78, "of-server");
    let mut behind = command();
    behind.args(arguments(&usual, "https://example.com/", &["--once"]));
    behind.env("HTTPS_PROXY", "http://ann:secret@p:3128");
    let line = stderr_of(&behind.output().unwrap(), 78);
    let is_named = line.contains("HTTPS_PROXY must be http://HOST:PORT, without a user");
    assert!(is_named && !line.contains("secret"), "{line}");
    // It is not for this upstream.
    let mut local = command();
    local.args(arguments(&usual, &upstream.url(), &["--plan"]));
    local.env("HTTPS_PROXY", "socks5://p");
    stderr_of(&local.output().unwrap(), 0);
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_faulty_file_ends_a_run_with_its_name_when_all_else_is_collected() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(8, |_| None);
    let faulty = directory.join("dataset/platform.csv");
    write_file(&faulty, "nonsense\n");
    let log = stderr_of(&once(&paths, &upstream), 65);
    assert!(log.contains("platform.csv:1"), "{log}");
    assert_days(&paths, 8);
    fs::remove_file(faulty).unwrap();
    assert!(once(&paths, &upstream).status.success());
    assert_sound(&paths);
}
