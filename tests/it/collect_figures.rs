//! Figures of a collector of the real size, printed with `--nocapture`. With `IM_TEST_SLOW` only, that of memory with `IM_TEST_SLOW=all`.
//!
//! ```text
//! IM_TEST_SLOW=all cargo test --release --features collect --test it -- collect_figures --nocapture --test-threads 1
//! ```

use crate::collect::{arguments, assert_sound, daily_requests, once, paths};
use crate::fake_upstream::{FakeUpstream, code};
use crate::prelude::*;
use crate::processes::figure;

const ISLANDS: u64 = 300_000;

/// The user and system time of a process.
fn cpu(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // The kernel counts in hundredths of a second.
    Duration::from_millis(ticks * 10)
}

/// A catalogue of the real size, with titles and tags of the usual lengths.
fn catalogue() -> String {
    let mut text = "code,title,creator,createdIn,tags\n".to_owned();
    for number in 0..ISLANDS {
        let code = code(number);
        let title = "The island of the day".get(..10 + usize::try_from(number % 11).unwrap());
        let title = title.unwrap_or_default();
        let creator = number % 100_000;
        let tags = "just for fun|free for all|pvp|1v1";
        writeln!(
            text,
            "{code},{title} {number},creator-{creator},uefn,{tags}"
        )
        .unwrap();
    }
    text
}

#[test]
#[expect(clippy::print_stderr, reason = "figures")]
fn memory_and_cpu_at_the_real_size() {
    if !is_slowest() {
        return;
    }
    let directory = TempDir::new();
    let paths = paths(&directory);
    write_file(&directory.join("dataset/islands.csv"), &catalogue());
    let upstream = FakeUpstream::start(ISLANDS, |_| None);
    let url = upstream.url();
    let start = |rate: &str| {
        let mut command = command();
        let mut words = arguments(&paths, &url, &[]);
        let at = words.iter().position(|word| *word == "200").unwrap();
        words[at] = rate;
        let child = command.args(words).stderr(Stdio::null()).spawn();
        Running(child.unwrap())
    };
    // The whole catalogue, and the days of some thousand islands with a merge.
    let first = start("1000");
    wait_within(Duration::from_mins(5), "10,000 requests for days", || {
        thread::sleep(Duration::from_millis(500));
        daily_requests(&upstream) >= 10_000
    });
    let first_kib = figure(first.0.id(), "status", "VmHWM:");
    eprintln!(
        "memory, a cold start of {ISLANDS} islands: {} MiB at most",
        first_kib >> 10
    );
    drop(first);
    // Started again, at the pace for the real upstream.
    let second = start("3");
    thread::sleep(Duration::from_secs(30));
    let (before, at) = (cpu(second.0.id()), Instant::now());
    thread::sleep(Duration::from_mins(1));
    let share =
        (cpu(second.0.id()).as_secs_f64() - before.as_secs_f64()) / at.elapsed().as_secs_f64();
    let second_kib = figure(second.0.id(), "status", "VmHWM:");
    eprintln!("memory, started again: {} MiB at most", second_kib >> 10);
    eprintln!(
        "CPU at 3 requests per second: {:.2} % of a core",
        share * 100.0
    );
    assert!(
        first_kib.max(second_kib) <= 150 << 10,
        "{first_kib} {second_kib} KiB"
    );
    assert!(share <= 0.02, "{share}");
}

#[test]
#[expect(clippy::print_stderr, reason = "figures")]
fn cold_start_of_3000_islands() {
    if !is_slow() {
        return;
    }
    let directory = TempDir::new();
    let paths = paths(&directory);
    let upstream = FakeUpstream::start(3_000, |_| None);
    let begun = Stopwatch::start();
    assert!(once(&paths, &upstream).status.success());
    let time = begun.running();
    eprintln!(
        "cold start of 3,000 islands at --rate 200: {:.1} s",
        time.as_secs_f64()
    );
    assert_sound(&paths);
    upstream.assert_polite(200.0);
    assert!(time <= Duration::from_mins(1), "{time:?}");
}
