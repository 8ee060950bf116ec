//! Servers that share their keys by a store: each issues, revokes and restores them (CONTRACT section 9).

use crate::prelude::*;
use crate::sign_up::{KEEP, ask, mailed_target, mailer, make, pass, post, shown};
use crate::store::{Peer, Store};
use crate::store_proxy::{Mode, StoreProxy};

/// The contract's time for a change to reach every server.
const CHANGE_MAX: Duration = Duration::from_secs(2);
/// Tries of which one has to be within this time: a loaded machine may be late.
const TRIES: usize = 5;

const SHARE: [&str; 1] = ["--shared-keys"];
const SIGN_UP: [&str; 3] = ["--shared-keys", "--signup", "ip"];

/// The response to a key: 200 for a valid one, also if its quota is spent or cannot be known.
pub(crate) fn status(peer: &Peer, key: &str) -> u16 {
    let status = peer.connect().get(&format!("/v1?key={key}")).status;
    if [429, 503].contains(&status) {
        200
    } else {
        status
    }
}

fn await_status<'p>(peers: impl IntoIterator<Item = &'p Peer>, key: &str, wanted: u16) {
    for peer in peers {
        wait_for("the key", || status(peer, key) == wanted);
    }
}

/// Waits until a state directory has a key with a status. Servers apply a change before they write it.
pub(crate) fn await_stored(state: &Path, key: &str, status: &str) {
    let wanted = (id(key).to_owned(), status.to_owned());
    wait_for("the key in the file", || {
        listed_keys(state).contains(&wanted)
    });
}

fn issued_in(state: &Path, number: usize) -> String {
    issue(state, &format!("user{number}@x.test"), "free")
}

/// The page of keys. A server without the secret of all servers has none yet.
fn page(peer: &Peer) -> Reply {
    let begun = Instant::now();
    loop {
        let page = peer.connect().get("/keys");
        if page.text().contains("name=pass") {
            return page;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", page.text());
        thread::sleep(Duration::from_millis(250));
    }
}

/// The number of active keys in a state directory.
fn count_active(state: &Path) -> usize {
    let keys = listed_keys(state);
    keys.iter().filter(|(_, status)| status == "active").count()
}

fn await_exchange(peer: &Peer, is_up: f64) {
    wait_for("an exchange", || peer.keys_metric("up").eq(&is_up));
}

fn ready(peer: &Peer) -> Reply {
    Client::connect(peer.admin).get("/readyz")
}

/// Waits until the servers are ready: without any key, they give others time to put theirs into the store.
fn await_ready<'a>(peers: impl IntoIterator<Item = &'a Peer>) {
    for peer in peers {
        wait_for("readiness", || ready(peer).status == 200);
    }
}

#[test]
fn changes_on_any_server_reach_all_servers() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |at: usize| directory.join(&format!("state-{at}"));
    let peers = store.peers(&directory.join(""), 3, &SHARE);
    let mut fastest = Duration::MAX;
    for number in 0..TRIES {
        let [one, second, third] = [0, 1, 2].map(|at| (number + at) % 3);
        let key = issued_in(&state(one), number);
        await_status(&peers, &key, 200);
        await_stored(&state(second), &key, "active");
        let begun = Instant::now();
        change_key("revoke", &state(second), &key);
        await_status(&peers, &key, 403);
        fastest = fastest.min(begun.elapsed());
        await_stored(&state(third), &key, "revoked");
        change_key("restore", &state(third), &key);
        await_status(&peers, &key, 200);
    }
    assert!(fastest <= CHANGE_MAX, "{fastest:?}");
    // A key file that is lost gets back what the server knows, also from the others.
    let key = issued_in(&state(0), TRIES);
    await_status(&peers, &key, 200);
    fs::remove_file(state(1).join("keys.jsonl")).unwrap();
    await_stored(&state(2), &key, "active");
    // A store that is full of quotas passes changes of keys on, also to servers that connect then.
    assert_eq!(store.command("CONFIG SET maxmemory 1"), "+OK");
    change_key("revoke", &state(2), &key);
    await_status(&peers, &key, 403);
    wait_for("the file", || {
        let file = fs::read_to_string(state(1).join("keys.jsonl"));
        file.is_ok_and(|file| file.lines().count() == TRIES + 2)
    });
    // A server that begins with an empty state directory.
    let late = store.peer(&state(9), 3, &SHARE);
    assert_eq!(status(&late, &key), 403, "the first response");
}

