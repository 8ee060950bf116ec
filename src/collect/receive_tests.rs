use hyper::Response;
use serde_json::json;

use super::*;
use crate::calendar::DAY_SECONDS;
use crate::collect::collector::Next;
use crate::collect::faults_tests::reply;
use crate::collect::plan;
use crate::collect::rules;
use crate::collect::scratch_tests::island;
use crate::collect::simulated_collector_tests::Simulation;
use crate::collect::virtual_upstream_tests::{VirtualUpstream, code, start};
use crate::model::SortField;

/// A collector that knows islands which were never read. The upstream gives nothing by itself.
fn collector_of(islands: u64) -> Simulation {
    let run = Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    let listed: Vec<_> = (0..islands).map(|number| island(code(number))).collect();
    let first_seen = UnixSeconds(start().0 - 9 * DAY_SECONDS);
    catalogue::record_page(&run.collector.store, &listed, None, first_seen).unwrap();
    run
}

/// The reply to a request at a time, with the same peak on each day.
fn week_of_peak(peak: u64, now: UnixSeconds) -> Response<Vec<u8>> {
    let window = rules::window(now);
    let buckets = (window.start.0..window.end.0)
        .map(UtcDay)
        .map(|day| json!({"value": peak, "timestamp": format!("{day}T00:00:00.000Z")}));
    let body = json!({"peakCCU": buckets.collect::<Vec<_>>()});
    reply(200, &body.to_string())
}

/// The days of a reply are those of the window that was requested.
#[test]
fn a_reply_that_arrives_after_midnight_keeps_its_oldest_day() {
    let mut run = collector_of(1);
    let midnight = start().day().end();
    let (sent, received) = (UnixSeconds(midnight.0 - 1), UnixSeconds(midnight.0 + 29));
    let request = Request::Days(code(0), rules::window(sent));
    let raw = Ok(week_of_peak(7, sent));
    let recorded = run.collector.receive(&request, raw, received).unwrap();
    assert_eq!(recorded.outcome, Outcome::Usable);
    run.collector.finish(received).unwrap();
    for day in rules::window(sent).start.0..rules::window(sent).end.0 {
        let rows = run.collector.dataset.day(UtcDay(day)).unwrap();
        let peak = rows[&code(0)].count(SortField::PeakCcu);
        assert_eq!(peak, Some(7), "{}", UtcDay(day));
    }
    // The day that has just ended is due as for any island.
    let fresh = |minutes: i64| {
        let now = UnixSeconds(midnight.0 + minutes * 60);
        plan::sizes(&run.collector.store, now).unwrap().fresh
    };
    assert_eq!([39, 40].map(fresh), [0, 1]);
}

/// The end of a process costs what it could not write, as for a full disk: it is requested again.
#[test]
fn points_of_the_platform_that_were_not_written_are_requested_again() {
    let mut run = collector_of(0);
    let point = UnixSeconds(run.now.0 - 3600);
    let mut times_of = |is_written: bool| {
        let Next::Send(request) = run.collector.next(run.now).unwrap() else {
            panic!("the platform is due");
        };
        let Request::Platform(times) = request.clone() else {
            panic!("{request:?} comes before the platform");
        };
        let body =
            json!({"inMatchPeakCCU": [{"value": 7, "timestamp": point.to_string()}]}).to_string();
        let raw = Ok(reply(200, &body));
        run.collector.receive(&request, raw, run.now).unwrap();
        if is_written {
            run.collector.finish(run.now).unwrap();
        }
        run.crash();
        let back = run.now.0 - times.start.0;
        run.now.0 += 600;
        (times.start, back)
    };
    let week = 6 * DAY_SECONDS;
    assert_eq!([false, true].map(|is| times_of(is).1), [week; 2]);
    assert_eq!(times_of(false).0.0, point.0 - 2 * 3600);
}

