//! The script of keys in a real store, compared with the model.

use std::sync::mpsc;
use std::thread;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};
use tokio::runtime::Builder;

use super::super::key_exchange::{KeyExchange, OwnKeys};
use super::super::key_model_tests::Model;
use super::super::store_tests::{TestStore, run, settings};
use super::*;
use crate::calendar::UnixSeconds;
use crate::keys::{KeyPrefix, KeyStore};
use crate::model::Tier;
use crate::observe::Log;
use crate::sync::{PollTrigger, lock};

/// An id that no key has.
const NO_ID: &str = "0123456789";
/// An id that has the number of a change and no record.
const LONE_ID: &str = "abcdefghij";

/// Damages the store, and the model as the script mends it.
async fn damage(choice: usize, model: &mut Model, node: &NodeConnection) {
    const HUGE: &str = "18446744073709551616";
    let [keys, changes] = KEYS;
    let long = "x".repeat(2_000);
    let record = format!("{{\"changed\":{HUGE},\"revoked\":null,\"address\":\"\"}}");
    let id = model.records.keys().next().cloned();
    let id = id.as_deref().unwrap_or(NO_ID);
    let words: &[&[&str]] = &[
        &["DEL", keys],
        &["SET", keys, "text"],
        &["DEL", changes],
        &["SET", changes, HUGE],
        &["ZADD", changes, HUGE, NO_ID],
        &["ZADD", changes, "0.5", LONE_ID],
        &["HSET", keys, "generation", &long],
        &["HSET", keys, id, &record],
        &["HSET", keys, id, &long],
        &["HSET", keys, id, "[[[[1e999"],
    ];
    let words = words[choice];
    // It fails where damage before it has changed the type; the script begins again all the same.
    let is_done = run(node, words).await.is_ok();
    match choice {
        0 | 1 => *model = Model::default(),
        // Not the highest number.
        5 if model.number > 0 => {}
        7.. if !is_done => {}
        7.. => drop(model.records.insert(id.to_owned(), words[3].to_owned())),
        _ => model.generation.clear(),
    }
}

#[test]
fn the_script_agrees_with_the_model_also_after_damage() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = store.connect().await;
        let keys: Vec<KeyRecord> = (0..6)
            .map(|at| {
                let address = ["a@x.test", "192.0.2.1"][at / 5].parse().unwrap();
                let tier = if at == 0 { Tier::Pro } else { Tier::Free };
                KeyRecord::random(&KeyPrefix::default(), (&address, tier), UnixSeconds(1)).1
            })
            .collect();
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            arbtest::arbtest(|u| {
                let emptied = runtime.block_on(run(&node, &["FLUSHALL"]));
                emptied.unwrap();
                runtime.block_on(compare(u, &keys, &node))
            })
            .budget_ms(3_000);
        })
        .await
        .unwrap();
    });
}

fn line(key: &KeyRecord) -> (String, String) {
    (key.id.to_string(), key.to_shared_line())
}

/// Makes the same calls of the script and the model.
async fn compare(
    u: &mut Unstructured<'_>,
    keys: &[KeyRecord],
    node: &NodeConnection,
) -> Arbitrary<()> {
    let mut model = Model::default();
    for _ in 0..u.int_in_range(0..=30)? {
        if u.ratio(1, 4)? {
            damage(u.choose_index(10)?, &mut model, node).await;
            continue;
        }
        let mut lines = Vec::new();
        for _ in 0..u.int_in_range(0..=3)? {
            let mut key = u.choose(keys)?.clone();
            key.changed = UnixSeconds(u.int_in_range(1..=4)?);
            key.revoked = u
                .arbitrary::<bool>()?
                .then_some(UnixSeconds(u.int_in_range(1..=2)?));
            // Another key in its place.
            key.digest[0] ^= u8::from(u.ratio(1, 9)?);
            lines.push(line(&key));
        }
        if u.ratio(1, 9)? {
            lines.push((u.choose(keys)?.id.to_string(), String::new()));
        }
        let mut view = KeyView::default();
        if u.ratio(3, 4)? {
            view.generation.clone_from(&model.generation);
        }
        view.seen = *u.choose(&[0, model.number, model.number, model.number + 1])?;
        let mut got = call(node, &view, &lines).await;
        let mut wanted = model.call(&view, &lines, &got.generation);
        // A place in the answer, where a number was no integer, has no id.
        got.records
            .retain(|(id, _)| ![LONE_ID, ""].contains(&&**id));
        got.records.sort();
        wanted.records.sort();
        assert_eq!(got, wanted, "{lines:?}");
    }
    Ok(())
}

