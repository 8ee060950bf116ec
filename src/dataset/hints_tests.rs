//! Fields with common mistakes of exports, and the corrections in their messages.

use super::*;

const ABSENT: &str = "leave the field empty if there is no value";
const UNKNOWN: &str = "leave the field empty if the value is unknown";
const SPACES: &str = "remove the spaces around it";
const WHOLE: &str = "write whole numbers without .0";

/// Each of these values is one fault with this hint, and a correction that the hint names is valid.
#[track_caller]
fn hints_are(file: &str, content: impl Fn(&str) -> String, values: &[(&str, &str)]) {
    for (value, hint) in values {
        let text = faults_with(file, content(value).as_bytes());
        let end = match *hint {
            "" => String::new(),
            hint => format!("; {hint}"),
        };
        let is_late = text.contains("today is");
        assert!(
            is_late || text.ends_with(&format!("got {value:?}{end}")),
            "{text}"
        );
        assert!(text.ends_with(&end) && text.lines().count() == 1, "{text}");
        let corrected = hint.strip_prefix("write ").filter(|_| *hint != WHOLE);
        if let Some(corrected) = corrected {
            let text = faults_with(file, content(corrected).as_bytes());
            assert_eq!(text, "", "{value}");
        }
    }
}

#[test]
fn a_common_mistake_of_an_export_is_reported_with_its_correction() {
    let of_count = |value: &str| format!("code,peakCCU\n1000-0000-0000,\"{value}\"\n");
    let values = [
        ("194.0", WHOLE),
        ("194.00", "write 194"),
        ("1e5", "write 100000"),
        ("1.25E+3", "write 1250"),
        ("+7", "write 7"),
        (" 7", SPACES),
        ("7\u{a0}", SPACES),
        ("-1", UNKNOWN),
        ("-1.5", UNKNOWN),
        ("-1e3", UNKNOWN),
        ("NULL", ABSENT),
        ("NaN", ABSENT),
        ("None", ABSENT),
        ("N/A", ABSENT),
        ("<NA>", ABSENT),
        ("\\N", ABSENT),
        ("-", ABSENT),
        ("12k", ""),
        ("194.5", ""),
        ("1e99", ""),
        ("inf", ""),
        ("9007199254740992.0", ""),
        ("9007199254740992", ""),
        ("0x10", ""),
    ];
    hints_are("ccu/2026-11-19.csv", of_count, &values);
    let daily = GOOD[2].1.lines().next().unwrap();
    let of_share = |value: &str| format!("{daily}\n1000-0000-0000,,,,,,,,\"{value}\",\n");
    let values = [
        ("5e-1", "write 0.5"),
        (".5", "write 0.5"),
        ("-0.5", UNKNOWN),
        ("nan", ABSENT),
        ("0.5 ", SPACES),
        ("25", ""),
        ("1.5e0", ""),
    ];
    hints_are("daily/2026-11-19.csv", of_share, &values);
    let of_kind = |value: &str| {
        // The islands that the other files refer to, and one more.
        let rows = "1000-0000-0000,,,,\n2000-0000-0000,,,,\n";
        format!("code,title,creator,createdIn,tags\n{rows}3000-0000-0000,,,{value},\n")
    };
    let values = [
        ("null", ABSENT),
        ("uefn ", SPACES),
        ("UEFN", ""),
        ("1.0", ""),
    ];
    hints_are("islands.csv", of_kind, &values);
}

#[test]
fn a_time_in_another_unit_is_reported_with_the_unit() {
    let of_time = |value: &str| format!("time,players\n{value},1\n");
    let values = [
        ("1795262400.0", WHOLE),
        ("1.7952624e9", "write 1795262400"),
        ("1795262400000", "the number is a time in milliseconds"),
        ("1795262400123", "the number is a time in milliseconds"),
        ("1795262400000000", "the number is a time in microseconds"),
        ("1795262400000000000", "the number is a time in nanoseconds"),
        // A time must not be empty.
        ("NULL", ""),
        ("-600", ""),
    ];
    hints_are("platform.csv", of_time, &values);
    for (stem, hint) in [
        ("1795262400000", "the number is a time in milliseconds"),
        ("1795262400123456789", "the number is a time in nanoseconds"),
        ("1795262400.0", WHOLE),
        ("01795262400", "write 1795262400"),
    ] {
        let text = faults_with(&format!("live/{stem}.csv"), b"code,players\n");
        assert!(text.ends_with(&format!("got \"{stem}\"; {hint}")), "{text}");
    }
}
