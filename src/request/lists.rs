//! The queries of the two lists, parsed and written into links. Equal queries have equal links.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;

use percent_encoding::utf8_percent_encode;

use super::error::RouteError;
use super::parameters::{
    Grouping, Kind, LIMIT_DEFAULT, LIMIT_MAX, ORDER_DEFAULT, Parameter, SORT_DEFAULT,
};
use super::percent::RESERVED;
use super::query::declared;
use crate::model::{self, COUNT_MAX, SortField, SortOrder};

/// No list has more parameters.
const PARAMETERS_MAX: usize = 16;
/// No title and no slug is longer (CONTRACT section 5).
const SEARCH_BYTES_MAX: usize = 1024;

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
    Search {
        sent: String,
        folded: String,
    },
    AtLeast(SortField, u64),
    AtMost(SortField, u64),
}

impl Filter {
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
    pub fn parse(raw: Option<&str>, parameters: &[Parameter]) -> Result<ListQuery, RouteError> {
        let mut values = [const { None }; PARAMETERS_MAX];
        let number = |name: &str| parameters.iter().position(|row| row.name == name);
        declared(raw, number, &mut values)?;
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
        let count = || integer(name, value, 0..=COUNT_MAX);
        let filter = match parameter.kind {
            Kind::Group(_) | Kind::Search if value.is_empty() => None,
            Kind::Group(grouping) => Some(Filter::Group(grouping, value.to_owned().into())),
            Kind::Choice {
                grouping, names, ..
            } => {
                let (group, _) = one_of(name, value, names, |names| names.0)?;
                Some(Filter::Group(grouping, group.into()))
            }
            Kind::Search if value.len() > SEARCH_BYTES_MAX => {
                let wanted = format_args!("at most {SEARCH_BYTES_MAX} bytes");
                return Err(RouteError::invalid(name, wanted, value));
            }
            Kind::Search => Some(Filter::search(value)),
            Kind::AtLeast(field) => Some(Filter::AtLeast(field, count()?)),
            Kind::AtMost(field) => Some(Filter::AtMost(field, count()?)),
            Kind::Sort => {
                self.sort = one_of(name, value, &SortField::ALL, SortField::as_str)?;
                None
            }
            Kind::Order => {
                self.order = one_of(name, value, &SortOrder::ALL, SortOrder::as_str)?;
                None
            }
            Kind::Limit => {
                self.page.limit = integer(name, value, 1..=LIMIT_MAX)?;
                None
            }
            Kind::Offset => {
                self.page.offset = integer(name, value, 0..=u64::MAX)?;
                None
            }
        };
        self.filters.extend(filter.map(|filter| (name, filter)));
        Ok(())
    }

    /// Returns the query of the first page of a creator's islands.
    pub fn of_creator(slug: &str) -> ListQuery {
        let filter = Filter::Group(Grouping::Creator, slug.to_owned().into());
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
        let mut query = String::new();
        for (name, value) in self.given() {
            let value = utf8_percent_encode(&value, RESERVED);
            let _ = write!(query, "{name}={value}&");
        }
        let _ = write!(query, "limit={}&offset=", self.page.limit);
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

pub(super) fn one_of<T: Copy>(
    name: &str,
    sent: &str,
    all: &[T],
    as_str: impl Fn(T) -> &'static str,
) -> Result<T, RouteError> {
    let known = all.iter().find(|one| as_str(**one) == sent);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| as_str(*one)).collect();
        RouteError::invalid(name, format_args!("one of {}", names.join(", ")), sent)
    })
}

/// Parses a value of ASCII digits, with leading zeros or without.
fn integer<T: FromStr + PartialOrd + Display>(
    name: &str,
    sent: &str,
    range: RangeInclusive<T>,
) -> Result<T, RouteError> {
    let number = model::digits(sent).filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        RouteError::invalid(name, format_args!("an integer from {min} to {max}"), sent)
    })
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
