//! A whole dataset in memory, and its files as the writer of the dumps formats them.

use island_metrics::calendar::{UnixSeconds, UtcDay};
use island_metrics::dataset::{
    Catalogue, Cell, DatasetReader, DayRow, FileKind, Files, Island, LiveStep, LoadError, Profile,
    write_csv,
};
use island_metrics::model::IslandCode;

/// All data of a dataset.
#[derive(Debug, PartialEq)]
pub struct Whole {
    catalogue: Catalogue,
    days: Vec<(UtcDay, Vec<DayRow>)>,
    steps: Vec<LiveStep>,
    platform: Option<Vec<(UnixSeconds, u64)>>,
}

impl Whole {
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
        for files in &source.days {
            days.push((files.day, source.day(&catalogue, files)?));
        }
        let steps: Result<_, LoadError> = source
            .steps
            .iter()
            .map(|step| source.step(&catalogue, *step))
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

    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let islands = &self.catalogue.islands;
        let code = |island: u32| -> IslandCode { islands[island as usize].code };
        let mut files = vec![
            file(
                "islands.csv",
                FileKind::Islands,
                islands.iter().map(Island::cells),
            ),
            file(
                "creators.csv",
                FileKind::Creators,
                self.catalogue.profiles.iter().map(Profile::cells),
            ),
        ];
        for (date, day) in &self.days {
            for (folder, kind) in [("daily", FileKind::Daily), ("ccu", FileKind::Ccu)] {
                let is_daily = kind == FileKind::Daily;
                let rows = day.iter().filter(|row| row.is_daily == is_daily);
                let rows = rows.map(|row| row.metrics.cells(code(row.island)));
                files.push(file(&format!("{folder}/{date}.csv"), kind, rows));
            }
        }
        for step in &self.steps {
            let rows = step.players.iter();
            let rows = rows
                .map(|(island, players)| [Cell::Code(code(*island)), Cell::Count(Some(*players))]);
            files.push(file(
                &format!("live/{}.csv", step.time.0),
                FileKind::Live,
                rows,
            ));
        }
        if let Some(points) = &self.platform {
            let rows = points.iter();
            let rows = rows.map(|(time, players)| [Cell::Time(*time), Cell::Count(Some(*players))]);
            files.push(file("platform.csv", FileKind::Platform, rows));
        }
        files
    }
}

fn file<'c>(
    name: &str,
    kind: FileKind,
    rows: impl Iterator<Item: IntoIterator<Item = Cell<'c>>>,
) -> (String, Vec<u8>) {
    let mut file = Vec::new();
    write_csv(&mut file, kind, rows).expect("memory takes everything");
    (name.to_owned(), file)
}
