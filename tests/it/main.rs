//! The running binary, over sockets.
//!
//! - `support`: starts the binary, cleans up after it
//! - `http`: speaks HTTP to it
//! - `naive`: the oracle, the plainest reading of CONTRACT.md there is
//! - `naive_days`: the oracle's days: rankings, newcomers, live players
//! - `naive_query`: the oracle's reading of paths and query strings
//! - `world`: random datasets, and the CSV files that hold them
//! - `ask`: random requests, good and bad, about a dataset
//! - `answers`: every answer agrees with the oracle, and carries the headers that it must
//! - `canary`: secrets that were issued are looked for where none may stand
//! - `callers`: whom a request counts for, and what it spends, over random requests
//! - `callers_model`: the oracle of that
//! - `crowds`: many callers at once and callers without end, exactly counted in fixed memory
//! - `key_texts`: what is no key, and what must never come back of one
//! - `damage`: files damaged under a running server
//! - `issuing`: keys that come and go while a server runs, and many asked for at once
//! - `crash`: processes killed at any moment lose no count and no key
//! - `state`: the state directory and the settings: damage, and exit codes
//! - `midnight`: the day's end, and clocks that jump
//! - `refreshes`: what a refresh makes anew and keeps, against publishes from nothing
//! - `torn`: publishes killed at any moment
//! - `refused`: publishes whose system calls fail, or are their last
//! - `synced`: what is on disk when the power goes
//! - `full`: disks that are full or write-protected
//! - `races`: several who publish to one directory at once
//! - `traced`: commands run under strace
//! - `disks`: small disks to fill up and to take away
//! - `editions`: a dataset that changes, each state of it marked
//! - `published`: what a published directory must be at any moment
//! - `dumps`: the files outside the API: headers, conditions, ranges, damage, swaps and slow readers
//! - `dump_files`: dumps written by hand, and downloads that take their time
//! - `irregular_files`: links, pipes and the like in the place of published files
//! - `cli`: what the program says of itself, of its settings and of mistyped words
//! - `cli_files`: the man page and the completions list exactly the commands and flags of `--help`
//! - `cli_settings`: settings that cannot be, by the hundred
//! - `cli_shells`: completions and the manual page, read by those who will read them
//! - `openapi`: the document is served, printed, and shows real answers
//! - `larger_than_memory`: a history that does not fit is served all the same
//! - `memory_group`: the cgroup that it must not fit in
//! - `long_bodies`: bodies of many megabytes, sent in pieces
//! - `exhaustion`: what clients can make the server hold, and how long they can keep a worker from others
//! - `lists`: pages add up to the whole list, and links lead through it
//! - `patience`: how long a connection may be silent, and that a slow one is not
//! - `service`: what a service manager is told, signals, and restarts on a socket that was handed over
//! - `admin`: metrics, liveness and readiness
//! - `access_log`: a line for each request, and no key in any
//! - `guarded`: limits of connections: how many, how long, how old
//! - `faulty`: datasets with faults, and what `check` and `publish` say of them
//! - `publishing`: publishes are reproducible, all or nothing, and reach a running server
//! - `parsed_targets`: random paths and query strings, parsed by the program and by a plain reader
//! - `pages`: pages for people, what they say and cost
//! - `sign_up`: keys that people issue to themselves
//! - `sign_up_limits`: how often and how long, and who is kept waiting by whom
//! - `tidy`: the source keeps to its own map
//! - `wire`: bytes on a socket, well-formed and not, and what they spend
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access_log;
mod admin;
mod answers;
mod ask;
mod callers;
mod callers_model;
mod canary;
mod cli;
mod cli_files;
mod cli_settings;
mod cli_shells;
mod crash;
mod crowds;
mod damage;
mod disks;
mod dump_files;
mod dumps;
mod editions;
mod exhaustion;
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
mod midnight;
mod naive;
mod naive_days;
mod naive_query;
mod openapi;
mod pages;
mod parsed_targets;
mod patience;
mod published;
mod publishing;
mod races;
mod refreshes;
mod refused;
mod service;
mod sign_up;
mod sign_up_limits;
mod state;
mod support;
mod synced;
mod tidy;
mod torn;
mod traced;
mod wire;
mod world;
