//! Datasets with one fault each, and the message of that fault.

use std::collections::BTreeMap;

use super::*;
use crate::dataset::{Catalogue, DayRow, LiveStep};

const GOOD: [(&str, &str); 6] = [
    (
        "islands.csv",
        "\u{feff}code,title,creator,createdIn,tags,more\r\n2000-0000-0000,\"a \"\"b\"\", c\",eve,uefn,pvp|1v1,x\r\n1000-0000-0000,,,,,\r\n",
    ),
    ("creators.csv", "followers,slug\n007,eve\n,adam\n"),
    (
        "daily/2026-11-20.csv",
        "code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,averageMinutesPerPlayer,retentionD1,retentionD7\n2000-0000-0000,,2,3,4,5,9007199254740991,1.5,0.11,\n",
    ),
    (
        "ccu/2026-11-20.csv",
        "code,peakCCU\n1000-0000-0000,7\n2000-0000-0000,8\n",
    ),
    (
        "live/1795262400.csv",
        "players,code\n5,2000-0000-0000\n,1000-0000-0000\n",
    ),
    ("platform.csv", "time,players\n1200,9\n600,8\n1800,\n"),
];

#[derive(Debug)]
struct Whole {
    catalogue: Catalogue,
    days: BTreeMap<UtcDay, Vec<DayRow>>,
    live: Vec<LiveStep>,
    platform: Option<Vec<(UnixSeconds, u64)>>,
}

/// Present day of all tests here.
const TODAY: UtcDay = UtcDay(20_778);

fn load(files: &[(&str, Vec<u8>)]) -> Result<Whole, LoadError> {
    let named = files.iter().map(|(name, content)| (*name, &content[..]));
    let named: Vec<(&str, &[u8])> = named.collect();
    let files = Files::Embedded(&named);
    let source = DatasetReader::open(&files, TODAY)?;
    let catalogue = source.catalogue()?;
    let platform = source.platform()?;
    source.notice()?;
    let mut days = BTreeMap::new();
    for files in &source.days {
        days.insert(files.day, source.day(&catalogue, files)?);
    }
    let live: Result<_, _> = source
        .steps
        .iter()
        .map(|step| source.step(&catalogue, *step))
        .collect();
    let live = live?;
    source.finish_checks()?;
    Ok(Whole {
        catalogue,
        days,
        live,
        platform,
    })
}

