//! What each command does.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::arguments::Arguments;
use super::completions;
use super::failure::Failure;
use super::help;
use super::keys;
use super::man;
use super::progress::Progress;
use super::serve;
use super::{print, say};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{self, Files, SyntheticSpec, synthesize};
use crate::durable;
use crate::publish::{self, PublishEvent, PublishOptions};
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

/// Runs the command that the words name.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let arguments = Arguments::parse(words, std::env::vars_os())?;
    if arguments.wants_help {
        return print(&help::help(&arguments.name));
    }
    if arguments.wants_version {
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
        "completions" => completions::completions(&arguments),
        _ => print(&man::page()),
    }
}

fn publish_dataset(arguments: &Arguments) -> Result<(), Failure> {
    let from: PathBuf = arguments.required("dataset", "a directory")?;
    let to: PathBuf = arguments.required("to", "a directory")?;
    let want = "a timestamp, as 2026-11-20T12:05:00Z";
    let published = match arguments.one::<String>("generated-at", want)? {
        None => UnixSeconds::now(),
        Some(text) => UnixSeconds::parse(&text)
            .ok_or_else(|| Failure::usage(format!("--generated-at is {text:?}; want {want}")))?,
    };
    let credit: String = arguments.required("credit", "a line of text")?;
    if credit.contains(char::is_control) {
        return Err(Failure::usage("--credit is of several lines; want one"));
    }
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
            PublishEvent::WaitingForLock => say("waiting for another publish to this directory"),
            PublishEvent::Finished(summary) => say(summary),
            PublishEvent::Progress { what, done, all } => progress.show(what, done, all),
            PublishEvent::CleanupFailed(error) => {
                say(&format!("something old is left behind: {error}"));
            }
        },
    );
    drop(progress);
    let done = outcome.map_err(|error| {
        let is_refusal = error.is_refusal();
        let failure = Failure::from(error);
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
        say(&format!(
            "{} {} bytes",
            to.join(&payload.file).display(),
            payload.bytes
        ));
    }
    say(&format!(
        "published {} islands and {} days at {published}",
        done.islands, done.days
    ));
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let from: Option<PathBuf> = arguments.one("dataset", "a directory")?;
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    if from.is_none() && published.is_none() {
        return Err(Failure::usage("check wants --dataset or --published"));
    }
    if let Some(directory) = from {
        let mut progress = Progress::new();
        let files = Files::Directory(directory.clone());
        let sizes = dataset::validate(&files, UnixSeconds::now().day(), &mut |done, all| {
            progress.show("reading files", done, all);
        });
        drop(progress);
        let sizes = sizes?;
        say(&format!(
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
        say(&format!(
            "{}: sound; published {published}",
            directory.display()
        ));
    }
    Ok(())
}

fn synth(arguments: &Arguments) -> Result<(), Failure> {
    let to: PathBuf = arguments.required("to", "a directory")?;
    let days: u32 = arguments.number("days")?;
    let long_run_days = arguments.number_if_given("long-run-days")?;
    let spec = SyntheticSpec {
        islands: arguments.number("islands")?,
        creators: arguments.number("creators")?,
        days,
        long_run_days: long_run_days.unwrap_or(days.saturating_mul(2).min(60)),
        rows: arguments.number_if_given("rows")?,
        seed: arguments.number("seed")?,
        last_day: SYNTH_LAST_DAY,
    };
    fs::create_dir_all(&to).map_err(|error| Failure::io(&to, &error))?;
    let mut entries = fs::read_dir(&to).map_err(|error| Failure::io(&to, &error))?;
    if entries.next().is_some() {
        return Err(Failure::usage(format!(
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
    written.map_err(|error| Failure::io(&to, &error))
}

fn openapi(arguments: &Arguments) -> Result<(), Failure> {
    let base_url = serve::base_url(arguments)?;
    print(&site::openapi(&base_url.expect("the table has a value")))
}
