//! Publishing: renders a dataset to the published directory.
//!
//! In: a [`crate::dataset::DatasetReader`] and the publish timestamp. Out: the history payload, the
//! live payload and the dumps, in a directory or in memory. The payloads have all bodies and all rows
//! of list pages; a server adds only the bodies of `/v1` and `/v1/health`. Parts whose inputs did not
//! change since the previous publish are kept. Independent of requests, clients and sockets.
//!
//! In reading order:
//!
//! - `run` with its `options`: one publish; `refusal`: when it is refused; `previous`: the last one;
//!   `plan`: what is kept of it; `directory`: the published files, and the removal of stale ones;
//! - `tables`, `packed_day`: the dataset as columns; `history_input`, `creators`: what the history is made from;
//! - `history_payload`, `live_payload`: the two payload files; their parts `list_sections` and
//!   `text_index`; `render`: the JSON of responses;
//! - `dumps_writer`: files for download; `sample`: the sample dataset in memory.

mod creators;
#[cfg(test)]
mod damage_tests;
mod directory;
mod dumps_writer;
mod history_input;
mod history_payload;
mod list_sections;
mod live_payload;
mod options;
mod packed_day;
mod plan;
mod previous;
mod refusal;
mod render;
mod run;
mod sample;
#[cfg(test)]
mod selection_tests;
mod tables;
mod text_index;

pub use options::{DEFAULT_CREDIT, PublishError, PublishEvent, PublishOptions, Published};
pub use run::publish;
pub use sample::{SAMPLE_FILES, open_sample};
