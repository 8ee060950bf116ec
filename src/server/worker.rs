//! [`Worker`]: the state that the connections of one thread share. It handles their requests, including those
//! whose responses wait for the store of shared quotas, a disk, or a form of sign-up.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::time::timeout_at;

use crate::calendar::Clock;
use crate::observe::CloseReason;
use crate::quota::{LeaseWait, STORE_WAIT_MAX};
use crate::server::conn::connection_state::TimeSlice;
use crate::server::conn::context::{ConnectionContext, ResponseBody};
use crate::server::conn::drive::{HyperResponse, drive};
#[cfg(feature = "tls")]
use crate::server::conn::handshake::TlsAcceptor;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::conn::send_buffer::put_buffer;
use crate::server::conn::timed_io::TimedIo;
use crate::server::http::access_record;
use crate::server::http::api_error::ApiError;
use crate::server::http::identity::{Caller, ConnectionIdentity};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::{ApiResponse, PendingBody};
use crate::server::http::worker_cache::ServedSnapshot;
use crate::server::pipeline::{Handled, respond};
use crate::server::web::pages;
use crate::server::web::request_context::{RequestContext, Services};
use crate::server::web::signup_handler::SignupHandler;
use crate::sync::{Replica, lock};

/// Tells browsers to use https from now on, for a year.
const STRICT_TRANSPORT: &[u8] = b"strict-transport-security: max-age=31536000\r\n";

/// A response that waits, also for its connection's next time slice.
type DeferredResponse<'a> = Pin<Box<dyn Future<Output = HyperResponse> + Send + 'a>>;

