//! Files damaged under a running server: a damaged body is never sent, does not affect others, is
//! logged in one line however often it is requested, and is served again once it is repaired and reloaded.

use memchr::memmem;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::prelude::*;

const LATER: &str = "2026-11-21T00:20:00Z";
const LISTS: &str =
    "/v1 /v1/islands?limit=200 /v1/creators?limit=200 /v1/islands?sort=plays&order=asc&limit=7";

/// A published dataset, and all its responses: targets by coding, with their bodies.
struct Published {
    dir: TempDir,
    directory: PathBuf,
    history: PathBuf,
    answers: BTreeMap<(String, bool), Vec<u8>>,
}

impl Published {
    fn new() -> Published {
        let dir = TempDir::new();
        let directory = World::with_more_than(25, 3, 40).publish(&dir);
        let lists = words(LISTS).into_iter();
        let mut targets: Vec<String> = lists.map(str::to_owned).collect();
        let scout = Server::of(&directory, &[]);
        let mut client = scout.connect();
        for (list, field) in [("islands", "code"), ("creators", "slug")] {
            let page = client.get(&format!("/v1/{list}?limit=200")).json();
            for row in page[list].as_array().unwrap() {
                let name = row[field].as_str().unwrap();
                let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
                targets.push(format!("/v1/{list}/{name}"));
                if list == "islands" {
                    targets.push(format!("/v1/{list}/{name}/ccu"));
                }
            }
        }
        let mut answers = BTreeMap::new();
        for target in targets {
            for gzip in [false, true] {
                let reply = client.get_coded(&target, gzip);
                assert_eq!(reply.status, 200, "{target}: {}", reply.text());
                answers.insert((target.clone(), gzip), reply.body);
            }
        }
        Published {
            dir,
            history: history_file(&directory),
            directory,
            answers,
        }
    }

    /// The position of each body in the file, where it is stored as it is sent with gzip.
    fn bodies(&self) -> BTreeMap<&str, (u64, usize)> {
        let file = fs::read(&self.history).unwrap();
        let mut found = BTreeMap::new();
        for ((target, gzip), body) in &self.answers {
            if *gzip && !words(LISTS).contains(&target.as_str()) {
                let at = memmem::find(&file, body).unwrap();
                found.insert(target.as_str(), (at as u64, body.len()));
            }
        }
        found
    }

    /// Requests everything with gzip and without. Exactly `failing` must fail, and the rest be as
    /// published.
    #[track_caller]
    fn assert_only_these_fail(&self, client: &mut Client, failing: &BTreeSet<&str>) {
        for ((target, gzip), body) in &self.answers {
            let reply = client.get_coded(target, *gzip);
            if failing.contains(target.as_str()) {
                is_refused(&reply, target);
            } else {
                assert_eq!(reply.status, 200, "{target}: {}", reply.text());
                assert!(reply.body == *body, "{target} is another");
            }
        }
    }

    /// Waits until everything is served again.
    #[track_caller]
    fn await_recovery(&self, client: &mut Client, target: &str) {
        wait_for(target, || client.get(target).status == 200);
        self.assert_only_these_fail(client, &BTreeSet::new());
    }
}

#[track_caller]
fn is_refused(reply: &Reply, target: &str) {
    assert_eq!(reply.status, 500, "{target}: {}", reply.text());
    assert_eq!(reply.json()["error"]["code"], "internal", "{target}");
    for name in ["limit", "remaining", "reset"] {
        let value = reply.expect(&format!("x-ratelimit-{name}"));
        assert!(value.parse::<u64>().is_ok(), "{name} is {value}");
    }
}

/// A server with an admin listener, and the address of that.
pub(crate) fn monitored(directory: &Path, words: &[&str]) -> (Server, SocketAddr) {
    let (admin, port) = address();
    let words = [words, &["--admin", &port]].concat();
    (Server::of(directory, &words), admin)
}

pub(crate) fn failed_responses(admin: SocketAddr) -> f64 {
    metrics(admin)["island_metrics_snapshot_damaged_answers_total"]
}

/// Requires that many failed responses in the metrics; returns the log lines about damage, of which
/// there is one in ten seconds.
#[track_caller]
fn expect_damage(server: &Server, admin: SocketAddr, count: u32, begun: Instant) -> Vec<String> {
    let counted = failed_responses(admin);
    assert!(
        (counted - f64::from(count)).abs() < 0.1,
        "{counted} of {count}"
    );
    let logged = || {
        let lines = server.lines().into_iter();
        lines.filter(|line| line.contains("could not be sent: "))
    };
    wait_for("a line", || logged().count() > 0);
    let lines: Vec<String> = logged().collect();
    assert!(
        lines.len() as u64 <= 1 + begun.elapsed().as_secs() / 10,
        "{lines:#?}"
    );
    lines
}

