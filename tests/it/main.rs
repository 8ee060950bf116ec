//! Tests of the running binary, over sockets.
//!
//! Harness:
//! - `support`: starts and stops the binary; `http`: a strict client; `processes`: how other processes
//!   end, and waits for what they do; `canary`: no secret of a key may be stored or logged
//! - `world`: random datasets; `editions`: a dataset that changes, each state marked; `dump_files`:
//!   dumps written by tests
//! - `published`: invariants of a published directory; `traced`: commands run under strace; `disks`:
//!   small file systems; `memory_group`: a cgroup with a memory limit
//! - `tls_pairs`: certificates, and clients that trust them
//! - `fake_upstream`: the API that `collect` reads: virtual islands, and faults by script
//!
//! Oracles, from CONTRACT alone: `naive`, `naive_days` and `naive_query` compute responses,
//! `callers_model` clients and quotas, `ask` makes random requests.
//!
//! Tests of responses:
//! - `answers`: every response agrees with the oracle; `parsed_targets`: so does the parser
//! - `lists`: pages add up to the whole list, and links lead through it
//! - `wire`: malformed and unusual requests; `guarded`: limits of connections; `patience`: slow
//!   clients; `exhaustion`: limits of memory and CPU time per client
//! - `dumps`: the files outside the API; `whole_history`: those with all days; `long_bodies`: bodies of many
//!   megabytes, of the dataset of `catalogue`; `messages`: error messages that depend on the server
//! - `pages`: the HTML pages; `sign_up`, `sign_up_limits`: keys by form; `openapi`: the document
//! - `tls`: the same over TLS, with the feature `tls`; `tls_handshakes`: half ones, and many of them;
//!   `tls_policy`: versions, suites and attacks; `tls_certificates`: unusual ones; `tls_reload`: those that
//!   change; `tls_clients`: other programs as clients
//!
//! Tests of clients and keys:
//! - `callers`: identification and quotas; `crowds`: many clients; `midnight`: the end of the day
//! - `key_texts`: invalid keys; `issuing`: key changes while a server runs; `state`: damage of the
//!   state directory; `crash`: processes killed at random moments
//! - `shared_quota`, `shared_keys`: several servers that share quotas and keys, with the feature
//!   `shared-quota`; `shared_tls`: the same over TLS, with the feature `tls` too; `shared_faults`: with
//!   random faults; `shared_midnight`: with clocks that differ; `shared_versions`: of several versions;
//!   `store`, `store_proxy`: the store, and what disturbs the connections to it
//!
//! Tests of publishing:
//! - `collecting`: `collect` against the fake upstream, with the feature of that name;
//!   `collect_service`: `collect` under a service manager, and its metrics; `collect_data`: data as they
//!   come; `collect_faults`: unusable responses and settings; `collect_kills`: kills, full disks, readers
//!   beside it; `collect_tls`: certificates, with the feature `tls` too; `collect_figures`: memory, time
//! - `publishing`: reproducible and atomic; `refreshes`: incremental publishes; `faulty`: faults of a
//!   dataset
//! - `torn`, `refused`, `synced`, `full`, `races`: publishes that are killed, fail, lose power, have no
//!   space, or run concurrently
//! - `replicated`: copies by `data/systemd/replicate`, under a constant publisher
//! - `damage`: files damaged under a server; `irregular_files`: links and pipes among them;
//!   `larger_than_memory`: a history larger than the memory
//!
//! Tests of operation: `cli`, `cli_files`, `cli_settings`, `cli_shells`: the command line; `admin`:
//! metrics and health; `access_log`; `service`: service managers. `tidy` checks the source, `places`
//! that a new endpoint or parameter is wherever it has to be, `readme` the README files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access_log;
mod admin;
mod answers;
mod ask;
mod callers;
mod callers_model;
mod canary;
mod catalogue;
mod cli;
mod cli_files;
mod cli_settings;
mod cli_shells;
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
#[cfg(feature = "collect")]
mod collecting;
mod crash;
mod crowds;
mod damage;
mod disks;
mod dump_files;
mod dumps;
mod editions;
mod exhaustion;
#[cfg(feature = "collect")]
mod fake_upstream;
mod faulty;
mod full;
mod guarded;
mod http;
mod irregular_files;
mod issuing;
mod key_texts;
mod larger_than_memory;
mod lists;
mod long_bodies;
mod memory_group;
mod messages;
mod midnight;
mod naive;
mod naive_days;
mod naive_query;
mod openapi;
mod pages;
mod parsed_targets;
mod patience;
mod places;
mod processes;
mod published;
mod publishing;
mod races;
mod readme;
mod refreshes;
mod refused;
mod replicated;
mod service;
#[cfg(feature = "shared-quota")]
mod shared_faults;
#[cfg(feature = "shared-quota")]
mod shared_keys;
#[cfg(feature = "shared-quota")]
mod shared_midnight;
#[cfg(feature = "shared-quota")]
mod shared_quota;
#[cfg(all(feature = "shared-quota", feature = "tls"))]
mod shared_tls;
#[cfg(feature = "shared-quota")]
mod shared_versions;
mod sign_up;
mod sign_up_limits;
mod state;
#[cfg(feature = "shared-quota")]
mod store;
#[cfg(feature = "shared-quota")]
mod store_proxy;
mod support;
mod synced;
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
mod torn;
mod traced;
mod whole_history;
mod wire;
mod world;
