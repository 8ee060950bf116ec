//! `/`: how fresh the data is, the ten highest peaks, the day's curve, and a search.

use serde_json::from_slice;

use super::api_bodies::{Index, Intraday, Ranked, Ranking, titled};
use super::chart::Chart;
use super::frame::{Extra, Frame};
use super::html::{Count, Escaped};
use super::search_page::search_form;
use crate::calendar::{DAY_SECONDS, UnixSeconds};

/// What the dashboard is made from: bodies of the API, each `None` while it is not published.
#[derive(Clone, Copy, Debug, Default)]
pub struct HomeBodies<'a> {
    /// That of `/v1`.
    pub index: Option<&'a [u8]>,
    /// That of `/v1/rankings/latest`.
    pub ranking: Option<&'a [u8]>,
    /// That of `/v1/live/intraday`.
    pub intraday: Option<&'a [u8]>,
}

/// The page at `/`, in HTML.
pub fn home(bodies: HomeBodies<'_>, base_url: &str) -> String {
    let parsed = |body: Option<&[u8]>| body.and_then(|body| from_slice::<Index>(body).ok());
    let index = parsed(bodies.index);
    let ranking = bodies.ranking.and_then(|body| from_slice(body).ok());
    let intraday = bodies.intraday.and_then(|body| from_slice(body).ok());
    let (form, base_url) = (search_form("", &[]), Escaped(base_url));
    let content = format!(
        "<h1>Game islands, counted</h1>\
         <p>Daily peaks, players, plays and retention of game islands, as JSON. You can start without a key:</p>\
         <pre>curl '{base_url}/v1/islands?limit=2'</pre>\
         <p><a href=docs>All endpoints, with a Send button</a> · <a href=recipes>Recipes</a> · \
         <a href=keys>Keys</a></p>{form}<div id=summary>{}{}{}</div>",
        freshness(index.as_ref(), intraday.as_ref()),
        intraday.as_ref().map_or_else(String::new, curve),
        ranking.as_ref().map_or_else(String::new, top),
    );
    let frame = Frame {
        title: "Island metrics",
        root: "",
        extra: Extra::Charts,
    };
    frame.around(&content)
}

fn freshness(index: Option<&Index>, intraday: Option<&Intraday>) -> String {
    let Some(index) = index else {
        return "<p class=note>Nothing has been published yet; check back after the next refresh.</p>"
            .to_owned();
    };
    let generated_at = Escaped(&index.generated_at);
    let newest = intraday.and_then(|intraday| intraday.points.last());
    let players = newest.map_or_else(String::new, |(time, players)| {
        let time = UnixSeconds(*time);
        let when = if time.has_text() {
            format!("<br><small><time class=ago datetime={time}>{time}</time></small>")
        } else {
            String::new()
        };
        tile("Players", &format!("{}{when}", Count(Some(*players))))
    });
    let count = |name, count| tile(name, &Count(Some(count)).to_string());
    format!(
        "<dl>{}{players}{}{}{}</dl>",
        tile(
            "Published",
            &format!("<time class=ago datetime=\"{generated_at}\">{generated_at}</time>")
        ),
        count("Islands", index.counts.islands),
        count("Creators", index.counts.creators),
        count("Days held", index.counts.rankings),
    )
}

/// A figure and its name. `value` is markup.
pub(super) fn tile(name: &str, value: &str) -> String {
    format!("<div><dt>{name}<dd>{value}</div>")
}

