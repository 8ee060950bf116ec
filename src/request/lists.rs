//! The queries of the two lists, parsed and written into links. Equal queries share a cache entry.
//!
//! Places of a new parameter of `/v1/islands` (of `/v1/creators`: see [`CreatorQuery`]):
//!
//! - here: a field, `PARAMETERS`, `parse`, `given`. A text: also `Route::text_bytes` (`route.rs`). A number
//!   or day: the items of `given` become `Cow<str>`, which `islands` of `server/web/rendered.rs` borrows.
//!   One that rejects some texts: `the_parser_agrees_with` in `endpoint_tests.rs`; of few words: a type in
//!   `model.rs`;
//! - `snapshot/select.rs`: a group in `Filters::find`; a condition of another kind needs `contains`, `set` and `rows`;
//! - groups, and data that no section has (of a metric, only ranks): a new section (`snapshot/format.rs`).
//!   Only published data may change a page, since its entity tag is the publish time;
//! - `site/templates/islands.html`: the form, and the filters in words;
//! - `site/changelog.md`, `site/page_tests.rs`, `publish/selection_tests.rs`, `tests/fuzz/src/targets.rs`;
//!   for its cost, `benches/lists`;
//! - `PARAMETER_FILES` in `tests/it/places_to_change.rs`: a test names those that lack it. In
//!   `site/openapi.json`, a number has both `minimum` and `maximum`.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;

use percent_encoding::utf8_percent_encode;

use super::error::RouteError;
use super::percent::RESERVED;
use super::query::declared;
use crate::model::{self, CreatedIn, SortField, SortOrder};

const LIMIT_DEFAULT: u32 = 50;
/// Maximum rows per page (SPEC section 4).
pub const LIMIT_MAX: u32 = 200;
/// No title and no slug is longer (CONTRACT section 5).
const SEARCH_BYTES_MAX: usize = 1024;
const SORT_DEFAULT: SortField = SortField::PeakCcu;
const ORDER_DEFAULT: SortOrder = SortOrder::Desc;

/// The rows of a list that are on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Maximum number of rows, from 1 to 200.
    pub limit: u32,
    /// Rows before the page. Past the end, the page is empty.
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IslandQuery {
    pub tag: Option<String>,
    /// Only islands of the creator with exactly this slug.
    pub creator: Option<String>,
    pub created_in: Option<CreatedIn>,
    /// The title search as sent, never empty.
    pub q: Option<String>,
    /// The title search folded. `None`, which is no filter, if nothing is left of it.
    pub folded: Option<String>,
    pub sort: SortField,
    pub order: SortOrder,
    pub page: Page,
}

impl IslandQuery {
    pub const PARAMETERS: [&str; 8] = [
        "tag",
        "creator",
        "createdIn",
        "q",
        "sort",
        "order",
        "limit",
        "offset",
    ];

    pub fn parse(raw: Option<&str>) -> Result<IslandQuery, RouteError> {
        let [tag, creator, tool, q, sort, order, limit, offset] =
            declared(raw, IslandQuery::PARAMETERS)?;
        let (q, folded) = search(q)?;
        Ok(IslandQuery {
            tag: filter(tag),
            creator: filter(creator),
            created_in: one_of("createdIn", tool, &CreatedIn::ALL, CreatedIn::as_str)?,
            q,
            folded,
            sort: one_of("sort", sort, &SortField::ALL, SortField::as_str)?.unwrap_or(SORT_DEFAULT),
            order: one_of("order", order, &SortOrder::ALL, SortOrder::as_str)?
                .unwrap_or(ORDER_DEFAULT),
            page: page(limit, offset)?,
        })
    }

    /// Returns the query of the first page of a creator's islands.
    pub fn of_creator(slug: &str) -> IslandQuery {
        let query = IslandQuery::parse(None).expect("all parameters have defaults");
        IslandQuery {
            creator: Some(slug.to_owned()),
            ..query
        }
    }

