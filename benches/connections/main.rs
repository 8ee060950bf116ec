//! Connections: memory of an idle one, CPU time of a short one, and leaks. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them"
)]

mod churn;
#[path = "../common/mod.rs"]
mod common;
mod idle;

use std::ffi::OsString;

use crate::common::prelude::*;

/// Requested on every connection.
const TARGET: &str = "/v1";

/// The two servers, by name.
pub(crate) type Pair = [(&'static str, Server); 2];

/// Starts the release server, and a bare hyper that sends the same response.
fn start(scratch: &Scratch) -> Outcome<Pair> {
    let published = world::published(scratch.path(), TINY)?;
    let real = world::serve(|serve| {
        serve.arg("--published").arg(&published);
    })?;
    let captured = found(real.address, TARGET)?;
    let path = captured.save(scratch.path())?;
    let hyper = reference(bare::FLAG, &path, Some(SERVER_CORE))?;
    let hyper = Server::start(hyper)?;
    if let Some(difference) = captured.difference(&found(hyper.address, TARGET)?) {
        return Err(format!("the bare hyper sends something else: {difference}").into());
    }
    Ok([("island-metrics", real), ("bare hyper", hyper)])
}

fn benchmark() -> Outcome<()> {
    raise_limit()?;
    println!("{}", pin_load()?);
    let scratch = Scratch::new()?;
    let pair = start(&scratch)?;
    let mut sources = Sources::new();
    let quick = is_quick();
    let (count, rounds) = if quick { (100, 1) } else { (10_000, 7) };
    idle::measure(&pair, &mut sources, count)?;
    churn::measure(&pair, &mut sources, if quick { 64 } else { 4_000 }, rounds)
}

fn main() -> Outcome<()> {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match &arguments[..] {
        [flag, captured] if flag == bare::FLAG => bare::serve(captured.as_ref(), None),
        _ => benchmark(),
    }
}
