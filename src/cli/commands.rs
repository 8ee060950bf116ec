//! What each command does.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::arguments::Arguments;
use super::error::CliError;
use super::help;
use super::keys;
use super::progress::Progress;
use super::serve;
use super::{print, report};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{self, Files, Synthetic, synthesize};
use crate::durable;
use crate::publish::{self, Event, Options};
use crate::site;

/// The last day of synthetic datasets, 2026-11-20: fixed, so that the same arguments give the same
/// bytes on any day.
const SYNTH_LAST_DAY: UtcDay = UtcDay(20_777);

/// What `--version` prints: the target too, as builds for several may lie side by side.
const VERSION: &str = concat!(
    "island-metrics ",
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("BUILD_COMMIT"),
    ", ",
    env!("BUILD_TARGET"),
    ")\n"
);

/// Manual page and shell completions. Tests compare their commands, flags and help texts with the
/// flag table.
const MAN_PAGE: &str = include_str!("../../data/man/island-metrics.1");
const BASH_COMPLETIONS: &str = include_str!("../../data/completions/island-metrics.bash");
const ZSH_COMPLETIONS: &str = include_str!("../../data/completions/_island-metrics");
const FISH_COMPLETIONS: &str = include_str!("../../data/completions/island-metrics.fish");

/// Runs the command that the words name.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), CliError> {
    let arguments = Arguments::parse(words, std::env::vars_os())?;
    if arguments.help_requested {
        return print(&help::help(&arguments.name));
    }
    if arguments.version_requested {
        return print(VERSION);
    }
    match arguments.command.name {
        "serve" => serve::serve(&arguments),
        "publish" => publish_dataset(&arguments),
        "check" => check(&arguments),
        "synth" => synth(&arguments),
        "keys issue" => keys::issue(&arguments),
        "keys list" => keys::list(&arguments),
        "keys revoke" => keys::revoke(&arguments),
        "keys restore" => keys::restore(&arguments),
        "openapi" => openapi(&arguments),
        "completions" => completions(&arguments),
        _ => print(MAN_PAGE),
    }
}

fn publish_dataset(arguments: &Arguments) -> Result<(), CliError> {
    let from: PathBuf = arguments.required("dataset", "a directory")?;
    let to: PathBuf = arguments.required("to", "a directory")?;
    let want = "a timestamp, as 2026-11-20T12:05:00Z";
    let published = match arguments.one::<String>("generated-at", want)? {
        None => UnixSeconds::now(),
        Some(text) => UnixSeconds::parse(&text)
            .ok_or_else(|| CliError::usage(format!("--generated-at is {text:?}; want {want}")))?,
    };
    let credit: String = arguments.required("credit", "a line of text")?;
    if credit.contains(char::is_control) {
        return Err(CliError::usage("--credit is of several lines; want one"));
    }
    let options = Options {
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
            Event::Waiting => report("waiting for another publish to this directory"),
            Event::Made(summary) => report(summary),
            Event::Progress { what, done, all } => progress.show(what, done, all),
            Event::LeftBehind(error) => report(&format!("something old is left behind: {error}")),
        },
    );
    drop(progress);
    let done = outcome.map_err(|error| {
        let is_refusal = error.is_refusal();
        let failure = CliError::from(error);
        if is_refusal {
            failure.with_line("nothing was published")
        } else {
            failure
        }
    })?;
    for payload in [done.manifest.history, done.manifest.live]
        .into_iter()
        .flatten()
    {
        report(&format!(
            "{} {} bytes",
            to.join(&payload.file).display(),
            payload.bytes
        ));
    }
    report(&format!(
        "published {} islands and {} days at {published}",
        done.islands, done.days
    ));
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), CliError> {
    let from: Option<PathBuf> = arguments.one("dataset", "a directory")?;
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    if from.is_none() && published.is_none() {
        return Err(CliError::usage("check wants --dataset or --published"));
    }
    if let Some(directory) = from {
        let mut progress = Progress::new();
        let files = Files::Directory(directory.clone());
        let sizes = dataset::check(&files, UnixSeconds::now().day(), &mut |done, all| {
            progress.show("reading files", done, all);
        });
        drop(progress);
        let sizes = sizes?;
        report(&format!(
            "{}: sound; {} islands, {} days with {} rows, {} live steps",
            directory.display(),
            sizes.islands,
            sizes.days,
            sizes.rows,
            sizes.steps
        ));
    }
    if let Some(directory) = published {
        let snapshot = publish::check_published(&directory)?;
        let published = snapshot
            .published()
            .map_or_else(|| "never".to_owned(), |time| time.to_string());
        report(&format!(
            "{}: sound; published {published}",
            directory.display()
        ));
    }
    Ok(())
}

fn synth(arguments: &Arguments) -> Result<(), CliError> {
    let to: PathBuf = arguments.required("to", "a directory")?;
    let days: u32 = arguments.number("days")?;
    let long_run_days = arguments.number_if_given("long-run-days")?;
    let spec = Synthetic {
        islands: arguments.number("islands")?,
        creators: arguments.number("creators")?,
        days,
        long_run_days: long_run_days.unwrap_or(days.saturating_mul(2).min(60)),
        rows: arguments.number_if_given("rows")?,
        seed: arguments.number("seed")?,
        last_day: SYNTH_LAST_DAY,
    };
    fs::create_dir_all(&to).map_err(|error| CliError::io(&to, &error))?;
    let mut entries = fs::read_dir(&to).map_err(|error| CliError::io(&to, &error))?;
    if entries.next().is_some() {
        return Err(CliError::usage(format!(
            "{} is not empty; want a new or empty directory",
            to.display()
        )));
    }
    let written = synthesize(&spec, &mut |name, bytes| {
        let path = to.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        durable::replace(&path, bytes)
    });
    written.map_err(|error| CliError::io(&to, &error))
}

fn openapi(arguments: &Arguments) -> Result<(), CliError> {
    let base_url = serve::base_url(arguments)?;
    print(&site::openapi(&base_url.expect("the table has a value")))
}

/// Prints the completion script of the shell that the operand names.
fn completions(arguments: &Arguments) -> Result<(), CliError> {
    const SHELLS: &str = "bash, zsh or fish";
    let shell: String = arguments.operand(SHELLS)?;
    match shell.as_str() {
        "bash" => print(BASH_COMPLETIONS),
        "zsh" => print(ZSH_COMPLETIONS),
        "fish" => print(FISH_COMPLETIONS),
        _ => Err(CliError::usage(format!("completions wants {SHELLS}"))),
    }
}
