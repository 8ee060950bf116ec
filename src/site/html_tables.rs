//! Tables of islands and creators, and the nine metrics of an island.

use super::api_bodies::{Creator, Island, IslandMetrics};
use super::chart::Unit;
use super::html::{count, creator_link, each, island_link, list_url};
use super::templates::filled;

/// A metric of an island on a day.
pub(super) struct Metric {
    /// Its name in responses.
    pub(super) name: &'static str,
    /// Its name on pages.
    pub(super) label: &'static str,
    /// Its name in a table.
    short: &'static str,
    pub(super) unit: Unit,
    /// Returns the value in its unit.
    pub(super) value: fn(&IslandMetrics) -> Option<u64>,
}

/// A table of [`Metric`]s: name, labels, unit, member of [`IslandMetrics`].
macro_rules! metrics {
    ($($name:literal $label:literal $short:literal $unit:expr, $value:expr;)*) => {
        [$(Metric { name: $name, label: $label, short: $short, unit: $unit, value: $value }),*]
    };
}

/// The metrics in the order of responses. Lists can be sorted by the first six.
pub(super) const METRICS: [Metric; 9] = metrics! {
    "peakCCU" "Peak players" "Peak" Unit::COUNT, |day| day.peak_ccu;
    "uniquePlayers" "Unique players" "Players" Unit::COUNT, |day| day.unique_players;
    "minutesPlayed" "Minutes played" "Minutes" Unit::COUNT, |day| day.minutes_played;
    "favorites" "Favorites" "Favorites" Unit::COUNT, |day| day.favorites;
    "plays" "Plays" "Plays" Unit::COUNT, |day| day.plays;
    "recommendations" "Recommendations" "Recs" Unit::COUNT, |day| day.recommendations;
    "averageMinutesPerPlayer" "Minutes per player" "Min/player" Unit::tenths(""),
        |day| day.average_minutes_per_player.map(|minutes| rounded(minutes * 10.0));
    "retentionD1" "Retention after 1 day" "D1" Unit::tenths("%"),
        |day| day.retention_d1.map(|share| rounded(share * 1_000.0));
    "retentionD7" "Retention after 7 days" "D7" Unit::tenths("%"),
        |day| day.retention_d7.map(|share| rounded(share * 1_000.0));
};

/// The number of metrics by which lists can be sorted.
pub(super) const SORTED: usize = 6;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are not negative, and a float saturates"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

impl Metric {
    /// Returns the text of the value, a dash if it is not known.
    pub(super) fn text(&self, metrics: &IslandMetrics) -> String {
        let value = (self.value)(metrics);
        value.map_or_else(|| count(None), |value| self.unit.text(value))
    }
}

/// Returns a table of islands. `sorted` is the metric that narrow screens show, and the given
/// parameters of a list that can be sorted by others.
pub(super) fn island_table(
    islands: &[Island],
    root: &str,
    (sorted, order, given): (&str, &str, Option<&[(&str, &str)]>),
) -> String {
    let class = |metric: &Metric| {
        if metric.name == sorted {
            "n"
        } else {
            "\"n wide\""
        }
    };
    let head = each(&METRICS[..SORTED], |metric| {
        let (class, short, label) = (class(metric), metric.short, metric.label);
        let Some(given) = given else {
            return format!("<th class={class} title=\"{label}\">{short}");
        };
        let is_sorted = metric.name == sorted;
        let aria = match (is_sorted, order) {
            (false, _) => "",
            (true, "asc") => " aria-sort=ascending",
            (true, _) => " aria-sort=descending",
        };
        // The link of the sorted column reverses the order.
        let other = (is_sorted && order != "asc").then_some("asc");
        let given = given.iter().copied().filter(|(name, _)| *name != "order");
        let given: Vec<(&str, &str)> = given.chain(other.map(|asc| ("order", asc))).collect();
        let by = Some(metric.name).filter(|name| *name != METRICS[0].name);
        let by = by.unwrap_or_default();
        let url = list_url(&format!("{root}islands"), &given, ("sort", by));
        format!("<th class={class}{aria}><a href=\"{url}\" title=\"Sort by {label}\">{short}</a>")
    });
    let rows = each(islands, |island| {
        let link = island_link(root, &island.code, &island.title, island.creator.as_deref());
        let metrics = each(&METRICS[..SORTED], |metric| {
            format!(
                "<td class={}>{}",
                class(metric),
                metric.text(&island.metrics)
            )
        });
        format!("<tr><td>{link}{metrics}")
    });
    filled!("island_table.html"; head, rows)
}

/// Returns a table of creators.
pub(super) fn creator_table(creators: &[Creator]) -> String {
    let rows = each(creators, |creator| {
        let (slug, sums) = (&creator.slug, &creator.metrics);
        let (link, islands) = (creator_link("", slug), count(creator.island_count));
        let peak = count(sums.peak_ccu);
        let sums = [sums.unique_players, sums.minutes_played, sums.plays];
        let sums = each(sums, |sum| format!("<td class=\"n wide\">{}", count(sum)));
        format!("<tr><td>{link}<td class=n>{islands}<td class=n>{peak}{sums}")
    });
    filled!("creator_table.html"; rows)
}
