//! The sample dataset, compiled in: what is served when nothing else is named.

use super::directory::together;
use super::{history, live};
use crate::calendar::UnixSeconds;
use crate::dataset::{Dataset, Files};
use crate::snapshot::{History, Live, Snapshot, Storage};

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_bytes!(concat!("../../data/sample/", $name)))),*]
    };
}

/// Names and contents of the files of `data/sample`.
pub const SAMPLE_FILES: &[(&str, &[u8])] = files! {};

/// The sample's publish timestamp, 2026-11-21T12:05:00Z: five minutes after its newest live step.
const PUBLISHED: UnixSeconds = UnixSeconds(1_795_262_700);

/// Publishes the sample in memory and opens it. It is sound, which a test holds; were it not, the
/// error says why.
pub fn open_sample(memory_bytes: usize, base_url: &str) -> Result<Snapshot, String> {
    let files = Files::Embedded(SAMPLE_FILES);
    let dataset = Dataset::load(&files, &mut |_, _| {}).map_err(|error| error.to_string())?;
    let in_memory = |error: std::io::Error| error.to_string();
    let (bytes, _) =
        history::write(&dataset, PUBLISHED, Vec::new(), &mut |_, _| {}).map_err(in_memory)?;
    let history = History::open(Storage::Memory(bytes.into()), memory_bytes)
        .map_err(|error| error.to_string())?;
    let (bytes, _) = live::write(&dataset, PUBLISHED, Vec::new()).map_err(in_memory)?;
    let live = Live::open(Storage::Memory(bytes.into())).map_err(|error| error.to_string())?;
    Ok(together(Some(history), Some(live), base_url))
}
