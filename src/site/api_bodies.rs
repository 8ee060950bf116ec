//! Response bodies of the API, as far as the pages read them: pages show what the API responds.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::model::IslandCode;

/// Returns the published body of a path with its query.
pub type BodyOf<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// `/v1/rankings/{date}`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RankingBody {
    pub(super) date: String,
    pub(super) previous_date: Option<String>,
    pub(super) ranking: Vec<RankedIsland>,
    pub(super) meta: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RankedIsland {
    pub(super) rank: u32,
    pub(super) delta: Option<i64>,
    pub(super) previous_rank: Option<u32>,
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

/// `/v1/islands`, `/v1/creators` or `/v1/live`
#[derive(Deserialize)]
pub(super) struct ListBody<T> {
    #[serde(alias = "islands", alias = "creators")]
    pub(super) rows: Vec<T>,
    #[serde(default)]
    pub(super) meta: Meta,
}

/// The members after the time are those of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) generated_at: String,
    pub(super) total: u64,
    pub(super) has_more: bool,
    pub(super) limit: u64,
    pub(super) offset: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Creator {
    pub(super) slug: String,
    pub(super) island_count: u64,
    /// The first six; the others and the date are `None`.
    #[serde(flatten)]
    pub(super) metrics: IslandMetrics,
    /// Unknown in lists.
    #[serde(default)]
    pub(super) profile: CreatorProfile,
}

/// `/v1/creators/{slug}`, without the islands
#[derive(Deserialize)]
pub(super) struct CreatorBody {
    pub(super) creator: Creator,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatorProfile {
    pub(super) name: Option<String>,
    pub(super) followers: Option<u64>,
    pub(super) following: Option<u64>,
    pub(super) lifetime_plays: Option<u64>,
}

/// `/v1/islands/{code}`
#[derive(Deserialize)]
pub(super) struct IslandBody {
    pub(super) island: Island,
    pub(super) meta: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Island {
    pub(super) code: String,
    pub(super) title: String,
    pub(super) creator: Option<String>,
    pub(super) created_in: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) first_seen: Option<String>,
    pub(super) last_seen: Option<String>,
    #[serde(flatten)]
    pub(super) metrics: IslandMetrics,
    /// Empty in lists.
    #[serde(default)]
    pub(super) series: Vec<IslandMetrics>,
}

/// The nine metrics of an island on a day.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IslandMetrics {
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

#[derive(Deserialize)]
pub(super) struct LiveIsland {
    pub(super) code: String,
    pub(super) title: String,
    pub(super) players: u64,
}

/// Parses the start of a body whose list `islands` may be long or cut off: the members before the
/// list, and the first rows. `ends` closes the objects that are open before the list.
pub(super) fn start_of<H: DeserializeOwned, R: DeserializeOwned>(
    body: &[u8],
    ends: &str,
    rows_max: usize,
) -> Option<(H, Vec<R>)> {
    const LIST: &[u8] = b",\"islands\":[";
    // A quote within a string is escaped, so that this is a member.
    let at = memchr::memmem::find(body, LIST)?;
    let head = [&body[..at], ends.as_bytes()].concat();
    let head = serde_json::from_slice(&head).ok()?;
    let (mut rest, mut rows) = (&body[at + LIST.len()..], Vec::new());
    while rows.len() < rows_max {
        let mut parser = serde_json::Deserializer::from_slice(rest).into_iter();
        let Some(Ok(row)) = parser.next() else { break };
        rows.push(row);
        let Some(next) = rest[parser.byte_offset()..].strip_prefix(b",") else {
            break;
        };
        rest = next;
    }
    Some((head, rows))
}

/// Returns the players of each island in a body of `/v1/live`, sorted by code.
pub fn live_players(body: &[u8]) -> Vec<(IslandCode, u64)> {
    let body = serde_json::from_slice::<ListBody<LiveIsland>>(body).ok();
    let islands = body.into_iter().flat_map(|body| body.rows);
    let mut players: Vec<_> = islands
        .filter_map(|one| Some((one.code.parse().ok()?, one.players)))
        .collect();
    players.sort_unstable();
    players
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_start_of_a_body_is_read_wherever_it_is_cut() {
        let body =
            br#"{"time":5,"x":",\"islands\":[","islands":[{"code":"1","title":"]","players":9},
            {"code":"2","title":"}","players":8}],"meta":{}}"#;
        let second = body.len() - r#"],"meta":{}}"#.len();
        for end in 0..=body.len() {
            let found = start_of::<Value, LiveIsland>(&body[..end], "}", 10);
            let list = memchr::memmem::rfind(body, b"\"islands\":[").unwrap() + 11;
            let Some((head, rows)) = found else {
                assert!(end < list, "{end}");
                continue;
            };
            assert_eq!(head["time"], 5);
            assert!(end >= list && rows.len() <= 2);
            assert_eq!(rows.len() == 2, end >= second, "{end}");
        }
        let (_, rows) = start_of::<Value, LiveIsland>(body, "}", 1).unwrap();
        assert_eq!((rows.len(), rows[0].players), (1, 9));
    }

    #[test]
    fn live_players_are_sorted_by_code() {
        let body = br#"{"islands":[{"code":"2000-0000-0000","title":"\u0041","players":3},
            {"code":"1000-0000-0000","title":"b","players":7}]}"#;
        let players: Vec<u64> = live_players(body).iter().map(|one| one.1).collect();
        assert_eq!(players, [7, 3]);
        assert!(live_players(b"{").is_empty());
    }
}
