//! The connections of one worker, as seen from outside: what each is doing since when, who has done it
//! for too long, and how all are told that the server stops.
//!
//! A connection notes what it does with one store. The time comes from [`Roster::tick`], which another
//! thread calls; so no request registers a timer, and a worker's runtime has none.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;

use crate::observe::CloseReason;
use crate::server::conn::connection_state::Member;
use crate::server::conn::limiter::Place;
use crate::server::conn::phase::Phase;
use crate::server::settings::ConnectionLimits;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// How often [`Roster::tick`] is to be called. Short enough that nobody waits noticeably for a
/// descriptor to be tried again, and a few microseconds of work each time.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks between two looks at all connections: whoever is overdue is cut within half a second, for which
/// fifteen thousand are looked at in a millisecond.
const LOOK_TICKS: u64 = 2;
/// Ticks between two signs of life of a worker.
const PULSE_TICKS: u64 = 10;
/// Connections that are looked at without letting go of the lock, which a new one needs.
const LOOKED_AT_ONCE: usize = 1024;
/// Ticks that a disk has for some of an answer: ten minutes, as for a mount that comes back.
const DISK_TICKS: u64 = 6000;
/// Ticks that a client has to see that its connection is closed, when it has read its last answer.
const CLOSING_TICKS: u64 = 10;
/// Ticks of silence after which a connection ends when the server stops. Who asks again and again has
/// asked by then, and was told with its answer that it is the last.
const STOPPING_SILENT_TICKS: u64 = 10;
/// Ticks for a head that is under way when the server stops, and for clients to read their last answers.
const STOPPING_HEAD_TICKS: u64 = 50;
/// Of the connections that wait for their clients, one in so many is ended when there is no room.
const MADE_ROOM_OF: usize = 64;
/// Ticks that a client has to let the server wait for before its connection can be one of those. Who has just
/// come may have asked already, and not been looked at yet.
const MADE_ROOM_AFTER_TICKS: u64 = 5;

/// Ticks that clients have.
#[derive(Clone, Copy, Debug)]
struct Patience {
    first_byte: u64,
    head: u64,
    send: u64,
    idle: u64,
}

/// The connections of one worker.
#[derive(Debug)]
pub(crate) struct Roster {
    patience: Patience,
    members: Mutex<Vec<Arc<Member>>>,
    ticks: AtomicU64,
    /// The tick of the worker's last sign of life.
    beaten: AtomicU64,
    stopping: AtomicBool,
    /// Told once when the server stops, and when the last member has left after that.
    news: Notify,
    /// Told when a descriptor, or a place, may have become free.
    descriptors: Notify,
    /// Told when a sign of life is due.
    pulse: Notify,
}

/// A connection's place in the roster, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    roster: Arc<Roster>,
    member: Arc<Member>,
    joined: u64,
    /// Its place among all connections; nowhere counted where it is `None`.
    _place: Option<Place>,
}

impl Default for Roster {
    fn default() -> Roster {
        Roster::new(ConnectionLimits::default())
    }
}

impl Roster {
    pub(crate) fn new(limits: ConnectionLimits) -> Roster {
        Roster {
            patience: Patience {
                first_byte: ticks(limits.first_byte),
                head: ticks(limits.head),
                send: ticks(limits.send),
                idle: ticks(limits.idle),
            },
            members: Mutex::default(),
            ticks: AtomicU64::new(0),
            beaten: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            news: Notify::new(),
            descriptors: Notify::new(),
            pulse: Notify::new(),
        }
    }

    /// A new connection's membership.
    pub(crate) fn join(self: &Arc<Self>, place: Option<Place>) -> Membership {
        let mut members = self.members();
        let joined = self.now();
        let member = Arc::new(Member::new(members.len(), joined));
        members.push(Arc::clone(&member));
        drop(members);
        Membership {
            roster: Arc::clone(self),
            member,
            joined,
            _place: place,
        }
    }

    /// How many members there are.
    pub(crate) fn size(&self) -> u64 {
        self.members().len() as u64
    }

    /// Time has come to `ticks` since the start: ends who is overdue.
    pub(crate) fn tick(&self, ticks: u64) {
        let before = self.ticks.swap(ticks, Ordering::Relaxed);
        self.descriptors.notify_one();
        let passes = |every: u64| before / every != ticks / every;
        if passes(PULSE_TICKS) {
            self.pulse.notify_one();
        }
        if passes(LOOK_TICKS) {
            self.look(ticks);
        }
    }

    /// Ends who is overdue. From the last to the first: who leaves meanwhile is replaced by the last,
    /// so that nobody is missed.
    fn look(&self, ticks: u64) {
        let mut end = usize::MAX;
        while end > 0 {
            let members = self.members();
            end = end.min(members.len());
            let start = end.saturating_sub(LOOKED_AT_ONCE);
            for member in &members[start..end] {
                let (phase, since) = member.doing();
                // The tick that was noted may have been an old one.
                let is_overdue = ticks.saturating_sub(since) > self.limit(phase, member) + 1;
                member.look(is_overdue, phase.cut());
            }
            end = start;
        }
    }

