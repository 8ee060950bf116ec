//! Safe opening of files that another user may have created: regular files only, without blocking,
//! and beneath a directory without following links.
//!
//! A check by path is a race: the path may name another file a moment later. So a file is opened
//! first, and its handle is checked.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

/// An open does not block on a pipe without a writer or on a file with a lease.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Returns a conversion that adds a path to the message of an error, and keeps its kind.
pub fn with_path(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns an error if a path is a link. For a path at which no file was found: a link whose target is
/// missing, perhaps on a disk that is not mounted, does not mean that there is no file.
pub fn require_absent(path: &Path) -> io::Result<()> {
    match fs::read_link(path) {
        Err(_) => Ok(()),
        Ok(target) => Err(io::Error::other(format!(
            "is a symbolic link to {}, which does not exist",
            target.display()
        ))),
    }
}

/// Opens a regular file by a path that may contain links; `None` if there is no file.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    match open_at(CWD, path, FILE) {
        Ok(file) => require_regular(file.into()).map(Some),
        Err(Errno::NOENT) => require_absent(path).map(|()| None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the beginning of a regular file, at most `bytes_max` bytes, by a path that may contain links.
/// Returns its metadata too; `None` if there is no file.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<(Vec<u8>, Metadata)>> {
    let Some(file) = open(path)? else {
        return Ok(None);
    };
    let (metadata, mut bytes) = (file.metadata()?, Vec::new());
    let size = usize::try_from(metadata.len().min(bytes_max)).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(size)?;
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some((bytes, metadata)))
}

/// Returns the mode of a secret file if it has any of the `forbidden` permissions.
pub fn forbidden_mode(secret: &Metadata, forbidden: u32) -> Option<u32> {
    let mode = secret.mode() & 0o777;
    (mode & forbidden != 0).then_some(mode)
}

/// Returns the metadata of a regular file without opening it; `None` if there is no file.
pub fn metadata(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => require(&found).map(|()| Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            require_absent(path).map(|()| None)
        }
        Err(error) => Err(error),
    }
}

/// An open directory, from which files are opened without following links.
#[derive(Clone, Debug)]
pub struct Directory {
    handle: Arc<OwnedFd>,
    path: Arc<Path>,
}

