//! Merging: the laws of a join, and agreement with a search for each key.

use std::collections::BTreeSet;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

use super::*;

fn random(tier: Tier, at: UnixSeconds) -> KeyRecord {
    let address = "a@x.test".parse().unwrap();
    KeyRecord::random(&KeyPrefix::default(), (&address, tier), at).1
}

fn change(records: &mut KeyRecords, u: &mut Unstructured<'_>) -> Arbitrary<()> {
    let at = UnixSeconds(u.int_in_range(0..=9)?);
    let known = records.as_slice().len();
    if known == 0 || u.ratio(1, 3)? {
        assert!(records.issue(random(Tier::Pro, at)).unwrap());
    } else {
        let id = records.as_slice()[u.choose_index(known)?].id;
        assert!(records.set_revoked(id, u.arbitrary()?, at).is_ok());
    }
    Ok(())
}

/// Three copies of one file after changes of their own.
fn copies(u: &mut Unstructured<'_>) -> Arbitrary<[KeyRecords; 3]> {
    let mut first = KeyRecords::default();
    for _ in 0..u.int_in_range(0..=6)? {
        change(&mut first, u)?;
    }
    let mut copies = [first.clone(), first.clone(), KeyRecords::default()];
    if u.arbitrary()? {
        copies[2] = first;
    }
    for copy in &mut copies {
        for _ in 0..u.int_in_range(0..=6)? {
            change(copy, u)?;
        }
    }
    Ok(copies)
}

/// All states, in the order of the ids.
fn states(records: &KeyRecords) -> Vec<KeyRecord> {
    let mut keys = records.as_slice().to_vec();
    keys.sort_by_key(|key| key.id.to_string());
    keys
}

fn joined(known: &KeyRecords, file: &KeyRecords) -> KeyRecords {
    let mut merged = known.clone();
    assert_eq!(merged.merge(file.as_slice(), KEYS_MAX).unwrap(), []);
    merged
}

#[test]
fn copies_merge_in_any_order_and_any_number_of_times() {
    arbtest::arbtest(|u| {
        let [a, b, c] = copies(u)?;
        let ab = joined(&a, &b);
        assert_eq!(states(&ab), states(&joined(&b, &a)));
        let (left, right) = (joined(&ab, &c), joined(&a, &joined(&b, &c)));
        assert_eq!(states(&left), states(&right));
        assert_eq!(states(&joined(&ab, &b)), states(&ab));
        assert_eq!(joined(&ab, &ab), ab);
        // Several servers with one file agree.
        assert_eq!(states(&joined(&b, &ab)), states(&ab));
        assert_eq!(joined(&b, &ab).count_differing(&ab), 0);
        Ok(())
    });
}

#[test]
fn merging_agrees_with_a_search_for_each_key() {
    arbtest::arbtest(|u| {
        let [known, file, _] = copies(u)?;
        let merged = joined(&known, &file);
        let mut differ = BTreeSet::new();
        let find =
            |records: &KeyRecords, id| records.as_slice().iter().find(|key| key.id == id).cloned();
        for key in known.as_slice().iter().chain(file.as_slice()) {
            let (own, other) = (find(&known, key.id), find(&file, key.id));
            let got = find(&merged, key.id).unwrap();
            let states = [&own, &other].map(|key| key.as_ref().map(KeyRecord::state));
            assert_eq!(Some(got.state()), states.into_iter().max().flatten());
            if other != Some(got) {
                differ.insert(key.id);
            }
        }
        assert_eq!(merged.count_differing(&file), differ.len());
        let most = known.as_slice().len() + file.as_slice().len();
        assert!(merged.as_slice().len() <= most);
        Ok(())
    });
}

/// Merges all records of `from` as they come from the store.
fn joined_shared(known: &KeyRecords, from: &KeyRecords) -> KeyRecords {
    let read = |key: &KeyRecord| KeyRecord::parse_line(key.to_shared_line().as_bytes()).unwrap();
    let shared: Vec<KeyRecord> = from.as_slice().iter().map(read).collect();
    let mut merged = known.clone();
    assert_eq!(merged.merge(&shared, KEYS_MAX).unwrap(), []);
    merged
}

