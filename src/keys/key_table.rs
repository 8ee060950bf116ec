//! The keys in a server's memory: looked up by id, verified by secret.

use std::hint::black_box;
use std::sync::Arc;

use memchr::memmem;

use super::records::KeyRecords;
use super::token::{KIND, KeyId, KeyPrefix, constant_time_eq, parse_key};
use crate::model::Tier;

/// Properties of an active key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// Place of the key's quota counter.
    pub place: u32,
    /// The public id, for logs and other places where the secret must not appear.
    pub id: KeyId,
    pub tier: Tier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    Active(KeyEntry),
    /// The key is disabled; its secret was correct.
    Revoked,
    /// There is no such key, or its secret is another one.
    Unknown,
}

/// The keys of the records that a server knows, found by their ids. Uses 16 bytes per key beside the records.
#[derive(Debug)]
pub struct KeyTable {
    prefix: KeyPrefix,
    records: Arc<KeyRecords>,
    /// The ids in ascending order, with the places of their records and of their counters.
    ids: Box<[(KeyId, u32, u32)]>,
}

impl KeyTable {
    /// Creates the table of these records, for keys with this prefix. `places` are those of their counters.
    pub fn new(
        prefix: KeyPrefix,
        records: impl Into<Arc<KeyRecords>>,
        places: impl IntoIterator<Item = u32>,
    ) -> KeyTable {
        let records = records.into();
        let ids = (0..).zip(records.as_slice()).zip(places);
        let ids = ids.map(|((at, key), place)| (key.id, at, place));
        let mut ids: Box<[(KeyId, u32, u32)]> = ids.collect();
        ids.sort_unstable();
        KeyTable {
            prefix,
            records,
            ids,
        }
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// Returns the ids of all keys and the places of their counters.
    #[cfg(test)]
    pub fn places(&self) -> impl Iterator<Item = (u64, u32)> {
        self.ids.iter().map(|(id, _, place)| (id.number(), *place))
    }

    /// Returns whether the start of a key of this service, valid or not, is in a text.
    pub fn resembles_key(&self, text: &[u8]) -> bool {
        let mut kinds = memmem::find_iter(text, KIND);
        kinds.any(|at| text[..at].ends_with(self.prefix.0.as_bytes()))
    }

    /// Verifies a key that a client sent.
    ///
    /// Text without the form of a key is rejected immediately. For all other text, the secret is hashed,
    /// the id is looked up with the same number of steps whether it exists or not, and the digest of
    /// some record is compared. So the time reveals neither whether an id exists nor whether it is
    /// revoked.
    pub fn verify(&self, key: &[u8]) -> KeyStatus {
        let Some((id, digest)) = parse_key(&self.prefix, key) else {
            return KeyStatus::Unknown;
        };
        let at = self.ids.partition_point(|(known, ..)| *known < id);
        let Some((known, at, place)) = self.ids.get(at).or(self.ids.last()) else {
            return KeyStatus::Unknown;
        };
        let record = &self.records.as_slice()[*at as usize];
        let is_right = constant_time_eq(&record.digest, &digest);
        let is_known = *known == id;
        if !(black_box(is_known) & is_right) {
            return KeyStatus::Unknown;
        }
        match record.revoked {
            Some(_) => KeyStatus::Revoked,
            None => KeyStatus::Active(KeyEntry {
                place: *place,
                id,
                tier: record.tier,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::keys::{KeyRecord, NewKey};

    #[test]
    fn a_table_agrees_with_the_list_of_its_keys() {
        let prefix = KeyPrefix::default();
        let mut records = KeyRecords::default();
        let mut keys = Vec::new();
        for number in 0..300_u32 {
            let address = format!("{number}@x.test").parse().unwrap();
            let key = (&address, Tier::ALL[number as usize % 3]);
            let (key, record) = KeyRecord::random(&prefix, key, UnixSeconds(0));
            assert!(records.issue(record).unwrap());
            if number % 5 == 0 {
                records.set_revoked(key.id, true, UnixSeconds(1)).unwrap();
            }
            keys.push(key);
        }
        let table = KeyTable::new(prefix.clone(), records.clone(), 7..);
        assert_eq!(table.count(), 300);
        let expected = (7..).zip(&keys);
        let mut expected: Vec<(u64, u32)> =
            expected.map(|(at, key)| (key.id.number(), at)).collect();
        expected.sort_unstable();
        assert!(table.places().eq(expected), "revoked keys have places too");
        for (number, key) in (0_u32..).zip(&keys) {
            let want = if number % 5 == 0 {
                KeyStatus::Revoked
            } else {
                let tier = Tier::ALL[number as usize % 3];
                KeyStatus::Active(KeyEntry {
                    place: number + 7,
                    id: key.id,
                    tier,
                })
            };
            assert_eq!(table.verify(key.reveal().as_bytes()), want);
            let stranger = NewKey::random(&prefix);
            assert_eq!(
                table.verify(stranger.reveal().as_bytes()),
                KeyStatus::Unknown
            );
        }
        let right = &records.as_slice()[1];
        let mut other_secret = right.clone();
        other_secret.digest[31] ^= 1;
        let mut changed = KeyRecords::default();
        assert!(changed.issue(other_secret).unwrap());
        let changed = KeyTable::new(prefix.clone(), changed, 0..);
        let sent = keys[1].reveal().as_bytes();
        assert_eq!(changed.verify(sent), KeyStatus::Unknown, "a known id");
        let other = KeyTable::new("ix".parse().unwrap(), records.clone(), 0..);
        assert_eq!(
            other.verify(keys[1].reveal().as_bytes()),
            KeyStatus::Unknown
        );
        let none = KeyTable::new(prefix, KeyRecords::default(), []);
        assert_eq!(none.verify(keys[1].reveal().as_bytes()), KeyStatus::Unknown);
        assert_eq!(none.count(), 0);
    }

    #[test]
    fn texts_near_to_a_key_are_unknown() {
        let prefix = KeyPrefix::default();
        let address = "ann@x.test".parse().unwrap();
        let of = (&address, Tier::Pro);
        let (key, record) = KeyRecord::random(&prefix, of, UnixSeconds(0));
        let mut records = KeyRecords::default();
        assert!(records.issue(record).unwrap());
        let table = KeyTable::new(prefix, records, 0..);
        let right = table.verify(key.reveal().as_bytes());
        assert!(matches!(right, KeyStatus::Active(_)));
        arbtest::arbtest(|u| {
            let mut text = key.reveal().as_bytes().to_vec();
            for _ in 0..u.int_in_range(1..=3)? {
                let at = u.choose_index(text.len())?;
                match u.int_in_range(0..=5)? {
                    0 => text[at] = u.arbitrary()?,
                    1 => text[at] ^= b' ',
                    2 => text.insert(at, u.arbitrary()?),
                    3 => drop(text.remove(at)),
                    4 => text.make_ascii_lowercase(),
                    _ => drop(text.splice(..2, *b"ix")),
                }
            }
            let is_changed = text != key.reveal().as_bytes();
            let want = if is_changed {
                KeyStatus::Unknown
            } else {
                right
            };
            assert_eq!(table.verify(&text), want, "{}", text.escape_ascii());
            Ok(())
        });
    }

    #[test]
    fn a_text_resembles_a_key_by_the_prefix_of_the_service() {
        let table = KeyTable::new("ab".parse().unwrap(), KeyRecords::default(), []);
        for (text, resembles) in [
            ("ab_live_", true),
            ("x_live_ ab_live_1", true),
            ("im_live_0123456789_", false),
            ("ab_test_1", false),
            ("", false),
        ] {
            assert_eq!(table.resembles_key(text.as_bytes()), resembles, "{text}");
        }
    }
}
