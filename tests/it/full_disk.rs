//! Disks that are full, out of inodes, or read-only: a publish reports it, the previous publish
//! stays served, and once there is space the next publish leaves no leftovers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::dataset_versions::{Change, Edition, Editions};
use crate::killed_publishes::{Known, serve, succeeds, while_served};
use crate::published::Published;
use crate::small_disks::Disk;
use crate::support::{TempDir, command, is_slow};

/// Free space is increased in steps of so many bytes until a publish fits.
fn step_bytes() -> u64 {
    if is_slow() { 2048 } else { 8 * 1024 }
}

/// A directory with two publishes, on a disk.
struct Scene {
    disk: Disk,
    editions: Editions,
    published: Published,
    known: Arc<Known>,
    _dir: TempDir,
}

impl Scene {
    fn on(disk: impl FnOnce(&TempDir) -> Option<Disk>) -> Option<Scene> {
        let dir = TempDir::new();
        let disk = disk(&dir)?;
        let mut scene = Scene {
            editions: Editions::begin_with_few_days(&dir.join("dataset")),
            published: Published::at(&disk.path().join("published")),
            known: Arc::default(),
            disk,
            _dir: dir,
        };
        scene.publish_in_full();
        scene.publish_in_full();
        Some(scene)
    }

    fn turn(&mut self) -> Edition {
        let edition = self.editions.turn(Change::All);
        self.known.add(&edition);
        edition
    }

    /// A publish with enough space: no leftovers of failed ones remain.
    #[track_caller]
    fn publish_in_full(&mut self) {
        let before = self.published.manifest();
        let edition = self.turn();
        succeeds(self.editions.publish(&edition, self.published.path()));
        self.published.is_sound();
        self.published.is_swept(before.as_ref());
    }

    /// A publish that may fail for this reason; returns whether it succeeded.
    #[track_caller]
    fn try_to_publish(&mut self, reason: &str) -> bool {
        let before = self.published.manifest();
        let edition = self.turn();
        let output = self
            .editions
            .publish(&edition, self.published.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let ended_well = output.status.success();
        if !ended_well {
            assert_eq!(output.status.code(), Some(74), "{stderr}");
            let path = self.published.path().to_str().unwrap();
            assert!(stderr.contains(path) && stderr.contains(reason), "{stderr}");
            assert!(stderr.ends_with("\nnothing was published\n"), "{stderr}");
        }
        self.published.is_sound();
        self.published
            .shows_one_of(before.as_ref(), &edition, ended_well);
        ended_well
    }

    /// Runs `work` while a server on the directory gets requests.
    fn while_served(&mut self, work: impl FnOnce(&mut Scene)) {
        let (published, known) = (self.published.path().to_owned(), Arc::clone(&self.known));
        while_served(&published, &known, || work(self));
    }
}

fn fills_up(disk: impl FnOnce(&TempDir) -> Option<Disk>) {
    let Some(mut scene) = Scene::on(disk) else {
        return;
    };
    scene.while_served(|scene| {
        let mut room = 0;
        let mut refused = 0;
        loop {
            // Otherwise the removed leftovers would be enough space.
            scene.published.forget_the_one_before();
            let filler = scene.disk.fill_but(room);
            let fits = scene.try_to_publish("No space left on device");
            fs::remove_file(filler).unwrap();
            scene.publish_in_full();
            if fits {
                break;
            }
            refused += 1;
            room += step_bytes();
        }
        assert!(refused > 2, "refused {refused} times");
    });
}

#[test]
fn a_disk_in_memory_that_is_full_keeps_what_was_published() {
    fills_up(|dir| Disk::in_memory(dir, "size=4m"));
}

#[test]
fn a_journalled_disk_that_is_full_keeps_what_was_published() {
    fills_up(Disk::ext4);
}

#[test]
fn a_disk_out_of_file_names_keeps_what_was_published() {
    let Some(mut scene) = Scene::on(|dir| Disk::in_memory(dir, "size=16m,nr_inodes=2000")) else {
        return;
    };
    scene.while_served(|scene| {
        let place = scene.disk.path().to_owned();
        scene.published.forget_the_one_before();
        let mut fillers: Vec<PathBuf> = (0..2000)
            .map(|number| place.join(format!("filler-{number}")))
            .take_while(|path| File::create(path).is_ok())
            .collect();
        let mut refused = 0;
        while !scene.try_to_publish("No space left on device") {
            refused += 1;
            let more = if is_slow() { 1 } else { 3 };
            for filler in fillers.drain(..more) {
                fs::remove_file(filler).unwrap();
            }
        }
        assert!(refused > 0, "there were file names left");
        for filler in fillers {
            fs::remove_file(filler).unwrap();
        }
        scene.publish_in_full();
    });
}

#[test]
fn a_disk_that_is_write_protected_is_served_and_published_to_once_it_is_not() {
    let Some(mut scene) = Scene::on(|dir| Disk::in_memory(dir, "size=4m")) else {
        return;
    };
    scene.while_served(|scene| {
        scene.disk.protect(true);
        assert!(!scene.try_to_publish("Read-only file system"));
        // A server started now serves it too.
        let reply = serve(scene.published.path()).connect().get("/v1/islands");
        assert_eq!(reply.status, 200);
        scene.disk.protect(false);
        scene.publish_in_full();
    });
}

#[test]
fn a_publish_whose_messages_cannot_be_written_succeeds() {
    let dir = TempDir::new();
    let mut editions = Editions::begin_with_few_days(&dir.join("dataset"));
    let published = Published::at(&dir.join("published"));
    let edition = editions.turn(Change::All);
    let mut command = editions.publish(&edition, published.path());
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(command.stderr(full).status().unwrap().success());
    published.is_sound();
    published.is_swept(None);
}

#[test]
fn a_publish_beyond_the_limit_of_a_files_size_reports_it_and_leaves_nothing() {
    let dir = TempDir::new();
    let dataset = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample");
    let published = dir.join("published");
    let mut limited = Command::new("sh");
    // In units of 512 bytes.
    let limit = "ulimit -f 64; exec \"$0\" \"$@\"";
    limited.args(["-c", limit]).arg(command().get_program());
    limited.args(["publish", "--dataset"]).arg(dataset);
    let output = limited.arg("--to").arg(&published).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(74), "{error}");
    assert!(error.contains("File too large"), "{error}");
    assert!(error.ends_with("nothing was published\n"), "{error}");
    assert!(!published.join("manifest.json").exists());
}
