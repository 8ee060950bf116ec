//! Malformed fields and headers that a lenient reader would accept: swallowed lines, endless fields,
//! other delimiters.

use std::fmt::Write as _;

use super::*;

const ISLANDS: &str = "islands.csv";
const CCU: &str = "ccu/2026-11-19.csv";
/// Rows of the islands that the other files of the valid dataset refer to.
const ROWS: &str = "1000-0000-0000,,,,,\n2000-0000-0000,,,,,\n";

/// Returns the faults of a dataset with these islands and two more.
fn with_islands(rows: &str) -> String {
    let header = "code,title,creator,createdIn,tags,more";
    faults_with(ISLANDS, format!("{header}\n{ROWS}{rows}").as_bytes())
}

#[test]
fn a_control_character_in_a_text_is_reported_where_its_row_starts() {
    let hint = ", a line break; a stray quote joins the lines that follow into one field";
    let must = "must not contain control characters, got";
    for (row, want) in [
        (
            "3000-0000-0000,\"a\nb\",,,,",
            format!(":4:2: title {must} \"a\" and U+000A{hint}"),
        ),
        (
            "3000-0000-0000,a\tb,,,,",
            format!(":4:2: title {must} \"a\" and U+0009"),
        ),
        (
            "3000-0000-0000,\u{85},,,,",
            format!(":4:2: title {must} \"\" and U+0085"),
        ),
        (
            "3000-0000-0000,,,,\"x|y\r\nz\",",
            format!(":4:5: tags {must} \"x|y\" and U+000D{hint}"),
        ),
        (
            "\n\n3000-0000-0000,\u{7f},,,,",
            format!(":6:2: title {must} \"\" and U+007F"),
        ),
    ] {
        assert_eq!(with_islands(row), format!("{ISLANDS}{want}"), "{row:?}");
    }
    let slug = with_islands("3000-0000-0000,,\"e\nve\",,,");
    assert!(
        slug.starts_with("islands.csv:4:3: creator must be a slug"),
        "{slug}"
    );
    let name = faults_with("creators.csv", b"slug,name\neve,\"E\nadam,A\"\n");
    assert_eq!(
        name,
        format!("creators.csv:2:2: name {must} \"E\" and U+000A{hint}")
    );
    // A zero-width joiner is no control character, and an unread column may have some.
    assert_eq!(with_islands("3000-0000-0000,👩\u{200d}🚀,,,,\"a\nb\""), "");
}

#[test]
fn a_stray_quote_is_reported_in_unread_columns_too() {
    let want = ": a quoted field must end at its closing quote, got text after it; a stray quote joins everything up to the next quote into one field";
    let swallowed = "3000-0000-0000,,,,,\"stray\n4000-0000-0000,,,,,\n5000-0000-0000,,,,,";
    let text = with_islands(&format!("{swallowed}\"sound\"\n"));
    assert_eq!(text, format!("{ISLANDS}:4{want}"));
    let text = faults_with(CCU, b"code,peakCCU\n1000-0000-0000,\"1\"2\n");
    assert_eq!(text, format!("{CCU}:2{want}"));
    let header = faults_with(CCU, b"code,peakCCU,\"note\n1000-0000-0000,7,\"\n");
    let want = ":1:3: a column name must not contain control characters, got \"note\" and U+000A";
    assert!(header.starts_with(&format!("{CCU}{want}")), "{header}");
}

