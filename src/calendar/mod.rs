//! UTC timestamps and days, their text forms, and the clock.
//!
//! A timestamp is [`UnixSeconds`], a day is [`UtcDay`]. Only times that are stored or exported are integers.
//! All times of a request that has not waited come from one reading of the [`Clock`], in `clock`, which
//! verifies jumps of the system clock by the rule of `clock_guard`.

mod clock;
mod clock_guard;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use clock::{Clock, ManualTime};

/// Seconds per UTC day. Unix time has no leap seconds.
pub const DAY_SECONDS: i64 = 86_400;
const EPOCH: jiff::civil::Date = jiff::civil::date(1970, 1, 1);
/// 9999-12-30T22:00:00Z, the last timestamp with a text form: with any offset, its year has four digits.
const LAST_SECOND: i64 = 253_402_207_200;

/// A timestamp in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

/// Reads the system clock in Unix nanoseconds, as file systems have them.
pub fn unix_nanoseconds() -> i64 {
    i64::try_from(since_epoch().as_nanos()).unwrap_or(i64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the system clock"
)]
fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO)
}

impl UnixSeconds {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an i32 of days covers five million years"
    )]
    pub const fn day(self) -> UtcDay {
        UtcDay(self.0.div_euclid(DAY_SECONDS) as i32)
    }

    /// Reads the system clock, clamped to the years 1970 to 9999.
    pub fn now() -> UnixSeconds {
        let seconds = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
        UnixSeconds(seconds.min(LAST_SECOND))
    }

    /// Returns `true` in the years 1970 to 9999, in which a timestamp has a text form.
    pub const fn has_text(self) -> bool {
        0 <= self.0 && self.0 <= LAST_SECOND
    }

    /// Parses an RFC 3339 timestamp of the years 1970 to 9999 with any offset. Truncates fractions of a
    /// second.
    pub fn parse(text: &str) -> Option<UnixSeconds> {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        Some(UnixSeconds(stamp.as_second())).filter(|moment| moment.has_text())
    }

    /// Parses an HTTP date in any of its three formats (RFC 9110 section 5.6.7).
    pub fn parse_http(text: &str) -> Option<UnixSeconds> {
        let moment = httpdate::parse_http_date(text).ok()?;
        let since = moment.duration_since(UNIX_EPOCH).ok()?;
        Some(UnixSeconds(i64::try_from(since.as_secs()).ok()?))
    }

    /// Formats an HTTP date, `Fri, 20 Nov 2026 12:05:00 GMT`. Clamps to the years 1970 to 9999.
    pub fn to_http(self) -> String {
        let since = Duration::from_secs(self.0.clamp(0, LAST_SECOND).unsigned_abs());
        httpdate::fmt_http_date(UNIX_EPOCH + since)
    }

    /// Formats `20261120T120500Z`, for file names.
    pub fn compact(self) -> String {
        self.to_string().replace(['-', ':'], "")
    }
}

/// `2026-11-20T12:05:00Z`, or the number of seconds if the timestamp has no text form. Never fails: texts
/// may be made of any number in a published file.
impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(moment) if self.has_text() => moment.fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

/// A UTC calendar day, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcDay(pub i32);

impl UtcDay {
    /// Parses `YYYY-MM-DD`; `None` for another format or a day that does not exist.
    pub fn parse(text: &str) -> Option<UtcDay> {
        // Alone, the crate's parser would accept other formats too.
        let text = Some(text).filter(|text| UtcDay::looks_like(text))?;
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(UtcDay(date.since(EPOCH).ok()?.get_days()))
    }

    /// Returns `true` if the text has the form `dddd-dd-dd`, even if there is no such day (SPEC section 8).
    pub fn looks_like(text: &str) -> bool {
        let bytes = text.as_bytes();
        bytes.len() == 10
            && bytes.iter().enumerate().all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    }

    /// `None` outside of the calendar.
    fn date(self) -> Option<jiff::civil::Date> {
        let span = jiff::Span::new().try_days(self.0).ok()?;
        EPOCH.checked_add(span).ok()
    }

    /// Returns `true` in the years 0 to 9999, in which a day is parsed from its text form.
    pub fn has_text(self) -> bool {
        self.date().is_some_and(|date| date.year() >= 0)
    }

    pub const fn start(self) -> UnixSeconds {
        UnixSeconds(self.0 as i64 * DAY_SECONDS)
    }

    /// Returns the first timestamp after the day.
    pub const fn end(self) -> UnixSeconds {
        UnixSeconds(self.start().0 + DAY_SECONDS)
    }
}