/// The state that the connections of one thread share.
pub(crate) struct Worker {
    pub(crate) services: Services,
    pub(crate) served: Replica<ServedSnapshot>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) registry: Arc<ConnectionRegistry>,
    /// `None` where there is no certificate.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsAcceptor>,
}

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
        let identity = self.services.gate.connect(peer);
        let error_response = |status| self.error_response(status, peer, context);
        let io = TimedIo::new(socket, error_response, stored_bytes, Arc::clone(context));
        let service = service_fn(move |request: Request<Incoming>| {
            let handled = self.handle(request, &identity, context);
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

    fn handle<'a>(
        &'a self,
        mut request: Request<Incoming>,
        identity: &ConnectionIdentity,
        context: &'a ConnectionContext,
    ) -> Result<HyperResponse, DeferredResponse<'a>> {
        let head = RequestHead::new(&request);
        let handled = self.respond(&head, identity, &context.time_slice, None);
        if handled.response.pending_body.is_some() {
            let deferred = self.complete(request, handled, identity.peer, context);
            return Err(Box::pin(deferred));
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

    /// Completes a response that waits for the store of shared quotas, a disk or a form.
    #[cold]
    async fn complete(
        &self,
        mut request: Request<Incoming>,
        mut handled: Handled,
        peer: IpAddr,
        context: &ConnectionContext,
    ) -> HyperResponse {
        let end = Instant::now() + STORE_WAIT_MAX;
        let received = handled.record.as_ref().map(|(_, received)| *received);
        let (mut pending, mut first) = (handled.response.pending_body.take(), None);
        while let Some(PendingBody::Lease(wait)) = pending.as_deref() {
            first = first.or(Some(*wait));
            if let Some(leases) = &self.services.gate.leases {
                // Whether the store has answered is found out by the request itself.
                let answered = timeout_at(end.into(), leases.wait(*wait));
                let _ = context.wait(answered).await;
            }
            let head = RequestHead::new(&request);
            let identity = self.services.gate.connect(peer);
            let waited = first.filter(|_| Instant::now() >= end);
            handled = self.respond(&head, &identity, &context.time_slice, waited);
            pending = handled.response.pending_body.take();
        }
        // The wait for the store is a part of the request's duration.
        if let (Some((_, start)), Some(received)) = (&mut handled.record, received) {
            *start = received;
        }
        let message = match pending.map(|pending| *pending) {
            None | Some(PendingBody::Lease(_)) => self.message(&mut request, context),
            Some(PendingBody::Download(download)) => {
                let opening = download.open(&self.services.complaints);
                match context.wait(opening).await {
                    Ok(body) => handled.response.body = body,
                    Err(error) => {
                        let (head, endpoint) = (RequestHead::new(&request), handled.endpoint);
                        let route = (endpoint, endpoint.label().starts_with("/v1"));
                        let snapshot = Arc::clone(&lock(&self.served).snapshot);
                        handled.response = pages::failure(error, route, (&head, &snapshot));
                    }
                }
                self.message(&mut request, context)
            }
            Some(PendingBody::SignUp(form)) => {
                let Some(signup) = &self.services.signup else {
                    unreachable!("a form is read only where sign-up is open");
                };
                let message = self.message(&mut request, context);
                let client = (form.client, form.accepts_html);
                let request = SignupHandler::read(form.request, request.into_body()).await;
                // With the time of the request, a rate limiter's clock could go back.
                let now = self.clock.now().moment;
                let site = Arc::clone(&lock(&self.served).snapshot.service);
                let pages = (&*self.services.page_limiter, &*site);
                let responding = signup.respond(pages, client, request, now);
                handled.response = context.wait(responding).await;
                message
            }
        };
        self.finish(handled, message, context)
    }

    fn respond(
        &self,
        head: &RequestHead<'_>,
        identity: &ConnectionIdentity,
        time_slice: &TimeSlice,
        waited: Option<LeaseWait>,
    ) -> Handled {
        let served = &mut *lock(&self.served);
        let context = RequestContext {
            services: &self.services,
            head,
            now: self.clock.now(),
            identity,
            time_slice,
            waited,
            is_logged: self.registry.access_log.is_some(),
            snapshot: &served.snapshot,
        };
        respond(&context, &mut served.cache)
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
        let closes = is_last(request)
            || context.requests.get() >= u64::from(self.registry.limits.requests)
            || context.registry.is_stopping()
            || context.age() >= self.registry.limits.age;
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
            response.body = ResponseBody::Omitted(response.body.length());
            body_bytes = 0;
        }
        let has_body = !matches!(response.body, ResponseBody::Omitted(_));
        debug_assert!(is_head || has_body, "the client waits for the body");
        let (status, gzip) = (response.status, response.gzip);
        let (mut lines, body) = response.complete(quota, id);
        if context.is_tls {
            lines.extend_from_slice(STRICT_TRANSPORT);
        }
        let line = record.map(|(request, begun)| {
            let line = access_record::line(&request, status, body_bytes, gzip);
            (line, begun)
        });
        context.put_response((lines, body, line));
        self.registry
            .metrics
            .count_response(endpoint as usize, status.as_u16(), body_bytes, gzip);
        // Sign-up has limits too, and no caller.
        if let (StatusCode::TOO_MANY_REQUESTS, Some(caller)) = (status, caller) {
            self.registry.metrics.quota_rejections[caller.tier()].add(1);
        }
        *message.status_mut() = status;
        message
    }

    /// The whole response to a head that hyper cannot read.
    fn error_response(&self, status: u16, peer: IpAddr, context: &ConnectionContext) -> Vec<u8> {
        self.registry.metrics.count_parse_error(status);
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
        let identity = self.services.gate.connect(peer);
        let caller = Caller::Anonymous(self.services.gate.client(&identity, &HeaderMap::new()));
        let now = self.clock.now();
        let remaining = self.services.gate.remaining(caller, now.day);
        let quota = self.services.gate.status(caller, remaining, now);
        let status = error.status();
        let id = self.services.ids.next();
        let date = now.moment.to_http();
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
        if self.registry.access_log.is_some() {
            let request = access_record::of_unreadable(now.moment, id, peer);
            let line = access_record::line(&request, status, body_bytes, false);
            context.log((line, Instant::now()));
        }
        out
    }

    /// Runs a health request at each beat, records that it succeeded, and flushes the access log.
    pub(crate) async fn heartbeat(self: Arc<Self>) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let identity = self.services.gate.connect(IpAddr::from([127, 0, 0, 1]));
        let time_slice = TimeSlice::default();
        let head = RequestHead::get(&Method::GET, "/v1/health", &headers);
        loop {
            let handled = self.respond(&head, &identity, &time_slice, None);
            if handled.response.status == StatusCode::OK {
                self.registry.beat();
            }
            if let Some(buffer) = &self.registry.access_log {
                buffer.flush();
            }
            self.registry.heartbeat_due.notified().await;
        }
    }
}

/// Whether no request follows this one. Bytes behind a body are not taken for a request: no body
/// but a form's is ever read.
pub(in crate::server) fn is_last(request: &Request<Incoming>) -> bool {
    !request.body().is_end_stream() || request.method() == Method::CONNECT
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
