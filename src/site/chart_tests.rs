//! Tests of curves, of their lines and of the times below them.

use super::*;
use crate::calendar::UtcDay;
use crate::site::templates::filled;

fn chart(points: &[(i64, u64)]) -> Chart<'static> {
    Chart::new("Players", Unit::COUNT, points, 600, i64::MIN).unwrap()
}

fn figure(chart: &Chart<'_>) -> String {
    filled("_chart.html", context! { chart => chart.values() }).unwrap()
}

/// The points of a drawn curve, in runs, parsed from its path.
fn drawn(path: &str) -> Vec<Vec<(f64, f64)>> {
    let mut runs = Vec::new();
    for run in path.split('M').skip(1) {
        let run = run.trim_end_matches("h0");
        let points = run.split('L').map(|point| {
            let (x, y) = point.split_once(' ').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        });
        runs.push(points.collect());
    }
    runs
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
fn every_point_is_at_its_position_and_gaps_stay_gaps() {
    arbtest::arbtest(|u| {
        let max = *u.choose(&[0, 9, 1_000, 1 << 53])?;
        let mut points = Vec::new();
        for at in 0..u.int_in_range(1..=40)? {
            if u.ratio(3, 4)? {
                points.push((7_200 + at * 600, u.int_in_range(0..=max)?));
            }
        }
        if points.is_empty() {
            return Ok(());
        }
        let chart = chart(&points);
        let highest = points.iter().map(|point| point.1).max().unwrap();
        let scale = Scale::up_to(highest, 1);
        let runs = drawn(&chart.curve(&scale));
        // Plainly: a new run wherever a step is missing.
        let mut want: Vec<Vec<(i64, u64)>> = Vec::new();
        for point in &points {
            match want.last_mut() {
                Some(run) if run.last().unwrap().0 + 600 == point.0 => run.push(*point),
                _ => want.push(vec![*point]),
            }
        }
        assert_eq!(runs.len(), want.len());
        let (begin, end) = (points[0].0, points.last().unwrap().0);
        for (run, want) in runs.iter().zip(&want) {
            assert_eq!(run.len(), want.len());
            for ((x, y), (time, value)) in run.iter().zip(want) {
                let part = if begin == end {
                    0.5
                } else {
                    (time - begin) as f64 / (end - begin) as f64
                };
                assert!((x - part * 100.0).abs() < 0.006);
                let full = (scale.step * scale.lines) as f64;
                assert!((y - (100.0 - *value as f64 / full * 100.0)).abs() < 0.006);
            }
        }
        Ok(())
    });
}

#[test]
fn lines_are_few_at_round_numbers_up_to_the_maximum() {
    arbtest::arbtest(|u| {
        let max = u.int_in_range(0..=1_u64 << 60)? >> u.int_in_range(0..=60)?;
        let Scale { step, lines } = Scale::up_to(max, 1);
        assert!((1..=LINES_MAX).contains(&lines) && step * lines >= max);
        assert!(
            max == 0 || step * (lines - 1) < max,
            "a line more than it takes"
        );
        let digits = step.to_string();
        assert!(matches!(digits.trim_end_matches('0'), "1" | "2" | "5"));
        Ok(())
    });
}

#[test]
fn a_figure_describes_its_extremes() {
    let figure = figure(&chart(&[(600, 5), (1_200, 2_500), (2_400, 7)]));
    let description = "Players: highest 2,500 at 00:20, lowest 5 at 00:10.";
    assert_eq!(figure.matches(description).count(), 2, "{figure}");
    assert!(figure.contains("data-values=\"5,2500,,7\""), "{figure}");
    assert!(Chart::new("Players", Unit::COUNT, &[], 600, i64::MAX).is_none());
}

#[test]
fn the_largest_values_are_drawn() {
    for unit in [Unit::COUNT, Unit::PERCENT] {
        let points = [(0, u64::MAX), (600, 1 << 53)];
        let chart = Chart::new("Minutes", unit, &points, 600, i64::MIN);
        assert!(figure(&chart.unwrap()).contains("d=\"M0.00 "));
    }
}

#[test]
fn points_of_any_times_and_steps_give_a_chart_of_few_steps_or_none() {
    const TIMES: [i64; 9] = [
        i64::MIN,
        i64::MIN + 600,
        -600,
        0,
        600,
        1_200,
        9_000_000_000_000_000_000,
        i64::MAX - 600,
        i64::MAX,
    ];
    arbtest::arbtest(|u| {
        let mut points = Vec::new();
        for _ in 0..u.int_in_range(0..=6)? {
            points.push((*u.choose(&TIMES)?, u.arbitrary()?));
        }
        let step = *u.choose(&[i64::MIN, -600, -1, 0, 1, 600, i64::MAX])?;
        let end = *u.choose(&TIMES)?;
        if let Some(chart) = Chart::new("Players", Unit::COUNT, &points, step, end) {
            assert!(chart.values.len() <= 4_001, "{points:?} {step}");
            figure(&chart);
        }
        Ok(())
    });
}

#[test]
fn tenths_have_lines_at_whole_numbers() {
    let points = [(600, 125), (1_200, 7)];
    let chart = Chart::new("Minutes", Unit::PERCENT, &points, 600, i64::MIN);
    let figure = figure(&chart.unwrap());
    assert!(
        figure.contains("highest 12.5% at ") && figure.contains("lowest 0.7%"),
        "{figure}"
    );
    assert!(
        figure.contains("data-max=150") && figure.contains(">15%</text>"),
        "{figure}"
    );
}

#[test]
fn large_numbers_are_short() {
    for (value, text) in [
        (0, "0"),
        (999, "999"),
        (1_500, "1.5k"),
        (20_000, "20k"),
        (2_000_000, "2M"),
        (2_500_000_000, "2.5B"),
        (20_000_000_000_000, "20T"),
        (1_000_000_000_000_000, "1Q"),
        (8_000_000_000_000_000_000, "8000Q"),
    ] {
        assert_eq!(short(value), text);
    }
}

/// A chart of days that ends on a day.
fn chart_of_days(end: &str, days: usize) -> Chart<'static> {
    let end = UtcDay::parse(end).unwrap();
    let first = end.0 + 1 - i32::try_from(days).unwrap();
    let points: Vec<(i64, u64)> = (first..=end.0)
        .map(|day| (i64::from(day) * DAY_SECONDS, 5))
        .collect();
    Chart::new("Peak", Unit::COUNT, &points, DAY_SECONDS, i64::MIN).unwrap()
}

