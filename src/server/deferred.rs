//! Responses that wait: for a disk, for a form of sign-up, or for the store of shared quotas.

use std::net::IpAddr;
use std::time::Instant;

use hyper::Request;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::calendar::RequestTime;
use crate::quota::{LeaseClient, STORE_WAIT_MAX};
use crate::server::conn::context::ConnectionContext;
use crate::server::http::identity::ConnectionIdentity;
use crate::server::http::response::PendingBody;
use crate::server::pipeline::Handled;
use crate::server::web::signup_handler::SignupHandler;
use crate::server::worker::{DeferredResponse, Worker};

impl Worker {
    /// Completes a response whose body takes waiting.
    #[cold]
    pub(in crate::server) fn defer<'a>(
        &'a self,
        mut request: Request<Incoming>,
        mut handled: Handled,
        identity: &ConnectionIdentity,
        (now, waiting_since): (RequestTime, Option<Instant>),
        context: &'a ConnectionContext,
    ) -> DeferredResponse<'a> {
        let pending_body = handled.response.pending_body.take().map(|body| *body);
        if let Some(PendingBody::Lease(client)) = pending_body {
            return self.retry_with_lease(request, client, identity.peer, waiting_since, context);
        }
        let sent = self.response_context(&mut request, &handled, identity, now, context);
        Box::pin(async move {
            match (pending_body, &self.signup) {
                (Some(PendingBody::Download(download, permit)), _) => {
                    let opening = download.open(permit, &self.complaints);
                    match context.pending.wait(opening).await {
                        Ok(body) => handled.response.body = body,
                        Err(error) => handled.response = error.into(),
                    }
                }
                (Some(PendingBody::SignUp(client, parsed)), Some(signup)) => {
                    let form = SignupHandler::read(parsed, request.into_body()).await;
                    // With the time of the request, a rate limiter's clock could go back.
                    let now = self.clock.now().moment();
                    let responding = signup.respond(&self.pages, client, form, now);
                    handled.response = context.pending.wait(responding).await;
                }
                _ => {}
            }
            self.finish(handled, sent, context)
        })
    }

    /// Handles a request again when the store of shared quotas has answered.
    fn retry_with_lease<'a>(
        &'a self,
        request: Request<Incoming>,
        client: LeaseClient,
        peer: IpAddr,
        waiting_since: Option<Instant>,
        context: &'a ConnectionContext,
    ) -> DeferredResponse<'a> {
        let waiting_since = waiting_since.unwrap_or_else(Instant::now);
        Box::pin(async move {
            if let Some(leases) = &self.gate.leases {
                let most = STORE_WAIT_MAX.saturating_sub(waiting_since.elapsed());
                // Whether the store has answered is found out by the request itself.
                let _ = context
                    .pending
                    .wait(timeout(most, leases.wait(client)))
                    .await;
            }
            let identity = self.gate.connect(peer);
            match self.handle(request, &identity, Some(waiting_since), context) {
                Ok(response) => response,
                Err(deferred) => deferred.await,
            }
        })
    }
}
