//! The loop of a collector: waits for the pace, sends a request, passes on the response, and writes what is
//! due. One thread, one connection, one request in flight.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use super::admin::{self, Page};
use super::client::Client;
use super::collector::{Collector, Next, Options};
use super::dataset_files::Dataset;
use super::error::{CollectError, io_error};
use super::metrics;
use super::pace::Pace;
use super::plan::PlanSizes;
use super::reply::{Reply, ReplyError};
use super::request::Request;
use super::settings::{CollectSettings, check};
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::observe::Notifier;
use crate::sync::{Mutex, lock};
use crate::tls;

/// Failed attempts in a row, over at least five minutes, that end a run with `--once`.
const MAX_FAILURES: u32 = 10;
const MAX_FAILURE_TIME: Duration = Duration::from_mins(5);
/// Time between looks at what is due.
const TICK: Duration = Duration::from_secs(1);
/// Time between status lines to the service manager.
const STATUS_SECONDS: i64 = 10;
/// Time between two counts of the queues, per island: 300,000 are counted every 6 s.
const COUNTING_PAUSE: Duration = Duration::from_micros(20);
/// Pause after a file could not be written, for example on a full disk.
const WRITE_PAUSE: Duration = Duration::from_secs(10);
/// Time for which a run with `--once` waits at its end for readers of the dataset.
const LOCK_TIMEOUT: Duration = Duration::from_mins(10);
/// Without a usable response for this long, the collector is not ready.
const READY_SECONDS: i64 = 15 * 60;

/// A report of a collector.
#[derive(Debug)]
pub enum Event<'a> {
    /// One line for the log.
    Line(&'a str),
    /// Progress of a long run: islands asked, and all that are due.
    Progress {
        /// Islands that need no request now.
        done: usize,
        /// All islands.
        all: usize,
    },
}

/// Runs a collector until SIGTERM or SIGINT; with `once`, until everything that was due is done.
pub(crate) fn run(
    settings: CollectSettings,
    notifier: &mut Notifier,
    report: &mut dyn FnMut(Event<'_>),
) -> Result<(), CollectError> {
    check(&settings)?;
    let _state_lock = lock_state(&settings.state)?;
    let dataset_lock = Dataset::lock(&settings.dataset);
    let _dataset_lock = dataset_lock.map_err(io_error("lock the dataset", &settings.dataset))?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(io_error("start the runtime for", &settings.state))?;
    runtime.block_on(async { Loop::open(settings, notifier, report)?.run().await })
}

fn lock_state(state: &Path) -> Result<std::fs::File, CollectError> {
    durable::create_directory(state).map_err(io_error("create", state))?;
    durable::lock_within(state, Duration::ZERO).map_err(io_error("lock the state directory", state))
}

/// Returns the output of a future, or `None` if a signal comes first.
async fn until_signal<T>(
    future: impl Future<Output = T>,
    (terminate, interrupt): (&mut UnixSignal, &mut UnixSignal),
) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        if terminate.poll_recv(context).is_ready() || interrupt.poll_recv(context).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}

struct Loop<'a> {
    settings: CollectSettings,
    notifier: &'a mut Notifier,
    report: &'a mut dyn FnMut(Event<'_>),
    collector: Collector,
    client: Client,
    pace: Pace,
    begun: Instant,
    page: Arc<Mutex<Page>>,
    terminate: UnixSignal,
    interrupt: UnixSignal,
    /// Sizes of the plan's queues, and when they were counted.
    sizes: (PlanSizes, Instant),
    /// Failed attempts in a row, and when the first was.
    failures: Option<(u32, Instant)>,
    /// The error of the last write, which is logged once.
    write_error: Option<String>,
}

