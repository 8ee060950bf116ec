//! island-metrics: a read-only JSON API over game islands, their creators, daily rankings and
//! player counts. Everything that can be computed when publishing is computed then; a request
//! finds bytes and sends them.
//!
//! ```text
//! dataset/ ──► publish/ ──► published directory ──► snapshot/ ──► server/
//! CSV files    renders      history-*.snap          lookup,       client, quota, route,
//! checked      what has     live-*.snap             list pages    headers, sockets
//!              changed      dumps/, manifest.json
//! ```
//!
//! Start reading at `server/pipeline.rs`, the whole service as one function; for how answers
//! are made, at `publish/run.rs` and `publish/history_payload.rs`; for the proof that no client gets more than its quota, at
//! [`quota`].
//!
//! # Rooms
//!
//! Imports point down this list, never up; rooms of one row do not know each other.
//!
//! | room | what lives there | must never know |
//! | --- | --- | --- |
//! | [`cli`] | commands, flags, exit codes; alone prints or exits | how anything is done |
//! | [`server`] | sockets and the pipeline; alone names hyper and tokio | the members of answers |
//! | [`publish`] | dataset to payload files and dumps; `render` names the members of responses | requests, clients |
//! | [`signup`] | keys that people issue to themselves: passes, links by mail, how much of it there is | HTTP, HTML, limits of requests |
//! | [`snapshot`] | the published form: opening, lookup, row orders, search, pages, dumps by name | sockets, clients |
//! | [`request`] | what was asked, as typed values | data, sockets |
//! | [`dataset`] | the CSV files, checked; synthetic ones | what is published |
//! | [`keys`] | who a key is and what it buys; issue, revoke | HTTP, limits, counters |
//! | [`quota`] | what is left today | HTTP, secrets, clocks |
//! | [`observe`] | server log, access log, metrics, notifications to systemd | requests, clients, data |
//! | [`site`] | the `OpenAPI` document, and pages drawn from the API's own bodies | everything else |
//! | [`model`] | island code, creator slug, sort field, tier: parsed once | where they come from |
//! | [`calendar`], [`durable`], [`regular_file`] | time and the clock; replacing files; opening files that others may have put there | islands |
//! | [`arena`] | the setting of the allocator | everything else |
//! | [`sync`] | atomics, a value that is swapped while it is read, parallel work, polling threads | everything else |
//!
//! Beside `src`: `data/` has the sample, the man page, shell completions, units, proxy, Prometheus and Grafana files; `tests/it` the running
//! binary, `tests/fuzz` its readers, `tests/ops` those files in use; `tests/FAULTS.md` what each is against.
//!
//! # Three decisions
//!
//! - Answers are stored, not made: a body costs a lookup and a write, and what a publish made can
//!   be checked byte for byte. Serializing at request time was rejected. Of both forms gzip is stored,
//!   and the other inflated when first asked for: microseconds, for a fifth of the bytes.
//! - Rows are numbered by code, and for each sort field, direction and filter value the row numbers
//!   are kept in final order, so that a page costs O(limit) at any size. A database was rejected.
//! - Payload files are read whole where they are needed at once and with `read_at` elsewhere. `mmap`
//!   was rejected: a file cut short by another process would kill the server.

pub mod arena;
pub mod calendar;
pub mod cli;
#[cfg(feature = "collect")]
pub mod collect;
pub mod dataset;
pub mod durable;
pub mod keys;
pub mod model;
pub mod observe;
pub mod publish;
pub mod quota;
pub mod regular_file;
pub mod request;
pub mod server;
pub mod signup;
pub mod site;
pub mod snapshot;
pub mod sync;
#[cfg(feature = "collect")]
pub mod tls;
