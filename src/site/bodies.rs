//! Response bodies of the API, as the pages read them: pages show what the API responds.

use minijinja::{Value, context};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::from_slice;

use crate::model::IslandCode;

/// Returns the published body of a path with its query; of a long one only the start.
pub type BodyOf<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// The times in `/v1/live`, and the points in `/v1/live/intraday`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveSteps<V> {
    pub(super) resolution_seconds: i64,
    time: Option<i64>,
    #[serde(default)]
    pub(super) points: Vec<(i64, V)>,
}

/// `/v1/islands/{code}/ccu`
#[derive(Deserialize)]
pub(super) struct CcuBody {
    pub(super) ccu: Vec<(String, u64)>,
}

/// A row of `/v1/live`.
#[derive(Deserialize)]
struct LiveIsland<'a> {
    code: &'a str,
    players: u64,
}

/// Returns the members of a body. One that is not JSON has none, so that a template misses them.
pub(super) fn members(body: &[u8]) -> Value {
    from_slice(body).unwrap_or_default()
}

/// Parses the start of a body whose list `islands` may be long or cut off: returns the members before
/// the list, the first rows as `islands`, and as `has_more` whether the list has others. `ends` closes the
/// objects that are open before the list.
pub(super) fn start_of(body: &[u8], ends: &str, rows_max: usize) -> Option<Value> {
    let (head, islands, has_more) = start_of_list(body, ISLANDS, ends, rows_max)?;
    Some(context! { islands, has_more, ..head })
}

/// The same for any list, given as in a body after another member.
pub(super) fn start_of_list(
    body: &[u8],
    list: &[u8],
    ends: &str,
    rows_max: usize,
) -> Option<(Value, Vec<Value>, bool)> {
    // A quote within a string is escaped, so that this is a member.
    let at = memchr::memmem::find(body, list)?;
    let head: Value = from_slice(&[&body[..at], ends.as_bytes()].concat()).ok()?;
    let mut rest = &body[at + list.len()..];
    let first: Vec<Value> = rows(&mut rest).take(rows_max).collect();
    Some((head, first, !rest.starts_with(b"]")))
}

const ISLANDS: &[u8] = b",\"islands\":[";

/// Iterates over the rows at the start of a list, up to one that is cut off. `rest` becomes what follows them.
fn rows<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> impl Iterator<Item = T> {
    std::iter::from_fn(|| {
        let mut parser = serde_json::Deserializer::from_slice(rest).into_iter();
        let row = parser.next()?.ok()?;
        let after = &rest[parser.byte_offset()..];
        *rest = after.strip_prefix(b",").unwrap_or(after);
        Some(row)
    })
}

/// Iterates over the islands in a body of `/v1/live` and their players.
pub fn live_players(body: &[u8]) -> impl Iterator<Item = (IslandCode, u64)> {
    let at = memchr::memmem::find(body, ISLANDS);
    let mut rest = at.map_or(&body[..0], |at| &body[at + ISLANDS.len()..]);
    let rows = std::iter::from_fn(move || rows(&mut rest).next());
    rows.filter_map(|one: LiveIsland<'_>| Some((one.code.parse().ok()?, one.players)))
}

/// Returns the time of the newest step in a body of `/v1/live` or `/v1/live/intraday`, and the seconds from
/// one step to the next.
pub fn newest_step(body: &[u8]) -> Option<(i64, i64)> {
    let times: LiveSteps<IgnoredAny> = from_slice(body).ok()?;
    let last = times.points.last().map(|point| point.0);
    Some((times.time.or(last)?, times.resolution_seconds))
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
    fn the_newest_step_is_that_of_the_snapshot_or_the_last_point() {
        for (body, step) in [
            (
                r#"{"time":5,"resolutionSeconds":600,"islands":[{"code":"1"}],"meta":{}}"#,
                Some((5, 600)),
            ),
            (
                r#"{"resolutionSeconds":600,"points":[[1,2],[4,18446744073709551616]],"meta":{}}"#,
                Some((4, 600)),
            ),
            (r#"{"resolutionSeconds":600,"points":[],"meta":{}}"#, None),
            ("{", None),
        ] {
            assert_eq!(newest_step(body.as_bytes()), step, "{body}");
        }
    }

    #[test]
    fn live_players_are_those_of_all_whole_rows() {
        let body = br#"{"time":5,"islands":[{"code":"2000-0000-0000","title":"\u0041","players":3},
            {"code":"1000-0000-0000","title":"b","players":7}]}"#;
        let players = |body: &[u8]| live_players(body).map(|one| one.1).collect::<Vec<u64>>();
        assert_eq!(players(body), [3, 7]);
        assert_eq!(players(&body[..body.len() - 4]), [3]);
        assert!(players(b"{").is_empty());
    }
}
