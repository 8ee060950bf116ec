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

    /// Returns the length of its texts in bytes.
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

    /// Returns the length of its texts in bytes.
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
#[path = "lists_tests.rs"]
mod tests;
