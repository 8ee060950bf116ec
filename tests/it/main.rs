//! Tests of the running binary, over sockets.
//!
//! The head of each file describes it.
//!
//! - Harness, which `prelude` has in one place: `support`, `http`, `processes`, `published`, `canary`; datasets:
//!   `random_dataset`, `dataset_versions`, `catalogue`, `dump_files`, `payload_file`; the system: `strace`,
//!   `small_disks`, `memory_group`, `tls_pairs`, `store`, `store_proxy`; the upstream of `collect`: `fake_upstream`
//! - Oracles, from CONTRACT alone: `oracle`, `oracle_days` and `oracle_query` compute responses, `quota_model` clients
//!   and quotas, `random_requests` makes random requests; `plain` is that of the fuzz target `query`
//! - Responses: from `responses` and `lists` to `malformed_requests`, `pages`, `dumps`, and `tls` with the feature `tls`
//! - Clients and keys: from `identification` to `state` and `killed_servers`; several servers: `shared_*`, with the
//!   feature `shared-quota`
//! - Publishing: `collect*`, with the feature `collect`; `publishing`, `refreshes`, `dataset_faults`; publishes that are
//!   killed, fail, lose power or have no space: `killed_publishes`, `failed_calls`, `power_loss`, `full_disk`; files
//!   that are damaged, irregular or hostile
//! - Operation: `cli*`, `admin`, `access_log`, `service`. `tidy` checks the source, `readme` the README files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access_log;
mod admin;
mod canary;
mod catalogue;
mod cli;
mod cli_files;
mod cli_settings;
mod cli_shells;
#[cfg(feature = "collect")]
mod collect;
#[cfg(feature = "collect")]
mod collect_data;
#[cfg(feature = "collect")]
mod collect_faults;
#[cfg(feature = "collect")]
mod collect_figures;
#[cfg(feature = "collect")]
mod collect_kills;
#[cfg(feature = "collect")]
mod collect_service;
#[cfg(all(feature = "collect", feature = "tls"))]
mod collect_tls;
mod concurrent_publishes;
mod connection_limits;
mod damaged_files;
mod dataset_faults;
mod dataset_versions;
mod dump_files;
mod dumps;
mod endpoint_cases;
mod failed_calls;
#[cfg(feature = "collect")]
mod fake_upstream;
mod freshness;
mod full_disk;
mod hostile_publishes;
mod http;
mod identification;
mod irregular_files;
mod key_changes;
mod key_texts;
mod killed_publishes;
mod killed_servers;
mod larger_than_memory;
mod lists;
mod lock_waits;
mod long_bodies;
mod malformed_requests;
mod many_clients;
mod memory_group;
mod messages;
mod midnight;
mod openapi;
mod oracle;
mod oracle_days;
mod oracle_query;
mod pages;
mod payload_file;
#[expect(dead_code, reason = "the fuzz target also reads paths with it")]
#[path = "../fuzz/src/plain.rs"]
mod plain;
mod power_loss;
mod prelude;
mod processes;
mod published;
mod publishing;
mod quota_model;
mod random_dataset;
mod random_requests;
mod readme;
mod refreshes;
mod refused_publishes;
mod replicated;
mod resource_limits;
mod responses;
mod service;
#[cfg(feature = "shared-quota")]
mod shared_faults;
#[cfg(feature = "shared-quota")]
mod shared_key_damage;
#[cfg(feature = "shared-quota")]
mod shared_keys;
#[cfg(feature = "shared-quota")]
mod shared_midnight;
#[cfg(feature = "shared-quota")]
mod shared_pairs;
#[cfg(feature = "shared-quota")]
mod shared_quota;
#[cfg(feature = "shared-quota")]
mod shared_settings;
#[cfg(feature = "shared-quota")]
mod shared_slow;
#[cfg(all(feature = "shared-quota", feature = "tls"))]
mod shared_tls;
#[cfg(feature = "shared-quota")]
mod shared_versions;
#[cfg(feature = "shared-quota")]
mod shared_world;
mod sign_up;
mod sign_up_limits;
mod small_disks;
mod state;
#[cfg(feature = "shared-quota")]
mod store;
#[cfg(feature = "shared-quota")]
mod store_proxy;
mod strace;
mod support;
mod tidy;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_certificates;
#[cfg(feature = "tls")]
mod tls_clients;
#[cfg(feature = "tls")]
mod tls_handshakes;
#[cfg(feature = "tls")]
mod tls_pairs;
#[cfg(feature = "tls")]
mod tls_policy;
#[cfg(feature = "tls")]
mod tls_reload;
mod whole_history;
mod wrong_places;
