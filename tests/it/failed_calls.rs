//! Publishes with each system call failing in turn, and publishes killed at each call: either they
//! succeed or they report the path and the error, the previous publish stays valid and served, and
//! the next publish removes leftovers.

use std::os::unix::process::ExitStatusExt;

use crate::killed_publishes::{Scene, succeeds, while_served};
use crate::prelude::*;
use crate::strace::{Call, Tracer};

/// Failures tried in the short form; the long form tries all.
const SAMPLE: usize = 12;

/// The injected errors: strace's name, and the text in messages.
const NO_SPACE: (&str, &str) = ("ENOSPC", "No space left on device");
const BROKEN: (&str, &str) = ("EIO", "Input/output error");
const READ_ONLY: (&str, &str) = ("EROFS", "Read-only file system");

fn errors(name: &str) -> &'static [(&'static str, &'static str)] {
    const TAKE_SPACE: &str = "write pwrite fsync fdata rename link symlink mkdir fallocate";
    if name.starts_with("open") || name == "creat" {
        &[NO_SPACE, BROKEN, READ_ONLY]
    } else if words(TAKE_SPACE)
        .iter()
        .any(|begin| name.starts_with(begin))
    {
        &[NO_SPACE, BROKEN]
    } else {
        &[BROKEN]
    }
}

/// The scene under strace.
fn begin() -> Option<Scene<Tracer>> {
    let (tracer, dir) = (Tracer::new()?, TempDir::new());
    let published = dir.join("published");
    Some(Scene::begin(dir, tracer, &published))
}

impl Scene<Tracer> {
    /// A publish under strace.
    fn traced(&self, edition: &Edition, inject: Option<&str>) -> (Output, Vec<Call>) {
        let command = self.editions.publish(edition, self.published.path());
        self.disturbance.run(&command, inject, None)
    }

    /// The directories of the publish.
    fn roots(&self) -> [&Path; 2] {
        [self.published.path(), self.editions.dataset()]
    }

    /// The calls of a publish on these directories, each by name and number; with `IM_TEST_SLOW=all`
    /// every call, in the long form one in three, in the short form a few, always with every name.
    fn calls(&mut self, change: Change, of_the_dataset: bool) -> Vec<(String, u32)> {
        let edition = self.turn(change);
        let (output, calls) = self.traced(&edition, None);
        stderr_of(&output, 0);
        let [published, dataset] = self.roots();
        let about = calls
            .iter()
            .filter(|call| call.is_about(published) || of_the_dataset && call.is_about(dataset));
        let all: BTreeSet<(String, u32)> =
            about.map(|call| (call.name.clone(), call.number)).collect();
        assert!(all.len() > 20, "{all:?}");
        let mut rng = Rng(u64::from(edition.number));
        let mut names = BTreeSet::new();
        let share = match (is_slowest(), is_slow()) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) => (all.len() / SAMPLE).max(1) as u64,
        };
        all.into_iter()
            .filter(|(name, _)| names.insert(name.clone()) || rng.one_in(share))
            .collect()
    }
}

