//! Atomic, durable replacement of files, and directory locks.
//!
//! After a crash a replaced file has its old contents or its new ones, never a mix of both.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Suffix of files that are being written. The module that writes them removes those left by a
/// crash.
pub const TEMP_SUFFIX: &str = ".tmp";

pub const LOCK_FILE: &str = ".lock";

/// Time that a thread waits for a lock before it is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// Called with the path of a lock for which a thread waits. Global, like a logger, so that functions that take locks
/// need no parameter for it.
static REPORT_WAIT: OnceLock<fn(&Path)> = OnceLock::new();

type CreateFile = fn(&Path) -> io::Result<File>;

/// A temporary file that replaces another file of the same directory on [`commit`](Self::commit),
/// and is removed when dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    pub out: BufWriter<File>,
    temp_path: PathBuf,
    is_committed: bool,
}

impl AtomicFile {
    /// Creates a temporary file in `directory`. `name` must differ from that of other temporary
    /// files.
    pub fn create(directory: &Path, name: &str) -> io::Result<AtomicFile> {
        AtomicFile::create_with(|path| File::create(path), directory, name)
    }

    fn create_with(create: CreateFile, directory: &Path, name: &str) -> io::Result<AtomicFile> {
        let temp_path = directory.join(format!("{name}{TEMP_SUFFIX}"));
        Ok(AtomicFile {
            out: BufWriter::with_capacity(1 << 20, create(&temp_path)?),
            temp_path,
            is_committed: false,
        })
    }

    /// Makes the contents written so far durable, so that a later [`commit`](Self::commit) is short.
    pub fn sync(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()
    }

    /// Syncs the file and renames it to `to`, a path in the same directory.
    pub fn commit(mut self, to: &Path) -> io::Result<()> {
        self.sync()?;
        fs::rename(&self.temp_path, to)?;
        self.is_committed = true;
        // The rename is durable only after the directory is synced.
        sync_directory(split(to).0)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // Best effort: the next run removes a remaining file.
            let _ = fs::remove_file(&self.temp_path);
        }
    }
}

/// Makes created, renamed and removed entries of a directory durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a file, a link, or a directory with its contents. A missing path is not an error.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Replaces the contents of `to` with `bytes`, atomically.
pub fn replace(to: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(|path| File::create(path), to, bytes)
}

/// Like [`replace`], with mode 0600 and the directory's owner, for files of a state directory. Fails if `to` is a link.
/// If the link were replaced, the file that it names would become out of date unnoticed. If that file were written, the
/// directory's owner could make root write to any file.
pub fn replace_private(to: &Path, bytes: &[u8]) -> io::Result<()> {
    if to.is_symlink() {
        let problem =
            "is a symbolic link, which is not replaced; move the file that it names to its place";
        return Err(io::Error::other(problem));
    }
    replace_with(create_private, to, bytes)
}

fn replace_with(create: CreateFile, to: &Path, bytes: &[u8]) -> io::Result<()> {
    let (directory, name) = split(to);
    let mut file = AtomicFile::create_with(create, directory, &name)?;
    file.out.write_all(bytes)?;
    file.commit(to)
}

fn split(to: &Path) -> (&Path, Cow<'_, str>) {
    // The parent of a bare name is an empty path, which cannot be opened.
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    (
        directory,
        to.file_name().unwrap_or_default().to_string_lossy(),
    )
}

/// Creates a directory and its missing parents, each made durable in its own parent.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    create_with_mode(directory, 0o777)
}

/// Like [`create_directory`], with mode 0700.
pub fn create_private_directory(directory: &Path) -> io::Result<()> {
    create_with_mode(directory, 0o700)
}

fn create_with_mode(directory: &Path, mode: u32) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let (above, _) = split(directory);
    create_with_mode(above, mode)?;
    match fs::DirBuilder::new().mode(mode).create(directory) {
        // Another process may have created it first, as a directory or as a file.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !directory.is_dir() => {
            return Err(error);
        }
        _ => {}
    }
    sync_directory(above)
}

/// Creates a file of mode 0600 and removes an old one of the same name. The file belongs to the
/// owner of its directory: a file that root creates in the directory of a service belongs to the
/// service.
pub fn create_private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_new_private(path),
    }
}

/// Creates a file. Fails if the path exists, even as a link: the directory's owner could otherwise make root write to
/// another file.
fn create_new_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let owner = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    if file.metadata()?.uid() != owner.uid() {
        // Works for root only; other users do not own the directory.
        let _ = std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(file)
}

/// Sets the function that is called when a thread has waited for a lock for a second, with the path of the
/// lock. Only the first call has an effect.
pub fn report_waits(report: fn(&Path)) {
    let _ = REPORT_WAIT.set(report);
}

/// Locks a directory until the returned file is dropped. Fails with `TimedOut` if another process holds
/// the lock for longer than `timeout`; waits without a limit if it is `None`. Only the directory's owner
/// can take the lock, so other users cannot block the owner.
pub fn lock(directory: &Path, timeout: Option<Duration>) -> io::Result<File> {
    let lock = open_lock(directory)?;
    take(lock, File::try_lock, &directory.join(LOCK_FILE), timeout)
}

