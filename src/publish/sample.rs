//! The embedded sample dataset, which is served if no dataset is given.

use std::sync::Arc;

use super::history_input::HistoryInput;
use super::live_payload::LiveInput;
use super::packed_day::PackedDay;
use super::{history_payload, live_payload};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files, LoadError};
use crate::snapshot::{History, Live, Snapshot, Storage};

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_bytes!(concat!("../../data/sample/", $name)))),*]
    };
}

/// Paths and contents of the files of `data/sample`.
pub const SAMPLE_FILES: &[(&str, &[u8])] = files! {
    "ccu/2026-10-10.csv"
    "ccu/2026-10-11.csv"
    "ccu/2026-10-12.csv"
    "ccu/2026-10-13.csv"
    "ccu/2026-10-14.csv"
    "ccu/2026-10-15.csv"
    "ccu/2026-10-16.csv"
    "ccu/2026-10-17.csv"
    "ccu/2026-10-18.csv"
    "ccu/2026-10-19.csv"
    "ccu/2026-10-20.csv"
    "ccu/2026-10-21.csv"
    "ccu/2026-10-22.csv"
    "ccu/2026-10-23.csv"
    "ccu/2026-10-24.csv"
    "ccu/2026-10-25.csv"
    "ccu/2026-10-26.csv"
    "ccu/2026-10-27.csv"
    "ccu/2026-10-28.csv"
    "ccu/2026-10-29.csv"
    "ccu/2026-10-30.csv"
    "ccu/2026-10-31.csv"
    "ccu/2026-11-01.csv"
    "ccu/2026-11-02.csv"
    "ccu/2026-11-03.csv"
    "ccu/2026-11-04.csv"
    "ccu/2026-11-05.csv"
    "ccu/2026-11-06.csv"
    "creators.csv"
    "daily/2026-11-07.csv"
    "daily/2026-11-08.csv"
    "daily/2026-11-09.csv"
    "daily/2026-11-10.csv"
    "daily/2026-11-11.csv"
    "daily/2026-11-12.csv"
    "daily/2026-11-13.csv"
    "daily/2026-11-14.csv"
    "daily/2026-11-15.csv"
    "daily/2026-11-16.csv"
    "daily/2026-11-17.csv"
    "daily/2026-11-18.csv"
    "daily/2026-11-19.csv"
    "daily/2026-11-20.csv"
    "islands.csv"
    "live/1795259400.csv"
    "live/1795260000.csv"
    "live/1795260600.csv"
    "live/1795261200.csv"
    "live/1795261800.csv"
    "live/1795262400.csv"
    "platform.csv"
};

/// Publish timestamp of the sample, 2026-11-21T12:05:00Z: five minutes after its latest live step.
const PUBLISHED: UnixSeconds = UnixSeconds(1_795_262_700);

/// Publishes the sample in memory and opens it. An error cannot occur, which a test verifies.
pub fn open_sample(memory_bytes: usize, base_url: &str) -> Result<Snapshot, String> {
    let files = Files::Embedded(SAMPLE_FILES);
    let read = || -> Result<_, LoadError> {
        // The day of the sample is fixed, so that a machine whose clock is behind can serve it.
        let source = DatasetReader::open(&files, PUBLISHED.day())?;
        let catalogue = source.catalogue()?;
        let mut days = Vec::new();
        for files in source.days() {
            let day = source.day(&catalogue, files)?;
            days.push((files.day, PackedDay::new(&day, catalogue.islands.len())));
        }
        let newest = source.steps().last();
        let newest = newest.map(|step| source.step(&catalogue, step));
        let points = source.platform()?;
        source.finish_checks()?;
        let now = LiveInput::new(newest.transpose()?, points, Vec::new());
        Ok((catalogue, days, now))
    };
    let (catalogue, days, now) = read().map_err(|error| error.to_string())?;
    let in_memory = |error: std::io::Error| error.to_string();
    let input = HistoryInput::new(&catalogue, days);
    let (bytes, _) =
        history_payload::write(&input, PUBLISHED, Vec::new(), &mut |_, _| {}).map_err(in_memory)?;
    let history = History::open(Storage::Memory(bytes.into()), memory_bytes)
        .map_err(|error| error.to_string())?;
    let written = live_payload::write(&catalogue.islands, &now, PUBLISHED, Vec::new());
    let (bytes, _) = written.map_err(in_memory)?;
    let live = Live::open(Storage::Memory(bytes.into())).map_err(|error| error.to_string())?;
    Ok(Snapshot::new(Some(Arc::new(history)), Some(live), base_url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_files_are_those_of_the_directory() {
        let directory = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/sample"));
        let mut count = 0;
        for folder in ["", "daily", "ccu", "live"] {
            for entry in std::fs::read_dir(directory.join(folder)).unwrap() {
                count += usize::from(
                    entry
                        .unwrap()
                        .path()
                        .extension()
                        .is_some_and(|end| end == "csv"),
                );
            }
        }
        assert_eq!(count, SAMPLE_FILES.len());
    }

    #[test]
    fn the_sample_publishes_every_payload() {
        let ready = open_sample(1 << 20, "http://x.test").unwrap().readiness();
        assert!(ready.islands && ready.creators && ready.ccu && ready.rankings);
        assert!(ready.new && ready.live && ready.intraday);
    }
}
