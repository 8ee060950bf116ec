//! A second parser of request targets, written from CONTRACT sections 4 to 6 and SPEC section 4 alone.
//! The oracle of `tests/it` reads targets with it too. It shares only the lists of paths and parameters with the server's parser, and is simple instead of fast.

use std::sync::LazyLock;

use island_metrics::request::{CREATOR_PARAMETERS, Endpoint, ISLAND_PARAMETERS, Kind};

/// The paths of the table, each with its segments. Each parameter stands for one segment.
static PATHS: LazyLock<Vec<(&str, Vec<&str>)>> = LazyLock::new(|| {
    let paths = Endpoint::LABELS.iter();
    let split = paths.map(|path| (*path, path.split('/').skip(1).collect()));
    split.collect()
});
const DUMP: &str = "/dumps/{name}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// 400
    Bad,
    /// 404
    Unknown,
    /// A path without parameters.
    Fixed(&'static str),
    /// A path with a parameter, or with a date in the query: the text as sent, and whether it names something
    /// that can exist.
    Named {
        path: &'static str,
        text: String,
        exists: bool,
    },
    /// `/islands/{code}` with the metric and the days of its chart.
    Chart {
        code: String,
        metric: String,
        days: Option<String>,
    },
    List(List),
}

/// A list's filters, order and page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) path: &'static str,
    /// The names of the filters and their values.
    pub(crate) filters: Vec<(&'static str, String)>,
    pub(crate) folded: Option<String>,
    pub(crate) sort: String,
    pub(crate) order: String,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
}

/// Wrong ways to parse, which the comparison must detect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    PlusStays,
    LastWins,
    DecodedTwice,
    SlashSeparates,
    LossyText,
    SignedNumbers,
    EmptyFilters,
    LastSigma,
}

#[derive(Clone, Copy)]
pub(crate) struct Plain(pub(crate) Mistake);

/// The names by which lists are sorted: the six counts, in the order of a daily file's columns.
pub(crate) const SORTS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];

pub(crate) type Pairs = Vec<(String, String)>;

impl Plain {
    /// Whether the path is under `/v1`, and what the target means.
    pub(crate) fn read(self, path: &str, query: Option<&str>) -> (bool, Meaning) {
        if !path.starts_with('/') {
            return (false, Meaning::Bad);
        }
        let separated = if self.0 == Mistake::SlashSeparates {
            path.replace("%2F", "/")
        } else {
            path.to_owned()
        };
        let decoded: Vec<Option<String>> = separated[1..]
            .split('/')
            .map(|segment| self.decode(segment, false))
            .collect();
        let under_v1 = decoded[0].as_deref() == Some("v1");
        let Some(segments) = decoded.into_iter().collect::<Option<Vec<String>>>() else {
            return (under_v1, Meaning::Bad);
        };
        (under_v1, self.meaning(&segments, query))
    }

    fn meaning(self, segments: &[String], query: Option<&str>) -> Meaning {
        let named = |path, text: &str| Meaning::Named {
            path,
            text: text.to_owned(),
            exists: true,
        };
        if segments[0] == "dumps" {
            let rest = &segments[1..];
            return match rest {
                [] => named(DUMP, "index.json"),
                [only] if only.is_empty() => named(DUMP, "index.json"),
                [.., last] if last.is_empty() => Meaning::Unknown,
                _ => named(DUMP, &rest.join("/")),
            };
        }
        // An encoded slash is part of a segment, and no fixed segment contains one.
        if segments == [String::new()] {
            return Meaning::Fixed("/");
        }
        if segments.last().is_some_and(String::is_empty) {
            return Meaning::Unknown;
        }
        let fits = |(_, parts): &&(&str, Vec<&str>)| {
            let mut pairs = parts.iter().zip(segments);
            parts.len() == segments.len()
                && pairs.all(|(part, sent)| part == sent || part.starts_with('{'))
        };
        let Some((path, parts)) = PATHS.iter().find(fits) else {
            return Meaning::Unknown;
        };
        let at = parts.iter().position(|part| part.starts_with('{'));
        let text = at.map_or("", |at| &segments[at]);
        let meaning = match *path {
            "/v1/islands" | "/v1/creators" => return self.list(path, query),
            "/islands" | "/creators" => return self.list(path, without_empty(query).as_deref()),
            "/rankings" | "/new" => match self.sole(query, "date") {
                Some(date) => day(path, date.as_deref().unwrap_or("latest")),
                None => Meaning::Bad,
            },
            _ if path.ends_with("{slug}") => named(path, text),
            _ if path.ends_with("{date}") => day(path, text),
            _ if path.contains("{code}") && !has_shape(text, "0000-0000-0000") => Meaning::Bad,
            "/islands/{code}" => {
                let [Some(metric), Some(days)] =
                    ["metric", "days"].map(|name| self.sole(query, name))
                else {
                    return Meaning::Bad;
                };
                let metric = metric.unwrap_or_else(|| SORTS[0].to_owned());
                let decimals = ["averageMinutesPerPlayer", "retentionD1", "retentionD7"];
                let is_metric = SORTS.iter().chain(&decimals).any(|one| *one == metric);
                let is_range = matches!(days.as_deref(), None | Some("30" | "90"));
                if !is_metric || !is_range {
                    return Meaning::Bad;
                }
                Meaning::Chart {
                    code: text.to_owned(),
                    metric,
                    days,
                }
            }
            _ if path.contains("{code}") => named(path, text),
            _ => Meaning::Fixed(path),
        };
        let is_asked_anything = *path == "/v1/health" || !path.starts_with("/v1");
        if !is_asked_anything && self.pairs(query).is_none() {
            return Meaning::Bad;
        }
        meaning
    }

