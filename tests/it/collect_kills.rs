//! Collectors that are killed at any system call, have no space, may not write, or share directories; and
//! readers of the dataset beside them. With `IM_TEST_SLOW` at every system call instead of some.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;

use crate::collect::{Paths, arguments, assert_days, assert_sound, daily_requests, once, paths};
use crate::fake_upstream::{FakeUpstream, code};
use crate::prelude::*;
use crate::small_disks::Disk;
use crate::strace::{Call, Tracer};

/// An upstream that has no values any more once the flag is set.
fn forgetful(islands: u64) -> (FakeUpstream, Arc<AtomicBool>) {
    let forgets = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&forgets);
    let bodies = move |path: &str| {
        let from = path.split_once("from=").map_or("", |(_, from)| &from[..24]);
        let nulls = format!(r#"{{"peakCCU":[{{"value":null,"timestamp":"{from}"}}]}}"#);
        (path.contains("/metrics/day") && flag.load(Ordering::Relaxed)).then_some(nulls)
    };
    (FakeUpstream::with(islands, Box::new(bodies)), forgets)
}

fn collector(paths: &Paths, upstream: &FakeUpstream) -> Command {
    let mut command = command();
    command.args(arguments(
        paths,
        &upstream.url(),
        &["--once", "--live", "2"],
    ));
    command
}

/// Kills a collector at one system call after the other.
fn kill_at_each_call(paths: &Paths, upstream: &FakeUpstream, prepare: impl Fn()) {
    let Some(tracer) = Tracer::new() else {
        return;
    };
    prepare();
    let (output, calls) = tracer.run(&collector(paths, upstream), None, None);
    assert!(output.status.success());
    let is_ours = |call: &&Call| {
        [&paths.0, &paths.1]
            .iter()
            .any(|path| call.is_about(Path::new(path)))
    };
    let mut points: Vec<(String, u32)> = calls
        .iter()
        .filter(is_ours)
        .map(|call| (call.name.clone(), call.number))
        .collect();
    assert!(points.len() > 50, "{} calls", points.len());
    let mut rng = Rng(7);
    while !is_slow() && points.len() > 12 {
        let at = rng.below(points.len().try_into().unwrap());
        points.swap_remove(at.try_into().unwrap());
    }
    let mut kills = 0;
    for (name, number) in points {
        prepare();
        let inject = format!("{name}:signal=KILL:when={number}");
        let (output, _) = tracer.run(&collector(paths, upstream), Some(&inject), None);
        kills += u32::from(output.status.signal() == Some(9));
        // Before islands.csv is there, nothing is.
        if Path::new(&paths.0).join("islands.csv").exists() {
            assert_sound(paths);
        }
        let output = once(paths, upstream);
        assert!(output.status.success(), "{inject}");
        assert_sound(paths);
        assert_days(paths, 12);
    }
    assert!(kills > 5, "{kills}");
}

#[test]
fn a_first_run_killed_at_any_system_call_is_completed_by_the_next() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(12, |_| None);
    kill_at_each_call(&paths, &upstream, || {
        for path in [&paths.0, &paths.1] {
            let _first_time = fs::remove_dir_all(path);
        }
    });
}

#[test]
fn what_was_collected_survives_kills_of_runs_for_which_the_upstream_has_nothing() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let (upstream, forgets) = forgetful(12);
    assert!(once(&paths, &upstream).status.success());
    forgets.store(true, Ordering::Relaxed);
    // All islands are asked again.
    kill_at_each_call(&paths, &upstream, || {
        fs::remove_dir_all(&paths.1).unwrap();
    });
}

#[test]
fn a_kill_costs_the_requests_of_the_last_seconds_only() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let (upstream, forgets) = forgetful(200);
    let mut command = command();
    command.args(arguments(&paths, &upstream.url(), &["--live", "0"]));
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    wait_for("the days of all islands", || {
        daily_requests(&upstream) >= 200
    });
    thread::sleep(Duration::from_secs(8));
    child.kill().unwrap();
    child.wait().unwrap();
    forgets.store(true, Ordering::Relaxed);
    assert!(once(&paths, &upstream).status.success());
    assert_days(&paths, 200);
}

/// Some space, then more of it, until a run fits.
#[test]
fn a_full_disk_ends_a_run_and_loses_nothing() {
    let directory = TempDir::new();
    let Some(disk) = Disk::in_memory(&directory, "size=6m") else {
        return;
    };
    let path = |name: &str| disk.path().join(name).to_str().unwrap().to_owned();
    let paths = (path("dataset"), path("state"));
    let upstream = FakeUpstream::start(40, |_| None);
    assert!(once(&paths, &upstream).status.success());
    let (mut free, mut refused) = (0, 0);
    loop {
        // A run with more islands, which needs more space.
        upstream.set_islands(600);
        fs::remove_dir_all(&paths.1).unwrap();
        let filler = disk.fill_but(free);
        let output = once(&paths, &upstream);
        assert_sound(&paths);
        let daily = files(&Path::new(&paths.0).join("daily"));
        let row = format!("\n{},", code(38));
        assert!(
            daily
                .values()
                .all(|bytes| String::from_utf8_lossy(bytes).contains(&row))
        );
        fs::remove_file(filler).unwrap();
        if output.status.success() {
            break;
        }
        let log = stderr_of(&output, 74);
        let is_full = ["No space left on device", "database or disk is full"];
        assert!(is_full.iter().any(|problem| log.contains(problem)), "{log}");
        refused += 1;
        free += if is_slow() { 16 << 10 } else { 128 << 10 };
    }
    assert!(refused > 0);
    assert_days(&paths, 600);
}