#[test]
fn check_names_each_file_that_is_damaged_or_missing() {
    let published = Published::new();
    let check = || {
        let path = published.directory.to_str().unwrap();
        code_and_stderr(run(&["check", "--published", path]))
    };
    let manifest = published.directory.join("manifest.json");
    let named: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let live = named["live"]["file"].as_str().unwrap();
    fs::remove_file(published.directory.join(live)).unwrap();
    let (offset, _) = published.bodies().into_values().next().unwrap();
    flip(&published.history, offset, 16);
    let dumps = files(&published.directory.join("dumps"));
    let dumps: Vec<&String> = dumps.keys().take(2).collect();
    let dump = |at: usize| published.directory.join("dumps").join(dumps[at]);
    fs::remove_file(dump(0)).unwrap();
    flip(&dump(1), 0, 1);
    let (code, stderr) = check();
    let history = published.history.to_str().unwrap();
    for place in [live, history, dumps[0], dumps[1]] {
        assert!(stderr.contains(place), "{place}: {stderr}");
    }
    assert_eq!((code, stderr.lines().count()), (Some(65), 4), "{stderr}");
    write_file(&manifest, "{");
    assert_eq!(check().0, Some(65));
    fs::remove_file(&manifest).unwrap();
    let (code, stderr) = check();
    has(&stderr, "nothing is published here");
    assert_eq!(code, Some(74));
}

#[test]
fn a_damaged_body_fails_alone_and_is_counted_and_logged_once_in_ten_seconds() {
    let published = Published::new();
    let bodies = published.bodies();
    let (target, (offset, length)) = bodies.iter().nth(bodies.len() / 2).unwrap();
    let (server, admin) = monitored(&published.directory, &[]);
    let mut client = server.connect();
    let before = client.get("/v1").left();
    let damaged = offset + *length as u64 / 2;
    flip(&published.history, damaged, 16);
    let checked = run(&words(&format!(
        "check --published {}",
        published.directory.display()
    )));
    stderr_of(&checked, 65);
    let begun = Instant::now();
    for round in 0..500 {
        let reply = client.get_coded(target, round % 3 == 0);
        is_refused(&reply, target);
        assert_eq!(
            reply.left(),
            before - 1 - round,
            "it is counted like any other"
        );
    }
    for line in expect_damage(&server, admin, 500, begun) {
        let place = format!(
            "a response could not be sent: {}: a body at byte {offset} is damaged: checksum ",
            published.history.display()
        );
        let names_remedy = line.ends_with("; publish again with --full");
        assert!(line.contains(&place) && names_remedy, "{line}");
    }
    published.assert_only_these_fail(&mut client, &[*target].into());
    expect_damage(&server, admin, 502, begun);
    // It was never cached: as soon as the file is repaired, the body is served.
    flip(&published.history, damaged, 16);
    published.assert_only_these_fail(&mut client, &BTreeSet::new());
    expect_damage(&server, admin, 502, begun);
}

#[test]
fn a_file_cut_short_fails_only_for_what_was_not_read_yet() {
    let published = Published::new();
    let bodies = published.bodies();
    let mut places: Vec<(u64, usize, &str)> = bodies
        .iter()
        .map(|(target, (offset, length))| (*offset, *length, *target))
        .collect();
    places.sort_unstable();
    let (server, admin) = monitored(&published.directory, &[]);
    let (mut client, begun) = (server.connect(), Instant::now());
    // Every third is read before.
    for (_, _, target) in places.iter().step_by(3) {
        for gzip in [false, true] {
            assert_eq!(client.get_coded(target, gzip).status, 200);
        }
    }
    let (offset, length, _) = places[places.len() / 2];
    let end = offset + length as u64 - 1;
    let file = File::options()
        .write(true)
        .open(&published.history)
        .unwrap();
    file.set_len(end).unwrap();
    let unread = (0..).zip(&places).filter(|(at, _)| at % 3 != 0);
    let failing: BTreeSet<&str> = unread
        .filter(|(_, (offset, length, _))| offset + *length as u64 > end)
        .map(|(_, (_, _, target))| *target)
        .collect();
    assert!(failing.len() > 5 && failing.len() < bodies.len() / 2);
    published.assert_only_these_fail(&mut client, &failing);
    let count = u32::try_from(2 * failing.len()).unwrap();
    let lines = expect_damage(&server, admin, count, begun);
    let place = format!("{}: a body at byte ", published.history.display());
    let parts = [
        &place,
        " it cannot be read: ",
        "; publish again with --full",
    ];
    assert!(
        parts.iter().all(|part| lines[0].contains(part)),
        "{lines:#?}"
    );
    // Published again under a later time, it is served again.
    publish(&published.dir.join("dataset"), &published.directory, LATER);
    shows(&mut client, LATER);
    for target in bodies.keys() {
        assert_eq!(client.get(target).status, 200, "{target}");
    }
}

#[test]
fn the_same_file_put_there_again_heals_at_a_reload() {
    let published = Published::new();
    let bodies = published.bodies();
    let (target, (offset, _)) = bodies.iter().next_back().unwrap();
    let server = Server::of(&published.directory, &[]);
    let mut client = server.connect();
    let copy = published.directory.join("copy");
    fs::copy(&published.history, &copy).unwrap();
    flip(&published.history, *offset, 16);
    is_refused(&client.get(target), target);
    server.await_line("a response could not be sent: ");
    // As a copy does that renames each file into place.
    fs::rename(copy, &published.history).unwrap();
    server.hang_up();
    published.await_recovery(&mut client, target);
    // The repaired file is served because it was read again: another flip is another failure.
    flip(&published.history, *offset, 16);
    let fresh = Server::of(&published.directory, &[]);
    is_refused(&fresh.connect().get(target), target);
}
