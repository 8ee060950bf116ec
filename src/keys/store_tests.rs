//! Changes of the key file by servers and commands.

use std::sync::OnceLock;
use std::time::Instant;

use super::*;

#[test]
fn each_change_is_read_back_and_has_another_version() {
    let directory = std::env::temp_dir().join(format!("im-keys-{}", std::process::id()));
    let store = KeyStore::new(&directory);
    assert_eq!(store.version(&store.known()).unwrap(), None);
    assert_eq!(store.read().unwrap(), KeyRecords::default());
    let address = "a@x.test".parse().unwrap();
    let id = || store.read().unwrap().as_slice()[0].id;
    let issue = || {
        let issued = store.issue(&KeyPrefix::default(), &address, Tier::Free, UnixSeconds(1));
        assert!(issued.is_ok());
    };
    let revoke = || assert!(store.set_revoked(id(), true, UnixSeconds(2)).unwrap());
    let restore = || assert!(store.set_revoked(id(), false, UnixSeconds(2)).unwrap());
    let changes: [&dyn Fn(); 3] = [&issue, &revoke, &restore];
    for (change, is_revoked) in changes.iter().zip([false, true, false]) {
        let before = store.version(&store.known()).unwrap();
        change();
        let after = store.version(&store.known()).unwrap();
        assert_ne!(before, after);
        assert_eq!(after, store.version(&store.known()).unwrap());
        let read = store.read().unwrap();
        assert_eq!(read.as_slice()[0].revoked.is_some(), is_revoked);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Issues a key of the tier `pro`.
fn issue(store: &KeyStore) -> KeyId {
    let address = "a@x.test".parse().unwrap();
    let prefix = KeyPrefix::default();
    let issued = store.issue(&prefix, &address, Tier::Pro, UnixSeconds(1));
    issued.unwrap().id
}

fn ids(records: &KeyRecords) -> Vec<KeyId> {
    records.as_slice().iter().map(|key| key.id).collect()
}

#[test]
fn a_server_knows_the_keys_of_other_processes_and_writes_lost_ones_again() {
    let name = format!("im-keys-{}-lost", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let logged: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, received) = (Arc::clone(&logged), Arc::new(OnceLock::new()));
    let receive: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::clone(&received);
    let server = KeyStore::of_server(&directory, move |line| {
        lock(&log).push(line.to_owned());
        receive.get().inspect(|receive| receive());
    });
    let command = KeyStore::new(&directory);
    let first = issue(&command);
    assert_eq!(ids(&server.current().unwrap()), [first]);
    let second = issue(&command);
    assert_eq!(ids(&server.current().unwrap()), [first, second]);
    // Nothing is missing: the file is not written.
    let version = server.version(&server.known()).unwrap();
    server.repair().unwrap();
    assert_eq!(server.version(&server.known()).unwrap(), version);
    assert_eq!(*lock(&logged), [""; 0]);
    std::fs::remove_file(server.path()).unwrap();
    assert_eq!(ids(&server.current().unwrap()), [first, second]);
    assert_eq!(ids(&server.read().unwrap()), []);
    server.repair().unwrap();
    assert_eq!(ids(&server.read().unwrap()), [first, second]);
    assert!(lock(&logged)[0].contains("were written again (2)"));
    server.repair().unwrap();
    assert_eq!(lock(&logged).len(), 1);
    // A change writes lost keys again too. While it does, records of other servers are merged.
    let key = (&"b@x.test".parse().unwrap(), Tier::Free);
    let [early, late] =
        [1, 2].map(|at| KeyRecord::random(&KeyPrefix::default(), key, UnixSeconds(at)).1);
    let (fourth, of_log) = (early.id, server.clone());
    let merge = Box::new(move || {
        assert!(of_log.known.try_lock().is_ok(), "a revocation waits");
        of_log.merge(std::slice::from_ref(&early)).unwrap();
    });
    assert!(received.set(merge).is_ok());
    std::fs::remove_file(server.path()).unwrap();
    let third = issue(&server);
    assert_eq!(ids(&server.read().unwrap()), [first, second, third]);
    assert_eq!(ids(&server.known()), [first, second, third, fourth]);
    // Records that were not written yet are not missing.
    server.merge(&[late]).unwrap();
    issue(&command);
    server.repair().unwrap();
    assert_eq!(server.read().unwrap().as_slice().len(), 6);
    assert_eq!(lock(&logged).len(), 2);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn merged_records_are_stored_and_those_of_other_keys_are_named() {
    let name = format!("im-keys-{}-merged", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let store = KeyStore::new(&directory);
    let address = "a@x.test".parse().unwrap();
    let key = (&address, Tier::Free);
    let (_, record) = KeyRecord::random(&KeyPrefix::default(), key, UnixSeconds(1));
    assert_eq!(store.merge(std::slice::from_ref(&record)).unwrap(), []);
    assert_eq!(ids(&store.read().unwrap()), []);
    let merged = store.known();
    store.repair().unwrap();
    assert_eq!(ids(&store.read().unwrap()), [record.id]);
    assert!(Arc::ptr_eq(&merged, &store.known()), "loaded again");
    let mut other = record.clone();
    other.digest[0] ^= 1;
    assert_eq!(store.merge(&[other]).unwrap(), [record.id]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_merged_revocation_is_known_although_it_cannot_be_stored() {
    let name = format!("im-keys-{}-full", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let server = KeyStore::of_server(&directory, |_| {});
    let id = issue(&server);
    let mut records = server.read().unwrap();
    records.set_revoked(id, true, UnixSeconds(2)).unwrap();
    let intact = std::fs::read(server.path()).unwrap();
    durable::replace_private(&server.path(), b"damaged").unwrap();
    let is_revoked = |records: &KeyRecords| records.as_slice()[0].revoked.is_some();
    let merge_again = || {
        assert_eq!(server.merge(records.as_slice()).unwrap(), []);
        assert!(server.repair().is_err());
        server.known()
    };
    let (first, second) = (merge_again(), merge_again());
    assert!(is_revoked(&first));
    assert!(Arc::ptr_eq(&first, &second), "they are not loaded again");
    durable::replace_private(&server.path(), &intact).unwrap();
    server.repair().unwrap();
    assert!(is_revoked(&server.read().unwrap()));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_server_waits_for_another_process_for_a_limited_time() {
    let name = format!("im-keys-{}-busy", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let server = KeyStore::of_server(&directory, |_| {});
    let id = issue(&server);
    let held = durable::lock(&directory, None).unwrap();
    let busy = server.set_revoked("0123456789".parse().unwrap(), true, UnixSeconds(2));
    assert!(busy.unwrap_err().is_busy());
    // Of two records that are received, the second comes while the first one is written.
    std::thread::scope(|scope| {
        for is_revoked in [true, false] {
            let mut received = server.known().as_ref().clone();
            received
                .set_revoked(id, is_revoked, UnixSeconds(2))
                .unwrap();
            let begun = Instant::now();
            server.merge(received.as_slice()).unwrap();
            assert!(begun.elapsed() < REPAIR_LOCK_TIMEOUT / 2, "a change waits");
            assert_eq!(server.known().as_slice()[0].revoked.is_some(), is_revoked);
            let repair = scope.spawn(|| assert!(server.repair().unwrap_err().is_busy()));
            sleep(REPAIR_LOCK_TIMEOUT / 5);
            assert!(!repair.is_finished());
        }
    });
    drop(held);
    std::fs::remove_dir_all(directory).unwrap();
}
