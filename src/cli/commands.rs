//! What each command does.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::arguments::Arguments;
use super::failure::Failure;
use super::flags;
use super::keys;
use super::progress::Progress;
use super::serve;
use super::{print, say};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Dataset, Files, Synthetic, synthesize};
use crate::durable;
use crate::publish;
use crate::site;

/// The last day of synthetic datasets, 2026-11-20: fixed, so that the same arguments give the same
/// bytes on any day.
const SYNTH_LAST_DAY: UtcDay = UtcDay(20_777);

/// Runs the command that the words name.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let arguments = Arguments::parse(words)?;
    if arguments.wants_help {
        return print(&flags::help(&arguments.name));
    }
    if arguments.wants_version {
        return print(concat!("island-metrics ", env!("CARGO_PKG_VERSION"), "\n"));
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
        _ => openapi(&arguments),
    }
}

fn load(directory: &Path, what: &'static str) -> Result<Dataset, Failure> {
    let mut progress = Progress::new(what);
    let files = Files::Directory(directory.to_owned());
    Ok(Dataset::load(&files, &mut |done, all| {
        progress.show(done, all);
    })?)
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
    let dataset = load(&from, "reading files")?;
    let mut progress = Progress::new("rendering bodies");
    let force = arguments.has("force");
    let manifest = publish::publish(&dataset, &to, published, force, &mut |done, all| {
        progress.show(done, all);
    })?;
    drop(progress);
    for payload in [manifest.history, manifest.live].into_iter().flatten() {
        say(&format!(
            "{} {} bytes",
            to.join(&payload.file).display(),
            payload.bytes
        ));
    }
    say(&format!(
        "published {} islands and {} days at {published}",
        dataset.islands.len(),
        dataset.days.len()
    ));
    Ok(())
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let dataset: Option<PathBuf> = arguments.one("dataset", "a directory")?;
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    if dataset.is_none() && published.is_none() {
        return Err(Failure::usage("check wants --dataset or --published"));
    }
    if let Some(directory) = dataset {
        let dataset = load(&directory, "reading files")?;
        let rows: usize = dataset
            .days
            .values()
            .map(|day| day.daily.len() + day.ccu.len())
            .sum();
        say(&format!(
            "{}: sound; {} islands, {} days with {rows} rows, {} live steps",
            directory.display(),
            dataset.islands.len(),
            dataset.days.len(),
            dataset.live.len()
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
    let number = "a whole number";
    let to: PathBuf = arguments.required("to", "a directory")?;
    let days: u32 = arguments.one("days", number)?.unwrap_or(30);
    let long_run_days = arguments.one("long-run-days", number)?;
    let spec = Synthetic {
        islands: arguments.one("islands", number)?.unwrap_or(2000),
        creators: arguments.one("creators", number)?.unwrap_or(800),
        days,
        long_run_days: long_run_days.unwrap_or(days.saturating_mul(2).min(60)),
        rows: arguments.one("rows", number)?,
        seed: arguments.one("seed", number)?.unwrap_or(1),
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
    let base_url =
        serve::base_url(arguments)?.unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    print(&site::openapi(&base_url))
}
