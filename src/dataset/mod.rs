//! Dataset: the CSV files of CONTRACT section 3, read and validated.
//!
//! In: a directory or embedded files. Out: rows whose references all resolve, read one file at a time
//! from any thread; or all faults found, each with file, line and column. Independent of what is
//! published.
//!
//! - `files`: names, metadata and content; `csv_records`: records of CSV, their lines and
//!   faults; `csv_table`: columns and fields; `rows`: kinds of files, types of rows and their CSV
//!   form; `fault`: messages and their places; `hints`: corrections in messages
//! - `dataset_reader`: the files of a dataset; `tables`: reads their tables, or validates all of them;
//!   `island_resolver`: finds the island of a row; `warnings`: what is probably a mistake
//! - `synthetic`, `synthetic_catalogue`, `distributions`: synthetic datasets

mod csv_records;
mod csv_table;
mod dataset_reader;
mod distributions;
mod fault;
mod files;
mod hints;
mod island_resolver;
mod rows;
mod synthetic;
mod synthetic_catalogue;
mod tables;
mod warnings;

pub use dataset_reader::{DatasetReader, DayFiles};
pub use distributions::{STEP_SECONDS, SyntheticSpec};
pub use fault::{Fault, Faults, LoadError};
pub use files::{FileStamp, Files};
pub use rows::{Cell, DayRow, FileKind, Island, LiveStep, Metrics, Profile};
pub use rows::{WHOLE_FILES, write_csv, write_csv_header, write_csv_row};
pub use synthetic::synthesize;
pub use tables::{Catalogue, validate};
