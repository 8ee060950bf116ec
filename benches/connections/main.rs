//! Connections: what an idle one holds in memory, what one that comes and goes costs in CPU, and
//! whether anything stays behind; the release server beside a bare hyper.
//!
//! In: the release binary with its sample dataset. Out: tables on stdout. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a program that computes with measurements and prints what comes of it"
)]

mod churn;
#[allow(dead_code, reason = "each bench uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod idle;

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::process::Command;

use crate::common::http::found;
use crate::common::lines::Sources;
use crate::common::process::{Scratch, Server, myself, pin_load};
use crate::common::world::{self, Size};
use crate::common::{Outcome, SERVER_CORE, bare, is_quick, raised};

/// Asked for on every connection.
const TARGET: &str = "/v1";

/// The two servers, by name.
pub(crate) struct Pair {
    pub(crate) servers: [(&'static str, Server); 2],
}

impl Pair {
    /// The real server, and a bare hyper that sends what the real one sent.
    fn start(scratch: &Scratch, size: Size) -> Outcome<Pair> {
        let published = world::published(scratch.path(), size)?;
        let wrapper = &raised::RAISE;
        let real = world::serve(&published, None, wrapper)?;
        let captured = found(real.address, TARGET)?;
        let path = scratch.path().join("captured");
        File::create(&path)?.write_all(&captured.raw)?;
        let inner = myself(bare::FLAG, &path, Some(SERVER_CORE))?;
        let mut outer = Command::new(wrapper[0]);
        outer.args(&wrapper[1..]).arg(inner.get_program());
        let hyper = Server::start({
            outer.args(inner.get_args());
            outer
        })?;
        if let Some(difference) = captured.difference(&found(hyper.address, TARGET)?) {
            return Err(format!("the bare hyper sends something else: {difference}").into());
        }
        let servers = [("island-metrics", real), ("bare hyper", hyper)];
        Ok(Pair { servers })
    }
}

fn benchmark(quick: bool) -> Outcome<()> {
    println!("{}", pin_load()?);
    let scratch = Scratch::new()?;
    let size = Size {
        islands: 400,
        creators: 150,
        days: 3,
    };
    let pair = Pair::start(&scratch, size)?;
    let mut sources = Sources::new()?;
    let (count, rounds) = if quick { (100, 1) } else { (10_000, 7) };
    idle::measure(&pair, &mut sources, count)?;
    churn::measure(&pair, &mut sources, if quick { 64 } else { 4_000 }, rounds)
}

fn main() -> Outcome<()> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match &words[..] {
        [flag, captured] if flag == bare::FLAG => bare::serve(captured.as_ref()),
        [.., last] if last == raised::RAISED => benchmark(is_quick()),
        _ if raised::again()? => Ok(()),
        _ => Err("it failed".into()),
    }
}
