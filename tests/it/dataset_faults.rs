//! Datasets with faults: the messages of `check` and `publish`, their order, and bounded time.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::midnight;
use crate::processes::stderr_of;
use crate::support::{TempDir, command, run, write_file};

const HEADER: &str = "code,title,creator,createdIn,tags\n";

/// Rows of islands.csv, one a line from line 2 on.
fn islands(count: u32) -> Vec<String> {
    (0..count)
        .map(|number| format!("1000-0000-{number:04},Island {number},epic,uefn,pvp\n"))
        .collect()
}

fn write_islands(dataset: &Path, rows: &[String]) {
    let text = format!("{HEADER}{}", rows.concat());
    write_file(&dataset.join("islands.csv"), &text);
}

/// A file with a peak for each of these islands.
fn write_day(dataset: &Path, name: &str, count: u32) {
    let mut text = "code,peakCCU\n".to_owned();
    for number in 0..count {
        writeln!(text, "1000-0000-{number:04},7").unwrap();
    }
    write_file(&dataset.join(name), &text);
}

/// The lines of `check` about a dataset with faults; the first has their number.
#[track_caller]
fn faults(check: &mut Command, dataset: &Path) -> Vec<String> {
    let output = check.arg("check").arg("--dataset").arg(dataset);
    let output = output.output().unwrap();
    let stderr = stderr_of(&output, 65);
    stderr.lines().map(str::to_owned).collect()
}

#[test]
fn rows_that_a_stray_quote_swallows_are_not_lost_in_silence() {
    let dir = TempDir::new();
    let mut rows = islands(2000);
    rows[700] = "1000-0000-0700,\"Stray,epic,uefn,pvp\n".to_owned();
    // The next quote is fifteen rows later, at the end of a title.
    rows[715] = "1000-0000-0715,The Pit\",epic,uefn,pvp\n".to_owned();
    write_islands(&dir.join("dataset"), &rows);
    let stderr = faults(&mut command(), &dir.join("dataset"));
    assert_eq!(stderr.len(), 2, "{stderr:?}");
    assert!(
        stderr[1].starts_with("islands.csv:702:2: title "),
        "{stderr:?}"
    );
    assert!(stderr[1].contains("stray quote"), "{stderr:?}");
}

#[test]
fn a_title_of_300_megabytes_takes_neither_memory_nor_time() {
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    write_islands(&dataset, &["1000-0000-0000,\"".to_owned()]);
    let file = dataset.join("islands.csv");
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    // A sparse file of zeros.
    file.set_len(300_000_000).unwrap();
    let mut bounded = Command::new("sh");
    let limit = "ulimit -v 1000000; exec \"$0\" \"$@\"";
    bounded.args(["-c", limit]).arg(command().get_program());
    let begun = Instant::now();
    let stderr = faults(&mut bounded, &dataset);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let want = "islands.csv:2:2: title must be at most 1024 bytes";
    assert!(
        stderr.len() == 2 && stderr[1].starts_with(want),
        "{stderr:?}"
    );
}

#[test]
fn faults_of_islands_come_first_and_what_follows_from_them_is_one_line_a_file() {
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    let mut rows = islands(300);
    for row in &mut rows[..200] {
        row.replace_range(4..5, "_");
    }
    write_islands(&dataset, &rows);
    for day in 1..=20 {
        write_day(&dataset, &format!("ccu/2026-10-{day:02}.csv"), 250);
    }
    write_file(&dataset.join("creators.csv"), "slug\na/b\n");
    let stderr = faults(&mut command(), &dataset);
    assert_eq!(stderr[0], "island-metrics: the dataset has 221 faults");
    assert!(stderr[1].starts_with("islands.csv:2:1: code"), "{stderr:?}");
    let listed = |file: &str| stderr.iter().filter(|line| line.starts_with(file)).count();
    assert_eq!(
        (listed("creators.csv:2:1"), listed("islands.csv:")),
        (1, 99)
    );
    assert_eq!(stderr.last().unwrap(), "… and 121 more");
    // With few faults of islands, a line for each day has the number of rows affected.
    for row in &mut rows[3..200] {
        row.replace_range(4..5, "-");
    }
    write_islands(&dataset, &rows);
    let stderr = faults(&mut command(), &dataset);
    let days = stderr.iter().filter(|line| {
        line.starts_with("ccu/2026-10-")
            && line.contains("rows with other codes: 3, the first on line 2;")
    });
    assert_eq!(
        (stderr.len(), days.count()),
        (1 + 3 + 1 + 20, 20),
        "{stderr:?}"
    );
}

#[test]
fn a_few_faults_of_each_file_are_listed_before_many_of_one() {
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    write_islands(&dataset, &islands(10));
    write_day(&dataset, "ccu/2026-10-01.csv", 500);
    write_file(
        &dataset.join("live/600.csv"),
        "code,players\n1000-0000-0000,x\n",
    );
    let stderr = faults(&mut command(), &dataset);
    let live = stderr
        .iter()
        .filter(|line| line.starts_with("live/600.csv:2:2"));
    assert_eq!((stderr.len(), live.count()), (102, 1), "{stderr:?}");
}

