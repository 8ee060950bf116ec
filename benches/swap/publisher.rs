//! Publishing over and over: two versions, prepared beforehand, are put in place in turn the way
//! `publish` does it: payload files first, the manifest renamed over the old one last, then what
//! neither names removed.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::Manifest;

use crate::common::http::{Captured, found};
use crate::common::world::{self, Size};
use crate::common::{Outcome, STALL};
use crate::versions::Expected;

/// When the two versions say they were made.
const STAMPS: [&str; 2] = ["2026-11-21T12:05:00Z", "2026-11-21T12:15:00Z"];

pub(crate) struct Publisher {
    prepared: [PathBuf; 2],
    served: PathBuf,
    published: usize,
}

impl Publisher {
    /// Makes both versions. They have the same islands, but the last two days are exchanged, so
    /// that rows of one version in a page of the other would show.
    pub(crate) fn prepare(scratch: &Path, size: Size) -> Outcome<Publisher> {
        let dataset = scratch.join("dataset");
        let prepared = ["first", "second"].map(|name| scratch.join(name));
        world::synthesize(&dataset, size)?;
        world::publish(&dataset, &prepared[0], STAMPS[0])?;
        let mut days = Vec::new();
        for entry in fs::read_dir(dataset.join("daily"))? {
            days.push(entry?.path());
        }
        days.sort();
        let [.., before, last] = &days[..] else {
            return Err("want two days".into());
        };
        let aside = dataset.join("aside");
        fs::rename(last, &aside)?;
        fs::rename(before, last)?;
        fs::rename(&aside, before)?;
        world::publish(&dataset, &prepared[1], STAMPS[1])?;
        fs::remove_dir_all(&dataset)?;
        let served = scratch.join("served");
        fs::create_dir(&served)?;
        let mut publisher = Publisher {
            prepared,
            served,
            published: 0,
        };
        publisher.publish()?;
        Ok(publisher)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.served
    }

    /// How often something has been published.
    pub(crate) fn published(&self) -> usize {
        self.published
    }

    /// Puts the version that is not there in place of the other.
    pub(crate) fn publish(&mut self) -> Outcome<()> {
        let from = &self.prepared[self.published % 2];
        let before = payloads(&self.served)?;
        let now = payloads(from)?;
        for name in &now {
            let place = self.served.join(name);
            if !place.exists() {
                fs::hard_link(from.join(name), place)?;
            }
        }
        let unfinished = self.served.join("manifest.unfinished");
        fs::copy(from.join(Manifest::FILE), &unfinished)?;
        fs::rename(&unfinished, self.served.join(Manifest::FILE))?;
        for entry in fs::read_dir(&self.served)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let kept = before.contains(&name) || now.contains(&name) || name == Manifest::FILE;
            if !kept {
                fs::remove_file(self.served.join(name))?;
            }
        }
        self.published += 1;
        Ok(())
    }

    /// What the server answers in each version, taken while nothing else goes on.
    pub(crate) fn expected(
        &mut self,
        address: SocketAddr,
        targets: &[String],
    ) -> Outcome<Expected> {
        let mut versions: Vec<Vec<Captured>> = Vec::new();
        for version in 0..2 {
            self.settle(address)?;
            let answers = targets.iter().map(|target| found(address, target));
            versions.push(answers.collect::<Outcome<_>>()?);
            if version == 0 {
                self.publish()?;
            }
        }
        let second = versions.pop().ok_or("no second version")?;
        let first = versions.pop().ok_or("no first version")?;
        Expected::new(targets, first, second)
    }

    /// Waits until what was published last is served.
    pub(crate) fn settle(&self, address: SocketAddr) -> Outcome<()> {
        let stamp = STAMPS[(self.published + 1) % 2];
        let begun = Instant::now();
        loop {
            let index = found(address, "/v1")?;
            if String::from_utf8_lossy(&index.body).contains(stamp) {
                return Ok(());
            }
            if begun.elapsed() > STALL {
                return Err("a publish was not taken in".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Publishes at intervals while something else goes on in this thread.
    pub(crate) fn during<T>(
        &mut self,
        interval: Duration,
        run: Duration,
        body: impl FnOnce() -> T,
    ) -> Outcome<T> {
        thread::scope(|scope| {
            let publishing = scope.spawn(|| {
                let begun = Instant::now();
                // The last early enough to be taken in within the run.
                while begun.elapsed() + interval < run {
                    thread::sleep(interval / 2);
                    self.publish().map_err(|error| error.to_string())?;
                    thread::sleep(interval / 2);
                }
                Ok::<_, String>(())
            });
            let outcome = body();
            publishing.join().map_err(|_| "the publisher panicked")??;
            Ok(outcome)
        })
    }
}

/// The payload files that a directory's manifest names; none where there is no manifest.
fn payloads(directory: &Path) -> Outcome<Vec<String>> {
    let manifest = Manifest::read(&Directory::open(directory)?)?.unwrap_or_default();
    let payloads = [manifest.history, manifest.live].into_iter().flatten();
    Ok(payloads.map(|payload| payload.file).collect())
}
