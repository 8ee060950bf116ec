//! Concurrent publishes to one directory: each succeeds or is refused as older, every state between
//! is valid, the newest stays, and there are no leftovers.

use crate::killed_publishes::{Known, answers_as_if_published_afresh, succeeds, while_served};
use crate::prelude::*;

/// Number of races, and of publishers.
fn rounds(count: u32) -> u32 {
    if is_slow() { 200 / count } else { 25 / count }
}

/// Publishers to one directory, each with a dataset of its own.
struct Publishers {
    editions: Vec<Editions>,
    published: Published,
    known: Arc<Known>,
    number: u32,
    /// Of all datasets.
    days: u32,
    rng: Rng,
    _dir: TempDir,
}

impl Publishers {
    fn new(count: u32) -> Publishers {
        let dir = TempDir::new();
        let dataset = |number: u32| dir.join(&format!("dataset-{number}"));
        Publishers {
            editions: (0..count)
                .map(|number| Editions::begin(&dataset(number)))
                .collect(),
            published: Published::at(&dir.join("published")),
            known: Arc::default(),
            number: 100,
            days: 0,
            rng: Rng(u64::from(count)),
            _dir: dir,
        }
    }

    /// A new edition of this publisher, newer than all before.
    fn turn(&mut self, at: usize) -> Edition {
        self.editions[at].continue_after(self.number, self.days);
        self.number += 1;
        let edition = self.editions[at].turn(Change::All);
        self.days = self.editions[at].days();
        self.known.add(&edition);
        edition
    }

    fn command(&self, at: usize, edition: &Edition) -> Command {
        let mut command = self.editions[at].publish(edition, self.published.path());
        command.stderr(Stdio::piped());
        command
    }

    /// All publish concurrently, started in random order; returns how many were refused.
    fn race(&mut self) -> usize {
        let mut racing: Vec<(usize, Edition)> = (0..self.editions.len())
            .map(|at| (at, self.turn(at)))
            .collect();
        let newest = racing.last().unwrap().1.clone();
        racing.sort_by_cached_key(|_| self.rng.next());
        let started: Vec<(Edition, Child)> = racing
            .into_iter()
            .map(|(at, edition)| {
                let child = self.command(at, &edition).spawn().unwrap();
                (edition, child)
            })
            .collect();
        let ended = AtomicBool::new(false);
        let refused = thread::scope(|scope| {
            let _ended = SetOnDrop(&ended);
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    is_sound_between(&self.published);
                }
            });
            let refused = started.into_iter().filter_map(|(edition, child)| {
                let output = child.wait_with_output().unwrap();
                let stderr = String::from_utf8(output.stderr).unwrap();
                let is_older = edition.number < newest.number
                    && stderr.contains("--generated-at must be at least");
                match output.status.code() {
                    Some(0) => None,
                    Some(65) if is_older => Some(edition),
                    code => panic!("{edition:?}: {code:?}: {stderr}"),
                }
            });
            refused.count()
        });
        self.published.is_sound();
        let manifest = self.published.manifest().unwrap();
        for part in ["history", "live"] {
            assert_eq!(manifest[part]["generatedAt"], newest.generated_at, "{part}");
        }
        refused
    }

    /// The directory has the current and the previous publish, and nothing else.
    #[track_caller]
    fn one_generation_is_kept(&self) {
        let mut others = self.published.unnamed();
        for part in ["history-", "live-", "dumps-"] {
            let kept = others.extract_if(.., |name| name.starts_with(part));
            let kept: Vec<String> = kept.collect();
            assert!(kept.len() <= 1, "{kept:?}");
        }
        let always = [".lock", "dumps", "manifest.json"];
        others.retain(|name| !always.contains(&name.as_str()) && !is_remembered(name));
        assert!(others.is_empty(), "left behind: {others:?}");
    }
}

/// `check` finds the directory valid, unless there were two publishes meanwhile.
fn is_sound_between(published: &Published) {
    let Some(before) = published.manifest() else {
        return;
    };
    let (code, stderr) = published.check();
    let moved_on = published.manifest().unwrap() != before;
    assert!(code == Some(0) || moved_on, "{stderr}");
}

#[track_caller]
fn the_newest_of_so_many_stays(count: u32) {
    let mut publishers = Publishers::new(count);
    let first = publishers.turn(0);
    succeeds(publishers.command(0, &first));
    let (path, known) = (
        publishers.published.path().to_owned(),
        Arc::clone(&publishers.known),
    );
    let refused: usize = while_served(&path, &known, || {
        (0..rounds(count))
            .map(|_| {
                let refused = publishers.race();
                publishers.one_generation_is_kept();
                refused
            })
            .sum()
    });
    assert!(refused > 0, "no publish was refused: no race");
    let last = publishers.editions.len() - 1;
    let before = publishers.published.manifest();
    let edition = publishers.turn(last);
    succeeds(publishers.command(last, &edition));
    publishers.published.is_sound();
    publishers.published.is_swept(before.as_ref());
    answers_as_if_published_afresh(&publishers.editions[last], &edition, &path);
}

#[test]
fn the_newest_of_ten_concurrent_publishes_stays() {
    the_newest_of_so_many_stays(10);
}

#[test]
fn ten_of_one_dataset_and_one_timestamp_all_end_well() {
    let mut publishers = Publishers::new(1);
    for _ in 0..rounds(10) {
        let before = publishers.published.manifest();
        let edition = publishers.turn(0);
        let started: Vec<Child> = (0..10)
            .map(|_| publishers.command(0, &edition).spawn().unwrap())
            .collect();
        for child in started {
            let output = child.wait_with_output().unwrap();
            stderr_of(&output, 0);
        }
        publishers.published.is_sound();
        let shown = publishers
            .published
            .shows_one_of(before.as_ref(), &edition, true);
        assert!(shown);
        publishers.one_generation_is_kept();
    }
}
