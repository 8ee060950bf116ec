//! `serve`: its flags made settings.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::arguments::Arguments;
use super::failure::Failure;
use super::say;
use crate::keys::KeyPrefix;
use crate::observe::Supervisor;
use crate::quota::{Sizes, TierLimits};
use crate::request::ProxyNetwork;
use crate::server::{self, Build, ConnectionLimits, Served, Settings};

const DEFAULT_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);
const DEFAULT_MEMORY_BYTES: usize = 256 << 20;
/// Which build this is.
pub(super) const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: "unknown",
};
const DEFAULT_QUOTA_CLIENTS: u64 = 5_000_000;

/// Serves until a signal.
pub(super) fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let mut listen: Vec<SocketAddr> =
        arguments.all("listen", "an address and port, as 127.0.0.1:8080")?;
    if listen.is_empty() {
        listen.push(DEFAULT_LISTEN.into());
    }
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = arguments.number("workers", 1..=1024, cores.min(1024) as u64)?;
    let key_prefix: Option<KeyPrefix> =
        arguments.one("key-prefix", "1 to 16 letters and digits")?;
    let trusted: Vec<ProxyNetwork> = arguments.all(
        "trusted-proxy",
        "a network or an address, as 10.0.0.0/8 or 2001:db8::1",
    )?;
    let clients = arguments.number(
        "quota-clients",
        1..=Sizes::CLIENTS_MAX,
        DEFAULT_QUOTA_CLIENTS,
    )?;
    let memory: Option<Bytes> =
        arguments.one("memory", "a number of bytes, as 268435456 or 256MiB")?;
    let settings = Settings {
        served: published.map_or(Served::Sample, Served::Directory),
        listen,
        base_url: base_url(arguments)?,
        workers: usize::try_from(workers).expect("at most 1024"),
        memory_bytes: memory.map_or(DEFAULT_MEMORY_BYTES, |bytes| bytes.0),
        state: arguments.one("state", "a directory")?,
        key_prefix: key_prefix.unwrap_or_default(),
        limits: limits(arguments)?,
        quota_sizes: Sizes::for_clients(clients),
        trusted_proxies: trusted.into(),
        connections: connection_limits(arguments)?,
        drain: seconds(arguments, "drain-seconds", 1..=3600, 25)?,
        admin: arguments.one("admin", "an address and port, as 127.0.0.1:9100")?,
        access_log: arguments.one("access-log", "a file")?,
        build: BUILD,
        supervisor: Supervisor::read(std::process::id(), |name| std::env::var_os(name)),
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

fn seconds(
    arguments: &Arguments,
    name: &str,
    bounds: RangeInclusive<u64>,
    default: u64,
) -> Result<Duration, Failure> {
    let seconds = arguments.number(name, bounds, default)?;
    Ok(Duration::from_secs(seconds))
}

fn connection_limits(arguments: &Arguments) -> Result<ConnectionLimits, Failure> {
    let default = ConnectionLimits::default();
    let time = |name, default: Duration| seconds(arguments, name, 1..=86_400, default.as_secs());
    let count = |name, max: u64, default: u32| arguments.number(name, 1..=max, default.into());
    let in_all = if arguments.has("connections") {
        Some(count("connections", u32::MAX.into(), 1)?)
    } else {
        None
    };
    let requests = count("connection-requests", u32::MAX.into(), default.requests)?;
    let of_address = count(
        "connections-per-address",
        u16::MAX.into(),
        default.of_address.into(),
    )?;
    let within = "within the range";
    Ok(ConnectionLimits {
        first_byte: time("first-byte-seconds", default.first_byte)?,
        head: time("head-seconds", default.head)?,
        idle: time("idle-seconds", default.idle)?,
        send: time("send-seconds", default.send)?,
        requests: u32::try_from(requests).expect(within),
        age: time("connection-seconds", default.age)?,
        in_all: in_all.map(|count| u32::try_from(count).expect(within)),
        of_address: u16::try_from(of_address).expect(within),
    })
}

fn limits(arguments: &Arguments) -> Result<TierLimits, Failure> {
    let default = TierLimits::default();
    let anonymous = arguments.number(
        "limit-anonymous",
        1..=u16::MAX.into(),
        default.anonymous.into(),
    )?;
    let keyed = |name, default: u32| -> Result<u32, Failure> {
        let limit = arguments.number(name, 1..=u32::MAX.into(), default.into())?;
        Ok(u32::try_from(limit).expect("within the range"))
    };
    Ok(TierLimits {
        anonymous: u16::try_from(anonymous).expect("within the range"),
        free: keyed("limit-free", default.free)?,
        starter: keyed("limit-starter", default.starter)?,
        pro: keyed("limit-pro", default.pro)?,
    })
}

/// A base URL without its trailing slash, made of what may stand in a header.
pub(super) fn base_url(arguments: &Arguments) -> Result<Option<String>, Failure> {
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
