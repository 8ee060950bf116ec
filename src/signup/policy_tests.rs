use std::collections::HashMap;

use super::*;

/// Free keys of an address, as (issued, is active), and `others` of another address.
fn records(of: &KeyAddress, keys: &[(i64, bool)], others: usize) -> Vec<KeyRecord> {
    let other: KeyAddress = "z@x.test".parse().unwrap();
    let own = keys.iter().map(|key| (of, *key));
    let all = own.chain((0..others).map(|_| (&other, (0, false))));
    let records = all.map(|(address, (issued, active))| KeyRecord {
        id: "0123456789".parse().unwrap(),
        tier: Tier::Free,
        address: address.clone(),
        issued: UnixSeconds(issued),
        revoked: (!active).then_some(UnixSeconds(issued)),
        changed: UnixSeconds(issued),
        digest: [0; 32],
    });
    records.collect()
}

const NOON: i64 = DAY_SECONDS * 20_000 + DAY_SECONDS / 2;

#[track_caller]
fn check(keys: &[(i64, bool)], others: usize, daily_max: u32, want: Result<(), SignupError>) {
    let address: KeyAddress = "a@x.test".parse().unwrap();
    let records = records(&address, keys, others);
    let number = number_of(&records, &address);
    let got = check_issue(&records, &address, number, daily_max, UnixSeconds(NOON));
    assert_eq!(got, want);
    let used = check_issue(&records, &address, number + 1, daily_max, UnixSeconds(NOON));
    assert_eq!(used, Err(SignupError::UsedToken));
}

#[test]
fn each_limit_of_issuing_is_exact() {
    let active = (0, true);
    check(&[active; 2], 0, 9, Ok(()));
    check(&[active; 3], 0, 9, Err(SignupError::TooManyActive));
    check(&[], FREE_KEYS_TOTAL_MAX - 1, 9, Ok(()));
    check(&[], FREE_KEYS_TOTAL_MAX, 9, Err(SignupError::Closed));
    let full = SignupError::DailyLimit(43_200);
    check(&[(NOON, false); 4], 0, 5, Ok(()));
    check(&[(NOON, false); 5], 0, 5, Err(full));
    // Keys of yesterday, and of tomorrow by a clock that was ahead.
    check(&[(NOON - 43_201, false); 5], 0, 5, Ok(()));
    check(&[(NOON + 43_200, false); 5], 0, 5, Ok(()));
    let mut ten = vec![(NOON - DAY_SECONDS + 100, false); 2];
    ten.extend([(NOON - 86_000, false); 8]);
    let recent = SignupError::TooManyRecent(100);
    check(&ten[1..], 0, 99, Err(recent));
    // Of ten, two must become older than 24 hours.
    check(&ten, 0, 99, Err(recent));
    ten[1].0 -= 100;
    check(&ten[1..], 0, 99, Ok(()));
}

/// The oracle: a token bucket per client, refilled second by second.
struct Bucket {
    /// Tokens times the interval.
    tokens: i64,
    at: i64,
}

fn oracle(
    buckets: &mut HashMap<String, Bucket>,
    client: &str,
    now: i64,
    (full, interval): (i64, i64),
) -> Result<(), u32> {
    let new = Bucket {
        tokens: full,
        at: now,
    };
    let bucket = buckets.entry(client.to_owned()).or_insert(new);
    for _ in bucket.at..now {
        bucket.tokens = full.min(bucket.tokens + 1);
    }
    bucket.at = now;
    if bucket.tokens >= interval {
        bucket.tokens -= interval;
        Ok(())
    } else {
        Err(u32::try_from(interval - bucket.tokens).unwrap())
    }
}

#[test]
fn a_limiter_agrees_with_token_buckets_and_allows_no_more_when_slots_are_shared() {
    arbtest::arbtest(|u| {
        let (burst, interval) = (u.int_in_range(1..=4_u16)?, u.int_in_range(1..=9_u16)?);
        let mut wide = GcraLimiter::new(burst, interval);
        let mut narrow = GcraLimiter::new(burst, interval);
        narrow.rows = [(); 2].map(|()| vec![0; 2].into());
        let (mut buckets, mut narrow_buckets) = (HashMap::new(), HashMap::new());
        let (mut now, mut latest) = (1_800_000_000, 0);
        let late_max = *u.choose(&[0, 9])?;
        let full = i64::from(burst * interval);
        // Times that are late add the seconds by which they are, once.
        let rule = (full + late_max, i64::from(interval));
        for _ in 0..u.int_in_range(0..=60)? {
            now += u.int_in_range(0..=5)?;
            let late = UnixSeconds(now - u.int_in_range(0..=late_max)?);
            latest = latest.max(late.0);
            let client = *u.choose(&["192.0.2.1", "192.0.2.2", "2001:db8::/64"])?;
            let got = wide.take(client, late);
            // Three clients share both slots once in a billion cases.
            if late_max == 0 || got.is_ok() {
                assert_eq!(got, oracle(&mut buckets, client, latest, rule));
            }
            if narrow.take(client, late).is_ok() {
                let due = oracle(&mut narrow_buckets, client, latest, rule);
                assert_eq!(due, Ok(()), "more than the rate");
            }
        }
        Ok(())
    });
}

#[test]
fn late_times_give_a_client_no_more_than_their_delay() {
    let mut limiter = GcraLimiter::new(3, 1);
    let times = [1000, 999].into_iter().cycle().take(100);
    let allowed = times.filter(|now| limiter.take("a", UnixSeconds(*now)).is_ok());
    assert_eq!(allowed.count(), 3);
}

#[test]
fn a_client_is_allowed_exactly_after_the_returned_wait() {
    let mut limiter = GcraLimiter::new(3, 20);
    let take = |limiter: &mut GcraLimiter, now| limiter.take("a", UnixSeconds(now));
    for _ in 0..3 {
        assert_eq!(take(&mut limiter, 1000), Ok(()));
    }
    assert_eq!(take(&mut limiter, 1000), Err(20));
    assert_eq!(take(&mut limiter, 1019), Err(1));
    assert_eq!(take(&mut limiter, 1020), Ok(()));
    assert_eq!(take(&mut limiter, 1020), Err(20));
}

#[test]
fn a_clock_that_is_set_back_delays_a_client_by_one_interval_at_most() {
    let mut limiter = GcraLimiter::new(2, 60);
    let now = 2_000_000_000;
    while limiter.take("a", UnixSeconds(now)).is_ok() {}
    let back = now - 86_400 * 365;
    assert_eq!(limiter.take("a", UnixSeconds(back)), Err(60));
    assert_eq!(limiter.take("a", UnixSeconds(back + 60)), Ok(()));
}

#[test]
fn a_thousand_clients_at_their_limit_affect_few_others() {
    let mut limiter = GcraLimiter::new(3, 1200);
    let now = UnixSeconds(1_800_000_000);
    for busy in 0..1000 {
        while limiter.take(format!("busy {busy}"), now).is_ok() {}
    }
    let affected = (0..10_000).filter(|other| limiter.take(format!("new {other}"), now).is_err());
    assert!(
        affected.count() < 1000,
        "about 10 are expected, more with what they take of each other"
    );
}
