//! The operator's input: the CSV files of CONTRACT section 3, fully checked.
//!
//! In: a directory, or files compiled in. Out: a [`Dataset`] whose references all resolve, or every
//! fault found, each with file, line and column. Knows nothing of what is published from it.

mod fault;
mod files;
mod index;
mod load;
mod rows;
mod shapes;
mod synthetic;
mod table;
mod words;

pub use fault::{Fault, Faults, LoadError};
pub use files::Files;
pub use rows::{CcuRow, DailyRow, Dataset, Day, Island, LiveStep, Metrics, Profile};
pub use shapes::Synthetic;
pub use synthetic::synthesize;
