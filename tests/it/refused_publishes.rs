//! Publishes that are refused without `--force`: to a directory that is not one for a publish, and of a
//! dataset that lost days.

use std::os::unix::fs::symlink;

use crate::prelude::*;

const TIME: &str = "2026-12-24T12:00:00Z";

/// A dataset with six days, in `dataset`.
fn dataset(dir: &TempDir) -> PathBuf {
    let path = dir.join("dataset");
    let _editions = Editions::begin(&path);
    path
}

fn publish(current: &Path, dataset: &Path, to: &Path, more: &[&str]) -> Output {
    let mut publish = publish_command(dataset, to);
    publish.current_dir(current).args(more);
    publish.args(["--generated-at", TIME]).output().unwrap()
}

/// The publish is refused, and no file below the directory is changed, created or removed.
#[track_caller]
fn is_refused(current: &Path, dataset: &Path, to: &Path) -> String {
    let before = files(current);
    let stderr = stderr_of(&publish(current, dataset, to, &[]), 65);
    assert!(files(current) == before, "{}: changed", to.display());
    assert!(stderr.ends_with("\nnothing was published\n"), "{stderr}");
    assert!(stderr.contains("--force"), "{stderr}");
    stderr
}

#[track_caller]
fn succeeds(current: &Path, dataset: &Path, to: &Path, more: &[&str]) {
    stderr_of(&publish(current, dataset, to, more), 0);
}

#[test]
fn a_dataset_that_lost_days_is_refused_and_the_days_are_named() {
    let dir = TempDir::new();
    let (dataset, to) = (dataset(&dir), dir.join("published"));
    let all = dir.join("");
    succeeds(&all, &dataset, &to, &[]);
    let days: Vec<String> = files(&dataset.join("daily")).into_keys().collect();
    assert_eq!(days.len(), 5);
    let daily = |name: &str| dataset.join("daily").join(name);
    // A day under a name that is not read.
    let [first, last] = [&days[0], &days[4]];
    fs::rename(daily(first), daily(&format!("{first}.gz"))).unwrap();
    let stderr = is_refused(&all, &dataset, &to);
    let day = first.trim_end_matches(".csv");
    let want = format!("got no file for {day}; --force");
    assert!(stderr.contains(&want), "{stderr}");
    assert!(stderr.contains("warning: daily/"), "{stderr}");
    // `--full` does not lose it either.
    stderr_of(&publish(&all, &dataset, &to, &["--full"]), 65);
    // Damaged dumps hide no day.
    let manifest = Published::at(&to).manifest().unwrap();
    let index = to.join(manifest["dumps"]["file"].as_str().unwrap());
    let sound = fs::read_to_string(&index).unwrap();
    for damaged in [Some("x"), Some("{\"files\":[]}"), None] {
        match damaged {
            Some(text) => write_file(&index, text),
            None => fs::remove_file(&index).unwrap(),
        }
        let stderr = is_refused(&all, &dataset, &to);
        assert!(stderr.contains(&want), "{damaged:?}: {stderr}");
    }
    write_file(&index, &sound);
    // A day that moves to the other folder is not lost.
    let moved = dataset.join("ccu").join(first);
    fs::rename(daily(&format!("{first}.gz")), daily(first)).unwrap();
    write_file(&moved, "code,peakCCU\n");
    fs::remove_file(daily(first)).unwrap();
    succeeds(&all, &dataset, &to, &[]);
    // A name that is no day is a fault, and hides no other reason.
    fs::rename(daily(last), daily("2026-1-1.csv")).unwrap();
    let stderr = stderr_of(&publish(&all, &dataset, &to, &[]), 65);
    has(&stderr, "daily/2026-1-1.csv: the file name");
    fs::rename(daily("2026-1-1.csv"), daily(last)).unwrap();
    // More days than are named.
    for day in 1..=7 {
        let name = format!("ccu/2001-02-0{day}.csv");
        write_file(&dataset.join(name), "code,peakCCU\n");
    }
    succeeds(&all, &dataset, &to, &[]);
    fs::rename(dataset.join("ccu"), dataset.join("Ccu")).unwrap();
    let stderr = is_refused(&all, &dataset, &to);
    assert!(stderr.contains(" and 3 more; --force"), "{stderr}");
    has(&stderr, &format!("for {day}, 2001-02-01, "));
    succeeds(&all, &dataset, &to, &["--force"]);
    // They are no longer published, so the next publish has all days.
    succeeds(&all, &dataset, &to, &[]);
}

#[test]
fn days_of_a_publish_that_ended_before_its_manifest_are_not_lost() {
    let dir = TempDir::new();
    let (dataset, to, all) = (dataset(&dir), dir.join("published"), dir.join(""));
    let (manifest, more) = (to.join("manifest.json"), dataset.join("ccu/2001-02-01.csv"));
    succeeds(&all, &dataset, &to, &[]);
    let first = fs::read_to_string(&manifest).unwrap();
    for before in [Some(&first), None] {
        write_file(&more, "code,peakCCU\n");
        succeeds(&all, &dataset, &to, &[]);
        match before {
            Some(first) => write_file(&manifest, first),
            None => fs::remove_file(&manifest).unwrap(),
        }
        fs::remove_file(&more).unwrap();
        succeeds(&all, &dataset, &to, &[]);
    }
    // Those of the publish before are.
    let day = files(&dataset.join("daily")).into_keys().next().unwrap();
    let (daily, aside) = (dataset.join("daily").join(&day), dir.join("aside"));
    fs::rename(&daily, &aside).unwrap();
    let want = format!("for {}; --force", day.trim_end_matches(".csv"));
    has(&is_refused(&all, &dataset, &to), &want);
    fs::rename(&aside, &daily).unwrap();
    // A manifest that is damaged may have named them.
    write_file(&more, "code,peakCCU\n");
    succeeds(&all, &dataset, &to, &[]);
    write_file(&manifest, "{");
    fs::remove_file(&more).unwrap();
    has(&is_refused(&all, &dataset, &to), "for 2001-02-01; --force");
}