impl<'a> Loop<'a> {
    fn open(
        settings: CollectSettings,
        notifier: &'a mut Notifier,
        report: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Loop<'a>, CollectError> {
        let now = UnixSeconds::now();
        let options = Options {
            live: settings.live,
            platform: settings.platform,
            once: settings.once,
        };
        let tls = if settings.upstream.is_tls {
            let config = tls::client_config(settings.ca_file.as_deref(), "--ca-file");
            Some(config.map_err(CollectError::Setting)?)
        } else {
            None
        };
        let user_agent = format!(
            "island-metrics/{} (+{})",
            env!("CARGO_PKG_VERSION"),
            settings.contact
        );
        let client = Client::new(settings.upstream.clone(), tls, user_agent)
            .map_err(CollectError::Setting)?;
        let collector = Collector::open(&settings.dataset, &settings.state, options, now)?;
        let rate = settings.rate.per_second();
        let seed = now.0.unsigned_abs() ^ (u64::from(std::process::id()) << 32);
        let on_signal =
            |kind| signal(kind).map_err(io_error("handle signals for", &settings.state));
        Ok(Loop {
            terminate: on_signal(SignalKind::terminate())?,
            interrupt: on_signal(SignalKind::interrupt())?,
            pace: Pace::new(rate, settings.upstream.is_loopback(), 0, seed),
            settings,
            notifier,
            report,
            collector,
            client,
            begun: Instant::now(),
            sizes: (PlanSizes::default(), Instant::now()),
            page: Arc::new(Mutex::new(Page::starting())),
            failures: None,
            write_error: None,
        })
    }

    async fn run(mut self) -> Result<(), CollectError> {
        if let Some(address) = self.settings.admin {
            let started = admin::start(address, Arc::clone(&self.page)).await;
            started.map_err(|error| {
                CollectError::Unavailable(format!("cannot listen on --admin {address}: {error}"))
            })?;
        }
        self.notifier.ready("collecting");
        let mut ticked = None;
        loop {
            if ticked.is_none_or(|at: Instant| at.elapsed() >= TICK) {
                ticked = Some(Instant::now());
                self.notifier.alive();
                let result = self.tick();
                if self.wait_on_error(result).await? {
                    break;
                }
            }
            let now_ms = self.now_ms();
            let wait = self.pace.next_at().saturating_sub(now_ms);
            if wait > 0 {
                if self.pause(Duration::from_millis(wait).min(TICK)).await {
                    break;
                }
                continue;
            }
            match self.collector.next(UnixSeconds::now()) {
                Next::Send(request) => {
                    if self.send(&request).await? {
                        break;
                    }
                }
                Next::Sleep(until) => {
                    let seconds = (until.0 - UnixSeconds::now().0).clamp(0, 1);
                    if self
                        .pause(Duration::from_secs(seconds.unsigned_abs()))
                        .await
                    {
                        break;
                    }
                }
                Next::Done => {
                    self.finish().await?;
                    if let Some(problem) = self.collector.missing(UnixSeconds::now()) {
                        return Err(CollectError::Unavailable(problem.to_owned()));
                    }
                    break;
                }
            }
        }
        self.notifier.stopping("stopping");
        let synced = self.collector.sync();
        self.drain_log();
        synced
    }

    /// Sends a request and passes on the response. Returns whether a signal came.
    async fn send(&mut self, request: &Request) -> Result<bool, CollectError> {
        self.pace.sent(self.now_ms());
        let target = request.target();
        let signals = (&mut self.terminate, &mut self.interrupt);
        let Some(raw) = until_signal(self.client.get(&target), signals).await else {
            return Ok(true);
        };
        if let Some(at) = self.client.sent_at() {
            // Later than planned if a connection was opened first.
            self.pace.sent(self.ms(at));
        }
        let received = self.collector.receive(request, raw, UnixSeconds::now());
        let result = received.and_then(|reply| self.heed(reply, &target));
        self.wait_on_error(result).await
    }

    /// Writes everything that was collected. Waits for readers that hold the lock of the dataset.
    async fn finish(&mut self) -> Result<(), CollectError> {
        let begun = Instant::now();
        loop {
            let result = self.collector.finish(UnixSeconds::now());
            self.drain_log();
            match result {
                Err(error) if error.is_busy() && begun.elapsed() < LOCK_TIMEOUT => {
                    if self.pause(TICK).await {
                        return Ok(());
                    }
                }
                result => return result,
            }
        }
    }

    /// Waits. Returns whether a signal came.
    async fn pause(&mut self, time: Duration) -> bool {
        until_signal(sleep(time), (&mut self.terminate, &mut self.interrupt))
            .await
            .is_none()
    }

