//! island-metrics: a read-only JSON API for game islands, their creators, daily rankings and
//! player counts. Everything that can be computed when publishing is computed then; a request
//! finds bytes and sends them.
//!
//! ```text
//! upstream ──► collect/ ──► dataset/ ──► publish/ ──► published directory ──► snapshot/ ──► server/
//! public API   keeps days   CSV files    renders      history-*.snap          lookup,       client,
//!              and live     checked      what has     live-*.snap             list pages    quota,
//!              steps                     changed      dumps/, manifest.json                 response
//! ```
//!
//! Entry points: `server/pipeline.rs`, the service as one function; `publish/run.rs`, how
//! responses are rendered; [`quota`], the proof that no client gets more than its quota.
//!
//! # Where to change
//!
//! - A query parameter of a list: its row in `request/parameters.rs`; one by a new grouping or a new value of islands
//!   also `snapshot/format.rs` and `publish/list_sections.rs`; a new filter also `request/lists.rs` and
//!   `snapshot/condition.rs`.
//! - An endpoint: its row in `request/endpoint.rs`, the place of its body in `snapshot/layout.rs`, its values in
//!   `publish/history_payload.rs` or `publish/live_payload.rs`, the names of its members in `publish/render`, its operation
//!   in `site/openapi.json`.
//! - A member of a body: its value in `publish/history_payload.rs` or `publish/live_payload.rs`, its name in
//!   `publish/render`, its description in `site/openapi.json`, its place on a page in `site/templates`; a long list
//!   is the last member, since pages read only the start of it.
//! - With each of these, also change the oracle (`tests/it/oracle.rs`), the tables of README.md, and
//!   `site/changelog.md`.
//! - After each change of bodies, `tests/rewrite.py` writes their version in `snapshot/layout.rs` and the examples.
//! - A section of a payload file: `snapshot/format.rs`.
//! - A metric: its row in `server/ops/metrics.rs`; a counter of workers: `observe/worker_metrics.rs`; of the
//!   collector: `collect/metrics.rs`.
//!
//! Paths in heads are relative to the folder of the file or to `src`; those of `tests`,
//! `benches` and `data` to the repository.
//!
//! # Modules
//!
//! Imports point down this table, never up; modules in the same table row do not import each other.
//! Comments cite the specification of the service (SPEC) and the contract of its interfaces (CONTRACT)
//! by section. Both are requirements of the publisher and not in this repository; what users need of
//! them is in `site/openapi.json` and the README files.
//!
//! | module | contents | independent of |
//! | --- | --- | --- |
//! | [`cli`] | commands, flags, exit codes; alone prints or exits | how anything is done |
//! | [`server`] | sockets, requests, operation; only this, `collect`, `admin`, `shared` and `tls` use hyper or tokio | the members of responses |
//! | [`publish`] | dataset to payload files and dumps; `render` names the members of responses | requests, clients |
//! | `collect` | dataset from the public API of the platform; feature `collect` | published files, clients |
//! | `admin` | the listener for metrics and health checks of a server or a collector | what it reports |
//! | [`signup`] | keys issued by their users: tokens, mail, limits | HTTP, HTML |
//! | `shared` | the store from which several servers lease quotas; feature `shared-quota` | HTTP, data |
//! | [`snapshot`] | published files: opening, lookup, row orders, search, pages, dumps | sockets, clients |
//! | [`site`] | the `OpenAPI` document, and pages drawn from the API's own bodies | all other modules but `request`, `calendar` and `model` |
//! | [`request`] | the table of endpoints; parsed paths and query strings | data, sockets |
//! | [`dataset`] | CSV files, read, checked, written; synthetic ones | published files |
//! | [`keys`] | key records and their verification | HTTP, limits, counters |
//! | [`quota`] | remaining quota per client and day | HTTP, secrets, clocks |
//! | [`observe`] | server log, access log, metrics, notifications to systemd | requests, clients, data |
//! | [`model`] | island code, creator slug, sort field, tier: validated when parsed | where they come from |
//! | `tls` | certificates, and the settings of TLS; features `tls`, `collect` and `shared-quota` | sockets |
//! | [`calendar`], [`durable`], [`regular_file`] | time and the clock; atomic replacement of files; opening of untrusted files | islands |
//! | [`sync`] | atomics, a value that is swapped while it is read, parallel work, polling threads | all other modules |
//!
//! Beside `src`: `data/` contains the sample, the man page, shell completions, systemd units, and
//! files for proxies, Prometheus and Grafana; `data/README.md` describes operation. `tests/it` tests
//! the running binary, `tests/fuzz` its parsers, `tests/ops` the files of `data/` (`tests/README.md`);
//! `tests/FAULTS.md` lists known faults with their tests. `benches/README.md` describes the benches.
//!
//! # Three decisions
//!
//! - Bodies and list rows are stored, not computed: a body costs a lookup and a write, a list page a
//!   copy of its rows, and what a publish made can be checked byte for byte. Serializing at request
//!   time was rejected. Bodies are stored as gzip and inflated when a client asks for the identity
//!   form: microseconds, for a fifth of the bytes.
//! - Rows are numbered by code. For each sort field, direction and filter value, the row numbers
//!   are stored in final order, so that a page costs O(limit) at any size. A database was rejected.
//! - Payload files are read into memory where they are needed on every request, and with `read_at`
//!   elsewhere. `mmap` was rejected: a file truncated by another process would kill the server.

mod admin;
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
#[cfg(feature = "shared-quota")]
mod shared;
pub mod signup;
pub mod site;
pub mod snapshot;
pub mod sync;
#[cfg(any(feature = "collect", feature = "shared-quota", feature = "tls"))]
pub mod tls;
