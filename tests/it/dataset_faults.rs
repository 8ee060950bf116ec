//! Datasets with faults: the messages of `check` and `publish`, their order, and bounded time.

use std::os::unix::fs::symlink;

use crate::cli::table;
use crate::midnight;
use crate::prelude::*;

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
fn a_file_that_cannot_be_read_hides_no_faults_of_others() {
    let dir = TempDir::new();
    let dataset = dir.join("dataset");
    write_islands(&dataset, &["1000-0000-0000,A,,,".to_owned()]);
    let unreadable = ["notice.txt", "daily/2026-11-18.csv", "ccu/2026-11-20.csv"];
    for name in unreadable {
        fs::create_dir_all(dataset.join(name)).unwrap();
    }
    let check = || run(&["check", "--dataset", dataset.to_str().unwrap()]);
    let is_named = |stderr: &str, part: &str| {
        let found = stderr.lines().filter(|line| line.starts_with(part));
        assert_eq!(found.count(), 1, "{part}: {stderr}");
    };
    let stderr = stderr_of(&check(), 74);
    for name in unreadable {
        is_named(
            &stderr,
            &format!("{name}: the file must be readable, got: "),
        );
    }
    for day in ["ccu/2026-11-18.csv", "ccu/2026-11-19.csv"] {
        write_file(
            &dataset.join(day),
            &"1000-0000-0000,x\n"
                .repeat(150)
                .replacen('1', "code,peakCCU\n1", 1),
        );
    }
    let stderr = stderr_of(&check(), 65);
    for name in unreadable {
        is_named(
            &stderr,
            &format!("{name}: the file must be readable, got: "),
        );
    }
    is_named(&stderr, "ccu/2026-11-18.csv:2:2: ");
    is_named(&stderr, "ccu/2026-11-19.csv:2:2: ");
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
    let begun = Stopwatch::start();
    let stderr = faults(&mut after("ulimit -v 1000000"), &dataset);
    assert!(begun.running() < Duration::from_secs(5));
    let want = "islands.csv:2:2: title must be at most 1024 bytes";
    assert!(
        stderr.len() == 2 && stderr[1].starts_with(want),
        "{stderr:?}"
    );
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
    let stderr = stderr_of(&run(&words), 0);
    assert!(
        stderr.contains("rendered") && !stderr.ends_with("nothing was published\n"),
        "{stderr}"
    );
    // What was published stays, also for an older timestamp.
    let before = files(&to);
    refused(&[&words[..], &["--generated-at", "2020-01-01T00:00:00Z"]].concat());
    for time in ["9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "yesterday"] {
        let output = run(&[&words[..], &["--generated-at", time]].concat());
        let want = format!(
            "a timestamp from 1970 to 9999-12-30, such as 2026-11-20T12:05:00Z, got \"{time}\""
        );
        has(&stderr_of(&output, 64), &want);
    }
    write_day(&dataset, "ccu/2026-10-01.csv", 11);
    refused(&words);
    assert!(files(&to) == before, "the directory has changed");
}

#[test]
fn a_link_to_a_missing_file_or_folder_is_named_and_is_no_absent_one() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    let whole = |name: &str| match name {
        "islands.csv" => write_islands(&dataset, &islands(2)),
        "creators.csv" => write_file(&dataset.join(name), "slug\nepic\n"),
        "platform.csv" => write_file(&dataset.join(name), "time,players\n600,1\n"),
        _ => write_day(&dataset, name, 2),
    };
    let names = words("islands.csv creators.csv platform.csv ccu/2026-10-01.csv");
    for name in &names {
        whole(name);
    }
    for name in names.into_iter().chain(["ccu", "daily", "live"]) {
        let (path, aside) = (dataset.join(name), dir.join("aside"));
        let is_there = path.exists();
        if is_there {
            fs::rename(&path, &aside).unwrap();
        }
        symlink("/nowhere/disk", &path).unwrap();
        let want = "is a symbolic link to /nowhere/disk, which does not exist";
        let (dataset, to) = (dataset.to_str().unwrap(), to.to_str().unwrap());
        for words in [
            &["check", "--dataset", dataset][..],
            &["publish", "--dataset", dataset, "--to", to],
        ] {
            let stderr = stderr_of(&run(words), 74);
            assert!(
                stderr.contains(name) && stderr.contains(want),
                "{name}: {stderr}"
            );
        }
        fs::remove_file(&path).unwrap();
        if is_there {
            fs::rename(&aside, &path).unwrap();
        }
        assert_eq!(run(&["check", "--dataset", dataset]).status.code(), Some(0));
    }
}

