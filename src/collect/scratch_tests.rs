//! Temporary directories, islands and their readings in tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::Result;
use super::reply::Outcome;
use super::store::Store;
use super::{readings, rules};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Island, Metrics};
use crate::model::IslandCode;

/// An island without texts.
pub(super) fn island(code: IslandCode) -> Island {
    Island {
        code,
        title: "".into(),
        creator: None,
        created_in: None,
        tags: "".into(),
    }
}

/// Records days of a reply that arrives on the day of its request.
pub(super) fn record_reply(
    store: &Store,
    code: IslandCode,
    days: &BTreeMap<UtcDay, Metrics>,
    now: UnixSeconds,
) -> Result<Outcome> {
    readings::record_days(store, code, days, &rules::window(now), now)
}

/// A new directory that is removed with its contents.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("im-collect-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
