//! Random requests for a dataset: most are valid, many are almost valid.
//!
//! No request whose response the contract leaves open is made.

use island_metrics::request::{ISLAND_PARAMETERS, Kind, Parameter};

use crate::endpoint_cases::filled;
use crate::prelude::*;
use crate::random_dataset::{DAYS, SLUGS, TAGS, WORDS};

/// Integers as clients and scanners send them, valid and invalid.
const INTEGERS: &str = "\
    0|1|2|3|7|50|199|200|201|007|00000000000000000000000000003|-1|+1| 1||1.0|1e2|0x10|٣|\
    18446744073709551615|18446744073709551616|99999999999999999999";
/// Broken escapes, and escapes of bytes that are not UTF-8.
const BROKEN: [&str; 8] = ["%", "%4", "%zz", "%+1", "%ff", "%C3", "%C3%28", "%ed%a0%80"];
/// Paths that do not exist under /v1, and malformed segments.
const STRANGE: &str = "
/v1/ /v1/islands/ /v1/creators/ /v1/health/ /v1/live/ /v1/live/intraday/ /v1/rankings/ /v1/new/
/v1/nothing /v1/Islands /v1/live/latest /v1/islands/0000-0000-000 /v1/islands/0000-0000-00000
/v1/islands/000000000000 /v1/islands/abcd-0000-0000 /v1/islands/%D9%A3000-0000-0000
/v1/islands/bad/ccu /v1/islands/9999-9999-9999 /v1/islands/9999-9999-9999/ccu
/v1/islands/bad/nothing /v1/islands/9999-9999-9999/ccu/more /v1/islands/0000-0000-0000/
/v1/islands/%ff /v1/creators/%C3 /v1/creators/a%2Fb /v1/creators/nobody/islands /v1/rankings/%zz
/v1/rankings/today /v1/new/2024-1-01 /v1/new/LATEST /v1/new/2024-13-45 /v1/rankings/2024-02-30
";

/// Text encoded for a path segment: all that must be escaped is, and some of the rest.
fn segment(rng: &mut Rng, text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if plain && !rng.one_in(30) {
            out.push(char::from(byte));
        } else if rng.one_in(2) {
            write!(out, "%{byte:02X}").unwrap();
        } else {
            write!(out, "%{byte:02x}").unwrap();
        }
    }
    out
}

/// Text encoded for a query: as for a path, with `+` for some spaces.
fn value(rng: &mut Rng, text: &str) -> String {
    let escaped = segment(rng, text);
    if rng.one_in(2) {
        escaped.replace("%20", "+")
    } else {
        escaped
    }
}

/// A piece of a title or slug, perhaps in another case.
fn needle(rng: &mut Rng, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let start = usize::try_from(rng.below(chars.len() as u64)).unwrap();
    let length = usize::try_from(rng.below(6)).unwrap();
    let piece: String = chars[start..].iter().take(length).collect();
    match rng.below(4) {
        0 => piece.to_uppercase(),
        1 => piece.to_lowercase(),
        2 => piece.to_lowercase().replace('i', "İ"),
        _ => piece,
    }
}

pub(crate) fn target(rng: &mut Rng, world: &World) -> String {
    let codes: Vec<&str> = world.islands.keys().map(String::as_str).collect();
    let path = match rng.below(40) {
        0..13 => return list(rng, world, "/v1/islands", 6),
        13..18 => return list(rng, world, "/v1/creators", 3),
        18..37 => {
            let parameters = [place(rng, &codes), place(rng, &parts(SLUGS)), day(rng)];
            let template = rng.pick(Endpoint::API_PATHS);
            filled(template, parameters.each_ref().map(String::as_str))
        }
        37 => format!("/v1/{}", garbage(rng)),
        _ => return rng.pick(&words(STRANGE)).to_owned(),
    };
    match rng.below(12) {
        0 => format!("{path}?limit=0&offset=x&limit=1&sort="),
        1 => format!("{path}?"),
        2 => format!("{path}?&&x&=y&a=b=c"),
        _ => path,
    }
}

fn place(rng: &mut Rng, names: &[&str]) -> String {
    let name = rng.pick(names);
    segment(rng, name)
}

fn day(rng: &mut Rng) -> String {
    if rng.one_in(4) {
        "latest".to_owned()
    } else {
        place(rng, &words(DAYS))
    }
}

/// A segment of no endpoint.
fn garbage(rng: &mut Rng) -> String {
    let mut text = "g".to_owned();
    for _ in 0..rng.below(12) {
        let byte = u8::try_from(u64::from(b' ') + rng.below(95)).unwrap();
        if !matches!(byte, b'/' | b'\\') {
            text.push(char::from(byte));
        }
    }
    segment(rng, &text)
}

/// A query with up to `most` parameters, in any order, some twice, some invalid.
fn list(rng: &mut Rng, world: &World, path: &str, most: u64) -> String {
    let mut pieces = Vec::new();
    for _ in 0..rng.below(most) {
        let (name, text) = parameter(rng, world);
        let name = if rng.one_in(12) {
            segment(rng, name)
        } else {
            name.to_owned()
        };
        pieces.push(format!("{name}={}", value(rng, &text)));
    }
    match rng.below(30) {
        0 => pieces.push(format!("q={}", rng.pick(&BROKEN))),
        1 => pieces.push(format!("undeclared={}", rng.pick(&BROKEN))),
        2 => pieces.push(rng.pick(&BROKEN).to_owned()),
        3 => pieces.push(
            rng.pick(&["q", "limit", "sort=", "creator=", "tag=", ""])
                .to_owned(),
        ),
        4 => pieces.push("undeclared=1&undeclared=2".to_owned()),
        _ => {}
    }
    if pieces.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", pieces.join("&"))
    }
}

/// The name of any parameter, and a value that is mostly valid.
fn parameter(rng: &mut Rng, world: &World) -> (&'static str, String) {
    let at = rng.below(ISLAND_PARAMETERS.len() as u64);
    let Parameter { name, kind, .. } = ISLAND_PARAMETERS[usize::try_from(at).unwrap()];
    let text = match kind {
        // About the longest search.
        Kind::Text { .. } if name == "q" && rng.one_in(50) => {
            let bytes = usize::try_from(1019 + rng.below(5)).unwrap();
            "é".repeat(2) + &"a".repeat(bytes)
        }
        Kind::Text { .. } if name == "q" => {
            let titles: Vec<&str> = world.islands.values().map(|i| i.title.as_str()).collect();
            let text = match rng.below(5) {
                0 => rng.pick(&parts(WORDS)),
                1 => rng.pick(&parts(SLUGS)),
                _ => rng.pick(&titles),
            };
            needle(rng, text)
        }
        Kind::Text { .. } => {
            let known = match name {
                "tag" => TAGS,
                "creator" => SLUGS,
                _ => WORDS,
            };
            rng.pick(&parts(known)).to_owned()
        }
        Kind::Name { .. } if rng.one_in(8) => rng.pick(&["UEFN", "ASC", "title", ""]).to_owned(),
        Kind::Name { names, .. } => rng.pick(names).to_owned(),
        Kind::Integer { .. } if rng.one_in(2) => rng.pick(&parts(INTEGERS)).to_owned(),
        Kind::Integer { .. } if rng.one_in(2) => rng.below(40).to_string(),
        Kind::Integer { range, .. } => {
            let span = range.1.saturating_sub(range.0).saturating_add(1);
            (range.0 + rng.below(span)).to_string()
        }
    };
    (name, text)
}
