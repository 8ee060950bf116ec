//! Tests of the running binary, over sockets.
//!
//! Harness:
//! - `support`: starts and stops the binary; `http`: a strict client; `processes`: how other processes
//!   end, and waits for what they do; `canary`: no secret of a key may be stored or logged
//! - `random_dataset`: random datasets; `dataset_versions`: a dataset that changes, each state marked;
//!   `dump_files`: dumps written by tests; `endpoint_cases`: every endpoint of the API with a request
//! - `published`: invariants of a published directory; `payload_file`: payload files changed by tests;
//!   `strace`: commands run under strace; `small_disks`:
//!   small file systems; `memory_group`: a cgroup with a memory limit
//! - `tls_pairs`: certificates, and clients that trust them
//! - `fake_upstream`: the API that `collect` reads: virtual islands, and faults by script
//!
//! Oracles, from CONTRACT alone: `oracle`, `oracle_days` and `oracle_query` compute responses,
//! `quota_model` clients and quotas, `random_requests` makes random requests.
//!
//! Tests of responses:
//! - `responses`: every response agrees with the oracle; `parsed_targets`: so does the parser
//! - `lists`: pages add up to the whole list, and links lead through it; `freshness`: how long responses
//!   may be reused, dates, and the length of heads
//! - `malformed_requests`: malformed and unusual requests; `connection_limits`: limits of connections;
//!   `timeouts`: slow clients; `resource_limits`: limits of memory and CPU time per client
//! - `dumps`: the files outside the API; `whole_history`: those with all days; `long_bodies`: bodies of many
//!   megabytes, of the dataset of `catalogue`; `messages`: error messages that depend on the server
//! - `pages`: the HTML pages; `sign_up`, `sign_up_limits`: keys by form; `openapi`: the document
//! - `tls`: the same over TLS, with the feature `tls`; `tls_handshakes`: half ones, and many of them;
//!   `tls_policy`: versions, suites and attacks; `tls_certificates`: unusual ones; `tls_reload`: those that
//!   change; `tls_clients`: other programs as clients
//!
//! Tests of clients and keys:
//! - `identification`: identification and quotas; `many_clients`: many clients; `midnight`: the end of the
//!   day
//! - `wrong_places`: keys and parameters where none is read; `key_texts`: invalid keys; `key_changes`: key changes while a server runs; `state`: damage of the
//!   state directory; `killed_servers`: processes killed at random moments
//! - `shared_quota`, `shared_keys`: several servers that share quotas and keys, with the feature
//!   `shared-quota`; `shared_key_damage`: damaged keys in the store; `shared_tls`: the same over TLS, with the feature `tls` too; `shared_faults`: with
//!   random faults; `shared_pairs`: with losses of servers and of the store in a row, in
//!   `shared_world`; `shared_slow`: with a slow or full store; `shared_midnight`: with clocks that differ;
//!   `shared_versions`: of several versions; `store`, `store_proxy`: the store, and what disturbs the
//!   connections to it
//!
//! Tests of publishing:
//! - `collect`: `collect` against the fake upstream, with the feature of that name;
//!   `collect_service`: `collect` under a service manager, and its metrics; `collect_data`: data as they
//!   come; `collect_faults`: unusable responses and settings; `collect_kills`: kills, full disks, readers
//!   beside it; `collect_tls`: certificates, with the feature `tls` too; `collect_figures`: memory, time
//! - `publishing`: reproducible and atomic; `refreshes`: incremental publishes; `dataset_faults`: faults of a
//!   dataset; `refused_publishes`: publishes that would replace what they should not
//! - `killed_publishes`, `failed_calls`, `power_loss`, `full_disk`, `concurrent_publishes`: publishes that
//!   are killed, fail, lose power, have no space, or run concurrently; `lock_waits`: commands that wait for a
//!   lock, and interrupted publishes
//! - `replicated`: copies by `data/systemd/replicate`, under a constant publisher
//! - `damaged_files`: files damaged under a server; `irregular_files`: links and pipes among them;
//!   `hostile_publishes`: content that only a hostile or faulty publisher writes; `larger_than_memory`: a
//!   history larger than the memory
//!
//! Tests of operation: `cli`, `cli_files`, `cli_settings`, `cli_shells`: the command line; `admin`: metrics
//! and health; `access_log`; `service`: service managers. `tidy` checks the source, `readme` the
//! README files.
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
mod parsed_targets;
mod payload_file;
#[path = "../fuzz/src/plain.rs"]
mod plain;
mod power_loss;
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
#[path = "../fuzz/src/targets.rs"]
mod targets;
mod tidy;
mod timeouts;
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
