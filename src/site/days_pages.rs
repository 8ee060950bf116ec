//! `/rankings/{date}` and `/new/{date}`: the ranking and the new islands of a day.

use serde_json::{Value, from_slice};

use super::api_bodies::{Island, RankedIsland, RankingBody, start_of};
use super::html::{Escaped, count, day, each, html_page, island_link};
use super::html_tables::{METRICS, island_table};
use super::templates::filled;

/// Rows on a page of new islands. The first day of a catalogue has all islands.
const NEW_ROWS_MAX: usize = 100;

/// A day and its neighbours among the published days.
#[derive(Clone, Copy, Debug)]
pub struct DayLinks<'a> {
    /// The day before.
    pub previous: Option<&'a str>,
    /// The day after.
    pub next: Option<&'a str>,
    /// The first and the last day.
    pub range: [&'a str; 2],
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
}

impl DayLinks<'_> {
    /// Returns the links to the neighbours, and a form for any other day.
    fn html(&self, path: &str, date: &str) -> String {
        let root = self.root;
        let link = |day: Option<&str>, rel: &str, text: &str| {
            each(day, |day| {
                format!("<a rel={rel} href=\"{root}{path}/{day}\">{text}: {day}</a> ")
            })
        };
        let previous = link(self.previous, "prev", "Previous day");
        let next = link(self.next, "next", "Next day");
        let ([first, last], date) = (self.range, Escaped(date));
        filled!("day_links.html"; root, path, previous, next, first, last, date)
    }
}

/// Returns the page of a ranking, given the body of `/v1/rankings/{date}`.
pub fn ranking(body: &[u8], links: DayLinks<'_>) -> Option<String> {
    let body: RankingBody = from_slice(body).ok()?;
    let (root, date) = (links.root, &body.date);
    let previous = Escaped(body.previous_date.as_deref().unwrap_or_default());
    let day = day(date, &body.meta.generated_at);
    let links = links.html("rankings", date);
    let title = format!("Ranking of {date}");
    let (table, date) = (ranking_table(&body.ranking, root), Escaped(date));
    let content = filled!("ranking.html"; day, previous, links, table, root, date);
    let description =
        "The ten game islands with the highest numbers of concurrent players on a day.";
    Some(html_page(
        [root, "rankings", &title, description],
        &[],
        &content,
    ))
}

/// Returns the table of a ranking.
pub(super) fn ranking_table(ranking: &[RankedIsland], root: &str) -> String {
    let rows = each(ranking, |island| {
        let (rank, change) = (island.rank, change(island));
        let link = island_link(root, &island.code, &island.title, island.creator.as_deref());
        let peak = count(island.peak_ccu);
        format!("<tr><td class=n>{rank}<td class=n>{change}<td>{link}<td class=n>{peak}")
    });
    filled!("ranking_table.html"; rows)
}

/// Returns a change of rank, with its direction as a sign and in words, not in colour alone.
fn change(island: &RankedIsland) -> String {
    let was = each(island.previous_rank, |rank| {
        format!("previous rank: {rank}")
    });
    let span = |class: &str, sign: &str, by: u64| {
        format!("<span class={class} title=\"{was}\">{sign}{by}</span>")
    };
    match island.delta {
        None => "<span class=soft title=\"no previous rank\">–</span>".to_owned(),
        Some(0) => format!("<span class=soft title=\"{was}\">=</span>"),
        Some(by) if by > 0 => span("up", "+", by.unsigned_abs()),
        Some(by) => span("down", "\u{2212}", by.unsigned_abs()),
    }
}

/// Says which day the metrics of a table of new islands belong to.
const METRICS_DAY: &str = "The metrics are for this day.";

/// Returns the page of new islands, given the start of the body of `/v1/new/{date}`.
pub fn new_islands(body: &[u8], published: &str, links: DayLinks<'_>) -> Option<String> {
    let (head, islands) = start_of::<Value, Island>(body, "}", NEW_ROWS_MAX)?;
    let date = head["date"].as_str()?;
    let root = links.root;
    let table = island_table(&islands, root, (METRICS[0].name, "", None));
    let about = match islands.len() {
        0 => "No island was first seen on this day.".to_owned(),
        NEW_ROWS_MAX => {
            format!(
                "Of the islands first seen on this day, these {NEW_ROWS_MAX} have the highest peaks. {METRICS_DAY}"
            )
        }
        1 => format!("1 island was first seen on this day. {METRICS_DAY}"),
        number => format!("{number} islands were first seen on this day. {METRICS_DAY}"),
    };
    let title = format!("New islands of {date}");
    let (day, links) = (day(date, published), links.html("new", date));
    let date = Escaped(date);
    let content = filled!("new.html"; day, about, links, table, root, date);
    let description = "The game islands that were first seen on a day.";
    Some(html_page([root, "new", &title, description], &[], &content))
}