#[test]
fn dumps_behind_a_link_are_written_again() {
    let dir = TempDir::new();
    let (dataset, to, all) = (dataset(&dir), dir.join("published"), dir.join(""));
    succeeds(&all, &dataset, &to, &[]);
    let dumps = to.join("dumps");
    let names: Vec<String> = files(&dumps).into_keys().collect();
    let one = dumps.join(&names[0]);
    for linked in [&dumps, &one] {
        let disk = dir.join("disk");
        fs::rename(linked, &disk).unwrap();
        symlink(&disk, linked).unwrap();
        succeeds(&all, &dataset, &to, &[]);
        let found: Vec<String> = files(&dumps).into_keys().collect();
        assert_eq!(found, names);
        assert!(!dumps.is_symlink() && !one.is_symlink());
        let _is_a_directory = fs::remove_file(&disk);
        let _is_a_file = fs::remove_dir_all(&disk);
    }
}

#[test]
fn a_target_in_the_dataset_is_refused_by_every_path() {
    let dir = TempDir::new();
    let (dataset, all) = (dataset(&dir), dir.join(""));
    symlink(&dataset, dir.join("link")).unwrap();
    symlink("dataset/daily", dir.join("deep")).unwrap();
    for to in words(
        "dataset dataset/ ./dataset dataset/published dataset/daily dataset/new/published \
         dataset/../dataset link link/published deep/new deep/.. deep/../published \
         missing/../dataset missing/../link/published missing/a/../../dataset/b/c",
    ) {
        for (from, to) in [
            (Path::new("dataset"), PathBuf::from(to)),
            (Path::new("link"), dir.join(to)),
        ] {
            let stderr = is_refused(&all, from, &to);
            assert!(stderr.contains("must be outside the dataset"), "{stderr}");
        }
    }
    assert!(!dir.join("missing").exists());
    // A folder of the dataset that is elsewhere.
    let (daily, elsewhere) = (dataset.join("daily"), dir.join("elsewhere"));
    fs::rename(&daily, &elsewhere).unwrap();
    symlink(&elsewhere, &daily).unwrap();
    for to in ["elsewhere", "elsewhere/published", "dataset/daily"] {
        let stderr = is_refused(&all, &dataset, Path::new(to));
        assert!(stderr.contains("must be outside the dataset"), "{stderr}");
    }
    fs::remove_file(&daily).unwrap();
    fs::rename(&elsewhere, &daily).unwrap();
    // Files of a publish would be among those of the dataset.
    let inside = dir.join("site/dumps");
    fs::create_dir(dir.join("site")).unwrap();
    fs::rename(&dataset, &inside).unwrap();
    let stderr = is_refused(&all, &inside, Path::new("site"));
    assert!(stderr.contains("must be outside the dataset"), "{stderr}");
    fs::rename(&inside, &dataset).unwrap();
    for to in words("dataset/../published dataset-published dataset/daily/../../other/deep .") {
        succeeds(&all, &dataset, Path::new(to), &[]);
    }
    assert!(dir.join("manifest.json").exists());
    // Twice, since the first publish creates the lock that the second takes.
    for _ in 0..2 {
        succeeds(&all, &dataset, &dataset, &["--force"]);
    }
    assert!(dataset.join("manifest.json").exists());
}

#[test]
fn a_file_of_another_program_is_not_replaced() {
    for (name, text) in [
        ("manifest.json", "{\"name\": \"app\", \"icons\": []}"),
        ("manifest.json", ""),
        (
            "manifest.json",
            "{\"history\": null, \"live\": null, \"dumps\": null}",
        ),
        ("sources.json", "[]"),
        ("dumps", "text"),
    ] {
        let dir = TempDir::new();
        let (dataset, to, all) = (dataset(&dir), dir.join("site"), dir.join(""));
        write_file(&to.join(name), text);
        write_file(&to.join("index.html"), "mine");
        let stderr = is_refused(&all, &dataset, &to);
        has(&stderr, &format!("site/{name}: the target"));
        succeeds(&all, &dataset, &to, &["--force"]);
        assert!(to.join("index.html").exists());
        succeeds(&all, &dataset, &to, &[]);
    }
}

#[test]
fn a_damaged_or_unfinished_publish_is_still_repaired() {
    let dir = TempDir::new();
    let (to, all) = (dir.join("published"), dir.join(""));
    let dataset = dir.join("dataset");
    let mut editions = Editions::begin(&dataset);
    for damage in ["{", "", "{\"version\": 9}"] {
        editions.turn(Change::All);
        succeeds(&all, &dataset, &to, &[]);
        write_file(&to.join("manifest.json"), damage);
        succeeds(&all, &dataset, &to, &[]);
    }
    // A first publish that was killed before its manifest.
    fs::remove_file(to.join("manifest.json")).unwrap();
    succeeds(&all, &dataset, &to, &[]);
}