#[test]
fn a_field_over_1024_bytes_is_a_fault_in_every_column_of_every_file() {
    let long = "é".repeat(512);
    let must = "must be at most 1024 bytes (the longest real title has 102), got 1025 bytes,";
    assert_eq!(
        with_islands(&format!("3000-0000-0000,{long},,,,{long}")),
        ""
    );
    for (row, want) in [
        (format!("3000-0000-0000,{long}!,,,,"), ":4:2: title"),
        (format!("3000-0000-0000,,,,{long}!,"), ":4:5: tags"),
        (format!("3000-0000-0000,,,,,{long}!"), ":4:6: the field"),
        (format!("3000-0000-0000,,,,,\"{long}!\""), ":4:6: the field"),
    ] {
        let text = with_islands(&row);
        let quoted = format!("\"{}\"…", "é".repeat(40));
        assert_eq!(text, format!("{ISLANDS}{want} {must} {quoted}"));
    }
    for (file, header, row) in [
        ("creators.csv", "slug,x", "eve"),
        (
            "daily/2026-11-20.csv",
            &format!("{},x", GOOD[2].1.lines().next().unwrap()),
            "1,,,,,,,,,",
        ),
        (CCU, "code,peakCCU,x", "1000-0000-0000,1"),
        ("live/1795262400.csv", "code,players,x", "1000-0000-0000,1"),
        ("platform.csv", "time,players,x", "600,1"),
    ] {
        let text = faults_with(file, format!("{header}\n{row},{long}!\n").as_bytes());
        assert!(text.starts_with(&format!("{file}:2:")), "{text}");
        assert!(text.contains(&format!("the field {must}")), "{text}");
        let text = faults_with(file, format!("{header}{long}\n{row},\n").as_bytes());
        assert!(text.starts_with(&format!("{file}:1:")), "{text}");
    }
}

#[test]
fn a_record_without_end_is_reported_and_nothing_after_it_is_read() {
    let rest = "; the rest of the file was not read";
    let swallowed = format!(
        "3000-0000-0000,\"stray,,,,\n{}",
        "4000-0000-0000,,,,,\n".repeat(100_000)
    );
    let text = with_islands(&swallowed);
    let want =
        ":4:2: title must be at most 1024 bytes (the longest real title has 102), got more than";
    assert!(text.starts_with(&format!("{ISLANDS}{want}")), "{text}");
    assert!(
        text.ends_with(&format!(
            "a stray quote joins the lines that follow into one field{rest}"
        )),
        "{text}"
    );
    let want =
        ": the row must be at most 1048576 bytes, including the blank lines before it, got more";
    for filler in ["\n", ","] {
        let text = faults_with(
            CCU,
            format!("code,peakCCU\n{}1,1\n", filler.repeat(3 << 20)).as_bytes(),
        );
        let line = text.split(':').nth(1).unwrap();
        assert_eq!(text, format!("{CCU}:{line}{want}{rest}"));
    }
    // A large file of short rows is valid.
    let mut file = "time,players\n".to_owned();
    for number in 0..200_000 {
        writeln!(file, "{},1", 600 * number).unwrap();
    }
    assert_eq!(faults_with("platform.csv", file.as_bytes()), "");
}

#[test]
fn a_header_is_reported_with_its_missing_columns() {
    let commas = "; fields must be separated by commas, not";
    for (header, want) in [
        (
            "code;peakCCU",
            format!(
                "columns not found: code, peakCCU; the header is \"code;peakCCU\"{commas} semicolons"
            ),
        ),
        (
            "code\tpeakCCU",
            format!(
                "columns not found: code, peakCCU; the header is \"code\\tpeakCCU\"{commas} tabs"
            ),
        ),
        (
            "Code,peakCCU,x",
            "column not found: code; the header is \"Code,peakCCU,x\"".to_owned(),
        ),
        (
            &"x".repeat(200),
            format!(
                "columns not found: code, peakCCU; the header is \"{}\"…",
                "x".repeat(120)
            ),
        ),
    ] {
        let text = faults_with(CCU, format!("{header}\n1000-0000-0000,1\n").as_bytes());
        assert_eq!(text, format!("{CCU}:1: {want}"));
    }
}

