//! Reading a whole dataset for its faults alone.

use super::dataset_reader::DatasetReader;
use super::fault::LoadError;
use super::files::Files;
use super::row_reader::RowReader;
use crate::calendar::UtcDay;
use crate::sync::{cores, in_order};

/// How much there is in a sound dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// Islands in islands.csv.
    pub islands: usize,
    /// Held days.
    pub days: usize,
    /// Rows of all days.
    pub rows: usize,
    /// Live steps.
    pub steps: usize,
}

/// Reads and checks everything on the day `today`; `progress` hears how many files are done and how many there are.
/// Fails with every fault found, or with the first file that could not be read.
pub fn validate(
    files: &Files<'_>,
    today: UtcDay,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<DatasetCounts, LoadError> {
    let source = DatasetReader::open(files, today)?;
    let catalogue = source.catalogue()?;
    source.platform()?;
    let (days, steps) = (source.days(), source.steps());
    let pieces = days.len() + steps.len();
    let mut sizes = DatasetCounts {
        islands: catalogue.islands.len(),
        days: days.len(),
        rows: 0,
        steps: steps.len(),
    };
    in_order(
        (cores(), pieces),
        || RowReader::new(&source, &catalogue),
        |reader, at| match days.get(at) {
            Some(files) => reader.day(files).map(|day| day.daily.len() + day.ccu.len()),
            None => reader.step(&steps[at - days.len()]).map(|_| 0),
        },
        |at, rows| {
            progress(at + 1, pieces);
            sizes.rows += rows?;
            Ok(())
        },
    )?;
    source.finish_checks()?;
    Ok(sizes)
}
