//! The command `serve`: flags to server settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::arguments::{Arguments, parsed};
use super::error::CliError;
use super::{help, print, report, validate};
use crate::keys::KeyPrefix;
use crate::model::{TierLimits, digits};
use crate::observe::SystemdEnvironment;
use crate::publish::open_sample;
use crate::quota::TableSize;
#[cfg(feature = "shared-quota")]
use crate::quota::{OutagePolicy, SharingSettings};
use crate::request::{ProxyNetwork, TrustedProxies, is_base_url};
use crate::server::{self, ConnectionLimits, Settings};
#[cfg(feature = "shared-quota")]
use crate::shared::{SharedQuotaSettings, StoreNode};
use crate::signup::SignupPolicy;
use crate::sync::cores;

/// Serves until a signal.
pub(super) fn serve(arguments: &Arguments) -> Result<(), CliError> {
    let settings = settings(arguments)?;
    validate::validate(arguments, &settings)?;
    if arguments.has("print-config") {
        return print(&help::settings_text(arguments, &settings));
    }
    let started = |urls: &[String]| {
        let mut lines: Vec<String> = urls
            .iter()
            .map(|url| format!("listening on {url}"))
            .collect();
        if let (None, Some(address)) = (&settings.published, urls.first()) {
            let hint = "serving the sample dataset; --published DIR serves yours. Try:";
            lines.push(hint.to_owned());
            let paths = ["/v1", "/v1/islands?limit=2", "/v1/rankings/latest"];
            lines.extend(paths.map(|path| format!("  curl '{address}{path}'")));
            lines.push(format!("or open {address}/ in a browser"));
        }
        lines
    };
    Ok(server::run(&settings, &started, report)?)
}

/// The settings of a server, each valid by itself.
fn settings(arguments: &Arguments) -> Result<Settings, CliError> {
    let workers: Option<usize> = arguments.optional("workers", parsed)?;
    let key_prefix: KeyPrefix = arguments.required("key-prefix", parsed)?;
    let trusted = arguments.all("trusted-proxy", ProxyNetwork::parse)?;
    let memory_bytes = arguments.required("memory", parse_bytes)?;
    let certificate: Option<PathBuf> = arguments.optional("tls-certificate", parsed)?;
    let listen_tls: Vec<SocketAddr> = arguments.all("listen-tls", parsed)?;
    let mut listen: Vec<SocketAddr> = arguments.all("listen", parsed)?;
    if !listen_tls.is_empty() && !arguments.has("listen") {
        listen.clear();
    }
    Ok(Settings {
        #[cfg(feature = "shared-quota")]
        shared_quota: shared_quota(arguments)?,
        contact: arguments.optional("contact", contact)?,
        published: arguments.optional("published", parsed)?,
        open_sample,
        listen,
        listen_tls,
        certificate: certificate.zip(arguments.optional("tls-key", parsed)?),
        base_url: base_url(arguments)?,
        workers: workers.unwrap_or_else(|| cores().min(1024)),
        memory_bytes,
        state: arguments.optional("state", parsed)?,
        key_prefix,
        limits: TierLimits {
            anonymous: arguments.required("limit-anonymous", parsed)?,
            free: arguments.required("limit-free", parsed)?,
            starter: arguments.required("limit-starter", parsed)?,
            pro: arguments.required("limit-pro", parsed)?,
        },
        quota_sizes: TableSize::for_clients(arguments.required("quota-clients", parsed)?),
        trusted_proxies: TrustedProxies(trusted),
        connections: connection_limits(arguments)?,
        drain: seconds(arguments, "drain-seconds")?,
        admin: arguments.optional("admin", parsed)?,
        access_log: arguments.optional("access-log", parsed)?,
        signup: sign_up(arguments)?,
        systemd: SystemdEnvironment::read(std::process::id(), |name| std::env::var_os(name)),
    })
}

#[cfg(feature = "shared-quota")]
fn shared_quota(arguments: &Arguments) -> Result<Option<SharedQuotaSettings>, CliError> {
    let nodes: Vec<StoreNode> = arguments.all("shared-quota", parsed)?;
    let outage = arguments.required("shared-quota-outage", |text| match text {
        "share" => Some(OutagePolicy::Share),
        "refuse" => Some(OutagePolicy::Refuse),
        _ => None,
    })?;
    let settings = SharedQuotaSettings {
        has_keys: arguments.has("shared-keys"),
        nodes,
        password_file: arguments.optional("shared-quota-password-file", parsed)?,
        ca_file: arguments.optional("shared-quota-ca-file", parsed)?,
        sharing: SharingSettings {
            servers: arguments.required("shared-quota-replicas", parsed)?,
            outage,
            clients_max: arguments.required("quota-clients", parsed)?,
        },
    };
    Ok((!settings.nodes.is_empty()).then_some(settings))
}