    /// With `once`, returns an error. Otherwise logs it once and waits: nothing that was collected is lost, and
    /// it is written when that works again. Returns whether a signal came.
    async fn wait_on_error(
        &mut self,
        result: Result<(), CollectError>,
    ) -> Result<bool, CollectError> {
        let Err(error) = result else {
            return Ok(false);
        };
        if self.settings.once {
            return Err(error);
        }
        let shown = error.to_string();
        if self.write_error.as_ref() != Some(&shown) {
            self.log(&format!(
                "{shown}; collecting continues when this works again"
            ));
        }
        self.write_error = Some(shown);
        Ok(self.pause(WRITE_PAUSE).await)
    }

    /// Writes what is due, and shows how it goes.
    fn tick(&mut self) -> Result<(), CollectError> {
        let now = UnixSeconds::now();
        let written = self.collector.tick(now);
        self.drain_log();
        let (mut sizes, counted) = self.sizes;
        if counted.elapsed() >= COUNTING_PAUSE * u32::try_from(sizes.islands).unwrap_or(u32::MAX) {
            sizes = self.collector.sizes(now);
            self.sizes = (sizes, Instant::now());
        }
        let readiness = match self.collector.counts.last_usable {
            0 => Some("no usable response yet"),
            last if now.0 - last > READY_SECONDS => Some("no usable response for 15 minutes"),
            _ => None,
        };
        *lock(&self.page) = Page {
            metrics: metrics::page(&self.collector, sizes, self.pace.rate()),
            readiness,
        };
        let due = sizes.fresh + sizes.unasked + sizes.inactive_due;
        let (done, all) = (sizes.islands.saturating_sub(due), sizes.islands);
        if now.0 % STATUS_SECONDS == 0 {
            self.notifier
                .status(&format!("{done} of {all} islands are up to date"));
        }
        (self.report)(Event::Progress { done, all });
        written?;
        if self.write_error.take().is_some() {
            self.log("writing works again");
        }
        Ok(())
    }

    /// Adapts the pace to a response.
    fn heed(&mut self, reply: Reply<()>, target: &str) -> Result<(), CollectError> {
        let now_ms = self.now_ms();
        let (reason, pause) = match reply {
            Ok(()) | Err(ReplyError::Gone) => {
                self.pace.succeeded();
                if let Some((count, since)) = self.failures.take() {
                    let seconds = since.elapsed().as_secs();
                    self.log(&format!(
                        "the upstream responds again after {count} failures in {seconds} s"
                    ));
                }
                return Ok(());
            }
            Err(ReplyError::Throttled {
                reason,
                retry_after_seconds,
            }) => {
                let pause = self.pace.throttled(now_ms, retry_after_seconds);
                (format!("throttled by {reason}"), pause)
            }
            Err(ReplyError::Rejected(reason) | ReplyError::Broken(reason)) => {
                (reason, self.pace.failed(now_ms))
            }
        };
        let (count, since) = self
            .failures
            .map_or((1, Instant::now()), |(count, since)| (count + 1, since));
        if count == 1 {
            let seconds = pause / 1000;
            self.log(&format!(
                "{target}: {reason}; the next attempt is in {seconds} s"
            ));
        }
        self.failures = Some((count, since));
        if self.settings.once && count >= MAX_FAILURES && since.elapsed() >= MAX_FAILURE_TIME {
            self.collector.finish(UnixSeconds::now())?;
            return Err(CollectError::Unavailable(format!(
                "the upstream gave no usable response to {count} requests in a row; the last one: {reason}"
            )));
        }
        Ok(())
    }

    fn log(&mut self, line: &str) {
        (self.report)(Event::Line(line));
    }

    fn drain_log(&mut self) {
        for line in std::mem::take(&mut self.collector.log) {
            self.log(&line);
        }
    }

    /// Milliseconds since the start, by a clock that is never set.
    fn now_ms(&self) -> u64 {
        self.ms(Instant::now())
    }

    fn ms(&self, at: Instant) -> u64 {
        u64::try_from((at - self.begun).as_millis()).unwrap_or(u64::MAX)
    }
}
