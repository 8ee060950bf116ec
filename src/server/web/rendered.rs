//! Pages rendered per request, from bodies of the API. Each costs the same however many islands are
//! published: lists have a limited number of rows, and of long bodies only the start is read.

use bytes::Bytes;
use memchr::memmem;

use crate::model::IslandCode;
use crate::request::{CreatorQuery, DayRef, IslandQuery, Quoted, Route};
use crate::server::http::api_error::ApiError;
use crate::server::http::response::ApiResponse;
use crate::server::web::request_context::RequestContext;
use crate::site::{self, DayLinks, IslandPage, ListQuery};
use crate::snapshot::Missing;

/// Maximum number of rows of a list. Longer ones are available from the API.
const ROWS_MAX: u32 = 50;
/// Bytes that are read of the body of a creator: the totals come before the islands.
const CREATOR_BYTES_MAX: u64 = 16 * 1024;
/// Bytes that are read of a list of new islands: a row has about 500.
const NEW_BYTES_MAX: u64 = 128 * 1024;

/// Days that are looked through for new islands.
const NEW_DAYS_MAX: usize = 31;
/// Bytes at the start of a list of new islands, by which an empty one is recognized.
const NEW_START_BYTES: u64 = 64;
const NO_ISLANDS: &[u8] = b"\"islands\":[]";

impl RequestContext<'_> {
    /// Renders a page at this depth, unless its client exceeds the rate. `render` has the start of
    /// links to the root.
    pub(super) fn render(
        &self,
        depth: usize,
        render: impl FnOnce(&str) -> Result<String, ApiError>,
    ) -> Result<ApiResponse, ApiError> {
        let root = "../".repeat(depth);
        if let Some(rate_limited) = self.rate_limited(&root) {
            return Ok(rate_limited);
        }
        Ok(self.page(render(&root)?))
    }

    /// Reads a body of the API; of a long one only the start.
    fn read(&self, route: &Route) -> Result<Bytes, ApiError> {
        self.expect_published(route)?;
        let body = self.snapshot.page_body(route, self.client().number());
        body.map_err(|missing| self.missing_body(&missing, route))
    }

    /// Reads a shorter start of a body of the API.
    fn read_start(&self, route: &Route, bytes_max: u64) -> Result<Bytes, ApiError> {
        self.expect_published(route)?;
        let body = self.snapshot.body_start(route, bytes_max);
        body.map_err(|missing| self.missing_body(&missing, route))
    }

    fn missing_body(&self, missing: &Missing, route: &Route) -> ApiError {
        self.missing(missing, route, |day, _| {
            format!("no data is available for the day {day}")
        })
    }

    /// Fails if the payload of a route is not published, whatever the route names.
    fn expect_published(&self, route: &Route) -> Result<(), ApiError> {
        let payload = self.snapshot.unpublished(route);
        payload.map_or(Ok(()), |payload| Err(ApiError::NotReady(payload)))
    }

    fn published(&self) -> String {
        let published = self.snapshot.published.map(|time| time.to_string());
        published.unwrap_or_default()
    }

    /// The published island whose code is the searched text.
    pub(super) fn searched_code(&self, query: &IslandQuery) -> Option<IslandCode> {
        let code = query.q.as_deref()?.trim().parse().ok()?;
        self.snapshot.tracks(code).then_some(code)
    }

    pub(super) fn islands(&self, query: &IslandQuery) -> Result<String, ApiError> {
        let mut query = query.clone();
        query.page.limit = query.page.limit.min(ROWS_MAX);
        let body = self.read(&Route::Islands(query.clone()))?;
        let limit = query.page.limit.to_string();
        // Links keep a limit that is not the usual one.
        let limit = Some(("limit", limit.as_str())).filter(|_| query.page.limit < ROWS_MAX);
        let given: Vec<_> = query.given().chain(limit).collect();
        Ok(site::islands(
            &body,
            ListQuery {
                given: &given,
                tags: &self.snapshot.tags,
            },
        ))
    }

    pub(super) fn island(
        &self,
        code: IslandCode,
        metric: Option<&str>,
    ) -> Result<String, ApiError> {
        let names = site::metric_names();
        let metric = metric.unwrap_or(names[0]);
        let index = names.iter().position(|name| *name == metric);
        let Some(index) = index else {
            let (names, got) = (names.join(", "), Quoted(metric));
            let message = format!("metric must be one of {names}, got {got}");
            return Err(ApiError::BadRequest(message));
        };
        let detail = self.read(&Route::Island(code))?;
        let optional = |route| match self.read(&route) {
            Err(ApiError::Damaged) => Err(ApiError::Damaged),
            body => Ok(body.ok()),
        };
        let history = optional(Route::IslandCcu(code))?;
        let live = optional(Route::Live)?;
        let players = self.snapshot.live_players(code);
        let live = live.as_deref().map(|live| (live, players));
        Ok(site::island(IslandPage {
            detail: &detail,
            published: &self.published(),
            history: history.as_deref(),
            live,
            rank: self.snapshot.rank_by_peak(code),
            metric: index,
        }))
    }

    pub(super) fn creators(&self, query: &CreatorQuery) -> Result<String, ApiError> {
        let mut query = query.clone();
        query.page.limit = query.page.limit.min(ROWS_MAX);
        let q = query.q.clone().unwrap_or_default();
        let body = self.read(&Route::Creators(query))?;
        let days = self.snapshot.days_around(&DayRef::Latest);
        let newest = days.and_then(|[.., newest]| Some(newest?.to_string()));
        Ok(site::creators(&body, &q, newest.as_deref()))
    }

    pub(super) fn creator(&self, slug: &str) -> Result<String, ApiError> {
        let body = self.read_start(&Route::Creator(slug.to_owned()), CREATOR_BYTES_MAX)?;
        let islands = self.read(&Route::Islands(IslandQuery::of_creator(slug)))?;
        site::creator(&body, &islands).ok_or(ApiError::Damaged)
    }

    pub(super) fn ranking(&self, day: &DayRef, root: &str) -> Result<String, ApiError> {
        let body = self.read(&Route::Ranking(day.clone()))?;
        self.with_links(day, root, |links| site::ranking(&body, links))
    }

    /// The newest day on which an island was first seen, of a month; the newest day if there is none.
    pub(super) fn newest_day_with_new_islands(&self) -> DayRef {
        let mut day = DayRef::Latest;
        for _ in 0..NEW_DAYS_MAX {
            let body = self.read_start(&Route::New(day.clone()), NEW_START_BYTES);
            let is_empty = body.is_ok_and(|body| memmem::find(&body, NO_ISLANDS).is_some());
            let before = self
                .snapshot
                .days_around(&day)
                .and_then(|[before, ..]| before);
            match before.filter(|_| is_empty) {
                Some(before) => day = DayRef::Day(before),
                None if is_empty => break,
                None => return day,
            }
        }
        DayRef::Latest
    }

    pub(super) fn new_islands(&self, day: &DayRef, root: &str) -> Result<String, ApiError> {
        let body = self.read_start(&Route::New(day.clone()), NEW_BYTES_MAX)?;
        let published = self.published();
        self.with_links(day, root, |links| {
            site::new_islands(&body, &published, links)
        })
    }

    pub(super) fn live(&self) -> Result<String, ApiError> {
        let body = self.read(&Route::Live)?;
        site::live(&body, &self.published()).ok_or(ApiError::Damaged)
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
        };
        render(links).ok_or(ApiError::Damaged)
    }
}