#[test]
fn records_of_the_store_merge_as_those_of_a_file_and_leave_the_order_alone() {
    arbtest::arbtest(|u| {
        let [a, b, c] = copies(u)?;
        let ab = joined_shared(&a, &b);
        assert_eq!(states(&ab), states(&joined(&a, &b)));
        assert_eq!(states(&ab), states(&joined_shared(&b, &a)));
        let (left, right) = (joined_shared(&ab, &c), joined_shared(&b, &c));
        assert_eq!(states(&left), states(&joined_shared(&a, &right)));
        assert_eq!(joined_shared(&ab, &b), ab);
        assert_eq!(joined_shared(&a, &a), a);
        for (before, after) in a.as_slice().iter().zip(ab.as_slice()) {
            assert_eq!(before.id, after.id);
        }
        Ok(())
    });
}

#[test]
fn a_record_of_another_key_with_a_known_id_changes_nothing() {
    let mut known = KeyRecords::default();
    let key = random(Tier::Free, UnixSeconds(5));
    assert!(known.issue(key.clone()).unwrap());
    let mut newer = key.clone();
    (newer.changed, newer.revoked) = (UnixSeconds(9), Some(UnixSeconds(9)));
    let changes: [fn(&mut KeyRecord); 4] = [
        |key| key.digest[31] ^= 1,
        |key| key.tier = Tier::Pro,
        |key| key.issued = UnixSeconds(6),
        |key| key.address = "b@x.test".parse().unwrap(),
    ];
    for change in changes {
        let mut other = newer.clone();
        change(&mut other);
        let mut merged = known.clone();
        assert_eq!(merged.merge(&[other], KEYS_MAX).unwrap(), [key.id]);
        assert_eq!(merged, known);
    }
    assert_eq!(known.merge(&[newer], KEYS_MAX).unwrap(), []);
    assert!(known.as_slice()[0].revoked.is_some());
}

/// A server changes a key to the state that it already has there, since another server has changed it meanwhile: the
/// latest change counts, and of two in the same second, the revocation.
#[test]
fn a_change_counts_where_an_earlier_opposite_change_is_not_known() {
    for (known, other, own, is_revoked) in [
        (true, 5, 6, true),
        (true, 5, 5, true),
        (true, 5, 4, false),
        (false, 5, 6, false),
        (false, 5, 5, true),
        (false, 5, 4, true),
    ] {
        let mut first = KeyRecords::default();
        assert!(first.issue(random(Tier::Free, UnixSeconds(1))).unwrap());
        let id = first.as_slice()[0].id;
        first.set_revoked(id, known, UnixSeconds(2)).unwrap();
        let mut second = first.clone();
        assert!(first.set_revoked(id, !known, UnixSeconds(other)).unwrap());
        assert!(!second.set_revoked(id, known, UnixSeconds(own)).unwrap());
        for merged in [joined(&first, &second), joined(&second, &first)] {
            assert_eq!(merged.as_slice()[0].revoked.is_some(), is_revoked);
        }
    }
}

#[test]
fn there_are_at_most_as_many_keys_as_the_limit() {
    let keys = [1, 2, 3].map(|at| random(Tier::Pro, UnixSeconds(at)));
    let mut known = KeyRecords::default();
    known.merge(&keys[..2], 2).unwrap();
    known.merge(&keys[..2], 2).unwrap();
    let mut newer = keys.clone();
    newer[1].changed = UnixSeconds(9);
    newer.reverse();
    assert_eq!(
        known.merge(&newer, 2).unwrap_err().to_string(),
        "67108864 keys have been issued, the limit; no key can be added"
    );
    // Those of known keys count all the same.
    assert_eq!(known.as_slice(), [keys[0].clone(), newer[1].clone()]);
}
