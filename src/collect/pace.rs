//! Pace of requests: a token bucket without burst that slows down when the upstream throttles.
//!
//! The rate starts at the smaller of `--rate` and 1/s (for an upstream on a loopback address, at `--rate`).
//! A throttled response halves it, never below a tenth of `--rate`, and pauses for 2, 4 … 60 s with jitter,
//! or for as long as `Retry-After` says. It recovers by a tenth of `--rate` every 5 s; one usable
//! response resets the pause. Times are milliseconds of a steady clock.

/// First pause after a throttled response, in milliseconds.
const FIRST_PAUSE_MS: u64 = 2_000;
/// Longest pause without a `Retry-After`.
const LONGEST_PAUSE_MS: u64 = 60_000;
/// Longest `Retry-After` that is respected: a mistaken header must not stop collecting for days.
const LONGEST_RETRY_AFTER_MS: u64 = 3_600_000;
/// Time in which the rate recovers by a tenth of `--rate`.
const RECOVERY_STEP_MS: u64 = 5_000;
/// Initial rate for an upstream that is not on this machine, in requests per second.
const CAREFUL_START: f64 = 1.0;

/// When the next request may be sent.
#[derive(Debug)]
pub(super) struct Pace {
    /// Upper limit, requests per second.
    limit: f64,
    /// Current rate, requests per second.
    rate: f64,
    recovered_at: u64,
    next_at: u64,
    /// Length of the pause after the next throttled response.
    pause: u64,
    random: u64,
}

impl Pace {
    /// Creates a pace of at most `limit` requests per second. `seed` is for the jitter.
    pub(super) fn new(limit: f64, is_loopback: bool, now: u64, seed: u64) -> Pace {
        let rate = if is_loopback {
            limit
        } else {
            limit.min(CAREFUL_START)
        };
        Pace {
            limit,
            rate,
            recovered_at: now,
            next_at: now,
            pause: FIRST_PAUSE_MS,
            random: seed | 1,
        }
    }

    /// Returns the moment from which the next request may be sent.
    pub(super) fn next_at(&self) -> u64 {
        self.next_at
    }

    /// Current rate in requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Records that a request is sent.
    pub(super) fn sent(&mut self, now: u64) {
        self.recover(now);
        // Rounded up, so that the rate is never exceeded.
        self.next_at = now + whole_ms(1000.0 / self.rate).saturating_add(1);
    }

    /// Records a usable response.
    pub(super) fn succeeded(&mut self) {
        self.pause = FIRST_PAUSE_MS;
    }

    /// Records a throttled response. Returns the pause in milliseconds.
    pub(super) fn throttled(&mut self, now: u64, retry_after_seconds: Option<u64>) -> u64 {
        // A careful start may be slower than that.
        let floor = (self.limit / 10.0).min(self.rate);
        self.rate = (self.rate / 2.0).max(floor);
        self.recovered_at = now;
        self.pause_from(now, retry_after_seconds)
    }

    /// Records a failure that is no throttling. Returns the pause in milliseconds.
    pub(super) fn failed(&mut self, now: u64) -> u64 {
        self.pause_from(now, None)
    }

    fn pause_from(&mut self, now: u64, retry_after_seconds: Option<u64>) -> u64 {
        // Up to a quarter more, so that several collectors do not return together.
        let jitter = self.pause / 4 * (self.next_random() % 256) / 256;
        let requested = retry_after_seconds.unwrap_or(0).saturating_mul(1000);
        let wait = (self.pause + jitter).max(requested.min(LONGEST_RETRY_AFTER_MS));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE_MS);
        self.next_at = self.next_at.max(now + wait);
        wait
    }

    fn recover(&mut self, now: u64) {
        let steps = now.saturating_sub(self.recovered_at) / RECOVERY_STEP_MS;
        if steps > 0 {
            self.recovered_at += steps * RECOVERY_STEP_MS;
            #[expect(clippy::cast_precision_loss, reason = "a few steps")]
            let gain = steps as f64 * self.limit / 10.0;
            self.rate = (self.rate + gain).min(self.limit);
        }
    }

    /// Xorshift: jitter needs no better numbers.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 1 ms to 10 s, or 100 s while throttled"
)]
fn whole_ms(ms: f64) -> u64 {
    ms as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_are_never_closer_than_the_rate_allows() {
        arbtest::arbtest(|u| {
            let limit = f64::from(u.int_in_range(1..=1000u32)?) / 10.0;
            let mut pace = Pace::new(limit, u.arbitrary()?, 0, 7);
            let (mut now, mut sent) = (0, Vec::new());
            for _ in 0..u.int_in_range(0..=100)? {
                now = now.max(pace.next_at()) + u.int_in_range(0..=3_000)?;
                pace.sent(now);
                sent.push(now);
                match u.int_in_range(0..=3)? {
                    0 => drop(pace.throttled(now, u.arbitrary()?)),
                    1 => drop(pace.failed(now)),
                    _ => pace.succeeded(),
                }
                let floor = (limit / 10.0).min(CAREFUL_START);
                assert!(pace.rate() <= limit && pace.rate() >= floor - 1e-9);
            }
            for pair in sent.windows(2) {
                let pause = Duration::from_millis(pair[1] - pair[0]);
                assert!(pause.as_secs_f64() >= 1.0 / limit, "{sent:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_one_usable_response_resets_them() {
        let mut pace = Pace::new(3.0, false, 0, 1);
        assert!((pace.rate() - 1.0).abs() < f64::EPSILON);
        for want in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            let pause = pace.throttled(0, None);
            assert!((want..=want * 5 / 4).contains(&pause), "{pause}");
        }
        pace.succeeded();
        assert!(pace.throttled(0, None) <= 2_500);
        assert_eq!(pace.throttled(0, Some(120)), 120_000);
        assert_eq!(pace.throttled(0, Some(u64::MAX)), LONGEST_RETRY_AFTER_MS);
    }

    #[test]
    fn throttling_halves_the_rate_and_it_recovers_by_a_tenth_every_five_seconds() {
        let mut pace = Pace::new(10.0, true, 0, 1);
        for want in [5.0, 2.5, 1.25, 1.0, 1.0] {
            pace.throttled(0, None);
            assert!((pace.rate() - want).abs() < 1e-9);
        }
        pace.sent(4_999);
        assert!((pace.rate() - 1.0).abs() < 1e-9);
        pace.sent(15_000);
        assert!((pace.rate() - 4.0).abs() < 1e-9);
        pace.sent(1_000_000);
        assert!((pace.rate() - 10.0).abs() < 1e-9);
    }
}
