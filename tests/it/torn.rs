//! Publishes killed at any moment: what is published is the publish before or the one that was
//! killed, whole, a server that is asked all the while never fails, and the next publish sweeps up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::editions::{Change, Edition, Editions, MARKED_TARGET};
use crate::published::Published;
use crate::support::{Server, TempDir, kills};
use crate::world::Rng;

/// What is asked of a server all the time.
const TARGETS: [&str; 6] = [
    "/v1",
    "/v1/islands?limit=3",
    MARKED_TARGET,
    "/v1/live",
    "/v1/rankings",
    "/v1/health",
];

/// Fewer answers are no load.
const ANSWERS_LEAST: u32 = 60;

/// Runs a command to its end, which must be good.
#[track_caller]
pub(crate) fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Runs a command and kills it after a while; says whether it had ended well before.
fn ends_before(mut command: Command, patience: Duration) -> bool {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(patience);
    let _ended_meanwhile = child.kill();
    child.wait().unwrap().success()
}

/// How long each kind of publish takes when it is let be: the middle of five.
struct Usual {
    took: Vec<(Change, Duration)>,
    /// Percent of that, when others are at work on the machine.
    pace: u32,
}

impl Usual {
    fn measure(editions: &mut Editions, published: &Path) -> Usual {
        let took = Change::ALL.map(|change| {
            let mut took: Vec<Duration> = (0..5)
                .map(|_| {
                    let edition = editions.turn(change);
                    let command = editions.publish(&edition, published);
                    let begun = Instant::now();
                    succeeds(command);
                    begun.elapsed()
                })
                .collect();
            took.sort_unstable();
            (change, took[2])
        });
        Usual {
            took: took.into(),
            pace: 100,
        }
    }

    /// When to kill: anywhere, and a little after; one time in three near the end.
    fn moment(&self, change: Change, rng: &mut Rng) -> Duration {
        let (_, took) = self.took.iter().find(|(kind, _)| *kind == change).unwrap();
        let end = *took * self.pace / 90;
        let mut below =
            |end: Duration| Duration::from_micros(rng.below(end.as_micros().try_into().unwrap()));
        let anywhere = below(end);
        let near_the_end = end.saturating_sub(below(Duration::from_millis(3)));
        if rng.one_in(3) {
            near_the_end
        } else {
            anywhere
        }
    }

    /// Learns from how a kill came out, so that about one in three comes too late.
    fn hear(&mut self, came_too_late: bool) {
        let pace = if came_too_late { 82 } else { 110 };
        self.pace = (self.pace * pace / 100).clamp(50, 5000);
    }
}

/// Everything published so far or under way, by timestamp, for those who look at answers.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeMap<String, Edition>>);

impl Known {
    pub(crate) fn add(&self, edition: &Edition) {
        let mut known = self.0.lock().unwrap();
        known.insert(edition.generated_at.clone(), edition.clone());
    }

    fn get(&self, time: &str) -> Edition {
        let known = self.0.lock().unwrap();
        let Some(edition) = known.get(time) else {
            panic!("{time} was never published");
        };
        edition.clone()
    }
}

