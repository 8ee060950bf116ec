//! `serve`: its flags made settings.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::arguments::Arguments;
use super::failure::Failure;
use super::{config, possible, print, say};
use crate::keys::KeyPrefix;
use crate::observe::Supervisor;
use crate::quota::{TableSize, TierLimits};
use crate::request::{BASE_URL_BYTES_MAX, BASE_URL_FORM, ProxyNetwork, is_base_url};
use crate::server::{self, Build, ConnectionLimits, Served, Settings, SignUp};

/// Which build this is.
const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("BUILD_COMMIT"),
};

/// Serves until a signal.
pub(super) fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let settings = settings(arguments)?;
    possible::judge(arguments, &settings)?;
    if arguments.has("print-config") {
        return print(&config::shown(arguments, &settings));
    }
    let started = |address: &str| {
        let mut lines = vec![format!("listening on {address}")];
        if settings.served == Served::Sample {
            let hint = "serving the sample dataset; --published DIR serves yours. Try:";
            lines.push(hint.to_owned());
            let paths = ["/v1", "/v1/islands?limit=2", "/v1/rankings/latest"];
            lines.extend(paths.map(|path| format!("  curl '{address}{path}'")));
            lines.push(format!("or open {address}/ in a browser"));
        }
        lines
    };
    Ok(server::run(&settings, &started, say)?)
}

/// The flags as values, each sound by itself.
fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let published: Option<PathBuf> = arguments.one("published", "a directory")?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers: Option<u16> = arguments.number_if_given("workers")?;
    let key_prefix: KeyPrefix = arguments.required("key-prefix", "1 to 16 letters and digits")?;
    let trusted: Vec<ProxyNetwork> = arguments.all(
        "trusted-proxy",
        "a network or an address, as 10.0.0.0/8 or 2001:db8::1",
    )?;
    let memory: Bytes =
        arguments.required("memory", "a number of bytes, as 268435456 or 256MiB")?;
    Ok(Settings {
        served: published.map_or(Served::Sample, Served::Directory),
        listen: arguments.all("listen", "an address and port, as 127.0.0.1:8080")?,
        base_url: base_url(arguments)?,
        workers: workers.map_or_else(|| cores.min(1024), usize::from),
        memory_bytes: memory.0,
        state: arguments.one("state", "a directory")?,
        key_prefix,
        limits: TierLimits {
            anonymous: arguments.number("limit-anonymous")?,
            free: arguments.number("limit-free")?,
            starter: arguments.number("limit-starter")?,
            pro: arguments.number("limit-pro")?,
        },
        quota_sizes: TableSize::for_clients(arguments.number("quota-clients")?),
        trusted_proxies: trusted.into(),
        connections: connection_limits(arguments)?,
        drain: seconds(arguments, "drain-seconds")?,
        admin: arguments.one("admin", "an address and port, as 127.0.0.1:9100")?,
        access_log: arguments.one("access-log", "a file")?,
        sign_up: sign_up(arguments)?,
        sign_up_daily: arguments.number("signup-daily")?,
        build: BUILD,
        supervisor: Supervisor::read(std::process::id(), |name| std::env::var_os(name)),
    })
}

/// Sign-up, and the command that it takes to prove e-mail addresses.
fn sign_up(arguments: &Arguments) -> Result<Option<SignUp>, Failure> {
    let command: Option<String> = arguments.one("mailer", "a command, as /usr/sbin/sendmail")?;
    let how: Option<String> = arguments.one("signup", "ip or email")?;
    match (how.as_deref(), command) {
        (None, None) => Ok(None),
        (Some("ip"), None) => Ok(Some(SignUp::Ip)),
        (Some("email"), Some(command)) => Ok(Some(SignUp::Email(command))),
        (Some("email"), None) => {
            let problem =
                "is email, which sends links; want --mailer COMMAND, as /usr/sbin/sendmail";
            let place = arguments.place("signup");
            Err(Failure::configuration(format!("{place} {problem}")))
        }
        (Some("ip") | None, Some(_)) => {
            let place = arguments.place("mailer");
            let problem = "is given, but no mail is sent; want --signup email with it";
            Err(Failure::configuration(format!("{place} {problem}")))
        }
        (Some(other), _) => {
            let place = arguments.place("signup");
            Err(arguments.bad_value(format!("{place} is {other:?}; want ip or email")))
        }
    }
}

