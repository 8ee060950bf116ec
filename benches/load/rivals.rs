//! The frameworks that the bench compares with: a crate of their own, built here.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Outcome;
use crate::common::process::run;

/// The frameworks' program, built into a directory of its own under `target`; a quick run takes it
/// as it is, or goes without.
pub(crate) fn build(target: &Path, quick: bool) -> Outcome<PathBuf> {
    let into = target.join("rivals");
    let program = into.join("release/rivals");
    if quick {
        let there = program.exists().then_some(program);
        return there.ok_or_else(|| "a quick run does not build them".into());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/rivals/Cargo.toml");
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--quiet"]);
    build.arg("--manifest-path").arg(manifest);
    build.arg("--target-dir").arg(into);
    // Without a network this fails at once, not after a minute of attempts.
    build
        .env("CARGO_NET_RETRY", "0")
        .env("CARGO_HTTP_TIMEOUT", "15");
    run(build)?;
    Ok(program)
}
