//! Pages rendered per request, from bodies of the API. Each costs the same however many islands are
//! published: lists have a limited number of rows, and of long bodies only the start is read.

use bytes::Bytes;

use crate::model::{IslandCode, digits};
use crate::request::{Argument, DayRef, Endpoint, ISLAND_PARAMETERS, ListQuery, Route};
use crate::server::http::api_error::ApiError;
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE};
use crate::server::web::request_context::RequestContext;
use crate::site::{self, DayLinks, IslandPage};
use crate::snapshot::{Missing, SHORT_BYTES_MAX};

/// Maximum number of rows of a list. Longer ones are available from the API.
const ROWS_MAX: u32 = 50;
/// Bytes that are read of the body of a creator: the totals come before the islands.
const CREATOR_BYTES_MAX: u32 = 16 * 1024;
/// Bytes that are read of a list of new islands: a row has about 500.
const NEW_BYTES_MAX: u32 = 128 * 1024;

const LIVE: Route = Route::new(Endpoint::Live, Argument::None);

/// The code that is the searched text, with hyphens, spaces or nothing between its groups. Its page says if no such
/// island is published.
pub(super) fn searched_code(query: &ListQuery) -> Option<IslandCode> {
    let groups: Vec<&str> = query.search()?.0.trim().split([' ', '-']).collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_code = matches!(lengths[..], [12] | [4, 4, 4]);
    let number = is_code.then(|| digits(&groups.concat())).flatten();
    number.and_then(IslandCode::from_number)
}

impl RequestContext<'_> {
    /// Renders a page at this depth, unless its client exceeds the rate. `render` has the start of
    /// links to the root.
    pub(super) fn render(
        &self,
        depth: usize,
        render: impl FnOnce(&str) -> Result<String, ApiError>,
    ) -> Result<ApiResponse, ApiError> {
        self.count_page()?;
        Ok(self.page(render(&"../".repeat(depth))?, CACHED_A_MINUTE))
    }

    /// Reads the first bytes of a body of the API.
    fn read(&self, route: &Route, bytes_max: u32) -> Result<Bytes, ApiError> {
        let found = self.snapshot.find(route, false);
        let found = found.map_err(|missing| match (missing, &route.argument) {
            (Missing::Payload(payload), _) => ApiError::NotReady(payload),
            (Missing::NotFound, Argument::Day(day)) => {
                ApiError::NotFound(format!("no data is available for the day {day}"))
            }
            (Missing::NotFound, _) => ApiError::not_tracked(route),
        })?;
        found.start(bytes_max).map_err(|error| self.damaged(&error))
    }

    fn published(&self) -> String {
        let published = self.snapshot.published.map(|time| time.to_string());
        published.unwrap_or_default()
    }

    pub(super) fn islands(&self, query: &ListQuery) -> Result<String, ApiError> {
        let mut query = query.clone();
        query.page.limit = query.page.limit.min(ROWS_MAX);
        let route = Route::new(Endpoint::Islands, Argument::Islands(query.clone()));
        let body = self.read(&route, SHORT_BYTES_MAX)?;
        let (tags, notice) = (&self.snapshot.tags, self.snapshot.notice());
        let list = (ISLAND_PARAMETERS, &query);
        site::islands(&body, list, tags, notice).ok_or(ApiError::Damaged)
    }

    pub(super) fn island(
        &self,
        code: IslandCode,
        metric: &str,
        days: Option<usize>,
    ) -> Result<String, ApiError> {
        let detail = Route::new(Endpoint::Island, Argument::Code(code));
        let detail = self.read(&detail, SHORT_BYTES_MAX)?;
        let optional = |route| match self.read(&route, SHORT_BYTES_MAX) {
            Err(ApiError::Damaged) => Err(ApiError::Damaged),
            body => Ok(body.ok()),
        };
        let history = optional(Route::new(Endpoint::IslandCcu, Argument::Code(code)))?;
        let live = optional(LIVE)?;
        let players = self.snapshot.live_players(code);
        let live = live.as_deref().map(|live| (live, players));
        let page = site::island(IslandPage {
            detail: &detail,
            published: &self.published(),
            notice: self.snapshot.notice(),
            history: history.as_deref(),
            live,
            rank: self.snapshot.rank_by_peak(code),
            metric,
            days,
        });
        page.ok_or(ApiError::Damaged)
    }

    pub(super) fn creators(&self, query: &ListQuery) -> Result<String, ApiError> {
        let mut query = query.clone();
        query.page.limit = query.page.limit.min(ROWS_MAX);
        let route = Route::new(Endpoint::Creators, Argument::Creators(query.clone()));
        let body = self.read(&route, SHORT_BYTES_MAX)?;
        let days = self.snapshot.days_around(&DayRef::Latest);
        let newest = days.and_then(|[.., newest]| Some(newest?.to_string()));
        let notice = self.snapshot.notice();
        let q = query.search().map_or("", |(sent, _)| sent);
        site::creators(&body, q, newest.as_deref(), notice).ok_or(ApiError::Damaged)
    }

    pub(super) fn creator(&self, slug: &str) -> Result<String, ApiError> {
        let creator = Route::new(Endpoint::Creator, Argument::Slug(slug.to_owned()));
        let islands = Argument::Islands(ListQuery::of_creator(slug));
        let body = self.read(&creator, CREATOR_BYTES_MAX)?;
        let islands = self.read(&Route::new(Endpoint::Islands, islands), SHORT_BYTES_MAX)?;
        site::creator(&body, &islands, self.snapshot.notice()).ok_or(ApiError::Damaged)
    }

    pub(super) fn ranking(&self, day: &DayRef, root: &str) -> Result<String, ApiError> {
        let route = Route::new(Endpoint::Ranking, Argument::Day(day.clone()));
        let body = self.read(&route, SHORT_BYTES_MAX)?;
        self.with_links(day, root, |links| site::ranking(&body, links))
    }

    pub(super) fn new_islands(&self, day: &DayRef, root: &str) -> Result<String, ApiError> {
        let route = Route::new(Endpoint::New, Argument::Day(day.clone()));
        let body = self.read(&route, NEW_BYTES_MAX)?;
        let published = self.published();
        self.with_links(day, root, |links| {
            site::new_islands(&body, &published, links)
        })
    }

    /// The navigation leads here whether or not live data is published, so the page is no error without it.
    pub(super) fn live(&self) -> Result<String, ApiError> {
        let body = match self.read(&LIVE, SHORT_BYTES_MAX) {
            Err(ApiError::NotReady(_)) => None,
            body => Some(body?),
        };
        let (body, published) = (body.as_deref(), self.published());
        site::live(body, &published, self.snapshot.notice()).ok_or(ApiError::Damaged)
    }

    /// Renders a page of a day, with links to its neighbours.
    fn with_links(
        &self,
        day: &DayRef,
        root: &str,
        render: impl Fn(DayLinks<'_>) -> Option<String>,
    ) -> Result<String, ApiError> {
        let days = self.snapshot.days_around(day).unwrap_or_default();
        let days = days.map(|day| day.map(|day| day.to_string()));
        let [previous, next, first, last] = days.each_ref().map(Option::as_deref);
        let links = DayLinks {
            previous,
            next,
            range: [first.unwrap_or_default(), last.unwrap_or_default()],
            root,
            notice: self.snapshot.notice(),
        };
        render(links).ok_or(ApiError::Damaged)
    }
}
