//! The loop of a collector: waits for the pace, sends a request, passes on the response, and writes what is
//! due. One thread, one connection, one request in flight.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::client::Client;
use super::collector::{Collector, Next};
use super::dataset_files::Dataset;
use super::error::{CollectError, io_error};
use super::metrics::{self, Figures};
use super::pace::Pace;
use super::plan::PlanSizes;
use super::reply::{Reply, ReplyError};
use super::request::Request;
use super::settings::{CollectSettings, check};
use crate::admin;
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::observe::Notifier;
use crate::sync::{Mutex, lock};

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

/// Runs a collector until SIGTERM or SIGINT; with `once`, until everything that was due is done. `log`
/// takes lines; `show_progress` the numbers of islands that need no request now, and of all islands.
pub(crate) fn run(
    settings: CollectSettings,
    notifier: &mut Notifier,
    log: fn(&str),
    show_progress: &mut dyn FnMut(usize, usize),
) -> Result<(), CollectError> {
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
        sizes: (PlanSizes::default(), Instant::now()),
        page: Arc::new(Mutex::new(Page {
            metrics: String::new(),
            problem: Some("starting"),
        })),
        failures: None,
        write_error: None,
    };
    runtime.block_on(opened.run())
}

/// Content of the admin listener's responses. The collector replaces it about once a second.
struct Page {
    metrics: String,
    /// Why the collector is not ready; `None` if it has had a usable response recently.
    problem: Option<&'static str>,
}

impl Page {
    fn respond(&self, path: &str) -> Option<(StatusCode, String)> {
        Some(match (path, self.problem) {
            ("/metrics", _) => (StatusCode::OK, self.metrics.clone()),
            ("/livez", _) => (StatusCode::OK, "alive\n".to_owned()),
            ("/readyz", None) => (StatusCode::OK, "ready\n".to_owned()),
            ("/readyz", Some(problem)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
            _ => return None,
        })
    }
}

struct Loop<'a> {
    notifier: &'a mut Notifier,
    log: fn(&str),
    show_progress: &'a mut dyn FnMut(usize, usize),
    collector: Collector,
    client: Client,
    pace: Pace,
    page: Arc<Mutex<Page>>,
    /// Sizes of the plan's queues, and when they were counted.
    sizes: (PlanSizes, Instant),
    /// Failed attempts in a row, and when the first was.
    failures: Option<(u32, Instant)>,
    /// The error of the last write, which is logged once.
    write_error: Option<String>,
}