#[test]
fn charts_of_days_have_few_labels_at_equal_distances() {
    arbtest::arbtest(|u| {
        let end = UtcDay(u.int_in_range(15_000..=30_000)?);
        let chart = chart_of_days(&end.to_string(), u.int_in_range(1..=4_000)?);
        let (days, ticks) = (chart.values.len(), chart.ticks());
        assert!((1..=LABELS_MAX).contains(&ticks.len()), "{days} days");
        assert!(ticks.len() > 1 || days < 3, "{days} days");
        let mut distances = ticks.windows(2).map(|two| two[1] - two[0]);
        let first = distances.next();
        assert!(
            distances.all(|distance| Some(distance) == first),
            "{ticks:?}"
        );
        Ok(())
    });
    let texts = |days| {
        let chart = chart_of_days("2026-11-20", days);
        let texts = chart.ticks().into_iter();
        let texts = texts.map(|at| chart.text(chart.time(at)));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(2), ["2026-11-19", "2026-11-20"]);
    assert_eq!(texts(6), ["2026-11-15", "2026-11-17", "2026-11-19"]);
    assert_eq!(texts(14), ["2026-11-08", "2026-11-13", "2026-11-18"]);
    assert_eq!(texts(30), ["2026-10-24", "2026-11-03", "2026-11-13"]);
    let year = ["2025-12-08", "2026-03-08", "2026-06-06", "2026-09-04"];
    assert_eq!(texts(365), year);
    let two_years = ["2025-03-13", "2025-09-09", "2026-03-08", "2026-09-04"];
    assert_eq!(texts(700), two_years);
}

#[test]
fn narrow_screens_show_every_second_label() {
    let figure = figure(&chart_of_days("2026-11-20", 42));
    let labels = figure.split("<text").filter(|text| text.contains("dy=20"));
    let shown: Vec<bool> = labels.map(|label| !label.contains("class=wide")).collect();
    assert_eq!(shown, [true, false, true, false]);
}

#[test]
fn a_chart_of_a_day_or_less_has_labels_at_round_times() {
    for (steps, wanted) in [
        (144, &["06:00", "12:00", "18:00", "00:00"][..]),
        (12, &["01:00", "01:30", "02:00", "02:30"]),
        (3, &["00:50", "01:00", "01:10"]),
        (1, &["00:50"]),
    ] {
        let points: Vec<(i64, u64)> = (0..steps)
            .map(|step| (86_400 + 3_000 + step * 600, 5))
            .collect();
        let chart = chart(&points);
        let ticks = chart.ticks().into_iter();
        let texts: Vec<String> = ticks.map(|at| chart.text(chart.time(at))).collect();
        assert_eq!(texts, wanted);
    }
}

#[test]
fn a_chart_ends_at_the_newest_day_and_only_ranges_with_a_value_are_offered() {
    let points: Vec<(i64, u64)> = (0..100).map(|day| (day * DAY_SECONDS, 7)).collect();
    for (end, ranges) in [
        (0, &[30, 90][..]),
        (128, &[30, 90]),
        (129, &[90]),
        (200, &[]),
    ] {
        let chart = Chart::new("Peak", Unit::COUNT, &points, DAY_SECONDS, end * DAY_SECONDS);
        let chart = chart.unwrap();
        assert_eq!(chart.ranges(), ranges, "{end}");
        let values = chart.values().get_attr("values").unwrap().to_string();
        let days = usize::try_from(end).unwrap().max(99) + 1;
        assert_eq!(values.split(',').count(), days);
        assert_eq!(values.trim_end_matches(',').split(',').count(), 100);
    }
}

#[test]
fn a_chart_of_days_can_be_limited_to_the_newest() {
    for (days, ranges) in [(30, &[][..]), (31, &[30]), (91, &[30, 90])] {
        let points: Vec<(i64, u64)> = (0..days).map(|day| (day * DAY_SECONDS, 7)).collect();
        let chart = Chart::new("Peak", Unit::COUNT, &points, DAY_SECONDS, 0).unwrap();
        assert_eq!(chart.ranges(), ranges);
        let newest = chart.limited(Some(30));
        assert_eq!(newest.first, (days - 30).max(0) * DAY_SECONDS);
        assert_eq!(newest.values.len(), 30);
    }
}

#[test]
fn a_caption_names_gaps_if_there_are_some() {
    let gap = "A gap is a time without data.";
    assert!(figure(&chart(&[(600, 5), (1_800, 2)])).contains(gap));
    assert!(!figure(&chart(&[(600, 5), (1_200, 2)])).contains(gap));
}