/// Returns the faults of the valid dataset with one file replaced or added.
fn faults_with(name: &str, content: &[u8]) -> String {
    let mut files: Vec<(&str, Vec<u8>)> = GOOD
        .iter()
        .filter(|(path, _)| *path != name)
        .map(|(path, text)| (*path, (*text).into()))
        .collect();
    files.push((name, content.to_vec()));
    load(&files).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_valid_dataset_is_read_completely() {
    let dataset = load(&GOOD.map(|(name, text)| (name, text.into()))).unwrap();
    let [plain, full] = &dataset.catalogue.islands[..] else {
        panic!("two islands")
    };
    assert_eq!(
        (plain.code.to_string().as_str(), &*plain.title),
        ("1000-0000-0000", "")
    );
    assert!(plain.creator.is_none() && plain.created_in.is_none() && plain.tags.is_empty());
    assert_eq!(&*full.title, "a \"b\", c");
    assert!(full.tags().eq(["pvp", "1v1"]));
    assert_eq!(dataset.catalogue.profiles[1].followers, Some(7));
    let day = &dataset.days[&UtcDay::parse("2026-11-20").unwrap()];
    let counts = [
        None,
        Some(2),
        Some(3),
        Some(4),
        Some(5),
        Some(9_007_199_254_740_991),
    ];
    let metrics = day[1].metrics;
    assert_eq!(
        crate::model::SortField::ALL.map(|field| metrics.count(field)),
        counts
    );
    assert_eq!(metrics.decimals(), [Some(1.5), Some(0.11), None]);
    // The daily row is used even if its peak is null.
    let rows = day.iter();
    let rows = rows.map(|row| (row.island, row.is_daily, row.peak_ccu()));
    assert!(rows.eq([(0, false, Some(7)), (1, true, None)]));
    assert_eq!(dataset.live[0].players, [(1, 5)]);
    assert_eq!(
        dataset.platform.unwrap(),
        [(UnixSeconds(600), 8), (UnixSeconds(1200), 9)]
    );
}

#[expect(clippy::too_many_lines, reason = "a table, one fault a row")]
#[test]
fn each_fault_is_reported_with_its_place() {
    let code = "must be an island code like 1234-5678-9012, got \"1\"";
    let count = "must be an integer from 0 to 9007199254740991 or empty, got";
    let share = "must be a decimal from 0 to 1, like 0.25, or empty, got";
    let least = "must be a decimal of at least 0, like 12.5, or empty, got";
    let slug = "a slug of 1 to 64 bytes other than . and .. without / and control characters";
    let time = "must be Unix seconds in digits, a multiple of 600";
    let ccu = |rows: &str| format!("code,peakCCU\n{rows}");
    let daily = |tail: &str| format!("{}1000-0000-0000,1,1,1,1,1,1,{tail}\n", GOOD[2].1);
    let islands = |row: &str| format!("{}{row}\r\n", GOOD[0].1);
    let day = "ccu/2026-11-19.csv";
    let dailies = "daily/2026-11-20.csv";
    let cases: Vec<(&str, String, String)> = vec![
        (
            day,
            String::new(),
            ": the header row must be code,peakCCU, got no row".into(),
        ),
        (
            day,
            "code\n".into(),
            ":1: column not found: peakCCU; the header is \"code\"".into(),
        ),
        (
            day,
            "code,peakCCU,code\n".into(),
            ":1:3: the column code must occur once, got a second one".into(),
        ),
        (
            day,
            ccu("1000-0000-0000\n"),
            ":2: the number of fields must be 2, as in the header, got 1".into(),
        ),
        (day, ccu("\n1,2\n"), format!(":3:1: code {code}")),
        (
            day,
            "code,peakCCU\r\n\r\n1,2\r\n".into(),
            format!(":3:1: code {code}"),
        ),
        (day, ccu("1,2"), format!(":2:1: code {code}")),
        (
            day,
            ccu(",2\n"),
            ":2:1: code must be an island code like 1234-5678-9012, got an empty field".into(),
        ),
        (
            day,
            ccu("1000-0000-0000,\0\n"),
            ":2:2: peakCCU must not contain a NUL, got \"\\0\"".into(),
        ),
        (
            day,
            ccu("1000-0000-0000,1\n\n1000-0000-0000,1\n"),
            ":4:1: code must be unique, got \"1000-0000-0000\", which is also on line 2".into(),
        ),
        (
            day,
            ccu("3000-0000-0000,1\n"),
            ":2:1: code must be in islands.csv, got \"3000-0000-0000\"".into(),
        ),
        (
            day,
            ccu("1000-0000-0000,12k\n"),
            format!(":2:2: peakCCU {count} \"12k\""),
        ),
        (
            day,
            ccu("1000-0000-0000,+1\n"),
            format!(":2:2: peakCCU {count} \"+1\"; write 1"),
        ),
        (
            day,
            ccu("1000-0000-0000,9007199254740992\n"),
            format!(":2:2: peakCCU {count} \"9007199254740992\""),
        ),
        (
            dailies,
            daily("-1,,"),
            format!(":3:8: averageMinutesPerPlayer {least} \"-1\"; leave the field empty if the value is unknown"),
        ),
        (
            dailies,
            daily("1e3,,"),
            format!(":3:8: averageMinutesPerPlayer {least} \"1e3\"; write 1000"),
        ),
        (
            dailies,
            daily(&format!("{},,", "9".repeat(400))),
            format!(
                ":3:8: averageMinutesPerPlayer {least} \"{}\"…",
                "9".repeat(40)
            ),
        ),
        (
            dailies,
            daily(",1.,"),
            format!(":3:9: retentionD1 {share} \"1.\"; write 1"),
        ),
        (
            dailies,
            daily(",,1.01"),
            format!(":3:10: retentionD7 {share} \"1.01\""),
        ),
        (
            "islands.csv",
            islands("3000-0000-0000,,a/b,,,"),
            format!(":4:3: creator must be {slug}, or empty, got \"a/b\""),
        ),
        (
            "islands.csv",
            islands("3000-0000-0000,,,UEFN,,"),
            ":4:4: createdIn must be uefn, creative or empty, got \"UEFN\"".into(),
        ),
        (
            "islands.csv",
            islands("3000-0000-0000,,,,a||b,"),
            ":4:5: tags must be tags separated by |, none of them empty, got \"a||b\"".into(),
        ),
        (
            "islands.csv",
            islands("2000-0000-0000,,,,,"),
            ":4:1: code must be unique, got \"2000-0000-0000\", which is also on line 2".into(),
        ),
        (
            "creators.csv",
            "slug\neve\neve\n".into(),
            ":3:1: slug must be unique, got \"eve\", which is also on line 2".into(),
        ),
        (
            "creators.csv",
            "slug,name\n,Eve\n".into(),
            format!(":2:1: slug must be {slug}, got an empty field"),
        ),
        (
            "platform.csv",
            "time,players\n601,1\n".into(),
            format!(":2:1: time {time}, got \"601\""),
        ),
        (
            "platform.csv",
            "time,players\n600,1\n600,1\n".into(),
            ":3:1: time must be unique, got \"600\", which is also on line 2".into(),
        ),
        (
            "ccu/2026-02-29.csv",
            ccu(""),
            ": the file name must be a calendar day, YYYY-MM-DD, followed by .csv, got \"2026-02-29\""
                .into(),
        ),
    ];
    for (name, content, want) in cases {
        assert_eq!(
            faults_with(name, content.as_bytes()),
            format!("{name}{want}")
        );
    }
    let broken = faults_with(day, b"code,peakCCU\n1000-0000-0000,\xff\n");
    assert_eq!(
        broken,
        format!("{day}:2:2: peakCCU must be UTF-8, got \"\u{fffd}\"; save the file as UTF-8")
    );
}

#[test]
fn a_name_of_a_live_step_has_ten_digits_of_2017_or_later() {
    for stem in [
        "x",
        "0",
        "600",
        "9000",
        "172200",
        "999999600",
        "1483228200",
        "1795262401",
        "+795262200",
        "10000000200",
        "371085174374400",
        "9223372036854776400",
    ] {
        let name = format!("live/{stem}.csv");
        let want = "Unix seconds in ten digits, a multiple of 600 from 1483228800 (2017) on";
        assert_eq!(
            faults_with(&name, b"code,players\n"),
            format!("{name}: the file name must be {want}, followed by .csv, got \"{stem}\"")
        );
    }
    assert_eq!(faults_with("live/1483228800.csv", b"code,players\n"), "");
}

#[test]
fn an_unclosed_quote_is_reported_where_its_row_starts() {
    let want =
        "must end with a quote because it begins with one, got none before the end of the file";
    let file = "ccu/2026-11-19.csv";
    for (content, place) in [
        ("\"", "1:1: the field"),
        ("code,\"peakCCU", "1:2: the field"),
        ("code,peakCCU\n1000-0000-0000,\"1", "2:2: peakCCU"),
        ("code,peakCCU\n1000-0000-0000,\"1\n", "2:2: peakCCU"),
        (
            "code,peakCCU\r\n\r\n1000-0000-0000,\"1\r\n\r\n2\"\"",
            "3:2: peakCCU",
        ),
    ] {
        let text = faults_with(file, content.as_bytes());
        assert_eq!(text, format!("{file}:{place} {want}"), "{content:?}");
    }
    let closed = "code,peakCCU\n\"1000-0000-0000\",\"1\"";
    for end in ["", "\n", "\r", "\r\n\n"] {
        assert_eq!(faults_with(file, format!("{closed}{end}").as_bytes()), "");
    }
}

#[test]
fn a_missing_islands_file_is_the_only_fault_reported() {
    let files: Vec<_> = GOOD[1..]
        .iter()
        .map(|(name, text)| (*name, (*text).into()))
        .collect();
    let want = "islands.csv: the file must exist, with one row per island, got no file";
    assert_eq!(load(&files).unwrap_err().to_string(), want);
    let none = "code,title,creator,createdIn,tags\n";
    assert_eq!(
        faults_with("islands.csv", none.as_bytes()).lines().count(),
        5,
        "each row names a code it lacks"
    );
}

#[test]
fn more_than_a_hundred_faults_are_counted() {
    let rows = "1,x\n".repeat(2000);
    let text = faults_with(
        "ccu/2026-11-19.csv",
        format!("code,peakCCU\n{rows}").as_bytes(),
    );
    assert_eq!(text.lines().count(), 101);
    assert!(text.ends_with("\n… and 3900 more"), "{text}");
}

#[path = "hints_tests.rs"]
mod hints;
#[path = "malformed_records_tests.rs"]
mod records;

#[test]
fn tomorrow_is_the_latest_valid_day() {
    let today = UtcDay::parse("2026-12-31").unwrap();
    let day = |text: &str| {
        let start = UtcDay::parse(text).unwrap().start();
        late_fault(today, "the day", start, |_| text.to_owned())
    };
    assert_eq!(day("2027-01-01"), None);
    assert_eq!(day("1969-07-20"), None);
    let want = "the day must be no later than tomorrow, got 2027-01-02; \
                by the clock of this machine, today is 2026-12-31 (UTC)";
    assert_eq!(day("2027-01-02").as_deref(), Some(want));
}

#[test]
fn the_end_of_tomorrow_is_the_time_limit_even_for_times_that_overflow_a_day() {
    let fault = |time| late_fault(UtcDay(0), "time", UnixSeconds(time), time_text);
    assert_eq!(fault(2 * 86_400 - 600), None);
    let text = fault(2 * 86_400).unwrap();
    assert!(
        text.contains("got 172800 (1970-01-03T00:00:00Z); by"),
        "{text}"
    );
    // Its day, truncated to 32 bits, would be day 0.
    let text = fault(86_400 << 32).unwrap();
    assert!(text.contains("got 371085174374400; by"), "{text}");
    assert!(fault(i64::MAX).is_some());
}
