//! Changes of keys that are lost when a server takes over the key file of the leader.

use std::collections::HashMap;
use std::fmt;

use super::records::KeyRecords;
use super::token::KeyId;

/// Ids that a log line names.
const NAMED_MAX: usize = 10;

/// Changes in a key file that the file of the leader lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedChanges {
    /// Keys that were issued here.
    pub issued: Vec<KeyId>,
    /// Keys that were revoked here, and are valid in the file of the leader.
    pub revoked: Vec<KeyId>,
}

impl DroppedChanges {
    /// Compares the file of this server with that of the leader.
    pub(super) fn between(own: &KeyRecords, new: &KeyRecords) -> DroppedChanges {
        let new: HashMap<KeyId, bool> = new
            .as_slice()
            .iter()
            .map(|record| (record.id, record.revoked.is_some()))
            .collect();
        let mut dropped = DroppedChanges::default();
        for record in own.as_slice() {
            match new.get(&record.id) {
                None => dropped.issued.push(record.id),
                Some(false) if record.revoked.is_some() => dropped.revoked.push(record.id),
                Some(_) => {}
            }
        }
        dropped
    }

    /// Returns `true` if nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.issued.is_empty() && self.revoked.is_empty()
    }
}

impl fmt::Display for DroppedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issued = [
            "key of this server is unknown to the leader and was dropped",
            "keys of this server are unknown to the leader and were dropped",
            "issue new ones on the leader",
        ];
        let revoked = [
            "key that was revoked here is valid again",
            "keys that were revoked here are valid again",
            "revoke them on the leader if needed",
        ];
        let mut parts = Vec::new();
        for (ids, [one, several, advice]) in [(&self.issued, issued), (&self.revoked, revoked)] {
            let words = if ids.len() == 1 { one } else { several };
            let named: Vec<_> = ids.iter().take(NAMED_MAX).map(KeyId::to_string).collect();
            let more = match ids.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            if !ids.is_empty() {
                let (count, named) = (ids.len(), named.join(", "));
                parts.push(format!("{count} {words}: {named}{more}; {advice}"));
            }
        }
        f.write_str(&parts.join("; "))
    }
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
        assert!(DroppedChanges::between(&own, &new).is_empty());
        let issued = issue(&mut own);
        own.set_revoked(withdrawn, Some(UnixSeconds(2))).unwrap();
        new.set_revoked(other, Some(UnixSeconds(2))).unwrap();
        for records in [&mut own, &mut new] {
            records.set_revoked(kept, Some(UnixSeconds(2))).unwrap();
        }
        issue(&mut new);
        let dropped = DroppedChanges::between(&own, &new);
        assert_eq!(dropped.issued, [issued]);
        assert_eq!(dropped.revoked, [withdrawn]);
        assert_eq!(
            dropped.to_string(),
            format!(
                "1 key of this server is unknown to the leader and was dropped: {issued}; issue new \
                 ones on the leader; 1 key that was revoked here is valid again: {withdrawn}; \
                 revoke them on the leader if needed"
            )
        );
    }

    #[test]
    fn a_line_names_a_few_ids() {
        let mut own = KeyRecords::default();
        let ids: Vec<String> = (0..13).map(|_| issue(&mut own).to_string()).collect();
        let line = DroppedChanges::between(&own, &KeyRecords::default()).to_string();
        assert!(
            line.starts_with("13 keys of this server are unknown"),
            "{line}"
        );
        assert!(line.contains(&format!("{} and 3 more;", ids[9])), "{line}");
        assert!(!line.contains(&ids[10]), "{line}");
    }
}