    /// Returns the canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        to_query(self.given(), self.page.limit)
    }

    /// Returns the parameters that differ from their defaults, except those of the page.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        // Without `..`, so that a new parameter must be listed here.
        let IslandQuery {
            tag,
            creator,
            created_in,
            q,
            folded: _,
            sort,
            order,
            page: _,
        } = self;
        let given = [
            ("tag", tag.as_deref()),
            ("creator", creator.as_deref()),
            ("createdIn", created_in.map(CreatedIn::as_str)),
            ("q", q.as_deref()),
            ("sort", (*sort != SORT_DEFAULT).then_some(sort.as_str())),
            ("order", (*order != ORDER_DEFAULT).then_some(order.as_str())),
        ];
        let given = given.into_iter();
        given.filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The query of the creator list.
///
/// Of the places of a new parameter, tests find only `site/openapi.json`. It is also in `creators` of
/// `server/web/rendered.rs` and of `site/data_pages.rs`, which pass on only `q`, and in
/// `site/templates/creators.html`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreatorQuery {
    /// The slug search as sent, never empty.
    pub q: Option<String>,
    /// The slug search folded. `None`, which is no filter, if nothing is left of it.
    pub folded: Option<String>,
    pub page: Page,
}

impl CreatorQuery {
    pub const PARAMETERS: [&str; 3] = ["q", "limit", "offset"];

    pub fn parse(raw: Option<&str>) -> Result<CreatorQuery, RouteError> {
        let [q, limit, offset] = declared(raw, CreatorQuery::PARAMETERS)?;
        let (q, folded) = search(q)?;
        let page = page(limit, offset)?;
        Ok(CreatorQuery { q, folded, page })
    }

    /// Returns the canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        let given = self.q.as_deref().map(|q| ("q", q));
        to_query(given.into_iter(), self.page.limit)
    }
}

/// An exact filter; an empty value is ignored.
fn filter(value: Option<Cow<'_, str>>) -> Option<String> {
    value.filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// A search as sent and folded.
fn search(value: Option<Cow<'_, str>>) -> Result<(Option<String>, Option<String>), RouteError> {
    let q = filter(value);
    if let Some(long) = q.as_deref().filter(|q| q.len() > SEARCH_BYTES_MAX) {
        let wanted = format_args!("at most {SEARCH_BYTES_MAX} bytes");
        return Err(RouteError::invalid("q", wanted, long));
    }
    let folded = q.as_deref().map(model::fold);
    Ok((q, folded.filter(|folded| !folded.is_empty())))
}

/// A value that must be the name of one of `all`.
fn one_of<T: Copy>(
    name: &str,
    value: Option<Cow<'_, str>>,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<Option<T>, RouteError> {
    let Some(sent) = value else { return Ok(None) };
    let known = all.iter().find(|one| as_str(**one) == sent);
    known.copied().map(Some).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| as_str(*one)).collect();
        RouteError::invalid(name, format_args!("one of {}", names.join(", ")), &sent)
    })
}

fn page(limit: Option<Cow<'_, str>>, offset: Option<Cow<'_, str>>) -> Result<Page, RouteError> {
    Ok(Page {
        limit: integer("limit", limit, 1..=LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT),
        offset: integer("offset", offset, 0..=u64::MAX)?.unwrap_or(0),
    })
}

/// A value of ASCII digits, with leading zeros or without.
fn integer<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: Option<Cow<'_, str>>,
    range: RangeInclusive<T>,
) -> Result<Option<T>, RouteError> {
    let Some(sent) = value else { return Ok(None) };
    let number = model::digits(&sent).filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        RouteError::invalid(name, format_args!("an integer from {min} to {max}"), &sent)
    })
}

/// Writes parameters and a limit as a query string, up to the digits of the offset.
fn to_query<'a>(given: impl Iterator<Item = (&'static str, &'a str)>, limit: u32) -> String {
    let mut query = String::new();
    for (name, value) in given {
        let value = utf8_percent_encode(value, RESERVED);
        let _ = write!(query, "{name}={value}&");
    }
    let _ = write!(query, "limit={limit}&offset=");
    query
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
