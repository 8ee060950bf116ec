//! The operator's input: the CSV files of CONTRACT section 3, fully checked.
//!
//! In: a directory, or files compiled in. Out: rows whose references all resolve, one file at a time
//! from any thread, or every fault found, each with file, line and column. The same rows written as
//! such files again. Knows nothing of what is published from it.

mod catalogue;
mod check;
mod days;
mod fault;
mod files;
mod horizon;
mod index;
mod marked;
mod quotes;
mod record;
mod rows;
mod shapes;
mod source;
mod synthetic;
mod table;
mod words;
mod write;

pub use catalogue::Catalogue;
pub use check::{Sizes, check};
pub use days::RowReader;
pub use fault::{Fault, Faults, LoadError};
pub use files::{FileStamp, Files};
pub use rows::{CcuRow, DailyRow, Day, Island, LiveStep, Metrics, Profile};
pub use shapes::Synthetic;
pub use source::{DayFiles, FileSum, Source, StepFile};
pub use synthetic::synthesize;
pub use write::{CsvFile, FileKind, RowFile};
