//! Small file systems to fill, to unmount and to write-protect. Only root can mount them: for other
//! users these tests print a line and pass.

use std::fs::OpenOptions;

use crate::prelude::*;

/// A mounted file system, unmounted when dropped.
pub(crate) struct Disk {
    /// The arguments of `mount` without the mount point.
    words: Vec<String>,
    place: PathBuf,
}

impl Disk {
    /// A file system in memory, with limits such as `size=4m`.
    pub(crate) fn in_memory(dir: &TempDir, limits: &str) -> Option<Disk> {
        Disk::mount(dir, &["-t", "tmpfs", "-o", limits, "tmpfs"])
    }

    /// A journaled file system of 8 MiB in a file.
    pub(crate) fn ext4(dir: &TempDir) -> Option<Disk> {
        let image = dir.join("image");
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        // python3 shuts it down.
        if !runs(Command::new("python3").arg("--version")) {
            return skip("python3, `apt-get install python3`");
        }
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0"]).arg(&image);
        if !runs(&mut make) {
            return skip("mkfs.ext4, `apt-get install e2fsprogs`");
        }
        Disk::mount(dir, &["-o", "loop", image.to_str().unwrap()])
    }

    fn mount(dir: &TempDir, words: &[&str]) -> Option<Disk> {
        let disk = Disk {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            place: dir.join("disk"),
        };
        fs::create_dir_all(&disk.place).unwrap();
        if runs(Command::new("mount").args(&disk.words).arg(&disk.place)) {
            return Some(disk);
        }
        skip("to mount disks, as root outside a container")
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.place
    }

    pub(crate) fn mount_again(&mut self) {
        assert!(runs(Command::new("umount").arg(&self.place)));
        assert!(runs(
            Command::new("mount").args(&self.words).arg(&self.place)
        ));
    }

    pub(crate) fn protect(&self, read_only: bool) {
        let how = if read_only {
            "remount,ro"
        } else {
            "remount,rw"
        };
        assert!(runs(
            Command::new("mount").args(["-o", how]).arg(&self.place)
        ));
    }

    /// Fills it up to about so many free bytes; returns the file that does.
    pub(crate) fn fill_but(&self, bytes: u64) -> PathBuf {
        let filler = self.place.join("filler");
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&filler)
            .unwrap();
        while file.write_all(&[b'.'; 4096]).is_ok() {}
        // Delayed allocation is reserved until a sync.
        let _no_room_either = file.sync_all();
        while file.write_all(&[b'.'; 512]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(bytes)).unwrap();
        file.sync_all().unwrap();
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because a server may still have a file open.
        runs(Command::new("umount").arg("-l").arg(&self.place));
    }
}

fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn skip(needs: &str) -> Option<Disk> {
    report_skipped(needs);
    None
}
