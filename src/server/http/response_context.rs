//! `ResponseContext`: from an answer to hyper's response, counted and logged.

use std::net::IpAddr;
use std::time::Instant;

use hyper::{HeaderMap, Method, Response, StatusCode, Version};

use crate::calendar::UnixSeconds;
use crate::keys::KeyId;
use crate::request::Endpoint;
use crate::server::conn::pending_log::Record;
use crate::server::conn::timed_io::Shared;
use crate::server::http::body::ResponseBody;
use crate::server::http::request_id::RequestId;
use crate::server::http::response::{Answer, Limits};

/// What a response has beside its answer.
pub(in crate::server) struct ResponseContext {
    pub(in crate::server) limits: Limits,
    pub(in crate::server) id: RequestId,
    pub(in crate::server) endpoint: Endpoint,
    pub(in crate::server) tier: usize,
    pub(in crate::server) headers: HeaderMap,
    /// The request's, of the last: to HTTP/1.0 hyper adds `keep-alive` otherwise.
    pub(in crate::server) version: Option<Version>,
    pub(in crate::server) is_head: bool,
    /// Where requests are logged.
    pub(in crate::server) asked: Option<Box<LoggedRequest>>,
}

/// What is logged of a request.
pub(in crate::server) struct LoggedRequest {
    pub(in crate::server) begun: Instant,
    pub(in crate::server) time: UnixSeconds,
    pub(in crate::server) client: IpAddr,
    pub(in crate::server) key: Option<KeyId>,
    pub(in crate::server) method: Method,
    pub(in crate::server) target: String,
}

impl ResponseContext {
    /// The response. `body` is what a download opened; without one the answer has its body with it.
    pub(in crate::server) fn respond(
        self,
        answer: Answer,
        body: Option<ResponseBody>,
        shared: &Shared,
    ) -> Response<ResponseBody> {
        let (status, gzip) = (answer.status(), answer.is_gzip());
        let streamed_bytes = match &body {
            Some(ResponseBody::Stream(stream)) => stream.left(),
            _ => 0,
        };
        let write = |lines: &mut Vec<u8>| answer.write_lines(self.limits, self.id, lines);
        let is_last = shared.pending.put(streamed_bytes, write);
        let body = body.unwrap_or_else(|| answer.into_body());
        if let ResponseBody::Whole(bytes) = &body
            && is_last
            && !self.is_head
        {
            shared.pending.set_last_body(bytes.clone());
        }
        let body_bytes = if self.is_head { 0 } else { body.bytes() };
        self.count(status, body_bytes, gzip, shared);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.version_mut() = self.version.unwrap_or_default();
        *response.headers_mut() = self.headers;
        response
    }

    #[inline]
    fn count(&self, status: StatusCode, body_bytes: u64, gzip: bool, shared: &Shared) {
        let (metrics, route) = (&shared.metrics, self.endpoint as usize);
        metrics.count_response(route, status.as_u16(), body_bytes, gzip);
        if status == StatusCode::TOO_MANY_REQUESTS && self.endpoint.is_metered() {
            metrics.quota_rejections[self.tier].add(1);
        }
        if let Some(asked) = &self.asked {
            let record = Record {
                time: asked.time,
                id: self.id,
                client: asked.client,
                key: asked.key,
                method: &asked.method,
                route: self.endpoint.label(),
                target: &asked.target,
                status,
                body_bytes,
                gzip,
            };
            shared.journal.note(&record, asked.begun);
        }
    }
}
