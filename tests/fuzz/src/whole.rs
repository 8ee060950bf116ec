//! A whole dataset in memory, read, and written as CSV again by what writes the dumps.

use std::io;

use island_metrics::calendar::{UnixSeconds, UtcDay};
use island_metrics::dataset::{
    Catalogue, CsvWriter, DatasetReader, Day, FileKind, Files, LiveStep, LoadError, RowWriter,
};
use island_metrics::model::IslandCode;

/// Everything that a dataset holds.
#[derive(Debug)]
pub struct Whole {
    catalogue: Catalogue,
    days: Vec<(UtcDay, Day)>,
    steps: Vec<LiveStep>,
    platform: Option<Vec<(UnixSeconds, u64)>>,
}

impl Whole {
    /// Reads files, given by name.
    pub fn read(files: &[(String, Vec<u8>)]) -> Result<Whole, LoadError> {
        let named = files
            .iter()
            .map(|(name, content)| (&name[..], &content[..]));
        let named: Vec<(&str, &[u8])> = named.collect();
        let files = Files::Embedded(&named);
        let source = DatasetReader::open(&files, UnixSeconds::now().day())?;
        let catalogue = source.catalogue()?;
        let platform = source.platform()?;
        let mut days = Vec::new();
        for files in source.days() {
            days.push((files.day, source.day(&catalogue, files)?));
        }
        let steps: Result<_, LoadError> = source
            .steps()
            .iter()
            .map(|step| source.step(&catalogue, step))
            .collect();
        let steps = steps?;
        source.finish_checks()?;
        Ok(Whole {
            catalogue,
            days,
            steps,
            platform,
        })
    }

    /// The files that it is written as.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let islands = &self.catalogue.islands;
        let code = |island: u32| -> IslandCode { islands[island as usize].code };
        let mut files = vec![
            file("islands.csv", FileKind::Islands, |out| {
                islands.iter().try_for_each(|island| out.island(island))
            }),
            file("creators.csv", FileKind::Creators, |out| {
                let mut profiles = self.catalogue.profiles.iter();
                profiles.try_for_each(|profile| out.profile(profile))
            }),
        ];
        for (date, day) in &self.days {
            files.push(file(&format!("daily/{date}.csv"), FileKind::Daily, |out| {
                let mut rows = day.daily.iter();
                rows.try_for_each(|row| out.day(code(row.island), &row.metrics))
            }));
            files.push(file(&format!("ccu/{date}.csv"), FileKind::Ccu, |out| {
                let mut rows = day.ccu.iter();
                rows.try_for_each(|row| out.peak(code(row.island), row.peak_ccu))
            }));
        }
        for step in &self.steps {
            let name = format!("live/{}.csv", step.time.0);
            files.push(file(&name, FileKind::Live, |out| {
                let mut rows = step.players.iter();
                rows.try_for_each(|(island, players)| out.players(code(*island), *players))
            }));
        }
        if let Some(points) = &self.platform {
            files.push(file("platform.csv", FileKind::Platform, |out| {
                let mut points = points.iter();
                points.try_for_each(|(time, players)| out.point(*time, *players))
            }));
        }
        files
    }
}

fn file(
    name: &str,
    kind: FileKind,
    rows: impl FnOnce(&mut dyn RowWriter) -> io::Result<()>,
) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = CsvWriter::begin(kind, &mut bytes).and_then(|mut file| {
        rows(&mut file)?;
        file.finish()
    });
    written.expect("memory takes everything");
    (name.to_owned(), bytes)
}
