//! JSON about the service: index, health, and the templates of list pages.

use serde::Serialize;

use super::{Meta, json};
use crate::calendar::UnixSeconds;
use crate::snapshot::{Packed, Readiness, Stamp};

/// Endpoints in the index, in the order of SPEC section 4.
pub const ENDPOINTS: [&str; 13] = [
    "GET /v1",
    "GET /v1/health",
    "GET /v1/islands",
    "GET /v1/islands/{code}",
    "GET /v1/islands/{code}/ccu",
    "GET /v1/creators",
    "GET /v1/creators/{slug}",
    "GET /v1/live",
    "GET /v1/live/intraday",
    "GET /v1/rankings",
    "GET /v1/rankings/{date}",
    "GET /v1/new",
    "GET /v1/new/{date}",
];

/// Text around the rows of list pages, in parts terminated by NUL: islands, then creators. The last part
/// is the common end of rows, which creators do not have.
pub(crate) fn page_templates(published: UnixSeconds, island_end: &[u8]) -> Vec<u8> {
    let pieces = |name: &str| {
        format!(
            "{{\"{name}\":[\0],\"meta\":{{\"generatedAt\":\"{published}\",\"total\":\0,\"hasMore\":\0,\"limit\":\0,\"offset\":\0}}}}"
        )
    };
    let mut out = pieces("islands").into_bytes();
    out.push(0);
    out.extend_from_slice(island_end);
    out.extend_from_slice(format!("\0{}\0", pieces("creators")).as_bytes());
    out
}

/// `/v1`
pub(crate) fn index(stamp: Stamp, base_url: &str) -> Packed {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Counts {
        islands: u64,
        creators: u64,
        ccu_histories: u64,
        rankings: u64,
        new: u64,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Index<'a> {
        generated_at: String,
        version: &'a str,
        counts: Counts,
        endpoints: [&'a str; 13],
        docs: String,
        license: &'a str,
        meta: Meta,
    }
    let [islands, creators, ccu_histories, rankings, new] = stamp.counts;
    let generated_at = stamp.published.to_string();
    let mut out = Vec::new();
    let index = Index {
        generated_at: generated_at.clone(),
        version: "v1",
        counts: Counts {
            islands,
            creators,
            ccu_histories,
            rankings,
            new,
        },
        endpoints: ENDPOINTS,
        docs: format!("{base_url}/docs"),
        license: "CC-BY-4.0",
        meta: Meta {
            generated_at: Some(generated_at),
        },
    };
    json(&mut out, &index);
    Packed::new(out)
}

/// `/v1/health`
pub(crate) fn health(ready: Readiness, published: Option<UnixSeconds>) -> Packed {
    #[derive(Serialize)]
    #[expect(
        clippy::struct_excessive_bools,
        reason = "the members of CONTRACT section 4"
    )]
    struct Payloads {
        islands: bool,
        creators: bool,
        ccu: bool,
        rankings: bool,
        new: bool,
        live: bool,
        intraday: bool,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Health<'a> {
        status: &'a str,
        version: &'a str,
        payloads: Payloads,
        last_publish: Option<String>,
        meta: Meta,
    }
    let Readiness {
        islands,
        creators,
        ccu,
        rankings,
        new,
        live,
        intraday,
    } = ready;
    let all = islands && creators && ccu && rankings && new && live && intraday;
    let last_publish = published.map(|published| published.to_string());
    let health = Health {
        status: if all { "ok" } else { "not_ready" },
        version: "v1",
        payloads: Payloads {
            islands,
            creators,
            ccu,
            rankings,
            new,
            live,
            intraday,
        },
        meta: Meta {
            generated_at: last_publish.clone(),
        },
        last_publish,
    };
    let mut out = Vec::new();
    json(&mut out, &health);
    Packed::new(out)
}