/// A member that the upstream renames must not blank the dataset, nor end the search for new islands in silence.
#[test]
fn a_catalogue_whose_rows_lack_members_is_not_believed() {
    let mut run = collector_of(0);
    let mut crawl = |row: &str| {
        let end = r#""meta":{"page":{"nextCursor":null}},"links":{"next":null}"#;
        let body = format!(r#"{{"data":[{row}],{end}}}"#);
        run.collector.crawl = Some(Crawl::new(true));
        let request = Request::Catalogue { after: None };
        let raw = Ok(reply(200, &body));
        let outcome = run
            .collector
            .receive(&request, raw, run.now)
            .unwrap()
            .outcome;
        let store = &run.collector.store;
        let titles: Vec<_> = catalogue::all(store)
            .unwrap()
            .into_iter()
            .map(|one| one.title)
            .collect();
        (
            outcome,
            titles.concat(),
            store.task(Task::BELIEVED_ISLANDS).unwrap(),
        )
    };
    let code = code(7);
    let whole = format!(r#"{{"code":"{code}","title":"T","tags":[]}}"#);
    let renamed = [
        format!(r#"{{"code":"{code}","name":"T","tags":[]}}"#),
        format!(r#"{{"code":"{code}","title":"T","labels":[]}}"#),
        format!(r#"{{"id":"{code}","title":"T","tags":[]}}"#),
    ];
    assert_eq!(crawl(&whole), (Outcome::Usable, "T".to_owned(), 1));
    for row in &renamed {
        assert_eq!(crawl(row), (Outcome::Broken, "T".to_owned(), 1));
    }
    // One such row among others is left out.
    let mixed = format!("{whole},{whole},{}", renamed[0]);
    assert_eq!(crawl(&mixed).0, Outcome::Usable);
}

/// As for a row of the catalogue without them, but these may be absent.
#[test]
fn a_member_that_no_row_of_a_page_has_blanks_no_island() {
    let row = |number, members: &str| format!(r#"{{"code":"{}",{members}}}"#, code(number));
    let all = r#""title":"T","creatorCode":"ann","createdIn":"UEFN","tags":["pvp"]"#;
    let none = r#""title":"","creatorCode":null,"tags":[]"#;
    let other = r#""title":"","creator":"ann","createdIn":"uefn","tags":[]"#;
    for (first, others, (is_kept, is_changed), count) in [
        (none, none, (true, false), 10),
        (other, other, (true, false), 10),
        // One island that has lost its own.
        (none, all, (false, true), 10),
        (all, all, (true, false), 10),
        // The last page may be short.
        (none, none, (false, true), 9),
    ] {
        for codes in [None, Some([code(1)].into())] {
            let mut run = collector_of(0);
            let mut crawl = |rows: [&str; 2]| {
                let rows = (1..=count).map(|number| row(number, rows[usize::from(number > 1)]));
                let rows = rows.collect::<Vec<_>>().join(",");
                let end = r#""meta":{"page":{"nextCursor":null}},"links":{"next":null}"#;
                let raw = reply(200, &format!(r#"{{"data":[{rows}],{end}}}"#));
                run.collector.settings.codes.clone_from(&codes);
                run.collector.crawl = Some(Crawl::new(true));
                let request = Request::Catalogue { after: None };
                let received = run.collector.receive(&request, Ok(raw), run.now).unwrap();
                assert_eq!(received.outcome, Outcome::Usable);
                let store = &run.collector.store;
                let is_changed = store.task(Task::ISLANDS_CHANGED).unwrap() > 0;
                store.set_task(Task::ISLANDS_CHANGED, 0).unwrap();
                (catalogue::all(store).unwrap().swap_remove(0), is_changed)
            };
            let (before, _) = crawl([all, all]);
            assert!(before.creator.is_some() && before.created_in.is_some());
            let (after, changed) = crawl([first, others]);
            assert_eq!(
                (after == before, changed),
                (is_kept, is_changed),
                "{first} {others}"
            );
            assert!(is_kept || after.creator.is_none() && after.created_in.is_none());
        }
    }
}

#[test]
fn a_run_that_gets_no_live_step_or_no_platform_has_not_done_what_was_due() {
    for request in [
        Request::Steps(code(0), start()..start()),
        Request::Platform(start()..start()),
    ] {
        let mut run = collector_of(1);
        let now = run.now;
        run.collector
            .store
            .set_task(Task::FULL_CRAWL, now.0)
            .unwrap();
        assert!(run.collector.missing(now).is_ok());
        let raw = Ok(reply(
            404,
            r#"{"errorCode":"errors.com.epicgames.x.not_found"}"#,
        ));
        let received = run.collector.receive(&request, raw, now).unwrap();
        assert_eq!(received.outcome, Outcome::Gone);
        assert!(run.collector.missing(now).is_err());
    }
}