/// A publish with failing calls, then an undisturbed one; returns whether such a call was made.
#[track_caller]
fn fail(
    scene: &mut Scene<Tracer>,
    change: Change,
    inject: &str,
    path: Option<&Path>,
    wording: &str,
) -> bool {
    let before = scene.published.manifest();
    let edition = scene.turn(change);
    let command = scene.editions.publish(&edition, scene.published.path());
    let (output, calls) = scene.disturbance.run(&command, Some(inject), path);
    let failed: Vec<&Call> = calls.iter().filter(|call| call.was_injected()).collect();
    let Some(first) = failed.first() else {
        return false;
    };
    scene.published.is_sound();
    let code = output.status.code();
    // Calls are counted per thread: the dynamic loader may be hit first, and report it.
    let is_ours = scene.roots().iter().any(|root| first.is_about(root));
    if !is_ours && code != Some(0) {
        return false;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The standard library panics if a directory cannot be closed, which Linux never reports.
    let is_impossible = first.name == "close" && stderr.contains("during closedir");
    assert!(
        matches!(code, Some(0 | 74)) || is_impossible,
        "{inject}: {failed:?}: {}: {stderr}",
        output.status
    );
    // The write of the error message may fail too.
    let is_mute = failed.iter().any(|call| call.text.starts_with("2<"));
    if code == Some(74) && !is_mute {
        let is_named = |root: &Path| {
            failed.iter().any(|call| call.is_about(root)) && stderr.contains(root.to_str().unwrap())
        };
        // If the type of an existing entry is unknown, the message only reports that it exists.
        let reason = stderr.contains(wording) || first.name.contains("stat");
        assert!(
            scene.roots().into_iter().any(is_named) && reason,
            "{inject}: {failed:?}: {stderr}"
        );
        let is_unpublished = scene.published.manifest() == before;
        assert_eq!(
            stderr.ends_with("\nnothing was published\n"),
            is_unpublished,
            "{inject}: {failed:?}: {stderr}"
        );
    }
    scene
        .published
        .shows_one_of(before.as_ref(), &edition, code == Some(0));
    scene.publish_in_full(change);
    true
}

/// A late one is that of the directory after the manifest was replaced: the new data is then published.
#[test]
fn a_publish_whose_sync_fails_reports_whether_the_previous_one_stays() {
    let Some(mut scene) = begin() else {
        return;
    };
    let number_of_syncs = (1..100).find(|number| {
        let inject = format!("fsync:error=EIO:when={number}");
        !fail(&mut scene, Change::Live, &inject, None, BROKEN.1)
    });
    assert!(number_of_syncs > Some(5), "{number_of_syncs:?}");
}

#[test]
fn a_publish_whose_calls_fail_succeeds_or_reports_it_and_damages_nothing() {
    let Some(mut scene) = begin() else {
        return;
    };
    let (published, known) = (scene.published.path().to_owned(), Arc::clone(&scene.known));
    let failures = while_served(&published, &known, || {
        let mut failures = 0;
        for change in [Change::All, Change::Live] {
            for (name, number) in scene.calls(change, true) {
                failures += errors(&name)
                    .iter()
                    .filter(|(error, wording)| {
                        let inject = format!("{name}:error={error}:when={number}");
                        fail(&mut scene, change, &inject, None, wording)
                    })
                    .count();
            }
        }
        failures
    });
    assert!(failures > 40, "{failures} failures are no test");
}

#[test]
fn dumps_whose_folder_cannot_be_looked_up_stay() {
    let Some(mut scene) = begin() else {
        return;
    };
    let edition = scene.turn(Change::All);
    succeeds(scene.editions.publish(&edition, scene.published.path()));
    let folder = scene.published.path().join("dumps");
    let (error, wording) = BROKEN;
    let inject = format!("statx:error={error}");
    assert!(fail(
        &mut scene,
        Change::Live,
        &inject,
        Some(&folder),
        wording
    ));
}

#[test]
fn a_file_of_the_dataset_that_cannot_be_read_is_named() {
    let Some(mut scene) = begin() else {
        return;
    };
    let (error, wording) = BROKEN;
    for call in ["openat", "read"] {
        let edition = scene.turn(Change::All);
        succeeds(scene.editions.publish(&edition, scene.published.path()));
        let live = fs::read_dir(scene.editions.dataset().join("live")).unwrap();
        // The newest file of each kind stays in the next edition.
        let newest = live.map(|entry| entry.unwrap().path()).max().unwrap();
        let islands = scene.editions.dataset().join("islands.csv");
        for file in [newest, islands] {
            let inject = format!("{call}:error={error}");
            assert!(fail(&mut scene, Change::All, &inject, Some(&file), wording));
        }
    }
}

#[test]
fn a_publish_killed_at_any_call_leaves_the_one_before_or_itself() {
    let Some(mut scene) = begin() else {
        return;
    };
    for change in [Change::All, Change::Live] {
        for (at, (name, number)) in scene.calls(change, false).into_iter().enumerate() {
            let before = scene.published.manifest();
            let edition = scene.turn(change);
            let inject = format!("{name}:signal=KILL:when={number}");
            let (output, _) = scene.traced(&edition, Some(&inject));
            // Other publishes make fewer calls.
            let ended_well = output.status.success();
            assert!(ended_well || output.status.signal() == Some(9), "{inject}");
            scene.published.is_sound();
            scene
                .published
                .shows_one_of(before.as_ref(), &edition, ended_well);
            // Leftovers of several publishes are removed like those of one.
            if at % 3 == 0 {
                scene.publish_in_full(change);
            }
        }
        scene.publish_in_full(change);
    }
}

/// The calls of a publish on a path with these names, or names that begin so; none if there are
/// none.
fn calls_about<const N: usize>(
    scene: &mut Scene<Tracer>,
    wanted: [(&str, &str); N],
) -> [Option<(String, u32)>; N] {
    let edition = scene.turn(Change::All);
    let (_, calls) = scene.traced(&edition, None);
    wanted.map(|(name, file)| {
        let end = scene.published.path().join(format!("{file}\""));
        let is_it = |call: &&Call| call.name.starts_with(name) && call.is_about(&end);
        let call = calls.iter().find(is_it)?;
        Some((call.name.clone(), call.number))
    })
}

#[test]
fn an_unreadable_manifest_is_not_treated_as_absent() {
    let Some(mut scene) = begin() else {
        return;
    };
    let [call] = calls_about(&mut scene, [("open", "manifest.json")]);
    let (open, number) = call.unwrap();
    let before = scene.published.manifest();
    let kept = scene.published.entries();
    let mut older = scene.turn(Change::All);
    older.generated_at = "2026-11-01T00:00:00Z".to_owned();
    let inject = format!("{open}:error=EIO:when={number}");
    let (output, calls) = scene.traced(&older, Some(&inject));
    assert!(calls.iter().any(Call::was_injected));
    let stderr = stderr_of(&output, 74);
    assert!(stderr.contains("manifest.json"), "{stderr}");
    assert_eq!(
        scene.published.manifest(),
        before,
        "an older one came through"
    );
    assert_eq!(scene.published.entries(), kept);
}

#[test]
fn publishes_that_fail_repeatedly_take_the_space_of_one() {
    let Some(mut scene) = begin() else {
        return;
    };
    let [call] = calls_about(&mut scene, [("rename", "manifest.json")]);
    let (rename, number) = call.unwrap();
    scene.publish_in_full(Change::All);
    let before = scene.published.manifest();
    for how in ["error=ENOSPC", "signal=KILL"] {
        let inject = format!("{rename}:{how}:when={number}");
        for _ in 0..4 {
            let edition = scene.turn(Change::All);
            let (output, _) = scene.traced(&edition, Some(&inject));
            assert!(!output.status.success());
            let (named, found) = (scene.published.named(), scene.published.entries());
            let left: Vec<_> = found.difference(&named).collect();
            // The manifest, the lock, the list of sources and the folder of the dumps stay. A publish that is killed
            // leaves its files and a temporary one, but not those of another that was killed before.
            let most = if how.starts_with("error") {
                4
            } else {
                named.len() + 5
            };
            assert!(left.len() <= most, "{how}: {left:?}");
        }
    }
    assert_eq!(scene.published.manifest(), before);
    scene.publish_in_full(Change::All);
}

#[test]
fn a_first_publish_whose_manifest_cannot_be_written_leaves_a_directory_to_publish_to() {
    let Some(mut scene) = begin() else {
        return;
    };
    let [call] = calls_about(&mut scene, [("rename", "manifest.json")]);
    let (rename, _) = call.unwrap();
    let dir = TempDir::new();
    let to = dir.join("first");
    let edition = scene.turn(Change::All);
    let publish = || scene.editions.publish(&edition, &to);
    let unfinished = to.join("manifest.json.tmp");
    let inject = format!("{rename}:error=EIO");
    let (output, calls) = scene
        .disturbance
        .run(&publish(), Some(&inject), Some(&unfinished));
    assert!(calls.iter().any(Call::was_injected));
    let error = stderr_of(&output, 74);
    assert!(error.ends_with("nothing was published\n"), "{error}");
    let left = Published::at(&to).entries();
    assert_eq!(Vec::from_iter(left), [".lock", "dumps"]);
    succeeds(publish());
}
