//! The chain collect → publish → serve, unattended for a simulated month (`IM_TEST_SLOW`; else 36 hours).
//!
//! The clock of the binaries cannot be driven fast enough, so that this drives the collector with a
//! virtual clock against the virtual upstream, publishes for real, and reads through a server in memory.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::simulated_collector_tests::Simulation;
use super::virtual_upstream_tests::{VirtualUpstream, hash, start};
use crate::calendar::{Clock, DAY_SECONDS, ManualTime, UnixSeconds, UtcDay};
use crate::dataset::Files;
use crate::keys::{KeyRecords, KeyTable};
use crate::model::TierLimits;
use crate::publish::{PublishOptions, publish};
use crate::quota::{AnonymousQuota, KeyedQuota, TableSize};
use crate::regular_file::Directory;
use crate::server::{InMemoryServer, QuotaGate};
use crate::site::SiteSettings;
use crate::snapshot::{Manifest, Snapshot};
use crate::sync::Replicated;

/// Virtual time between two publishes: that of the timer in the package.
const PUBLISH_SECONDS: i64 = 600;
/// Time within which a reader has a live step after the upstream has it.
const LIVE_SECONDS: i64 = 20 * 60;
/// Time of the day by which a reader has the day before: so many islands change from day to day that the values of
/// those of the day before are never enough.
const DAY_SHOWN_SECONDS: i64 = 12 * 3600 + 1200;

/// A published directory, and a server of it.
struct Reader {
    published: PathBuf,
    time: Arc<ManualTime>,
    /// The history and the fixed files, which the next snapshot shares, as in a server.
    current: Snapshot,
}

impl Reader {
    fn publish(&mut self, run: &Simulation) {
        let options = PublishOptions {
            directory: &self.published,
            published: Some(run.now),
            force: false,
            full: false,
            strict: false,
            credit: "",
        };
        let files = Files::Directory(run.scratch.path().join("dataset"));
        publish(&files, &options, &mut |_| ()).unwrap();
    }

    /// Opens what is published last.
    fn open(&mut self) -> InMemoryServer {
        let directory = Directory::open(&self.published).unwrap();
        let manifest = Manifest::read(&directory).unwrap().unwrap();
        let current = &mut self.current;
        let service = Arc::clone(&current.service);
        let snapshot = Snapshot::open((&directory, &manifest), &service, Some(current)).unwrap();
        current.history.clone_from(&snapshot.history);
        let prefix = "im".parse().unwrap();
        let keys = KeyTable::new(prefix, KeyRecords::default(), []);
        let gate = QuotaGate {
            keys: Replicated::new(keys).replica(),
            anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(10))),
            keyed: Arc::new(KeyedQuota::new(None)),
            leases: None,
            limits: TierLimits {
                anonymous: u16::MAX,
                free: 1,
                starter: 1,
                pro: 1,
            },
            proxies: Arc::default(),
        };
        let clock = Clock::new(Some(Arc::clone(&self.time)), None);
        InMemoryServer::new(snapshot, gate, clock).unwrap()
    }
}

/// Requests a path. Returns the body of a 200.
fn get(server: &InMemoryServer, path: &str) -> Value {
    let (mut client, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    write!(
        client,
        "GET {path} HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::UnixStream::from_std(socket).unwrap();
        let peer = IpAddr::from(Ipv4Addr::LOCALHOST);
        server.serve(TokioIo::new(socket), peer).await;
    });
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{path}: {reply}");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// The newest step that a reader must have, if any: available for long enough, with data collected.
fn step_due(run: &Simulation) -> UnixSeconds {
    let mut step = UnixSeconds(run.now.0 / 600 * 600);
    while run.upstream.available(step).0 + LIVE_SECONDS > run.now.0 {
        step.0 -= 600;
    }
    step
}

#[test]
fn a_reader_sees_each_live_step_and_each_day_in_time() {
    let slow = std::env::var_os("IM_TEST_SLOW").is_some();
    let hours = if slow { 30 * 24 } else { 36 };
    let mut run = Simulation::new(VirtualUpstream::new(11, 60, 2), false);
    run.tick_seconds = 60;
    let time = Arc::new(ManualTime::default());
    time.pass(start().0);
    let mut reader = Reader {
        published: run.scratch.path().join("published"),
        time,
        current: Snapshot::new(None, None, None, &SiteSettings::new("http://x.test"), None),
    };
    let (mut steps, mut shown_days) = (BTreeSet::new(), 0);
    let end = UnixSeconds(run.now.0 + hours * 3600);
    while run.now < end {
        let before = run.now;
        run.advance(
            UnixSeconds(run.now.0 / PUBLISH_SECONDS * PUBLISH_SECONDS + PUBLISH_SECONDS),
            3,
        );
        reader.time.pass(run.now.0 - before.0);
        reader.publish(&run);
        // Enough time for the first days and the first live pass.
        if run.now.0 - start().0 < 3 * 3600 {
            continue;
        }
        let server = reader.open();
        let live = get(&server, "/v1/live");
        let due = step_due(&run);
        let shown = live["time"].as_i64().unwrap();
        assert!(
            shown >= due.0,
            "{shown} is shown instead of {due} at {}",
            run.now
        );
        // Not only the newest one: the curve of the day has no gaps.
        let file = run
            .scratch
            .path()
            .join(format!("dataset/live/{due}.csv", due = due.0));
        assert!(file.exists(), "{due} is missing at {}", run.now);
        steps.insert(shown);
        let latest = get(&server, "/v1/rankings")["latest"]
            .as_str()
            .unwrap()
            .to_owned();
        let yesterday = UtcDay(run.now.day().0 - 1);
        let is_shown = latest == yesterday.to_string();
        let seconds = run.now.0.rem_euclid(DAY_SECONDS);
        assert!(
            is_shown || seconds < DAY_SHOWN_SECONDS,
            "{latest} is the latest at {}",
            run.now
        );
        shown_days += i32::from(is_shown && seconds > DAY_SHOWN_SECONDS);
        if hash(&[12, run.now.0.unsigned_abs()]).is_multiple_of(300) {
            run.crash();
        }
    }
    assert!(
        steps.len() > 150 && shown_days > 60,
        "{steps:?} {shown_days}"
    );
}
