//! Comparison of the parser of request targets with the simple parser `plain`. Used by the fuzz target `query`
//! and by the test `parsed_targets`.

use island_metrics::model::{SortField, SortOrder};
use island_metrics::request::{
    Argument, DayRef, ListQuery, Query, Route, RouteError, SentKey, parse,
};

use super::plain::{List, Meaning, Plain};

fn of_route(route: Result<Route, RouteError>) -> Meaning {
    let route = match route {
        Err(RouteError::BadRequest(_)) => return Meaning::Bad,
        Err(RouteError::NotFound(_)) => return Meaning::Unknown,
        Ok(route) => route,
    };
    let path = route.endpoint.label();
    let named = |text: String, exists| Meaning::Named { path, text, exists };
    match route.argument {
        Argument::None => Meaning::Fixed(path),
        Argument::Code(code) => named(code.to_string(), true),
        Argument::Slug(slug) => named(slug, true),
        Argument::Dump(name) => named(name, true),
        Argument::Day(day) => named(day.to_string(), !matches!(day, DayRef::NoSuchDay(_))),
        Argument::Chart(code, metric, days) => Meaning::Chart {
            code: code.to_string(),
            metric: metric.to_owned(),
            days: days.map(|days| days.to_string()),
        },
        Argument::Islands(query) | Argument::Creators(query) => of_list(path, &query),
    }
}

fn of_list(path: &'static str, query: &ListQuery) -> Meaning {
    Meaning::List(List {
        path,
        folded: query.search().map(|(_, folded)| folded.to_owned()),
        filters: query
            .filters
            .iter()
            .map(|(name, filter)| (*name, filter.text().into_owned()))
            .collect(),
        sort: SortField::as_str(query.sort).to_owned(),
        order: SortOrder::as_str(query.order).to_owned(),
        limit: query.page.limit.into(),
        offset: query.page.offset,
    })
}

/// Returns the difference between the two parsers, if there is one.
pub(crate) fn differs(plain: Plain, path: &str, query: Option<&str>) -> Option<String> {
    let parsed = parse(path, query);
    let found = (parsed.under_v1, of_route(parsed.route));
    let want = plain.read(path, query);
    if found != want {
        return Some(format!("{found:?}, and it means {want:?}"));
    }
    let sent: Vec<Option<String>> = match Query::split(query).keys().key {
        SentKey::None => Vec::new(),
        SentKey::Once(key) => vec![Some(key.into_owned())],
        SentKey::Twice => vec![None; 2],
    };
    let want = plain.keys(query);
    let agree = match (&sent[..], &want[..]) {
        ([found], [want]) => found.as_deref().unwrap_or("") == want.as_deref().unwrap_or(""),
        (found, want) => found.len().min(2) == want.len().min(2),
    };
    (!agree).then(|| format!("the keys {sent:?}, and they are {want:?}"))
}
