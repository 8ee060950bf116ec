//! The queries of the two lists, parsed and written into links. Equal queries have equal links.
//!
//! A parameter of `parameters.rs` names the values that it accepts, and the function that applies a value to the query.

use std::borrow::Cow;

use percent_encoding::utf8_percent_encode;

use super::error::RouteError;
use super::percent::RESERVED;
use super::query::Query;
use crate::model::{self, SortField, SortOrder};

pub(super) const SORT_DEFAULT: SortField = SortField::PeakCcu;
pub(super) const ORDER_DEFAULT: SortOrder = SortOrder::Desc;
pub const LIMIT_DEFAULT: u32 = 50;
/// Maximum rows per page (SPEC section 4).
pub(super) const LIMIT_MAX: u32 = 200;
/// No list has more parameters.
const PARAMETERS_MAX: usize = 16;
/// Capacity for the text of a query. Few are longer.
const QUERY_BYTES: usize = 64;
/// No title and no slug is longer (CONTRACT section 5).
pub(super) const SEARCH_BYTES_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// The value that it has where it is not given. A filter has none.
    pub default: Option<&'static str>,
    /// The label of its field in the form of the page. A filter without a label is a hidden field, so that
    /// the form keeps its value.
    pub label: Option<&'static str>,
    /// The words before its value where a page names its filters.
    pub words: &'static str,
    /// Its description in the `OpenAPI` document.
    pub description: &'static str,
    pub example: &'static str,
}

/// The values that a parameter accepts, and their effect: most are filters, which the function returns.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A text. An empty one is no filter.
    Text {
        bytes_max: usize,
        /// The form of the page has the tags of the islands to choose from.
        is_tag: bool,
        filter: fn(&str) -> Filter,
    },
    Name {
        names: &'static [&'static str],
        /// The texts of the names in the form of the page, in the same order; empty if it has no field there.
        texts: &'static [&'static str],
        /// The schema of the names in the `OpenAPI` document.
        schema: &'static str,
        set: fn(&mut ListQuery, &'static str) -> Option<Filter>,
    },
    /// An integer from the first to the second.
    Integer {
        range: (u64, u64),
        set: fn(&mut ListQuery, u64) -> Option<Filter>,
    },
}

/// The ways in which islands are grouped. An island may be in no group, and have several tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    Tag,
    /// By the slug of the creator.
    Creator,
    CreatedIn,
}

impl Grouping {
    /// All values, by number.
    pub const ALL: &[Grouping] = &[Grouping::Tag, Grouping::Creator, Grouping::CreatedIn];
}

/// The rows of a list that are on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Maximum number of rows, from 1 to 200.
    pub limit: u32,
    /// Rows before the page. Past the end, the page is empty.
    pub offset: u64,
}

/// The value of a filter: a condition that rows must meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The row is in the group with this name.
    Group(Grouping, Cow<'static, str>),
    /// The text of the row contains this one, folded. If nothing is left of it then, every row matches.
    Search { sent: String, folded: String },
    /// The count of the row is known and is at least this.
    AtLeast(SortField, u64),
    /// The count of the row is known and is at most this.
    AtMost(SortField, u64),
}

impl Filter {
    pub fn group(grouping: Grouping, name: &str) -> Filter {
        Filter::Group(grouping, name.to_owned().into())
    }

    /// Returns a search for a text, which is not empty.
    pub fn search(sent: &str) -> Filter {
        Filter::Search {
            sent: sent.to_owned(),
            folded: model::fold(sent),
        }
    }

    /// Returns its canonical text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Filter::Group(_, name) => Cow::Borrowed(name),
            Filter::Search { sent, .. } => Cow::Borrowed(sent),
            Filter::AtLeast(_, count) | Filter::AtMost(_, count) => Cow::Owned(count.to_string()),
        }
    }
}

/// The query of a list. That of creators has the default order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListQuery {
    /// The filters that are given, each with the name of its parameter, in the order of the parameters.
    pub filters: Vec<(&'static str, Filter)>,
    pub sort: SortField,
    pub order: SortOrder,
    pub page: Page,
}