impl Loop<'_> {
    /// Collects until a signal comes or everything is done, and makes what was collected durable.
    async fn run(mut self) -> Result<(), CollectError> {
        let on_signal = |kind| {
            let state = &self.collector.settings.state;
            signal(kind).map_err(io_error("handle signals for", state))
        };
        let mut terminate = on_signal(SignalKind::terminate())?;
        let mut interrupt = on_signal(SignalKind::interrupt())?;
        {
            let mut collecting = pin!(self.collect());
            poll_fn(|context| {
                if terminate.poll_recv(context).is_ready()
                    || interrupt.poll_recv(context).is_ready()
                {
                    return Poll::Ready(Ok(()));
                }
                collecting.as_mut().poll(context)
            })
            .await?;
        }
        self.notifier.stopping("stopping");
        let synced = self.collector.sync();
        self.drain_log();
        synced
    }

    /// Runs the loop. The future can be dropped at any `await`: no write is in progress there.
    async fn collect(&mut self) -> Result<(), CollectError> {
        if let Some(address) = self.collector.settings.admin {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                CollectError::Unavailable(format!("cannot listen on --admin {address}: {error}"))
            })?;
            let page = Arc::clone(&self.page);
            let respond = move |path: &str| lock(&page).respond(path);
            tokio::spawn(admin::serve(listener, respond));
        }
        self.notifier.ready("collecting");
        let mut ticked: Option<Instant> = None;
        loop {
            if ticked.is_none_or(|at| at.elapsed() >= TICK) {
                ticked = Some(Instant::now());
                self.notifier.alive();
                let result = self.tick();
                self.wait_on_error(result).await?;
            }
            let wait = self.pace.next_at.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                sleep(wait.min(TICK)).await;
                continue;
            }
            match self.collector.next(UnixSeconds::now()) {
                Next::Send(request) => self.send(&request).await?,
                Next::Wait => sleep(TICK).await,
                Next::Done => {
                    self.finish().await?;
                    let missing = self.collector.missing(UnixSeconds::now());
                    return missing.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends a request and passes on the response.
    async fn send(&mut self, request: &Request) -> Result<(), CollectError> {
        self.pace.sent(Instant::now());
        let target = request.target();
        let raw = self.client.get(&target).await;
        if let Some(at) = self.client.sent_at {
            // Later than planned if a connection was opened first.
            self.pace.sent(at);
        }
        let reply = self.collector.receive(request, raw, UnixSeconds::now());
        let result = self.heed(reply, &target);
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
                    sleep(TICK).await;
                }
                result => return result,
            }
        }
    }

    /// With `once`, returns an error. Otherwise logs it once and waits: nothing that was collected is lost, and
    /// it is written when that works again.
    async fn wait_on_error(
        &mut self,
        result: Result<(), CollectError>,
    ) -> Result<(), CollectError> {
        let Err(error) = result else { return Ok(()) };
        if self.collector.settings.once {
            return Err(error);
        }
        let shown = error.to_string();
        if self.write_error.as_ref() != Some(&shown) {
            (self.log)(&format!(
                "{shown}; collecting continues when this works again"
            ));
        }
        self.write_error = Some(shown);
        sleep(WRITE_PAUSE).await;
        Ok(())
    }

    /// Writes what is due, and shows how it goes.
    fn tick(&mut self) -> Result<(), CollectError> {
        let now = UnixSeconds::now();
        let written = self.collector.tick(now);
        self.drain_log();
        let (mut sizes, counted) = self.sizes;
        if counted.elapsed() >= COUNTING_PAUSE * u32::try_from(sizes.islands).unwrap_or(u32::MAX) {
            sizes = self.collector.plan.sizes(now);
            self.sizes = (sizes, Instant::now());
        }
        let problem = match self.collector.counts.last_usable {
            0 => Some("no usable response yet"),
            last if now.0 - last > READY_SECONDS => Some("no usable response for 15 minutes"),
            _ => None,
        };
        let (collector, rate) = (&self.collector, self.pace.rate);
        let metrics = metrics::page(&Figures {
            collector,
            sizes,
            rate,
        });
        *lock(&self.page) = Page { metrics, problem };
        let due = sizes.fresh + sizes.never_requested + sizes.inactive_due;
        let (done, all) = (sizes.islands.saturating_sub(due), sizes.islands);
        if now.0 % STATUS_SECONDS == 0 {
            let status = format!("{done} of {all} islands are up to date");
            self.notifier.status(&status);
        }
        (self.show_progress)(done, all);
        written?;
        if self.write_error.take().is_some() {
            (self.log)("writing works again");
        }
        Ok(())
    }

    /// Adapts the pace to a response.
    fn heed(&mut self, reply: Reply<()>, target: &str) -> Result<(), CollectError> {
        let now = Instant::now();
        let (reason, pause) = match reply {
            Ok(()) | Err(ReplyError::Gone) => {
                self.pace.succeeded();
                if let Some((count, since)) = self.failures.take() {
                    let seconds = since.elapsed().as_secs();
                    (self.log)(&format!(
                        "the upstream responds again after {count} failures in {seconds} s"
                    ));
                }
                return Ok(());
            }
            Err(ReplyError::Throttled {
                reason,
                retry_after_seconds,
            }) => {
                let pause = self.pace.throttled(now, retry_after_seconds);
                (format!("throttled by {reason}"), pause)
            }
            Err(ReplyError::Rejected(reason) | ReplyError::Broken(reason)) => {
                (reason, self.pace.failed(now, Duration::ZERO))
            }
        };
        let (count, since) = self
            .failures
            .map_or((1, now), |(count, since)| (count + 1, since));
        if count == 1 {
            let seconds = pause.as_secs();
            (self.log)(&format!(
                "{target}: {reason}; the next attempt is in {seconds} s"
            ));
        }
        self.failures = Some((count, since));
        if self.collector.settings.once
            && count >= MAX_FAILURES
            && since.elapsed() >= MAX_FAILURE_TIME
        {
            self.collector.finish(UnixSeconds::now())?;
            return Err(CollectError::Unavailable(format!(
                "the upstream gave no usable response to {count} requests in a row; the last one: {reason}"
            )));
        }
        Ok(())
    }

    fn drain_log(&mut self) {
        for line in std::mem::take(&mut self.collector.log) {
            (self.log)(&line);
        }
    }
}
