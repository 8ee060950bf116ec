//! Dataset: the CSV files of CONTRACT section 3, read and validated.
//!
//! In: a directory or embedded files. Out: rows whose references all resolve, read one file at a time
//! from any thread; or all faults found, each with file, line and column. Independent of what is
//! published.
//!
//! - `files`: names, metadata and content; `raw_records`: lines and quotes of CSV records; `csv_table`:
//!   columns and fields; `rows`: kinds of files, types of rows; `fault`: messages and their places
//! - `dataset_reader`: the files of a dataset; `catalogue` reads islands and creators, `day_reader` days
//!   and live steps, with `island_resolver` and `date_limit`; `validate` reads all of them
//! - `csv_writer`: writes such files; `synthetic`, `synthetic_catalogue`, `distributions`: make them up

mod catalogue;
mod csv_table;
mod csv_writer;
mod dataset_reader;
mod date_limit;
mod day_reader;
mod distributions;
mod fault;
mod files;
mod island_resolver;
mod raw_records;
mod rows;
mod synthetic;
mod synthetic_catalogue;
mod validate;

pub use catalogue::Catalogue;
pub use csv_writer::CsvWriter;
pub use dataset_reader::{DatasetReader, DayFiles, StepFile};
pub use distributions::SyntheticSpec;
pub use fault::{Fault, Faults, LoadError};
pub use files::{FileChecksum, FileStamp, Files};
pub use rows::{CcuRow, Cell, DailyRow, Day, FileKind, Island, LiveStep, Metrics, Profile};
pub use synthetic::synthesize;
pub use validate::{DatasetCounts, validate};
