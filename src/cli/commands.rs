//! Dispatch of commands, and the commands other than `serve` and `keys`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::arguments::{Arguments, parsed};
use super::error::CliError;
use super::help;
use super::keys;
use super::progress::Progress;
use super::serve;
use super::{print, report};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{self, DatasetCounts, Files, SyntheticSpec, synthesize};
use crate::durable;
use crate::publish::{self, PublishEvent, PublishOptions};
use crate::site::{self, SiteSettings};

/// Last day of synthetic datasets, 2026-11-20. Fixed, so that the same arguments give the same bytes
/// on any day.
const SYNTH_LAST_DAY: UtcDay = UtcDay(20_777);

/// Runs the command that `words` select.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), CliError> {
    let arguments = Arguments::parse(words, std::env::vars_os())?;
    if arguments.help_requested {
        return print(&help::help(&arguments.name));
    }
    if arguments.version_requested {
        // The target tells builds for several platforms apart.
        let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
        let target = env!("BUILD_TARGET");
        return print(&format!(
            "island-metrics {version} (commit {commit}, {target})\n"
        ));
    }
    match arguments.command.name {
        "serve" => serve::serve(&arguments),
        "publish" => publish_dataset(&arguments),
        "check" => check(&arguments),
        "synth" => synth(&arguments),
        "keys issue" => keys::issue(&arguments),
        "keys list" => keys::list(&arguments),
        "keys revoke" => keys::set_revoked(&arguments, true),
        "keys restore" => keys::set_revoked(&arguments, false),
        #[cfg(feature = "collect")]
        "collect" => super::collect::collect(&arguments),
        #[cfg(not(feature = "collect"))]
        "collect" => Err(CliError::usage(
            "this build has no `collect`; build it with `cargo build --release --features collect`",
        )),
        "healthcheck" => super::healthcheck::healthcheck(&arguments),
        "openapi" => openapi(&arguments),
        "completions" => completions(&arguments),
        _ => print(include_str!("../../data/man/island-metrics.1")),
    }
}

fn publish_dataset(arguments: &Arguments) -> Result<(), CliError> {
    let from: PathBuf = arguments.required("dataset", parsed)?;
    let to: PathBuf = arguments.required("to", parsed)?;
    // A collector replaces several files together.
    let _lock = durable::lock_shared(&from);
    let published = arguments.optional("generated-at", UnixSeconds::parse)?;
    let published = published.unwrap_or_else(UnixSeconds::now);
    let credit = arguments.required("credit", |text| {
        (!text.contains(char::is_control)).then(|| text.to_owned())
    })?;
    let options = PublishOptions {
        directory: &to,
        published,
        force: arguments.has("force"),
        full: arguments.has("full"),
        credit: &credit,
    };
    let mut progress = Progress::new();
    let outcome = publish::publish(
        &Files::Directory(from),
        &options,
        &mut |event| match event {
            PublishEvent::WaitingForLock => report("waiting for another publish to this directory"),
            PublishEvent::Finished(summary) => report(summary),
            PublishEvent::Progress { what, done, all } => progress.show(what, done, all),
            PublishEvent::CleanupFailed(error) => {
                report(&format!("an old file was not removed: {error}"));
            }
        },
    );
    drop(progress);
    let done = outcome.map_err(|error| {
        let is_refusal = error.is_refusal();
        let mut error = CliError::from(error);
        if is_refusal {
            error.message.push_str("\nnothing was published");
        }
        error
    })?;
    for payload in done.manifest.payloads() {
        let path = to.join(&payload.file);
        report(&format!("{} {} bytes", path.display(), payload.bytes));
    }
    let (islands, days) = (done.islands, done.days);
    report(&format!(
        "published {islands} islands and {days} days at {published}"
    ));
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), CliError> {
    let dataset: Option<PathBuf> = arguments.optional("dataset", parsed)?;
    let published: Option<PathBuf> = arguments.optional("published", parsed)?;
    if dataset.is_none() && published.is_none() {
        return Err(CliError::usage("check requires --dataset or --published"));
    }
    if let Some(directory) = dataset {
        let _lock = durable::lock_shared(&directory);
        let mut progress = Progress::new();
        let files = Files::Directory(directory.clone());
        let counts = dataset::validate(&files, UnixSeconds::now().day(), &mut |done, all| {
            progress.show("reading files", done, all);
        });
        drop(progress);
        let DatasetCounts {
            islands,
            days,
            rows,
            steps,
        } = counts?;
        let path = directory.display();
        report(&format!(
            "{path}: sound; {islands} islands, {days} days with {rows} rows, {steps} live steps"
        ));
    }
    if let Some(directory) = published {
        let time = publish::check_published(&directory)?.published;
        let time = time.map_or_else(|| "never".to_owned(), |time| time.to_string());
        report(&format!("{}: sound; published {time}", directory.display()));
    }
    Ok(())
}

fn synth(arguments: &Arguments) -> Result<(), CliError> {
    let to: PathBuf = arguments.required("to", parsed)?;
    let days: u32 = arguments.required("days", parsed)?;
    let long_run_days: Option<u32> = arguments.optional("long-run-days", parsed)?;
    let spec = SyntheticSpec {
        islands: arguments.required("islands", parsed)?,
        creators: arguments.required("creators", parsed)?,
        days,
        long_run_days: long_run_days.unwrap_or(days.saturating_mul(2).min(60)),
        rows: arguments.optional("rows", parsed)?,
        seed: arguments.required("seed", parsed)?,
        last_day: SYNTH_LAST_DAY,
    };
    let io = |error| CliError::io(&to, &error);
    fs::create_dir_all(&to).map_err(io)?;
    if fs::read_dir(&to).map_err(io)?.next().is_some() {
        let path = to.display();
        return Err(CliError::usage(format!(
            "--to must be a new or empty directory, got {path}"
        )));
    }
    let written = synthesize(&spec, &mut |name, bytes| {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        durable::replace(&path, bytes)
    });
    written.map_err(io)
}

fn openapi(arguments: &Arguments) -> Result<(), CliError> {
    let base_url = serve::base_url(arguments)?;
    let service = SiteSettings::new(&base_url.expect("the table has a default"));
    print(&site::openapi(&service))
}

/// Prints the completion script of the shell that the operand names.
fn completions(arguments: &Arguments) -> Result<(), CliError> {
    print(arguments.operand("bash, zsh or fish", |shell| match shell {
        "bash" => Some(include_str!("../../data/completions/island-metrics.bash")),
        "zsh" => Some(include_str!("../../data/completions/_island-metrics")),
        "fish" => Some(include_str!("../../data/completions/island-metrics.fish")),
        _ => None,
    })?)
}
