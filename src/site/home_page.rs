//! `/`: the age of the data, the ten highest peaks, the players of the last day, and a search.

use serde::de::DeserializeOwned;
use serde_json::from_slice;

use super::api_bodies::{IndexBody, IntradayBody, RankedIsland, RankingBody};
use super::chart::Chart;
use super::html::{CHARTS, Escaped, ago, count, each, island_link, page, tile, wrapped};
use super::search_page::search_form;
use crate::calendar::{DAY_SECONDS, UnixSeconds};

/// Returns the page, given the bodies of `/v1`, `/v1/rankings/latest` and `/v1/live/intraday`, each
/// `None` while it is not published.
pub fn home([index, top, intraday]: [Option<&[u8]>; 3], base_url: &str) -> String {
    fn parsed<T: DeserializeOwned>(body: Option<&[u8]>) -> Option<T> {
        body.and_then(|body| from_slice(body).ok())
    }
    let intraday: Option<IntradayBody> = parsed(intraday);
    let newest = intraday.as_ref().and_then(|body| body.points.last());
    let nothing =
        "<p class=note>Nothing has been published yet; check back after the next refresh.</p>";
    let tiles = parsed(index).map_or(nothing.to_owned(), |index| tiles(&index, newest));
    let players = intraday.as_ref().and_then(players).unwrap_or_default();
    let ranking = each(&parsed(top), ranking);
    let (form, base_url) = (search_form("", &[]), Escaped(base_url));
    let content = format!(
        "<h1>Game islands, counted</h1>\
         <p>Daily peaks, players, plays and retention of game islands, as JSON. You can start without a key:</p>\
         <pre>curl '{base_url}/v1/islands?limit=2'</pre>\
         <p><a href=docs>All endpoints, with a Send button</a> · <a href=recipes>Recipes</a> · \
         <a href=keys>Keys</a></p>{form}<div id=summary>{tiles}{players}{ranking}</div>",
    );
    page("Island metrics", "", CHARTS, &content)
}

fn tiles(index: &IndexBody, newest: Option<&(i64, u64)>) -> String {
    let players = each(newest, |(time, players)| {
        let time = Some(UnixSeconds(*time)).filter(|time| time.has_text());
        let time = each(time, |time| {
            format!("<br><small><time class=ago datetime={time}>{time}</time></small>")
        });
        tile("Players", &(count(*players) + &time))
    });
    format!(
        "<dl>{}{players}{}{}{}</dl>",
        tile("Published", &ago(&index.generated_at)),
        tile("Islands", &count(index.counts.islands)),
        tile("Creators", &count(index.counts.creators)),
        tile("Days held", &count(index.counts.rankings)),
    )
}

/// Returns the chart of players, `None` without points.
fn players(intraday: &IntradayBody) -> Option<String> {
    let points = &intraday.points;
    // Any time has a text: a platform's file may have one outside of the calendar.
    let name = |time: i64| {
        let minutes = time.rem_euclid(DAY_SECONDS) / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let chart = Chart::new("Players", points, intraday.resolution_seconds, name)?.figure();
    let [first, last] = [points.first()?, points.last()?].map(|point| UnixSeconds(point.0));
    let span = Some([first, last]).filter(|_| first.has_text() && last.has_text());
    let span = each(span, |span| {
        let [first, last] = span.map(|time| format!("{} {}", time.day(), name(time.0)));
        format!(", {first} to {last}")
    });
    Some(format!(
        "<h2>Players{span} (UTC)</h2>{chart}<p class=soft>Served by \
         <a href=\"docs#getIntraday\"><code>/v1/live/intraday</code></a></p>"
    ))
}

fn ranking(body: &RankingBody) -> String {
    let date = Escaped(&body.date);
    let rows = each(&body.ranking, row);
    let previous = body.previous_date.as_deref().unwrap_or_default();
    let against = wrapped(", against ", &Escaped(previous).to_string(), "");
    format!(
        "<h2>Highest peaks of {date}</h2><table><thead><tr><th class=n>Rank<th class=n>Change<th>Island\
         <th class=n>Peak</thead>{rows}</table><p class=soft>The ten highest numbers of concurrent \
         players{against}. Served by <a href=\"docs#getRanking\"><code>/v1/rankings/latest</code></a></p>",
    )
}

fn row(island: &RankedIsland) -> String {
    let (rank, change) = (island.rank, change(island.delta));
    let link = island_link(&island.code, &island.title, island.creator.as_deref());
    let peak = count(island.peak_ccu);
    format!("<tr><td class=n>{rank}<td class=n>{change}<td>{link}<td class=n>{peak}")
}

/// Returns a change of rank, with its direction as a sign and in words, not in colour alone.
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
    fn the_page_shows_the_bodies_escaped() {
        let bodies = [INDEX, RANKING, INTRADAY].map(Some);
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
    fn a_time_outside_of_the_calendar_is_drawn() {
        for time in [i64::MAX, i64::MAX - 600, 1 << 53, 0, i64::MIN] {
            let intraday =
                format!(r#"{{"resolutionSeconds":600,"points":[[{time},3]],"meta":{{}}}}"#);
            let bodies = [None, None, Some(intraday.as_bytes())];
            let page = home(bodies, "");
            assert!(page.contains("data-values=\"3\""), "{time}");
            let is_dated = UnixSeconds(time).has_text();
            assert_eq!(page.contains("<h2>Players (UTC)</h2>"), !is_dated, "{time}");
        }
    }

    #[test]
    fn parts_that_are_not_published_are_left_out() {
        let nothing = home([None; 3], "http://x.test");
        assert!(nothing.contains("Nothing has been published yet"));
        let bodies = [Some(INDEX), None, None];
        let page = home(bodies, "http://x.test");
        assert!(page.contains("<dt>Days held<dd>42"));
        assert!(
            !page.contains("<dt>Players") && !page.contains("<svg") && !page.contains("Highest")
        );
    }
}
