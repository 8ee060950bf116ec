//! Merging the keys that a server knows with those of its key file and of other servers, so that a copy
//! which was lost or restored from an old backup takes no key away and no revocation back.
//!
//! The states of a key have an order, and merging takes the higher one; no key is removed. So any order, any
//! repetition and any subset of copies give the same result.

use std::collections::HashMap;

use super::records::{KeyRecord, KeyRecords, KeyStoreError};
use super::token::KeyId;
use crate::model::KEYS_MAX;

/// Ids that a log line names.
const NAMED_MAX: usize = 10;

/// Merges the records of a file into those that the server knows. Of two states of a key the newer one
/// counts, and of two numbers the higher one, so that several servers agree. If two keys then have one
/// number, the known one keeps it, and the other gets a new one. Returns the ids of the keys that differ from
/// the file too. The revision is higher than that of each side whose keys are not the merged ones.
pub(super) fn merge(
    known: &KeyRecords,
    file: &KeyRecords,
) -> Result<(KeyRecords, Vec<KeyId>), KeyStoreError> {
    let mut keys = known.as_slice().to_vec();
    let places: HashMap<KeyId, usize> = keys.iter().map(|key| key.id).zip(0..).collect();
    for key in file.as_slice() {
        match places.get(&key.id).map(|at| &mut keys[*at]) {
            None => keys.push(key.clone()),
            Some(known) => {
                known.join(key);
                known.number = known.number.max(key.number);
            }
        }
    }
    // Stable: of two keys with one number, the known one is first.
    keys.sort_by_key(|key| key.number);
    let mut next = known.next.max(file.next);
    let mut free = 0;
    for key in &mut keys {
        if key.number >= free {
            free = key.number + 1;
        } else if next < KEYS_MAX {
            key.number = next;
            next += 1;
        } else {
            return Err(KeyStoreError::Full);
        }
    }
    keys.sort_by_key(|key| key.number);
    let stored = file.as_slice().iter().map(|key| (key.id, key));
    let stored: HashMap<KeyId, &KeyRecord> = stored.collect();
    let differ = keys.iter().filter(|key| stored.get(&key.id) != Some(key));
    let differ = differ.map(|key| key.id).collect();
    let revision = |side: &KeyRecords| {
        let is_changed = side.as_slice() != keys;
        side.revision.saturating_add(u64::from(is_changed))
    };
    let revision = revision(known).max(revision(file));
    // Each id is there once, and so is each number.
    let merged = KeyRecords::stored(keys, next, revision).expect("merged records are consistent");
    Ok((merged, differ))
}

/// Merges records of other servers, which have no numbers, into those that the server knows. Records of other
/// keys with a known id are ignored. Returns `None` if nothing changes, and the ids of what was ignored.
pub(super) fn merge_shared(
    known: &KeyRecords,
    shared: &[KeyRecord],
) -> Result<(Option<KeyRecords>, Vec<KeyId>), KeyStoreError> {
    let mut keys = known.as_slice().to_vec();
    let mut places: HashMap<KeyId, usize> = keys.iter().map(|key| key.id).zip(0..).collect();
    let (mut next, mut is_changed, mut others) = (known.next, false, Vec::new());
    for key in shared {
        match places.get(&key.id).map(|at| &mut keys[*at]) {
            Some(known) if known.is_same_key(key) => is_changed |= known.join(key),
            Some(_) => others.push(key.id),
            None if next == KEYS_MAX => return Err(KeyStoreError::Full),
            None => {
                places.insert(key.id, keys.len());
                keys.push(KeyRecord {
                    number: next,
                    ..key.clone()
                });
                next += 1;
                is_changed = true;
            }
        }
    }
    let revision = known.revision.saturating_add(1);
    let merged =
        || KeyRecords::stored(keys, next, revision).expect("merged records are consistent");
    Ok((is_changed.then(merged), others))
}

/// Describes the keys of this server that were written to its file again.
pub(super) fn rewritten_keys(ids: &[KeyId]) -> String {
    let count = ids.len();
    let (plural, were) = if count == 1 {
        ("", "was")
    } else {
        ("s", "were")
    };
    let named = named_keys(ids);
    format!(
        "{count} key{plural} that this server knows {were} missing or out of date, and {were} written again: \
         {named}"
    )
}

