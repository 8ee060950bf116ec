//! The exchange of keys without processes: histories of servers, a store and backups.

use std::collections::BTreeMap;
use std::path::Path;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

use super::key_model_tests::Model;
use super::key_view::KeyView;
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::keys::{KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyRecords, KeyStore};
use crate::model::Tier;

type State = (UnixSeconds, Option<UnixSeconds>);

fn address(u: &mut Unstructured<'_>) -> Arbitrary<KeyAddress> {
    let address: &str = u.choose(&["a@x.test", "192.0.2.1"])?;
    Ok(address.parse().unwrap())
}

struct Server {
    keys: KeyStore,
    view: KeyView,
    now: i64,
}

impl Server {
    fn new(directory: &Path) -> Server {
        Server {
            keys: KeyStore::new(directory),
            view: KeyView::default(),
            now: 0,
        }
    }

    fn change(&mut self, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        self.now += u.int_in_range(0..=2)?;
        let now = UnixSeconds(self.now);
        let own = self.keys.current().unwrap();
        if own.as_slice().len() < 4 && u.arbitrary()? {
            // Above the limit of free keys nothing is issued.
            let tier = *u.choose(&[Tier::Free, Tier::Pro])?;
            let _ = self
                .keys
                .issue(&KeyPrefix::default(), &address(u)?, tier, now);
        } else if !own.as_slice().is_empty() {
            let key = u.choose(own.as_slice())?;
            let _ = self.keys.set_revoked(key.id, u.arbitrary()?, now);
        }
        Ok(())
    }

    /// Makes one call. Its answer may be lost. Returns `false` if nothing was sent or received.
    fn exchange(&mut self, store: &mut Model, new: &str, is_lost: bool) -> bool {
        let lines = self.view.next_lines(self.keys.current().unwrap());
        let answer = store.call(&self.view, &lines, new);
        if is_lost {
            self.view = KeyView::default();
            return true;
        }
        let received = self.view.take(answer);
        assert_eq!(self.keys.merge(&received).unwrap(), []);
        // As the thread that polls the file does.
        self.keys.repair().unwrap();
        !lines.is_empty() || self.view.is_incomplete() || !received.is_empty()
    }
}

fn join(known: &mut BTreeMap<KeyId, State>, keys: impl IntoIterator<Item = KeyRecord>) {
    for key in keys {
        let state = known.entry(key.id).or_insert(key.state());
        *state = key.state().max(*state);
    }
}

fn states(records: &KeyRecords) -> BTreeMap<KeyId, State> {
    let mut states = BTreeMap::new();
    join(&mut states, records.as_slice().iter().cloned());
    states
}

/// Random events at three servers and a store, and then exchanges until nothing changes.
fn history(u: &mut Unstructured<'_>, directory: &Path) -> Arbitrary<()> {
    // The last run may have failed.
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).unwrap();
    let path = |at: usize| directory.join(at.to_string());
    (0..3).for_each(|at| std::fs::create_dir_all(path(at)).unwrap());
    let mut servers = [0, 1, 2].map(|at| Server::new(&path(at)));
    let (mut store, mut old_store) = (Model::default(), Model::default());
    let mut old_files: [Option<Vec<u8>>; 3] = [None, None, None];
    let mut generations = 0;
    for _ in 0..u.int_in_range(0..=24)? {
        generations += 1;
        let (at, new) = (u.choose_index(3)?, format!("g{generations}"));
        let file = path(at).join("keys.jsonl");
        match u.int_in_range(0..=9)? {
            0..=2 => servers[at].change(u)?,
            3 | 4 => drop(servers[at].exchange(&mut store, &new, u.ratio(1, 4)?)),
            5 => old_store = store.clone(),
            // Its connections stay open in half of the cases.
            6 => {
                store = if u.arbitrary()? {
                    old_store.clone()
                } else {
                    Model::default()
                };
                if u.arbitrary()? {
                    for server in &mut servers {
                        server.view = KeyView::default();
                    }
                }
            }
            7 => old_files[at] = std::fs::read(&file).ok(),
            // While it runs, or with a restart.
            8 => {
                let _ = std::fs::remove_file(&file);
                if let Some(old) = old_files[at]
                    .as_ref()
                    .filter(|_| u.arbitrary().unwrap_or(true))
                {
                    durable::replace(&file, old).unwrap();
                }
                if u.arbitrary()? {
                    servers[at] = Server::new(&path(at));
                }
            }
            _ if !store.records.is_empty() => {
                let ids: Vec<String> = store.records.keys().cloned().collect();
                store
                    .records
                    .insert(u.choose(&ids)?.clone(), "x".to_owned());
            }
            _ => {}
        }
    }
    assert_nothing_is_lost(&mut servers, &mut store);
    Ok(())
}

/// Exchanges until nothing changes, and checks that all copies then have the newest state of each key that any
/// of them had.
fn assert_nothing_is_lost(servers: &mut [Server; 3], store: &mut Model) {
    // An exchange after a restart of the store compares everything.
    let mut known = BTreeMap::new();
    for server in servers.iter_mut() {
        server.view = KeyView::default();
        join(
            &mut known,
            server.keys.current().unwrap().as_slice().to_vec(),
        );
    }
    join(
        &mut known,
        store.records.keys().filter_map(|id| store.parsed(id)),
    );
    for round in 0.. {
        let needed = servers
            .each_mut()
            .map(|server| server.exchange(store, "last", false));
        if needed == [false; 3] {
            break;
        }
        assert!(round < 20, "the exchange does not end");
    }
    for server in servers {
        assert_eq!(states(&server.keys.current().unwrap()), known);
        assert_eq!(states(&server.keys.read().unwrap()), known, "the file");
    }
    let mut stored = BTreeMap::new();
    join(
        &mut stored,
        store.records.keys().filter_map(|id| store.parsed(id)),
    );
    assert_eq!(stored, known);
}

#[test]
fn whatever_is_lost_all_servers_have_the_newest_state_of_every_key_that_any_copy_has() {
    let directory = std::env::temp_dir().join(format!("im-history-{}", std::process::id()));
    arbtest::arbtest(|u| history(u, &directory)).budget_ms(3_000);
    let _ = std::fs::remove_dir_all(directory);
}