/// Creates a state directory if it does not exist, and takes its lock. Waits for ten seconds for another process that is
/// starting in the same directory.
pub fn lock_state(directory: &Path) -> io::Result<File> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    create_private_directory(directory)?;
    lock(directory, Some(TIMEOUT))
}

fn take(
    lock: File,
    try_lock: fn(&File) -> Result<(), TryLockError>,
    path: &Path,
    timeout: Option<Duration>,
) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    let mut report = REPORT_WAIT.get();
    loop {
        match try_lock(&lock) {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let waited = begun.elapsed();
        if timeout.is_some_and(|timeout| waited >= timeout) {
            let problem = "another process holds the lock";
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        }
        if waited >= REPORT_AFTER
            && let Some(report) = report.take()
        {
            report(path);
        }
        thread::sleep(PAUSE);
    }
}

/// Locks a directory against [`lock_shared`] until the returned file is dropped, to replace several files
/// together. Unlike [`lock`], users who can read the directory can take part. Fails with `TimedOut` if
/// others hold the lock for longer than `timeout`.
pub fn lock_exclusive(directory: &Path, timeout: Duration) -> io::Result<File> {
    let path = directory.join(LOCK_FILE);
    let file = lock_options().append(true).create(true).open(&path)?;
    take(file, File::try_lock, &path, Some(timeout))
}

/// Locks a directory itself, without a file in it, until the returned file is dropped. Fails with
/// `TimedOut` if another process holds the lock.
pub fn lock_folder(directory: &Path) -> io::Result<File> {
    let lock = File::open(directory)?;
    take(lock, File::try_lock, directory, Some(Duration::ZERO))
}

/// Locks a directory against [`lock_exclusive`] until the returned file is dropped, to read several
/// files of one state. Returns `None` if there is no lock to take part in. Writes nothing.
pub fn lock_shared(directory: &Path) -> Option<File> {
    let path = directory.join(LOCK_FILE);
    let file = lock_options().read(true).open(&path).ok()?;
    take(file, File::try_lock_shared, &path, None).ok()
}

fn open_lock(directory: &Path) -> io::Result<File> {
    let path = directory.join(LOCK_FILE);
    match create_new_private(&path) {
        // Nothing is ever written to it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            lock_options().write(true).open(&path)
        }
        other => other,
    }
}

/// Returns options with which opening a pipe in place of a lock file does not block.
fn lock_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_a_file_is_neither_followed_nor_replaced() {
        let directory = std::env::temp_dir().join(format!("im-durable-{}", std::process::id()));
        create_private_directory(&directory).unwrap();
        let victim = directory.join("victim");
        replace(&victim, b"untouched").unwrap();
        for name in [".lock", "file.tmp", "link"] {
            std::os::unix::fs::symlink(&victim, directory.join(name)).unwrap();
        }
        drop(lock(&directory, None).unwrap());
        replace_private(&directory.join("file"), b"ours").unwrap();
        let link = directory.join("link");
        let refused = replace_private(&link, b"ours").unwrap_err();
        assert!(refused.to_string().starts_with("is a symbolic link, "));
        assert!(link.is_symlink());
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"ours");
        assert!(!directory.join("file").is_symlink());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_timed_lock_waits_no_longer_than_its_timeout() {
        let directory = std::env::temp_dir().join(format!("im-within-{}", std::process::id()));
        create_private_directory(&directory).unwrap();
        let first = lock(&directory, None).unwrap();
        let kind = |timeout| lock(&directory, Some(timeout)).map_err(|error| error.kind());
        assert_eq!(
            kind(Duration::from_millis(30)).unwrap_err(),
            io::ErrorKind::TimedOut
        );
        thread::scope(|scope| {
            let waits = scope.spawn(|| kind(Duration::from_mins(1)).is_ok());
            thread::sleep(Duration::from_millis(20));
            drop(first);
            assert!(waits.join().unwrap());
        });
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_pipe_in_place_of_a_lock_does_not_block() {
        let directory = std::env::temp_dir().join(format!("im-pipe-{}", std::process::id()));
        create_private_directory(&directory).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(directory.join(LOCK_FILE))
            .status();
        assert!(made.unwrap().success());
        assert!(lock(&directory, None).is_err());
        assert!(lock_exclusive(&directory, Duration::ZERO).is_err());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn missing_parents_are_created_and_files_are_not_replaced() {
        let directory = std::env::temp_dir().join(format!("im-made-{}", std::process::id()));
        let deep = directory.join("a/b");
        create_directory(&deep).unwrap();
        create_directory(&deep).unwrap();
        replace(&deep.join("file"), b"no directory").unwrap();
        for name in ["file", "file/below"] {
            let refused = create_directory(&deep.join(name)).unwrap_err();
            let kind = refused.kind();
            let kinds = [io::ErrorKind::AlreadyExists, io::ErrorKind::NotADirectory];
            assert!(kinds.contains(&kind), "{name}: {refused}");
        }
        create_directory(Path::new("/")).unwrap();
        create_directory(Path::new(".")).unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_renamed_is_removed() {
        let directory = std::env::temp_dir().join(format!("im-behind-{}", std::process::id()));
        let place = directory.join("place");
        fs::create_dir_all(place.join("occupied")).unwrap();
        assert!(replace_private(&place, b"text").is_err());
        assert!(!directory.join("place.tmp").exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