impl Default for ListQuery {
    fn default() -> ListQuery {
        ListQuery {
            filters: Vec::new(),
            sort: SORT_DEFAULT,
            order: ORDER_DEFAULT,
            page: Page {
                limit: LIMIT_DEFAULT,
                offset: 0,
            },
        }
    }
}

impl ListQuery {
    pub fn parse(sent: &Query<'_>, parameters: &[Parameter]) -> Result<ListQuery, RouteError> {
        let values: [_; PARAMETERS_MAX] = sent.values(&parameters.iter().map(|row| row.name))?;
        let mut query = ListQuery::default();
        for (parameter, value) in parameters.iter().zip(values) {
            if let Some(value) = value {
                query.set(parameter, &value)?;
            }
        }
        Ok(query)
    }

    /// Sets the value of a parameter, which has none yet.
    fn set(&mut self, parameter: &Parameter, value: &str) -> Result<(), RouteError> {
        let name = parameter.name;
        let filter = match parameter.kind {
            Kind::Text { .. } if value.is_empty() => None,
            Kind::Text { bytes_max, .. } if value.len() > bytes_max => {
                let wanted = format_args!("at most {bytes_max} bytes");
                return Err(RouteError::invalid(name, wanted, value));
            }
            Kind::Text { filter, .. } => Some(filter(value)),
            Kind::Name { names, set, .. } => {
                let value = one_of(name, value, names)?;
                set(self, value)
            }
            Kind::Integer { range, set } => {
                let value = integer(name, value, range)?;
                set(self, value)
            }
        };
        self.filters.extend(filter.map(|filter| (name, filter)));
        Ok(())
    }

    /// Returns the query of the first page of a creator's islands.
    pub fn of_creator(slug: &str) -> ListQuery {
        let filter = Filter::group(Grouping::Creator, slug);
        ListQuery {
            filters: vec![("creator", filter)],
            ..ListQuery::default()
        }
    }

    /// Returns the search as sent, and folded, of which nothing may be left.
    pub fn search(&self) -> Option<(&str, &str)> {
        self.filters.iter().find_map(|(_, filter)| match filter {
            Filter::Search { sent, folded } => Some((&**sent, &**folded)),
            _ => None,
        })
    }

    pub fn filter(&self, name: &str) -> Option<&Filter> {
        let found = self.filters.iter().find(|(other, _)| *other == name);
        found.map(|(_, filter)| filter)
    }

    /// Returns the canonical query string of the same list, up to the digits of its offset.
    pub fn to_query(&self) -> String {
        let mut query = String::with_capacity(QUERY_BYTES);
        for (name, value) in self.given() {
            query.extend([name, "="]);
            query.extend(utf8_percent_encode(&value, RESERVED));
            query.push('&');
        }
        let limit = &self.page.limit.to_string();
        query.extend(["limit=", limit, "&offset="]);
        query
    }

    /// Returns the parameters that differ from their defaults, except those of the page.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let ListQuery { sort, order, .. } = self;
        let order_of_rows = [
            ("sort", (*sort != SORT_DEFAULT).then_some(sort.as_str())),
            ("order", (*order != ORDER_DEFAULT).then_some(order.as_str())),
        ];
        let order_of_rows = order_of_rows.into_iter();
        let order_of_rows =
            order_of_rows.filter_map(|(name, value)| Some((name, Cow::Borrowed(value?))));
        let filters = self.filters.iter();
        let filters = filters.map(|(name, filter)| (*name, filter.text()));
        filters.chain(order_of_rows)
    }
}

pub(super) fn one_of(
    name: &str,
    sent: &str,
    names: &[&'static str],
) -> Result<&'static str, RouteError> {
    let known = names.iter().find(|known| **known == sent);
    known
        .copied()
        .ok_or_else(|| RouteError::invalid(name, format_args!("one of {}", names.join(", ")), sent))
}

/// Parses a value of ASCII digits, with leading zeros or without.
fn integer(name: &str, sent: &str, (min, max): (u64, u64)) -> Result<u64, RouteError> {
    let number = model::digits(sent).filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        RouteError::invalid(name, format_args!("an integer from {min} to {max}"), sent)
    })
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
