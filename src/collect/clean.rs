//! Cleaning of catalogue rows, so that whatever is collected is a sound dataset (CONTRACT section 3).

use std::fmt;

use serde_json::Value;

use crate::dataset::Island;
use crate::model::CreatedIn;

/// Longest field of a dataset, in bytes.
const MAX_FIELD_BYTES: usize = 1_024;

/// Number of rows that were changed or left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cleaned {
    /// Codes of another shape than `dddd-dddd-dddd`; their rows are left out.
    pub(super) codes: u64,
    /// Titles that were absent, had control characters or parts that are no text, or were cut.
    pub(super) titles: u64,
    /// Creators that are no valid slug; the island has none.
    pub(super) creators: u64,
    /// Tags that were empty, double, had `|` or control characters, or did not fit.
    pub(super) tags: u64,
}

impl Cleaned {
    /// Adds the counts of another page.
    pub(super) fn add(&mut self, other: Cleaned) {
        self.codes += other.codes;
        self.titles += other.titles;
        self.creators += other.creators;
        self.tags += other.tags;
    }
}

/// The end of a log line: nothing, or the counts that are not zero.
impl fmt::Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.codes, "rows without an island code left out"),
            (self.titles, "titles cleaned"),
            (self.creators, "creators left out"),
            (self.tags, "tags cleaned or left out"),
        ];
        let mut counts = counts.iter().filter(|(count, _)| *count > 0);
        counts.try_for_each(|(count, what)| write!(f, "; {what}: {count}"))
    }
}

/// Converts a row; `None` if its code is not an island's.
pub(super) fn clean(raw: &Value, cleaned: &mut Cleaned) -> Option<Island> {
    let Some(code) = raw["code"].as_str().and_then(|code| code.parse().ok()) else {
        cleaned.codes += 1;
        return None;
    };
    let title = raw["title"].as_str().unwrap_or_default();
    let mut kept = title.replace(char::is_control, "");
    kept.truncate(kept.floor_char_boundary(MAX_FIELD_BYTES));
    // Parts of the body that are no text were replaced before it was parsed.
    let is_repaired = kept.contains(char::REPLACEMENT_CHARACTER);
    cleaned.titles += u64::from(kept.is_empty() || kept != title || is_repaired);
    let creator = raw["creatorCode"].as_str();
    let creator = creator.filter(|creator| !creator.is_empty());
    let slug = creator.and_then(|creator| creator.parse().ok());
    cleaned.creators += u64::from(creator.is_some() && slug.is_none());
    let created_in = match raw["createdIn"].as_str() {
        Some("UEFN") => Some(CreatedIn::Uefn),
        Some("FNC") => Some(CreatedIn::Creative),
        _ => None,
    };
    Some(Island {
        code,
        title: kept.into(),
        creator: slug,
        created_in,
        tags: join_tags(&raw["tags"], cleaned).into(),
    })
}

fn join_tags(raw: &Value, cleaned: &mut Cleaned) -> String {
    let mut joined = String::new();
    for raw in raw.as_array().map_or(&[][..], Vec::as_slice) {
        let written = raw.as_str().unwrap_or_default();
        // `|` separates tags in a dataset.
        let tag = written.replace('|', "/").replace(char::is_control, "");
        let tag = tag.trim();
        let separator = usize::from(!joined.is_empty());
        let fits = joined.len() + separator + tag.len() <= MAX_FIELD_BYTES;
        let is_new = !joined.split('|').any(|other| other == tag);
        let is_kept = !tag.is_empty() && fits && is_new;
        cleaned.tags += u64::from(!is_kept || tag != written);
        if is_kept {
            joined.push_str(&"|"[..separator]);
            joined.push_str(tag);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: Value) -> (Option<Island>, Cleaned) {
        let mut cleaned = Cleaned::default();
        let listed = clean(&serde_json::from_value(json).unwrap(), &mut cleaned);
        (listed, cleaned)
    }

    #[test]
    fn a_sound_row_stays_as_it_is() {
        let (listed, cleaned) = row(serde_json::json!({
            "code": "0034-5678-9012", "title": "MTR BETA 🥊", "creatorCode": "anas_s", "createdIn": "FNC",
            "tags": ["1v1", "difficulty: easy"], "category": "LEGO",
        }));
        let listed = listed.unwrap();
        assert_eq!(cleaned, Cleaned::default());
        assert_eq!(listed.code.to_string(), "0034-5678-9012");
        assert_eq!(
            (&*listed.title, &*listed.tags),
            ("MTR BETA 🥊", "1v1|difficulty: easy")
        );
        assert_eq!(listed.creator.unwrap().as_str(), "anas_s");
        assert_eq!(listed.created_in, Some(CreatedIn::Creative));
        for creator in [Value::Null, "".into()] {
            let (listed, cleaned) = row(serde_json::json!({
                "code": "0034-5678-9012", "title": "t", "creatorCode": creator, "createdIn": "OTHER",
                "new": {"x": [1]},
            }));
            let listed = listed.unwrap();
            assert_eq!((listed.creator, listed.created_in), (None, None));
            assert_eq!(cleaned, Cleaned::default(), "{creator}");
        }
    }

    #[test]
    fn faults_are_cleaned_and_counted() {
        let long = "ü".repeat(600);
        for (json, want) in [
            (
                serde_json::json!({"code": "playlist_solo", "title": "x"}),
                None,
            ),
            (serde_json::json!({"title": "x"}), None),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": "a\u{0}b\u{85}c\u{200B}"}),
                Some(("abc\u{200B}", "")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": long}),
                Some((&long[..1024], "")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": 7, "tags": "x"}),
                Some(("", "")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": "\u{0}\u{1}"}),
                Some(("", "")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": ["x\u{7}y"]}),
                Some(("t", "xy")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": "t", "creatorCode": "a/b"}),
                Some(("t", "")),
            ),
            (
                serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": ["a|b", "", "a/b", null, "c"]}),
                Some(("t", "a/b|c")),
            ),
        ] {
            let (listed, cleaned) = row(json.clone());
            assert_ne!(cleaned, Cleaned::default(), "{json}");
            let found = listed
                .as_ref()
                .map(|listed| (&*listed.title, &*listed.tags));
            assert_eq!(found, want, "{json}");
            assert!(listed.is_none_or(|listed| listed.creator.is_none()));
        }
    }

    #[test]
    fn tags_that_do_not_fit_are_left_out() {
        let tags: Vec<String> = (0..100).map(|number| format!("{number:020}")).collect();
        let (listed, cleaned) =
            row(serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": tags}));
        let listed = listed.unwrap();
        assert!(listed.tags.len() <= 1024 && listed.tags.len() > 1000);
        assert_eq!(
            usize::try_from(cleaned.tags).unwrap(),
            100 - listed.tags.split('|').count()
        );
    }
}
