//! What is asked for: bodies of wanted sizes, and pages and searches that no cache can hold.

use std::collections::HashSet;
use std::net::SocketAddr;

use crate::common::Outcome;
use crate::common::http::{found, get};
use crate::common::text::{encode, values};

pub(crate) const PAGE: &str = "/v1/islands?limit=50";
const SORTS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];
/// Tags and creators that are filtered by.
const FILTERS: usize = 40;

fn text(address: SocketAddr, target: &str) -> Outcome<String> {
    Ok(String::from_utf8(found(address, target)?.body)?)
}

/// How many rows a filter leaves.
fn total(address: SocketAddr, filter: &str) -> Outcome<usize> {
    let page = text(address, &format!("/v1/islands?limit=1&{filter}"))?;
    let (_, rest) = page.split_once("\"total\":").ok_or("no total")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
    Ok(digits.ok_or("no total")?.parse()?)
}

/// For each wanted size the target whose body comes nearest: of islands, histories, creators, and
/// the live snapshot.
pub(crate) fn nearest(address: SocketAddr, wanted: &[usize]) -> Outcome<Vec<String>> {
    let islands = text(address, "/v1/islands?limit=120&offset=100")?;
    let creators = text(address, "/v1/creators?limit=60")?;
    let mut targets = vec!["/v1/live".to_owned()];
    for code in values(&islands, "code") {
        targets.push(format!("/v1/islands/{code}/ccu"));
        targets.push(format!("/v1/islands/{code}"));
    }
    for slug in values(&creators, "slug") {
        targets.push(format!("/v1/creators/{slug}"));
    }
    let mut sizes = Vec::new();
    for target in targets {
        sizes.push((found(address, &target)?.body.len(), target));
    }
    let mut chosen = Vec::new();
    for wanted in wanted {
        let best = sizes.iter().min_by_key(|(size, _)| size.abs_diff(*wanted));
        chosen.push(best.ok_or("no islands")?.1.clone());
    }
    Ok(chosen)
}

/// Pages of 50 of every order and of single filters, all different, none short but a creator's.
pub(crate) fn pages(address: SocketAddr, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let listed = text(address, "/v1/islands?limit=200")?;
    let mut filters = vec![String::new()];
    let tags = listed.split("\"tags\":[").skip(1);
    let tags = tags.filter_map(|rest| rest.split(']').next());
    let tags: HashSet<&str> = tags
        .flat_map(|tags| tags.split('"').skip(1).step_by(2))
        .collect();
    let mut tags: Vec<String> = tags
        .iter()
        .map(|tag| format!("&tag={}", encode(tag)))
        .collect();
    tags.sort();
    filters.extend(tags.into_iter().take(FILTERS));
    filters.extend(["uefn", "creative"].map(|tool| format!("&createdIn={tool}")));
    let slugs: HashSet<&str> = values(&listed, "creator").into_iter().collect();
    let mut slugs: Vec<String> = slugs
        .iter()
        .map(|slug| format!("&creator={slug}"))
        .collect();
    slugs.sort();
    filters.extend(slugs.into_iter().take(FILTERS));
    let mut left = Vec::new();
    for filter in filters {
        let rows = total(address, &filter)?;
        for sort in SORTS {
            for order in ["asc", "desc"] {
                let target = format!("/v1/islands?limit=50&sort={sort}&order={order}{filter}");
                // Of few rows only one page: it would be short.
                left.push((target, rows.saturating_sub(49).max(1)));
            }
        }
    }
    // Round and round through the kinds, each time from another row on.
    let mut pages = Vec::new();
    for turn in 0_usize.. {
        let before = pages.len();
        for (target, offsets) in left.iter().filter(|(_, offsets)| turn < *offsets) {
            // A step that spreads over the rows, and meets each once: it shares no factor with them.
            let step = [7919, 7907, 1]
                .into_iter()
                .find(|step| !offsets.is_multiple_of(*step));
            let offset = turn * step.unwrap_or(1) % offsets;
            pages.push(get(&format!("{target}&offset={offset}"), ""));
        }
        if pages.len() >= count || pages.len() == before {
            break;
        }
    }
    pages.truncate(count);
    Ok(pages)
}

/// Searches of titles, all different: pieces of titles that are there.
pub(crate) fn searches(address: SocketAddr, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let (mut known, mut searches) = (HashSet::new(), Vec::new());
    for offset in (0..).step_by(200) {
        let listed = text(address, &format!("/v1/islands?limit=200&offset={offset}"))?;
        let titles = values(&listed, "title");
        if titles.is_empty() || searches.len() >= count {
            break;
        }
        for title in titles.iter().filter(|title| title.is_ascii()) {
            let title = title.to_lowercase();
            for length in 4..=8 {
                for piece in title.as_bytes().windows(length).step_by(3) {
                    let piece = std::str::from_utf8(piece)?.trim();
                    if piece.len() >= 3 && known.insert(piece.to_owned()) {
                        let target = format!("{PAGE}&q={}", encode(piece));
                        searches.push(get(&target, ""));
                    }
                }
            }
        }
    }
    // Neighbouring pieces of one title have much in common: take them far apart.
    let step = (searches.len() as f64).sqrt() as usize + 1;
    let mixed = (0..step).flat_map(|first| (first..searches.len()).step_by(step));
    Ok(mixed.map(|at| searches[at].clone()).take(count).collect())
}