/// Returns a text with the ids; of many ids, the first ones and the number of the others.
pub(crate) fn named_keys(ids: &[KeyId]) -> String {
    let named: Vec<_> = ids.iter().take(NAMED_MAX).map(KeyId::to_string).collect();
    let more = match ids.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::keys::token::{KeyPrefix, NewKey};
    use crate::model::Tier;

    fn change(records: &mut KeyRecords, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        let at = UnixSeconds(u.int_in_range(0..=9)?);
        let known = records.as_slice().len();
        if known == 0 || u.ratio(1, 3)? {
            let key = NewKey::random(&KeyPrefix::default());
            let parts = (key.id, key.digest());
            let address = "a@x.test".parse().unwrap();
            assert!(records.issue(parts, address, Tier::Pro, at).is_ok());
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

    /// All states but the numbers, in the order of the ids.
    fn states(records: &KeyRecords) -> Vec<KeyRecord> {
        let mut keys = records.as_slice().to_vec();
        for key in &mut keys {
            key.number = 0;
        }
        keys.sort_by_key(|key| key.id.to_string());
        keys
    }

    fn joined(known: &KeyRecords, file: &KeyRecords) -> KeyRecords {
        merge(known, file).unwrap().0
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
            // Several servers with one file agree on the numbers too.
            assert_eq!(joined(&b, &ab), ab);
            assert_eq!(merge(&b, &ab).unwrap().1, []);
            Ok(())
        });
    }

    #[test]
    fn merging_agrees_with_a_search_for_each_key() {
        arbtest::arbtest(|u| {
            let [known, file, _] = copies(u)?;
            let (merged, differ) = merge(&known, &file).unwrap();
            let find = |records: &KeyRecords, id| {
                records.as_slice().iter().find(|key| key.id == id).cloned()
            };
            for key in known.as_slice().iter().chain(file.as_slice()) {
                let (own, other) = (find(&known, key.id), find(&file, key.id));
                let got = find(&merged, key.id).unwrap();
                let states = [&own, &other].map(|key| key.as_ref().map(KeyRecord::state));
                assert_eq!(Some(got.state()), states.into_iter().max().flatten());
                let numbers = [&own, &other].map(|key| key.as_ref().map(|key| key.number));
                assert!(Some(got.number) >= numbers.into_iter().max().flatten());
                assert_eq!(differ.contains(&key.id), other != Some(got));
            }
            // A changed copy has another revision, by which others notice it.
            for side in [&known, &file] {
                assert!(merged.revision >= side.revision);
                let is_same = side.as_slice() == merged.as_slice();
                assert!(is_same || merged.revision > side.revision);
            }
            let most = known.as_slice().len() + file.as_slice().len();
            assert!(merged.as_slice().len() <= most);
            Ok(())
        });
    }

    /// Merges all records of `from` as they come from the store.
    fn joined_shared(known: &KeyRecords, from: &KeyRecords) -> KeyRecords {
        let read = |key: &KeyRecord| {
            KeyRecord::parse_shared_line(key.to_shared_line().as_bytes()).unwrap()
        };
        let shared: Vec<KeyRecord> = from.as_slice().iter().map(read).collect();
        let (merged, others) = merge_shared(known, &shared).unwrap();
        assert_eq!(others, []);
        merged.unwrap_or_else(|| known.clone())
    }

    #[test]
    fn records_of_the_store_merge_as_those_of_a_file_and_leave_the_numbers_alone() {
        arbtest::arbtest(|u| {
            let [a, b, c] = copies(u)?;
            let ab = joined_shared(&a, &b);
            assert_eq!(states(&ab), states(&joined(&a, &b)));
            assert_eq!(states(&ab), states(&joined_shared(&b, &a)));
            let (left, right) = (joined_shared(&ab, &c), joined_shared(&b, &c));
            assert_eq!(states(&left), states(&joined_shared(&a, &right)));
            assert_eq!(joined_shared(&ab, &b), ab);
            assert_eq!(joined_shared(&a, &a), a);
            assert_eq!(ab.revision, a.revision + u64::from(ab != a));
            for (before, after) in a.as_slice().iter().zip(ab.as_slice()) {
                assert_eq!((before.id, before.number), (after.id, after.number));
            }
            Ok(())
        });
    }

    #[test]
    fn a_record_of_another_key_with_a_known_id_changes_nothing() {
        let mut known = KeyRecords::default();
        let key = NewKey::random(&KeyPrefix::default());
        let parts = (key.id, key.digest());
        let address: crate::keys::KeyAddress = "a@x.test".parse().unwrap();
        let issued = known.issue(parts, address, Tier::Free, UnixSeconds(5));
        let mut newer = issued.unwrap().unwrap().clone();
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
            let merged = merge_shared(&known, &[other]).unwrap();
            assert_eq!(merged, (None, vec![key.id]));
        }
        let (merged, others) = merge_shared(&known, &[newer]).unwrap();
        assert_eq!(others, []);
        assert!(merged.unwrap().as_slice()[0].revoked.is_some());
    }

    #[test]
    fn a_line_names_a_few_ids() {
        let ids: Vec<KeyId> = (0..13)
            .map(|_| NewKey::random(&KeyPrefix::default()).id)
            .collect();
        let line = rewritten_keys(&ids);
        assert!(line.starts_with("13 keys that this server knows were"));
        assert!(line.ends_with(&format!("{} and 3 more", ids[9])), "{line}");
        assert!(rewritten_keys(&ids[..1]).starts_with("1 key that this server knows was"));
    }
}
