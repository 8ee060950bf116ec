//! The embedded sample dataset, which is served if no dataset is given.

use std::error::Error;
use std::sync::Arc;

use super::dumps_writer::DumpsWriter;
use super::history_input::HistoryInput;
use super::options::DEFAULT_CREDIT;
use super::plan::Plan;
use super::{history_payload, live_payload, tables};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files};
use crate::site::SiteSettings;
use crate::snapshot::{DumpContent, Dumps, History, Live, Snapshot, Storage};

macro_rules! files {
    ($($folder:literal: $($stem:literal)*;)*) => {
        &[
            (DatasetReader::NOTICE, include_bytes!("../../data/sample/notice.txt")),
            $($((
                concat!($folder, $stem, ".csv"),
                include_bytes!(concat!("../../data/sample/", $folder, $stem, ".csv")),
            )),*),*
        ]
    };
}

/// Paths and contents of the files of `data/sample`.
pub const SAMPLE_FILES: &[(&str, &[u8])] = files! {
    "": "creators" "islands" "platform";
    "ccu/2026-10-": "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22" "23" "24" "25";
    "ccu/2026-10-": "26" "27" "28" "29" "30" "31";
    "ccu/2026-11-": "01" "02" "03" "04" "05" "06";
    "daily/2026-11-": "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20";
    "live/": "1795259400" "1795260000" "1795260600" "1795261200" "1795261800" "1795262400";
};

/// Publish timestamp of the sample, 2026-11-21T12:05:00Z: five minutes after its latest live step.
const PUBLISHED: UnixSeconds = UnixSeconds(1_795_262_700);

/// Publishes the sample in memory and opens it. An error cannot occur, which a test verifies.
pub fn open_sample(service: &SiteSettings) -> Result<Snapshot, Box<dyn Error>> {
    let ([history, live], dumps) = render()?;
    let history = History::open(history)?;
    let live = Live::open(live)?;
    let (history, dumps) = (Some(Arc::new(history)), Some(Ok(Arc::new(dumps))));
    Ok(Snapshot::new(history, Some(live), dumps, service, None))
}

/// Renders the history, the live payload and the dumps.
fn render() -> Result<([Storage; 2], Dumps), Box<dyn Error>> {
    let files = Files::Embedded(SAMPLE_FILES);
    // The day of the sample is fixed, so that a machine whose clock is behind can serve it.
    let dataset = DatasetReader::open(&files, PUBLISHED.day())?;
    let plan = Plan::default();
    let dumps = DumpsWriter::new(None, (&plan, None), PUBLISHED);
    let notice = dataset.notice()?;
    let tables = tables::read(&dataset, &dumps, &mut |_| {})?;
    let input = HistoryInput::new(&tables.catalogue, tables.days, PUBLISHED);
    let (mut history, mut live_bytes) = (Vec::new(), Vec::new());
    history_payload::write(&input, &mut history, &mut |_, _| {})?;
    let islands = &tables.catalogue.islands;
    live_payload::write(islands, &tables.live, PUBLISHED, &mut live_bytes)?;
    let payloads = [history, live_bytes].map(|bytes| Storage::Memory(bytes.into()));
    let (index, contents) = dumps.finish((DEFAULT_CREDIT, notice.as_deref()))?;
    let text = index.to_json()?;
    let content_of = |name: &str| Some(DumpContent::Memory(contents.get(name)?.clone()));
    Ok((payloads, Dumps::new(index, text, content_of)?))
}

#[cfg(test)]
mod tests {
    use zlib_rs::crc32::crc32;

    use super::*;
    use crate::request::{Argument, Endpoint, Route, parse};
    use crate::snapshot::{SAMPLE_CHECKSUM, SnapshotFile};

    #[test]
    fn the_embedded_files_are_those_of_the_directory() {
        let directory = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/sample"));
        let mut count = 1; // the notice
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
    fn the_content_of_payload_files_is_that_of_their_version() {
        let (payloads, _) = render().unwrap();
        let [history, live] =
            payloads.map(|file| SnapshotFile::open(file).unwrap().content_checksum());
        // The text of lists around their rows is in no file. Their entity tags depend on the version.
        let sample = open_sample(&SiteSettings::new("http://x.test")).unwrap();
        let [islands, creators] = ["/v1/islands", "/v1/creators"].map(|path| {
            let route = parse(path, None).route.unwrap();
            let page = sample.find(&route, false).unwrap().start(u32::MAX);
            crc32(0, &page.unwrap())
        });
        let checksums = (0..).zip([history, live, islands, creators]);
        let found = checksums.fold(0, |all, (at, one)| all ^ one.rotate_left(at));
        assert_eq!(
            found, SAMPLE_CHECKSUM,
            "the content of payload files has changed: set SAMPLE_CHECKSUM in snapshot/layout.rs to {found}, or run \
             `python3 tests/rewrite.py`. With the old one, a publish would keep what an older program has rendered."
        );
    }

    #[test]
    fn the_sample_publishes_every_payload() {
        let sample = open_sample(&SiteSettings::new("http://x.test")).unwrap();
        let route = Route::new(Endpoint::Health, Argument::None);
        let health = sample.find(&route, false).unwrap().start(100).unwrap();
        assert!(health.starts_with(b"{\"status\":\"ok\""));
    }
}