#[test]
fn any_server_takes_the_form_of_another_one_and_all_together_issue_three_keys() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peers = store.peers(&directory.join(""), 3, &SIGN_UP);
    let form = page(&peers[0]);
    // One form, sent to all servers at the same time, makes one key.
    let issued: Vec<(&Peer, String)> = thread::scope(|scope| {
        let sent = peers.iter().map(|peer| {
            let make = || shown(&make(&mut peer.connect(), &form));
            (peer, scope.spawn(make))
        });
        let sent: Vec<_> = sent.collect();
        let made = sent.into_iter();
        made.filter_map(|(peer, key)| Some((peer, key.join().unwrap()?)))
            .collect()
    });
    let [(server, first)] = &issued[..] else {
        panic!("{} keys of one form", issued.len());
    };
    assert_eq!(status(server, first), 200, "at once");
    await_status(&peers, first, 200);
    // Forms at all servers at the same time, twice.
    for _ in 0..2 {
        thread::scope(|scope| {
            for peer in &peers {
                scope.spawn(|| make(&mut peer.connect(), &page(peer)).status);
            }
        });
    }
    let state = |at: usize| directory.join(&format!("state-{at}"));
    let counts = || [0, 1, 2].map(|at| count_active(&state(at)));
    wait_for("three keys on each server", || counts() == [3, 3, 3]);
    for peer in &peers {
        let form = page(peer);
        let refused = make(&mut peer.connect(), &form);
        assert_eq!((refused.status, shown(&refused)), (409, None));
    }
    // Another one once any server has revoked one.
    let fields = format!("do=revoke&id={}&pass={}", id(first), pass(&page(&peers[2])));
    assert_eq!(post(&mut peers[2].connect(), &fields, "").status, 200);
    await_status(&peers, first, 403);
    let reply = make(&mut peers[0].connect(), &page(&peers[0]));
    assert!(shown(&reply).is_some(), "{}", reply.text());
    wait_for("three keys on each server", || counts() == [3, 3, 3]);
}

#[test]
fn a_mailed_link_is_taken_by_another_server_and_after_the_loss_of_a_state_directory() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let program = mailer(&directory, KEEP);
    let words = ["--signup", "email", "--mailer", &program];
    let base = ["--base-url", "https://metrics.test/api"];
    let more = [&SHARE[..], &words, &base].concat();
    let peers = store.peers(&directory.join(""), 2, &more);
    await_ready(&peers);
    page(&peers[0]);
    assert_eq!(ask(&mut peers[0].connect(), "ann@x.test").status, 200);
    let target = mailed_target(&directory);
    let opened = peers[1].connect().get(&target);
    assert!(opened.text().contains("Keys of <bdi>ann@x.test</bdi>"));
    assert!(shown(&make(&mut peers[1].connect(), &opened)).is_some());
    wait_for("the key", || count_active(&directory.join("state-0")) == 1);
    // The store and one server lose all that they have.
    let [one, other] = <[Peer; 2]>::try_from(peers).ok().unwrap();
    assert!(other.server.terminate().success());
    fs::remove_dir_all(directory.join("state-1")).unwrap();
    store.kill();
    await_exchange(&one, 0.0);
    assert!(store.run());
    let state = directory.join("state-1");
    let other = store.peer(&state, 2, &more);
    wait_for("the key", || count_active(&state) == 1);
    page(&other);
    let opened = other.connect().get(&target);
    assert_eq!(opened.status, 200, "{}", opened.text());
    assert_eq!(opened.text().matches("value=revoke").count(), 1);
}

