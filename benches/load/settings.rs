//! What every part of the benchmark goes by.

use std::error::Error;
use std::time::Duration;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_island-metrics");
pub(crate) const CONNECTIONS: u32 = 32;
pub(crate) const ROUNDS: u32 = 7;
/// How long one server is under load for one case in one round.
pub(crate) const RUN: Duration = Duration::from_millis(400);
/// No run is longer, whatever the machine: a source address may send 65,535 requests a day, and a
/// round, which has its own 32, measures 8 cases. Each stays below 60,000.
pub(crate) const REQUESTS_MAX: u32 = 7000 * CONNECTIONS;
/// When no further round begins, so that a slow machine ends too.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);
/// No answer within this is a failure, not a measurement.
pub(crate) const STALL: Duration = Duration::from_secs(20);
/// Nanoseconds in a tick of `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
pub(crate) const TICK_NANOS: u64 = 10_000_000;
pub(crate) const OFFSET_STEP: u32 = 7919; // a prime, so that steps modulo the islands meet each offset once