/// Calls the script in a real store.
async fn call(node: &NodeConnection, view: &KeyView, lines: &[(String, String)]) -> Answer {
    let called = view.call(node, "", lines);
    called.await.unwrap()
}

#[test]
fn a_replica_does_not_answer_and_a_new_primary_answers_from_the_beginning() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = &store.connect().await;
        let address = "a@x.test".parse().unwrap();
        let of = (&address, Tier::Free);
        let (_, record) = KeyRecord::random(&KeyPrefix::default(), of, UnixSeconds(1));
        let mut view = KeyView::default();
        for (lines, count) in [(&[][..], 0), (&[line(&record)], 1)] {
            let answer = call(node, &view, lines).await;
            assert_eq!(view.take(answer).len(), count);
        }
        let answer = call(node, &view, &[]).await;
        assert_eq!((answer.seen, answer.records.len()), (1, 0), "a quiet state");
        // No server accepts connections at this port.
        run(node, &["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
        let refused = view.call(node, "", &[]).await.unwrap_err();
        assert!(refused.contains("READONLY"), "{refused}");
        // Its data may have been replaced meanwhile.
        run(node, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
        let answer = call(node, &view, &[line(&record)]).await;
        assert_ne!(answer.generation, view.generation);
        assert_eq!((answer.records.len(), answer.is_stored), (1, false));
        assert_eq!(view.take(answer).len(), 1, "the exchange goes on");
        assert!(call(node, &view, &[line(&record)]).await.is_stored);
    });
}

/// The store does nothing else meanwhile.
#[test]
fn a_generation_begins_with_few_commands_for_each_record() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = &store.connect().await;
        let fill = "for n = 10001, 15000 do redis.call('HSET', KEYS[1], 'abcde' .. n, '{}') end";
        run(node, &["EVAL", fill, "1", KEYS[0]]).await.unwrap();
        run(node, &["CONFIG", "RESETSTAT"]).await.unwrap();
        let answer = call(node, &KeyView::default(), &[]).await;
        assert_eq!((answer.seen, answer.records.len()), (PAGE as u64, PAGE));
        assert_eq!(count_calls(node, "zadd").await, 11);
    });
}

/// Calls of a command since the counts were reset.
async fn count_calls(node: &NodeConnection, command: &str) -> u32 {
    let mut info = redis::cmd("INFO");
    let info = info.arg("commandstats");
    let info = info.query_async(&mut node.connection.clone()).await;
    let info: redis::InfoDict = info.unwrap();
    let counts: String = info.get(&format!("cmdstat_{command}")).unwrap();
    let calls = counts.split(['=', ',']).nth(1).unwrap();
    calls.parse().unwrap()
}

#[test]
fn an_addition_before_which_another_server_has_added_a_key_needs_one_more_call() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let Some(store) = TestStore::start() else {
        return;
    };
    let node = &runtime.block_on(store.connect());
    let name = format!("im-keys-{}-addition", std::process::id());
    let own = OwnKeys {
        store: KeyStore::new(&std::env::temp_dir().join(name)),
        loader: PollTrigger::start("keys", |_| {}).unwrap(),
        has_signup: false,
        secret: None,
    };
    let ((started, _), (log, _lines)) = (mpsc::channel(), Log::received());
    let sharing = KeyExchange::start(own, settings(&node.node), started, log).unwrap();
    let key = |address: &str| {
        let address = address.parse().unwrap();
        KeyRecord::random(
            &KeyPrefix::default(),
            (&address, Tier::Free),
            UnixSeconds(1),
        )
        .1
    };
    // The store has no keys: other servers may be about to put theirs.
    let state = || *lock(&sharing.state);
    while !state().is_up {
        thread::yield_now();
    }
    assert!(!state().has_exchanged);
    let early = (sharing.add)(&key("a@x.test"), &mut |_| true);
    assert!(!early, "a limit could not be checked");
    while !state().has_exchanged {
        thread::yield_now();
    }
    let mut known = Vec::new();
    let is_added = (sharing.add)(&key("a@x.test"), &mut |records| {
        known.push(records.as_slice().len());
        runtime.block_on(async {
            if known.len() == 1 {
                run(node, &["CONFIG", "RESETSTAT"]).await.unwrap();
                let mut view = KeyView::default();
                view.take(call(node, &view, &[]).await);
                let added = call(node, &view, &[line(&key("b@x.test"))]).await;
                assert!(added.is_stored);
            } else {
                assert_eq!(
                    count_calls(node, "evalsha").await,
                    3,
                    "two of the other server"
                );
            }
        });
        true
    });
    assert!(is_added);
    assert_eq!(known, [0, 1]);
}