    /// Ticks that a connection may do something.
    fn limit(&self, phase: Phase, member: &Member) -> u64 {
        let patience = self.patience;
        let limit = match phase {
            Phase::Fresh => patience.first_byte,
            Phase::Head => patience.head,
            Phase::Answering => DISK_TICKS,
            Phase::Sending => patience.send + member.grace.load(Ordering::Relaxed),
            Phase::Idle => patience.idle,
            Phase::Closing => CLOSING_TICKS + member.grace.load(Ordering::Relaxed),
        };
        match phase {
            Phase::Fresh | Phase::Idle if self.is_stopping() => limit.min(STOPPING_SILENT_TICKS),
            Phase::Head | Phase::Closing if self.is_stopping() => limit.min(STOPPING_HEAD_TICKS),
            _ => limit,
        }
    }

    /// Ends some of those whose clients have let the server wait for longest. An honest one sends its
    /// head in a moment, so under a flood it is not among them.
    pub(crate) fn make_room(&self) {
        let now = self.now();
        let members = self.members();
        let mut waiting: Vec<(u64, &Arc<Member>)> = members
            .iter()
            .filter(|member| !member.ends())
            .map(|member| (member.doing(), member))
            .filter(|((phase, since), _)| {
                phase.waits_for_client() && since + MADE_ROOM_AFTER_TICKS <= now
            })
            .map(|((_, since), member)| (since, member))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let many = waiting.len().div_ceil(MADE_ROOM_OF);
        waiting.select_nth_unstable_by_key(many - 1, |(since, _)| *since);
        for (_, member) in &waiting[..many] {
            member.end(CloseReason::Evicted);
        }
    }

    /// Tells the worker and all its connections that the server stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    /// Whether the server stops: each answer is its connection's last.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits for the server to stop.
    pub(crate) async fn stopped(&self) {
        while !self.is_stopping() {
            self.news.notified().await;
        }
    }

    /// Waits for the last connection to end, once the server stops and nobody joins any more.
    pub(crate) async fn emptied(&self) {
        while !self.members().is_empty() {
            self.news.notified().await;
        }
    }

    /// Waits for a moment in which a descriptor or a place may have become free.
    pub(crate) async fn descriptor(&self) {
        self.descriptors.notified().await;
    }

    /// Waits until a sign of life is due.
    pub(crate) async fn pulse(&self) {
        self.pulse.notified().await;
    }

    /// The worker's sign of life.
    pub(crate) fn beat(&self) {
        self.beaten.store(self.now(), Ordering::Relaxed);
    }

    /// Since when there was no sign of life.
    pub(crate) fn silent_for(&self) -> Duration {
        let silent = self
            .now()
            .saturating_sub(self.beaten.load(Ordering::Relaxed));
        TICK.saturating_mul(u32::try_from(silent).unwrap_or(u32::MAX))
    }

    fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        lock(&self.members)
    }
}

/// Whole ticks of a time.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX)
}

impl Membership {
    /// What the connection is doing.
    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.member.doing().0
    }

    /// Notes what it does from now on.
    #[inline]
    pub(crate) fn enter(&self, phase: Phase) {
        let since = phase.since(self.roster.now());
        self.member.state.store(since, Ordering::Relaxed);
    }

    /// Notes that the last answer was sent, of which the client may read for another `rest_time`.
    pub(crate) fn close(&self, rest_time: Duration) {
        self.member.grace.store(ticks(rest_time), Ordering::Relaxed);
        self.enter(Phase::Closing);
    }

    /// Notes that an answer waits for the client, which has `grace` more than others to take some.
    pub(crate) fn send(&self, grace: Duration) {
        self.member.grace.store(ticks(grace), Ordering::Relaxed);
        self.enter(Phase::Sending);
    }

    /// Whether the server stops.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.roster.is_stopping()
    }

    /// Since when the connection is.
    #[inline]
    pub(crate) fn age(&self) -> Duration {
        let age = self.roster.now().saturating_sub(self.joined);
        TICK.saturating_mul(u32::try_from(age).unwrap_or(u32::MAX))
    }

    /// Polls the connection's work, unless the connection is to end, for the reason returned.
    #[inline]
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, CloseReason>> {
        self.member.poll(cx, work)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut members = self.roster.members();
        let at = self.member.place();
        members.swap_remove(at);
        if let Some(moved) = members.get(at) {
            moved.at.store(at as u64, Ordering::Relaxed);
        }
        let last = members.is_empty();
        drop(members);
        self.roster.descriptors.notify_one();
        if last && self.roster.is_stopping() {
            self.roster.news.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
