//! Sizes of the plan's queues, for `--plan` and the metrics.

use super::{Plan, deadline};
use crate::calendar::{UnixSeconds, UtcDay};
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
    /// The day at whose start the first day that was not asked for leaves the upstream's window.
    pub(in crate::collect) next_loss: Option<UtcDay>,
}

impl Plan {
    /// Counts the queues.
    pub(in crate::collect) fn sizes(&mut self, now: UnixSeconds) -> PlanSizes {
        self.advance(now);
        let queued = self.deadlines.first().map(|(day, _)| *day);
        // Islands that fail again and again are still asked every hour.
        let postponed = self.postponed.iter();
        let postponed = postponed.map(|(_, at)| deadline(&self.islands[*at as usize].state));
        PlanSizes {
            islands: self.islands.len(),
            at_risk: self
                .deadlines
                .iter()
                .take_while(|(day, _)| is_at_risk(*day, now))
                .count(),
            fresh: self.fresh.len(),
            unasked: self.unasked.len(),
            inactive_due: self
                .inactive
                .iter()
                .take_while(|(due, _)| *due <= now)
                .count(),
            gone: self.states().filter(|state| state.is_gone).count(),
            next_loss: postponed.chain(queued).min(),
        }
    }
}
