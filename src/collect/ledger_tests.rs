use super::*;
use crate::collect::scratch_tests::Scratch;

const DAY: UtcDay = UtcDay(20_700);

fn code(number: u64) -> IslandCode {
    IslandCode::from_number(number).unwrap()
}

fn island(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<IslandState> {
    Ok(IslandState {
        code: code(u.int_in_range(0..=20)?),
        first_seen: UtcDay(u.arbitrary()?),
        covered: u.arbitrary::<Option<i32>>()?.map(UtcDay),
        requested_at: UnixSeconds(u.arbitrary()?),
        data_day: u.arbitrary::<Option<i32>>()?.map(UtcDay),
        peak: u.arbitrary()?,
        empty_responses: u.arbitrary()?,
        is_gone: u.arbitrary()?,
    })
}

fn metrics(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<Metrics> {
    let mut counts = [None; 6];
    for count in &mut counts {
        *count = u.arbitrary::<Option<u8>>()?.map(u64::from);
    }
    let mut decimals = [None; 3];
    for decimal in &mut decimals {
        *decimal = u
            .arbitrary::<Option<u8>>()?
            .map(|value| f64::from(value) / 255.0);
    }
    Ok(Metrics::new(counts, decimals))
}

fn records(state: &Path) -> (Vec<Record>, u64) {
    let mut records = Vec::new();
    let tail_bytes = Ledger::read(state, |record| records.push(record)).unwrap();
    (records, tail_bytes)
}

fn reopened(state: &Path) -> Ledger {
    let tail_bytes = Ledger::read(state, |_| ()).unwrap();
    Ledger::open(state, tail_bytes).unwrap()
}

#[test]
fn every_record_before_a_cut_at_any_byte_survives() {
    arbtest::arbtest(|u| {
        let scratch = Scratch::new();
        let mut ledger = reopened(scratch.path());
        let mut written = Vec::new();
        for _ in 0..u.int_in_range(0..=40)? {
            written.push(if u.arbitrary()? {
                Record::State(island(u)?)
            } else {
                let day = UtcDay(u.int_in_range(1..=3_000_000)?);
                Record::Metrics(code(u.int_in_range(0..=999_999_999_999)?), day, metrics(u)?)
            });
            ledger.push(written.last().unwrap());
        }
        ledger.sync().unwrap();
        let path = path(scratch.path());
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len(), HEADER.len() + written.len() * RECORD_BYTES);
        let cut = u.int_in_range(0..=whole.len())?;
        crate::durable::replace(&path, &whole[..cut]).unwrap();
        written.truncate(cut.saturating_sub(HEADER.len()) / RECORD_BYTES);
        assert_eq!(records(scratch.path()).0, written);
        let mut ledger = reopened(scratch.path());
        assert_eq!(records(scratch.path()), (written.clone(), 0));
        written.push(Record::Metrics(code(1), DAY, Metrics::NULL));
        ledger.push(written.last().unwrap());
        ledger.flush().unwrap();
        assert_eq!(records(scratch.path()), (written, 0));
        Ok(())
    });
}

#[test]
fn a_damaged_record_ends_the_ledger() {
    let scratch = Scratch::new();
    let mut ledger = reopened(scratch.path());
    for number in 0..3 {
        ledger.push(&Record::State(IslandState::new(code(number), DAY)));
    }
    ledger.sync().unwrap();
    let path = path(scratch.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[HEADER.len() + RECORD_BYTES + 3] ^= 1;
    crate::durable::replace(&path, &bytes).unwrap();
    let first = Record::State(IslandState::new(code(0), DAY));
    let tail_bytes = 2 * RECORD_BYTES as u64;
    assert_eq!(records(scratch.path()), (vec![first], tail_bytes));
    // A file of another version is an empty one.
    bytes[0] ^= 1;
    crate::durable::replace(&path, &bytes).unwrap();
    let all_bytes = bytes.len() as u64;
    assert_eq!(records(scratch.path()), (Vec::new(), all_bytes));
    reopened(scratch.path());
    assert_eq!(records(scratch.path()), (Vec::new(), 0));
}

/// Crashes at any step of writing and merging, against a map.
#[test]
fn every_flushed_value_is_merged_once_or_again_and_none_is_lost() {
    arbtest::arbtest(|u| {
        let scratch = Scratch::new();
        let mut ledger = reopened(scratch.path());
        let (mut want, mut merged) = (DayRows::new(), DayRows::new());
        let merge = |merged: &mut DayRows| {
            for (code, metrics) in Ledger::rows(scratch.path(), DAY).unwrap() {
                let row = merged.entry(code).or_insert(Metrics::NULL);
                *row = newer(row, &metrics).0;
            }
        };
        for _ in 0..u.int_in_range(0..=30)? {
            match u.int_in_range(0..=4)? {
                // The end of the process: what was flushed is there.
                0 => {
                    ledger.flush().unwrap();
                    ledger = reopened(scratch.path());
                }
                1 => {
                    ledger.sync().unwrap();
                    // A crash before the merge is durable.
                    if u.arbitrary()? {
                        merge(&mut merged);
                        // A crash before the metrics are removed.
                        if u.arbitrary()? {
                            ledger = Ledger::replace(scratch.path(), []).unwrap();
                        }
                    }
                }
                _ => {
                    let (code, metrics) = (code(u.int_in_range(0..=3)?), metrics(u)?);
                    ledger.push(&Record::Metrics(code, DAY, metrics));
                    ledger.push(&Record::Metrics(code, UtcDay(DAY.0 - 1), Metrics::NULL));
                    let row = want.entry(code).or_insert(Metrics::NULL);
                    *row = newer(row, &metrics).0;
                }
            }
        }
        ledger.flush().unwrap();
        merge(&mut merged);
        assert_eq!(merged, want);
        Ledger::replace(scratch.path(), []).unwrap();
        assert!(Ledger::days(scratch.path()).unwrap().is_empty());
        Ok(())
    });
}

#[test]
fn null_never_replaces_a_value() {
    let old = Metrics::new(
        [Some(1), None, Some(3), None, None, None],
        [Some(0.5), None, None],
    );
    let new = Metrics::new(
        [None, Some(2), Some(4), None, None, None],
        [None, Some(0.0), None],
    );
    let (merged, is_revised) = newer(&old, &new);
    assert!(is_revised);
    assert_eq!(merged.count(SortField::PeakCcu), Some(1));
    assert_eq!(merged.count(SortField::UniquePlayers), Some(2));
    assert_eq!(merged.count(SortField::MinutesPlayed), Some(4));
    assert_eq!(merged.decimals(), [Some(0.5), Some(0.0), None]);
    assert!(!newer(&old, &old).1);
}
