//! Publishing as an operator does: the dataset changes, and `island-metrics publish` runs, a process of
//! low priority, again and again while something else goes on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::Manifest;

use crate::common::http::found;
use crate::common::judged::directory::{stray_dumps, strays};
use crate::common::judged::feed::Feed;
use crate::common::judged::ledger::{Ledger, Version};
use crate::common::process::command;
use crate::common::{BINARY, Outcome, STALL};

/// Below the load, which has the same core; not the lowest, for a publish has to come to its end.
const NICE: &str = "10";
/// Has the shell tell the seconds of user and system time on the last line.
const TIMED: &str = r#"TIMEFORMAT="%3U %3S"; time "$0" "$@""#;
/// How long the publisher sleeps at most, so that it ends soon when it is to.
const NAP: Duration = Duration::from_millis(20);

/// How often something is published.
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// One in so many publishes has another history.
    pub(crate) history_every: usize,
}

/// One publish, done.
pub(crate) struct Refresh {
    pub(crate) has_history: bool,
    pub(crate) cpu_millis: f64,
    pub(crate) wall_millis: f64,
    pub(crate) ended: Instant,
    /// The checksum of the history that was published.
    pub(crate) history: String,
}

pub(crate) struct Publisher {
    feed: Feed,
    ledger: Ledger,
    dataset: PathBuf,
    directory: PathBuf,
    before: Manifest,
    now: Manifest,
    /// All publishes, by the number of their version.
    pub(crate) refreshes: Vec<Refresh>,
    /// Beats at which the publish before was still at work.
    pub(crate) missed: usize,
    /// What publishing did wrong.
    pub(crate) faults: Vec<String>,
    /// Publishes since another history.
    turns: usize,
}

impl Publisher {
    /// Makes the first publish.
    pub(crate) fn new(
        feed: Feed,
        ledger: Ledger,
        dataset: &Path,
        directory: &Path,
    ) -> Outcome<Publisher> {
        let first = feed.first()?;
        let mut publisher = Publisher {
            feed,
            ledger,
            dataset: dataset.to_owned(),
            directory: directory.to_owned(),
            before: Manifest::default(),
            now: Manifest::default(),
            refreshes: Vec::new(),
            missed: 0,
            faults: Vec::new(),
            turns: 0,
        };
        publisher.publish(first)?;
        Ok(publisher)
    }

    /// Changes the dataset and publishes it.
    pub(crate) fn refresh(&mut self, history: bool) -> Outcome<()> {
        let version = self.feed.go_on(history)?;
        self.publish(version)
    }

    fn publish(&mut self, version: Version) -> Outcome<()> {
        let (stamp, has_history) = (version.stamp.clone(), version.has_history);
        self.ledger.enter(version);
        let mut publish = command("nice", None);
        publish.args(["-n", NICE, "bash", "-c", TIMED, BINARY, "publish"]);
        publish.arg("--dataset").arg(&self.dataset);
        publish.arg("--to").arg(&self.directory);
        publish.args(["--generated-at", &stamp]).env("LC_ALL", "C");
        let begun = Instant::now();
        let output = publish.stdin(Stdio::null()).output()?;
        let ended = Instant::now();
        let said = String::from_utf8(output.stderr)?;
        if !output.status.success() {
            return Err(format!("the publish of {stamp} failed: {said}").into());
        }
        let last = said.lines().last().ok_or("the shell told no times")?;
        let seconds = last.split(' ').map(str::parse::<f64>);
        let cpu_seconds: f64 = seconds.sum::<Result<_, _>>()?;
        let now = Manifest::read(&Directory::open(&self.directory)?)?.ok_or("no manifest")?;
        self.before = std::mem::replace(&mut self.now, now);
        self.look(&stamp, has_history, &said)?;
        let history = self.now.history.as_ref().ok_or("no history")?;
        self.refreshes.push(Refresh {
            has_history,
            cpu_millis: cpu_seconds * 1000.0,
            wall_millis: (ended - begun).as_secs_f64() * 1000.0,
            ended,
            history: history.checksum.clone(),
        });
        Ok(())
    }

    /// Looks at what has been published, while nobody publishes.
    fn look(&mut self, stamp: &str, has_history: bool, said: &str) -> Outcome<()> {
        let found = strays(&self.directory, &self.before, &self.now)?;
        let found = found
            .into_iter()
            .map(|stray| format!("after the publish of {stamp} {stray}"));
        self.faults.extend(found);
        let is_kept = self.now.history == self.before.history;
        if is_kept == has_history {
            self.faults.push(format!(
                "{stamp}: the history is {}: {said}",
                if is_kept { "kept" } else { "rendered" }
            ));
        }
        let is_whole = said.lines().any(|line| line.starts_with("published "));
        if !is_whole || said.contains("was not removed") {
            self.faults.push(format!("{stamp}: publish says: {said}"));
        }
        Ok(())
    }

    /// Looks at the files of the dumps too.
    pub(crate) fn look_deep(&mut self) -> Outcome<()> {
        let found = stray_dumps(&self.directory, &self.before, &self.now)?;
        self.faults.extend(found);
        Ok(())
    }

    /// Waits until what was published last is served.
    pub(crate) fn settle(&self, address: SocketAddr) -> Outcome<()> {
        let last = self.now.live.as_ref().ok_or("no live payload")?;
        let begun = Instant::now();
        loop {
            let index = found(address, "/v1")?;
            if String::from_utf8_lossy(&index.body).contains(&last.generated_at) {
                return Ok(());
            }
            if begun.elapsed() > STALL {
                return Err("a publish was not taken in".into());
            }
            thread::sleep(NAP);
        }
    }

    /// Publishes at its pace while something else goes on in this thread.
    pub(crate) fn during<T>(&mut self, pace: &Pace, body: impl FnOnce() -> T) -> Outcome<T> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let publishing = scope.spawn(|| {
                self.keep_on(pace, &is_over)
                    .map_err(|error| error.to_string())
            });
            let ending = Ending(&is_over);
            let outcome = body();
            drop(ending);
            publishing.join().map_err(|_| "the publisher panicked")??;
            Ok(outcome)
        })
    }

    fn keep_on(&mut self, pace: &Pace, is_over: &AtomicBool) -> Outcome<()> {
        let begun = Instant::now();
        let mut due = Duration::ZERO;
        while !is_over.load(Ordering::Relaxed) {
            let early = due.saturating_sub(begun.elapsed());
            if !early.is_zero() {
                thread::sleep(early.min(NAP));
                continue;
            }
            self.turns += 1;
            self.refresh(self.turns.is_multiple_of(pace.history_every))?;
            due += pace.interval;
            while due < begun.elapsed() {
                due += pace.interval;
                self.missed += 1;
            }
        }
        Ok(())
    }
}

/// Ends publishing when dropped, also by a panic.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
