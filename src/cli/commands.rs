//! Dispatch of commands, and the commands without a file of their own.

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
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{self, DatasetReader, Faults, Files, STEP_SECONDS, SyntheticSpec, synthesize};
use crate::durable;
use crate::publish::{self, PublishEvent, PublishOptions};
use crate::site::{self, SiteSettings};
use crate::snapshot::check_published;

/// The earliest last day of a synthetic dataset, 2017-01-01, so that its live steps, which are of the next day, are
/// valid.
const SYNTH_FIRST_DAY: UtcDay = UtcDay(17_167);

const NOTHING_PUBLISHED: &str = "\nnothing was published";

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
    let published = arguments.optional("generated-at", UnixSeconds::parse)?;
    let credit = arguments.required("credit", |text| {
        (!text.contains(char::is_control)).then(|| text.to_owned())
    })?;
    let options = PublishOptions {
        directory: &to,
        published,
        force: arguments.has("force"),
        full: arguments.has("full"),
        strict: arguments.has("strict"),
        credit: &credit,
    };
    let mut progress = Progress::new();
    let outcome = publish::publish(
        &Files::Directory(from),
        &options,
        &mut |event| match event {
            PublishEvent::Warnings(warnings) => report_warnings(warnings),
            PublishEvent::Progress { what, done, all } => progress.show(what, done, all),
            PublishEvent::CleanupFailed(error) => {
                report(&format!("an old file was not removed: {error}"));
            }
        },
    );
    let done = outcome.map_err(|error| {
        let is_unpublished = error.is_unpublished();
        let mut error = CliError::from(error);
        if is_unpublished {
            error.message.push_str(NOTHING_PUBLISHED);
        }
        error
    })?;
    report(&done.summary);
    let written = &done.manifest;
    for payload in written.history.iter().chain(&written.live) {
        let path = to.join(&payload.file);
        report(&format!("{} {} bytes", path.display(), payload.bytes));
    }
    let (islands, days, time) = (done.islands, done.days, done.time);
    report(&format!(
        "published {islands} islands and {days} days at {time}"
    ));
    Ok(())
}

fn report_warnings(warnings: &Faults) {
    for line in warnings.to_string().lines() {
        report(&format!("warning: {line}"));
    }
}

fn check(arguments: &Arguments) -> Result<(), CliError> {
    // If one directory is given as a flag, the variable of the other is ignored: a container image sets it for its
    // server.
    let is_named = ["dataset", "published"].map(|name| arguments.has_flag(name));
    let directory = |at: usize, name| -> Result<Option<PathBuf>, CliError> {
        let directory = arguments.optional(name, parsed)?;
        Ok(directory.filter(|_| is_named[at] || is_named == [false; 2]))
    };
    let (dataset, published) = (directory(0, "dataset")?, directory(1, "published")?);
    if dataset.is_none() && published.is_none() {
        return Err(CliError::usage("check requires --dataset or --published"));
    }
    if let Some(directory) = dataset {
        let _lock = durable::lock_shared(&directory);
        let files = Files::Directory(directory.clone());
        let mut source = DatasetReader::open(&files, UnixSeconds::now().day())?;
        source.strict = arguments.has("strict");
        source.reads_on = true;
        let mut progress = Progress::new();
        let counts = dataset::validate(&source, &mut |done, all| {
            progress.show("reading files", done, all);
        });
        let (islands, rows) = counts?;
        let (days, steps) = (source.days.len(), source.steps.len());
        report_warnings(&source.take_warnings());
        let path = directory.display();
        report(&format!(
            "{path}: sound; {islands} islands, {days} days with {rows} rows, {steps} live steps"
        ));
    }
    if let Some(directory) = published {
        let mut progress = Progress::new();
        let manifest = check_published(&directory, &mut |what, done, all| {
            progress.show(what, done, all);
        })?;
        let payloads = manifest.history.iter().chain(&manifest.live);
        let time = payloads.map(|named| named.generated_at.as_str()).max();
        let (path, time) = (directory.display(), time.unwrap_or_default());
        report(&format!("{path}: sound; published {time}"));
    }
    Ok(())
}

fn synth(arguments: &Arguments) -> Result<(), CliError> {
    let to: PathBuf = arguments.required("to", parsed)?;
    let days: u32 = arguments.required("days", parsed)?;
    let now = UnixSeconds::now();
    let today = now.day();
    let until = arguments.optional("until", |text| {
        UtcDay::parse(text).filter(|day| (SYNTH_FIRST_DAY..=today).contains(day))
    })?;
    let last_day = until.unwrap_or(UtcDay(today.0 - 1));
    if last_day < SYNTH_FIRST_DAY {
        let problem = format!("this machine's clock shows {today}; set the clock");
        return Err(CliError::usage(problem));
    }
    // With --until, the same at any time: noon of the day after, which is at the latest tomorrow, as in any dataset.
    let noon = last_day.end().0 + DAY_SECONDS / 2;
    let newest_step = until.map_or(now.0 - now.0 % STEP_SECONDS, |_| noon);
    let long_run_days: Option<u32> = arguments.optional("long-run-days", parsed)?;
    let spec = SyntheticSpec {
        islands: arguments.required("islands", parsed)?,
        creators: arguments.required("creators", parsed)?,
        days,
        long_run_days: long_run_days.unwrap_or(days.saturating_mul(2).min(60)),
        rows: arguments.optional("rows", parsed)?,
        seed: arguments.required("seed", parsed)?,
        last_day,
        newest_step,
    };
    let io = |error| CliError::io(&to, &error);
    fs::create_dir_all(&to).map_err(io)?;
    if fs::read_dir(&to).map_err(io)?.next().is_some() {
        let path = to.display();
        return Err(CliError::usage(format!(
            "--to must be a new or empty directory, got {path}"
        )));
    }
    let (mut progress, mut done) = (Progress::new(), 0);
    let written = synthesize(&spec, &mut |name, bytes| {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        durable::replace(&path, bytes)?;
        done += 1;
        progress.show("writing files", done, spec.files());
        Ok(())
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
