//! `/islands/{code}`: an island's newest day and the history of its peaks.

use serde_json::from_slice;

use super::api_bodies::{CcuBody, IslandBody, IslandSummary};
use super::chart::Chart;
use super::html::{
    CHARTS, Escaped, ago, count, each, encoded, page, tile, title_or_code, unreadable_page, wrapped,
};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// Returns the page, given the bodies of `/v1/islands/{code}` and, if histories are published, of
/// `/v1/islands/{code}/ccu`.
pub fn island(body: &[u8], history: Option<&[u8]>) -> String {
    let Ok(IslandBody { island, meta }) = from_slice(body) else {
        return unreadable_page("../");
    };
    let history = history.and_then(|body| from_slice(body).ok());
    let (peaks, published) = (each(&history, peaks), ago(&meta.generated_at));
    let name = title_or_code(&island.title, &island.code);
    let content = format!(
        "<h1><bdi>{}</bdi></h1>{}{}{peaks}<p class=soft>Published {published}. \
         Served by <a href=\"../docs#getIsland\"><code>/v1/islands/{}</code></a></p>",
        Escaped(name),
        about(&island),
        each(&island.date, |date| newest_day(&island, date)),
        Escaped(&island.code),
    );
    let title = format!("{name} \u{2013} Island metrics");
    page(&title, "../", CHARTS, &content)
}

fn about(island: &IslandSummary) -> String {
    let creator = each(&island.creator, |slug| {
        let (encoded, slug) = (encoded(slug), Escaped(slug));
        format!(" by <a href=\"../?creator={encoded}\"><bdi>{slug}</bdi></a>")
    });
    let tool = each(&island.created_in, |tool| {
        let (encoded, tool) = (encoded(tool), Escaped(tool));
        format!(", made in <a href=\"../?createdIn={encoded}\">{tool}</a>")
    });
    let seen = island.first_seen.as_ref().zip(island.last_seen.as_ref());
    let seen = each(seen, |(first, last)| {
        format!("; seen {} to {}", Escaped(first), Escaped(last))
    });
    let tags = each(&island.tags, |tag| {
        let (encoded, tag) = (encoded(tag), Escaped(tag));
        format!(" <a href=\"../?tag={encoded}\"><bdi>{tag}</bdi></a>")
    });
    let tags = wrapped("<br>Tags:", &tags, "");
    let code = Escaped(&island.code);
    format!("<p><code>{code}</code>{creator}{tool}{seen}{tags}</p>")
}

fn newest_day(island: &IslandSummary, date: &str) -> String {
    let date = Escaped(date);
    let dash = || "\u{2013}".to_owned();
    let minutes = island.average_minutes_per_player;
    let minutes = minutes.map_or_else(dash, |minutes| format!("{minutes:.1}"));
    let share =
        |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.0}%", share * 100.0));
    let tiles = [
        ("Peak players", count(island.peak_ccu)),
        ("Unique players", count(island.unique_players)),
        ("Plays", count(island.plays)),
        ("Minutes played", count(island.minutes_played)),
        ("Minutes per player", minutes),
        ("Favorites", count(island.favorites)),
        ("Recommendations", count(island.recommendations)),
        ("Back after a day", share(island.retention_d1)),
        ("Back after a week", share(island.retention_d7)),
    ];
    let tiles = each(tiles, |(name, value)| tile(name, &value));
    format!("<h2>{date}</h2><dl>{tiles}</dl>")
}

fn peaks(history: &CcuBody) -> String {
    let points = history.ccu.iter();
    let points: Vec<(i64, u64)> = points
        .filter_map(|(day, peak)| Some((i64::from(UtcDay::parse(day)?.0) * DAY_SECONDS, *peak)))
        .collect();
    let name = |time: i64| UnixSeconds(time).day().to_string();
    let Some(chart) = Chart::new("Daily peaks", &points, DAY_SECONDS, name) else {
        return "<h2>Daily peaks</h2><p>No peaks are known.</p>".to_owned();
    };
    let (chart, days) = (chart.figure(), count(points.len() as u64));
    format!(
        "<h2>Daily peaks</h2>{chart}<p class=soft>Days known: {days}; a gap is a day without data. Served by \
         <a href=\"../docs#getIslandCcu\"><code>ccu</code></a></p>",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETAIL: &str = r#"{"island":{"code":"0000-0000-0001","title":"A <b>","creator":"é/x","createdIn":
        "uefn","tags":["pvp"],"firstSeen":"2026-11-01","lastSeen":"2026-11-20","date":"2026-11-20",
        "peakCCU":1200,"uniquePlayers":null,"minutesPlayed":3,"favorites":4,"plays":5,"recommendations":6,
        "averageMinutesPerPlayer":1.25,"retentionD1":0.114,"retentionD7":null,"series":[{"date":"x"}]},
        "meta":{"generatedAt":"2026-11-21T12:05:00Z"}}"#;

    #[test]
    fn an_island_shows_its_newest_day_and_its_peaks() {
        let history =
            br#"{"code":"0000-0000-0001","ccu":[["2026-11-01",5],["2026-11-03",9]],"meta":{}}"#;
        let page = island(DETAIL.as_bytes(), Some(history));
        for part in [
            "<h1><bdi>A &lt;b&gt;</bdi></h1>",
            "<a href=\"../?creator=%C3%A9%2Fx\"><bdi>é/x</bdi></a>",
            "<a href=\"../?tag=pvp\"><bdi>pvp</bdi></a>",
            "<a href=\"../?createdIn=uefn\">uefn</a>",
            "<dt>Peak players<dd>1,200",
            "<dt>Unique players<dd>\u{2013}",
            "<dt>Back after a day<dd>11%",
            "data-values=\"5,,9\"",
            "highest 9 on 2026-11-03, lowest 5 on 2026-11-01",
            "Days known: 2",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        let without = island(
            DETAIL.as_bytes(),
            Some(br#"{"code":"c","ccu":[],"meta":{}}"#),
        );
        assert!(without.contains("No peaks are known"));
        assert!(!island(DETAIL.as_bytes(), None).contains("Daily peaks"));
    }
}
