//! The loop of a collector: waits for the pace, sends a request, passes on the response, and writes what is
//! due. One thread, one connection, one request in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::client::Client;
use super::collector::{Collector, Next};
use super::dataset_files::Dataset;
use super::endpoints::Request;
use super::error::{CollectError, Result, io_error};
use super::metrics;
use super::pace::Pace;
use super::reply::Outcome;
use super::settings::{CollectSettings, check};
use crate::admin;
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::observe::Notifier;
use crate::sync::{Mutex, lock};

/// Time between looks at what is due.
const TICK: Duration = Duration::from_secs(1);
/// Time between two counts of the queues, as a multiple of the time that counting takes.
const COUNTING_PAUSE: u32 = 500;
/// Pause after a file could not be written, for example on a full disk, or because readers hold the lock.
const WRITE_PAUSE: Duration = Duration::from_secs(10);
/// Longest wait for readers of the dataset at the end of a run with `--once`.
const LOCK_TIMEOUT: Duration = Duration::from_mins(10);
/// The same after a signal.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Without a usable response for this long, the collector is not ready.
const READY_SECONDS: i64 = 15 * 60;

/// Runs a collector until SIGTERM or SIGINT; with `once`, until everything that was due is done. `log`
/// takes lines; `show_progress` the numbers of islands that need no request now, and of all islands.
pub(crate) fn run(
    settings: CollectSettings,
    notifier: &mut Notifier,
    log: fn(&str),
    show_progress: &mut dyn FnMut(usize, usize),
) -> Result<()> {
    check(&settings)?;
    let (state, dataset) = (settings.state.clone(), settings.dataset.clone());
    durable::create_directory(&state).map_err(io_error("create", &state))?;
    let lock = durable::lock(&state, Some(Duration::ZERO));
    let _state_lock = lock.map_err(io_error("lock the state directory", &state))?;
    let lock = Dataset::lock(&dataset);
    let _dataset_lock = lock.map_err(io_error("lock the dataset", &dataset))?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(io_error("start the runtime for", &state))?;
    let opened = Loop {
        pace: Pace::new(
            settings.rate,
            settings.upstream.is_loopback(),
            Instant::now(),
        ),
        client: Client::new(&settings).map_err(CollectError::Setting)?,
        collector: Collector::open(settings, UnixSeconds::now())?,
        notifier,
        log,
        show_progress,
        count_at: Instant::now(),
        page: Arc::new(Mutex::new((String::new(), Some("starting")))),
        write_at: Instant::now(),
        waits_since: None,
    };
    finish(runtime, opened.run())
}

/// Runs to the end. Does not wait for threads that look up names: each blocks for as long as no name server responds.
fn finish<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