    fn list(self, path: &'static str, query: Option<&str>) -> Meaning {
        let list = || {
            let pairs = self.pairs(query)?;
            let parameters = if path.ends_with("/creators") {
                CREATOR_PARAMETERS
            } else {
                ISLAND_PARAMETERS
            };
            let mut list = List {
                path,
                sort: SORTS[0].into(),
                order: "desc".into(),
                limit: 50,
                ..List::default()
            };
            for parameter in parameters {
                let name = parameter.name;
                let Some(value) = self.once(&pairs, name)? else {
                    continue;
                };
                let value = match parameter.kind {
                    Kind::Text { .. } if value.is_empty() && self.0 != Mistake::EmptyFilters => {
                        continue;
                    }
                    Kind::Text { .. } => value,
                    Kind::Name { names, .. } => names.contains(&&*value).then_some(value)?,
                    Kind::Integer { range, .. } => {
                        let range = match name {
                            "limit" => (1, 200),
                            "offset" => (0, u64::MAX),
                            _ => range,
                        };
                        self.integer(&value, range)?.to_string()
                    }
                };
                match name {
                    "sort" => list.sort = value,
                    "order" => list.order = value,
                    "limit" => list.limit = value.parse().ok()?,
                    "offset" => list.offset = value.parse().ok()?,
                    "q" if value.len() > 1024 => return None,
                    "q" => {
                        list.folded = Some(self.fold(&value));
                        list.filters.push((name, value));
                    }
                    _ => list.filters.push((name, value)),
                }
            }
            let is_sound = SORTS.contains(&&*list.sort) && ["desc", "asc"].contains(&&*list.order);
            is_sound.then_some(list)
        };
        list().map_or(Meaning::Bad, Meaning::List)
    }

    /// A text in which case does not count. Each character by itself: both cases of ẞ are ß first, whose
    /// upper case is SS.
    pub(crate) fn fold(self, text: &str) -> String {
        if self.0 == Mistake::LastSigma {
            return text.to_lowercase().replace('\u{307}', "");
        }
        let mut folded = String::new();
        for letter in text.chars() {
            let upper = letter.to_lowercase().to_string().to_uppercase();
            for capital in upper.chars() {
                folded += &capital.to_lowercase().to_string();
            }
        }
        folded.replace('\u{307}', "")
    }

    /// The value of a parameter of a page; `None` if the query is broken, or the parameter appears more than once.
    #[expect(clippy::option_option, reason = "wrong, not there, or a value")]
    fn sole(self, query: Option<&str>, name: &str) -> Option<Option<String>> {
        self.once(&self.pairs(query)?, name)
    }

    /// The value of a declared parameter; `None` if it appears more than once.
    #[expect(clippy::option_option, reason = "wrong, not there, or a value")]
    pub(crate) fn once(self, pairs: &Pairs, name: &str) -> Option<Option<String>> {
        let found: Vec<&String> = pairs
            .iter()
            .filter(|(held, _)| held == name)
            .map(|(_, value)| value)
            .collect();
        match found[..] {
            [] => Some(None),
            [value] => Some(Some(value.clone())),
            [.., value] if self.0 == Mistake::LastWins => Some(Some(value.clone())),
            _ => None,
        }
    }

