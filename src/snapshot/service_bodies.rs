//! Bodies that describe the service, rendered when a snapshot is opened: `/v1`, which contains the base
//! URL, and `/v1/health`, which covers both payloads.

use serde::Serialize;

use super::body::Packed;
use super::history::Stamp;
use crate::calendar::UnixSeconds;
use crate::request::Endpoint;

/// Published payloads, as `/v1/health` lists them (CONTRACT section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

impl Readiness {
    pub(super) const ALL: Readiness = Readiness {
        islands: true,
        creators: true,
        ccu: true,
        rankings: true,
        new: true,
        live: true,
        intraday: true,
    };
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    generated_at: Option<String>,
}

/// Renders `/v1`.
pub(super) fn index(stamp: Stamp, base_url: &str) -> Packed {
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
    struct Index {
        generated_at: String,
        version: &'static str,
        counts: Counts,
        endpoints: Vec<String>,
        docs: String,
        license: &'static str,
        meta: Meta,
    }
    let [islands, creators, ccu_histories, rankings, new] = stamp.counts;
    let generated_at = stamp.published.to_string();
    json(&Index {
        generated_at: generated_at.clone(),
        version: "v1",
        counts: Counts {
            islands,
            creators,
            ccu_histories,
            rankings,
            new,
        },
        endpoints: (Endpoint::API_PATHS.iter())
            .map(|path| format!("GET {path}"))
            .collect(),
        docs: format!("{base_url}/docs"),
        license: "CC-BY-4.0",
        meta: Meta {
            generated_at: Some(generated_at),
        },
    })
}

/// Renders `/v1/health`.
pub(super) fn health(payloads: Readiness, published: Option<UnixSeconds>) -> Packed {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Health {
        status: &'static str,
        version: &'static str,
        payloads: Readiness,
        last_publish: Option<String>,
        meta: Meta,
    }
    let last_publish = published.map(|published| published.to_string());
    json(&Health {
        status: if payloads == Readiness::ALL {
            "ok"
        } else {
            "not_ready"
        },
        version: "v1",
        payloads,
        meta: Meta {
            generated_at: last_publish.clone(),
        },
        last_publish,
    })
}

fn json(body: &impl Serialize) -> Packed {
    Packed::new(serde_json::to_vec(body).expect("plain values serialize"))
}