/// Content of the admin listener's responses: the metrics, and why the collector is not ready, if it is not. With
/// `--admin`, the collector replaces it about once a second.
type Page = (String, Option<&'static str>);

fn respond((metrics, problem): &Page, path: &str) -> Option<(StatusCode, String)> {
    Some(match (path, *problem) {
        ("/metrics", _) => (StatusCode::OK, metrics.clone()),
        ("/livez", _) => (StatusCode::OK, "alive\n".to_owned()),
        ("/readyz", None) => (StatusCode::OK, "ready\n".to_owned()),
        ("/readyz", Some(problem)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
        _ => return None,
    })
}

struct Loop<'a> {
    notifier: &'a mut Notifier,
    log: fn(&str),
    show_progress: &'a mut dyn FnMut(usize, usize),
    collector: Collector,
    client: Client,
    pace: Pace,
    page: Arc<Mutex<Page>>,
    /// When the plan's queues are counted again.
    count_at: Instant,
    /// Time of the next write: later after an error.
    write_at: Instant,
    /// Begin of a wait for readers that hold the lock of the dataset.
    waits_since: Option<Instant>,
}

impl Loop<'_> {
    /// Collects until a signal comes or everything is done, and makes what was collected durable.
    async fn run(mut self) -> Result<()> {
        let on_signal = |kind| {
            let state = &self.collector.settings.state;
            signal(kind).map_err(io_error("handle signals for", state))
        };
        let mut terminate = on_signal(SignalKind::terminate())?;
        let mut interrupt = on_signal(SignalKind::interrupt())?;
        let ended = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            ended = self.collect() => Some(ended),
        };
        self.notifier.stopping("stopping");
        let ended = ended.unwrap_or_else(|| self.stop());
        if self.collector.counts.last_usable > 0 {
            let now = UnixSeconds::now();
            // The figures are from before the last requests, and stay so if the database cannot be read.
            let _ = self.collector.count(now);
            self.collector.summarize(now);
        }
        self.drain_log();
        ended
    }

    /// Writes what was collected after a signal.
    fn stop(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.collector.finish(UnixSeconds::now()) {
                Err(error) if error.is_busy() && begun.elapsed() < STOP_MAX => {}
                Err(error) if error.is_busy() => {
                    let line = "readers hold the lock of the dataset; days that are not written there are in the database";
                    self.collector.log.push(line.to_owned());
                    return Ok(());
                }
                written => return written,
            }
        }
    }

    /// Runs the loop. The future can be dropped at any `await`: no write is in progress there.
    async fn collect(&mut self) -> Result<()> {
        if let Some(address) = self.collector.settings.admin {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                CollectError::Unavailable(format!("cannot listen on --admin {address}: {error}"))
            })?;
            let page = Arc::clone(&self.page);
            let respond = move |path: &str| respond(&lock(&page), path);
            tokio::spawn(admin::serve(listener, respond));
        }
        self.notifier.ready("collecting");
        let mut tick_at = Instant::now();
        let mut done_at = None;
        loop {
            if Instant::now() >= tick_at {
                tick_at = Instant::now() + TICK;
                self.notifier.alive();
                self.tick()?;
            }
            self.drain_log();
            let wait = self.pace.next_at.saturating_duration_since(Instant::now());
            // No further request follows if the upstream has failed for too long.
            if !wait.is_zero() && self.collector.unavailable.is_none() {
                sleep(wait.min(TICK)).await;
                continue;
            }
            match self.collector.next(UnixSeconds::now())? {
                Next::Send(request) => self.send(&request).await?,
                Next::Wait => sleep(TICK).await,
                Next::Done => {
                    let written = self.collector.finish(UnixSeconds::now());
                    let waited = done_at.get_or_insert_with(Instant::now).elapsed();
                    if self.is_waiting(&written) && waited < LOCK_TIMEOUT {
                        // A tick, for which perhaps nothing is due, must not end the wait.
                        self.write_at = Instant::now() + WRITE_PAUSE;
                        sleep(TICK).await;
                        continue;
                    }
                    return written.and_then(|()| self.collector.missing(UnixSeconds::now()));
                }
            }
        }
    }

    async fn send(&mut self, request: &Request) -> Result<()> {
        let begun = Instant::now();
        let raw = self.client.get(&request.target()).await;
        // Later than planned if a connection was opened first.
        self.pace.sent(self.client.sent_at.unwrap_or(begun));
        match self.collector.receive(request, raw, UnixSeconds::now()) {
            Ok(reply) if reply.outcome == Outcome::Throttled => {
                self.pace
                    .throttled(Instant::now(), reply.retry_after_seconds);
            }
            // The endpoint slows down alone.
            Ok(reply) if reply.outcome.is_failure() => {}
            Ok(_) => self.pace.succeeded(),
            Err(error) => {
                self.check(Err(error))?;
                self.drain_log();
                sleep(WRITE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Handles the result of a write. Returns an error that ends the collector: of a damaged database, which the next
    /// start sets aside, and with `once` all but a held lock and faults of the dataset, which are those of one file.
    /// Others are logged once an hour: nothing that was collected is lost, and it is written when that works again.
    fn check(&mut self, written: Result<()>) -> Result<()> {
        let Err(error) = written else {
            return Ok(());
        };
        let is_end = match &error {
            CollectError::Damaged(_) => true,
            CollectError::Dataset(_) => false,
            _ => self.collector.settings.once && !error.is_busy(),
        };
        if is_end {
            return Err(error);
        }
        self.write_at = Instant::now() + WRITE_PAUSE;
        if !error.is_busy() {
            let line = format!("{error}; it is tried again until it works");
            let collector = &mut self.collector;
            collector.log_hourly(error.to_string(), line, UnixSeconds::now());
        }
        Ok(())
    }

    /// Returns whether a write waits for readers of the dataset. Logs when such a wait begins, and when it ends.
    fn is_waiting(&mut self, written: &Result<()>) -> bool {
        let is_busy = written.as_ref().is_err_and(CollectError::is_busy);
        let lock = self.collector.settings.dataset.join(durable::LOCK_FILE);
        let (lock, log) = (lock.display(), &mut self.collector.log);
        if is_busy && self.waits_since.is_none() {
            self.waits_since = Some(Instant::now());
            let line = format!("waiting for the lock {lock}, which another process holds");
            log.push(line);
        } else if !is_busy && let Some(since) = self.waits_since.take() {
            let seconds = since.elapsed().as_secs();
            log.push(format!("the lock {lock} was free after {seconds} s"));
        }
        is_busy
    }

    /// Writes what is due, and shows how it goes.
    fn tick(&mut self) -> Result<()> {
        let now = UnixSeconds::now();
        if Instant::now() >= self.write_at {
            let written = self.collector.tick(now);
            self.is_waiting(&written);
            self.check(written)?;
        }
        let begun = Instant::now();
        if begun >= self.count_at {
            let counted = self.collector.count(now);
            self.check(counted)?;
            self.count_at = Instant::now() + begun.elapsed() * COUNTING_PAUSE;
        }
        self.collector.rate = self.pace.rate;
        if self.collector.settings.admin.is_some() {
            let metrics = metrics::page(&self.collector);
            let problem = match self.collector.counts.last_usable {
                0 => Some("no usable response yet"),
                last if now.0 - last > READY_SECONDS => Some("no usable response for 15 minutes"),
                _ => None,
            };
            *lock(&self.page) = (metrics, problem);
        }
        let all = self.collector.sizes.islands;
        let done = all.saturating_sub(self.collector.sizes.due());
        let status = format!("{done} of {all} islands are up to date");
        self.notifier.status(&status);
        (self.show_progress)(done, all);
        Ok(())
    }

    fn drain_log(&mut self) {
        for line in std::mem::take(&mut self.collector.log) {
            (self.log)(&line);
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
