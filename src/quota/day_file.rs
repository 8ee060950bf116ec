//! The newest day that was counted for, kept beside the counters.
//!
//! A machine may start with its clock years behind. The counters' words hold too few bits of the
//! day to tell, so that their own days would read as long past, and everybody would begin anew. The
//! service goes by this day, or a later one.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::counter_file::{StateError, lock};
use crate::calendar::UtcDay;
use crate::durable;
use crate::regular_file;

const FILE: &str = "quota-day";
/// For another process in the same directory: whoever keeps a day has other things to do, too.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// The file that holds the day.
#[derive(Debug)]
pub struct DayFile {
    directory: PathBuf,
    day: Option<UtcDay>,
}

impl DayFile {
    /// The day of a state directory, if one was counted for there. `log` gets a line if the file is
    /// not what it should be.
    pub fn open(directory: &Path, log: &dyn Fn(&str)) -> Result<DayFile, StateError> {
        let directory = directory.to_owned();
        let (path, day) = read(&directory)?;
        let day = day.and_then(|text| {
            let day = UtcDay::parse(text.trim_end());
            if day.is_none() {
                let path = path.display();
                log(&format!("{path} holds no day; going by the clock alone"));
            }
            day
        });
        Ok(DayFile { directory, day })
    }

    /// The newest day.
    pub fn day(&self) -> Option<UtcDay> {
        self.day
    }

    /// Keeps a day, if it is newer. Fails if another process holds the directory: it is to be tried again.
    pub fn record(&mut self, day: UtcDay) -> Result<(), StateError> {
        if self.day < Some(day) {
            // Another server may have been here meanwhile.
            let _lock = lock(&self.directory, LOCK_TIMEOUT)?;
            let (path, text) = read(&self.directory)?;
            let kept = text.and_then(|text| UtcDay::parse(text.trim_end()));
            if kept < Some(day) {
                let text = format!("{day}\n");
                durable::replace_private(&path, text.as_bytes())
                    .map_err(|source| StateError { path, source })?;
            }
            self.day = kept.max(Some(day));
        }
        Ok(())
    }
}

/// The path of the file and what it holds, if it is there.
fn read(directory: &Path) -> Result<(PathBuf, Option<String>), StateError> {
    let path = directory.join(FILE);
    let read = || -> io::Result<Option<String>> {
        let Some(mut file) = regular_file::open(&path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    match read() {
        Ok(text) => Ok((path, text)),
        Err(source) => Err(StateError { path, source }),
    }
}
