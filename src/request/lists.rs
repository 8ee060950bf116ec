//! The queries of the two lists, parsed and written into links. Equal queries share a cache entry.
//!
//! A filter of islands is a row of [`FILTERS`]. Its groups are published as three sections (`Section::of_filter`), which
//! `publish/list_sections.rs` writes and `snapshot/history.rs` opens.

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

/// The filters of the list of islands. Each value of a filter names a group of islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IslandFilter {
    Tag,
    /// By the slug of the creator.
    Creator,
    CreatedIn,
}

/// A filter as a query parameter, and in the form of the page.
#[derive(Debug)]
pub struct FilterRow {
    pub filter: IslandFilter,
    pub name: &'static str,
    /// The values and their names on pages, if no others are valid.
    pub values: &'static [(&'static str, &'static str)],
    /// The label of its field. A filter without one stays as it is when the form is sent.
    pub label: Option<&'static str>,
    /// The words before a value where a page names its filters.
    pub words: &'static str,
}

/// The number of filters.
const FILTERS_LEN: usize = 3;

/// All filters, by number.
pub const FILTERS: [FilterRow; FILTERS_LEN] = [
    FilterRow {
        filter: IslandFilter::Tag,
        name: "tag",
        values: &[],
        label: Some("Tag"),
        words: "with the tag",
    },
    FilterRow {
        filter: IslandFilter::Creator,
        name: "creator",
        values: &[],
        label: None,
        words: "by",
    },
    FilterRow {
        filter: IslandFilter::CreatedIn,
        name: "createdIn",
        values: &[
            (CreatedIn::Uefn.as_str(), "UEFN"),
            (CreatedIn::Creative.as_str(), "Creative"),
        ],
        label: Some("Made with"),
        words: "made with",
    },
];

/// The parameters of the list of islands.
pub const ISLAND_PARAMETERS: &[&str] = &[
    FILTERS[0].name,
    FILTERS[1].name,
    FILTERS[2].name,
    "q",
    "sort",
    "order",
    "limit",
    "offset",
];
/// Those of the list of creators, which are some of them.
pub const CREATOR_PARAMETERS: &[&str] = &["q", "limit", "offset"];

impl FilterRow {
    /// Parses a value. An empty text is no filter, unless only some values are valid.
    fn parse(&self, value: Option<Cow<'_, str>>) -> Result<Option<Cow<'static, str>>, RouteError> {
        if self.values.is_empty() {
            return Ok(filter(value).map(Cow::Owned));
        }
        let found = one_of(self.name, value, self.values, |value| value.0)?;
        Ok(found.map(|value| Cow::Borrowed(value.0)))
    }
}

/// The query of a list. That of creators has no filters and the default order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListQuery {
    /// The value of each filter.
    pub filters: [Option<Cow<'static, str>>; FILTERS_LEN],
    /// The search as sent, never empty.
    pub q: Option<String>,
    /// The search folded. `None`, which is no filter, if nothing is left of it.
    pub folded: Option<String>,
    pub sort: SortField,
    pub order: SortOrder,
    pub page: Page,
}

impl ListQuery {
    /// Parses the query of a list with these parameters, [`ISLAND_PARAMETERS`] or [`CREATOR_PARAMETERS`].
    pub fn parse(raw: Option<&str>, parameters: &[&str]) -> Result<ListQuery, RouteError> {
        let mut values = [const { None }; ISLAND_PARAMETERS.len()];
        declared(raw, parameters, &mut values)?;
        let mut value = |name| {
            let at = parameters.iter().position(|other| *other == name)?;
            values[at].take()
        };
        let mut filters = [const { None }; FILTERS_LEN];
        for (row, filter) in FILTERS.iter().zip(&mut filters) {
            *filter = row.parse(value(row.name))?;
        }
        let (q, folded) = search(value("q"))?;
        let sort = one_of("sort", value("sort"), &SortField::ALL, SortField::as_str)?;
        let order = one_of("order", value("order"), &SortOrder::ALL, SortOrder::as_str)?;
        let limit = integer("limit", value("limit"), 1..=LIMIT_MAX)?;
        let offset = integer("offset", value("offset"), 0..=u64::MAX)?;
        Ok(ListQuery {
            filters,
            q,
            folded,
            sort: sort.unwrap_or(SORT_DEFAULT),
            order: order.unwrap_or(ORDER_DEFAULT),
            page: Page {
                limit: limit.unwrap_or(LIMIT_DEFAULT),
                offset: offset.unwrap_or(0),
            },
        })
    }

    /// Returns the query of the first page of a creator's islands.
    pub fn of_creator(slug: &str) -> ListQuery {
        let query = ListQuery::parse(None, ISLAND_PARAMETERS);
        query
            .expect("all parameters have defaults")
            .with(IslandFilter::Creator, slug.to_owned())
    }

    /// Returns the same query with a value of a filter.
    #[must_use]
    pub fn with(mut self, filter: IslandFilter, value: impl Into<Cow<'static, str>>) -> ListQuery {
        self.filters[filter as usize] = Some(value.into());
        self
    }

    pub fn filters(&self) -> impl Iterator<Item = (&'static FilterRow, &str)> {
        let filters = FILTERS.iter().zip(&self.filters);
        filters.filter_map(|(row, value)| Some((row, value.as_deref()?)))
    }

    /// Returns the canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        let mut query = String::new();
        for (name, value) in self.given() {
            let value = utf8_percent_encode(value, RESERVED);
            let _ = write!(query, "{name}={value}&");
        }
        let _ = write!(query, "limit={}&offset=", self.page.limit);
        query
    }

    /// Returns the parameters that differ from their defaults, except those of the page.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ListQuery { q, sort, order, .. } = self;
        let others = [
            ("q", q.as_deref()),
            ("sort", (*sort != SORT_DEFAULT).then_some(sort.as_str())),
            ("order", (*order != ORDER_DEFAULT).then_some(order.as_str())),
        ];
        let others = others.into_iter();
        let others = others.filter_map(|(name, value)| Some((name, value?)));
        self.filters()
            .map(|(row, value)| (row.name, value))
            .chain(others)
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

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
