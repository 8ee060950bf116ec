//! Copies of a published directory by `data/systemd/replicate/replicate`, while the directory is published
//! again and again: each copy is complete, also after a kill, and a server on it shows whole publishes.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use crate::killed_publishes::{Known, answers_as_if_published_afresh, succeeds, while_served};
use crate::prelude::*;

/// Copies by rsync that must succeed. The publisher may outrun some others.
fn copies_wanted() -> u32 {
    if is_slow() { 50 } else { 8 }
}

/// A dataset, where to publish it, and an empty directory for copies of that.
fn scene() -> (TempDir, Editions, PathBuf, Published) {
    let dir = TempDir::new();
    let editions = Editions::begin_with_few_days(&dir.join("dataset"));
    let (source, copy) = (dir.join("source"), dir.join("copy"));
    fs::create_dir(&copy).unwrap();
    (dir, editions, source, Published::at(&copy))
}

/// The command that copies with a tool. Its processes are a group, so that a test can kill all of them.
fn replicate(tool: &str, remote: &Path, directory: &Path) -> Command {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/data/systemd/replicate/replicate"
    );
    let mut command = Command::new("bash");
    command.args([script, tool]).arg(remote).arg(directory);
    command.env("RCLONE_CONFIG", "").stdin(Stdio::null());
    command.process_group(0);
    command
}

/// Runs a copy; returns whether it succeeded. It may fail only with the code for "try again".
#[track_caller]
fn succeeded(output: &Output) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 69)), "{code:?}: {stderr}");
    code == Some(0)
}

/// Publishes again and again to the first directory. Meanwhile `copy` copies it to the second one until
/// it has succeeded `wanted` times, with checks after each, and a server serves the second one.
/// `pause` is the longest time between two publishes: enough for a loaded machine to copy every few of them.
fn under_a_constant_publisher(
    tool: &str,
    wanted: u32,
    pause: Duration,
    copy: impl Fn(&Path, &Path) -> bool,
) {
    let (_dir, mut editions, source, copied) = scene();
    let known = Known::default();
    let first = editions.turn(Change::All);
    known.add(&first);
    succeeds(editions.publish(&first, &source));
    assert!(copy(&source, copied.path()));
    let (done, publishes) = (AtomicBool::new(false), AtomicU32::new(0));
    let (mut successes, mut failures) = (0, 0);
    thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut rng = Rng(31);
            while !done.load(Ordering::Relaxed) {
                let change = Change::ALL[usize::try_from(rng.below(5)).unwrap()];
                let edition = editions.turn(change);
                known.add(&edition);
                succeeds(editions.publish(&edition, &source));
                publishes.fetch_add(1, Ordering::Relaxed);
                let pause_ms = u64::try_from(pause.as_millis()).unwrap();
                thread::sleep(Duration::from_millis(rng.below(pause_ms)));
            }
            editions
        });
        let stop = SetOnDrop(&done);
        while_served(copied.path(), &known, || {
            // A loaded machine may publish more slowly than it copies.
            while successes < wanted || publishes.load(Ordering::Relaxed) <= wanted / 2 {
                let before = copied.manifest();
                if copy(&source, copied.path()) {
                    successes += 1;
                    copied.is_sound();
                } else {
                    failures += 1;
                    assert_eq!(before, copied.manifest(), "a failed copy changes nothing");
                    copied.is_sound();
                }
                assert!(
                    failures < 20 * wanted,
                    "{tool}: {successes} copies, {failures} failures"
                );
            }
        });
        drop(stop);
        let mut editions = publishing.join().unwrap();
        // At rest, the copy shows the newest publish, and has the files of it and of the one before.
        let last = editions.turn(Change::All);
        succeeds(editions.publish(&last, &source));
        let before = copied.manifest();
        assert!(copy(&source, copied.path()));
        answers_as_if_published_afresh(&editions, &last, copied.path());
        fs::remove_dir_all(copied.path().join(".incoming")).unwrap();
        let lock = copied.path().join(".replicate.lock");
        fs::rename(lock, copied.path().join(".lock")).unwrap();
        copied.is_swept(before.as_ref());
    });
}

