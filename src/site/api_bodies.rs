//! What pages show, read from the API's own bodies as any client reads them: so no page can say
//! anything else than the API.

use serde::Deserialize;

/// `/v1`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) generated_at: String,
    pub(super) counts: Counts,
}

#[derive(Debug, Deserialize)]
pub(super) struct Counts {
    pub(super) islands: u64,
    pub(super) creators: u64,
    pub(super) rankings: u64,
}

/// `/v1/rankings/{date}`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ranking {
    pub(super) date: String,
    pub(super) previous_date: Option<String>,
    #[serde(rename = "ranking")]
    pub(super) entries: Vec<Ranked>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ranked {
    pub(super) rank: u32,
    pub(super) delta: Option<i64>,
    pub(super) code: String,
    pub(super) title: String,
    pub(super) creator: Option<String>,
    #[serde(rename = "peakCCU")]
    pub(super) peak_ccu: Option<u64>,
}

/// `/v1/live/intraday`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Intraday {
    pub(super) resolution_seconds: i64,
    pub(super) points: Vec<(i64, u64)>,
}

/// `/v1/islands`
#[derive(Debug, Deserialize)]
pub(super) struct IslandPage {
    pub(super) islands: Vec<Island>,
    pub(super) meta: PageMeta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    pub(super) total: u64,
    pub(super) has_more: bool,
    pub(super) limit: u64,
    pub(super) offset: u64,
}

/// `/v1/islands/{code}`, without its series
#[derive(Debug, Deserialize)]
pub(super) struct IslandDetail {
    pub(super) island: Island,
    pub(super) meta: Meta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) generated_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Island {
    pub(super) code: String,
    pub(super) title: String,
    pub(super) creator: Option<String>,
    pub(super) created_in: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) first_seen: Option<String>,
    pub(super) last_seen: Option<String>,
    pub(super) date: Option<String>,
    #[serde(rename = "peakCCU")]
    pub(super) peak_ccu: Option<u64>,
    pub(super) unique_players: Option<u64>,
    pub(super) minutes_played: Option<u64>,
    pub(super) favorites: Option<u64>,
    pub(super) plays: Option<u64>,
    pub(super) recommendations: Option<u64>,
    pub(super) average_minutes_per_player: Option<f64>,
    #[serde(rename = "retentionD1")]
    pub(super) retention_d1: Option<f64>,
    #[serde(rename = "retentionD7")]
    pub(super) retention_d7: Option<f64>,
}

/// `/v1/islands/{code}/ccu`
#[derive(Debug, Deserialize)]
pub(super) struct CcuHistory {
    pub(super) ccu: Vec<(String, u64)>,
}

/// `/dumps/index.json`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dumps {
    pub(super) generated_at: String,
    pub(super) license: String,
    pub(super) license_url: String,
    pub(super) credit: String,
    pub(super) files: Vec<DumpFile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DumpFile {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) modified: String,
}

/// What an island is called: by its code where its title is of nothing that is seen.
pub(super) fn titled<'a>(title: &'a str, code: &'a str) -> &'a str {
    if title.trim().is_empty() { code } else { title }
}