#[test]
fn forms_of_different_addresses_at_the_same_moment_all_get_a_key() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let more = [&SIGN_UP[..], &["--trusted-proxy", "127.0.0.1"]].concat();
    let proxies = [0, 1, 2].map(|_| StoreProxy::start(store.port));
    let peers: Vec<Peer> = proxies
        .iter()
        .enumerate()
        .map(|(at, proxy)| {
            let state = directory.join(&format!("state-{at}"));
            let peer = Peer::start(&proxy.url(), &state, 3, &more);
            page(&peer);
            // Every server has checked the records before the first addition arrives.
            proxy.set(Mode::Delay(Duration::from_millis(80)));
            peer
        })
        .collect();
    await_ready(&peers);
    let forms = peers.iter().zip(1..).map(|(peer, last)| {
        let address = format!("192.0.2.{last}");
        let page = peer
            .connect()
            .request("GET", "/keys", &[("X-Forwarded-For", &address)]);
        (peer, address, pass(&page))
    });
    let forms: Vec<_> = forms.collect();
    let keys: Vec<Option<String>> = thread::scope(|scope| {
        let sent = forms.iter().map(|(peer, address, pass)| {
            let header = format!("X-Forwarded-For: {address}\r\n");
            let fields = format!("do=issue&pass={pass}");
            scope.spawn(move || shown(&post(&mut peer.connect(), &fields, &header)))
        });
        let sent: Vec<_> = sent.collect();
        sent.into_iter().map(|key| key.join().unwrap()).collect()
    });
    for key in &keys {
        let key = key.as_ref().expect("a key for each address");
        await_status(&peers, key, 200);
    }
}

#[test]
fn a_key_is_shown_although_the_store_dies_or_its_answer_is_lost_once_it_is_added() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let proxy = StoreProxy::start(store.port);
    let state = directory.join("state");
    let peer = Peer::start(&proxy.url(), &state, 2, &SIGN_UP);
    for (count, mode) in [(1, Mode::CutKeyAnswer), (2, Mode::DropAfterKey)] {
        let form = page(&peer);
        proxy.set(mode);
        let reply = make(&mut peer.connect(), &form);
        let key = shown(&reply).unwrap_or_else(|| panic!("{mode:?}: {}", reply.text()));
        assert_eq!(status(&peer, &key), 200, "at once");
        assert_eq!(count_active(&state), count);
    }
}

/// The loss of a copy of the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    None,
    Emptied,
    /// An old copy takes its place.
    Replaced,
}

impl Loss {
    /// Removes a file or a directory, and puts the old copy in its place.
    fn cause(self, path: &Path, copy: &Path) {
        if self == Loss::None {
            return;
        }
        // It may be missing.
        let _ = fs::remove_dir_all(path);
        let _ = fs::remove_file(path);
        if self == Loss::Replaced {
            let copied = Command::new("cp").arg("-r").args([copy, path]).status();
            assert!(copied.unwrap().success());
        }
    }
}

#[test]
fn no_loss_of_two_copies_takes_a_key_or_a_revocation_away() {
    const LOSSES: [Loss; 3] = [Loss::None, Loss::Emptied, Loss::Replaced];
    let all = (0..27).map(|at| [at / 9, at / 3 % 3, at % 3].map(|loss| LOSSES[loss]));
    let is_pair = |losses: &[Loss; 3]| {
        let intact = losses.iter().filter(|loss| **loss == Loss::None);
        intact.count() == 1
    };
    let pairs: Vec<[Loss; 3]> = all.filter(is_pair).collect();
    assert_eq!(pairs.len(), 12);
    let directory = TempDir::new();
    // Most of the time is spent on waiting.
    for some in pairs.chunks(4) {
        thread::scope(|scope| {
            for losses in some {
                scope.spawn(|| lose(&directory, *losses));
            }
        });
    }
}

