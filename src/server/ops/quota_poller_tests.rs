//! Counts of keys through losses of the key file, restarts, and records of other servers.
#![expect(
    clippy::disallowed_methods,
    reason = "files of tests need not survive a crash"
)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::calendar::{Clock, UnixSeconds, UtcDay};
use crate::keys::{KeyId, KeyRecord};
use crate::model::Tier;
use crate::quota::{AnonymousQuota, Decision, KeyedQuota, LeaseClient, NewestDay, TableSize};
use crate::sync::Replicated;

static LOG: LazyLock<Log> = LazyLock::new(|| Log::start(|_| ()).unwrap());

/// Starts a server as [`start`] does, but without a thread: it checks the key file when it is told to.
fn server(directory: &Path) -> KeyReloader {
    let prefix = KeyPrefix::default();
    let none = KeyTable::new(prefix.clone(), KeyRecords::default(), []);
    let keyed = KeyedQuota::open(directory, &mut NewestDay::default(), &|_| {});
    let store = KeyStore::of_server(directory, |_| {});
    let quota = QuotaState {
        clock: Arc::new(Clock::new(None, None)),
        keys: Arc::new(Replicated::new(none)),
        key_store: Some(store.clone()),
        anonymous: Arc::new(AnonymousQuota::new(TableSize::for_clients(1))),
        keyed: Arc::new(keyed.unwrap()),
    };
    let mut server = KeyReloader {
        store,
        prefix,
        quota,
        loaded: Arc::default(),
        status: ReloadStatus::new(&LOG, &Arc::default()),
    };
    server.load(server.store.current().unwrap()).unwrap();
    server
}

/// Two servers on one state directory, and what they have to agree with.
struct World<'a> {
    directory: &'a Path,
    servers: [KeyReloader; 2],
    /// Every record that was ever made, which other servers may send.
    records: Vec<KeyRecord>,
    /// The requests of each key, by its id.
    counts: HashMap<u64, u32>,
    /// A copy of the key file; empty before one is made.
    backup: Vec<u8>,
    day: UtcDay,
}

impl World<'_> {
    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let at = u.choose_index(self.servers.len())?;
        let command = KeyStore::new(self.directory);
        let store = if u.arbitrary()? {
            &command
        } else {
            &self.servers[at].store
        };
        match u.int_in_range(0..=8)? {
            0 => {
                let (prefix, address) = (KeyPrefix::default(), "a@x.test".parse().unwrap());
                let key = store.issue(&prefix, &address, Tier::Pro, UnixSeconds(1));
                let id = key.unwrap().id;
                let stored = store.read().unwrap();
                self.records
                    .extend(stored.as_slice().iter().find(|key| key.id == id).cloned());
            }
            1 => {
                let key = (&"a@x.test".parse().unwrap(), Tier::Pro);
                let (_, record) = KeyRecord::random(&KeyPrefix::default(), key, UnixSeconds(1));
                self.servers[at]
                    .store
                    .merge(std::slice::from_ref(&record))
                    .unwrap();
                self.records.push(record);
            }
            2 if !self.records.is_empty() => {
                let known = u.choose(&self.records)?.clone();
                self.servers[at].store.merge(&[known]).unwrap();
            }
            3 => {
                let known = store.current().unwrap();
                let ids: Vec<KeyId> = known.as_slice().iter().map(|key| key.id).collect();
                if !ids.is_empty() {
                    let (id, is_revoked) = (*u.choose(&ids)?, u.arbitrary()?);
                    store.set_revoked(id, is_revoked, UnixSeconds(2)).unwrap();
                }
            }
            4 => {
                let _ = fs::remove_file(command.path());
            }
            5 => self.backup = fs::read(command.path()).unwrap_or_default(),
            6 if !self.backup.is_empty() => fs::write(command.path(), &self.backup).unwrap(),
            7 => self.servers[at] = server(self.directory),
            _ => self.servers[at].poll().unwrap(),
        }
        Ok(())
    }

    /// Sends a request of a key to a server.
    fn request(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let quota = &u.choose(&self.servers)?.quota;
        let keys: Vec<(u64, u32)> = quota.keys.current().places().collect();
        if !keys.is_empty() {
            let (id, place) = *u.choose(&keys)?;
            let admitted = quota.keyed.admit(place, u32::MAX, self.day).unwrap();
            assert_ne!(admitted, Decision::Refuse);
            *self.counts.entry(id).or_default() += 1;
        }
        Ok(())
    }

    fn check(&self) {
        for server in &self.servers {
            let keys = server.quota.keys.current();
            let mut places = HashSet::new();
            let counts = server.quota.keyed.counts(self.day).into_iter();
            let counts: HashMap<LeaseClient, u32> = counts.collect();
            for (id, place) in keys.places() {
                assert!(places.insert(place), "two keys have one counter");
                let count = counts.get(&LeaseClient::Key(id));
                assert_eq!(count, self.counts.get(&id));
            }
            assert_eq!(places.len(), server.loaded.as_slice().len());
        }
    }
}

#[test]
fn counts_follow_the_ids_of_keys_through_losses_restarts_and_merges() {
    let name = format!("im-places-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    arbtest::arbtest(|u| {
        let _ = fs::remove_dir_all(&directory);
        // As a server does at its start.
        fs::create_dir(&directory).unwrap();
        let servers = [(); 2].map(|()| server(&directory));
        let mut world = World {
            directory: &directory,
            day: servers[0].quota.clock.now().day,
            servers,
            records: Vec::new(),
            counts: HashMap::new(),
            backup: Vec::new(),
        };
        for _ in 0..u.int_in_range(0..=30)? {
            world.step(u)?;
            world.request(u)?;
            world.check();
        }
        Ok(())
    })
    .budget_ms(3_000);
    let _ = fs::remove_dir_all(&directory);
}
