//! All files named by a manifest are on disk before the manifest, at any power failure.
//!
//! Two methods: a model of a disk that keeps only synced data is fed the system calls of a publish;
//! and a real file system is shut down during publishes and loses its caches.

use crate::killed_publishes::{Scene, succeeds};
use crate::prelude::*;
use crate::small_disks::Disk;
use crate::strace::{Call, Tracer};
use crate::support::printed_key;

/// Differences of a disk that keeps only synced data.
#[derive(Default)]
struct Unsynced {
    /// Files with bytes written and not synced.
    bytes: BTreeSet<PathBuf>,
    /// New names whose directory was not synced since.
    names: BTreeSet<PathBuf>,
}

impl Unsynced {
    fn record(&mut self, call: &Call) {
        if call.text.contains(" = -1 ") {
            return;
        }
        let of_descriptor = || PathBuf::from(between(&call.text, '<', '>'));
        match call.name.as_str() {
            "write" | "pwrite64" | "writev" | "ftruncate" | "fallocate" => {
                self.bytes.insert(of_descriptor());
            }
            // The written file is the second argument or later; a synced source is harmless.
            "copy_file_range" | "sendfile" => {
                let paths = call.text.split('<').skip(1);
                let paths = paths.filter_map(|rest| rest.split('>').next());
                self.bytes.extend(paths.map(PathBuf::from));
            }
            "fsync" | "fdatasync" => {
                let synced = of_descriptor();
                self.bytes.remove(&synced);
                self.names
                    .retain(|name| name.parent() != Some(synced.as_path()));
            }
            "syncfs" => *self = Unsynced::default(),
            "open" | "openat" | "creat" if call.text.contains("O_CREAT") => {
                self.names.insert(quoted(&call.text, 0));
            }
            "link" | "linkat" | "symlink" | "symlinkat" => {
                self.names.insert(quoted(&call.text, 1));
            }
            "mkdir" | "mkdirat" => {
                self.names.insert(quoted(&call.text, 0));
            }
            "rename" | "renameat" | "renameat2" => {
                let (from, to) = (quoted(&call.text, 0), quoted(&call.text, 1));
                for paths in [&mut self.bytes, &mut self.names] {
                    *paths = paths.iter().map(|path| moved(path, &from, &to)).collect();
                }
                self.names.insert(to);
            }
            _ => {}
        }
    }

    /// Entries of this path and below it that a power failure would remove.
    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let all = self.bytes.iter().chain(&self.names);
        all.filter(move |unsynced| unsynced.starts_with(path))
    }
}

/// A path after `from` is renamed to `to`.
fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_owned(),
    }
}

fn between(text: &str, open: char, close: char) -> &str {
    let rest = text.split_once(open).map_or("", |(_, rest)| rest);
    rest.split_once(close).map_or("", |(inside, _)| inside)
}

/// The first or second quoted path, joined to its directory.
fn quoted(text: &str, at: usize) -> PathBuf {
    let mut pieces = text.split('"');
    let (before, path) = (pieces.nth(2 * at).unwrap(), pieces.next().unwrap());
    let start = before.rsplit_once('<').map_or("", |(_, rest)| rest);
    Path::new(start.split('>').next().unwrap()).join(path)
}

#[test]
fn what_a_manifest_names_is_synced_before_the_manifest_is_put_in_its_place() {
    let Some(tracer) = Tracer::new() else {
        return;
    };
    let dir = TempDir::new();
    let mut editions = Editions::begin_with_few_days(&dir.join("dataset"));
    let published = Published::at(&dir.join("published"));
    for change in [Change::All].into_iter().chain(Change::ALL) {
        let before = published.manifest();
        let edition = editions.turn(change);
        let command = editions.publish(&edition, published.path());
        let (output, calls) = tracer.run(&command, None, None);
        stderr_of(&output, 0);
        let manifest = published.path().join("manifest.json");
        let named: Vec<PathBuf> = published
            .named()
            .into_iter()
            .map(|name| published.path().join(name))
            .collect();
        let is_put =
            |call: &Call| call.name.starts_with("rename") && *quoted(&call.text, 1) == *manifest;
        let put = calls.iter().position(is_put).unwrap();
        let mut unsynced = Unsynced::default();
        calls[..=put].iter().for_each(|call| unsynced.record(call));
        for path in &named {
            let lost: Vec<_> = unsynced.below(path).collect();
            assert!(lost.is_empty(), "{change:?}: {lost:?} may be lost");
        }
        assert!(!unsynced.bytes.contains(&manifest), "{change:?}");
        for call in &calls[put + 1..] {
            // No file of the previous publish is removed while a power failure could restore it.
            let removes = call.name.starts_with("unlink") || call.name == "rmdir";
            let settled = !unsynced.names.contains(&manifest);
            assert!(
                settled || !removes,
                "{change:?}: {call:?} before the manifest is on disk"
            );
            unsynced.record(call);
        }
        assert!(
            !unsynced.names.contains(&manifest) && !unsynced.names.contains(published.path()),
            "{change:?}: {:?} may be lost",
            unsynced.names
        );
        published.is_sound();
        published.is_swept(before.as_ref());
    }
}

