//! Comparison of the parser of request targets with the simple parser `plain`. Used by the fuzz target `query`
//! and by the test `parsed_targets`.

use island_metrics::model::{CreatedIn, SortField, SortOrder};
use island_metrics::request::{
    CreatorQuery, DayRef, IslandQuery, Route, RouteError, SITE_FILES, SentKey, SiteRoute, key,
    parse,
};

use super::plain::{List, Meaning, Plain};

fn day(path: &'static str, day: &DayRef) -> Meaning {
    Meaning::Day {
        path,
        text: day.to_string(),
        exists: !matches!(day, DayRef::NoSuchDay(_)),
    }
}

fn of_route(route: Result<Route, RouteError>) -> Meaning {
    match route {
        Err(RouteError::BadRequest(_)) => Meaning::Bad,
        Err(RouteError::NotFound(_)) => Meaning::Unknown,
        Ok(Route::Index) => Meaning::Fixed("/v1"),
        Ok(Route::Health) => Meaning::Fixed("/v1/health"),
        Ok(Route::Live) => Meaning::Fixed("/v1/live"),
        Ok(Route::Intraday) => Meaning::Fixed("/v1/live/intraday"),
        Ok(Route::RankingDays) => Meaning::Fixed("/v1/rankings"),
        Ok(Route::NewDays) => Meaning::Fixed("/v1/new"),
        Ok(Route::Site(route)) => of_site(route),
        Ok(Route::Island(code)) => Meaning::Island {
            code: code.to_string(),
            ccu: false,
        },
        Ok(Route::IslandCcu(code)) => Meaning::Island {
            code: code.to_string(),
            ccu: true,
        },
        Ok(Route::Creator(slug)) => Meaning::Creator(slug),
        Ok(Route::Ranking(of)) => day("/v1/rankings", &of),
        Ok(Route::New(of)) => day("/v1/new", &of),
        Ok(Route::Islands(query)) => of_islands("/v1/islands", query),
        Ok(Route::Creators(query)) => of_creators("/v1/creators", query),
    }
}

fn of_creators(path: &'static str, query: CreatorQuery) -> Meaning {
    Meaning::List(List {
        path,
        q: query.q,
        folded: query.folded,
        sort: "peakCCU".to_owned(),
        order: "desc".to_owned(),
        limit: query.page.limit.into(),
        offset: query.page.offset,
        ..List::default()
    })
}

fn of_site(route: SiteRoute) -> Meaning {
    match route {
        SiteRoute::OpenApi => Meaning::Fixed("/openapi.json"),
        SiteRoute::Docs => Meaning::Fixed("/docs"),
        SiteRoute::Live => Meaning::Fixed("/live"),
        SiteRoute::File(index) => Meaning::Fixed(SITE_FILES[index]),
        SiteRoute::Home => Meaning::Fixed("/"),
        SiteRoute::Search(query) => of_islands("/", query),
        SiteRoute::Islands(query) => of_islands("/islands", query),
        SiteRoute::Island(code, metric) => Meaning::IslandPage {
            code: code.to_string(),
            metric,
        },
        SiteRoute::Creators(query) => of_creators("/creators", query),
        SiteRoute::Creator(slug) => Meaning::Creator(slug),
        SiteRoute::Ranking(of, _) => day("/rankings", &of),
        SiteRoute::New(of, _) => day("/new", &of),
        SiteRoute::Keys => Meaning::Fixed("/keys"),
        SiteRoute::Dump(name) => Meaning::Dump(name),
    }
}

fn of_islands(path: &'static str, query: IslandQuery) -> Meaning {
    Meaning::List(List {
        path,
        tag: query.tag,
        creator: query.creator,
        created_in: query.created_in.map(CreatedIn::as_str).map(str::to_owned),
        q: query.q,
        folded: query.folded,
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
    let sent: Vec<Option<String>> = match key(query) {
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
