//! Domain types: island code, creator slug, tool, sort field, sort order, tier and limits; and numbers in digits.
//!
//! Values are validated when they are parsed and need no further checks.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Largest count in a dataset, 2^53 - 1: the largest integer that every JSON parser reads exactly.
pub const COUNT_MAX: u64 = (1 << 53) - 1;

/// An island code, `dddd-dddd-dddd` (SPEC section 2), stored as the number of its twelve digits, so
/// that comparing, hashing and sorting work on one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IslandCode(u64);

impl IslandCode {
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the code with the twelve digits of `number`; `None` if it has more digits.
    pub fn from_number(number: u64) -> Option<IslandCode> {
        (number < 1_000_000_000_000).then_some(IslandCode(number))
    }

    /// Returns `dddd-dddd-dddd` without the cost of `fmt`: a publish writes it a hundred million times.
    pub fn text(self) -> [u8; 14] {
        let mut text = *b"0000-0000-0000";
        let mut rest = self.0;
        // By groups, whose divisions do not wait for each other.
        for end in [14, 9, 4] {
            let mut group = rest % 10_000;
            for digit in text[end - 4..end].iter_mut().rev() {
                *digit += (group % 10).to_le_bytes()[0];
                group /= 10;
            }
            rest /= 10_000;
        }
        text
    }
}

impl FromStr for IslandCode {
    type Err = ();

    fn from_str(text: &str) -> Result<IslandCode, ()> {
        let mut number = 0;
        for (at, byte) in text.bytes().enumerate() {
            match (at, byte) {
                (4 | 9, b'-') => {}
                (0..=3 | 5..=8 | 10..=13, b'0'..=b'9') => {
                    number = number * 10 + u64::from(byte - b'0');
                }
                _ => return Err(()),
            }
        }
        (text.len() == 14).then_some(IslandCode(number)).ok_or(())
    }
}

impl fmt::Display for IslandCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).expect("digits and hyphens"))
    }
}

/// A creator's slug: 1 to 64 bytes, no `/`, no control characters, not `.` or `..`, which no client can send
/// as a path segment (CONTRACT section 3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreatorSlug(Box<str>);

impl CreatorSlug {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CreatorSlug {
    type Err = ();

    fn from_str(text: &str) -> Result<CreatorSlug, ()> {
        let is_forbidden = |c: char| c == '/' || c.is_control();
        let is_slug = matches!(text.len(), 1..=64)
            && !text.contains(is_forbidden)
            && ![".", ".."].contains(&text);
        is_slug.then(|| CreatorSlug(text.into())).ok_or(())
    }
}

/// Implements the list of an enum's values, their names, and the parsing of a name.
macro_rules! named {
    ($kind:ident: $($value:ident = $name:literal),+ $(,)?) => {
        impl $kind {
            /// All values, in the order of their numbers. Published files may contain these numbers.
            pub const ALL: [$kind; [$($name),+].len()] = [$($kind::$value),+];

            /// The names of all values, in the same order.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Returns the name used in query strings, responses, files and metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($kind::$value => $name,)+
                }
            }

            pub fn parse(text: &str) -> Option<$kind> {
                let mut all = $kind::ALL.into_iter();
                all.find(|value| value.as_str() == text)
            }
        }
    };
}

/// The tool an island was made with (SPEC section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreatedIn {
    /// Unreal Editor for Fortnite.
    Uefn,
    /// The in-game creative mode.
    Creative,
}

pub(crate) use named;

named!(CreatedIn: Uefn = "uefn", Creative = "creative");

/// A field that the island list sorts by (SPEC section 4); also the six counts of a daily row,
/// in this order wherever they stand in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortField {
    /// Peak of players at the same time.
    PeakCcu,
    UniquePlayers,
    MinutesPlayed,
    Favorites,
    /// Sessions started.
    Plays,
    Recommendations,
}

named!(
    SortField:
    PeakCcu = "peakCCU",
    UniquePlayers = "uniquePlayers",
    MinutesPlayed = "minutesPlayed",
    Favorites = "favorites",
    Plays = "plays",
    Recommendations = "recommendations",
);

/// The names of the metrics of an island on a day, in the order of responses and files: the six counts, and three decimals.
pub const METRIC_NAMES: [&str; 9] = [
    SortField::PeakCcu.as_str(),
    SortField::UniquePlayers.as_str(),
    SortField::MinutesPlayed.as_str(),
    SortField::Favorites.as_str(),
    SortField::Plays.as_str(),
    SortField::Recommendations.as_str(),
    "averageMinutesPerPlayer",
    "retentionD1",
    "retentionD7",
];

