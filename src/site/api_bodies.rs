//! Response bodies of the API, as far as the pages read them: pages show what the API responds.

use serde::Deserialize;

/// `/v1`
#[derive(Deserialize)]
pub(super) struct IndexBody {
    #[serde(rename = "generatedAt")]
    pub(super) generated_at: String,
    pub(super) counts: IndexCounts,
}

#[derive(Deserialize)]
pub(super) struct IndexCounts {
    pub(super) islands: u64,
    pub(super) creators: u64,
    pub(super) rankings: u64,
}

/// `/v1/rankings/{date}`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RankingBody {
    pub(super) date: String,
    pub(super) previous_date: Option<String>,
    pub(super) ranking: Vec<RankedIsland>,
}

#[derive(Deserialize)]
pub(super) struct RankedIsland {
    pub(super) rank: u32,
    pub(super) delta: Option<i64>,
    pub(super) code: String,
    pub(super) title: String,
    pub(super) creator: Option<String>,
    #[serde(rename = "peakCCU")]
    pub(super) peak_ccu: Option<u64>,
}

/// `/v1/live/intraday`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IntradayBody {
    pub(super) resolution_seconds: i64,
    pub(super) points: Vec<(i64, u64)>,
}

/// `/v1/islands`
#[derive(Deserialize)]
pub(super) struct IslandListBody {
    pub(super) islands: Vec<IslandSummary>,
    pub(super) meta: ListMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) total: u64,
    pub(super) has_more: bool,
    pub(super) limit: u64,
    pub(super) offset: u64,
}

/// `/v1/islands/{code}`, without the series
#[derive(Deserialize)]
pub(super) struct IslandBody {
    pub(super) island: IslandSummary,
    pub(super) meta: IslandMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IslandMeta {
    pub(super) generated_at: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IslandSummary {
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
#[derive(Deserialize)]
pub(super) struct CcuBody {
    pub(super) ccu: Vec<(String, u64)>,
}

/// `/dumps/index.json`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DumpIndexBody {
    pub(super) generated_at: String,
    pub(super) license: String,
    pub(super) license_url: String,
    pub(super) credit: String,
    pub(super) files: Vec<DumpEntry>,
}

#[derive(Deserialize)]
pub(super) struct DumpEntry {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) modified: String,
}
