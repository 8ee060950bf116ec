//! The requests of a connection: how a [`Worker`] (`web/request_context.rs`) handles them, also those whose
//! responses wait: for a disk, for a form of sign-up, or for the store of shared quotas.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::calendar::RequestTime;
use crate::observe::CloseReason;
use crate::quota::{LeaseClient, STORE_WAIT_MAX};
use crate::server::conn::context::{ConnectionContext, ResponseBody};
use crate::server::conn::send_buffer::put_buffer;
use crate::server::conn::time_slice::TimeSlice;
use crate::server::conn::timed_io::TimedIo;
use crate::server::http::access_record;
use crate::server::http::api_error::ApiError;
use crate::server::http::connection::{drive, is_last};
use crate::server::http::identity::{Caller, ConnectionIdentity};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::{ApiResponse, PendingBody};
use crate::server::pipeline::{Handled, respond};
use crate::server::web::request_context::{RequestContext, Worker};
use crate::server::web::signup_handler::SignupHandler;
use crate::sync::lock;

/// Tells browsers to use https from now on, for a year.
const STRICT_TRANSPORT: &[u8] = b"strict-transport-security: max-age=31536000\r\n";

/// A response as hyper sees it: without most header lines, and without the body.
type HyperResponse = Response<Empty<Bytes>>;

/// A response that waits, also for its connection's next time slice.
type DeferredResponse<'a> = Pin<Box<dyn Future<Output = HyperResponse> + Send + 'a>>;

impl Worker {
    /// Serves the requests that come on a socket, which takes `stored_bytes` before the client has to take
    /// any. Returns it when all is written, with the number of bytes; or with the reason for which the
    /// server closed the connection.
    pub(in crate::server) async fn serve_io<S: Read + Write + Unpin>(
        &self,
        socket: S,
        peer: IpAddr,
        stored_bytes: u64,
        context: &Arc<ConnectionContext>,
    ) -> Result<(S, u64), (CloseReason, S)> {
        let identity = self.gate.connect(peer);
        let error_response = |status| self.error_response(status, peer, context);
        let io = TimedIo::new(socket, error_response, stored_bytes, Arc::clone(context));
        let service = service_fn(move |request: Request<Incoming>| {
            let handled = self.handle(request, &identity, None, context);
            async move {
                Ok::<_, Infallible>(match handled {
                    Ok(response) => response,
                    Err(deferred) => deferred.await,
                })
            }
        });
        match drive(io, service, context).await {
            Ok(io) => Ok(io.into_socket()),
            Err((reason, io)) => Err((reason, io.into_socket().0)),
        }
    }