/// `2026-11-20`, or the number of days if the day is outside of the calendar. Never fails.
impl fmt::Display for UtcDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.date() {
            Some(date) => date.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// The time of a request, from one reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTime {
    /// The day that the request counts for.
    pub day: UtcDay,
    /// The time, for everything but quotas. Of another day if the clock went back.
    pub moment: UnixSeconds,
}

impl RequestTime {
    /// Seconds until the quota of the day is reset, from 1 to 86 400.
    ///
    /// Never 0: a client that retries after 0 seconds would come back on the same day.
    pub fn reset_seconds(self) -> u32 {
        let left = self.day.end().0.saturating_sub(self.moment.0);
        u32::try_from(left.clamp(1, DAY_SECONDS)).expect("at most a day")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_centuries_reads_back_as_written() {
        for day in -40_000..40_000 {
            assert_eq!(UtcDay::parse(&UtcDay(day).to_string()), Some(UtcDay(day)));
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for text in [
            "2024-13-45",
            "2023-02-29",
            "2024-00-01",
            "2024-1-01",
            "2024-01-01 ",
            "latest",
        ] {
            assert_eq!(UtcDay::parse(text), None, "{text}");
        }
        assert_eq!(UtcDay::parse("1970-01-01"), Some(UtcDay(0)));
    }

    #[test]
    fn a_day_ends_where_the_next_begins() {
        for day in [-2, -1, 0, 1, 20_000] {
            let end = UtcDay(day).end();
            assert_eq!(end.day(), UtcDay(day + 1));
            assert_eq!(UnixSeconds(end.0 - 1).day(), UtcDay(day));
        }
    }

    #[test]
    fn days_and_timestamps_outside_of_the_calendar_have_a_text_too() {
        for (day, text) in [(-719_528, "0000-01-01"), (2_932_896, "9999-12-31")] {
            assert_eq!(UtcDay::parse(text), Some(UtcDay(day)));
            assert_eq!(UtcDay(day).to_string(), text);
        }
        for day in [i32::MIN, -4_371_588, -719_529, 2_932_897, i32::MAX] {
            assert!(!UtcDay(day).has_text(), "{day}");
            assert_eq!(UtcDay::parse(&UtcDay(day).to_string()), None, "{day}");
        }
        for day in [-719_528, -1, 0, 2_932_896] {
            assert!(UtcDay(day).has_text(), "{day}");
        }
        let last = UnixSeconds(LAST_SECOND);
        assert_eq!(UnixSeconds::parse(&last.to_string()), Some(last));
        for seconds in [i64::MIN, -1, LAST_SECOND + 1, i64::MAX] {
            assert_eq!(UnixSeconds(seconds).to_string(), seconds.to_string());
        }
    }

    #[test]
    fn a_timestamp_reads_back_as_written() {
        let text = "2026-11-20T12:05:09Z";
        assert_eq!(UnixSeconds::parse(text).unwrap().to_string(), text);
    }

    /// The oracle is another library.
    #[test]
    fn dates_of_http_are_written_and_read_back_to_the_second() {
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        arbtest::arbtest(|u| {
            let moment = UnixSeconds(u.int_in_range(0..=LAST_SECOND)?);
            let stamp = jiff::Timestamp::from_second(moment.0).unwrap();
            let text = moment.to_http();
            assert_eq!(text, printer.timestamp_to_rfc9110_string(&stamp).unwrap());
            assert_eq!(UnixSeconds::parse_http(&text), Some(moment));
            Ok(())
        });
        assert_eq!(
            UnixSeconds(i64::MIN).to_http(),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
    }

    #[test]
    fn obsolete_dates_of_http_are_read_and_any_text_is_handled() {
        const PIECES: [&str; 12] = [
            "Sun", "Sunday", ", ", "06", "-", " Nov ", "Nov", " ", "0000", "99", "99:99:99", " GMT",
        ];
        let moment = UnixSeconds::parse("1994-11-06T08:49:37Z");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(UnixSeconds::parse_http(text), moment, "{text}");
        }
        for text in [
            "",
            "1994-11-06T08:49:37Z",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(UnixSeconds::parse_http(text), None, "{text}");
        }
        arbtest::arbtest(|u| {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=14)? {
                text.push_str(u.choose::<&str>(&PIECES)?);
            }
            let read = UnixSeconds::parse_http(&text);
            assert!(read.is_none_or(UnixSeconds::has_text), "{text}");
            Ok(())
        });
    }
}