#[test]
fn directories_that_cannot_be_written_end_a_run_with_their_name() {
    for name in ["dataset", "state"] {
        let directory = TempDir::new();
        let Some(disk) = Disk::in_memory(&directory, "size=2m") else {
            return;
        };
        let on_disk = disk.path().join(name).to_str().unwrap().to_owned();
        let mut paths = paths(&directory);
        if name == "dataset" {
            paths.0 = on_disk.clone();
        } else {
            paths.1 = on_disk.clone();
        }
        let upstream = FakeUpstream::start(40, |_| None);
        disk.protect(true);
        let refused = || {
            let output = once(&paths, &upstream);
            let log = stderr_of(&output, 74);
            assert!(log.contains("Read-only file system"), "{log}");
            assert!(log.contains(&on_disk), "{log}");
        };
        refused();
        disk.protect(false);
        assert!(once(&paths, &upstream).status.success());
        // All islands are due again.
        fs::remove_dir_all(&paths.1).unwrap();
        upstream.set_islands(50);
        disk.protect(true);
        refused();
        disk.protect(false);
        assert_sound(&paths);
        assert_days(&paths, 40);
    }
}

#[test]
fn a_link_to_a_missing_catalogue_is_not_replaced() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(10, |_| None);
    fs::create_dir_all(&paths.0).unwrap();
    let link = Path::new(&paths.0).join("islands.csv");
    symlink("/nowhere/islands.csv", &link).unwrap();
    let log = stderr_of(&once(&paths, &upstream), 74);
    let want = "is a symbolic link to /nowhere/islands.csv, which does not exist";
    assert!(
        log.contains(link.to_str().unwrap()) && log.contains(want),
        "{log}"
    );
    assert!(link.is_symlink());
}

/// Of a dataset that is new, of one with data, and at the end of a run, when only days are not written yet. Other programs
/// that read it create the lock too.
#[test]
fn a_collector_waits_for_readers_and_logs_the_begin_and_the_end_of_the_wait() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(10, |_| None);
    let path = Path::new(&paths.0).join(".lock");
    fs::create_dir_all(&paths.0).unwrap();
    File::create(&path).unwrap();
    for (islands, is_late) in [(10, false), (20, false), (20, true)] {
        upstream.set_islands(islands);
        let lock = File::open(&path).unwrap();
        let log = directory.join("log");
        let mut waiting = collector(&paths, &upstream);
        if is_late {
            fs::remove_dir_all(Path::new(&paths.0).join("daily")).unwrap();
            waiting = command();
            let url = upstream.url();
            let flags = arguments(&paths, &url, &["--once", "--live", "0"]);
            // Five requests a second.
            waiting.args(flags.into_iter().map(|flag| flag.replace("200", "5")));
        } else {
            lock.lock_shared().unwrap();
        }
        let mut waiting = waiting.stderr(File::create(&log).unwrap()).spawn().unwrap();
        if is_late {
            thread::sleep(Duration::from_secs(2));
            lock.lock_shared().unwrap();
        }
        let path = path.display();
        let begin = format!("waiting for the lock {path},");
        let logged = || fs::read_to_string(&log).unwrap();
        wait_for(&begin, || logged().contains(&begin));
        // At the end of a run, there are several attempts.
        thread::sleep(Duration::from_secs(4));
        drop(lock);
        assert!(waiting.wait().unwrap().success());
        let end = format!("the lock {path} was free after ");
        let counts = [begin, end].map(|line| logged().matches(&line).count());
        assert_eq!(counts, [1, 1], "{}", logged());
        assert_sound(&paths);
        let _next_time = fs::remove_dir_all(&paths.1);
    }
}

/// Each run adds islands and their days: half of a set would be days of unknown islands.
#[test]
fn readers_never_see_half_of_a_set() {
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(20, |_| None);
    assert!(once(&paths, &upstream).status.success());
    let target = directory.join("published");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = SetOnDrop(&done);
        let checks = scope.spawn(|| {
            let mut checks = 0;
            while !done.load(Ordering::Relaxed) {
                assert_sound(&paths);
                checks += 1;
            }
            checks
        });
        let publishes = scope.spawn(|| {
            let mut publishes = 0;
            while !done.load(Ordering::Relaxed) {
                let to = target.to_str().unwrap();
                let output = run(&["publish", "--dataset", &paths.0, "--to", to]);
                stderr_of(&output, 0);
                publishes += 1;
            }
            publishes
        });
        for round in 1..=if is_slow() { 15 } else { 6 } {
            upstream.set_islands(20 + 10 * round);
            fs::remove_dir_all(&paths.1).unwrap();
            let output = once(&paths, &upstream);
            stderr_of(&output, 0);
        }
        done.store(true, Ordering::Relaxed);
        let (checks, publishes) = (checks.join().unwrap(), publishes.join().unwrap());
        assert!(
            checks > 5 && publishes > 5,
            "{checks} checks, {publishes} publishes"
        );
    });
    assert_sound(&paths);
}
