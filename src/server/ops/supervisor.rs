//! `Steward`: what the main thread does while workers serve. It tells them the time, listens to
//! signals, and tells the service manager how it goes.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior};

use crate::observe::Notifier;
use crate::server::conn::registry::TICK;
use crate::server::ops::log::Log;
use crate::server::ops::metrics::Figures;
use crate::server::ops::poller::Prompt;

/// Between two texts for the service manager.
const STATUS_TICKS: u64 = 50;
/// A worker gives a sign of life a second; it may be late by as much as this, on a busy machine.
const SILENT_MIN: Duration = Duration::from_secs(2);
/// A poll that takes longer is reported. The usual one takes less than a millisecond, one of new data seconds.
const POLL_MAX: Duration = Duration::from_secs(10);
/// How long what is looked at anew may take, before the manager is told that all is done.
const RELOADING_MAX: Duration = Duration::from_secs(30);

/// A signal, by what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Stop,
    Reload,
    Reopen,
}

/// The signals that are listened to.
pub(crate) struct Signals([(Asked, unix::Signal); 4]);

impl Signals {
    /// Listens from now on, in the runtime that it is called in.
    pub(crate) fn new() -> io::Result<Signals> {
        let on = |asked, kind| Ok::<_, io::Error>((asked, signal(kind)?));
        Ok(Signals([
            on(Asked::Stop, SignalKind::terminate())?,
            on(Asked::Stop, SignalKind::interrupt())?,
            on(Asked::Reload, SignalKind::hangup())?,
            on(Asked::Reopen, SignalKind::user_defined1())?,
        ]))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Asked> {
        for (asked, signal) in &mut self.0 {
            if signal.poll_recv(cx).is_ready() {
                return Poll::Ready(*asked);
            }
        }
        Poll::Pending
    }
}

/// How the workers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every request was answered.
    Drained,
    /// Some were not, in the time that there was or by a second signal.
    Cut,
}

/// What the main thread looks after.
pub(crate) struct Steward {
    pub(crate) figures: Arc<Figures>,
    pub(crate) notifier: Notifier,
    /// Within which time the service manager wants to hear that all is well.
    pub(crate) watchdog: Option<Duration>,
    pub(crate) log: Log,
    pub(crate) drain: Duration,
    pub(crate) workers: Vec<JoinHandle<()>>,
}

/// Answers under a service manager's eyes.
struct Course {
    begun: Instant,
    ticks: u64,
    answers: u64,
    /// Since when keys and data are looked at anew, and who has not said yet that it is done.
    reloading: Option<(Instant, Vec<Receiver<()>>)>,
    stopping: Option<Instant>,
    /// The polls that take too long, each with the age of the last completed one.
    stalled: Vec<(&'static str, Duration)>,
}

impl Steward {
    /// Looks after everything until the server has stopped.
    pub(crate) async fn serve(&self, mut signals: Signals) -> Ended {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut course = Course::begin();
        loop {
            match next(&mut signals, &mut interval).await {
                None => self.tick(&mut course),
                Some(Asked::Reload) if course.stopping.is_none() => self.reload(&mut course),
                Some(Asked::Reload | Asked::Reopen) => self.reopen(),
                Some(Asked::Stop) if course.stopping.is_some() => {
                    self.log.say("a second signal: requests under way are cut");
                    return Ended::Cut;
                }
                Some(Asked::Stop) => self.stop(&mut course),
            }
            if let Some(since) = course.stopping {
                if self.workers.iter().all(JoinHandle::is_finished) {
                    return Ended::Drained;
                }
                if since.elapsed() >= self.drain {
                    return Ended::Cut;
                }
            }
        }
    }

    fn tick(&self, course: &mut Course) {
        let ticks = course.begun.elapsed().as_millis() / TICK.as_millis();
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        let before = std::mem::replace(&mut course.ticks, ticks);
        for roster in &self.figures.rosters {
            roster.tick(ticks);
        }
        self.notifier.retry();
        self.feed(before, ticks);
        self.end_reload(course);
        for prompt in &self.figures.prompts {
            course.watch(prompt.what, prompt.age(), &|line| self.log.say(line));
        }
        if before / STATUS_TICKS != ticks / STATUS_TICKS && course.stopping.is_none() {
            let answers = self.figures.answers();
            let rate = (answers - course.answers) * 10 / STATUS_TICKS;
            course.answers = answers;
            let (state, connections) = (self.state(), self.figures.connections());
            let text = format!("{state}; {connections} connections, {rate} requests a second");
            self.notifier.status(&text);
        }
    }