/// Asks until told to stop. Every answer is whole, of a known edition, and none is of an edition
/// before one that was seen. How many answers there were is counted as they come.
pub(crate) fn witness(server: &Server, known: &Known, done: &AtomicBool, answers: &AtomicU32) {
    let mut client = server.connect();
    let mut newest = [0; TARGETS.len()];
    while !done.load(Ordering::Relaxed) || answers.load(Ordering::Relaxed) < ANSWERS_LEAST {
        for (target, newest) in TARGETS.iter().zip(&mut newest) {
            let count = answers.fetch_add(1, Ordering::Relaxed);
            // No address asks more often than it may.
            let address = format!("198.51.100.{}", count / 50_000);
            let reply = client.request("GET", target, &[("X-Forwarded-For", &address)]);
            assert_eq!(reply.status, 200, "{target}: {}", reply.text());
            let answer = reply.json();
            let edition = known.get(answer["meta"]["generatedAt"].as_str().unwrap());
            assert!(
                edition.is_told_by(target, &answer),
                "{target}: {edition:?} is shown as {answer}"
            );
            // The newest timestamp of all payloads may fall where one was forced.
            if *target != "/v1/health" {
                assert!(
                    edition.number >= *newest,
                    "{target}: {edition:?} after number {newest}"
                );
                *newest = edition.number;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Tells threads of a scope to end, where a claim fails, too: else the scope would wait for ever.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server on a directory, whose client may name itself.
pub(crate) fn serve(published: &Path) -> Server {
    Server::of(published, &["--trusted-proxy", "127.0.0.0/8"])
}

/// Runs `work` while a server on the directory is asked; every answer must be as [`witness`] wants.
pub(crate) fn while_served<T>(published: &Path, known: &Known, work: impl FnOnce() -> T) -> T {
    let server = serve(published);
    let (done, answers) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| witness(&server, known, &done, &answers));
        let _done = SetOnDrop(&done);
        work()
    })
}

/// What a server on the directory answers, but for timestamps.
fn answers_of(published: &Path) -> Vec<Value> {
    fn without_time(mut answer: Value) -> Value {
        for pointer in ["/generatedAt", "/lastPublish", "/meta/generatedAt"] {
            if let Some(time) = answer.pointer_mut(pointer) {
                time.take();
            }
        }
        answer
    }
    let server = serve(published);
    let mut client = server.connect();
    let more = ["/v1/creators", "/v1/live/intraday", "/v1/rankings/latest"];
    let targets = TARGETS.into_iter().chain(more);
    targets
        .map(|target| without_time(client.get(target).json()))
        .collect()
}

/// Whatever was cut short before, the directory answers as one that was published afresh, and its dumps
/// are the same.
#[track_caller]
pub(crate) fn answers_as_if_published_afresh(
    editions: &Editions,
    edition: &Edition,
    published: &Path,
) {
    let fresh = published.with_extension("fresh");
    succeeds(editions.publish(edition, &fresh));
    assert_eq!(answers_of(published), answers_of(&fresh), "{edition:?}");
    let [dumps, want] = [published, &fresh].map(|path| Published::at(path).dumps());
    assert_eq!(dumps, want, "{edition:?}");
    fs::remove_dir_all(fresh).unwrap();
}

#[test]
fn a_publish_killed_at_any_moment_leaves_the_one_before_or_itself() {
    let dir = TempDir::new();
    let mut editions = Editions::begin(&dir.join("dataset"));
    let published = Published::at(&dir.join("published"));
    let mut usual = Usual::measure(&mut editions, published.path());
    let known = Known::default();
    let first = editions.turn(Change::All);
    known.add(&first);
    succeeds(editions.publish(&first, published.path()));
    let mut rng = Rng(11);
    let (mut cut, mut whole) = (0, 0);
    while_served(published.path(), &known, || {
        for kill in 0..kills() {
            let before = published.manifest();
            let change = Change::ALL[usize::try_from(rng.below(5)).unwrap()];
            let edition = editions.turn(change);
            known.add(&edition);
            let command = editions.publish(&edition, published.path());
            let ended_well = ends_before(command, usual.moment(change, &mut rng));
            published.is_sound();
            let is_whole = published.shows_one_of(before.as_ref(), &edition, ended_well);
            usual.hear(is_whole);
            if is_whole {
                whole += 1;
            } else {
                cut += 1;
            }
            // Now and then several kills lie between two publishes that are let be.
            if rng.one_in(3) {
                let before = published.manifest();
                let edition = editions.turn(change);
                known.add(&edition);
                succeeds(editions.publish(&edition, published.path()));
                published.is_sound();
                published.is_swept(before.as_ref());
                if kill % 8 == 0 {
                    answers_as_if_published_afresh(&editions, &edition, published.path());
                }
            }
        }
    });
    assert!(
        cut > 0 && whole > 0,
        "{cut} cut short, {whole} not: kills come too late or too early"
    );
}

#[test]
fn a_first_publish_killed_at_any_moment_is_whole_or_nothing() {
    let dir = TempDir::new();
    let mut editions = Editions::begin(&dir.join("dataset"));
    let usual = Usual::measure(&mut editions, &dir.join("measured"));
    let mut rng = Rng(12);
    for kill in 0..kills() / 5 {
        let published = Published::at(&dir.join(&format!("published-{kill}")));
        let edition = editions.turn(Change::All);
        let command = editions.publish(&edition, published.path());
        let ended_well = ends_before(command, usual.moment(Change::All, &mut rng));
        if published.shows_one_of(None, &edition, ended_well) {
            published.is_sound();
        }
        let before = published.manifest();
        let edition = editions.turn(Change::Live);
        succeeds(editions.publish(&edition, published.path()));
        published.is_sound();
        published.is_swept(before.as_ref());
        answers_as_if_published_afresh(&editions, &edition, published.path());
        fs::remove_dir_all(published.path()).unwrap();
    }
}
