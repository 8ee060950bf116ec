//! Publishes killed at random moments: the published directory has the previous or the killed
//! publish, complete; a server never fails meanwhile; and the next publish removes leftovers.

use crate::dataset_versions::MARKED_TARGET;
use crate::prelude::*;

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

/// Moments to kill each kind of publish, by its duration without a kill: the median of five.
fn moments(editions: &mut Editions, published: &Path) -> [Moments; Change::ALL.len()] {
    Change::ALL.map(|change| {
        let mut took = [(); 5].map(|()| {
            let edition = editions.turn(change);
            let command = editions.publish(&edition, published);
            let begun = Instant::now();
            succeeds(command);
            begun.elapsed()
        });
        took.sort_unstable();
        Moments::of(took[2])
    })
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

/// A dataset, its published directory, what is known of both, and what disturbs publishes.
pub(crate) struct Scene<T> {
    pub(crate) disturbance: T,
    pub(crate) editions: Editions,
    pub(crate) published: Published,
    pub(crate) known: Arc<Known>,
    _dir: TempDir,
}

impl<T> Scene<T> {
    /// Publishes twice, so that the next publish has files to remove.
    pub(crate) fn begin(dir: TempDir, disturbance: T, published: &Path) -> Scene<T> {
        let mut scene = Scene {
            disturbance,
            editions: Editions::begin_with_few_days(&dir.join("dataset")),
            published: Published::at(published),
            known: Arc::default(),
            _dir: dir,
        };
        scene.publish_in_full(Change::All);
        scene.publish_in_full(Change::All);
        scene
    }

    pub(crate) fn turn(&mut self, change: Change) -> Edition {
        let edition = self.editions.turn(change);
        self.known.add(&edition);
        edition
    }

    /// An undisturbed publish: afterwards no leftovers of disturbed ones remain.
    #[track_caller]
    pub(crate) fn publish_in_full(&mut self, change: Change) -> Edition {
        let before = self.published.manifest();
        let edition = self.turn(change);
        succeeds(self.editions.publish(&edition, self.published.path()));
        self.published.is_sound();
        self.published.is_swept(before.as_ref());
        edition
    }
}

/// Sends requests until the flag is set. Every response is complete and of a known edition, and none
/// is of an edition before one already seen. `answers` counts the responses.
pub(crate) fn check_responses(
    server: &Server,
    known: &Known,
    done: &AtomicBool,
    answers: &AtomicU32,
) {
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
                edition.matches(target, &answer),
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

/// Runs `work` while a server on the directory gets requests, checked by [`check_responses`].
pub(crate) fn while_served<T>(published: &Path, known: &Known, work: impl FnOnce() -> T) -> T {
    let server = serve(published);
    let (done, answers) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| check_responses(&server, known, &done, &answers));
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
    let directory = dir.join("published");
    let mut scene = Scene::begin(dir, (), &directory);
    let mut moments = moments(&mut scene.editions, &directory);
    scene.publish_in_full(Change::All);
    let (mut rng, mut were_whole) = (Rng(11), BTreeSet::new());
    let known = Arc::clone(&scene.known);
    while_served(&directory, &known, || {
        for kill in 0..kills() {
            let before = scene.published.manifest();
            let kind = usize::try_from(rng.below(5)).unwrap();
            let change = Change::ALL[kind];
            let edition = scene.turn(change);
            let command = scene.editions.publish(&edition, &directory);
            let ended_well = ends_before(command, moments[kind].next(&mut rng));
            scene.published.is_sound();
            let published = &scene.published;
            let is_whole = published.shows_one_of(before.as_ref(), &edition, ended_well);
            moments[kind].record(is_whole);
            were_whole.insert(is_whole);
            // Sometimes there are several kills between two complete publishes.
            if rng.one_in(3) {
                let edition = scene.publish_in_full(change);
                if kill % 8 == 0 {
                    answers_as_if_published_afresh(&scene.editions, &edition, &directory);
                }
            }
        }
    });
    assert_eq!(were_whole.len(), 2, "kills come too late or too early");
}

#[test]
fn a_first_publish_killed_at_any_moment_is_whole_or_nothing() {
    let dir = TempDir::new();
    let mut editions = Editions::begin_with_few_days(&dir.join("dataset"));
    let [moments, ..] = moments(&mut editions, &dir.join("measured"));
    let mut rng = Rng(12);
    for kill in 0..kills() / 5 {
        let published = Published::at(&dir.join(&format!("published-{kill}")));
        let edition = editions.turn(Change::All);
        let command = editions.publish(&edition, published.path());
        let ended_well = ends_before(command, moments.next(&mut rng));
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
