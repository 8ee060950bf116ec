//! The running binary, over sockets.
//!
//! - `support`: starts the binary, speaks HTTP to it, cleans up after it
//! - `naive`: the oracle, the plainest reading of CONTRACT.md there is
//! - `naive_days`: the oracle's days: rankings, newcomers, live players
//! - `naive_query`: the oracle's reading of paths and query strings
//! - `world`: random datasets, and the CSV files that hold them
//! - `ask`: random requests, good and bad, about a dataset
//! - `answers`: every answer agrees with the oracle, and carries the headers that it must
//! - `openapi`: the document is served, printed, and shows real answers
//! - `crash`: processes killed at any moment lose no count and no key
//! - `lists`: pages add up to the whole list, and links lead through it
//! - `publishing`: publishes are reproducible, all or nothing, and reach a running server
//! - `tidy`: the source keeps to its own map
//! - `wire`: bytes on a socket, well-formed and not, and what they spend
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answers;
mod ask;
mod crash;
mod lists;
mod naive;
mod naive_days;
mod naive_query;
mod openapi;
mod publishing;
mod support;
mod tidy;
mod wire;
mod world;
