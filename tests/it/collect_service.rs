//! `collect` as a service: notifications, readiness and metrics.
#![expect(clippy::float_cmp, reason = "most metrics are counts")]

use crate::fake_upstream::{FakeUpstream, Fault, now};
use crate::prelude::*;
use crate::service::Manager;

/// A collector under a service manager. Killed when dropped.
pub(crate) struct Collector {
    pub(crate) manager: Manager,
    child: Running,
    admin: SocketAddr,
}

impl Collector {
    pub(crate) fn start(upstream: &FakeUpstream, rate: &str) -> Collector {
        let manager = Manager::new();
        let (admin, port) = address();
        let mut command = manager.command();
        command
            .arg("collect")
            .args(["--contact", "ann@example.com", "--rate", rate])
            .args(["--upstream", &upstream.url(), "--admin", &port])
            .arg("--dataset")
            .arg(manager.dir.join("dataset"))
            .arg("--state")
            .arg(manager.dir.join("state"))
            .stderr(Stdio::null());
        let child = Running(command.spawn().unwrap());
        Collector {
            manager,
            child,
            admin,
        }
    }

    fn readiness(&self) -> (u16, String) {
        let reply = Client::connect(self.admin).get("/readyz");
        (reply.status, reply.text().to_owned())
    }

    /// Metrics for which a condition holds, by their names without prefix.
    #[track_caller]
    pub(crate) fn await_metrics(
        &self,
        condition: impl Fn(&BTreeMap<String, f64>) -> bool,
    ) -> BTreeMap<String, f64> {
        let mut found = BTreeMap::new();
        wait_for("metrics", || {
            let samples = metrics(self.admin).into_iter().filter_map(|(name, value)| {
                let name = name.strip_prefix("island_metrics_collect_")?;
                Some((name.to_owned(), value))
            });
            found = samples.collect();
            // The page is empty before the first tick.
            !found.is_empty() && condition(&found)
        });
        found
    }
}

#[test]
fn a_collector_notifies_its_service_manager_and_shows_its_progress() {
    let upstream = FakeUpstream::start(10, |_| None);
    // Slow enough for the live step to be written some seconds after the start.
    let mut collector = Collector::start(&upstream, "5");
    let manager = &collector.manager;
    assert_eq!(manager.next(), "READY=1\nSTATUS=collecting");
    let begun = now();
    let first = collector.await_metrics(|_| true);
    for _ in 0..3 {
        manager.await_line("WATCHDOG=1");
    }
    let done = collector.await_metrics(|metrics| {
        metrics["islands_due{what=\"unasked\"}"] == 0.0 && metrics["islands"] == 10.0
    });
    let results = |endpoint: &str, result: &str| {
        done[&format!("responses_total{{endpoint=\"{endpoint}\",result=\"{result}\"}}")]
    };
    assert_eq!(results("days", "usable") + results("days", "null"), 10.0);
    assert_eq!(results("days", "broken"), 0.0);
    assert_eq!(done["state_replaced"], 0.0);
    assert!(done["database_bytes"] > 1_000.0);
    assert_eq!(done["islands_at_risk"], 0.0);
    // Yesterday was requested: the first day that is missing is today, which leaves the window in eight days.
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let days_left = (done["next_loss_timestamp_seconds"] - begun as f64) / 86_400.0;
    assert!((6.0..=8.0).contains(&days_left), "{days_left}");
    let live = collector.await_metrics(|metrics| {
        metrics["live_written_timestamp_seconds"] > first["live_written_timestamp_seconds"]
    });
    assert!(live["last_usable_timestamp_seconds"] >= live["full_crawl_timestamp_seconds"]);
    assert_eq!(collector.readiness(), (200, "ready\n".to_owned()));
    signal(collector.child.0.id(), "-TERM");
    collector.manager.await_line("STOPPING=1");
    assert!(collector.child.0.wait().unwrap().success());
}

#[test]
fn a_collector_without_a_usable_response_is_not_ready_and_feeds_its_watchdog() {
    let upstream = FakeUpstream::start(10, |_| Some(Fault::TooMany));
    let collector = Collector::start(&upstream, "200");
    collector.manager.await_line("READY=1");
    let metrics = collector.await_metrics(|metrics| {
        metrics["responses_total{endpoint=\"platform\",result=\"throttled\"}"] >= 1.0
    });
    assert!(metrics["rate_limit"] < 200.0, "{metrics:#?}");
    for (method, path, status) in [("GET", "/v1", 404), ("POST", "/metrics", 405)] {
        let reply = Client::connect(collector.admin).request(method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}");
    }
    assert_eq!(
        collector.readiness(),
        (503, "no usable response yet\n".to_owned())
    );
    for _ in 0..3 {
        collector.manager.await_line("WATCHDOG=1");
    }
}
