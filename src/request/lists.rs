//! The queries of the two lists: parsed from the query string, and written into links.
//!
//! Two queries that are equal have the same answer, so they serve as cache keys.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::query::{BadRequest, Pairs, Parameter};
use crate::model::{self, CreatedIn, SortField, SortOrder};

const LIMIT_DEFAULT: u32 = 50;
/// The longest page (SPEC section 4).
pub const LIMIT_MAX: u32 = 200;
const SORT_DEFAULT: SortField = SortField::PeakCcu;
const ORDER_DEFAULT: SortOrder = SortOrder::Desc;

/// All but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Which rows of a list are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Rows on the page, from 1 to 200.
    pub limit: u32,
    /// Rows before the page; past the end is an empty page.
    pub offset: u64,
}

/// The query of the island list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IslandQuery {
    /// Only islands with exactly this tag.
    pub tag: Option<String>,
    /// Only islands of the creator with exactly this slug.
    pub creator: Option<String>,
    /// Only islands made with this tool.
    pub created_in: Option<CreatedIn>,
    /// The title search as sent, never empty.
    pub q: Option<String>,
    /// The title search folded; `None` when nothing is left of it, which is no filter.
    pub folded: Option<String>,
    /// The field to sort by.
    pub sort: SortField,
    /// Its direction.
    pub order: SortOrder,
    /// Which rows.
    pub page: Page,
}

impl IslandQuery {
    /// Parses a raw query string.
    pub fn parse(raw: Option<&str>) -> Result<IslandQuery, BadRequest> {
        use Parameter::{CreatedIn as Tool, Creator, Limit, Offset, Order, Q, Sort, Tag};
        let [tag, creator, tool, q, sort, order, limit, offset] =
            collect(raw, [Tag, Creator, Tool, Q, Sort, Order, Limit, Offset])?;
        let (q, folded) = search(q);
        Ok(IslandQuery {
            tag: filter(tag),
            creator: filter(creator),
            created_in: named(Tool, tool, CreatedIn::parse)?,
            q,
            folded,
            sort: named(Sort, sort, SortField::parse)?.unwrap_or(SORT_DEFAULT),
            order: named(Order, order, SortOrder::parse)?.unwrap_or(ORDER_DEFAULT),
            page: page(limit, offset)?,
        })
    }

    /// Whether a query string has any of the parameters.
    pub(super) fn is_in(raw: Option<&str>) -> bool {
        use Parameter::{CreatedIn as Tool, Creator, Limit, Offset, Order, Q, Sort, Tag};
        let declared = [Tag, Creator, Tool, Q, Sort, Order, Limit, Offset];
        let is_declared = |name: &str| declared.iter().any(|declared| declared.as_str() == name);
        // A pair that is broken might be one of them.
        Pairs::new(raw).any(|pair| pair.map_or(true, |(name, _)| is_declared(&name)))
    }

    /// The canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        let mut query = String::new();
        for (parameter, value) in self.given() {
            append_text(&mut query, parameter, value);
        }
        append_page(&mut query, self.page.limit);
        query
    }

    /// What its texts take in memory.
    pub fn text_bytes(&self) -> usize {
        let texts = [&self.tag, &self.creator, &self.q, &self.folded];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// What is not as by default, but for the page.
    pub fn given(&self) -> impl Iterator<Item = (Parameter, &str)> {
        let sort = (self.sort != SORT_DEFAULT).then_some(self.sort.as_str());
        let order = (self.order != ORDER_DEFAULT).then_some(self.order.as_str());
        let all = [
            (Parameter::Tag, self.tag.as_deref()),
            (Parameter::Creator, self.creator.as_deref()),
            (Parameter::CreatedIn, self.created_in.map(CreatedIn::as_str)),
            (Parameter::Q, self.q.as_deref()),
            (Parameter::Sort, sort),
            (Parameter::Order, order),
        ];
        let given = all.into_iter();
        given.filter_map(|(parameter, value)| Some((parameter, value?)))
    }
}

/// The query of the creator list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreatorQuery {
    /// The slug search as sent, never empty.
    pub q: Option<String>,
    /// The slug search folded; `None` when nothing is left of it, which is no filter.
    pub folded: Option<String>,
    /// Which rows.
    pub page: Page,
}