#[test]
fn of_two_servers_that_have_checked_the_same_records_one_adds_a_key() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = &store.connect().await;
        let address = "a@x.test".parse().unwrap();
        let of = (&address, Tier::Free);
        let key = || KeyRecord::random(&KeyPrefix::default(), of, UnixSeconds(1)).1;
        let (mut first, mut second) = (KeyView::default(), KeyView::default());
        for view in [&mut first, &mut second] {
            let answer = call(node, view, &[]).await;
            assert_eq!(view.take(answer), []);
        }
        let (of_first, of_second) = (key(), key());
        assert!(call(node, &first, &[line(&of_first)]).await.is_stored);
        let answer = call(node, &second, &[line(&of_second)]).await;
        assert!(!answer.is_stored);
        let received = second.take(answer);
        assert_eq!(
            received.iter().map(|key| key.id).collect::<Vec<_>>(),
            [of_first.id]
        );
        assert!(call(node, &second, &[line(&of_second)]).await.is_stored);
    });
}

#[test]
fn values_that_no_server_writes_do_not_stay() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = &store.connect().await;
        let (long, [keys, changes]) = ("{".repeat(2_000), KEYS);
        let stored = async || {
            let mut stored = Vec::new();
            for id in [NO_ID, LONE_ID] {
                let mut command = redis::cmd("HEXISTS");
                command.arg(keys).arg(id);
                let is_stored = command.query_async(&mut node.connection.clone()).await;
                stored.push(is_stored.unwrap());
            }
            <[bool; 2]>::try_from(stored).unwrap()
        };
        let mut view = KeyView::default();
        // Of ids that no server knows: while servers exchange keys, and before a generation begins.
        for (id, value, number) in [
            (NO_ID, &*long, Some("1000")),
            (LONE_ID, "x", Some("2000")),
            (NO_ID, &long, None),
            (LONE_ID, "x", None),
        ] {
            view.take(call(node, &view, &[]).await);
            run(node, &["HSET", keys, id, value]).await.unwrap();
            if let Some(number) = number {
                run(node, &["ZADD", changes, number, id]).await.unwrap();
            } else {
                run(node, &["DEL", changes]).await.unwrap();
                view = KeyView::default();
            }
            for _ in 0..4 {
                let lines = view.next_lines(Arc::default());
                view.take(call(node, &view, &lines).await);
            }
            assert!(!view.is_incomplete());
            assert_eq!(stored().await, [false; 2], "{id} {number:?}");
        }
    });
}

#[test]
fn servers_that_send_many_keys_at_once_have_all_of_them_in_the_end() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(store) = TestStore::start() else {
            return;
        };
        let node = &store.connect().await;
        let name = format!("im-keys-{}-pages", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let address = "a@x.test".parse().unwrap();
        let of = (&address, Tier::Pro);
        let key = |_| KeyRecord::random(&KeyPrefix::default(), of, UnixSeconds(1)).1;
        let mut servers = [0, 1, PAGE, 2 * PAGE + 1].map(|count| {
            let keys = KeyStore::new(&directory.join(count.to_string()));
            let own: Vec<KeyRecord> = (0..count).map(key).collect();
            keys.merge(&own).unwrap();
            (keys, KeyView::default())
        });
        for round in 0.. {
            assert!(round < 40, "the exchange does not end");
            let mut calls = 0;
            for (keys, view) in &mut servers {
                let lines = view.next_lines(keys.known());
                let received = view.take(call(node, view, &lines).await);
                keys.merge(&received).unwrap();
                calls += usize::from(view.is_incomplete() || !received.is_empty());
            }
            if calls == 0 {
                break;
            }
        }
        for (keys, _) in &servers {
            assert_eq!(keys.known().as_slice().len(), 3 * PAGE + 2);
        }
    });
}

#[test]
fn the_manual_names_the_secret_of_the_store() {
    let step = format!("`HDEL {} secret`", KEYS[0]);
    assert!(include_str!("../../data/README.md").contains(&step));
}
