//! [`WholeHistory`]: writes the files of the whole history, day by day.

use super::dumps_writer::DumpsWriter;
use super::options::{PublishError, at};
use super::whole_files::{DayMembers, KnownMembers, WHOLE_FILES, WholeFile};
use crate::calendar::UtcDay;

/// Both files while they are written, day by day.
pub(super) struct WholeHistory {
    files: [WholeFile; 2],
    known: Option<[KnownMembers; 2]>,
    /// All days, newest first; those that are written are removed.
    left: Vec<UtcDay>,
}

impl WholeHistory {
    /// Creates the files for `days`, oldest first.
    pub(super) fn create(
        dumps: &DumpsWriter,
        known: Option<[KnownMembers; 2]>,
        mut days: Vec<UtcDay>,
    ) -> Result<WholeHistory, PublishError> {
        days.reverse();
        Ok(WholeHistory {
            files: [dumps.create_whole(0)?, dumps.create_whole(1)?],
            known,
            left: days,
        })
    }

    /// Adds a day after the known members of all earlier ones. Without members, its known ones are
    /// copied too.
    pub(super) fn add(
        &mut self,
        day: UtcDay,
        members: Option<DayMembers>,
    ) -> Result<(), PublishError> {
        let is_copied = |other: UtcDay| other < day || (other == day && members.is_none());
        self.copy_while(is_copied)?;
        if let Some(members) = members {
            self.left.pop();
            for (index, member) in members.iter().enumerate() {
                let appended = self.files[index].append(member);
                appended.map_err(at(WHOLE_FILES[index].as_ref()))?;
            }
        }
        Ok(())
    }

    fn copy_while(&mut self, is_copied: impl Fn(UtcDay) -> bool) -> Result<(), PublishError> {
        while let Some(day) = self.left.pop_if(|day| is_copied(*day)) {
            let known = self.known.iter().flatten();
            for (index, (file, known)) in self.files.iter_mut().zip(known).enumerate() {
                let copied = file.copy(known, day);
                copied.map_err(at(WHOLE_FILES[index].as_ref()))?;
            }
        }
        Ok(())
    }

    /// Copies the members of the days that are left, and completes the files.
    pub(super) fn finish(mut self, dumps: &DumpsWriter) -> Result<(), PublishError> {
        self.copy_while(|_| true)?;
        let [history, ccu] = self.files;
        dumps.finish_whole(0, history)?;
        dumps.finish_whole(1, ccu)
    }
}