impl CreatorQuery {
    /// Parses a raw query string.
    pub fn parse(raw: Option<&str>) -> Result<CreatorQuery, BadRequest> {
        let declared = [Parameter::Q, Parameter::Limit, Parameter::Offset];
        let [q, limit, offset] = collect(raw, declared)?;
        let (q, folded) = search(q);
        Ok(CreatorQuery {
            q,
            folded,
            page: page(limit, offset)?,
        })
    }

    /// What its texts take in memory.
    pub fn text_bytes(&self) -> usize {
        [&self.q, &self.folded]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }

    /// The canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        let mut query = String::new();
        if let Some(q) = &self.q {
            append_text(&mut query, Parameter::Q, q);
        }
        append_page(&mut query, self.page.limit);
        query
    }
}

/// The values of the declared parameters, in the order declared; what is undeclared is dropped.
fn collect<const N: usize>(
    raw: Option<&str>,
    declared: [Parameter; N],
) -> Result<[Option<Cow<'_, str>>; N], BadRequest> {
    let mut values = [const { None }; N];
    for pair in Pairs::new(raw) {
        let (name, value) = pair?;
        if let Some(at) = declared
            .iter()
            .position(|parameter| parameter.as_str() == name)
            && values[at].replace(value).is_some()
        {
            return Err(BadRequest::Twice(declared[at]));
        }
    }
    Ok(values)
}

