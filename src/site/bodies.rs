//! Response bodies of the API, as the pages read them: pages show what the API responds.

use minijinja::{Value, context};
use serde::Deserialize;
use serde_json::from_slice;

use crate::model::IslandCode;

/// Returns the published body of a path with its query.
pub type BodyOf<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// `/v1/live/intraday`
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IntradayBody {
    pub(super) resolution_seconds: i64,
    pub(super) points: Vec<(i64, u64)>,
}

/// `/v1/islands/{code}/ccu`
#[derive(Deserialize)]
pub(super) struct CcuBody {
    pub(super) ccu: Vec<(String, u64)>,
}

/// `/v1/live`
#[derive(Deserialize)]
struct LiveBody {
    islands: Vec<LiveIsland>,
}

#[derive(Deserialize)]
struct LiveIsland {
    code: String,
    players: u64,
}

/// Returns the members of a body. One that is not JSON has none, so that a template misses them.
pub(super) fn members(body: &[u8]) -> Value {
    from_slice(body).unwrap_or_default()
}

/// Parses the start of a body whose list `islands` may be long or cut off: returns the members before
/// the list, and the first rows as `islands`. `ends` closes the objects that are open before the list.
pub(super) fn start_of(body: &[u8], ends: &str, rows_max: usize) -> Option<Value> {
    const LIST: &[u8] = b",\"islands\":[";
    // A quote within a string is escaped, so that this is a member.
    let at = memchr::memmem::find(body, LIST)?;
    let head: Value = from_slice(&[&body[..at], ends.as_bytes()].concat()).ok()?;
    let (mut rest, mut islands) = (&body[at + LIST.len()..], Vec::new());
    while islands.len() < rows_max {
        let mut parser = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        let Some(Ok(row)) = parser.next() else { break };
        islands.push(row);
        let Some(next) = rest[parser.byte_offset()..].strip_prefix(b",") else {
            break;
        };
        rest = next;
    }
    Some(context! { islands, ..head })
}

/// Returns the players of each island in a body of `/v1/live`, sorted by code.
pub fn live_players(body: &[u8]) -> Vec<(IslandCode, u64)> {
    let body = from_slice::<LiveBody>(body).ok();
    let islands = body.into_iter().flat_map(|body| body.islands);
    let mut players: Vec<_> = islands
        .filter_map(|one| Some((one.code.parse().ok()?, one.players)))
        .collect();
    players.sort_unstable();
    players
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_body_is_read_wherever_it_is_cut() {
        let body =
            br#"{"time":5,"x":",\"islands\":[","islands":[{"code":"1","title":"]","players":9},
            {"code":"2","title":"}","players":8}],"meta":{}}"#;
        let second = body.len() - r#"],"meta":{}}"#.len();
        for end in 0..=body.len() {
            let list = memchr::memmem::rfind(body, b"\"islands\":[").unwrap() + 11;
            let Some(found) = start_of(&body[..end], "}", 10) else {
                assert!(end < list, "{end}");
                continue;
            };
            let rows = found.get_attr("islands").unwrap().len().unwrap();
            assert_eq!(found.get_attr("time").unwrap(), Value::from(5));
            assert!(end >= list && rows <= 2);
            assert_eq!(rows == 2, end >= second, "{end}");
        }
        let found = start_of(body, "}", 1).unwrap();
        let rows = found.get_attr("islands").unwrap();
        let players = rows
            .get_item_by_index(0)
            .unwrap()
            .get_attr("players")
            .unwrap();
        assert_eq!((rows.len(), players), (Some(1), Value::from(9)));
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