/// The direction of a sort. In both directions nulls come last and ties are ordered by ascending code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortOrder {
    Desc,
    Asc,
}

named!(SortOrder: Desc = "desc", Asc = "asc");

/// Maximum number of keys ever issued, and of their counters.
pub const KEYS_MAX: u32 = 1 << 26;

/// Maximum number of active free keys per address (SPEC section 8).
pub const FREE_KEYS_MAX: usize = 3;

/// The tier of a key, which selects its daily limit (SPEC section 8). Requests without a key have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Issued on request, a limited number per address.
    Free,
    /// Issued by arrangement with the publisher.
    Starter,
    /// Issued by arrangement with the publisher; the highest limit.
    Pro,
}

named!(Tier: Free = "free", Starter = "starter", Pro = "pro");

/// Requests allowed per UTC day (SPEC section 8). Each limit is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TierLimits {
    /// Per address, without a key.
    pub anonymous: u16,
    pub free: u32,
    pub starter: u32,
    pub pro: u32,
}

impl TierLimits {
    /// The limits of SPEC section 8.
    pub const SPECIFIED: TierLimits = TierLimits {
        anonymous: 100,
        free: 1_000,
        starter: 20_000,
        pro: 100_000,
    };

    pub const fn of(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.free,
            Tier::Starter => self.starter,
            Tier::Pro => self.pro,
        }
    }
}

/// Parses ASCII digits, with leading zeros or without. `parse` alone would accept a sign.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Returns a text with its control characters escaped.
pub fn without_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Case-folds text for search, applied to titles, slugs and queries alike, so that `shopping` finds
/// `SHOPPİNG` and `strasse` finds `Straße` (CONTRACT section 5).
///
/// Each character is folded without regard to its neighbours, so a part of a text folds to a part of the
/// folded text. `str::to_lowercase` does not: it makes the last Σ of a word another letter. Upper case
/// unites what has one capital, such as σ and ς; the lower case before it makes ẞ the ß that it is.
/// U+0307 is what lower case leaves of the dot of İ.
pub fn fold(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    let united = lower.flat_map(char::to_uppercase);
    let folded = united.flat_map(char::to_lowercase);
    folded.filter(|letter| *letter != '\u{307}').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_groups_of_four_digits_are_a_code() {
        for text in [
            "",
            "1234-5678-901",
            "1234-5678-90123",
            "1234_5678_9012",
            "12345678-9012-",
            "１234-5678-9012",
        ] {
            assert_eq!(text.parse::<IslandCode>(), Err(()), "{text}");
        }
        let code: IslandCode = "0034-5678-9012".parse().unwrap();
        assert_eq!(code.number(), 3_456_789_012);
        assert_eq!(code.to_string(), "0034-5678-9012");
    }

    /// With the next test: a part of a text in either case folds to a part of the folded text.
    #[test]
    fn every_character_folds_as_its_other_case() {
        for letter in '\0'..=char::MAX {
            let folded = fold(&letter.to_string());
            assert_eq!(
                fold(&letter.to_lowercase().to_string()),
                folded,
                "{letter:?}"
            );
            assert_eq!(
                fold(&letter.to_uppercase().to_string()),
                folded,
                "{letter:?}"
            );
            assert_eq!(fold(&folded), folded, "{letter:?}");
            // The rule of CONTRACT section 5 alone would keep ẞ apart from ß.
            let rule = letter.to_uppercase().flat_map(char::to_lowercase);
            let rule: String = rule.filter(|letter| *letter != '\u{307}').collect();
            assert!(rule == folded || letter == 'ẞ', "{letter:?}");
        }
        for (text, folded) in [
            ("SHOPPİNG ışık", "shopping işik"),
            ("ΟΔΥΣΣΕΑΣ ΚΟΣΜΟΣ", "οδυσσεασ κοσμοσ"),
            ("Straße STRAẞE", "strasse strasse"),
            ("ﬁne ǅ", "fine ǆ"),
        ] {
            assert_eq!(fold(text), folded);
        }
    }

    #[test]
    fn a_character_folds_alike_beside_any_other() {
        arbtest::arbtest(|u| {
            let (text, rest): (String, String) = u.arbitrary()?;
            assert_eq!(fold(&(text.clone() + &rest)), fold(&text) + &fold(&rest));
            Ok(())
        });
        for last in ["Σ", "ΟΔΥΣ", "Σ\u{301}"] {
            assert_eq!(fold(&format!("{last}Α")), fold(last) + "α");
        }
    }
}