fn sign_up(arguments: &Arguments) -> Result<Option<SignupPolicy>, CliError> {
    let is_known = |how: &str| ["ip", "email"].contains(&how).then_some(());
    let policy = SignupPolicy {
        mailer: arguments.optional("mailer", parsed)?,
        daily_max: arguments.required("signup-daily", parsed)?,
    };
    Ok(arguments.optional("signup", is_known)?.map(|()| policy))
}

fn seconds(arguments: &Arguments, name: &str) -> Result<Duration, CliError> {
    Ok(Duration::from_secs(arguments.required(name, parsed)?))
}

fn connection_limits(arguments: &Arguments) -> Result<ConnectionLimits, CliError> {
    Ok(ConnectionLimits {
        first_byte: seconds(arguments, "first-byte-seconds")?,
        head: seconds(arguments, "head-seconds")?,
        idle: seconds(arguments, "idle-seconds")?,
        send: seconds(arguments, "send-seconds")?,
        send_rate: arguments.required("send-rate", parsed)?,
        requests: arguments.required("connection-requests", parsed)?,
        age: seconds(arguments, "connection-seconds")?,
        connections_max: arguments.optional("connections", parsed)?,
        connections_per_address_max: arguments.required("connections-per-address", parsed)?,
    })
}

/// A base URL without its trailing slash.
pub(super) fn base_url(arguments: &Arguments) -> Result<Option<String>, CliError> {
    arguments.optional("base-url", |url| {
        is_base_url(url).then(|| url.trim_end_matches('/').to_owned())
    })
}

/// The least number of bytes that is accepted without a unit.
const BYTES_WITHOUT_UNIT_MIN: usize = 1 << 20;

/// Parses a number of bytes with an optional unit, `KiB`, `MiB` or `GiB`.
fn parse_bytes(text: &str) -> Option<usize> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let mut with_unit = units
        .iter()
        .filter_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = with_unit.next().unwrap_or((text, 0));
    let number: usize = digits(number)?;
    // A smaller number without a unit was probably meant in MiB.
    let is_plausible = shift > 0 || number >= BYTES_WITHOUT_UNIT_MIN;
    number.checked_mul(1 << shift).filter(|_| is_plausible)
}

/// Parses an e-mail address or a URL, as it is written into links.
fn contact(text: &str) -> Option<String> {
    let is_safe = |byte: u8| byte.is_ascii_graphic() && !b"\"'()<>\\`".contains(&byte);
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    let is_email = text.contains('@') && !text.contains([':', '/', '?']);
    let is_valid = (is_url || is_email) && text.len() <= 200 && text.bytes().all(is_safe);
    is_valid.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str], environment: &[(&str, &str)]) -> Result<Settings, CliError> {
        let words = words.iter().map(Into::into);
        let environment = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        settings(&Arguments::parse(words, environment)?)
    }

    #[test]
    fn defaults_of_the_table_are_those_of_the_modules() {
        let settings = parsed(&[], &[]).unwrap();
        assert_eq!(settings.limits, TierLimits::SPECIFIED);
        assert_eq!(settings.connections, ConnectionLimits::default());
        assert_eq!(settings.key_prefix, KeyPrefix::default());
        assert!(settings.published.is_none());
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
        assert_eq!(settings.limits.starter, 20_000);
        assert_eq!(settings.listen.len(), 2);
        let settings = parsed(&["--listen", "127.0.0.1:3"], &environment).unwrap();
        assert_eq!(settings.listen, ["127.0.0.1:3".parse().unwrap()]);
    }

    #[test]
    fn a_base_url_loses_its_trailing_slash_and_an_invalid_one_is_reported() {
        let settings = parsed(&["--base-url", "https://a.test/b/"], &[]).unwrap();
        assert_eq!(settings.base_url.as_deref(), Some("https://a.test/b"));
        let error = parsed(&["--base-url", "http://a b"], &[]).unwrap_err();
        let text = error.message;
        assert!(
            text.starts_with("--base-url must be http:// or ")
                && text.ends_with(", got \"http://a b\""),
            "{text}"
        );
    }
}
