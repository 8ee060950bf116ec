//! Bodies that describe the service, rendered when a snapshot is opened: `/v1`, which contains the
//! base URL, and `/v1/health`, which covers both payloads.

use serde_json::Value;

use super::body::EncodedPair;
use crate::calendar::UnixSeconds;
use crate::request::Endpoint;

/// Published payloads, as `/v1/health` lists them (CONTRACT section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each payload of CONTRACT section 4"
)]
pub struct Readiness {
    /// The island list and details.
    pub islands: bool,
    /// The creator list and details.
    pub creators: bool,
    /// CCU histories.
    pub ccu: bool,
    /// Rankings by day.
    pub rankings: bool,
    /// New islands by day.
    pub new: bool,
    /// The live snapshot.
    pub live: bool,
    /// The intraday curve.
    pub intraday: bool,
}

/// Renders `/v1`; `counts` are those of a [`Stamp`](super::Stamp).
pub(super) fn index(published: UnixSeconds, counts: [u64; 5], base_url: &str) -> EncodedPair {
    let [islands, creators, ccu, rankings, new] = counts;
    let endpoints = Endpoint::API_PATHS.iter().map(|path| format!("GET {path}"));
    let endpoints: Value = endpoints.collect();
    let docs = Value::from(format!("{base_url}/docs"));
    compact(&format!(
        r#"{{
            "generatedAt":"{published}",
            "version":"v1",
            "counts":{{
                "islands":{islands},
                "creators":{creators},
                "ccuHistories":{ccu},
                "rankings":{rankings},
                "new":{new}
            }},
            "endpoints":{endpoints},
            "docs":{docs},
            "license":"CC-BY-4.0",
            "meta":{{"generatedAt":"{published}"}}
        }}"#
    ))
}

/// Renders `/v1/health`.
pub(super) fn health(payloads: Readiness, published: Option<UnixSeconds>) -> EncodedPair {
    let Readiness {
        islands,
        creators,
        ccu,
        rankings,
        new,
        live,
        intraday,
    } = payloads;
    let is_ready = islands && creators && ccu && rankings && new && live && intraday;
    let status = if is_ready { "ok" } else { "not_ready" };
    let published = published.map_or("null".to_owned(), |time| format!("\"{time}\""));
    compact(&format!(
        r#"{{
            "status":"{status}",
            "version":"v1",
            "payloads":{{
                "islands":{islands},
                "creators":{creators},
                "ccu":{ccu},
                "rankings":{rankings},
                "new":{new},
                "live":{live},
                "intraday":{intraday}
            }},
            "lastPublish":{published},
            "meta":{{"generatedAt":{published}}}
        }}"#
    ))
}

/// Removes line breaks and indentation.
fn compact(json: &str) -> EncodedPair {
    let text: String = json.lines().map(str::trim_start).collect();
    EncodedPair::new(text.into_bytes())
}
