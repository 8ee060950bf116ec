//! Values in the store that no server has written: after any of them, all scripts work again. Requires `redis-server` or
//! `valkey-server`.

use std::sync::Arc;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};
use tokio::runtime::Builder;

use super::key_view::KeyView;
use super::node::NodeConnection;
use super::script::StoreClient;
use super::store_tests::TestStore;
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::keys::{KeyPrefix, KeyRecord, KeyRecords, KeyStore};
use crate::model::Tier;
use crate::quota::{LeaseAction, LeaseClient, LeaseRequest};

const DIRECTORIES: [u64; 3] = [1, 2, 3];
const TEXTS: &[&str] = &[
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "0.5",
    "1e300",
    "1099511627776",
    "1125899906842623",
    "99999999999999999999",
    "0x10",
    "",
    " ",
    "-",
    "text",
    "%%%%%%%%%%",
    "[[[[[[[[[[",
    "%f%f%f%f%f",
    "{}",
    "[]",
    "null",
    "0123456789",
    "0123456789abcdef",
    "0000000000000001 new",
    "1:2",
];

fn garbage(u: &mut Unstructured<'_>) -> Arbitrary<Vec<u8>> {
    let length = *u.choose(&[1, 10, 16, 33, 64, 2_000])?;
    Ok(match u.int_in_range(0..=2)? {
        0 => u.choose(TEXTS)?.as_bytes().to_vec(),
        1 => vec![u.arbitrary()?; length],
        _ => (0..length.min(64))
            .map(|_| u.arbitrary())
            .collect::<Arbitrary<_>>()?,
    })
}

/// The name of a field, or garbage in place of it.
fn name(u: &mut Unstructured<'_>, names: &[&str]) -> Arbitrary<Vec<u8>> {
    if u.ratio(1, 4)? {
        return garbage(u);
    }
    Ok(u.choose(names)?.as_bytes().to_vec())
}

/// A command that damages a key.
fn damage(u: &mut Unstructured<'_>, own: &KeyRecord) -> Arbitrary<Vec<Vec<u8>>> {
    let (today, id) = (today(), own.id.to_string());
    let (of_client, reserves) = (format!("imq:3:{today}:a:1"), format!("r:{}", today.0));
    let (credits, counted) = ("0000000000000001:0000000000000001", "0000000000000001:0");
    let service: &[&str] = &[
        "marker",
        "run",
        "tag",
        "day",
        "begun",
        "all",
        "s:0000000000000001",
        "s:0",
        &reserves,
    ];
    let hashes: [(&str, &[&str]); 3] = [
        ("imq:3:service", service),
        (&of_client, &[credits, counted, "limit"]),
        ("imq:2:keys", &["generation", "secret", &id]),
    ];
    let (numbers, probe) = ("imq:2:keys:changes", "imq:probe");
    let bytes = |text: &str| text.as_bytes().to_vec();
    Ok(match u.int_in_range(0..=9)? {
        0..=5 => {
            let (hash, names) = *u.choose(&hashes)?;
            vec![bytes("HSET"), bytes(hash), name(u, names)?, garbage(u)?]
        }
        6 | 7 => {
            let score = *u.choose(&["5", "0.5", "1.5", "inf", "-inf", "1e15", "1099511627775"])?;
            vec![
                bytes("ZADD"),
                bytes(numbers),
                bytes(score),
                name(u, &[&id])?,
            ]
        }
        8 => {
            let key = *u.choose(&["imq:3:service", &of_client, "imq:2:keys", numbers, probe])?;
            vec![bytes("SET"), bytes(key), garbage(u)?]
        }
        _ => {
            let (hash, names) = *u.choose(&hashes)?;
            vec![bytes("HDEL"), bytes(hash), name(u, names)?]
        }
    })
}

async fn send(node: &NodeConnection, words: &[Vec<u8>]) {
    let mut command = redis::Cmd::new();
    command.arg(words);
    // It fails where damage before it has changed the type.
    let _: Result<redis::Value, _> = command.query_async(&mut node.connection.clone()).await;
}

fn today() -> UtcDay {
    UnixSeconds::now().day()
}

/// Three servers that call the script of counts until credits are granted to a client whose figures are not damaged.
async fn lease(node: &NodeConnection, client: u64) {
    let mut servers = DIRECTORIES.map(|directory| StoreClient {
        directory,
        start: directory,
        servers: 3,
        marker: String::new(),
        is_settled: false,
        has_counts: false,
    });
    let now = RequestTime {
        day: today(),
        moment: UnixSeconds(today().end().0 - 1),
    };
    let mut request = LeaseRequest {
        client: LeaseClient::Anonymous(1),
        day: now.day,
        granted: 0,
        counted: 1,
        limit: 100,
        action: LeaseAction::Grant(1),
    };
    for round in 0..4 {
        for server in &mut servers {
            let new_marker = getrandom::u64().unwrap();
            let batch = [request];
            let called = server.call(node, new_marker, 7, now, &batch);
            let answer = called.await.unwrap();
            server.is_settled = server.marker == answer.marker;
            server.marker = answer.marker;
            if round == 3 {
                assert!(answer.blocked < today(), "{:?}", answer.blocked);
                assert!(answer.leases[0].granted > 0);
            }
        }
        if round == 2 {
            request.client = LeaseClient::Anonymous(client);
        }
    }
}

/// A server that exchanges its keys until nothing is missing. Returns the records that a server without any receives.
async fn exchange(node: &NodeConnection, own: Arc<KeyRecords>) -> Vec<KeyRecord> {
    let mut received: Vec<KeyRecord> = Vec::new();
    for records in [own, Arc::default()] {
        received.clear();
        let mut view = KeyView::default();
        for round in 0.. {
            assert!(round < 20, "the exchange does not end");
            let lines = view.next_lines(Arc::clone(&records));
            let answer = view.call(node, "", &lines).await.unwrap();
            let taken = view.take(answer);
            received.retain(|known| taken.iter().all(|key| key.id != known.id));
            received.extend(taken);
            if !view.is_incomplete() {
                break;
            }
        }
    }
    received
}

#[test]
fn no_value_in_the_store_stops_servers_for_longer_than_a_few_calls() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let directory = std::env::temp_dir().join(format!("im-garbage-{}", std::process::id()));
    let keys = KeyStore::new(&directory);
    let address = "a@x.test".parse().unwrap();
    let issued = keys.issue(&KeyPrefix::default(), &address, Tier::Free, UnixSeconds(1));
    assert!(issued.is_ok());
    let own = keys.current().unwrap();
    let key = &own.as_slice()[0];
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(store.connect());
    let mut client = 1;
    arbtest::arbtest(|u| {
        let mut commands = Vec::new();
        for _ in 0..u.int_in_range(1..=3)? {
            commands.push(damage(u, key)?);
        }
        client += 1;
        runtime.block_on(async {
            for command in &commands {
                send(&node, command).await;
            }
            // A server that starts.
            let new = store.connect().await;
            lease(&new, client).await;
            let received = exchange(&node, Arc::clone(&own)).await;
            let states = received.iter().map(KeyRecord::state);
            assert!(states.eq([key.state()]), "{commands:?}");
        });
        Ok(())
    })
    .budget_ms(5_000);
    std::fs::remove_dir_all(directory).unwrap();
}
