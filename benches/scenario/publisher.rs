//! Publishes as an operator does: the dataset changes, and `island-metrics publish` runs as a process
//! of low priority.

use std::process::Stdio;

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::Manifest;

use super::directory::{stray_dumps, strays};
use super::feed::Feed;
use super::versions::{Version, Versions};
use super::{Chore, POLL};
use crate::common::prelude::*;

/// Lower priority than the load, which has the same core; not the lowest, so that a publish ends.
const NICE: &str = "10";
/// Makes bash print the seconds of user and system time as the last line.
const TIMED: &str = r#"TIMEFORMAT="%3U %3S"; time "$0" "$@""#;

/// How often something is published.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// One in so many publishes has another history.
    pub(crate) history_every: usize,
}

pub(crate) struct Publish {
    pub(crate) has_history: bool,
    pub(crate) cpu_millis: f64,
    pub(crate) wall_millis: f64,
    pub(crate) ended: Instant,
    /// Checksum of the published history.
    pub(crate) history: u32,
}

pub(crate) struct Publisher {
    feed: Feed,
    pub(crate) versions: Versions,
    dataset: PathBuf,
    pub(crate) directory: PathBuf,
    before: Manifest,
    now: Manifest,
    pace: Pace,
    /// All publishes, by the number of their version.
    pub(crate) publishes: Vec<Publish>,
    /// Intervals that passed while a publish was running.
    pub(crate) missed: usize,
    pub(crate) faults: Vec<String>,
}

impl Publisher {
    /// Publishes the first version of the synthetic dataset in `scratch`.
    pub(crate) fn new(scratch: &Path, pace: Pace) -> Outcome<Publisher> {
        let dataset = scratch.join("dataset");
        let feed = Feed::new(&dataset, &scratch.join("unfinished"))?;
        let first = feed.version(true)?;
        let mut publisher = Publisher {
            feed,
            versions: Versions::default(),
            dataset,
            directory: scratch.join("published"),
            before: Manifest::default(),
            now: Manifest::default(),
            pace,
            publishes: Vec::new(),
            missed: 0,
            faults: Vec::new(),
        };
        publisher.publish(first)?;
        Ok(publisher)
    }

    /// Publishes at the intervals of its pace.
    pub(super) fn chore(&mut self) -> Chore<'_> {
        Chore::new("publish", self.pace.interval, move || self.next())
    }

    /// Publishes the next version: another history if it is its turn.
    fn next(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        let number = self.publishes.len();
        self.advance(number.is_multiple_of(self.pace.history_every))?;
        let intervals = begun.elapsed().as_secs_f64() / self.pace.interval.as_secs_f64();
        self.missed += intervals as usize;
        Ok(())
    }

    pub(crate) fn advance(&mut self, history: bool) -> Outcome<()> {
        let version = self.feed.advance(history)?;
        self.publish(version)
    }

    fn publish(&mut self, version: Version) -> Outcome<()> {
        let (stamp, has_history) = (version.stamp.clone(), version.has_history);
        let days = version.marks.days;
        let mut versions = self.versions.lock().expect("no thread panics with it");
        let loses_days = versions.last().is_some_and(|last| last.marks.days > days);
        versions.push(version);
        drop(versions);
        let mut publish = command("nice", None);
        publish.args(["-n", NICE, "bash", "-c", TIMED]);
        let mut inner = publish_command(&self.dataset, &self.directory, &stamp);
        if loses_days {
            inner.arg("--force");
        }
        publish.arg(inner.get_program()).args(inner.get_args());
        publish.env("LC_ALL", "C");
        // A file that is read within a tick of its last write is compared as changed the next time.
        thread::sleep(Duration::from_millis(25));
        let begun = Instant::now();
        let output = publish.stdin(Stdio::null()).output()?;
        let ended = Instant::now();
        let log = String::from_utf8(output.stderr)?;
        if !output.status.success() {
            return Err(format!("the publish of {stamp} failed: {log}").into());
        }
        let last = log.lines().last().ok_or("the shell printed no times")?;
        let seconds = last.split(' ').map(str::parse::<f64>);
        let cpu_seconds: f64 = seconds.sum::<Result<_, _>>()?;
        let now = Manifest::read(&Directory::open(&self.directory)?)?.ok_or("no manifest")?;
        self.before = std::mem::replace(&mut self.now, now);
        self.check(&stamp, has_history, &log)?;
        let history = self.now.history.as_ref().ok_or("no history")?;
        self.publishes.push(Publish {
            has_history,
            cpu_millis: cpu_seconds * 1000.0,
            wall_millis: (ended - begun).as_secs_f64() * 1000.0,
            ended,
            history: u32::from_str_radix(&history.checksum, 16)?,
        });
        Ok(())
    }

    /// Checks what has been published, before the next publish.
    fn check(&mut self, stamp: &str, has_history: bool, log: &str) -> Outcome<()> {
        for stray in strays(&self.directory, &self.before, &self.now)? {
            let fault = format!("after the publish of {stamp} {stray}");
            self.faults.push(fault);
        }
        let is_kept = self.now.history == self.before.history;
        if is_kept == has_history {
            let found = if is_kept { "kept" } else { "rendered" };
            let fault = format!("{stamp}: the history is {found}: {log}");
            self.faults.push(fault);
        }
        let is_complete = log.lines().any(|line| line.starts_with("published "));
        if !is_complete || log.contains("was not removed") {
            self.faults.push(format!("{stamp}: publish logs: {log}"));
        }
        Ok(())
    }

    pub(crate) fn check_dumps(&mut self) -> Outcome<()> {
        let found = stray_dumps(&self.directory, &self.before, &self.now)?;
        self.faults.extend(found);
        Ok(())
    }

    /// Waits until the server serves the last publish.
    pub(crate) fn settle(&self, address: SocketAddr) -> Outcome<()> {
        let last = self.now.live.as_ref().ok_or("no live payload")?;
        wait_served(address, &last.generated_at)
    }
}

/// Waits until `/v1` contains `stamp`.
pub(crate) fn wait_served(address: SocketAddr, stamp: &str) -> Outcome<()> {
    let served = || Ok(text(address, "/v1")?.contains(stamp).then_some(()));
    let served = wait_for(STALL, POLL, served)?;
    served.ok_or_else(|| "a publish was not loaded".into())
}
