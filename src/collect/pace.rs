//! Pace of requests: a token bucket without burst that slows down when the upstream throttles.
//!
//! The rate starts at the smaller of `--rate` and 1/s (for an upstream on a loopback address, at `--rate`).
//! A throttled response halves it, never below a tenth of `--rate`, and pauses for 2, 4 … 60 s with jitter,
//! or for as long as `Retry-After` says. It recovers by a tenth of `--rate` every 5 s; one usable
//! response resets the pause.

use std::time::{Duration, Instant};

/// First pause after a throttled response.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause without a `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Longest `Retry-After` that is respected: a mistaken header must not stop collecting for days.
const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Time in which the rate recovers by a tenth of `--rate`.
const RECOVERY_STEP: Duration = Duration::from_secs(5);
/// Initial rate for an upstream that is not on this machine, in requests per second.
const CAREFUL_START: f64 = 1.0;

#[derive(Debug)]
pub(super) struct Pace {
    /// Upper limit, requests per second.
    limit: f64,
    /// Current rate, requests per second.
    pub(super) rate: f64,
    recovered_at: Instant,
    /// The moment from which the next request may be sent.
    pub(super) next_at: Instant,
    /// Length of the pause after the next throttled response.
    pause: Duration,
}

impl Pace {
    /// Creates a pace of at most `limit` requests per second.
    pub(super) fn new(limit: f64, is_loopback: bool, now: Instant) -> Pace {
        let start = if is_loopback { limit } else { CAREFUL_START };
        Pace {
            limit,
            rate: limit.min(start),
            recovered_at: now,
            next_at: now,
            pause: FIRST_PAUSE,
        }
    }

    pub(super) fn sent(&mut self, now: Instant) {
        let steps = now.saturating_duration_since(self.recovered_at);
        let steps = steps.div_duration_f64(RECOVERY_STEP).floor();
        self.recovered_at += RECOVERY_STEP.mul_f64(steps);
        self.rate = (self.rate + steps * self.limit / 10.0).min(self.limit);
        // Rounded up, so that the rate is never exceeded.
        self.next_at = now + Duration::from_secs_f64(1.0 / self.rate) + Duration::from_nanos(1);
    }

    pub(super) fn succeeded(&mut self) {
        self.pause = FIRST_PAUSE;
    }

    /// Records a throttled response. Returns the pause.
    pub(super) fn throttled(&mut self, now: Instant, retry_after_seconds: Option<u64>) -> Duration {
        // A careful start may be slower than that.
        let floor = (self.limit / 10.0).min(self.rate);
        self.rate = (self.rate / 2.0).max(floor);
        self.recovered_at = now;
        let requested = Duration::from_secs(retry_after_seconds.unwrap_or(0));
        // Up to a quarter more, so that several collectors do not return together.
        let random = getrandom::u32().expect("the system gives random numbers");
        let jitter = self.pause / 4 * (random % 256) / 256;
        let wait = (self.pause + jitter).max(requested.min(LONGEST_RETRY_AFTER));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next_at = self.next_at.max(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_never_closer_than_the_rate_allows() {
        arbtest::arbtest(|u| {
            let limit = f64::from(u.int_in_range(1..=1000u32)?) / 10.0;
            let mut now = Instant::now();
            let (mut pace, mut sent) = (Pace::new(limit, u.arbitrary()?, now), Vec::new());
            for _ in 0..u.int_in_range(0..=100)? {
                now = now.max(pace.next_at) + Duration::from_millis(u.int_in_range(0..=3_000)?);
                pace.sent(now);
                sent.push(now);
                match u.int_in_range(0..=2)? {
                    0 => drop(pace.throttled(now, u.arbitrary()?)),
                    _ => pace.succeeded(),
                }
                let floor = (limit / 10.0).min(CAREFUL_START);
                assert!(pace.rate <= limit && pace.rate >= floor - 1e-9);
            }
            for pair in sent.windows(2) {
                let pause = pair[1] - pair[0];
                assert!(pause.as_secs_f64() >= 1.0 / limit, "{sent:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_one_usable_response_resets_them() {
        let now = Instant::now();
        let mut pace = Pace::new(3.0, false, now);
        assert!((pace.rate - 1.0).abs() < f64::EPSILON);
        for want in [2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs) {
            let pause = pace.throttled(now, None);
            assert!((want..=want * 5 / 4).contains(&pause), "{pause:?}");
        }
        pace.succeeded();
        assert!(pace.throttled(now, None) <= Duration::from_millis(2_500));
        assert_eq!(pace.throttled(now, Some(120)), Duration::from_mins(2));
        assert_eq!(pace.throttled(now, Some(u64::MAX)), LONGEST_RETRY_AFTER);
    }

    #[test]
    fn throttling_halves_the_rate_and_it_recovers_by_a_tenth_every_five_seconds() {
        let now = Instant::now();
        let mut pace = Pace::new(10.0, true, now);
        for want in [5.0, 2.5, 1.25, 1.0, 1.0] {
            pace.throttled(now, None);
            assert!((pace.rate - want).abs() < 1e-9);
        }
        for (later_ms, want) in [(4_999, 1.0), (15_000, 4.0), (1_000_000, 10.0)] {
            pace.sent(now + Duration::from_millis(later_ms));
            assert!((pace.rate - want).abs() < 1e-9);
        }
    }
}
