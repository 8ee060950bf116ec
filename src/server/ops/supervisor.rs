//! [`Supervisor`]: the main thread while the workers serve. It drives their clock, handles signals,
//! and reports to the service manager.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use crate::observe::{DedupLog, Notifier};
use crate::server::conn::registry::TICK;
use crate::server::ops::state::{ServerState, ended_thread};
use crate::server::settings::Settings;
#[cfg(feature = "shared-quota")]
use crate::sync::lock;

/// Minimum age of a heartbeat that stops the watchdog: a worker has one a second, later under load.
const STALL_MIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Event {
    Tick,
    Stop,
    Reload,
    ReopenLogs,
}

pub(crate) struct Events {
    signals: [(Event, Signal); 4],
    ticks: Interval,
}

impl Events {
    /// Installs the signal handlers. Must be called in the runtime.
    pub(crate) fn new() -> io::Result<Events> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let signals = [
            (Event::Stop, signal(SignalKind::terminate())?),
            (Event::Stop, signal(SignalKind::interrupt())?),
            (Event::Reload, signal(SignalKind::hangup())?),
            (Event::ReopenLogs, signal(SignalKind::user_defined1())?),
        ];
        Ok(Events { signals, ticks })
    }

    async fn next(&mut self) -> Event {
        poll_fn(|cx| {
            for (event, signal) in &mut self.signals {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*event);
                }
            }
            self.ticks.poll_tick(cx).map(|_| Event::Tick)
        })
        .await
    }
}

pub(crate) struct Supervisor {
    server: Arc<ServerState>,
    notifier: Notifier,
    threads: Vec<JoinHandle<()>>,
    watchdog: Option<Duration>,
    drain: Duration,
    started: Instant,
    ticks: u64,
    stopping: Option<Instant>,
    /// The log of threads that have ended.
    ended: DedupLog,
}

impl Supervisor {
    /// Reports to the service manager that the server is ready.
    pub(crate) fn new(
        settings: &Settings,
        server: Arc<ServerState>,
        notifier: Notifier,
        threads: Vec<JoinHandle<()>>,
    ) -> Supervisor {
        // Not repeated, so it must stay true.
        notifier.ready(&format!("at the start: {}", server.status()));
        // There are few such threads.
        let ended = DedupLog::new(server.log.clone(), usize::MAX);
        Supervisor {
            server,
            notifier,
            threads,
            watchdog: settings.systemd.watchdog,
            drain: settings.drain,
            started: Instant::now(),
            ticks: 0,
            stopping: None,
            ended,
        }
    }

    /// Runs until all connections have ended after a signal, the drain timeout has passed, or a
    /// second signal arrives.
    pub(crate) async fn run(&mut self, mut events: Events) {
        loop {
            match events.next().await {
                Event::Tick => self.tick(),
                Event::Reload if self.stopping.is_none() => self.reload(),
                Event::Reload | Event::ReopenLogs => self.reopen_logs(),
                Event::Stop if self.stopping.is_some() => {
                    let line = "second signal: requests in progress are aborted";
                    self.server.log.write(line);
                    return;
                }
                Event::Stop => self.stop(),
            }
            if let Some(since) = self.stopping
                && (self.threads.iter().all(JoinHandle::is_finished)
                    || since.elapsed() >= self.drain)
            {
                return;
            }
        }
    }

    /// Joins the workers that have ended and writes the rest of the access log. Other workers end
    /// with the process.
    pub(crate) fn finish(self) {
        for thread in self.threads {
            if thread.is_finished() && thread.join().is_err() {
                self.server.log.write("a worker thread panicked");
            }
        }
        for worker in &self.server.workers {
            if let Some(access_log) = &worker.registry.access_log {
                access_log.flush();
            }
        }
        #[cfg(feature = "shared-quota")]
        if let Some(shared) = lock(&self.server.shared_quota).take() {
            shared.stop();
        }
        if let Some(access_log) = &self.server.access_log {
            access_log.flush();
        }
    }

    fn tick(&mut self) {
        let ticks = self.started.elapsed().as_millis() / TICK.as_millis();
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        let before = std::mem::replace(&mut self.ticks, ticks);
        for worker in &self.server.workers {
            worker.registry.tick(ticks);
        }
        self.notify_watchdog(before);
        for source in self.server.ended_threads() {
            let ended = ended_thread(source);
            self.ended.write(format!("{ended}; restart the server"));
        }
    }

    /// Sends a watchdog notification when it is due, unless the process should be restarted.
    fn notify_watchdog(&self, before: u64) {
        let Some(timeout) = self.watchdog else { return };
        let interval = (timeout / 4).min(Duration::from_secs(1));
        let interval = (interval.as_millis() / TICK.as_millis()).max(1);
        let is_due = u128::from(before) / interval != u128::from(self.ticks) / interval;
        let stall = (timeout / 3).max(STALL_MIN);
        if is_due && self.server.fault(stall).is_none() {
            self.notifier.alive();
        }
    }

    fn reload(&self) {
        self.server.log.write("reloading keys and data");
        self.reopen_logs();
        for poller in &self.server.pollers {
            poller.poll_now();
        }
    }

    fn reopen_logs(&self) {
        if let Some(access_log) = &self.server.access_log {
            access_log.reopen();
        }
    }

    fn stop(&mut self) {
        for worker in &self.server.workers {
            worker.registry.stop();
        }
        let line =
            "stopping: no new connections are accepted, and requests in progress are completed";
        self.server.log.write(line);
        self.notifier.stopping(line);
        self.stopping = Some(Instant::now());
    }
}
