//! [`WholeHistory`]: writes the files of the whole history, day by day.

use std::io::{self, Write as _};

use super::dumps_writer::DumpsWriter;
use super::options::{PublishError, at};
use super::whole_files::{DayMembers, KnownMembers, WHOLE_FILES, WholeFile, begin};
use crate::calendar::UtcDay;

/// Both files while they are written, day by day.
pub(super) struct WholeHistory<'a> {
    files: [WholeFile; 2],
    known: Option<[KnownMembers; 2]>,
    /// All days, newest first; those that are written are removed.
    left: Vec<UtcDay>,
    /// Renders the members of a day.
    render: &'a dyn Fn(UtcDay) -> Result<DayMembers, PublishError>,
}

impl<'a> WholeHistory<'a> {
    /// Creates the files for `days`, oldest first. Members that are not known, or are damaged, are
    /// rendered.
    pub(super) fn create(
        dumps: &DumpsWriter,
        known: Option<[KnownMembers; 2]>,
        mut days: Vec<UtcDay>,
        render: &'a dyn Fn(UtcDay) -> Result<DayMembers, PublishError>,
    ) -> Result<WholeHistory<'a>, PublishError> {
        days.reverse();
        let create = |index: usize| {
            let file = dumps.create(WHOLE_FILES[index]);
            let file = file.and_then(|file| begin(file, index));
            file.map_err(at(&dumps.path(WHOLE_FILES[index])))
        };
        Ok(WholeHistory {
            files: [create(0)?, create(1)?],
            known,
            left: days,
            render,
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
        let Some(members) = members else {
            return Ok(());
        };
        self.left.pop();
        self.append(&members)
    }

    fn copy_while(&mut self, is_copied: impl Fn(UtcDay) -> bool) -> Result<(), PublishError> {
        while let Some(day) = self.left.pop_if(|day| is_copied(*day)) {
            let known = self.known.as_ref();
            let members =
                known.and_then(|[history, ccu]| Some([history.read(day)?, ccu.read(day)?]));
            let members = members.map_or_else(|| (self.render)(day), Ok)?;
            self.append(&members)?;
        }
        Ok(())
    }

    fn append(&mut self, members: &DayMembers) -> Result<(), PublishError> {
        for (index, (file, member)) in self.files.iter_mut().zip(members).enumerate() {
            let appended = file.write_all(member);
            appended.map_err(at(WHOLE_FILES[index].as_ref()))?;
        }
        Ok(())
    }

    /// Copies the members of the days that are left, and completes the files.
    pub(super) fn finish(mut self, dumps: &DumpsWriter) -> Result<(), PublishError> {
        self.copy_while(|_| true)?;
        for (name, file) in WHOLE_FILES.into_iter().zip(self.files) {
            let file = file.into_inner().map_err(io::Error::from);
            let completed = file.and_then(|file| dumps.complete(name, file));
            completed.map_err(at(&dumps.path(name)))?;
        }
        Ok(())
    }
}
