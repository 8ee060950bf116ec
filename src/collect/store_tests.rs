//! A database that cannot be used, and a state that does not fit its dataset.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::*;
use crate::calendar::{DAY_SECONDS, UtcDay};
use crate::collect::dataset_files::Dataset;
use crate::collect::endpoints::Endpoint;
use crate::collect::faults_tests::{Spell, Trouble};
use crate::collect::plan;
use crate::collect::readings;
use crate::collect::rules::{newest_day, window};
use crate::collect::scratch_tests::Scratch;
use crate::collect::simulated_collector_tests::Simulation;
use crate::collect::simulation_tests::compare;
use crate::collect::virtual_upstream_tests::VirtualUpstream;

/// Seconds of one request.
const PACE: i64 = 20;

/// A collector that has read everything.
fn collected(seed: u64) -> Simulation {
    let mut run = Simulation::new(VirtualUpstream::new(seed, 60, 0), false);
    run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
    // Values that are only in the database may have been withdrawn when they are read again.
    run.finish();
    run
}

/// Closes the database, so that its log is copied into it. Returns its path.
fn closed(run: &mut Simulation) -> PathBuf {
    let elsewhere = Scratch::new();
    let path = run.scratch.path().join("state").join(NAME);
    let other = Store::open(elsewhere.path()).unwrap().0;
    drop(std::mem::replace(&mut run.collector.store, Rc::new(other)));
    path
}

#[test]
fn a_damaged_database_is_set_aside_and_everything_is_read_again() {
    for offset in [0, 5_000] {
        let mut run = collected(61);
        let path = closed(&mut run);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xA5; 4_096], offset).unwrap();
        run.crash();
        assert!(run.collector.is_state_replaced);
        let log = run.collector.log.join("\n");
        assert!(
            log.contains("is damaged") && log.contains("collect.sqlite.aside"),
            "{log}"
        );
        let before = run.upstream.requested[Endpoint::Days as usize];
        run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
        assert!(run.upstream.requested[Endpoint::Days as usize] >= before + 50);
        assert!(compare(&mut run) > 300);
    }
}

#[test]
fn a_database_of_another_version_is_set_aside() {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path()).unwrap().0;
    store.set_task(Task::PLATFORM, 7).unwrap();
    store
        .run(|db| db.pragma_update(None, "user_version", 99))
        .unwrap();
    drop(store);
    let (store, problem) = Store::open(scratch.path()).unwrap();
    assert!(
        problem
            .unwrap()
            .contains("has version 99, and this program reads version 1")
    );
    assert_eq!(store.task(Task::PLATFORM).unwrap(), 0);
    drop(store);
    let (_, problem) = Store::open(scratch.path()).unwrap();
    assert_eq!(problem, None);
}

#[test]
fn a_state_of_another_dataset_is_set_aside() {
    let mut run = collected(62);
    // The dataset of another collector in place of this one's.
    let other = collected(63);
    let path = run.scratch.path().join("dataset");
    fs::remove_dir_all(&path).unwrap();
    fs::rename(other.scratch.path().join("dataset"), &path).unwrap();
    let islands = "code,title,creator,createdIn,tags\n0000-0002-4757,x,,,\n";
    crate::durable::replace(&path.join("islands.csv"), islands.as_bytes()).unwrap();
    for folder in ["daily", "live"] {
        fs::remove_dir_all(path.join(folder)).unwrap();
    }
    run.crash();
    assert!(run.collector.is_state_replaced);
    let log = run.collector.log.join("\n");
    assert!(log.contains("belongs to another dataset"), "{log}");
    run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
    run.validate();
    assert!(run.collector.dataset.has_day(newest_day(run.now)).unwrap());
}

/// By others, while it runs and before a start. Only a day that is lost is requested again.
#[test]
fn what_a_file_of_a_day_has_lost_is_written_again() {
    for (change, is_running) in [
        ("removed", false),
        ("emptied", true),
        ("cut", true),
        ("without rows", false),
        ("extended", true),
    ] {
        let mut run = collected(64);
        let dataset = run.scratch.path().join("dataset");
        let islands = File::options()
            .append(true)
            .open(dataset.join("islands.csv"));
        let row = b"7919-0791-9000,Theirs,,,\n";
        islands.unwrap().write_all(row).unwrap();
        // Perhaps more is to come.
        let is_unchanged = |seconds| {
            let later = UnixSeconds(UnixSeconds::now().0 + seconds);
            run.collector.dataset.is_unchanged("islands.csv", later)
        };
        assert!(is_unchanged(0).unwrap() && !is_unchanged(5).unwrap());
        let day = UtcDay(newest_day(run.now).0 - 2);
        let rows = run.collector.dataset.day(day).unwrap();
        assert!(rows.len() > 5);
        let path = dataset.join(format!("daily/{day}.csv"));
        let mut text = fs::read_to_string(&path).unwrap();
        match change {
            "removed" | "emptied" => text.clear(),
            "cut" => text.truncate(text[..text.len() / 2].rfind('\n').unwrap() + 1),
            "without rows" => text.truncate(text.find('\n').unwrap() + 1),
            _ => text += "7919-0791-9000,7,,,,,,,,\n",
        }
        crate::durable::replace(&path, text.as_bytes()).unwrap();
        if change == "removed" {
            fs::remove_file(&path).unwrap();
        }
        fs::remove_dir_all(dataset.join("live")).unwrap();
        if !is_running {
            run.crash();
        }
        run.tick_seconds = 60;
        let before = run.upstream.requested[Endpoint::Days as usize];
        run.advance(UnixSeconds(run.now.0 + 120), PACE);
        let log = run.collector.log.join("\n");
        let is_lost = text.is_empty();
        let is_said = log.contains(&format!("the dataset lacks {day}"));
        assert_eq!(is_said, is_lost, "{change}: {log}");
        let mut found = run.collector.dataset.day(day).unwrap();
        let theirs = found.remove(&"7919-0791-9000".parse().unwrap());
        assert_eq!(theirs.is_some(), change == "extended");
        assert_eq!(found, rows, "{change}");
        run.advance(UnixSeconds(run.now.0 + 2 * 3600), PACE);
        let requested = run.upstream.requested[Endpoint::Days as usize] - before;
        assert_eq!(requested >= 50, is_lost, "{change}: {requested} requests");
        assert!(dataset.join("live").exists());
        run.validate();
    }
}

