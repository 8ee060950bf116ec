//! Replacing a file so that a crash leaves the old one or the new one, and locking a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Ends the names of files that are being written. Leftovers of a crash are swept by their owner.
pub const UNFINISHED: &str = ".tmp";

/// A file being written beside the place it will take.
#[derive(Debug)]
pub struct Replacement {
    unfinished: PathBuf,
    out: Option<BufWriter<File>>,
}

impl Replacement {
    /// Begins a file in `directory`; `name` only has to be unlike other unfinished ones.
    pub fn begin(directory: &Path, name: &str) -> io::Result<Replacement> {
        let unfinished = directory.join(format!("{name}{UNFINISHED}"));
        let out = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
        Ok(Replacement {
            unfinished,
            out: Some(out),
        })
    }

    /// Makes the file durable and renames it to `to`, in the same directory.
    pub fn finish(mut self, to: &Path) -> io::Result<()> {
        let out = self.out.take().expect("taken only here, by value");
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&self.unfinished, to)?;
        // The rename itself is durable only once the directory is.
        File::open(to.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out
            .as_mut()
            .expect("taken only by finish")
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().expect("taken only by finish").flush()
    }
}

/// An abandoned file leaves nothing behind.
impl Drop for Replacement {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            // Best effort: what stays is swept by the next run.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Replaces `to` by `bytes`.
pub fn replace(to: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = to.parent().unwrap_or(Path::new("."));
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let mut replacement = Replacement::begin(directory, &name)?;
    replacement.write_all(bytes)?;
    replacement.finish(to)
}

/// Waits for, and holds, the lock of a directory until dropped.
pub fn lock(directory: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}