#[test]
fn a_first_key_is_on_disk_with_its_directories_before_it_is_printed() {
    let Some(tracer) = Tracer::new() else {
        return;
    };
    let dir = TempDir::new();
    let mut issue = command();
    issue.args(["keys", "issue", "--address", "ann@x.test", "--state"]);
    issue.arg(dir.join("new/state"));
    let (output, calls) = tracer.run(&issue, None, None);
    printed_key(&output);
    let is_printed = |call: &Call| call.name == "write" && call.text.starts_with("1<");
    let printed = calls.iter().position(is_printed).unwrap();
    let mut unsynced = Unsynced::default();
    calls[..printed]
        .iter()
        .for_each(|call| unsynced.record(call));
    let new = dir.join("new");
    let lost: Vec<_> = unsynced.below(&new).collect();
    assert!(lost.is_empty(), "{lost:?} may be lost");
}

#[test]
fn the_model_of_a_disk_forgets_what_was_not_synced() {
    let call = |name: &str, text: &str| Call {
        name: name.to_owned(),
        number: 1,
        text: text.to_owned(),
    };
    let mut unsynced = Unsynced::default();
    let mut lost = |name: &str, text: &str| {
        unsynced.record(&call(name, text));
        let lost = |path: &str| unsynced.below(Path::new(path)).count();
        (lost("/p/new"), lost("/p/new.tmp"))
    };
    let steps = [
        ("mkdir", "\"/p/new.tmp\", 0777) = 0", (0, 1)),
        (
            "openat",
            "AT_FDCWD</>, \"/p/new.tmp/a\", O_CREAT) = 3</p/new.tmp/a>",
            (0, 2),
        ),
        ("write", "3</p/new.tmp/a>, \"\"..., 9) = 9", (0, 3)),
        ("fsync", "3</p/new.tmp/a>) = -1 EIO (…)", (0, 3)),
        ("rename", "\"/p/new.tmp\", \"/p/new\") = 0", (3, 0)),
        ("fsync", "3</p/new/a>) = 0", (2, 0)),
        ("fsync", "4</p/new>) = 0", (1, 0)),
        ("fsync", "5</p>) = 0", (0, 0)),
    ];
    for (name, text, want) in steps {
        assert_eq!(lost(name, text), want, "{name}({text}");
    }
}

/// Shuts a file system down on request, like a power failure: what is not on disk is lost.
struct Switch(Child);

impl Switch {
    /// `EXT4_IOC_SHUTDOWN` without flushing the journal.
    const PROGRAM: &str = "import fcntl, os, struct, sys\n\
        disk = os.open(sys.argv[1], os.O_RDONLY)\n\
        print(flush=True)\n\
        sys.stdin.readline()\n\
        fcntl.ioctl(disk, 0x8004587D, struct.pack('I', 2))\n";

    fn of(disk: &Disk) -> Switch {
        let mut program = Command::new("python3");
        program.args(["-c", Switch::PROGRAM]).arg(disk.path());
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        let mut ready = [0];
        program
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        Switch(program)
    }

    fn press(mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// Number of power failures.
fn cuts() -> u32 {
    if is_slow() { 200 } else { 8 }
}

#[test]
fn a_power_cut_at_any_moment_leaves_the_publish_before_or_the_new_one() {
    let dir = TempDir::new();
    let Some(disk) = Disk::ext4(&dir) else {
        return;
    };
    let published = disk.path().join("published");
    let mut scene = Scene::begin(dir, disk, &published);
    let mut rng = Rng(14);
    let edition = scene.turn(Change::All);
    let command = scene.editions.publish(&edition, &published);
    let begun = Instant::now();
    succeeds(command);
    let mut moments = Moments::of(begun.elapsed());
    for _ in 0..cuts() {
        let before = scene.published.manifest();
        let change = Change::ALL[usize::try_from(rng.below(5)).unwrap()];
        let edition = scene.turn(change);
        let mut command = scene.editions.publish(&edition, &published);
        let switch = Switch::of(&scene.disturbance);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        if rng.one_in(3) {
            assert!(child.wait().unwrap().success());
        } else {
            thread::sleep(moments.next(&mut rng));
        }
        switch.press();
        // A publish that has reported success is on disk.
        let ended_well = child.wait().unwrap().success();
        scene.disturbance.mount_again();
        scene.published.is_sound();
        let published = &scene.published;
        moments.record(published.shows_one_of(before.as_ref(), &edition, ended_well));
        if rng.one_in(2) {
            scene.publish_in_full(change);
        }
    }
    moments.were_of_both_kinds();
}
