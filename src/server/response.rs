//! `ResponseContext`: from an answer to hyper's response, counted and logged.

use std::net::IpAddr;
use std::time::Instant;

use hyper::{HeaderMap, Method, Response, StatusCode, Version};

use super::http::answer::{Answer, Limits};
use super::http::body::ResponseBody;
use super::http::request_id::RequestId;
use super::socket::guard::Shared;
use super::socket::journal::Record;
use crate::calendar::UnixSeconds;
use crate::keys::KeyId;
use crate::request::Template;

/// What a response has beside its answer.
pub(super) struct ResponseContext {
    pub(super) limits: Limits,
    pub(super) id: RequestId,
    pub(super) template: Template,
    pub(super) tier: usize,
    pub(super) headers: HeaderMap,
    /// The request's, of the last: to HTTP/1.0 hyper adds `keep-alive` otherwise.
    pub(super) version: Option<Version>,
    pub(super) is_head: bool,
    /// Where requests are logged.
    pub(super) asked: Option<Box<LoggedRequest>>,
}

/// What is logged of a request.
pub(super) struct LoggedRequest {
    pub(super) begun: Instant,
    pub(super) time: UnixSeconds,
    pub(super) client: IpAddr,
    pub(super) key: Option<KeyId>,
    pub(super) method: Method,
    pub(super) target: String,
}

impl ResponseContext {
    /// The response. `body` is what a download opened; without one the answer has its body with it.
    pub(super) fn respond(
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
        let (tally, route) = (&shared.tally, self.template as usize);
        tally.answered(route, status.as_u16(), body_bytes, gzip);
        if status == StatusCode::TOO_MANY_REQUESTS && self.template.is_metered() {
            tally.rejections[self.tier].add(1);
        }
        if let Some(asked) = &self.asked {
            let record = Record {
                time: asked.time,
                id: self.id,
                client: asked.client,
                key: asked.key,
                method: &asked.method,
                route: self.template.text(),
                target: &asked.target,
                status,
                body_bytes,
                gzip,
            };
            shared.journal.note(&record, asked.begun);
        }
    }
}
