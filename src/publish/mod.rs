//! From a dataset to the published form, and the opening of it.
//!
//! In: a [`crate::dataset::DatasetReader`] and the publish timestamp. Out: the history and the live
//! payload, every answer already rendered, and the dumps; in a directory or in memory. What has not
//! changed since the publish before is kept. Knows nothing of requests, clients or sockets. Start with
//! `run`, then `work`, `history` and `render`.

mod changes;
mod creator_sections;
#[cfg(test)]
mod damage_tests;
mod directory;
mod dumps_writer;
mod error;
mod history_input;
mod history_payload;
mod job;
mod list_sections;
mod live_payload;
mod options;
mod packed_day;
mod range_renderer;
mod render;
mod row_orders;
mod run;
mod sample;
#[cfg(test)]
mod selection_tests;
mod sources;
mod text_index;

pub use directory::{check_published, nothing_published, open_published};
pub use error::PublishError;
pub use options::{PublishEvent, PublishOptions, Published};
pub use render::ENDPOINTS;
pub use run::publish;
pub use sample::{SAMPLE_FILES, open_sample};