/// Causes losses of the store and of two servers.
fn lose(directory: &TempDir, [of_store, of_one, of_other]: [Loss; 3]) {
    let losses = format!("{of_store:?}-{of_one:?}-{of_other:?}");
    let path = |name: &str| directory.join(&format!("{losses}/{name}"));
    for name in ["store", "old"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    let store = Store::start(&["--dir", path("store").to_str().unwrap()]);
    let Some(mut store) = store else { return };
    let states = [path("state-0"), path("state-1")];
    let start = |store: &Store| states.each_ref().map(|state| store.peer(state, 2, &SHARE));
    let [one, other] = start(&store);
    let revoked = issued_in(&states[0], 0);
    await_status([&one, &other], &revoked, 200);
    for state in &states {
        await_stored(state, &revoked, "active");
    }
    assert_eq!(store.command("SAVE"), "+OK");
    for (name, old) in [
        ("store/dump.rdb", "dump.rdb"),
        ("state-0", "0"),
        ("state-1", "1"),
    ] {
        Loss::Replaced.cause(&path(&format!("old/{old}")), &path(name));
    }
    let new = issued_in(&states[1], 1);
    change_key("revoke", &states[0], &revoked);
    for (key, wanted) in [(&revoked, 403), (&new, 200)] {
        await_status([&one, &other], key, wanted);
    }
    for state in &states {
        await_stored(state, &revoked, "revoked");
        await_stored(state, &new, "active");
    }
    // What an exchange has merged is in the file, and the other server got it from the store.
    assert_eq!(store.command("SAVE"), "+OK");
    for peer in [one, other] {
        peer.server.kill();
    }
    store.kill();
    of_store.cause(&path("store/dump.rdb"), &path("old/dump.rdb"));
    of_one.cause(&states[0], &path("old/0"));
    of_other.cause(&states[1], &path("old/1"));
    assert!(store.run());
    let peers = start(&store);
    for (key, wanted) in [(&revoked, 403), (&new, 200)] {
        await_status(&peers, key, wanted);
    }
}

#[test]
fn without_the_store_commands_work_sign_up_issues_nothing_and_revokes() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |at: usize| directory.join(&format!("state-{at}"));
    let peers = store.peers(&directory.join(""), 2, &SIGN_UP);
    let shown_first = make(&mut peers[0].connect(), &page(&peers[0]));
    let own = shown(&shown_first).unwrap();
    let restored = issued_in(&state(1), 2);
    await_status(&peers, &own, 200);
    await_status(&peers, &restored, 200);
    await_stored(&state(0), &restored, "active");
    store.kill();
    for peer in &peers {
        peer.await_line("the known keys stay valid");
    }
    let form = page(&peers[1]);
    let refused = make(&mut peers[1].connect(), &form);
    assert_eq!((refused.status, shown(&refused)), (503, None));
    assert_eq!(refused.expect("retry-after"), "60");
    assert!(refused.text().contains("cannot be issued at the moment"));
    let fields = format!("do=revoke&id={}&pass={}", id(&own), pass(&form));
    assert_eq!(post(&mut peers[1].connect(), &fields, "").status, 200);
    let new = issued_in(&state(1), 1);
    await_status([&peers[1]], &own, 403);
    await_status([&peers[1]], &new, 200);
    assert_eq!(
        (status(&peers[0], &own), status(&peers[0], &new)),
        (200, 401)
    );
    // A server enables a key which another one has disabled before, although it is enabled there.
    change_key("revoke", &state(1), &restored);
    await_status([&peers[1]], &restored, 403);
    thread::sleep(Duration::from_secs(1));
    change_key("restore", &state(0), &restored);
    // A server that knows keys is ready, and one that never had any is not.
    let late = store.peer(&state(9), 2, &SIGN_UP);
    assert!(!ready(&peers[1]).text().contains("no keys are known"));
    let reply = ready(&late);
    assert_eq!(reply.status, 503);
    assert!(reply.text().starts_with("no keys are known: the store"));
    assert_eq!(late.connect().get("/keys").status, 503);
    // The store returns empty.
    assert!(store.run());
    for peer in [&peers[0], &peers[1], &late] {
        await_status([peer], &new, 200);
        await_status([peer], &own, 403);
        await_status([peer], &restored, 200);
    }
    peers[0].await_line("shared keys: exchanged with the store again");
    await_ready([&late]);
    assert!(shown(&make(&mut late.connect(), &page(&late))).is_some());
}

#[test]
fn exchanges_are_metrics() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = store.peer(&directory.join("state"), 2, &SHARE);
    await_exchange(&peer, 1.0);
    wait_for("exchanges", || {
        peer.keys_metric("exchange_age_seconds") < 1.0
    });
    let alone = store.peer(&directory.join("alone"), 2, &[]);
    let samples = metrics(alone.admin);
    assert!(!samples.keys().any(|name| name.contains("shared_keys_")));
    store.kill();
    await_exchange(&peer, 0.0);
    wait_for("its age", || peer.keys_metric("exchange_age_seconds") > 1.5);
}

