//! Changes of keys that are lost when a server takes over the key file of the leader.

use std::collections::HashMap;

use super::records::KeyRecords;
use super::token::KeyId;

/// Ids that a log line names.
const NAMED_MAX: usize = 10;

const ISSUED: [&str; 3] = [
    "key of this server is unknown to the leader and was dropped",
    "keys of this server are unknown to the leader and were dropped",
    "issue new ones on the leader",
];
const REVOKED: [&str; 3] = [
    "key that was revoked here is valid again",
    "keys that were revoked here are valid again",
    "revoke them on the leader if needed",
];

/// Describes the keys of this server that the file of the leader lacks, and with `revoked` also those that
/// were revoked here and are valid there. Empty if there are none.
pub(super) fn dropped_changes(own: &KeyRecords, new: &KeyRecords, revoked: bool) -> String {
    let new = new.as_slice().iter();
    let new: HashMap<KeyId, bool> = new.map(|key| (key.id, key.revoked.is_some())).collect();
    let mut dropped = [(ISSUED, Vec::new()), (REVOKED, Vec::new())];
    for key in own.as_slice() {
        match new.get(&key.id) {
            None => dropped[0].1.push(key.id),
            Some(false) if revoked && key.revoked.is_some() => dropped[1].1.push(key.id),
            Some(_) => {}
        }
    }
    let mut parts = Vec::new();
    for ([one, several, advice], ids) in dropped.iter().filter(|(_, ids)| !ids.is_empty()) {
        let words = if ids.len() == 1 { one } else { several };
        let named: Vec<_> = ids.iter().take(NAMED_MAX).map(KeyId::to_string).collect();
        let more = match ids.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (count, named) = (ids.len(), named.join(", "));
        parts.push(format!("{count} {words}: {named}{more}; {advice}"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::keys::token::{KeyPrefix, NewKey};
    use crate::model::Tier;

    fn issue(records: &mut KeyRecords) -> KeyId {
        let key = NewKey::random(&KeyPrefix::default());
        let address = "a@x.test".parse().unwrap();
        let parts = (key.id, key.digest());
        let issued = records.issue(parts, address, Tier::Pro, UnixSeconds(1));
        issued.unwrap().unwrap().id
    }

    #[test]
    fn lost_keys_and_lost_revocations_are_named() {
        let mut shared = KeyRecords::default();
        let [kept, withdrawn, other] = [(); 3].map(|()| issue(&mut shared));
        let (mut own, mut new) = (shared.clone(), shared.clone());
        assert_eq!(dropped_changes(&own, &new, true), "");
        let issued = issue(&mut own);
        own.set_revoked(withdrawn, Some(UnixSeconds(2))).unwrap();
        new.set_revoked(other, Some(UnixSeconds(2))).unwrap();
        for records in [&mut own, &mut new] {
            records.set_revoked(kept, Some(UnixSeconds(2))).unwrap();
        }
        issue(&mut new);
        let unknown = format!(
            "1 key of this server is unknown to the leader and was dropped: {issued}; issue new \
             ones on the leader"
        );
        let valid = format!(
            "1 key that was revoked here is valid again: {withdrawn}; revoke them on the leader if \
             needed"
        );
        assert_eq!(dropped_changes(&own, &new, false), unknown);
        assert_eq!(
            dropped_changes(&own, &new, true),
            format!("{unknown}; {valid}")
        );
    }

    #[test]
    fn a_line_names_a_few_ids() {
        let mut own = KeyRecords::default();
        let ids: Vec<String> = (0..13).map(|_| issue(&mut own).to_string()).collect();
        let line = dropped_changes(&own, &KeyRecords::default(), true);
        assert!(
            line.starts_with("13 keys of this server are unknown"),
            "{line}"
        );
        assert!(line.contains(&format!("{} and 3 more;", ids[9])), "{line}");
        assert!(!line.contains(&ids[10]), "{line}");
    }
}