    pub(crate) fn integer(self, text: &str, (least, most): (u64, u64)) -> Option<u64> {
        let text = match text.strip_prefix('+') {
            Some(rest) if self.0 == Mistake::SignedNumbers => rest,
            _ => text,
        };
        if text.is_empty() {
            return None;
        }
        let mut number: u128 = 0;
        for letter in text.chars() {
            let digit = "0123456789".find(letter)?;
            number = (number * 10 + digit as u128).min(1 << 100);
        }
        let number = u64::try_from(number).ok()?;
        (least <= number && number <= most).then_some(number)
    }

    /// The pairs of a query, decoded; `None` if one is malformed.
    pub(crate) fn pairs(self, query: Option<&str>) -> Option<Pairs> {
        halves(query)
            .map(|(name, value)| Some((self.decode(name, true)?, self.decode(value, true)?)))
            .collect()
    }

    /// The values of the pairs whose decoded name is `key`; other pairs are ignored. A malformed value is
    /// `None`.
    pub(crate) fn keys(self, query: Option<&str>) -> Vec<Option<String>> {
        let named =
            halves(query).filter(|half| self.decode(half.0, true).as_deref() == Some("key"));
        named.map(|half| self.decode(half.1, true)).collect()
    }

    /// Strict percent-decoding, applied once.
    pub(crate) fn decode(self, text: &str, is_form: bool) -> Option<String> {
        let once = self.decode_once(text, is_form)?;
        if self.0 == Mistake::DecodedTwice {
            return self.decode_once(&once, false).or(Some(once));
        }
        Some(once)
    }

    fn decode_once(self, text: &str, is_form: bool) -> Option<String> {
        let mut left = text.as_bytes();
        if !left.iter().any(|byte| matches!(byte, b'%' | b'+')) {
            return Some(text.to_owned());
        }
        let mut bytes = Vec::with_capacity(left.len());
        while !left.is_empty() {
            left = match left {
                [b'%', high, low, rest @ ..] => {
                    let digits = [char::from(*high), char::from(*low)].map(|it| it.to_digit(16));
                    let [Some(high), Some(low)] = digits else {
                        return None;
                    };
                    bytes.push(u8::try_from(high * 16 + low).expect("two digits"));
                    rest
                }
                [b'%', ..] => return None,
                [b'+', rest @ ..] if is_form && self.0 != Mistake::PlusStays => {
                    bytes.push(b' ');
                    rest
                }
                [byte, rest @ ..] => {
                    bytes.push(*byte);
                    rest
                }
                [] => break,
            };
        }
        if self.0 == Mistake::LossyText {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        String::from_utf8(bytes).ok()
    }
}

/// The pieces of a query, each before and after its first `=`.
fn halves(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pieces = query.unwrap_or("").split('&');
    let pieces = pieces.filter(|piece| !piece.is_empty());
    pieces.map(|piece| piece.split_once('=').unwrap_or((piece, "")))
}

/// Whether a text has digits where the shape has `0`, and the same characters elsewhere.
pub(crate) fn has_shape(text: &str, shape: &str) -> bool {
    text.chars().count() == shape.len()
        && text
            .chars()
            .zip(shape.chars())
            .all(|(it, form)| match form {
                '0' => it.is_ascii_digit(),
                form => it == form,
            })
}

/// A query without the empty fields that a form sends. A name that cannot be decoded stays.
fn without_empty(query: Option<&str>) -> Option<String> {
    let pieces: Vec<&str> = query?.split('&').collect();
    let has_value = |piece: &&str| {
        piece
            .split_once('=')
            .is_some_and(|(_, value)| !value.is_empty())
    };
    let is_broken = |piece: &&str| {
        let name = piece.split('=').next().unwrap_or_default();
        Plain(Mistake::None).decode(name, true).is_none()
    };
    let kept = pieces.into_iter();
    let kept = kept.filter(|piece| has_value(piece) || is_broken(piece));
    Some(kept.collect::<Vec<_>>().join("&"))
}

fn day(path: &'static str, text: &str) -> Meaning {
    if text != "latest" && !has_shape(text, "0000-00-00") {
        return Meaning::Bad;
    }
    let number = |part: &str| part.parse::<u32>().unwrap_or(0);
    let exists = text == "latest" || {
        let (year, month, day) = (number(&text[..4]), number(&text[5..7]), number(&text[8..]));
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        1 <= day && day <= days
    };
    Meaning::Named {
        path,
        text: text.to_owned(),
        exists,
    }
}
