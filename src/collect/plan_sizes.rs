//! Sizes of the plan's queues, for `--plan` and the metrics.

use super::{Plan, Queue, deadline};
use crate::calendar::UnixSeconds;
use crate::collect::window::is_at_risk;

/// Sizes of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::collect) struct PlanSizes {
    pub(in crate::collect) islands: usize,
    pub(in crate::collect) at_risk: usize,
    pub(in crate::collect) fresh: usize,
    pub(in crate::collect) unasked: usize,
    pub(in crate::collect) inactive_due: usize,
    pub(in crate::collect) gone: usize,
    /// Time at which the first day that was not asked for leaves the upstream's window, in Unix seconds.
    pub(in crate::collect) next_loss: Option<i64>,
}

impl Plan {
    /// Counts the queues.
    pub(in crate::collect) fn sizes(&mut self, now: UnixSeconds) -> PlanSizes {
        self.advance(now);
        let queued = self.first(Queue::Deadlines).map(|(time, _)| time);
        // Islands that fail again and again are still asked every hour.
        let postponed = self.queue(Queue::Postponed).iter();
        let postponed = postponed.map(|(_, at)| deadline(&self.islands[*at as usize].state));
        PlanSizes {
            islands: self.islands.len(),
            at_risk: self
                .queue(Queue::Deadlines)
                .iter()
                .take_while(|(time, _)| is_at_risk(*time, now))
                .count(),
            fresh: self.queue(Queue::Fresh).len(),
            unasked: self.queue(Queue::Unasked).len(),
            inactive_due: self
                .queue(Queue::Inactive)
                .iter()
                .take_while(|(due, _)| *due <= now.0)
                .count(),
            gone: self.states().filter(|state| state.is_gone).count(),
            next_loss: postponed.chain(queued).min(),
        }
    }
}
