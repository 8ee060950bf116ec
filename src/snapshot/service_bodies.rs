//! Bodies that describe the service, rendered when a snapshot is opened: `/v1`, which contains the
//! base URL, and `/v1/health`, which covers both payloads. And the text of list pages around their rows.

use serde_json::Value;

use super::history::History;
use crate::calendar::UnixSeconds;
use crate::request::{Endpoint, Page, Payload};

/// Capacity for the end of a list page. An end with the longest numbers is 15 bytes longer.
const LIST_END_BYTES: usize = 120;

/// Renders `/v1`.
pub(super) fn index(published: UnixSeconds, history: &History, base_url: &str) -> Vec<u8> {
    let (islands, creators) = (history.rows.len(), history.creator_rows.len());
    let (ccu, days) = (history.ccu_histories, history.days.len());
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
                "rankings":{days},
                "new":{days}
            }},
            "endpoints":{endpoints},
            "docs":{docs},
            "license":"CC-BY-4.0",
            "meta":{{"generatedAt":"{published}"}}
        }}"#
    ))
}

/// Renders `/v1/health`. `has` returns whether a payload is published.
pub(super) fn health(has: impl Fn(Payload) -> bool, published: Option<UnixSeconds>) -> Vec<u8> {
    let is_ready = Payload::ALL.into_iter().all(&has);
    let status = if is_ready { "ok" } else { "not_ready" };
    let payloads = Payload::ALL.map(|one| format!("\"{}\":{}", one.as_str(), has(one)));
    let payloads = payloads.join(",");
    let published = published.map_or("null".to_owned(), |time| format!("\"{time}\""));
    compact(&format!(
        r#"{{
            "status":"{status}",
            "version":"v1",
            "payloads":{{{payloads}}},
            "lastPublish":{published},
            "meta":{{"generatedAt":{published}}}
        }}"#
    ))
}

/// Returns the text of a list page in front of its rows.
pub(super) fn list_start(endpoint: Endpoint) -> &'static str {
    if endpoint == Endpoint::Creators {
        r#"{"creators":["#
    } else {
        r#"{"islands":["#
    }
}

/// Returns the text of a list page behind its rows. With another text, the version of the content changes
/// (`layout.rs`), on which entity tags of lists depend.
pub(super) fn list_end(published: &str, total: u64, has_more: bool, page: Page) -> String {
    let has_more = if has_more { "true" } else { "false" };
    let mut end = String::with_capacity(LIST_END_BYTES);
    end.extend([r#"],"meta":{"generatedAt":""#, published, r#"","total":"#]);
    end.push_str(itoa::Buffer::new().format(total));
    end.extend([r#","hasMore":"#, has_more, r#","limit":"#]);
    end.push_str(itoa::Buffer::new().format(page.limit));
    end.push_str(r#","offset":"#);
    end.push_str(itoa::Buffer::new().format(page.offset));
    end.push_str("}}");
    end
}

/// Removes line breaks and indentation.
fn compact(json: &str) -> Vec<u8> {
    let text: String = json.lines().map(str::trim_start).collect();
    text.into_bytes()
}
