//! Progress of the tasks that are not about one island's days: when each was last completed.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::calendar::UnixSeconds;
use crate::durable;
use crate::regular_file;

const NAME: &str = "progress.json";

/// Times of completed tasks in Unix seconds; 0 for never.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    /// Time at which collecting began.
    pub(super) began: i64,
    /// End of the last crawl of the whole catalogue.
    pub(super) full_crawl: i64,
    /// End of the last crawl of the newest pages, or of the whole catalogue.
    pub(super) top_crawl: i64,
    /// End of the last reading of the genre rankings.
    pub(super) rankings: i64,
    /// Last reading of the platform's series.
    pub(super) platform: i64,
    /// Newest live step that was requested.
    pub(super) live_step: i64,
    /// Live files that this collector wrote and has not removed.
    pub(super) live_files: Vec<i64>,
    /// Last merge of collected days into the dataset.
    pub(super) merged: i64,
    /// Newest day, as days since 1970, whose active islands had all been requested at a merge.
    pub(super) complete_day: i32,
}

impl Progress {
    /// Reads the progress of a state directory. A missing or damaged file is no progress: its tasks are
    /// done again.
    pub(super) fn read(state: &Path) -> io::Result<Progress> {
        let read = regular_file::read(&state.join(NAME), u64::MAX)?;
        let progress = read.and_then(|(bytes, _)| serde_json::from_slice(&bytes).ok());
        Ok(progress.unwrap_or_default())
    }

    /// Limits all times to the present one. After the clock was set back nothing would be due otherwise.
    pub(super) fn limit(&mut self, now: UnixSeconds) {
        for time in [
            &mut self.began,
            &mut self.full_crawl,
            &mut self.top_crawl,
            &mut self.rankings,
            &mut self.platform,
            &mut self.live_step,
            &mut self.merged,
        ] {
            *time = (*time).min(now.0);
        }
        self.complete_day = self.complete_day.min(now.day().0 - 1);
    }

    /// Replaces the progress of a state directory.
    pub(super) fn write(&self, state: &Path) -> io::Result<()> {
        durable::replace(&state.join(NAME), &serde_json::to_vec(self)?)
    }
}
