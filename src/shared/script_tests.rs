//! The scripts in a real store, compared with the plain rules. Requires `redis-server` or
//! `valkey-server`.

use tokio::runtime::Builder;

use super::super::store_tests::{TestStore, run};
use super::*;
use crate::calendar::UnixSeconds;
use crate::quota::{JoinModel, StoreModel};

/// Steps of a comparison with the model.
const STEPS: usize = 4_000;

fn today() -> UtcDay {
    UnixSeconds::now().day()
}

/// A time of a day.
fn time_of(day: UtcDay) -> RequestTime {
    RequestTime {
        day,
        moment: UnixSeconds(day.end().0 - 3_600),
    }
}

fn request(client: u64) -> LeaseRequest {
    LeaseRequest {
        client: LeaseClient::Anonymous(client),
        day: today(),
        granted: 0,
        counted: 0,
        limit: 9,
        action: LeaseAction::Grant(1),
    }
}

/// Runs a test in a store; nothing if there is no program of one.
fn in_store(test: impl AsyncFnOnce(&TestStore)) {
    if let Some(store) = TestStore::start() {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test(&store));
    }
}

/// A start of a server, and its state.
struct Start {
    directory: u32,
    number: u32,
    client: StoreClient,
    marker: u32,
    settled: Option<u32>,
}

impl Start {
    fn new(directory: u32, number: u32) -> Start {
        Start {
            directory,
            number,
            client: StoreClient {
                directory: directory.into(),
                start: number.into(),
                servers: 3,
                marker: String::new(),
                is_settled: false,
                has_counts: false,
            },
            marker: 0,
            settled: None,
        }
    }
}

/// A store, and the model of one.
struct Both {
    node: NodeConnection,
    model: StoreModel,
    run: u32,
    markers: u32,
}

impl Both {
    /// Registers a start of a server, and passes a batch of requests.
    async fn call(
        &mut self,
        start: &mut Start,
        day: UtcDay,
        is_settled: bool,
        batch: &[LeaseRequest],
    ) {
        let has_counts = start.marker % 3 == 1;
        let mut now = time_of(day);
        let ends_soon = self.markers % 3 == 1;
        now.moment.0 += i64::from(ends_soon);
        self.markers += 1;
        if is_settled {
            start.settled = Some(start.marker);
        }
        let name = |marker: u32| format!("{marker:016x}");
        start.client.marker = name(start.marker);
        start.client.is_settled = start.settled == Some(start.marker);
        start.client.has_counts = has_counts;
        self.node.run_id = self.run.to_string();
        let answer = start
            .client
            .call(&self.node, self.markers.into(), 7, now, batch)
            .await
            .unwrap();
        let (marker, has_reserves) = self.model.join(&JoinModel {
            new_marker: self.markers,
            run: self.run,
            directory: start.directory,
            day,
            servers: 3,
            settled: start.settled,
            has_counts,
            ends_soon,
        });
        assert_eq!(answer.marker, name(marker));
        assert_eq!(answer.tag_seed, 7);
        assert_eq!(answer.blocked, self.model.blocked());
        let from = (start.marker, start.directory, start.number);
        let expected = batch
            .iter()
            .map(|request| self.model.handle(from, request, 3));
        let expected: Option<Vec<LeaseAnswer>> = expected.collect();
        assert_eq!(answer.leases, expected.unwrap_or_default(), "{batch:?}");
        assert_eq!(answer.reserve_day, has_reserves.then_some(day));
        let memory = answer.memory.get::<u64>("used_memory");
        assert!(memory > Some(0) || self.model.sent.contains(&start.directory) && memory.is_none());
        start.marker = marker;
    }
}

fn random_request(rng: &mut impl FnMut(u32) -> u32) -> LeaseRequest {
    LeaseRequest {
        client: match rng(3) {
            0 => LeaseClient::Key(u64::from(rng(2))),
            _ => LeaseClient::Anonymous(u64::from(rng(2))),
        },
        day: UtcDay(today().0 + rng(2).cast_signed()),
        granted: rng(30),
        counted: rng(4) * rng(8),
        limit: 100 * rng(3),
        action: match rng(6) {
            0 => LeaseAction::Settle,
            1 => LeaseAction::Return,
            wanted => LeaseAction::Grant(wanted),
        },
    }
}