#[test]
fn every_copy_by_rsync_is_complete() {
    if is_installed("rsync", "rsync") {
        let pause = Duration::from_millis(400);
        under_a_constant_publisher("rsync", copies_wanted(), pause, |source, copy| {
            succeeded(&replicate("rsync", source, copy).output().unwrap())
        });
    }
}

#[test]
fn every_copy_by_way_of_a_bucket_is_complete() {
    if is_installed("rclone", "rclone") {
        // Each takes two runs of rclone, which are slow.
        let (wanted, pause) = (copies_wanted() / 2, Duration::from_secs(4));
        under_a_constant_publisher("rclone", wanted, pause, |source, copy| {
            let bucket = source.with_file_name("bucket");
            let upload = replicate("upload", &bucket, source).output().unwrap();
            succeeded(&upload) && succeeded(&replicate("rclone", &bucket, copy).output().unwrap())
        });
    }
}

#[test]
fn a_copy_killed_at_any_moment_leaves_the_one_before_or_itself() {
    for tool in ["rsync", "rclone"] {
        if !is_installed(tool, tool) {
            continue;
        }
        let (_dir, mut editions, source, copied) = scene();
        let mut copy = |rng: &mut Rng, kill: Option<Duration>| {
            let edition = editions.turn(Change::ALL[usize::try_from(rng.below(5)).unwrap()]);
            succeeds(editions.publish(&edition, &source));
            let mut command = replicate(tool, &source, copied.path());
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            if let Some(moment) = kill {
                thread::sleep(moment);
                let group = format!("-{}", child.id());
                let mut kill = Command::new("kill");
                kill.args(["-KILL", "--", &group]).stderr(Stdio::null());
                let _ended_meanwhile = kill.status();
            }
            child.wait().unwrap().success()
        };
        let mut rng = Rng(32);
        let begun = Instant::now();
        assert!(copy(&mut rng, None));
        let mut moments = Moments::of(begun.elapsed());
        for _ in 0..copies_wanted() * 2 {
            let before = copied.manifest();
            let moment = moments.next(&mut rng);
            let is_whole = copy(&mut rng, Some(moment));
            copied.is_sound();
            let newest = Published::at(&source).manifest();
            let now = copied.manifest();
            assert!(
                now == before || now == newest,
                "{before:?}, {newest:?}: {now:?}"
            );
            assert!(!is_whole || now == newest);
            moments.record(is_whole);
        }
        moments.were_of_both_kinds();
        assert!(copy(&mut rng, None));
        assert_eq!(copied.manifest(), Published::at(&source).manifest());
        copied.is_sound();
    }
}

#[test]
fn unchanged_dumps_are_not_copied_again() {
    if !is_installed("rsync", "rsync") {
        return;
    }
    let (_dir, mut editions, source, copied) = scene();
    let inode = || fs::metadata(copied.dump("islands.csv")).unwrap().ino();
    let mut inodes = Vec::new();
    for change in [Change::All, Change::Live, Change::Islands] {
        let edition = editions.turn(change);
        succeeds(editions.publish(&edition, &source));
        succeeds(replicate("rsync", &source, copied.path()));
        inodes.push(inode());
    }
    assert!(
        inodes[0] == inodes[1] && inodes[1] != inodes[2],
        "{inodes:?}"
    );
}

#[test]
fn a_copy_from_nowhere_or_of_nothing_changes_nothing() {
    if !is_installed("rsync", "rsync") {
        return;
    }
    let (_dir, mut editions, source, copied) = scene();
    let edition = editions.turn(Change::All);
    succeeds(editions.publish(&edition, &source));
    succeeds(replicate("rsync", &source, copied.path()));
    let before = copied.manifest();
    let other = source.with_file_name("other");
    let fails = |problem: &str| {
        let output = replicate("rsync", &other, copied.path()).output().unwrap();
        assert!(!output.status.success(), "{problem}");
        assert_eq!(copied.manifest(), before, "{problem}");
        copied.is_sound();
    };
    fails("no such directory");
    fs::create_dir(&other).unwrap();
    fails("nothing is published");
    for manifest in [
        "",
        "{}",
        "{\n \"history\": {\n  \"file\": \"../../etc/passwd\"\n }\n}\n",
    ] {
        write_file(&other.join("manifest.json"), manifest);
        fails(manifest);
    }
}
