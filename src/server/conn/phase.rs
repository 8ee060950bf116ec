//! `Phase`: what a connection is doing, and what it means to do it for too long.

use crate::observe::CloseReason;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has come yet.
    Fresh,
    /// A head is coming.
    Head,
    /// A request is being answered, perhaps by a disk.
    Answering,
    /// An answer waits for the client to take it.
    Sending,
    /// All is answered.
    Idle,
    /// The last answer was sent; what the client still sends is thrown away.
    Closing,
}

impl Phase {
    pub(crate) const ALL: [Phase; 6] = [
        Phase::Fresh,
        Phase::Head,
        Phase::Answering,
        Phase::Sending,
        Phase::Idle,
        Phase::Closing,
    ];
    pub(crate) const BITS: u32 = 3;

    /// The phase and the tick that it began at, in one word.
    pub(crate) fn since(self, ticks: u64) -> u64 {
        ticks << Phase::BITS | self as u64
    }

    /// What such a word says.
    pub(crate) fn of(state: u64) -> (Phase, u64) {
        let at = usize::try_from(state & ((1 << Phase::BITS) - 1)).expect("three bits");
        (Phase::ALL[at], state >> Phase::BITS)
    }

    /// Why a connection is cut that does this for too long.
    pub(crate) fn cut(self) -> CloseReason {
        match self {
            Phase::Fresh => CloseReason::FirstByte,
            Phase::Head => CloseReason::Head,
            Phase::Answering | Phase::Sending => CloseReason::Send,
            Phase::Idle | Phase::Closing => CloseReason::Idle,
        }
    }

    /// Whether the client owes the next step, and no answer would be lost.
    pub(crate) fn waits_for_client(self) -> bool {
        matches!(
            self,
            Phase::Fresh | Phase::Head | Phase::Idle | Phase::Closing
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_are_read_back_from_what_was_stored() {
        for phase in Phase::ALL {
            for ticks in [0, 1, u64::MAX >> Phase::BITS] {
                assert_eq!(Phase::of(phase.since(ticks)), (phase, ticks));
            }
        }
    }
}