#[test]
fn a_refused_publish_reports_it_last_and_reports_nothing_as_rendered() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    write_islands(&dataset, &islands(10));
    write_day(&dataset, "ccu/2026-10-01.csv", 11);
    let mut words = vec!["publish", "--dataset", dataset.to_str().unwrap()];
    words.extend(["--to", to.to_str().unwrap()]);
    let refused = |words: &[&str]| {
        let output = run(words);
        let stderr = stderr_of(&output, 65);
        assert!(!stderr.contains("rendered"), "{stderr}");
        assert!(stderr.ends_with("\nnothing was published\n"), "{stderr}");
    };
    refused(&words);
    assert!(!to.join("manifest.json").exists());
    write_day(&dataset, "ccu/2026-10-01.csv", 10);
    let output = run(&words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("rendered") && !stderr.ends_with("nothing was published\n"),
        "{stderr}"
    );
    // An older timestamp is refused too.
    refused(&[&words[..], &["--generated-at", "2020-01-01T00:00:00Z"]].concat());
}

#[test]
fn a_header_with_semicolons_is_one_fault_that_shows_it() {
    let dir = TempDir::new();
    let text = HEADER.replace(',', ";");
    write_file(&dir.join("dataset/islands.csv"), &text);
    let stderr = faults(&mut command(), &dir.join("dataset"));
    let want = "islands.csv:1: columns not found: code, title, creator, createdIn, tags; the header is \
                \"code;title;creator;createdIn;tags\"; fields must be separated by commas, not semicolons";
    assert_eq!(stderr[1..], [want]);
}

#[test]
fn a_day_or_step_later_than_tomorrow_is_a_fault_by_the_machines_clock() {
    let Some(library) = midnight::library() else {
        return;
    };
    let at = |moment: &str| {
        let mut faked = command();
        faked
            .env("LD_PRELOAD", library)
            .env("FAKETIME", moment)
            .env("TZ", "UTC");
        faked
    };
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    write_islands(&dataset, &islands(1));
    write_day(&dataset, "ccu/2026-11-21.csv", 1);
    let step = "code,players\n1000-0000-0000,1\n";
    // 2026-11-21T23:50:00Z
    write_file(&dataset.join("live/1795305000.csv"), step);
    write_file(
        &dataset.join("platform.csv"),
        "time,players\n1795305000,1\n",
    );
    let midnight = "2026-11-20 00:00:01";
    let check = |moment: &str| {
        at(moment)
            .args(["check", "--dataset"])
            .arg(&dataset)
            .output()
    };
    let sound = check(midnight).unwrap();
    assert_eq!(sound.status.code(), Some(0), "{sound:?}");

    let stderr = faults(&mut at("2026-11-19 23:59:58"), &dataset);
    let today = "today is 2026-11-19 (UTC)";
    for (line, file) in stderr[1..].iter().zip([
        "ccu/2026-11-21.csv:",
        "live/1795305000.csv:",
        "platform.csv:2:1:",
    ]) {
        assert!(
            line.starts_with(file) && line.ends_with(today),
            "{stderr:?}"
        );
    }
    assert_eq!(stderr.len(), 4, "{stderr:?}");
    // A stray file of a far day would be the latest day, whatever `--generated-at` is.
    let to = dir.join("published");
    write_file(&dataset.join("daily/9999-12-31.csv"), "code\n");
    let mut publish = at(midnight);
    publish.args([
        "publish",
        "--generated-at",
        "9999-01-01T00:00:00Z",
        "--dataset",
    ]);
    let output = publish.arg(&dataset).arg("--to").arg(&to).output().unwrap();
    let stderr = stderr_of(&output, 65);
    assert!(
        stderr.contains("daily/9999-12-31.csv: the day must be"),
        "{stderr}"
    );
}

#[test]
fn what_synth_makes_is_sound_on_any_day_from_its_last_one_on() {
    let Some(library) = midnight::library() else {
        return;
    };
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    let sizes = [
        "--islands",
        "20",
        "--creators",
        "5",
        "--days",
        "2",
        "--seed",
        "1",
    ];
    let made = command()
        .arg("synth")
        .args(sizes)
        .arg("--to")
        .arg(&dataset)
        .output();
    assert_eq!(made.unwrap().status.code(), Some(0));
    for moment in ["2026-11-20 00:00:01", "2099-12-31 23:59:59"] {
        let mut check = command();
        check
            .env("LD_PRELOAD", library)
            .env("FAKETIME", moment)
            .env("TZ", "UTC");
        let output = check
            .args(["check", "--dataset"])
            .arg(&dataset)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{moment}: {output:?}");
    }
}
