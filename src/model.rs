//! The words of the domain, each parsed once and valid ever after.

use std::fmt;
use std::str::FromStr;

/// The largest count the dataset may hold, 2^53 - 1: what every JSON reader holds exactly.
pub const COUNT_MAX: u64 = (1 << 53) - 1;

/// An island code, `dddd-dddd-dddd`, held as the number its twelve digits spell (SPEC section 2),
/// so that it compares, hashes and sorts as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IslandCode(u64);

impl IslandCode {
    /// The twelve digits as one number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The code whose twelve digits spell `number`; `None` when it has more digits.
    pub const fn from_number(number: u64) -> Option<IslandCode> {
        if number < 1_000_000_000_000 {
            Some(IslandCode(number))
        } else {
            None
        }
    }
}

/// The text of an island code.
#[derive(Clone, Copy, Debug)]
pub struct CodeText([u8; 14]);

impl CodeText {
    /// As text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits and hyphens")
    }
}

impl IslandCode {
    /// `dddd-dddd-dddd`, without what a formatter costs: a publish writes it a hundred million times.
    pub fn text(self) -> CodeText {
        let mut text = *b"0000-0000-0000";
        let mut rest = self.0;
        for at in [13, 12, 11, 10, 8, 7, 6, 5, 3, 2, 1, 0] {
            text[at] += (rest % 10).to_le_bytes()[0];
            rest /= 10;
        }
        CodeText(text)
    }
}

/// The text is no island code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedCode;

impl FromStr for IslandCode {
    type Err = MalformedCode;

    fn from_str(text: &str) -> Result<IslandCode, MalformedCode> {
        let bytes = text.as_bytes();
        if bytes.len() != 14 {
            return Err(MalformedCode);
        }
        let mut number = 0;
        for (at, byte) in bytes.iter().enumerate() {
            match (at, byte) {
                (4 | 9, b'-') => {}
                (4 | 9, _) => return Err(MalformedCode),
                (_, b'0'..=b'9') => number = number * 10 + u64::from(byte - b'0'),
                _ => return Err(MalformedCode),
            }
        }
        Ok(IslandCode(number))
    }
}

impl fmt::Display for IslandCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

/// A creator's slug: 1 to 64 bytes, no `/`, no control characters (CONTRACT section 3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreatorSlug(Box<str>);

impl CreatorSlug {
    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text is no creator slug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedSlug;

impl FromStr for CreatorSlug {
    type Err = MalformedSlug;

    fn from_str(text: &str) -> Result<CreatorSlug, MalformedSlug> {
        let sound =
            matches!(text.len(), 1..=64) && !text.contains('/') && !text.contains(char::is_control);
        if sound {
            Ok(CreatorSlug(text.into()))
        } else {
            Err(MalformedSlug)
        }
    }
}

/// The tool an island was made with (SPEC section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreatedIn {
    /// Unreal Editor for Fortnite.
    Uefn,
    /// The in-game creative mode.
    Creative,
}

impl CreatedIn {
    /// Both tools, in the order of their numbers in published files.
    pub const ALL: [CreatedIn; 2] = [CreatedIn::Uefn, CreatedIn::Creative];

    /// `uefn` or `creative`.
    pub const fn as_str(self) -> &'static str {
        match self {
            CreatedIn::Uefn => "uefn",
            CreatedIn::Creative => "creative",
        }
    }

    /// The tool of that name.
    pub fn parse(text: &str) -> Option<CreatedIn> {
        CreatedIn::ALL
            .into_iter()
            .find(|tool| tool.as_str() == text)
    }
}

/// A field that the island list sorts by (SPEC section 4); also the six counts of a daily row,
/// in this order wherever they stand in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortField {
    /// Peak of players at the same time.
    PeakCcu,
    /// Distinct players of the day.
    UniquePlayers,
    /// Minutes played by all.
    MinutesPlayed,
    /// Times favourited on the day.
    Favorites,
    /// Sessions started.
    Plays,
    /// Times recommended on the day.
    Recommendations,
}

impl SortField {
    /// All six, in the order of the specification.
    pub const ALL: [SortField; 6] = [
        SortField::PeakCcu,
        SortField::UniquePlayers,
        SortField::MinutesPlayed,
        SortField::Favorites,
        SortField::Plays,
        SortField::Recommendations,
    ];

    /// The name in query strings, answers and CSV headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            SortField::PeakCcu => "peakCCU",
            SortField::UniquePlayers => "uniquePlayers",
            SortField::MinutesPlayed => "minutesPlayed",
            SortField::Favorites => "favorites",
            SortField::Plays => "plays",
            SortField::Recommendations => "recommendations",
        }
    }

    /// The field of that name.
    pub fn parse(text: &str) -> Option<SortField> {
        SortField::ALL
            .into_iter()
            .find(|field| field.as_str() == text)
    }
}

/// The direction of a sort. Nulls come last and ties go by code ascending in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortOrder {
    /// Largest first.
    Desc,
    /// Smallest first.
    Asc,
}

impl SortOrder {
    /// Both, in the order of their numbers in published files.
    pub const ALL: [SortOrder; 2] = [SortOrder::Desc, SortOrder::Asc];

    /// `desc` or `asc`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SortOrder::Desc => "desc",
            SortOrder::Asc => "asc",
        }
    }

    /// The direction of that name.
    pub fn parse(text: &str) -> Option<SortOrder> {
        SortOrder::ALL
            .into_iter()
            .find(|order| order.as_str() == text)
    }
}

/// Numbers of keys are below. As many have counters, and no more are issued.
pub const KEYS_MAX: u32 = 1 << 26;

/// What a key buys (SPEC section 8). Who has no key has no tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Issued to anybody, a few to an address.
    Free,
    /// Arranged with the publisher.
    Starter,
    /// Arranged with the publisher, the largest.
    Pro,
}

impl Tier {
    /// All three, the smallest first.
    pub const ALL: [Tier; 3] = [Tier::Free, Tier::Starter, Tier::Pro];

    /// `free`, `starter` or `pro`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::Free => "free",
            Tier::Starter => "starter",
            Tier::Pro => "pro",
        }
    }

    /// The tier of that name.
    pub fn parse(text: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| tier.as_str() == text)
    }
}

/// What both sides of a title or slug search are folded to: Unicode lowercase, then U+0307
/// dropped, so that `shopping` finds `SHOPPİNG` (CONTRACT section 5).
pub fn fold(text: &str) -> String {
    let mut folded = text.to_lowercase();
    if folded.contains('\u{307}') {
        folded.retain(|letter| letter != '\u{307}');
    }
    folded
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
            assert_eq!(text.parse::<IslandCode>(), Err(MalformedCode), "{text}");
        }
        let code: IslandCode = "0034-5678-9012".parse().unwrap();
        assert_eq!(code.number(), 3_456_789_012);
        assert_eq!(code.to_string(), "0034-5678-9012");
    }

    #[test]
    fn a_dotted_capital_i_folds_to_a_plain_i() {
        assert_eq!(fold("SHOPPİNG"), "shopping");
    }
}
