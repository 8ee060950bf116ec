//! A second parser of request targets, written from CONTRACT sections 4 to 6 and SPEC section 4 alone.
//! It shares no code with the server's parser, and is simple instead of fast.

/// Meaning of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// 400
    Bad,
    /// 404
    Unknown,
    /// A path without parameters, decoded.
    Fixed(&'static str),
    /// `/v1/islands/{code}`, also followed by `/ccu`.
    Island {
        code: String,
        ccu: bool,
    },
    /// `/islands/{code}` with the metric of its chart.
    IslandPage {
        code: String,
        metric: Option<String>,
    },
    Creator(String),
    /// `/v1/rankings/{date}` and `/v1/new/{date}`: the date as sent, and whether it exists.
    Day {
        path: &'static str,
        text: String,
        exists: bool,
    },
    Dump(String),
    List(List),
}

/// A list's filters, order and page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) path: &'static str,
    pub(crate) tag: Option<String>,
    pub(crate) creator: Option<String>,
    pub(crate) created_in: Option<String>,
    pub(crate) q: Option<String>,
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

/// The parser.
#[derive(Clone, Copy)]
pub(crate) struct Plain(pub(crate) Mistake);

const FIXED: [&str; 24] = [
    "/openapi.json",
    "/docs",
    "/objects",
    "/recipes",
    "/gotchas",
    "/changelog",
    "/llms.txt",
    "/robots.txt",
    "/sitemap.xml",
    "/live",
    "/favicon.ico",
    "/keys",
    "/assets/style.css",
    "/assets/docs.css",
    "/assets/site.js",
    "/assets/docs.js",
    "/assets/charts.js",
    "/assets/icon.svg",
    "/v1",
    "/v1/health",
    "/v1/live",
    "/v1/live/intraday",
    "/v1/rankings",
    "/v1/new",
];
/// Parameters with which a request for the dashboard is a search.
const DECLARED: [&str; 8] = [
    "tag",
    "creator",
    "createdIn",
    "q",
    "sort",
    "order",
    "limit",
    "offset",
];
const SORTS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];

