//! The newest day that requests were counted for, stored beside the counters.
//!
//! A machine may start with its clock years behind. The counters hold too few bits of the day to
//! detect that: their days would read as long past, and every client would get a new quota. The
//! service therefore starts on the stored day or a later one.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::counter_file::lock;
use crate::calendar::UtcDay;
use crate::durable;
use crate::regular_file::{self, with_path};

const FILE: &str = "quota-day";
/// Time to wait for another process that holds the directory's lock. Short, because the thread that
/// records the day has other periodic work.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// The file that stores the newest day.
#[derive(Debug)]
pub struct DayFile {
    path: PathBuf,
    /// The newest day.
    pub day: Option<UtcDay>,
}

impl DayFile {
    /// Reads the day stored in a state directory, if there is one. `log` is called with a line if the
    /// file does not contain a date.
    pub fn open(directory: &Path, log: &dyn Fn(&str)) -> io::Result<DayFile> {
        let path = directory.join(FILE);
        let text = read(&path)?;
        let day = text.as_deref().and_then(UtcDay::parse);
        if text.is_some() && day.is_none() {
            let path = path.display();
            log(&format!(
                "{path} does not contain a date; using the system clock only"
            ));
        }
        Ok(DayFile { path, day })
    }

    /// Stores a day if it is newer. Fails if another process holds the lock; the caller retries later.
    pub fn record(&mut self, day: UtcDay) -> io::Result<()> {
        if self.day < Some(day) {
            // Another server may have stored a day in the meantime.
            let directory = self.path.parent().expect("joined to a directory");
            let _lock = lock(directory, LOCK_TIMEOUT)?;
            let stored = read(&self.path)?.as_deref().and_then(UtcDay::parse);
            if stored < Some(day) {
                let text = format!("{day}\n");
                let replaced = durable::replace_private(&self.path, text.as_bytes());
                replaced.map_err(with_path(&self.path))?;
            }
            self.day = stored.max(Some(day));
        }
        Ok(())
    }
}

/// Returns the text of the file, if it exists.
fn read(path: &Path) -> io::Result<Option<String>> {
    let read = regular_file::read(path, u64::MAX).map_err(with_path(path))?;
    Ok(read.map(|(bytes, _)| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
}