#[test]
fn the_scripts_agree_with_the_plain_rules() {
    in_store(async |store| {
        let mut both = Both {
            node: store.connect().await,
            model: StoreModel::default(),
            run: 1,
            markers: 0,
        };
        let mut starts: Vec<Start> = (1..4).map(|number| Start::new(number, number)).collect();
        let mut numbers = 3;
        let random = ahash::RandomState::new();
        let mut drawn = 0_u64;
        let mut rng = |below: u32| {
            drawn += 1;
            u32::try_from(random.hash_one(drawn) % u64::from(below)).unwrap()
        };
        for start in &mut starts {
            both.call(start, today(), false, &[]).await;
        }
        for _ in 0..STEPS {
            let at = rng(3) as usize;
            match rng(20) {
                0..=3 => {
                    let day = UtcDay(today().0 + rng(2).cast_signed());
                    let is_settled = rng(2) == 0;
                    both.call(&mut starts[at], day, is_settled, &[]).await;
                }
                4 if rng(4) == 0 => {
                    run(&both.node, &["FLUSHALL"]).await.unwrap();
                    both.model = StoreModel::default();
                }
                5 if rng(4) == 0 => both.run += 1,
                6 => {
                    numbers += 1;
                    starts[at] = Start::new(starts[at].directory, numbers);
                    both.call(&mut starts[at], today(), false, &[]).await;
                }
                _ => {
                    let batch: Vec<_> = (0..=rng(3)).map(|_| random_request(&mut rng)).collect();
                    both.call(&mut starts[at], today(), false, &batch).await;
                }
            }
        }
    });
}

/// One of three servers that have joined an empty store and sent their counts.
async fn joined(store: &TestStore) -> (Both, Start) {
    let mut both = Both {
        node: store.connect().await,
        model: StoreModel::default(),
        run: 1,
        markers: 0,
    };
    let mut start = Start::new(0, 0);
    for number in 1..4 {
        start = Start::new(number, number);
        both.call(&mut start, today(), false, &[]).await;
        both.call(&mut start, today(), true, &[]).await;
    }
    (both, start)
}

#[test]
fn figures_expire_an_hour_after_their_day() {
    in_store(async |store| {
        let (mut both, mut start) = joined(store).await;
        let request = request(0x1_7f00_0001);
        both.call(&mut start, today(), false, &[request]).await;
        let name = key(&request);
        assert_eq!(name, format!("imq:3:{}:a:17f000001", today()));
        // By the clock of the servers, whatever that of the store says.
        let (today, years_ahead) = (today(), UtcDay(47_482));
        let tomorrow = UtcDay(today.0 + 1);
        for (now, day) in [
            (today, today),
            (today, tomorrow),
            (years_ahead, years_ahead),
        ] {
            let request = LeaseRequest { day, ..request };
            both.call(&mut start, now, false, &[request]).await;
            let mut expiry = redis::cmd("TTL");
            expiry.arg(key(&request));
            let expiry: i32 = expiry.query_async(&mut both.node.connection).await.unwrap();
            let gone = (day.0 - now.0) * 86_400 + 3_600 + 3_600 - expiry;
            assert!((0..60).contains(&gone), "{day}: {expiry}");
        }
    });
}

#[test]
fn the_seed_is_final_when_all_servers_have_sent_their_counts() {
    in_store(async |store| {
        let node = store.connect().await;
        // Server, seed, whether it has counts of today, and whether it has sent them.
        let new = [
            (1, 7, false, false),
            (2, 8, false, false),
            (3, 9, false, false),
        ];
        let settle = |seed| [1, 2, 3].map(|server| (server, seed, false, true));
        let with_counts = [(2, 10, true, false)];
        for (calls, expected) in [
            (&[&new[..], &settle(7), &with_counts].concat(), 7),
            (&[&new[..], &with_counts, &settle(10)].concat(), 10),
        ] {
            run(&node, &["FLUSHALL"]).await.unwrap();
            let mut seed = 0;
            for (server, own, has_counts, is_settled) in calls {
                let mut client = Start::new(*server, *server).client;
                client.has_counts = *has_counts;
                if *is_settled {
                    client.marker = format!("{:016x}", 1);
                    client.is_settled = true;
                }
                let answer = client.call(&node, 1, *own, time_of(today()), &[]).await;
                seed = answer.unwrap().tag_seed;
            }
            assert_eq!(seed, expected);
        }
    });
}