    /// Feeds the watchdog, as long as every worker gives signs of life.
    fn feed(&self, before: u64, ticks: u64) {
        let Some(within) = self.watchdog else { return };
        let every = (within / 4).min(Duration::from_secs(1));
        let every = (every.as_millis() / TICK.as_millis()).max(1);
        let (before, now) = (u128::from(before) / every, u128::from(ticks) / every);
        let silent_max = (within / 3).max(SILENT_MIN);
        if before != now && self.figures.silent_worker(silent_max).is_none() {
            self.notifier.alive();
        }
    }

    /// What is served, in words.
    pub(crate) fn state(&self) -> String {
        let snapshot = self.figures.snapshot.load_full();
        match snapshot.published() {
            None => "nothing is published".to_owned(),
            Some(published) => {
                let islands = snapshot.sizes().islands;
                format!("serving {islands} islands, published {published}")
            }
        }
    }

    fn reload(&self, course: &mut Course) {
        self.notifier.reloading();
        self.log.say("looking at keys and data");
        self.reopen();
        let looks = self.figures.prompts.iter().map(Prompt::ask).collect();
        course.reloading = Some((Instant::now(), looks));
    }

    fn end_reload(&self, course: &mut Course) {
        let Some((since, looks)) = &mut course.reloading else {
            return;
        };
        looks.retain(|look| look.try_recv() == Err(TryRecvError::Empty));
        if looks.is_empty() || since.elapsed() > RELOADING_MAX {
            self.notifier.ready(&self.state());
            course.reloading = None;
        }
    }

    fn reopen(&self) {
        if let Some(access) = &self.figures.access {
            access.reopen();
        }
    }

    fn stop(&self, course: &mut Course) {
        let line = "stopping: no new connections, requests under way end";
        self.log.say(line);
        self.notifier.stopping(line);
        for roster in &self.figures.rosters {
            roster.stop();
        }
        course.stopping = Some(Instant::now());
    }
}

impl Course {
    fn begin() -> Course {
        Course {
            begun: Instant::now(),
            ticks: 0,
            answers: 0,
            reloading: None,
            stopping: None,
            stalled: Vec::new(),
        }
    }

    /// Reports a poll that takes too long, once, and that it was completed.
    fn watch(&mut self, what: &'static str, age: Duration, say: &dyn Fn(&str)) {
        let at = self
            .stalled
            .iter()
            .position(|(stalled, _)| *stalled == what);
        match at {
            None if age > POLL_MAX => {
                let seconds = age.as_secs();
                say(&format!(
                    "no poll of {what} was completed for {seconds} seconds: a disk may not answer; what was loaded before stays"
                ));
                self.stalled.push((what, age));
            }
            Some(at) if age > POLL_MAX => self.stalled[at].1 = age,
            Some(at) => {
                let seconds = self.stalled.swap_remove(at).1.as_secs();
                say(&format!("{what} is polled again, after {seconds} seconds"));
            }
            None => {}
        }
    }
}

/// The next signal, or `None` for a tick.
async fn next(signals: &mut Signals, interval: &mut Interval) -> Option<Asked> {
    poll_fn(|cx| match signals.poll(cx) {
        Poll::Ready(asked) => Poll::Ready(Some(asked)),
        Poll::Pending => interval.poll_tick(cx).map(|_| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_poll_that_takes_too_long_is_reported_once_and_again_when_it_is_completed() {
        let said = RefCell::new(Vec::new());
        let say = |line: &str| said.borrow_mut().push(line.to_owned());
        let mut course = Course::begin();
        for seconds in [0, 10, 11, 12, 60, 1, 0, 11, 0] {
            course.watch("data", Duration::from_secs(seconds), &say);
            course.watch("keys", Duration::ZERO, &say);
        }
        let said = said.into_inner();
        let starts = ["no poll of data", "data is polled again"];
        assert_eq!(said.len(), 4, "{said:?}");
        for (line, start) in said.iter().zip(starts.into_iter().cycle()) {
            assert!(line.starts_with(start), "{said:?}");
        }
    }
}