/// A filter by exact text; empty is none.
fn filter(value: Option<Cow<'_, str>>) -> Option<String> {
    value.filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// A search as sent and folded.
fn search(value: Option<Cow<'_, str>>) -> (Option<String>, Option<String>) {
    let q = filter(value);
    let folded = q
        .as_deref()
        .map(model::fold)
        .filter(|folded| !folded.is_empty());
    (q, folded)
}

/// A value that must be one of a few names.
fn named<T>(
    parameter: Parameter,
    value: Option<Cow<'_, str>>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, BadRequest> {
    let Some(sent) = value else { return Ok(None) };
    match parse(&sent) {
        Some(known) => Ok(Some(known)),
        None => Err(BadRequest::Value {
            parameter,
            sent: sent.into_owned(),
        }),
    }
}

fn page(limit: Option<Cow<'_, str>>, offset: Option<Cow<'_, str>>) -> Result<Page, BadRequest> {
    let limit = named(Parameter::Limit, limit, |text| {
        let limit = u32::try_from(integer(text)?).ok()?;
        (1..=LIMIT_MAX).contains(&limit).then_some(limit)
    })?;
    let offset = named(Parameter::Offset, offset, integer)?;
    Ok(Page {
        limit: limit.unwrap_or(LIMIT_DEFAULT),
        offset: offset.unwrap_or(0),
    })
}

/// ASCII digits and nothing else; leading zeros are allowed.
fn integer(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn append_text(query: &mut String, parameter: Parameter, value: &str) {
    append_name(query, parameter);
    query.extend(utf8_percent_encode(value, ENCODED));
}

fn append_page(query: &mut String, limit: u32) {
    append_name(query, Parameter::Limit);
    query.push_str(itoa::Buffer::new().format(limit));
    append_name(query, Parameter::Offset);
}

fn append_name(query: &mut String, parameter: Parameter) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(parameter.as_str());
    query.push('=');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn islands(raw: &str) -> Result<IslandQuery, String> {
        IslandQuery::parse(Some(raw)).map_err(|bad| bad.to_string())
    }

    #[test]
    fn nothing_sent_means_the_defaults() {
        let plain = IslandQuery::parse(None).unwrap();
        assert_eq!(
            (plain.sort, plain.order),
            (SortField::PeakCcu, SortOrder::Desc)
        );
        assert_eq!(
            plain.page,
            Page {
                limit: 50,
                offset: 0
            }
        );
        for raw in [
            "",
            "tag=&creator=&q",
            "key=k&sorts=x",
            "limit=050&offset=0&order=desc",
        ] {
            assert_eq!(islands(raw).as_ref(), Ok(&plain), "{raw}");
        }
    }

    #[test]
    fn messages_name_the_parameter_the_value_and_what_is_allowed() {
        let sorts = "peakCCU, uniquePlayers, minutesPlayed, favorites, plays, recommendations";
        let long = "7".repeat(41);
        let shown = format!(
            "limit is \"{}…\"; want an integer from 1 to 200",
            &long[..40]
        );
        for (raw, message) in [
            ("limit=0", "limit is \"0\"; want an integer from 1 to 200"),
            ("limit=", "limit is \"\"; want an integer from 1 to 200"),
            (&format!("limit={long}"), &shown),
            (
                "offset=-1",
                "offset is \"-1\"; want an integer from 0 to 18446744073709551615",
            ),
            ("sort=x", &format!("sort is \"x\"; want one of {sorts}")),
            ("order=Desc", "order is \"Desc\"; want one of desc, asc"),
            (
                "createdIn=",
                "createdIn is \"\"; want one of uefn, creative",
            ),
            ("q=&q=", "q is given twice; want it once"),
            ("tag=a&t%61g=b", "tag is given twice; want it once"),
        ] {
            assert_eq!(islands(raw), Err(message.to_owned()), "{raw}");
        }
    }

    #[test]
    fn numbers_are_ascii_digits_of_any_length() {
        let big: [u128; 12] = [
            0,
            1,
            199,
            200,
            201,
            1 << 31,
            1 << 32,
            (1 << 32) + 1,
            1 << 63,
            (1 << 64) - 1,
            1 << 64,
            10u128.pow(38) * 3,
        ];
        let mut texts: Vec<(String, Option<u128>)> = big
            .iter()
            .map(|number| (number.to_string(), Some(*number)))
            .collect();
        texts.extend(
            big.iter()
                .map(|number| (format!("{}{number}", "0".repeat(60)), Some(*number))),
        );
        texts.push((format!("1{}", "0".repeat(40)), None));
        texts.push((format!("1{}", "0".repeat(5000)), None));
        for text in [
            "", "%2B1", "+1", "-0", "1.0", "1e2", "0x1", "%D9%A1", "1+", "1_0",
        ] {
            texts.push((text.to_owned(), None));
        }
        for (text, number) in texts {
            let limit = islands(&format!("limit={text}"))
                .ok()
                .map(|query| u128::from(query.page.limit));
            assert_eq!(
                limit,
                number.filter(|number| (1..=200).contains(number)),
                "{text}"
            );
            let offset = CreatorQuery::parse(Some(&format!("offset={text}"))).ok();
            let offset = offset.map(|query| u128::from(query.page.offset));
            assert_eq!(offset, number.filter(|number| *number < 1 << 64), "{text}");
        }
    }

    #[test]
    fn a_search_is_kept_as_sent_and_folded() {
        let query = islands("q=SHOPP%C4%B0NG+a").unwrap();
        assert_eq!(query.q.as_deref(), Some("SHOPPİNG a"));
        assert_eq!(query.folded.as_deref(), Some("shopping a"));
        let dot = islands("q=%CC%87").unwrap();
        assert_eq!((dot.q.as_deref(), dot.folded), (Some("\u{307}"), None));
    }

    #[test]
    fn links_parse_back_to_the_query_they_were_written_from() {
        arbtest::arbtest(|u| {
            let sent: Option<String> = u.arbitrary()?;
            let (q, folded) = search(sent.map(Cow::Owned));
            let page = Page {
                limit: u.int_in_range(1..=200)?,
                offset: u.arbitrary()?,
            };
            let islands = IslandQuery {
                tag: u
                    .arbitrary::<Option<String>>()?
                    .filter(|tag| !tag.is_empty()),
                creator: u
                    .arbitrary::<Option<String>>()?
                    .filter(|slug| !slug.is_empty()),
                created_in: *u.choose(&[None, Some(CreatedIn::Uefn), Some(CreatedIn::Creative)])?,
                q: q.clone(),
                folded: folded.clone(),
                sort: *u.choose(&SortField::ALL)?,
                order: *u.choose(&SortOrder::ALL)?,
                page,
            };
            let written = islands.to_query() + &page.offset.to_string();
            assert_eq!(IslandQuery::parse(Some(&written)), Ok(islands), "{written}");
            let creators = CreatorQuery { q, folded, page };
            let written = creators.to_query() + &page.offset.to_string();
            assert_eq!(
                CreatorQuery::parse(Some(&written)),
                Ok(creators),
                "{written}"
            );
            Ok(())
        });
    }

    #[test]
    fn links_are_canonical() {
        let query =
            islands("key=secret&offset=3&sort=plays&limit=007&q=a+b%26&createdIn=uefn&order=desc");
        assert_eq!(
            query.unwrap().to_query(),
            "createdIn=uefn&q=a%20b%26&sort=plays&limit=7&offset="
        );
    }
}
