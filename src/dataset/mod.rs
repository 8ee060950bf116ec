//! Dataset: the CSV files of CONTRACT section 3, read and validated.
//!
//! In: a directory or embedded files. Out: rows whose references all resolve, read one file at a time
//! from any thread; or all faults found, each with file, line and column. Also writes such files
//! (`csv_writer`) and generates synthetic ones (`synthetic`). Independent of what is published.

mod catalogue;
mod csv_table;
mod csv_writer;
mod dataset_reader;
mod date_limit;
mod distributions;
mod fault;
mod files;
mod island_resolver;
mod line_tracking;
mod quote_tracker;
mod record_reader;
mod row_reader;
mod rows;
mod synthetic;
mod synthetic_catalogue;
mod validate;

pub use catalogue::Catalogue;
pub use csv_writer::{CsvWriter, FileKind, RowWriter};
pub use dataset_reader::{DatasetReader, DayFiles, FileChecksum, StepFile};
pub use distributions::SyntheticSpec;
pub use fault::{Fault, Faults, LoadError};
pub use files::{FileStamp, Files};
pub use row_reader::RowReader;
pub use rows::{CcuRow, DailyRow, Day, Island, LiveStep, Metrics, Profile};
pub use synthetic::synthesize;
pub use validate::{DatasetCounts, validate};