#[test]
fn islands_that_others_add_to_the_dataset_while_it_runs_stay() {
    let mut run = collected(68);
    let path = run.scratch.path().join("dataset/islands.csv");
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(b"7777-7777-7777,Theirs,,,\n").unwrap();
    run.finish();
    let listed = Dataset::islands(&run.collector.settings.dataset).unwrap();
    assert!(listed.iter().any(|island| &*island.title == "Theirs"));
    assert!(listed.len() > 50);
    // The file itself is written again if it is lost.
    let path = run.scratch.path().join("dataset/islands.csv");
    File::options()
        .write(true)
        .truncate(true)
        .open(path)
        .unwrap();
    run.finish();
    assert_eq!(
        Dataset::islands(&run.collector.settings.dataset)
            .unwrap()
            .len(),
        listed.len()
    );
}

/// They are a part of the day, and would be a file that grows. Rows of others stay.
#[test]
fn values_that_a_clock_ahead_of_time_read_of_a_day_in_progress_are_taken_back() {
    for theirs in ["", "7919-0791-9000,7,,,,,,,,\n"] {
        let mut run = collected(67);
        let (today, begun) = (run.now.day(), run.now);
        let path = run
            .scratch
            .path()
            .join(format!("dataset/daily/{today}.csv"));
        run.skew = DAY_SECONDS;
        run.advance(UnixSeconds(run.now.0 + 8 * 3600), PACE);
        let rows = run.collector.dataset.day(today).unwrap();
        assert!(rows.len() > 5);
        if !theirs.is_empty() {
            let islands = run.scratch.path().join("dataset/islands.csv");
            for (path, row) in [
                (islands, "7919-0791-9000,Theirs,,,\n"),
                (path.clone(), theirs),
            ] {
                let mut file = File::options().append(true).open(path).unwrap();
                file.write_all(row.as_bytes()).unwrap();
            }
        }
        run.skew = 0;
        assert_eq!(run.now.day(), begun.day());
        run.crash();
        // The clock may be behind now: then, the upstream has no reply.
        let trouble = run.now..UnixSeconds(run.now.0 + 3600);
        let spell = Spell::new(Trouble::Status(400), Endpoint::Days, trouble);
        run.upstream.spells.push(spell);
        run.advance(UnixSeconds(run.now.0 + 3600), PACE);
        assert!(path.exists());
        run.advance(UnixSeconds(run.now.0 + 2 * 3600), PACE);
        let found = run.collector.dataset.day(today).unwrap();
        assert_eq!(
            (found.len(), path.exists()),
            (theirs.lines().count(), !theirs.is_empty())
        );
        assert!(
            readings::values(&run.collector.store, today)
                .unwrap()
                .is_empty()
        );
        run.validate();
    }
}

/// The upstream no longer has it.
#[test]
fn a_lost_file_of_a_day_outside_the_window_is_written_again_and_requests_nothing() {
    let mut run = collected(66);
    let day = UtcDay(window(run.now).start.0 - 1);
    let rows = run.collector.dataset.day(day).unwrap();
    assert!(rows.len() > 5);
    fs::remove_file(run.scratch.path().join(format!("dataset/daily/{day}.csv"))).unwrap();
    let sizes = |run: &Simulation| plan::sizes(&run.collector.store, run.now).unwrap();
    let before = sizes(&run);
    assert_eq!(before.at_risk, 0);
    run.crash();
    let log = run.collector.log.join("\n");
    assert!(log.contains("the upstream no longer has it"), "{log}");
    assert_eq!(sizes(&run), before);
    run.collector.finish(run.now).unwrap();
    assert_eq!(run.collector.dataset.day(day).unwrap(), rows);
}

#[test]
fn a_state_of_an_earlier_version_is_not_read_and_its_cost_is_logged() {
    let mut run = collected(65);
    let state = run.scratch.path().join("state");
    closed(&mut run);
    fs::remove_file(state.join(NAME)).unwrap();
    crate::durable::replace(&state.join("ledger"), b"im-ledger     2\n").unwrap();
    run.crash();
    let log = run.collector.log.join("\n");
    assert!(
        log.contains("islands is requested once, which takes 0.0 hours"),
        "{log}"
    );
    assert!(!run.collector.is_state_replaced);
}