    /// Handles a request of a connection, which may have waited for the store of shared quotas.
    fn handle<'a>(
        &'a self,
        mut request: Request<Incoming>,
        identity: &ConnectionIdentity,
        waiting_since: Option<Instant>,
        context: &'a ConnectionContext,
    ) -> Result<HyperResponse, DeferredResponse<'a>> {
        let now = self.clock.now();
        let head = RequestHead::new(&request);
        let may_wait = waiting_since.is_none_or(|since| since.elapsed() < STORE_WAIT_MAX);
        let handled = self.respond(&head, identity, now, &context.time_slice, may_wait);
        if handled.response.pending_body.is_some() {
            return Err(self.defer(request, handled, identity.peer, waiting_since, context));
        }
        let message = self.message(&mut request, context);
        let response = self.finish(handled, message, context);
        if context.time_slice.is_over() {
            return Err(Box::pin(async move {
                context.wait(tokio::task::yield_now()).await;
                response
            }));
        }
        Ok(response)
    }

    /// Completes a response whose body takes waiting.
    #[cold]
    fn defer<'a>(
        &'a self,
        mut request: Request<Incoming>,
        mut handled: Handled,
        peer: IpAddr,
        waiting_since: Option<Instant>,
        context: &'a ConnectionContext,
    ) -> DeferredResponse<'a> {
        let pending_body = handled.response.pending_body.take().map(|body| *body);
        if let Some(PendingBody::Lease(client)) = pending_body {
            return self.retry_with_lease(request, client, peer, waiting_since, context);
        }
        let message = self.message(&mut request, context);
        Box::pin(async move {
            match (pending_body, &self.signup) {
                (Some(PendingBody::Download(download, permit)), _) => {
                    let opening = download.open(permit, &self.complaints);
                    match context.wait(opening).await {
                        Ok(body) => handled.response.body = body,
                        Err(error) => handled.response = error.into(),
                    }
                }
                (Some(PendingBody::SignUp(client, parsed)), Some(signup)) => {
                    let form = SignupHandler::read(parsed, request.into_body()).await;
                    // With the time of the request, a rate limiter's clock could go back.
                    let now = self.clock.now().moment();
                    let responding = signup.respond(&self.pages, client, form, now);
                    handled.response = context.wait(responding).await;
                }
                _ => {}
            }
            self.finish(handled, message, context)
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
                let _ = context.wait(timeout(most, leases.wait(client))).await;
            }
            let identity = self.gate.connect(peer);
            match self.handle(request, &identity, Some(waiting_since), context) {
                Ok(response) => response,
                Err(deferred) => deferred.await,
            }
        })
    }

    fn respond(
        &self,
        head: &RequestHead<'_>,
        identity: &ConnectionIdentity,
        now: RequestTime,
        time_slice: &TimeSlice,
        may_wait: bool,
    ) -> Handled {
        let served = lock(&self.served);
        respond(&RequestContext {
            worker: self,
            head,
            now,
            identity,
            time_slice,
            may_wait,
            snapshot: &served.snapshot,
            cache: &served.cache,
        })
    }

    /// The message for hyper, as yet without status and body. It ends the connection where no
    /// further request is read.
    #[inline]
    fn message(
        &self,
        request: &mut Request<Incoming>,
        context: &ConnectionContext,
    ) -> HyperResponse {
        let mut message = HyperResponse::default();
        context.requests.add(1);
        let is_last = is_last(request);
        let closes = is_last
            || context.requests.get() >= u64::from(self.limits.requests)
            || context.registry.is_stopping()
            || context.age() >= self.limits.age;
        // Hyper ends perhaps without offering the head again then.
        if closes && (is_last || request.headers().contains_key(UPGRADE)) {
            context.set_last();
        }
        // The request's map has capacity, and hyper reuses it for the next request.
        let mut headers = std::mem::take(request.headers_mut());
        headers.clear();
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            // The version of the request: hyper adds `keep-alive` for HTTP/1.0 otherwise.
            *message.version_mut() = request.version();
        }
        *message.headers_mut() = headers;
        message
    }

    /// Passes header lines, body and log line of a response on, and counts it.
    fn finish(
        &self,
        handled: Handled,
        mut message: HyperResponse,
        context: &ConnectionContext,
    ) -> HyperResponse {
        let Handled {
            mut response,
            quota,
            id,
            is_head,
            endpoint,
            caller,
            record,
        } = handled;
        let mut body_bytes = response.body.bytes();
        if is_head {
            response.body = response.body.omitted();
            body_bytes = 0;
        }
        let has_body = !matches!(response.body, ResponseBody::Omitted(_));
        debug_assert!(is_head || has_body, "the client waits for the body");
        let (status, gzip) = (response.status, response.gzip);
        let (mut lines, body) = response.complete(quota, id);
        if context.is_tls {
            lines.extend_from_slice(STRICT_TRANSPORT);
        }
        context.put_response(lines, body);
        self.metrics
            .count_response(endpoint as usize, status.as_u16(), body_bytes, gzip);
        // Sign-up has limits too, and no caller.
        if let (StatusCode::TOO_MANY_REQUESTS, Some(caller)) = (status, caller) {
            self.metrics.quota_rejections[caller.tier()].add(1);
        }
        if let Some((request, begun)) = record {
            let line = access_record::line(&request, status, body_bytes, gzip);
            context.log(line, begun);
        }
        *message.status_mut() = status;
        message
    }

    /// The whole response to a head that hyper cannot read.
    fn error_response(&self, status: u16, peer: IpAddr, context: &ConnectionContext) -> Vec<u8> {
        self.metrics.count_parse_error(status);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        self.last_response(ApiError::UnreadableHead(status), peer, context)
    }

    /// The whole text of a response that closes the connection. The request's key and forwarded address
    /// are not known.
    pub(in crate::server) fn last_response(
        &self,
        error: ApiError,
        peer: IpAddr,
        context: &ConnectionContext,
    ) -> Vec<u8> {
        let identity = self.gate.connect(peer);
        let caller = Caller::Anonymous(self.gate.client(&identity, &HeaderMap::new()));
        let now = self.clock.now();
        let remaining = self.gate.remaining(caller, now.day);
        let quota = self.gate.status(caller, remaining, now);
        let status = error.status();
        let id = self.ids.next();
        let date = now.moment().to_http();
        let mut out =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ndate: {date}\r\n").into_bytes();
        let (lines, body) = ApiResponse::from(error).complete(quota, id);
        out.extend_from_slice(&lines);
        put_buffer(lines);
        out.extend_from_slice(b"\r\n");
        let body_bytes = body.bytes();
        if let ResponseBody::Whole(body) = body {
            out.extend_from_slice(&body);
        }
        if self.access.is_some() {
            let request = access_record::of_unreadable(now.moment(), id, peer);
            let line = access_record::line(&request, status, body_bytes, false);
            context.log(line, Instant::now());
        }
        out
    }

    /// Runs a health request at each beat, records that it succeeded, and flushes the access log.
    pub(crate) async fn heartbeat(self: Arc<Self>) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let identity = self.gate.connect(IpAddr::from([127, 0, 0, 1]));
        let time_slice = TimeSlice::default();
        let head = RequestHead::get(&Method::GET, "/v1/health", &headers);
        loop {
            let now = self.clock.now();
            let handled = self.respond(&head, &identity, now, &time_slice, false);
            if handled.response.status == StatusCode::OK {
                self.registry.beat();
            }
            if let Some(buffer) = &self.access {
                buffer.flush();
            }
            self.registry.heartbeat_due.notified().await;
        }
    }
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
