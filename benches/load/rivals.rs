//! Build of `benches/rivals`, the crate with axum and actix-web.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Outcome;
use crate::common::process::run;

/// Builds the program into `target/rivals` and returns its path. A quick run requires a program built
/// before.
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
    // Without a network this fails fast, not after a minute of attempts.
    build
        .env("CARGO_NET_RETRY", "0")
        .env("CARGO_HTTP_TIMEOUT", "15");
    run(build)?;
    Ok(program)
}
