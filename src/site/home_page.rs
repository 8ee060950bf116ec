//! `/`: the newest figures, the players of the last day, the ten highest peaks, and a search.

use serde::de::DeserializeOwned;
use serde_json::{Value, from_slice};

use super::api_bodies::{BodyOf, IntradayBody, LiveIsland, RankingBody, start_of};
use super::chart::{Chart, Unit};
use super::days_pages::ranking_table;
use super::html::{
    CHARTS, Escaped, ago, count, day, each, html_page, island_link, minute, search_form, step,
};
use super::settings::SiteSettings;
use super::templates::filled;
use crate::calendar::{DAY_SECONDS, UnixSeconds};

/// Rows of the islands with the most players now.
const LIVE_ROWS: usize = 10;

/// Returns the page.
pub fn home(service: &SiteSettings, body_of: BodyOf<'_>) -> String {
    fn parsed<T: DeserializeOwned>(body: Option<Vec<u8>>) -> Option<T> {
        from_slice(&body?).ok()
    }
    let index: Option<Value> = parsed(body_of("/v1"));
    let intraday: Option<IntradayBody> = parsed(body_of("/v1/live/intraday"));
    let ranking: Option<RankingBody> = parsed(body_of("/v1/rankings/latest"));
    let published = index
        .as_ref()
        .and_then(|index| index["generatedAt"].as_str());
    let published = published.unwrap_or_default();
    let nothing = "<p class=note>Nothing has been published yet.</p>";
    let tiles = index.as_ref().map_or(nothing.to_owned(), |index| {
        tiles(
            &index["counts"],
            published,
            intraday.as_ref(),
            ranking.as_ref(),
        )
    });
    let players = each(&intraday, |intraday| players(intraday).unwrap_or_default());
    let top = each(&ranking, |ranking| {
        let (date, table) = (&ranking.date, ranking_table(&ranking.ranking, ""));
        let (marked, date) = (day(date, published), Escaped(date));
        filled!("highest_peaks.html"; marked, table, date)
    });
    let live = each(body_of("/v1/live"), |body| live(&body));
    let (form, base_url) = (search_form(""), Escaped(&service.base_url));
    let content = filled!("home.html"; form, tiles, players, top, live, base_url);
    let description =
        "Daily peaks, players, plays and retention of game islands: dashboard, JSON API and files.";
    html_page(["", "", "", description], CHARTS, &content)
}

fn tiles(
    counts: &Value,
    published: &str,
    intraday: Option<&IntradayBody>,
    ranking: Option<&RankingBody>,
) -> String {
    let newest = intraday.and_then(|body| body.points.last());
    let step = each(newest, |(time, _)| step(*time, published));
    let players = each(newest, |(_, players)| count(*players));
    let newest_day = each(ranking, |ranking| day(&ranking.date, published));
    let [islands, creators, days] =
        ["islands", "creators", "rankings"].map(|kind| count(counts[kind].as_u64()));
    let published = ago(published);
    filled!("summary.html"; players, step, newest_day, islands, creators, days, published)
}

/// Returns the table of the islands with the most players, given the body of `/v1/live`.
fn live(body: &[u8]) -> String {
    let Some((head, islands)) = start_of::<Value, LiveIsland>(body, "}", LIVE_ROWS) else {
        return String::new();
    };
    let rows = each(&islands, |island| {
        let link = island_link("", &island.code, &island.title, None);
        format!("<tr><td>{link}<td class=n>{}", count(island.players))
    });
    let time = head["time"].as_i64().map(UnixSeconds).and_then(minute);
    let time = each(time, |time| format!(" at {}", &time[11..16]));
    filled!("most_players.html"; time, rows)
}

/// Returns the chart of players, `None` without points.
fn players(intraday: &IntradayBody) -> Option<String> {
    let points = &intraday.points;
    // Any time has a text: a platform's file may have one outside of the calendar.
    let name = |time: i64| {
        let minutes = time.rem_euclid(DAY_SECONDS) / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let step = intraday.resolution_seconds;
    let chart = Chart::new("Players", points, step, name, Unit::COUNT)?.figure();
    let [first, last] = [points.first()?, points.last()?].map(|point| UnixSeconds(point.0));
    let span = Some([first, last]).filter(|_| first.has_text() && last.has_text());
    let span = each(span, |span| {
        let [first, last] = span.map(|time| format!("{} {}", time.day(), name(time.0)));
        format!(", {first} to {last}")
    });
    Some(filled!("players.html"; span, chart))
}