fn curve(intraday: &Intraday) -> String {
    // Of any moment: one of a platform's file may lie beyond all calendars.
    let name = |time: i64| {
        let minutes = time.rem_euclid(DAY_SECONDS) / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let chart = Chart::new(
        "Players",
        &intraday.points,
        intraday.resolution_seconds,
        name,
    );
    let Some(chart) = chart else {
        return String::new();
    };
    let span = [intraday.points.first(), intraday.points.last()];
    let span = span.map(|point| point.map(|point| UnixSeconds(point.0)));
    let span = match span {
        [Some(first), Some(last)] if first.has_text() && last.has_text() => {
            let (from, to) = (first.day(), last.day());
            let (begin, end) = (name(first.0), name(last.0));
            format!(", {from} {begin} to {to} {end}")
        }
        _ => String::new(),
    };
    format!(
        "<h2>Players{span} (UTC)</h2>{}<p class=soft>Served by \
         <a href=\"docs#getIntraday\"><code>/v1/live/intraday</code></a></p>",
        chart.figure()
    )
}

fn top(ranking: &Ranking) -> String {
    let rows: String = ranking.entries.iter().map(row).collect();
    let against = ranking
        .previous_date
        .as_ref()
        .map_or_else(String::new, |day| format!(", against {}", Escaped(day)));
    format!(
        "<h2>Highest peaks of {}</h2><table><thead><tr><th class=n>Rank<th class=n>Change<th>Island\
         <th class=n>Peak</thead>{rows}</table><p class=soft>The ten highest numbers of concurrent \
         players{against}. Served by <a href=\"docs#getRanking\"><code>/v1/rankings/latest</code></a></p>",
        Escaped(&ranking.date)
    )
}

fn row(ranked: &Ranked) -> String {
    let creator = ranked.creator.as_ref().map_or_else(String::new, |slug| {
        format!("<br><small><bdi>{}</bdi></small>", Escaped(slug))
    });
    format!(
        "<tr><td class=n>{}<td class=n>{}<td><a href=\"islands/{}\"><bdi>{}</bdi></a>{creator}<td class=n>{}",
        ranked.rank,
        change(ranked.delta),
        Escaped(&ranked.code),
        Escaped(titled(&ranked.title, &ranked.code)),
        Count(ranked.peak_ccu),
    )
}

/// A change of rank: its direction by a sign and in words, not by colour alone.
fn change(delta: Option<i64>) -> String {
    let words = |class, sign, word, by| {
        format!("<span class={class}>{sign}<span title=\"{word} {by}\">{by}</span></span>")
    };
    match delta {
        None => "<small title=\"no peak on the day compared with\">\u{2013}</small>".to_owned(),
        Some(0) => "<small title=unchanged>=</small>".to_owned(),
        Some(by) if by > 0 => words("up", "\u{25b2}", "up", by.unsigned_abs()),
        Some(by) => words("down", "\u{25bc}", "down", by.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &[u8] = br#"{"generatedAt":"2026-11-21T12:05:00Z","version":"v1","counts":
        {"islands":300,"creators":140,"ccuHistories":270,"rankings":42,"new":42},"endpoints":[],
        "docs":"d","license":"l","meta":{"generatedAt":"2026-11-21T12:05:00Z"}}"#;
    const RANKING: &[u8] = br#"{"date":"2026-11-20","previousDate":"2026-11-19","ranking":[
        {"rank":1,"delta":2,"previousRank":3,"code":"0000-0000-0001","title":"<b>A & B","creator":"x\"y",
        "createdIn":null,"peakCCU":12345},{"rank":2,"delta":-1,"previousRank":1,"code":"0000-0000-0002",
        "title":"C","creator":null,"createdIn":null,"peakCCU":5},{"rank":3,"delta":null,"previousRank":null,
        "code":"0000-0000-0003","title":"D","creator":null,"createdIn":"uefn","peakCCU":4}],"meta":{}}"#;
    const INTRADAY: &[u8] =
        br#"{"resolutionSeconds":600,"points":[[1795259400,10],[1795260000,4200]],"meta":{}}"#;

    #[test]
    fn a_dashboard_shows_what_the_bodies_say_and_no_markup_of_theirs() {
        let bodies = HomeBodies {
            index: Some(INDEX),
            ranking: Some(RANKING),
            intraday: Some(INTRADAY),
        };
        let page = home(bodies, "http://x.test");
        for part in [
            "datetime=\"2026-11-21T12:05:00Z\"",
            "<dt>Players<dd>4,200<br><small><time class=ago datetime=2026-11-21T11:20:00Z>",
            "<h2>Players, 2026-11-21 11:10 to 2026-11-21 11:20 (UTC)</h2>",
            "<dt>Islands<dd>300",
            "<a href=\"islands/0000-0000-0001\"><bdi>&lt;b&gt;A &amp; B</bdi></a><br><small><bdi>x&quot;y</bdi></small>",
            "<td class=n>12,345",
            "title=\"up 2\"",
            "title=\"down 1\"",
            "title=\"no peak on the day compared with\"",
            "Highest peaks of 2026-11-20",
            "data-values=\"10,4200\"",
            "highest 4,200 at 11:20, lowest 10 at 11:10",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn a_moment_beyond_all_calendars_is_drawn_too() {
        for time in [i64::MAX, i64::MAX - 600, 1 << 53, 0, i64::MIN] {
            let intraday =
                format!(r#"{{"resolutionSeconds":600,"points":[[{time},3]],"meta":{{}}}}"#);
            let bodies = HomeBodies {
                intraday: Some(intraday.as_bytes()),
                ..HomeBodies::default()
            };
            let page = home(bodies, "");
            assert!(page.contains("data-values=\"3\""), "{time}");
            let is_dated = UnixSeconds(time).has_text();
            assert_eq!(page.contains("<h2>Players (UTC)</h2>"), !is_dated, "{time}");
        }
    }

    #[test]
    fn parts_that_are_not_published_are_left_out() {
        let nothing = home(HomeBodies::default(), "http://x.test");
        assert!(nothing.contains("Nothing has been published yet"));
        let bodies = HomeBodies {
            index: Some(INDEX),
            ..HomeBodies::default()
        };
        let page = home(bodies, "http://x.test");
        assert!(page.contains("<dt>Days held<dd>42"));
        assert!(
            !page.contains("<dt>Players") && !page.contains("<svg") && !page.contains("Highest")
        );
    }
}
