//! A collector driven against the virtual upstream, in virtual time.

use std::rc::Rc;

use super::collector::{Collector, Next};
use super::scratch_tests::Scratch;
use super::settings::{self, CollectSettings};
use super::virtual_upstream_tests::{VirtualUpstream, start};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files, validate};

pub(super) struct Simulation {
    pub(super) scratch: Scratch,
    pub(super) upstream: VirtualUpstream,
    /// The upstream's time.
    pub(super) now: UnixSeconds,
    /// Seconds by which the collector's clock is ahead of the upstream's.
    pub(super) skew: i64,
    pub(super) collector: Collector,
    pub(super) once: bool,
    /// Islands of the live snapshot.
    pub(super) live: usize,
    /// Virtual time between two ticks: a second in the binary; fewer here, since each may write durably.
    pub(super) tick_seconds: i64,
    ticked: UnixSeconds,
}

impl Simulation {
    pub(super) fn new(upstream: VirtualUpstream, once: bool) -> Simulation {
        let scratch = Scratch::new();
        Simulation {
            collector: open(&scratch, once, 3, start()),
            scratch,
            upstream,
            now: start(),
            skew: 0,
            once,
            live: 3,
            tick_seconds: 600,
            ticked: UnixSeconds(0),
        }
    }

    /// The time that the collector's clock shows.
    pub(super) fn clock(&self) -> UnixSeconds {
        UnixSeconds(self.now.0 + self.skew)
    }

    /// Opens another collector of the same directories.
    pub(super) fn open(&self) -> Collector {
        open(&self.scratch, self.once, self.live, self.clock())
    }

    /// Ends the collector without a last write, as SIGKILL does, and begins again.
    pub(super) fn crash(&mut self) {
        self.collector = self.open();
        self.validate();
    }

    /// Runs until a time at a pace of one request in `seconds`. Writes what is due at each tick.
    pub(super) fn advance(&mut self, until: UnixSeconds, seconds: i64) {
        self.upstream.forget_since(self.clock().day());
        while self.now < until {
            if !(0..self.tick_seconds).contains(&(self.now.0 - self.ticked.0)) {
                self.ticked = self.now;
                let clock = self.clock();
                self.collector.tick(clock).unwrap();
                self.collector.count(clock).unwrap();
            }
            // In one transaction, since locks of the file would take a quarter of the time.
            let (store, clock) = (Rc::clone(&self.collector.store), self.clock());
            let next = store.write(|| self.collector.next(clock));
            match next.unwrap() {
                Next::Send(request) => {
                    let raw = self.upstream.reply(&request, self.now);
                    let clock = self.clock();
                    let _reply = self.collector.receive(&request, raw, clock).unwrap();
                    self.now.0 += seconds;
                }
                Next::Wait => self.now.0 += self.tick_seconds.min(60),
                Next::Done => return,
            }
        }
    }

    /// Writes everything, as at noon: a day that lacks many values is shown then.
    pub(super) fn finish(&mut self) {
        let clock = self.clock();
        let noon = UnixSeconds(clock.day().start().0 + 12 * 3600);
        self.collector.finish(clock.max(noon)).unwrap();
    }

    /// The dataset must be sound.
    pub(super) fn validate(&self) {
        let files = Files::Directory(self.scratch.path().join("dataset"));
        let dataset = DatasetReader::open(&files, self.now.day()).unwrap();
        validate(&dataset, &mut |_, _| ()).unwrap();
    }
}

fn open(scratch: &Scratch, once: bool, live: usize, now: UnixSeconds) -> Collector {
    let (dataset, state) = (scratch.path().join("dataset"), scratch.path().join("state"));
    std::fs::create_dir_all(&state).unwrap();
    let settings = CollectSettings {
        dataset,
        state,
        contact: "ann@example.com".parse().unwrap(),
        upstream: settings::upstream("http://localhost").unwrap(),
        rate: "1".parse().unwrap(),
        live,
        platform: "inMatchPeakCCU",
        codes: None,
        ca_file: None,
        proxy: None,
        once,
        admin: None,
    };
    Collector::open(settings, now).unwrap()
}