#[test]
fn a_day_or_step_later_than_tomorrow_is_a_fault_by_the_machines_clock() {
    let Some(library) = midnight::library() else {
        return;
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
    let sound = at(library, midnight, &["check", "--dataset"], &dataset);
    assert_eq!(sound.status.code(), Some(0), "{sound:?}");

    let stderr = faults(&mut clock_at(library, "2026-11-19 23:59:58"), &dataset);
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
    let mut publish = clock_at(library, midnight);
    publish.args(words(
        "publish --generated-at 9999-01-01T00:00:00Z --dataset",
    ));
    let output = publish.arg(&dataset).arg("--to").arg(&to).output().unwrap();
    let stderr = stderr_of(&output, 65);
    has(&stderr, "daily/9999-12-31.csv: the day must be");
}

/// Arguments of `synth`, a time, and the message.
const REFUSED: &str = "
--until 2026-11-21 | 2026-11-20 23:59:50 | to today by this machine's clock
--until 2016-12-31 | 2026-11-20 12:00:00 | a day from 2017-01-01
--until 2026-11-31 | 2026-12-20 12:00:00 | a day from 2017-01-01
--rows 10000001 | 2026-12-20 12:00:00 | an integer from 0 to 10000000
--seed 1 | 1970-01-02 00:00:00 | this machine's clock shows 1970-01-02; set the clock
";

/// The output of a command at a time of a clock that is not the machine's.
fn at(library: &str, moment: &str, words: &[&str], directory: &Path) -> Output {
    let mut command = clock_at(library, moment);
    command.args(words).arg(directory).output().unwrap()
}

fn clock_at(library: &str, moment: &str) -> Command {
    let mut command = command();
    command.env("LD_PRELOAD", library);
    command.env("FAKETIME", moment).env("TZ", "UTC");
    command
}

#[test]
fn what_synth_makes_is_sound_on_any_day_from_its_last_one_on() {
    let Some(library) = midnight::library() else {
        return;
    };
    let sizes = "synth --islands 20 --creators 5 --days 2 --long-run-days 3";
    let check = ["check", "--dataset"];
    let make = |until: &str, moment: &str| {
        let directory = TempDir::new();
        let words: Vec<&str> = sizes.split(' ').chain(until.split_whitespace()).collect();
        let words = [&words[..], &["--to"]].concat();
        let made = at(library, moment, &words, &directory.join("dataset"));
        (directory, made)
    };
    let mut series = Vec::new();
    for (until, moment, last) in [
        ("--until 2026-11-20", "2026-11-20 00:00:01", "2026-11-20"),
        ("--until 2026-11-20", "2099-12-31 23:59:59", "2026-11-20"),
        ("--until 2017-01-01", "2017-01-01 00:00:01", "2017-01-01"),
        ("", "2026-11-20 00:00:01", "2026-11-19"),
        ("", "2026-11-20 23:59:50", "2026-11-19"),
        ("", "2017-01-02 12:00:00", "2017-01-01"),
    ] {
        let (directory, output) = make(until, moment);
        assert_eq!(output.status.code(), Some(0), "{moment}: {output:?}");
        let dataset = directory.join("dataset");
        assert!(dataset.join(format!("daily/{last}.csv")).exists(), "{last}");
        assert_eq!(fs::read_dir(dataset.join("daily")).unwrap().count(), 2);
        for moment in [moment, "2099-12-31 23:59:59"] {
            let output = at(library, moment, &check, &dataset);
            assert_eq!(output.status.code(), Some(0), "{moment}: {output:?}");
        }
        series.push(fs::read_to_string(dataset.join("platform.csv")).unwrap());
    }
    assert_eq!(series[0], series[1]);
    // Without --until, the newest step is the last full one.
    for (at, newest) in [(0, "1795262400,"), (3, "1795132800,"), (4, "1795218600,")] {
        let last = series[at].lines().last().unwrap();
        assert!(last.starts_with(newest), "{last}");
    }
    for (until, rest) in table(REFUSED) {
        let (moment, message) = rest.split_once(" | ").unwrap();
        let (directory, output) = make(until, moment);
        let stderr = stderr_of(&output, 64);
        assert!(stderr.contains(message), "{stderr}");
        assert!(!directory.join("dataset").exists(), "{until}");
    }
}

#[test]
fn what_is_probably_a_mistake_is_a_warning_and_with_strict_a_fault() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    write_islands(&dataset, &islands(10));
    write_day(&dataset, "ccu/2026-10-01.csv", 10);
    let (from, to) = (dataset.to_str().unwrap(), to.to_str().unwrap());
    let check = ["check", "--dataset", from];
    let publish = ["publish", "--dataset", from, "--to", to];
    let lines = |words: &[&str], code| -> Vec<String> {
        let stderr = stderr_of(&run(words), code);
        stderr.lines().map(str::to_owned).collect()
    };
    let strict = |words: &[&str], code| lines(&[words, &["--strict"]].concat(), code);
    for words in [&check[..], &publish] {
        let found = strict(words, 0);
        assert!(!found.concat().contains("warning"), "{found:?}");
    }
    let mistakes = [
        ("ccu/2026-10-02.CSV", "ccu/2026-10-02.CSV: "),
        ("creators.csv", "creators.csv:1:2: "),
        ("daily/2026-10-03.csv.gz", "daily/2026-10-03.csv.gz: "),
        ("days/2026-10-04.csv", "days/2026-10-04.csv: "),
        (
            "live/1795262400.csv",
            "live/1795262400.csv: the last line must end",
        ),
    ];
    for (name, _) in mistakes {
        let text = match name {
            "creators.csv" => "slug,Followers\nepic,5\n",
            _ => "code,players\n1000-0000-0000,7",
        };
        write_file(&dataset.join(name), text);
    }
    // The second publish reads no file again, and has the same warnings.
    for words in [&check[..], &publish, &publish] {
        let found = lines(words, 0);
        for (line, (_, want)) in found.iter().zip(mistakes) {
            assert!(line.starts_with(&format!("warning: {want}")), "{found:?}");
        }
        let count = found.iter().filter(|line| line.starts_with("warning: "));
        assert_eq!(count.count(), mistakes.len(), "{found:?}");
    }
    for words in [&check[..], &publish] {
        let found = strict(words, 65);
        assert_eq!(found[0], "island-metrics: the dataset has 5 faults");
        for (line, (_, want)) in found[1..].iter().zip(mistakes) {
            assert!(line.starts_with(want), "{found:?}");
        }
    }
    // A fault beside them is in the same list; without `--strict`, `check` reports it alone.
    write_file(&dataset.join("daily/2026-11-1.csv"), "");
    assert_eq!(strict(&check, 65).len(), 7);
    assert_eq!(lines(&check, 65).len(), 2);
}
