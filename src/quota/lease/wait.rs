//! The wait of a request for the store.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{LeaseClient, LeaseTable, PendingRequest};

/// Completes when the store has answered the request of a client, or takes too long. To be polled by
/// one task only.
#[must_use]
#[derive(Debug)]
pub struct LeaseWait {
    table: Arc<LeaseTable>,
    client: LeaseClient,
    /// The task is among those that an answer wakes.
    is_registered: bool,
}

impl LeaseWait {
    pub(super) fn new(table: Arc<LeaseTable>, client: LeaseClient) -> LeaseWait {
        LeaseWait {
            table,
            client,
            is_registered: false,
        }
    }
}

impl Future for LeaseWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let LeaseWait {
            table,
            client,
            is_registered,
        } = self.get_mut();
        let mut shard = table.shard(*client);
        let credits = shard.credits.get(client);
        if credits.is_none_or(|credits| credits.pending != PendingRequest::InTime) {
            return Poll::Ready(());
        }
        // Once only: the number of those that wait is the size of the next grant.
        if !*is_registered {
            *is_registered = true;
            shard.waiting.push((*client, context.waker().clone()));
        }
        Poll::Pending
    }
}
