//! What each command does.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::arguments::Arguments;
use super::failure::Failure;
use super::flags;
use super::progress::Progress;
use super::say;
use crate::calendar::{Clock, UnixSeconds, UtcDay};
use crate::dataset::{Dataset, Files, Synthetic, synthesize};
use crate::durable;
use crate::publish;
use crate::server::{self, Served, Settings};
use crate::site;

const DEFAULT_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);
const DEFAULT_MEMORY_BYTES: usize = 256 << 20;
/// What an anonymous client gets a day (SPEC section 8).
const DEFAULT_LIMIT_ANONYMOUS: u16 = 100;

/// The last day of synthetic datasets, 2026-11-20: fixed, so that the same arguments give the same
/// bytes on any day.
const SYNTH_LAST_DAY: UtcDay = UtcDay(20_777);

/// Runs the command that the words name.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let mut words = words.peekable();
    let named = words
        .peek()
        .is_some_and(|word| !word.to_string_lossy().starts_with('-'));
    let arguments = Arguments::parse(words)?;
    if arguments.wants_help {
        print!("{}", flags::help(named.then_some(arguments.command)));
        return Ok(());
    }
    if arguments.wants_version {
        println!("island-metrics {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    match arguments.command.name {
        "serve" => serve(&arguments),
        "publish" => publish_dataset(&arguments),
        "check" => check(&arguments),
        "synth" => synth(&arguments),
        _ => openapi(&arguments),
    }
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let mut listen: Vec<SocketAddr> =
        arguments.all("listen", "an address and port, as 127.0.0.1:8080")?;
    if listen.is_empty() {
        listen.push(DEFAULT_LISTEN.into());
    }
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers: Option<usize> = arguments.one("workers", "a number from 1 to 1024")?;
    let workers = workers.unwrap_or(cores);
    if !(1..=1024).contains(&workers) {
        return Err(Failure::configuration(format!(
            "--workers is {workers}; want a number from 1 to 1024"
        )));
    }
    let want_limit = "a number from 1 to 65535";
    let limit_anonymous = arguments
        .one("limit-anonymous", want_limit)?
        .unwrap_or(DEFAULT_LIMIT_ANONYMOUS);
    if limit_anonymous == 0 {
        return Err(Failure::configuration(format!(
            "--limit-anonymous is 0; want {want_limit}"
        )));
    }
    let memory: Option<Bytes> =
        arguments.one("memory", "a number of bytes, as 268435456 or 256MiB")?;
    let settings = Settings {
        served: published.map_or(Served::Sample, Served::Directory),
        listen,
        base_url: base_url(arguments)?,
        workers,
        memory_bytes: memory.map_or(DEFAULT_MEMORY_BYTES, |bytes| bytes.0),
        limit_anonymous,
    };
    let started = |address: &str| {
        say(&format!("listening on {address}"));
        if settings.served == Served::Sample {
            say("serving the sample dataset; --published DIR serves yours. Try:");
            for path in ["/v1", "/v1/islands?limit=2", "/v1/rankings/latest"] {
                say(&format!("  curl '{address}{path}'"));
            }
        }
    };
    Ok(server::run(&settings, &started, say)?)
}

/// A base URL without its trailing slash, made of what may stand in a header.
fn base_url(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let want = "http:// or https:// and a host, perhaps a path";
    let Some(url) = arguments.one::<String>("base-url", want)? else {
        return Ok(None);
    };
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let sound = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
        && url
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"<>\"\\?#{}".contains(&byte));
    if !sound {
        return Err(Failure::configuration(format!(
            "--base-url is {url:?}; want {want}"
        )));
    }
    Ok(Some(url.trim_end_matches('/').to_owned()))
}

/// A number of bytes; `KiB`, `MiB` and `GiB` multiply.
struct Bytes(usize);

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Bytes, &'static str> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let unit = units
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (digits, shift) = unit.unwrap_or((text, 0));
        let count: usize = digits.trim().parse().map_err(|_| "no number")?;
        count.checked_mul(1 << shift).map(Bytes).ok_or("too many")
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
        None => Clock.now(),
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
    let spec = Synthetic {
        islands: arguments.one("islands", number)?.unwrap_or(2000),
        creators: arguments.one("creators", number)?.unwrap_or(800),
        days: arguments.one("days", number)?.unwrap_or(30),
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
    let base_url = base_url(arguments)?.unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    print!("{}", site::openapi(&base_url));
    Ok(())
}
