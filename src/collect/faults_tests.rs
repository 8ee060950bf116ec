//! Faults of the virtual upstream, each at all endpoints or at one, in part, and for a time.

use std::ops::Range;

use hyper::Response;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::endpoints::Endpoint;
use super::reply::Raw;
use crate::calendar::{UnixSeconds, UtcDay};

/// A fault of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Reset,
    Status(u16),
    EmptyOk,
    Html,
    CutShort,
    EmptyObject,
    /// 404 that is not the upstream's.
    PlainMissing,
    /// 404 of the upstream.
    Missing,
    /// The series of days have other names.
    Renamed,
    /// Timestamps of days have no zone.
    Zoneless,
    /// Days whose values are all null.
    Nulls,
    /// A reply without the newest day.
    NewestAbsent,
    /// A null on the newest day.
    NewestNull,
    /// Only one of the nine metrics, in rows among nulls, its integers as strings.
    OneSeries,
    /// A page of the catalogue without rows.
    EmptyPage,
    /// A page with a link to the next one, and no cursor.
    NoCursor,
    /// The catalogue ends after its first page.
    Short,
}

/// When a fault happens: at an endpoint or at all, in a time, in one of so many requests, in one of so many hours, of all
/// islands or of those with a number below one.
#[derive(Clone, Debug)]
pub(super) struct Spell {
    pub(super) trouble: Trouble,
    pub(super) endpoint: Option<Endpoint>,
    pub(super) times: Range<UnixSeconds>,
    pub(super) one_in: u64,
    pub(super) one_hour_in: i64,
    pub(super) islands: u64,
}

impl Spell {
    /// All requests of an endpoint in a time.
    pub(super) fn new(trouble: Trouble, endpoint: Endpoint, times: Range<UnixSeconds>) -> Spell {
        Spell {
            trouble,
            endpoint: Some(endpoint),
            times,
            one_in: 1,
            one_hour_in: 1,
            islands: u64::MAX,
        }
    }
}

/// Returns the bucket of a day, and whether its value can be read.
pub(super) fn bucket(value: Option<u64>, day: UtcDay, trouble: Option<Trouble>) -> (Value, bool) {
    let zone = match trouble {
        Some(Trouble::Zoneless) => "",
        _ => "Z",
    };
    let value = match (value, trouble) {
        (_, Some(Trouble::Nulls)) => Value::Null,
        (Some(value), Some(Trouble::OneSeries)) => json!(value.to_string()),
        _ => json!(value),
    };
    let unread = [Trouble::Renamed, Trouble::Zoneless, Trouble::Nulls];
    let is_read = trouble.is_none_or(|trouble| !unread.contains(&trouble));
    (
        json!({"value": value, "timestamp": format!("{day}T00:00:00.000{zone}")}),
        is_read,
    )
}

pub(super) const NOT_FOUND: &str =
    r#"{"errorCode":"errors.com.epicgames.fne-public-api.not_found","uuid":"x"}"#;

pub(super) fn reply(status: u16, body: &str) -> Response<Vec<u8>> {
    typed_reply("application/json", status, body)
}

fn typed_reply(content_type: &str, status: u16, body: &str) -> Response<Vec<u8>> {
    let reply = Response::builder().status(status);
    let reply = reply.header(CONTENT_TYPE, content_type);
    reply.body(body.as_bytes().to_vec()).unwrap()
}

/// Faults that happen at any time.
pub(super) fn usual(number: u64) -> Trouble {
    let all = [
        Trouble::Reset,
        Trouble::EmptyOk,
        Trouble::Status(429),
        Trouble::Html,
        Trouble::CutShort,
        Trouble::EmptyObject,
        Trouble::Status(400),
        Trouble::Status(500),
    ];
    all[usize::try_from(number % 8).unwrap()]
}

/// The response of a fault that needs no data.
pub(super) fn unusable(trouble: Trouble) -> Option<Raw> {
    match trouble {
        Trouble::Reset => Some(Err("connection reset".to_owned())),
        Trouble::EmptyOk => Some(Ok(reply(200, ""))),
        Trouble::Html => Some(Ok(typed_reply("text/html", 522, "<html>"))),
        Trouble::CutShort => Some(Ok(reply(200, "{\"data\":[{\"code\":"))),
        Trouble::EmptyObject => Some(Ok(reply(200, "{}"))),
        Trouble::Status(status) => Some(Ok(reply(status, "{\"errorCode\":\"bad\"}"))),
        Trouble::PlainMissing => Some(Ok(typed_reply("text/plain", 404, "404 page not found"))),
        Trouble::Missing => Some(Ok(reply(404, NOT_FOUND))),
        _ => None,
    }
}