fn seconds(arguments: &Arguments, name: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_secs(arguments.number(name)?))
}

fn connection_limits(arguments: &Arguments) -> Result<ConnectionLimits, Failure> {
    Ok(ConnectionLimits {
        first_byte: seconds(arguments, "first-byte-seconds")?,
        head: seconds(arguments, "head-seconds")?,
        idle: seconds(arguments, "idle-seconds")?,
        send: seconds(arguments, "send-seconds")?,
        requests: arguments.number("connection-requests")?,
        age: seconds(arguments, "connection-seconds")?,
        in_all: arguments.number_if_given("connections")?,
        of_address: arguments.number("connections-per-address")?,
    })
}

/// A base URL without its trailing slash.
pub(super) fn base_url(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let want = format!("{BASE_URL_FORM}, in at most {BASE_URL_BYTES_MAX} characters");
    let Some(url) = arguments.one::<String>("base-url", &want)? else {
        return Ok(None);
    };
    if !is_base_url(&url) {
        let place = arguments.place("base-url");
        return Err(arguments.bad_value(format!("{place} is {url:?}; want {want}")));
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
        // Not what `parse` takes beside digits: a plus.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("no number");
        }
        let count: usize = digits.parse().map_err(|_| "no number")?;
        count.checked_mul(1 << shift).map(Bytes).ok_or("too many")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signup::Terms;

    fn parsed(words: &[&str], environment: &[(&str, &str)]) -> Result<Settings, Failure> {
        let words = words.iter().map(Into::into);
        let environment = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        settings(&Arguments::parse(words, environment)?)
    }

    #[test]
    fn defaults_of_the_table_are_those_of_the_rooms() {
        let settings = parsed(&[], &[]).unwrap();
        assert_eq!(settings.limits, TierLimits::default());
        assert_eq!(settings.connections, ConnectionLimits::default());
        assert_eq!(settings.key_prefix, KeyPrefix::default());
        assert_eq!(settings.sign_up_daily, Terms::default().daily_max);
        assert_eq!(settings.served, Served::Sample);
        assert!(settings.state.is_none() && settings.admin.is_none());
        assert!(settings.base_url.is_none() && settings.access_log.is_none());
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_defaults() {
        let environment = [
            ("ISLAND_METRICS_LIMIT_FREE", "7"),
            ("ISLAND_METRICS_LIMIT_PRO", "8"),
            ("ISLAND_METRICS_WORKERS", ""),
            ("ISLAND_METRICS_LISTEN", "127.0.0.1:1, [::1]:2"),
        ];
        let settings = parsed(&["--limit-free", "5"], &environment).unwrap();
        assert_eq!(settings.limits.free, 5);
        assert_eq!(settings.limits.pro, 8);
        assert_eq!(settings.limits.starter, TierLimits::default().starter);
        assert_eq!(settings.listen.len(), 2);
        let settings = parsed(&["--listen", "127.0.0.1:3"], &environment).unwrap();
        assert_eq!(settings.listen, ["127.0.0.1:3".parse().unwrap()]);
    }

    #[test]
    fn a_base_url_has_no_slash_at_its_end_and_a_wrong_one_is_told() {
        let settings = parsed(&["--base-url", "https://a.test/b/"], &[]).unwrap();
        assert_eq!(settings.base_url.as_deref(), Some("https://a.test/b"));
        let failure = parsed(&["--base-url", "http://a b"], &[]).unwrap_err();
        let told = failure.to_string();
        assert!(
            told.starts_with("--base-url is \"http://a b\"; want http:// or "),
            "{told}"
        );
    }
}
