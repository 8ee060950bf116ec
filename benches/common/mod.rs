//! What the benches share: starting and watching servers, making load, counting time.

pub(crate) mod bare;
pub(crate) mod floods;
pub(crate) mod flow;
pub(crate) mod histogram;
pub(crate) mod honest;
pub(crate) mod hostile;
pub(crate) mod http;
pub(crate) mod judged;
pub(crate) mod lines;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod raised;
pub(crate) mod stats;
pub(crate) mod text;
pub(crate) mod world;

use std::env;
use std::error::Error;
use std::time::Duration;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// The program under test, built by cargo with the bench.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_island-metrics");
/// No answer within this is a failure, not a measurement.
pub(crate) const STALL: Duration = Duration::from_secs(20);
/// Servers run here, the load on the other.
pub(crate) const SERVER_CORE: u32 = 0;
pub(crate) const LOAD_CORE: u32 = 1;

/// Whether this run only has to show that the bench works: `cargo bench` says `--bench`, and
/// `cargo test --benches` does not.
pub(crate) fn is_quick() -> bool {
    let has = |flag: &str| env::args_os().any(|word| word == flag);
    env::var_os("IM_BENCH_QUICK").is_some() || has("--test") || !has("--bench")
}
