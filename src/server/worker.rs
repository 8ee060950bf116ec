//! `Worker`: the state that the connections of one thread share, and the handling of their requests.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::calendar::{Clock, RequestTime};
use crate::keys::SharedKeysState;
use crate::observe::{AccessLogBuffer, CloseReason, RateLimitedLog, WorkerMetrics};
use crate::quota::STORE_WAIT_MAX;
use crate::server::conn::context::{ConnectionContext, ResponseBody};
#[cfg(feature = "tls")]
use crate::server::conn::handshake::TlsAcceptor;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::conn::send_buffer::put_buffer;
use crate::server::conn::time_slice::TimeSlice;
use crate::server::conn::timed_io::TimedIo;
use crate::server::http::access_record;
use crate::server::http::api_error::ApiError;
use crate::server::http::connection::{drive, is_last};
use crate::server::http::identity::{Caller, ConnectionIdentity, QuotaGate};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::{ApiResponse, RequestIds};
use crate::server::http::worker_cache::WorkerCache;
use crate::server::pipeline::{Handled, respond};
use crate::server::settings::ConnectionLimits;
use crate::server::web::pages::Pages;
use crate::server::web::request_context::RequestContext;
use crate::server::web::signup_handler::SignupHandler;
use crate::snapshot::Snapshot;
use crate::sync::{ArcSwap, ArcSwapCache};

/// The state that all connections of a worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) snapshot: ArcSwapCache<Snapshot, WorkerCache>,
    pub(crate) gate: QuotaGate,
    pub(crate) pages: Pages,
    /// Sign-up, if it is open.
    pub(crate) signup: Option<SignupHandler>,
    /// The keys that several servers share.
    pub(crate) shared_keys: Option<Arc<ArcSwap<SharedKeysState>>>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) registry: Arc<ConnectionRegistry>,
    pub(crate) complaints: Arc<RateLimitedLog>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) ids: RequestIds,
    /// Limits the dumps and long bodies that are being sent.
    pub(crate) downloads: Arc<ConnectionLimiter>,
    /// `None` where there is no access log.
    pub(crate) access: Option<Arc<AccessLogBuffer>>,
    /// `None` where there is no certificate.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsAcceptor>,
}

/// Tells browsers to use https from now on, for a year.
const STRICT_TRANSPORT: &[u8] = b"strict-transport-security: max-age=31536000\r\n";

/// A response as hyper sees it: without most header lines, and without the body.
pub(in crate::server) type HyperResponse = Response<Empty<Bytes>>;

/// A response that waits, also for its connection's next time slice.
pub(in crate::server) type DeferredResponse<'a> =
    Pin<Box<dyn Future<Output = HyperResponse> + Send + 'a>>;

/// Inputs of a response besides the result of the pipeline.
pub(in crate::server) struct ResponseContext {
    id: u64,
    is_head: bool,
    /// The request's part of its log line, and when it was read; `None` where there is no access log.
    record: Option<(String, Instant)>,
    /// Has the version and the headers for hyper.
    message: HyperResponse,
}

impl Worker {
    /// Serves the requests that come on a socket. Returns it when all is written, with the time
    /// that a slow client may need to read that; or with the reason for which the server closed the
    /// connection.
    pub(in crate::server) async fn serve_io<S: Read + Write + Unpin>(
        &self,
        socket: S,
        peer: IpAddr,
        send_buffer_bytes: fn(&S) -> usize,
        context: &Arc<ConnectionContext>,
    ) -> Result<(S, Duration), (CloseReason, S)> {
        let identity = self.gate.connect(peer);
        let error_response = |status| self.error_response(status, peer, context);
        let io = TimedIo::new(
            socket,
            error_response,
            send_buffer_bytes,
            Arc::clone(context),
        );
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
            Ok(io) => {
                let rest_time = io.rest_time();
                Ok((io.into_socket(), rest_time))
            }
            Err((reason, io)) => Err((reason, io.into_socket())),
        }
    }

    /// Handles a request of a connection, which may have waited for the store of shared quotas.
    pub(in crate::server) fn handle<'a>(
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
            return Err(self.defer(request, handled, identity, (now, waiting_since), context));
        }
        let sent = self.response_context(&mut request, &handled, identity, now, context);
        let response = self.finish(handled, sent, context);
        if context.time_slice.is_over() {
            return Err(Box::pin(async move {
                context.pending.wait(tokio::task::yield_now()).await;
                response
            }));
        }
        Ok(response)
    }

    pub(in crate::server) fn response_context(
        &self,
        request: &mut Request<Incoming>,
        handled: &Handled,
        identity: &ConnectionIdentity,
        now: RequestTime,
        context: &ConnectionContext,
    ) -> ResponseContext {
        let id = self.ids.next();
        let record = context.access_log.is_enabled().then(|| {
            let head = RequestHead::new(request);
            let client = self.gate.address(identity, head.headers);
            let (caller, endpoint) = (handled.caller, handled.endpoint);
            let time = now.moment();
            let pairs = access_record::of_request(time, id, client, caller, &head, endpoint);
            (pairs, Instant::now())
        });
        ResponseContext {
            id,
            is_head: request.method() == Method::HEAD,
            record,
            message: self.message(request, context),
        }
    }

    fn respond(
        &self,
        head: &RequestHead<'_>,
        identity: &ConnectionIdentity,
        now: RequestTime,
        time_slice: &TimeSlice,
        may_wait: bool,
    ) -> Handled {
        self.snapshot.with(|generation, snapshot, cache| {
            respond(&RequestContext {
                head,
                now,
                identity,
                time_slice,
                snapshot,
                generation,
                cache,
                downloads: &self.downloads,
                gate: &self.gate,
                pages: &self.pages,
                signup: self.signup.as_ref(),
                shared_keys: self.shared_keys.as_deref(),
                may_wait,
            })
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
            || context.handle.registry.is_stopping()
            || context.handle.age() >= self.limits.age;
        // Hyper ends perhaps without offering the head again then.
        if closes && (is_last || request.headers().contains_key(UPGRADE)) {
            context.pending.set_last();
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
    pub(in crate::server) fn finish(
        &self,
        handled: Handled,
        sent: ResponseContext,
        context: &ConnectionContext,
    ) -> HyperResponse {
        let ResponseContext {
            id,
            is_head,
            record,
            mut message,
        } = sent;
        let mut response = handled.response;
        let mut body_bytes = response.body.bytes();
        if is_head {
            response.body = response.body.omitted();
            body_bytes = 0;
        }
        let has_body = !matches!(response.body, ResponseBody::Omitted(_));
        debug_assert!(is_head || has_body, "the client waits for the body");
        let (status, gzip) = (response.status, response.gzip);
        let (mut lines, body) = response.complete(handled.quota, id);
        if context.is_tls {
            lines.extend_from_slice(STRICT_TRANSPORT);
        }
        context.pending.put(lines, body);
        self.metrics
            .count_response(handled.endpoint as usize, status.as_u16(), body_bytes, gzip);
        // Sign-up has limits too, and no caller.
        if let (StatusCode::TOO_MANY_REQUESTS, Some(caller)) = (status, handled.caller) {
            self.metrics.quota_rejections[caller.tier()].add(1);
        }
        if let Some((request, begun)) = record {
            let line = access_record::line(&request, status, body_bytes, gzip);
            context.access_log.push(line, begun);
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
        if context.access_log.is_enabled() {
            let request = access_record::of_unreadable(now.moment(), id, peer);
            let line = access_record::line(&request, status, body_bytes, false);
            context.access_log.push(line, Instant::now());
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