impl Directory {
    /// Opens a directory by a path that may contain links.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let handle = Arc::new(open_at(CWD, path, OFlags::DIRECTORY)?);
        let path = path.into();
        Ok(Directory { handle, path })
    }

    /// Reads a regular file beneath this directory; fails if it has more than `bytes_max` bytes.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // The length of the file is not enough: it may grow while it is read.
        let read = self
            .file(name)?
            .take(bytes_max + 1)
            .read_to_end(&mut bytes)?;
        if read as u64 > bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file beneath this directory, component by component: `O_NOFOLLOW` applies to the last component
    /// only.
    pub fn file(&self, name: &str) -> io::Result<File> {
        if !is_local_path(name) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let (mut at, mut rest) = (None::<OwnedFd>, name);
        while let Some((folder, below)) = rest.split_once('/') {
            let handle = at.as_ref().unwrap_or(&self.handle);
            at = Some(open_at(
                handle,
                folder,
                OFlags::DIRECTORY | OFlags::NOFOLLOW,
            )?);
            rest = below;
        }
        let handle = at.as_ref().unwrap_or(&self.handle);
        match open_at(handle, rest, FILE | OFlags::NOFOLLOW) {
            Ok(file) => require_regular(file.into()),
            Err(Errno::LOOP) => Err(io::Error::other("is a symbolic link")),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns `true` if a name, joined to a directory, stays within that directory.
pub fn is_local_path(name: &str) -> bool {
    let is_word = |word: &str| !matches!(word, "" | "." | "..");
    name.split('/').all(is_word) && !name.contains(char::is_control)
}

/// Returns `true` if a name, joined to a directory, is a direct entry of that directory.
pub fn is_file_name(name: &str) -> bool {
    is_local_path(name) && !name.contains('/')
}

fn open_at(handle: impl AsFd, path: impl Arg + Copy, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
    retry_on_intr(|| openat(handle.as_fd(), path, flags, Mode::empty()))
}

/// Returns the file if it is a regular one. Reading from others may block or never end.
pub fn require_regular(file: File) -> io::Result<File> {
    require(&file.metadata()?)?;
    Ok(file)
}

fn require(found: &Metadata) -> io::Result<()> {
    let is_regular = found.is_file().then_some(());
    is_regular.ok_or_else(|| io::Error::other("is not a regular file"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// A directory `inside` with a file, beside a secret; removed when dropped.
    struct Scene(PathBuf);

    impl Scene {
        #[expect(clippy::disallowed_methods, reason = "it need not survive a crash")]
        fn new(name: &str) -> Scene {
            let path =
                std::env::temp_dir().join(format!("im-regular-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("inside/folder")).unwrap();
            fs::create_dir_all(path.join("outside")).unwrap();
            fs::write(path.join("inside/folder/file"), b"public").unwrap();
            fs::write(path.join("outside/file"), b"secret").unwrap();
            Scene(path)
        }

        fn inside(&self) -> Directory {
            Directory::open(&self.0.join("inside")).unwrap()
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn no_link_is_followed_and_no_name_leads_out() {
        let scene = Scene::new("links");
        let inside = scene.inside();
        assert_eq!(inside.read("folder/file", 6).unwrap(), b"public");
        symlink("../outside", scene.0.join("inside/away")).unwrap();
        symlink("folder/file", scene.0.join("inside/here")).unwrap();
        for name in [
            "away/file",
            "here",
            "away",
            "folder",
            "folder/../../outside/file",
            "../outside/file",
            "..",
            ".",
            "",
            "/",
            "/etc/passwd",
            "folder/",
            "folder//file",
            "folder/file\0",
            "folder/fi\nle",
            "nothing",
        ] {
            assert!(inside.file(name).is_err(), "{name:?}");
        }
        // A path given by the operator may be a link.
        let linked = Directory::open(&scene.0.join("inside/away")).unwrap();
        assert_eq!(linked.read("file", 6).unwrap(), b"secret");
        assert!(open(&scene.0.join("inside/here")).unwrap().is_some());
    }

    #[test]
    fn files_that_are_not_regular_are_refused_without_blocking() {
        let scene = Scene::new("kinds");
        let pipe = scene.0.join("inside/pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        for refused in [
            open(&pipe).map(drop),
            open(&scene.0).map(drop),
            open(Path::new("/dev/zero")).map(drop),
            scene.inside().file("pipe").map(drop),
            scene.inside().file("folder").map(drop),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), "is not a regular file");
        }
        assert!(Directory::open(&pipe).is_err());
        assert!(open(&scene.0.join("nothing")).unwrap().is_none());
        assert!(metadata(&scene.0.join("nothing")).unwrap().is_none());
    }

    #[test]
    fn a_link_to_nothing_is_an_error_and_no_absent_file() {
        let scene = Scene::new("dangling");
        for (target, way) in [
            ("nothing", "direct"),
            ("inside/nothing", "beneath"),
            ("direct", "by another link"),
            ("inside/folder/../nothing", "with dots"),
        ] {
            let path = scene.0.join(way);
            symlink(target, &path).unwrap();
            let want = format!("is a symbolic link to {target}, which does not exist");
            assert_eq!(open(&path).unwrap_err().to_string(), want);
            assert_eq!(metadata(&path).unwrap_err().to_string(), want);
            assert!(read(&path, 1).is_err());
        }
        symlink("inside/folder/file", scene.0.join("sound")).unwrap();
        assert!(open(&scene.0.join("sound")).unwrap().is_some());
    }

    #[test]
    fn a_file_is_read_up_to_a_bound_at_any_length() {
        let scene = Scene::new("bound");
        let inside = scene.inside();
        let refused = inside.read("folder/file", 5).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        let sparse = File::create(scene.0.join("inside/sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(inside.read("sparse", 1 << 20).is_err());
    }

    #[test]
    fn a_name_that_changes_concurrently_never_leads_outside() {
        let scene = Scene::new("swaps");
        let (inside, done) = (scene.inside(), AtomicBool::new(false));
        let place = |name: &str| scene.0.join("inside").join(name);
        symlink("../outside", place("away")).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Swaps the directory and the link.
                    for (from, to) in [
                        ("folder", "aside"),
                        ("away", "folder"),
                        ("folder", "away"),
                        ("aside", "folder"),
                    ] {
                        fs::rename(place(from), place(to)).unwrap();
                    }
                }
            });
            let (mut tries, mut reads) = (0, 0);
            // On a busy machine the other thread may stop between two steps for all of the first tries.
            while tries < 20_000 || (reads == 0 && tries < 20_000_000) {
                if let Ok(read) = inside.read("folder/file", 6) {
                    assert_eq!(read, b"public");
                    reads += 1;
                }
                tries += 1;
            }
            done.store(true, Ordering::Relaxed);
            assert!(reads > 0);
        });
    }

    #[test]
    fn an_open_directory_stays_the_same_one_under_another_name() {
        let scene = Scene::new("moved");
        let inside = scene.inside();
        fs::rename(scene.0.join("inside"), scene.0.join("moved")).unwrap();
        fs::create_dir(scene.0.join("inside")).unwrap();
        assert_eq!(inside.read("folder/file", 6).unwrap(), b"public");
    }
}
