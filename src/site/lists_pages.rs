//! `/islands` and `/creators`: lists, filtered, sorted and paged; and `/creators/{slug}`.

use serde_json::from_slice;

use super::api_bodies::{CreatorBody, Island, ListBody, Meta, start_of};
use super::html::{
    Escaped, count, counted, day, each, encoded, html_page, options, page_links, tile,
    unreadable_page,
};
use super::html_tables::{METRICS, SORTED, creator_table, island_table};
use super::templates::filled;
use crate::model::IslandCode;

/// A query of a list, as its page needs it.
#[derive(Clone, Copy)]
pub struct ListQuery<'a> {
    /// The parameters that differ from their defaults, except those of the page.
    pub given: &'a [(&'static str, &'a str)],
    /// The island whose code is the searched text.
    pub island: Option<IslandCode>,
    /// The tags to choose from.
    pub tags: &'a [String],
}

impl ListQuery<'_> {
    fn get(&self, name: &str) -> &str {
        let mut given = self.given.iter();
        given.find(|one| one.0 == name).map_or("", |one| one.1)
    }
}

/// Returns the page of islands, given the body of `/v1/islands` for the same query.
pub fn islands(body: &[u8], query: ListQuery<'_>) -> String {
    let Ok(ListBody {
        rows: islands,
        meta,
    }) = from_slice(body)
    else {
        return unreadable_page("");
    };
    let (q, total) = (query.get("q"), counted(meta.total, "island"));
    let date = date_of(&islands, &meta);
    let code = each(query.island, |code| code.to_string());
    let unmatched = if meta.total == 0 { q } else { "" };
    let (encoded, unmatched) = (encoded(unmatched), Escaped(unmatched));
    let sort = Some(query.get("sort")).filter(|sort| !sort.is_empty());
    let sorted = (
        sort.unwrap_or(METRICS[0].name),
        query.get("order"),
        Some(query.given),
    );
    let table = island_table(&islands, "", sorted);
    let links = page_links("islands", query.given, &meta);
    let (form, filters) = (form(query), filters(query));
    let content = filled!(
        "islands.html"; form, total, filters, date, code, unmatched, encoded, table, links
    );
    let title = if q.is_empty() { "Islands" } else { q };
    let description = "All tracked game islands with their metrics for the newest day.";
    html_page(["", "islands", title, description], &[], &content)
}

/// Returns the day of the metrics of a list.
fn date_of(islands: &[Island], meta: &Meta) -> String {
    let dates = islands
        .iter()
        .take(1)
        .filter_map(|island| island.metrics.date.as_deref());
    each(dates, |date| day(date, &meta.generated_at))
}

/// Returns the form of the filters.
fn form(query: ListQuery<'_>) -> String {
    let tag = query.get("tag");
    // A tag that is not among those to choose from stays chosen.
    let own =
        Some(tag).filter(|tag| !tag.is_empty() && !query.tags.iter().any(|other| other == tag));
    let tags = own.into_iter().chain(query.tags.iter().map(String::as_str));
    let tags = options(
        [("", "any")].into_iter().chain(tags.map(|tag| (tag, tag))),
        tag,
    );
    let tools = options(
        [("", "any"), ("uefn", "UEFN"), ("creative", "Creative")],
        query.get("createdIn"),
    );
    let sorts = METRICS[..SORTED]
        .iter()
        .map(|metric| (metric.name, metric.label));
    let sorts = options(sorts, query.get("sort"));
    let orders = options(
        [("", "highest first"), ("asc", "lowest first")],
        query.get("order"),
    );
    let [creator, q] = ["creator", "q"].map(|name| Escaped(query.get(name)));
    filled!("filters.html"; creator, q, tags, tools, sorts, orders)
}

/// Returns the filters in words.
fn filters(query: ListQuery<'_>) -> String {
    let filters = each(query.given, |(name, value)| {
        let words = match *name {
            "tag" => "with the tag",
            "creator" => "by",
            "createdIn" => "made with",
            "q" => "with a title that contains",
            _ => return String::new(),
        };
        format!(", {words} <b><bdi>{}</bdi></b>", Escaped(value))
    });
    filters.trim_start_matches(',').to_owned()
}

/// Returns the page of creators, given the body of `/v1/creators` for the same search.
pub fn creators(body: &[u8], q: &str) -> String {
    let Ok(ListBody {
        rows: creators,
        meta,
    }) = from_slice(body)
    else {
        return unreadable_page("");
    };
    let (table, text) = (creator_table(&creators), Escaped(q));
    let links = page_links("creators", &[("q", q)], &meta);
    let total = counted(meta.total, "creator");
    let content = filled!("creators.html"; text, total, table, links);
    let description = "Creators of tracked game islands, with the totals of their islands.";
    html_page(["", "creators", "Creators", description], &[], &content)
}

/// Returns the page of a creator, given the start of its body and that of its list of islands.
pub fn creator(body: &[u8], islands: &[u8]) -> Option<String> {
    let (CreatorBody { creator }, _) = start_of::<_, Island>(body, "}}", 0)?;
    let ListBody {
        rows: islands,
        meta,
    } = from_slice(islands).ok()?;
    let date = date_of(&islands, &meta);
    let (metrics, profile) = (&creator.metrics, &creator.profile);
    let tiles = [
        ("Islands", Some(creator.island_count)),
        ("Sum of peaks", metrics.peak_ccu),
        ("Players", metrics.unique_players),
        ("Minutes played", metrics.minutes_played),
        ("Plays", metrics.plays),
        ("Favorites", metrics.favorites),
        ("Recommendations", metrics.recommendations),
    ];
    let tiles = each(tiles, |(name, value)| tile(name, &count(value)));
    let profile_tiles = [
        ("Followers", profile.followers),
        ("Following", profile.following),
        ("Lifetime plays", profile.lifetime_plays),
    ];
    let known = profile_tiles.iter().filter(|(_, value)| value.is_some());
    let profile_tiles = each(known, |(name, value)| tile(name, &count(*value)));
    let name = Escaped(profile.name.as_deref().unwrap_or_default());
    let table = island_table(&islands, "../", (METRICS[0].name, "", None));
    let (slug, path) = (Escaped(&creator.slug), encoded(&creator.slug));
    let all = if meta.has_more {
        count(meta.total)
    } else {
        String::new()
    };
    let content = filled!("creator.html"; slug, name, date, tiles, profile_tiles, table, all, path);
    let description = format!("Totals and islands of the creator {}.", creator.slug);
    Some(html_page(
        ["../", "creators", &creator.slug, &description],
        &[],
        &content,
    ))
}
