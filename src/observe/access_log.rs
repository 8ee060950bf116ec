//! The access log: one line for each request, in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_setfl};

use super::log::{DedupLog, Lines, Log, Target};

/// Maximum number of queued batches.
const QUEUE_MAX: usize = 64;

/// Opens a file for appending, and starts its log. Write errors are reported to `log`.
pub(crate) fn open_log(path: &Path, log: &Log) -> io::Result<Log> {
    let file = LogFile {
        file: open_file(path)?,
        path: path.to_owned(),
        errors: DedupLog::new(log.clone(), 1),
        must_reopen: false,
        is_torn: false,
    };
    Log::spawn("access-log", QUEUE_MAX, file)
}

/// Opens a file for appending. A pipe that no process reads is an error; opening it does not block, but writing does.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

struct LogFile {
    path: PathBuf,
    file: File,
    errors: DedupLog,
    /// Set until the file has been opened by its path again.
    must_reopen: bool,
    /// Set while the file may end with an incomplete line.
    is_torn: bool,
}

impl Target for LogFile {
    /// Writes lines, to the old file if the new one cannot be opened.
    fn write(&mut self, lines: &Lines) -> bool {
        let reopened = self.open_again();
        let end: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = self.file.write_all(end);
        let written = written.and_then(|()| self.file.write_all(lines.text.as_bytes()));
        self.is_torn = written.is_err();
        let path = self.path.display();
        let written = written.map_err(|error| {
            format!("cannot write the access log {path}: {error}; lines are dropped")
        });
        self.report(written.and(reopened));
        !self.is_torn
    }

    fn reopen(&mut self) {
        self.must_reopen = true;
        let reopened = self.open_again();
        self.report(reopened);
    }
}

impl LogFile {
    fn open_again(&mut self) -> Result<(), String> {
        if self.must_reopen {
            let path = self.path.display();
            self.file = open_file(&self.path).map_err(|error| {
                format!(
                    "cannot open the access log {path} again: {error}; lines go to the old file"
                )
            })?;
            (self.must_reopen, self.is_torn) = (false, false);
        }
        Ok(())
    }

    /// Logs an error, and that it is over.
    fn report(&mut self, result: Result<(), String>) {
        if let Err(line) = result {
            self.errors.write(line);
        } else if self.errors.reset() {
            let line = format!("the access log {} is writable again", self.path.display());
            self.errors.log.write(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    // Statics need std's mutex, also when the tests run with loom's.
    use std::sync::Mutex as StdMutex;

    use std::thread;

    use super::super::log::LogBuffer;
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("im-access-{}-{name}", std::process::id()))
    }

    fn open(path: &Path, write: fn(&str)) -> io::Result<Log> {
        open_log(path, &Log::start(write)?)
    }

    #[test]
    fn lines_are_written_in_order_and_after_a_rename_to_the_new_file() {
        let (path, old) = (scratch("a"), scratch("old"));
        let log = open(&path, |_| {}).unwrap();
        let buffer = LogBuffer::new(&log);
        for line in ["one", "two"] {
            buffer.line(line);
        }
        buffer.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        buffer.line("three");
        buffer.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(log.dropped(), 0);
        for path in [path, old] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn lines_go_to_the_old_file_while_the_new_one_cannot_be_opened_and_the_log_says_so() {
        static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        let (directory, old) = (scratch("folder"), scratch("moved"));
        let path = directory.join("log");
        std::fs::create_dir(&directory).unwrap();
        let server_log = Log::start(|line| LINES.lock().unwrap().push(line.to_owned())).unwrap();
        let log = open_log(&path, &server_log).unwrap();
        std::fs::rename(&path, &old).unwrap();
        std::fs::remove_dir(&directory).unwrap();
        let buffer = LogBuffer::new(&log);
        let write = |line: &str| {
            buffer.line(line);
            buffer.flush();
            log.flush();
        };
        log.reopen();
        write("one");
        write("two");
        std::fs::create_dir(&directory).unwrap();
        write("three");
        server_log.flush();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(log.dropped(), 0);
        let shown = path.display();
        let [failed, resolved] = &LINES.lock().unwrap()[..] else {
            panic!("two lines");
        };
        let start = format!("cannot open the access log {shown} again: ");
        assert!(failed.starts_with(&start), "{failed}");
        assert!(failed.ends_with("; lines go to the old file"), "{failed}");
        assert_eq!(
            *resolved,
            format!("the access log {shown} is writable again")
        );
        std::fs::remove_dir_all(directory).unwrap();
        std::fs::remove_file(old).unwrap();
    }

    #[test]
    fn a_full_disk_does_not_block_and_every_dropped_line_is_counted() {
        static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        if !Path::new("/dev/full").exists() {
            return;
        }
        let write = |line: &str| LINES.lock().unwrap().push(line.to_owned());
        let server_log = Log::start(write).unwrap();
        let log = open_log("/dev/full".as_ref(), &server_log).unwrap();
        let buffer = LogBuffer::new(&log);
        for _ in 0..10_000 {
            buffer.line(&"x".repeat(1000));
        }
        buffer.flush();
        while log.dropped() < 10_000 {
            thread::yield_now();
        }
        assert_eq!(log.dropped(), 10_000);
        log.flush();
        server_log.flush();
        assert_eq!(LINES.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let path = scratch("none").join("access.log");
        let error = open(&path, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