#[test]
fn a_demoted_node_whose_link_is_down_is_left_by_all_servers() {
    let (Some(old), Some(new)) = (Store::start(&[]), Store::start(&[])) else {
        return;
    };
    assert_eq!(
        new.command(&format!("REPLICAOF 127.0.0.1 {}", old.port)),
        "+OK"
    );
    let directory = TempDir::new();
    let state = |at: usize| directory.join(&format!("state-{at}"));
    let url = new.url();
    let more = [&SHARE[..], &["--shared-quota", &url]].concat();
    let peers = old.peers(&directory.join(""), 2, &more);
    let key = issued_in(&state(0), 0);
    await_status(&peers, &key, 200);
    wait_for("the replica", || {
        new.command("ZCARD imq:2:keys:changes") == ":2"
    });
    assert_eq!(new.command("REPLICAOF NO ONE"), "+OK");
    // No server accepts connections at this port.
    assert_eq!(old.command("REPLICAOF 127.0.0.1 1"), "+OK");
    await_stored(&state(1), &key, "active");
    // Only one server has something to send.
    change_key("revoke", &state(1), &key);
    await_status(&peers, &key, 403);
    await_stored(&state(0), &key, "revoked");
    change_key("restore", &state(0), &key);
    await_status(&peers, &key, 200);
}

#[test]
fn a_revocation_reaches_a_server_whose_key_file_is_damaged() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |at: usize| directory.join(&format!("state-{at}"));
    let peers = store.peers(&directory.join(""), 2, &SHARE);
    let key = issued_in(&state(0), 0);
    await_status(&peers, &key, 200);
    let file = state(0).join("keys.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    write_file(&file, "damaged\n");
    await_stored(&state(1), &key, "active");
    change_key("revoke", &state(1), &key);
    await_status(&peers, &key, 403);
    // It cannot be stored, which is no fault of the store.
    peers[0].await_line("the known keys stay in use");
    assert!(peers[0].keys_metric("up").eq(&1.0));
    let connections = || {
        let script = "local n = string.match(redis.call('INFO', 'stats'), \
                      'total_connections_received:(%d+)') return tonumber(n)";
        let count = store.command(&format!("EVAL \"{script}\" 0"));
        count.trim_start_matches(':').parse::<u64>().unwrap()
    };
    let before = connections();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(connections() - before, 1, "this test has made one");
    write_file(&file, &whole);
    let stored = || fs::read_to_string(&file).unwrap();
    wait_for("the revocation in the file", || {
        stored().contains("\"revoked\":1")
    });
    assert_eq!(status(&peers[0], &key), 403);
}

/// URLs with a password.
const PASSWORD_URLS: &str = "
redis://u:sesame@h redis://:sesame@h rediss://u:sesame@h:6379 REDIS://u:sesame@h Redis://u:sesame@h
redis:/u:sesame@h redis:u:sesame@h redis:///u:sesame@h redis//u:sesame@h redis://u:sesame
redis://h:sesame redis://u:sesame@h/0 redis://u@sesame@h u:sesame@h http://u:sesame@h
redis://h?password=sesame
";

#[test]
fn a_password_in_a_url_is_refused_and_not_printed() {
    for url in words(PASSWORD_URLS)
        .into_iter()
        .chain([" redis://u:sesame@h"])
    {
        let joined = format!("--shared-quota={url}");
        for words in [
            &["serve", "--shared-quota", url][..],
            &["serve", &joined],
            &[
                "serve",
                "--shared-quota",
                "redis://h",
                "--shared-quota",
                url,
            ],
            &["serve", "--shared-quota", "redis://h", url],
            &["serve", url],
            &[url],
        ] {
            let output = run(words);
            let message = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(matches!(output.status.code(), Some(64 | 78)), "{words:?}");
            assert!(!message.contains("sesame"), "{message}");
        }
        let mut serve = command();
        let output = serve.arg("serve").env("ISLAND_METRICS_SHARED_QUOTA", url);
        let message = stderr_of(&output.output().unwrap(), 78);
        assert!(message.contains("ISLAND_METRICS_SHARED_QUOTA must be redis://"));
        assert!(!message.contains("sesame"), "{message}");
    }
}