#[test]
fn a_day_or_step_later_than_tomorrow_is_reported_with_todays_date() {
    let must = "must be no later than tomorrow, got";
    let clock = "by the clock of this machine, today is 2026-11-21 (UTC)";
    let daily = GOOD[2].1.lines().next().unwrap();
    for (file, content, want) in [
        ("ccu/2026-11-22.csv", "code,peakCCU\n", None),
        ("daily/2026-11-22.csv", daily, None),
        ("live/1795391400.csv", "code,players\n", None),
        ("platform.csv", "time,players\n1795391400,1\n", None),
        ("ccu/2026-11-23.csv", "code,peakCCU\n", Some(": the day")),
        ("daily/9999-12-31.csv", daily, Some(": the day")),
        ("live/1795392000.csv", "code,players\n", Some(": the step")),
        ("live/9999999600.csv", "code,players\n", Some(": the step")),
        (
            "platform.csv",
            "time,players\n600,\n1795392000,\n",
            Some(":3:1: time"),
        ),
    ] {
        let text = faults_with(file, content.as_bytes());
        let Some(want) = want else {
            assert_eq!(text, "", "{file}");
            continue;
        };
        assert!(text.starts_with(&format!("{file}{want} {must} ")), "{text}");
        assert!(text.ends_with(clock) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn unknown_codes_are_one_fault_per_file_while_islands_has_faults() {
    let rows = "3000-0000-0000,1\n4000-0000-0000,1\n5000-0000-0000,x\n";
    let islands = format!(
        "code,title,creator,createdIn,tags\n{}3000-0000-00,,,,\n",
        ROWS.replace(",,,,,", ",,,,")
    );
    let mut files: Vec<(&str, Vec<u8>)> = GOOD.map(|(name, text)| (name, text.into())).into();
    files[0].1 = islands.into();
    files.push((CCU, format!("code,peakCCU\n{rows}").into()));
    let text = load(&files).unwrap_err().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].starts_with("islands.csv:4:1: code must be"),
        "{text}"
    );
    assert_eq!(
        lines[1],
        format!(
            "{CCU}: codes must be in islands.csv, got rows with other codes: 3, the first on line 2; correct islands.csv first"
        )
    );
    assert!(
        lines[2].starts_with(&format!("{CCU}:4:2: peakCCU must be")),
        "{text}"
    );
}

#[test]
fn line_numbers_are_right_with_every_kind_of_line_end() {
    let lines = [
        "code,peakCCU,note",
        "1000-0000-0000,1,",
        "",
        "2000-0000-0000,x,\"a break",
        "in a note\"",
        "1000-0000-00,2,",
        "2000-0000-0000,3,,",
    ];
    for end in ["\n", "\r\n", "\r"] {
        for last in ["", end] {
            let content = lines.join(end) + last;
            let text = faults_with(CCU, content.as_bytes());
            let places = text.lines().map(|line| line.split_once(": ").unwrap().0);
            let want = ["4:2", "6:1", "7"].map(|place| format!("{CCU}:{place}"));
            assert!(places.eq(want), "{end:?}: {text}");
        }
    }
}

#[test]
fn a_file_in_another_format_is_one_fault_that_names_it() {
    let text = format!("code,title,creator,createdIn,tags\r\n{ROWS}");
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked = |mark: &[u8], text: &[u8]| [mark, text].concat();
    let utf_16 = "UTF-16; save the file as UTF-8";
    for (content, want) in [
        (marked(b"\xFF\xFE", &little), utf_16),
        (marked(b"\xFE\xFF", &big), utf_16),
        (little, utf_16),
        (big, utf_16),
        (
            marked(b"\x1F\x8B\x08\x00", &[0; 30]),
            "a gzip file; decompress it",
        ),
        (
            marked(b"PK\x03\x04", b"\x14\0\n[Content_Types].xml"),
            "a ZIP file, such as .xlsx; save the table as CSV in UTF-8",
        ),
    ] {
        let text = faults_with("creators.csv", &content);
        let want = format!("creators.csv:1: the row must be CSV in UTF-8, got {want}");
        assert_eq!(text, want);
    }
    // A NUL in a file of UTF-8 is a fault of its own.
    let text = faults_with("creators.csv", b"s\0lug\neve\n");
    assert!(text.contains("must not contain a NUL"), "{text}");
}

#[test]
fn a_notice_is_one_line() {
    let fault = |notice: &[u8]| faults_with("notice.txt", notice);
    let long = "x".repeat(1024);
    let ended = format!("{long}\r\n");
    for notice in ["made up", "made up\n", "made up\r\n", &long, &ended] {
        assert_eq!(fault(notice.as_bytes()), "", "{notice:?}");
    }
    let want = "notice.txt: the notice must be one line of at most 1024 bytes in UTF-8, not empty and without control \
         characters, got ";
    for notice in [&b""[..], b" \n", b"a\nb", b"\na", b"a\tb", b"\xFF"] {
        let found = fault(notice);
        assert!(found.starts_with(want), "{notice:?}: {found}");
    }
    for longer in [format!("{long}x"), format!("{ended}\n"), long.repeat(9)] {
        assert!(fault(longer.as_bytes()).starts_with(want));
    }
}