type Pairs = Vec<(String, String)>;

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
        if segments[0] == "dumps" {
            let rest = &segments[1..];
            return match rest {
                [] => Meaning::Dump("index.json".into()),
                [only] if only.is_empty() => Meaning::Dump("index.json".into()),
                _ if rest.iter().any(|segment| segment.contains('/')) => Meaning::Unknown,
                _ => Meaning::Dump(rest.join("/")),
            };
        }
        // An encoded slash is part of a segment, and no fixed segment contains one.
        if segments == [String::new()] {
            let is_plain =
                |pairs: &Pairs| pairs.iter().all(|(name, _)| !DECLARED.contains(&&**name));
            return match self.pairs(query) {
                Some(pairs) if is_plain(&pairs) => Meaning::Fixed("/"),
                _ => self.list("/", query),
            };
        }
        if segments.last().is_some_and(String::is_empty) {
            return Meaning::Unknown;
        }
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        for path in FIXED {
            let fixed: Vec<&str> = path.split('/').skip(1).collect();
            if words == fixed {
                let is_asked_anything = path == "/v1/health" || !path.starts_with("/v1");
                if !is_asked_anything && self.pairs(query).is_none() {
                    return Meaning::Bad;
                }
                return Meaning::Fixed(path);
            }
        }
        let meaning = match words[..] {
            ["v1", "islands"] => return self.list("/v1/islands", query),
            ["v1", "creators"] => return self.list("/v1/creators", query),
            ["islands"] => return self.list("/islands", without_empty(query).as_deref()),
            ["creators"] => return self.list("/creators", without_empty(query).as_deref()),
            ["creators", slug] => return Meaning::Creator(slug.into()),
            ["rankings"] => return day("/rankings", &self.date(query)),
            ["rankings", date] => return day("/rankings", date),
            ["new"] => return day("/new", &self.date(query)),
            ["new", date] => return day("/new", date),
            ["islands", code] => {
                let metric = self.first(query, "metric");
                return match island(code, false) {
                    Meaning::Island { code, .. } => Meaning::IslandPage { code, metric },
                    other => other,
                };
            }
            ["v1", "islands", code] => island(code, false),
            ["v1", "islands", code, "ccu"] => island(code, true),
            ["v1", "creators", slug] => Meaning::Creator(slug.into()),
            ["v1", "rankings", date] => day("/v1/rankings", date),
            ["v1", "new", date] => day("/v1/new", date),
            _ => return Meaning::Unknown,
        };
        if self.pairs(query).is_none() {
            return Meaning::Bad;
        }
        meaning
    }

    fn list(self, path: &'static str, query: Option<&str>) -> Meaning {
        let list = || {
            let pairs = self.pairs(query)?;
            let is_islands = !path.ends_with("/creators");
            let own = |name| {
                if is_islands {
                    self.once(&pairs, name)
                } else {
                    Some(None)
                }
            };
            let filter = |value: Option<String>| {
                value.filter(|text| !text.is_empty() || self.0 == Mistake::EmptyFilters)
            };
            let created_in = own("createdIn")?;
            let sort = own("sort")?.unwrap_or_else(|| SORTS[0].into());
            let order = own("order")?.unwrap_or_else(|| "desc".into());
            let sound = created_in
                .as_deref()
                .is_none_or(|tool| tool == "uefn" || tool == "creative")
                && SORTS.contains(&sort.as_str())
                && (order == "desc" || order == "asc");
            let q = filter(self.once(&pairs, "q")?);
            let is_long = q.as_ref().is_some_and(|q| q.len() > 1024);
            let folded = q.as_ref().map(|q| self.fold(q));
            (sound && !is_long).then_some(List {
                path,
                tag: filter(own("tag")?),
                creator: filter(own("creator")?),
                created_in,
                q,
                folded: folded.filter(|text| !text.is_empty()),
                sort,
                order,
                limit: self.integer(&pairs, "limit", 50, (1, 200))?,
                offset: self.integer(&pairs, "offset", 0, (0, u64::MAX))?,
            })
        };
        list().map_or(Meaning::Bad, Meaning::List)
    }

    /// A text in which case does not count. Each character by itself: both cases of ẞ are ß first, whose
    /// upper case is SS.
    fn fold(self, text: &str) -> String {
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

    /// The first value of a name; other pairs are ignored.
    fn first(self, query: Option<&str>, name: &str) -> Option<String> {
        let pieces = query.unwrap_or("").split('&');
        let mut decoded = pieces.filter_map(|piece| self.pairs(Some(piece))?.pop());
        decoded.find(|pair| pair.0 == name).map(|pair| pair.1)
    }

    fn date(self, query: Option<&str>) -> String {
        let date = self.first(query, "date");
        date.unwrap_or_else(|| "latest".to_owned())
    }

    /// The value of a declared parameter; `None` if it appears more than once.
    #[expect(clippy::option_option, reason = "wrong, not there, or a value")]
    fn once(self, pairs: &Pairs, name: &str) -> Option<Option<String>> {
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

    fn integer(
        self,
        pairs: &Pairs,
        name: &str,
        default: u64,
        (least, most): (u64, u64),
    ) -> Option<u64> {
        let Some(text) = self.once(pairs, name)? else {
            return Some(default);
        };
        let text = match text.strip_prefix('+') {
            Some(rest) if self.0 == Mistake::SignedNumbers => rest,
            _ => &text,
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
        let pieces = query
            .unwrap_or("")
            .split('&')
            .filter(|piece| !piece.is_empty());
        pieces
            .map(|piece| {
                let at = piece.find('=');
                let name = &piece[..at.unwrap_or(piece.len())];
                let value = at.map_or("", |at| &piece[at + 1..]);
                Some((self.decode(name, true)?, self.decode(value, true)?))
            })
            .collect()
    }

    /// The values of the pairs whose decoded name is `key`; other pairs are ignored. A malformed value is
    /// `None`.
    pub(crate) fn keys(self, query: Option<&str>) -> Vec<Option<String>> {
        let pieces = query
            .unwrap_or("")
            .split('&')
            .filter(|piece| !piece.is_empty());
        let halves = pieces.map(|piece| match piece.find('=') {
            Some(at) => (&piece[..at], &piece[at + 1..]),
            None => (piece, ""),
        });
        halves
            .filter(|(name, _)| self.decode(name, true).as_deref() == Some("key"))
            .map(|(_, value)| self.decode(value, true))
            .collect()
    }

    /// Strict percent-decoding, applied once.
    fn decode(self, text: &str, is_form: bool) -> Option<String> {
        let once = self.decode_once(text, is_form)?;
        if self.0 == Mistake::DecodedTwice {
            return self.decode_once(&once, false).or(Some(once));
        }
        Some(once)
    }

    fn decode_once(self, text: &str, is_form: bool) -> Option<String> {
        let mut bytes = Vec::new();
        let mut left = text.as_bytes();
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

/// Whether a text has digits where the shape has `0`, and the same characters elsewhere.
fn has_shape(text: &str, shape: &str) -> bool {
    text.chars().count() == shape.len()
        && text
            .chars()
            .zip(shape.chars())
            .all(|(it, form)| match form {
                '0' => it.is_ascii_digit(),
                form => it == form,
            })
}

/// A query without the empty fields that a form sends.
fn without_empty(query: Option<&str>) -> Option<String> {
    let pieces: Vec<&str> = query?.split('&').collect();
    let kept = pieces.into_iter().filter(|piece| !piece.ends_with('='));
    Some(kept.collect::<Vec<_>>().join("&"))
}

fn island(code: &str, ccu: bool) -> Meaning {
    if !has_shape(code, "0000-0000-0000") {
        return Meaning::Bad;
    }
    let code = code.to_owned();
    Meaning::Island { code, ccu }
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
    Meaning::Day {
        path,
        text: text.to_owned(),
        exists,
    }
}
