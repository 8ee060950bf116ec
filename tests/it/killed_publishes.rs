//! Publishes killed at random moments: the published directory has the previous or the killed
//! publish, complete; a server never fails meanwhile; and the next publish removes leftovers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dataset_versions::{Change, Edition, Editions, MARKED_TARGET};
use crate::processes::{SetOnDrop, stderr_of};
use crate::published::Published;
use crate::random_dataset::Rng;
use crate::support::{Server, TempDir, kills};

/// Requested from the server all the time.
const TARGETS: [&str; 6] = [
    "/v1",
    "/v1/islands?limit=3",
    MARKED_TARGET,
    "/v1/live",
    "/v1/rankings",
    "/v1/health",
];

/// Fewer responses are not a load.
const ANSWERS_LEAST: u32 = 60;

/// Runs a command, which must succeed.
#[track_caller]
pub(crate) fn succeeds(mut command: Command) {
    stderr_of(&command.output().unwrap(), 0);
}

/// Runs a command and kills it after a time; returns whether it had succeeded before.
fn ends_before(mut command: Command, patience: Duration) -> bool {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(patience);
    let _ended_meanwhile = child.kill();
    child.wait().unwrap().success()
}

/// Duration of each kind of publish without a kill: the median of five.
struct Usual {
    took: Vec<(Change, Duration)>,
    /// Percentage of that, adjusted to the load of the machine.
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

    /// A time to kill: anywhere or shortly after the end; one time in three near the end.
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

    /// Adjusts to the result of a kill, so that about one in three is too late.
    fn hear(&mut self, came_too_late: bool) {
        let pace = if came_too_late { 82 } else { 110 };
        self.pace = (self.pace * pace / 100).clamp(50, 5000);
    }
}

/// All editions published or being published, by timestamp.
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

/// Sends requests until the flag is set. Every response is complete and of a known edition, and none
/// is of an edition before one already seen. `answers` counts the responses.
pub(crate) fn witness(server: &Server, known: &Known, done: &AtomicBool, answers: &AtomicU32) {
    let mut client = server.connect();
    let mut newest = [0; TARGETS.len()];
    while !done.load(Ordering::Relaxed) || answers.load(Ordering::Relaxed) < ANSWERS_LEAST {
        for (target, newest) in TARGETS.iter().zip(&mut newest) {
            let count = answers.fetch_add(1, Ordering::Relaxed);
            // No address exceeds its quota.
            let address = format!("198.51.100.{}", count / 50_000);
            let reply = client.request("GET", target, &[("X-Forwarded-For", &address)]);
            assert_eq!(reply.status, 200, "{target}: {}", reply.text());
            let answer = reply.json();
            let edition = known.get(answer["meta"]["generatedAt"].as_str().unwrap());
            assert!(
                edition.is_told_by(target, &answer),
                "{target}: {edition:?} is shown as {answer}"
            );
            // A forced publish may lower the newest timestamp of all payloads.
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

/// A server on a directory that takes client addresses from `X-Forwarded-For`.
pub(crate) fn serve(published: &Path) -> Server {
    Server::of(published, &["--trusted-proxy", "127.0.0.0/8"])
}

/// Runs `work` while a server on the directory gets requests, checked by [`witness`].
pub(crate) fn while_served<T>(published: &Path, known: &Known, work: impl FnOnce() -> T) -> T {
    let server = serve(published);
    let (done, answers) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| witness(&server, known, &done, &answers));
        let _done = SetOnDrop(&done);
        work()
    })
}

/// The responses of a server on the directory, without timestamps.
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

/// The directory serves the same as one published from nothing, and its dumps are the same.
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
    let mut editions = Editions::begin_with_few_days(&dir.join("dataset"));
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
            // Sometimes there are several kills between two complete publishes.
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
    let mut editions = Editions::begin_with_few_days(&dir.join("dataset"));
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
