//! The decision on a request, as a function of its client's credits and of the store.

use super::{Credits, OutagePolicy, PendingRequest, StoreState};

/// The decision on a request of a client with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It spends a credit.
    Spend,
    /// The limit is reached.
    Refuse,
    /// It waits for the pending request, which is sent first if there is none.
    Wait,
    /// It takes a credit of this server's share, and spends it.
    TakeShare,
    /// It is neither admitted nor refused.
    Unavailable,
}

impl Step {
    /// `waited`: the number of the request that this one has waited for, as long as it may.
    pub(super) fn of(
        credits: &Credits,
        state: StoreState,
        waited: Option<u32>,
        outage: OutagePolicy,
    ) -> Step {
        if credits.unspent() > 0 {
            return Step::Spend;
        }
        let has_time = state == StoreState::Ready && waited.is_none();
        // Credits of a client that was counted before a restart may have been given back since.
        let is_known = credits.recheck != 0 || credits.counted >= credits.limit;
        if credits.is_limit_reached() && (is_known || !has_time) {
            return Step::Refuse;
        }
        let is_late = match credits.pending {
            PendingRequest::None => false,
            PendingRequest::InTime(request) => waited == Some(request),
            PendingRequest::Overdue => true,
        };
        if state == StoreState::Ready && !is_late {
            return if has_time {
                Step::Wait
            } else {
                Step::Unavailable
            };
        }
        if outage == OutagePolicy::Share && credits.share > 0 {
            Step::TakeShare
        } else {
            Step::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PendingRequest::{InTime, None as Nothing, Overdue};
    use super::Step::{TakeShare, Unavailable, Wait};
    use super::StoreState::{Away, Late, Ready, Settling};
    use super::*;

    #[test]
    fn a_request_waits_only_for_a_store_that_is_in_time_and_takes_a_share_only_of_another() {
        for (pending, state, waited, want) in [
            (Nothing, Ready, None, Wait),
            (InTime(7), Ready, None, Wait),
            (Overdue, Ready, None, TakeShare),
            // What it waited for has been answered, and another request may be pending since.
            (Nothing, Ready, Some(7), Unavailable),
            (InTime(8), Ready, Some(7), Unavailable),
            (InTime(7), Ready, Some(7), TakeShare),
            (InTime(7), Late, None, TakeShare),
            (Nothing, Settling, None, TakeShare),
            (Nothing, Away, Some(7), TakeShare),
        ] {
            let step = |[granted, total, share, recheck]: [u32; 4], outage| {
                let credits = Credits {
                    limit: 60,
                    granted,
                    total,
                    share,
                    recheck: recheck.into(),
                    pending,
                    ..Credits::default()
                };
                Step::of(&credits, state, waited, outage)
            };
            let steps =
                |figures| [OutagePolicy::Share, OutagePolicy::Refuse].map(|it| step(figures, it));
            let alone = if want == TakeShare { Unavailable } else { want };
            assert_eq!(steps([0, 0, 20, 0]), [want, alone], "{pending:?} {state:?}");
            assert_eq!(steps([0, 0, 0, 0]), [alone; 2]);
            // Credits may have been given back since a restart: the store is asked once.
            let has_time = (state, waited) == (Ready, None);
            let once = if has_time { alone } else { Step::Refuse };
            assert_eq!(steps([0, 60, 0, 0]), [once; 2]);
            assert_eq!(steps([0, 60, 0, 1]), [Step::Refuse; 2]);
            assert_eq!(steps([1, 60, 0, 1]), [Step::Spend; 2]);
        }
    }
}
