//! The newest day that was counted for, kept beside the counters.
//!
//! A machine may start with its clock years behind. The counters' words hold too few bits of the
//! day to tell, so that their own days would read as long past, and everybody would begin anew. The
//! service goes by this day, or a later one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::StateError;
use crate::calendar::UtcDay;
use crate::durable;

const FILE: &str = "quota-day";

/// The file that holds the day.
#[derive(Debug)]
pub struct DayFile {
    path: PathBuf,
    day: Option<UtcDay>,
}

impl DayFile {
    /// The day of a state directory, if one was counted for there. `say` gets a line if the file is
    /// not what it should be.
    pub fn open(directory: &Path, say: &dyn Fn(&str)) -> Result<DayFile, StateError> {
        let path = directory.join(FILE);
        let day = match fs::read(&path) {
            Ok(bytes) => {
                let text = str::from_utf8(&bytes).unwrap_or_default();
                let day = UtcDay::parse(text.trim_end());
                if day.is_none() {
                    let path = path.display();
                    say(&format!("{path} holds no day; going by the clock alone"));
                }
                day
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(StateError { path, source }),
        };
        Ok(DayFile { path, day })
    }

    /// The newest day.
    pub fn day(&self) -> Option<UtcDay> {
        self.day
    }

    /// Keeps a day, if it is newer.
    pub fn keep(&mut self, day: UtcDay) -> Result<(), StateError> {
        if self.day < Some(day) {
            let text = format!("{day}\n");
            durable::replace_private(&self.path, text.as_bytes()).map_err(|source| StateError {
                path: self.path.clone(),
                source,
            })?;
            self.day = Some(day);
        }
        Ok(())
    }
}