#[test]
fn a_node_that_was_a_replica_has_lost_data() {
    in_store(async |store| {
        // Two servers, which stay connected.
        let mut servers = [1, 2].map(|number| Start::new(number, number).client);
        let node = store.connect().await;
        let mut markers = Vec::new();
        for new_marker in 1..7 {
            for client in &mut servers {
                let answer = client
                    .call(&node, new_marker, 7, time_of(today()), &[])
                    .await;
                client.marker = answer.unwrap().marker;
                client.is_settled = true;
                markers.push(client.marker.clone());
            }
            if new_marker == 3 {
                run(&node, &["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
                run(&node, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
                // For so long, it is not looked up again.
                tokio::time::sleep(ANSWER_MAX / 4).await;
            }
        }
        markers.dedup();
        assert_eq!(markers.len(), 2, "one new marker, and no other one later");
    });
}

#[test]
fn what_no_server_writes_counts_as_nothing() {
    in_store(async |store| {
        let (mut both, mut start) = joined(store).await;
        let mut node = store.connect().await;
        node.run_id.clone_from(&both.node.run_id);
        let write = async |words: &[&str]| run(&node, words).await.unwrap();
        // Values of another type, and texts and numbers in place of credits.
        let names: Vec<String> = (0..3).map(|client| key(&request(client))).collect();
        write(&["SET", &names[0], "text"]).await;
        let large = "9".repeat(1 << 20);
        for (field, value) in [
            ("1:2", "18446744073709551616"),
            ("2:0", "-5"),
            ("2:3", "1.5"),
            ("3:1", "nan"),
            ("4:1", "inf"),
            ("5:1", "text"),
            ("6:1", large.as_str()),
            ("total", "9"),
            ("limit", "1e99"),
        ] {
            write(&["HSET", &names[1], field, value]).await;
        }
        let batch: Vec<LeaseRequest> = (0..3).map(request).collect();
        let answer = start
            .client
            .call(&node, 9, 7, time_of(today()), &batch)
            .await;
        let answers = answer.unwrap().leases;
        let found: Vec<_> = answers
            .iter()
            .map(|found| (found.granted, found.total))
            .collect();
        assert_eq!(found, [(1, 1); 3]);
        let mut exists = redis::cmd("HEXISTS");
        exists.arg(&names[1]).arg("6:1");
        let is_there: bool = exists
            .query_async(&mut node.connection.clone())
            .await
            .unwrap();
        assert!(!is_there, "a long value makes each call slow");
        // The service: another type begins a new marker, other fields are removed.
        for value in ["-1", "99999999999", "text", large.as_str()] {
            write(&["HSET", SERVICE, &format!("s:{}", value.len()), value]).await;
        }
        write(&["HSET", SERVICE, "s:ab", "1"]).await; // a state directory without a server since 1970
        both.call(&mut start, today(), true, &[]).await;
        let mut keys = redis::cmd("HKEYS");
        keys.arg(SERVICE);
        let mut connection = node.connection.clone();
        let fields: Vec<String> = keys.query_async(&mut connection).await.unwrap();
        assert!(!fields.contains(&"s:ab".to_owned()), "{fields:?}");
        // However far the clock of the store is set forward, no figure of the day expires before the marker.
        let mut expiries = [0_u64; 2];
        for (name, expiry) in [SERVICE, names[1].as_str()].into_iter().zip(&mut expiries) {
            let mut expire = redis::cmd("EXPIRETIME");
            expire.arg(name);
            *expiry = expire.query_async(&mut connection).await.unwrap();
        }
        assert!((1..=expiries[1]).contains(&expiries[0]), "{expiries:?}");
        write(&["DEL", SERVICE]).await;
        write(&["SET", SERVICE, "text"]).await;
        both.model = StoreModel::default();
        both.call(&mut start, today(), false, &[]).await;
    });
}
