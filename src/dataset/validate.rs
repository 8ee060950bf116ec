//! Validation of a whole dataset without publishing it.

use super::dataset_reader::DatasetReader;
use super::fault::LoadError;
use super::files::Files;
use crate::calendar::UtcDay;
use crate::sync::{cores, in_order};

/// Sizes of a valid dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// Number of islands in islands.csv.
    pub islands: usize,
    /// Days that have a file.
    pub days: usize,
    /// Number of rows of all days.
    pub rows: usize,
    /// Number of live steps.
    pub steps: usize,
}

/// Reads and validates all files. `today` is the present day; `progress` receives the number of files
/// done and the number of all files. Returns all faults, or the error of the first file that could not
/// be read.
pub fn validate(
    files: &Files<'_>,
    today: UtcDay,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<DatasetCounts, LoadError> {
    let source = DatasetReader::open(files, today)?;
    let catalogue = source.catalogue()?;
    source.platform()?;
    let (days, steps) = (source.days(), source.steps());
    let all = days.len() + steps.len();
    let mut counts = DatasetCounts {
        islands: catalogue.islands.len(),
        days: days.len(),
        rows: 0,
        steps: steps.len(),
    };
    in_order(
        (cores(), all),
        || (),
        |(), at| match days.get(at) {
            Some(files) => {
                let day = source.day(&catalogue, files)?;
                Ok(day.daily.len() + day.ccu.len())
            }
            None => source.step(&catalogue, &steps[at - days.len()]).map(|_| 0),
        },
        |at, rows: Result<usize, LoadError>| {
            progress(at + 1, all);
            counts.rows += rows?;
            Ok::<(), LoadError>(())
        },
    )?;
    source.finish_checks()?;
    Ok(counts)
}
