//! The connections of one worker, as seen from outside: who has been silent for too long, and how all
//! are told that the server stops.
//!
//! A connection notes its progress with one store. The time comes from [`Roster::tick`], which
//! another thread calls; so no request registers a timer, and a worker's runtime has none.

use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// How often [`Roster::tick`] is to be called. Short enough that nobody waits noticeably for a
/// descriptor to be tried again, and a few microseconds of work each time.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks that a client has for a whole head, from its connection or its last answer on, which is
/// also how long a connection may be idle: 30 seconds.
const SILENT_TICKS_MAX: u64 = 300;
/// Ticks within which a client has to take some of an answer that waits for it, or a disk to give some of
/// it: ten minutes. A system asks for more only when a good part of what it holds for a client is gone,
/// which with megabytes held and a slow client takes minutes.
const WAITING_TICKS_MAX: u64 = 6000;

/// The connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: Mutex<Vec<Arc<Member>>>,
    ticks: AtomicU64,
    stopping: AtomicBool,
    /// Told once when the server stops, and when the last member has left after that.
    news: Notify,
    /// Told when a descriptor may have become free.
    descriptors: Notify,
}

/// What a connection shows of itself.
#[derive(Debug)]
struct Member {
    /// Place among the members.
    at: AtomicU64,
    /// The tick at which there was progress last.
    since: AtomicU64,
    /// Whether an answer waits for the client to take it, or for a disk.
    waiting: AtomicBool,
    overdue: AtomicBool,
    waker: OnceLock<Waker>,
}

/// What a connection is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Go on.
    Go,
    /// End after the request under way.
    Finish,
    /// End at once.
    End,
}

/// A connection's place in the roster, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    roster: Arc<Roster>,
    member: Arc<Member>,
}

impl Roster {
    /// A new connection's place.
    pub(crate) fn join(self: &Arc<Self>) -> Membership {
        let mut members = self.members();
        let member = Arc::new(Member {
            at: AtomicU64::new(members.len() as u64),
            since: AtomicU64::new(self.ticks.load(Ordering::Relaxed)),
            waiting: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        members.push(Arc::clone(&member));
        Membership {
            roster: Arc::clone(self),
            member,
        }
    }

    /// Time has come to `ticks` since the start: ends who is overdue.
    pub(crate) fn tick(&self, ticks: u64) {
        let before = self.ticks.swap(ticks, Ordering::Relaxed);
        self.descriptors.notify_one();
        // Once a second is often enough to look at all of them.
        if before / 10 == ticks / 10 {
            return;
        }
        for member in &*self.members() {
            let silent = ticks.saturating_sub(member.since.load(Ordering::Relaxed));
            if silent > member.ticks_max() {
                member.overdue.store(true, Ordering::Relaxed);
                member.wake();
            }
        }
    }

    /// Tells the worker and all its connections that the server stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Who joins from now on finds the flag at the first look.
        for member in &*self.members() {
            member.wake();
        }
        self.news.notify_one();
    }

    /// Waits for the server to stop.
    pub(crate) async fn stopped(&self) {
        while !self.stopping.load(Ordering::Relaxed) {
            self.news.notified().await;
        }
    }

    /// Waits for the last connection to end, once the server stops and nobody joins any more.
    pub(crate) async fn emptied(&self) {
        while !self.members().is_empty() {
            self.news.notified().await;
        }
    }

    /// Waits for a moment in which a descriptor may have become free.
    pub(crate) async fn descriptor(&self) {
        self.descriptors.notified().await;
    }

    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn ticks_max(&self) -> u64 {
        if self.waiting.load(Ordering::Relaxed) {
            WAITING_TICKS_MAX
        } else {
            SILENT_TICKS_MAX
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    fn place(&self) -> usize {
        usize::try_from(self.at.load(Ordering::Relaxed)).expect("it was a length")
    }
}

impl Membership {
    /// Notes that the client has sent a whole head, or has taken some of an answer.
    #[inline]
    pub(crate) fn progress(&self) {
        let now = self.roster.ticks.load(Ordering::Relaxed);
        self.member.since.store(now, Ordering::Relaxed);
    }

    /// Notes that an answer waits for the client to take it or for a disk, or no longer does.
    #[inline]
    pub(crate) fn wait(&self, waits: bool) {
        self.member.waiting.store(waits, Ordering::Relaxed);
    }

    /// What to do now. Has the connection's task woken when that changes.
    #[inline]
    pub(crate) fn order(&self, cx: &Context<'_>) -> Order {
        // One task polls a connection all its life.
        self.member.waker.get_or_init(|| cx.waker().clone());
        if self.member.overdue.load(Ordering::Relaxed) {
            Order::End
        } else if self.roster.stopping.load(Ordering::Relaxed) {
            Order::Finish
        } else {
            Order::Go
        }
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
        if last && self.roster.stopping.load(Ordering::Relaxed) {
            self.roster.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn order(membership: &Membership, woken: &Arc<Woken>) -> Order {
        membership.order(&Context::from_waker(&Arc::clone(woken).into()))
    }

    #[test]
    fn who_is_silent_for_too_long_is_woken_to_end() {
        let roster = Arc::new(Roster::default());
        let (silent, busy) = (roster.join(), roster.join());
        let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        for ticks in 1..=SILENT_TICKS_MAX + 20 {
            roster.tick(ticks);
            busy.progress();
            assert_eq!(order(&busy, &woken[1]), Order::Go);
            let early = ticks <= SILENT_TICKS_MAX;
            if early {
                assert_eq!(order(&silent, &woken[0]), Order::Go, "{ticks}");
            }
        }
        assert_eq!(order(&silent, &woken[0]), Order::End);
        assert!(woken[0].0.load(Ordering::Relaxed) > 0);
        assert_eq!(woken[1].0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_takes_an_answer_slowly_has_longer() {
        let roster = Arc::new(Roster::default());
        let (slow, woken) = (roster.join(), Arc::new(Woken::default()));
        slow.wait(true);
        roster.tick(WAITING_TICKS_MAX);
        assert_eq!(order(&slow, &woken), Order::Go);
        slow.progress();
        slow.wait(false);
        roster.tick(WAITING_TICKS_MAX + SILENT_TICKS_MAX);
        assert_eq!(order(&slow, &woken), Order::Go);
        slow.wait(true);
        roster.tick(2 * WAITING_TICKS_MAX);
        assert_eq!(order(&slow, &woken), Order::Go);
        roster.tick(2 * WAITING_TICKS_MAX + 10);
        assert_eq!(order(&slow, &woken), Order::End);
    }

    #[test]
    fn members_leave_in_any_order() {
        let roster = Arc::new(Roster::default());
        arbtest::arbtest(|u| {
            let mut held = Vec::new();
            for _ in 0..u.int_in_range(0..=40)? {
                if held.is_empty() || u.ratio(3, 5)? {
                    held.push(roster.join());
                } else {
                    held.swap_remove(u.choose_index(held.len())?);
                }
                let members = roster.members();
                assert_eq!(members.len(), held.len());
                for (at, member) in members.iter().enumerate() {
                    assert_eq!(member.place(), at);
                }
            }
            Ok(())
        });
        assert!(roster.members().is_empty());
    }

    #[test]
    fn all_are_told_to_finish_and_who_comes_late_too() {
        let roster = Arc::new(Roster::default());
        let early = roster.join();
        let woken = Arc::new(Woken::default());
        assert_eq!(order(&early, &woken), Order::Go);
        roster.stop();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(order(&early, &woken), Order::Finish);
        assert_eq!(order(&roster.join(), &woken), Order::Finish);
    }
}
