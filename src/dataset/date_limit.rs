//! Latest valid day of a dataset: tomorrow, by the clock of the machine that reads it.
//!
//! A single file of a day far in the future would become the latest day, on which no island has metrics.
//! One day of tolerance lets machines with different clocks exchange data around midnight.

use crate::calendar::{UnixSeconds, UtcDay};

/// Returns the fault of a day later than tomorrow.
pub(super) fn day_fault(today: UtcDay, day: UtcDay) -> Option<String> {
    (day > tomorrow(today)).then(|| fault(today, "the day", &day.to_string()))
}

/// Returns the fault of a time later than tomorrow. `name` is its name in the message.
pub(super) fn time_fault(today: UtcDay, name: &str, time: UnixSeconds) -> Option<String> {
    // Times are compared, not days, since the day of a time in the far future overflows its type.
    if time < tomorrow(today).end() {
        return None;
    }
    let text = if time.has_text() {
        format!("{} ({time})", time.0)
    } else {
        time.0.to_string()
    };
    Some(fault(today, name, &text))
}

fn tomorrow(today: UtcDay) -> UtcDay {
    UtcDay(today.0.saturating_add(1))
}

fn fault(today: UtcDay, name: &str, found: &str) -> String {
    format!(
        "{name} must be no later than tomorrow, got {found}; by this machine's clock today is {today} (UTC)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tomorrow_is_the_latest_valid_day() {
        let today = UtcDay::parse("2026-12-31").unwrap();
        let day = |text| day_fault(today, UtcDay::parse(text).unwrap());
        assert_eq!(day("2027-01-01"), None);
        assert_eq!(day("1969-07-20"), None);
        let want = "the day must be no later than tomorrow, got 2027-01-02; \
                    by this machine's clock today is 2026-12-31 (UTC)";
        assert_eq!(day("2027-01-02").as_deref(), Some(want));
    }

    #[test]
    fn the_end_of_tomorrow_is_the_time_limit_even_for_times_that_overflow_a_day() {
        let fault = |time| time_fault(UtcDay(0), "time", UnixSeconds(time));
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
}
