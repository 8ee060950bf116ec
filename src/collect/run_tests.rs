//! The loop: what it logs, in which order, and when a run with `--once` is over.

use std::io;
use std::sync::Mutex as StdMutex;

use tokio::time::timeout;

use super::*;
use crate::collect::simulated_collector_tests::Simulation;
use crate::collect::virtual_upstream_tests::{VirtualUpstream, code};

/// Calls `test` with a loop whose upstream refuses connections.
fn with_loop(log: fn(&str), test: impl FnOnce(Loop<'_>)) {
    let run = Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    let notifier = &mut Notifier::connect(None).unwrap();
    let collector = run.collector;
    test(Loop {
        pace: Pace::new(1000.0, true, Instant::now()),
        client: Client::new(&collector.settings).unwrap(),
        collector,
        notifier,
        log,
        show_progress: &mut |_, _| (),
        count_at: Instant::now(),
        page: Arc::default(),
        write_at: Instant::now(),
        waits_since: None,
    });
}

#[test]
fn lines_are_logged_in_order_and_an_error_that_lasts_once() {
    static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
    let log = |line: &str| LINES.lock().unwrap().push(line.to_owned());
    with_loop(log, |mut it| {
        let full = || CollectError::Io(io::ErrorKind::StorageFull.into());
        let busy = || CollectError::Io(io::ErrorKind::TimedOut.into());
        for error in [full(), busy(), full()] {
            it.collector.log.push("before".to_owned());
            it.check(Err(error)).unwrap();
            it.collector.log.push("after".to_owned());
        }
        it.drain_log();
        let lines = std::mem::take(&mut *LINES.lock().unwrap());
        assert!(
            lines[1].ends_with("it is tried again until it works"),
            "{lines:?}"
        );
        assert_eq!((&*lines[0], &*lines[2]), ("before", "after"));
        assert_eq!(lines.len(), 7, "{lines:?}");
        // Readers that hold the lock are reported by the wait for it.
        it.check(Err(busy())).unwrap();
        it.drain_log();
        assert!(LINES.lock().unwrap().is_empty());
        // Each kind once an hour.
        let mut is_logged = |kind: &str, seconds| {
            let now = UnixSeconds(UnixSeconds::now().0 + seconds);
            it.collector.log_hourly(kind.to_owned(), String::new(), now);
            !std::mem::take(&mut it.collector.log).is_empty()
        };
        let logged = [("a", 0), ("a", 3590), ("b", 3590), ("a", 3610)];
        let logged = logged.map(|(kind, seconds)| is_logged(kind, seconds));
        assert_eq!(logged, [true, false, true, true]);
    });
}

#[test]
fn lines_about_a_response_are_logged_before_the_pause_after_an_error() {
    static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
    let log = |line: &str| LINES.lock().unwrap().push(line.to_owned());
    with_loop(log, |mut it| {
        it.collector
            .store
            .execute("DROP TABLE reading", [])
            .unwrap();
        let now = UnixSeconds::now();
        let request = Request::Days(code(1), now.day()..now.day());
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            // An island that fails is postponed, which the database must know.
            let sent = timeout(WRITE_PAUSE / 2, it.send(&request)).await;
            assert!(sent.is_err(), "no pause");
        });
        let lines = LINES.lock().unwrap();
        assert!(lines[0].contains("the next attempt is in 2 s"), "{lines:?}");
        assert!(lines[1].contains("no such table"), "{lines:?}");
    });
}

#[test]
fn a_run_once_is_over_when_the_upstream_has_failed_for_five_minutes() {
    let mut run = Simulation::new(VirtualUpstream::new(2, 30, 100), true);
    let begun = run.now;
    run.advance(UnixSeconds(begun.0 + 3600), 1);
    assert_eq!(run.collector.next(run.now).unwrap(), Next::Done);
    assert!((300..600).contains(&(run.now.0 - begun.0)));
    let error = run.collector.missing(run.now).unwrap_err().to_string();
    assert!(
        error.starts_with("the upstream gave no usable response to "),
        "{error}"
    );
}

#[test]
fn a_lookup_of_a_name_that_hangs_does_not_delay_the_end() {
    let (answer, lookup) = std::sync::mpsc::channel::<()>();
    let runtime = Builder::new_current_thread().build().unwrap();
    let begun = Instant::now();
    finish(runtime, async {
        tokio::task::spawn_blocking(move || lookup.recv_timeout(Duration::from_secs(20)));
    });
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(answer);
}
