//! Disks that are full, out of inodes, or read-only: a publish reports it, the previous publish
//! stays served, and once there is space the next publish leaves no leftovers.

use crate::killed_publishes::{Scene, serve, while_served};
use crate::prelude::*;
use crate::small_disks::Disk;

/// Free space is increased in steps of so many bytes until a publish fits.
fn step_bytes() -> u64 {
    if is_slow() { 2048 } else { 8 * 1024 }
}

fn begin(disk: impl FnOnce(&TempDir) -> Option<Disk>) -> Option<Scene<Disk>> {
    let dir = TempDir::new();
    let disk = disk(&dir)?;
    let published = disk.path().join("published");
    Some(Scene::begin(dir, disk, &published))
}

impl Scene<Disk> {
    /// A publish that may fail for this reason; returns whether it succeeded.
    #[track_caller]
    fn try_to_publish(&mut self, reason: &str) -> bool {
        let before = self.published.manifest();
        let edition = self.turn(Change::All);
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
    fn while_served(&mut self, work: impl FnOnce(&mut Scene<Disk>)) {
        let (published, known) = (self.published.path().to_owned(), Arc::clone(&self.known));
        while_served(&published, &known, || work(self));
    }
}

fn fills_up(disk: impl FnOnce(&TempDir) -> Option<Disk>) {
    let Some(mut scene) = begin(disk) else {
        return;
    };
    scene.while_served(|scene| {
        let mut room = 0;
        let mut refused = 0;
        loop {
            // Otherwise the removed leftovers would be enough space.
            scene.published.remove_unnamed_files();
            let filler = scene.disturbance.fill_but(room);
            let fits = scene.try_to_publish("No space left on device");
            fs::remove_file(filler).unwrap();
            scene.publish_in_full(Change::All);
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
    let Some(mut scene) = begin(|dir| Disk::in_memory(dir, "size=16m,nr_inodes=2000")) else {
        return;
    };
    scene.while_served(|scene| {
        let place = scene.disturbance.path().to_owned();
        scene.published.remove_unnamed_files();
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
        scene.publish_in_full(Change::All);
    });
}

#[test]
fn a_disk_that_is_write_protected_is_served_and_published_to_once_it_is_not() {
    let Some(mut scene) = begin(|dir| Disk::in_memory(dir, "size=4m")) else {
        return;
    };
    scene.while_served(|scene| {
        scene.disturbance.protect(true);
        assert!(!scene.try_to_publish("Read-only file system"));
        // A server started now serves it too.
        let reply = serve(scene.published.path()).connect().get("/v1/islands");
        assert_eq!(reply.status, 200);
        scene.disturbance.protect(false);
        scene.publish_in_full(Change::All);
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
    // In units of 512 bytes.
    let mut limited = after("ulimit -f 64");
    limited.args(["publish", "--dataset"]).arg(dataset);
    let output = limited.arg("--to").arg(&published).output().unwrap();
    let error = stderr_of(&output, 74);
    assert!(error.contains("File too large"), "{error}");
    assert!(error.ends_with("nothing was published\n"), "{error}");
    let left = Published::at(&published).entries();
    assert_eq!(Vec::from_iter(left), [".lock", "dumps"]);
}
