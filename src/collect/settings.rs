//! Settings of a collector: source, destination and rate.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hyper::Uri;

use super::error::CollectError;

/// A file of the server's state directory.
const KEY_FILE: &str = "keys.jsonl";

/// Settings of a collector (CONTRACT section 8).
#[derive(Debug)]
pub struct CollectSettings {
    pub dataset: PathBuf,
    /// State directory of the collector; another one than the server's.
    pub state: PathBuf,
    /// How the upstream's operator reaches this collector's operator. Sent in `User-Agent`.
    pub contact: String,
    /// Base URL of the upstream.
    pub upstream: Upstream,
    /// Requests per second at most.
    pub rate: f64,
    /// Islands of the live snapshot; 0 for no live snapshot.
    pub live: usize,
    /// Which of the platform's series is collected.
    pub platform: PlatformSeries,
    /// Certificates to trust in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// Ends when everything that was due is done.
    pub once: bool,
    /// Address of the listener for metrics and readiness.
    pub admin: Option<SocketAddr>,
}

/// The platform's own series of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformSeries {
    /// Players in a match: comparable with sums over islands.
    InMatch,
    /// Players in the client, menus included.
    InClient,
}

impl PlatformSeries {
    pub fn parse(text: &str) -> Option<PlatformSeries> {
        match text {
            "in-match" => Some(PlatformSeries::InMatch),
            "in-client" => Some(PlatformSeries::InClient),
            _ => None,
        }
    }
}

/// Parses a contact: 1 to 200 printable ASCII characters without parentheses, which would end the comment
/// that it is sent in.
pub fn contact(text: &str) -> Option<String> {
    let plain = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '(' | ')' | '\\');
    let is_valid = matches!(text.len(), 1..=200) && text.trim() == text && text.chars().all(plain);
    is_valid.then(|| text.to_owned())
}

/// Highest rate for an upstream that is not on a loopback address.
const REMOTE_RATE_MAX: f64 = 10.0;

/// Parses a number of requests per second, from 0.1 to 1000.
pub fn rate(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let rate = text.parse().ok().filter(|_| text.bytes().all(is_plain));
    rate.filter(|rate| (0.1..=1000.0).contains(rate))
}

/// Base URL of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Whether requests go over TLS.
    pub is_tls: bool,
    /// Host name, or an address without brackets.
    pub host: String,
    pub port: u16,
    /// The value of the `Host` header.
    pub authority: String,
    /// Path before all targets, without a slash at the end.
    pub base_path: String,
}

impl Upstream {
    /// Returns whether the upstream is on this machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for Upstream {
    type Err = ();

    fn from_str(text: &str) -> Result<Upstream, ()> {
        let uri: Uri = text.parse().map_err(drop)?;
        let (is_tls, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(()),
        };
        let authority = uri.authority().ok_or(())?;
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port_u16().unwrap_or(default_port);
        let upstream = Upstream {
            is_tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: if port == default_port {
                host
            } else {
                format!("{host}:{port}")
            },
            base_path: uri.path().trim_end_matches('/').to_owned(),
        };
        let has_user = authority.as_str().contains('@');
        let is_sound = !has_user && uri.query().is_none() && !upstream.host.is_empty();
        let is_allowed = is_sound && (is_tls || upstream.is_loopback());
        is_allowed.then_some(upstream).ok_or(())
    }
}

/// Refuses directories that cannot be used.
pub(super) fn check(settings: &CollectSettings) -> Result<(), CollectError> {
    let real = |path: &Path| path.canonicalize().ok();
    if settings.state == settings.dataset
        || real(&settings.state).is_some_and(|state| Some(state) == real(&settings.dataset))
    {
        return Err(CollectError::Setting(format!(
            "--state and --dataset must be different directories, got {} for both",
            settings.state.display()
        )));
    }
    if settings.state.join(KEY_FILE).exists() {
        return Err(CollectError::Setting(format!(
            "--state must be a directory that only the collector uses, got {}, which holds the keys of a server",
            settings.state.display()
        )));
    }
    Ok(())
}

/// Returns a problem if the rate is too high for the upstream. An operator must not hurt it by a typo.
pub fn rate_problem(settings: &CollectSettings) -> Option<String> {
    let rate = settings.rate;
    let is_too_high = rate > REMOTE_RATE_MAX && !settings.upstream.is_loopback();
    is_too_high.then(|| {
        format!("--rate must be at most {REMOTE_RATE_MAX} for an upstream that is not on a loopback address, got {rate}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_a_loopback_address_is_an_upstream() {
        let parse = |text: &str| text.parse::<Upstream>();
        let upstream = parse("https://api.fortnite.com/ecosystem/v1/").unwrap();
        assert_eq!(upstream.authority, "api.fortnite.com");
        assert_eq!(
            (upstream.port, upstream.base_path.as_str()),
            (443, "/ecosystem/v1")
        );
        assert!(!upstream.is_loopback());
        for text in [
            "http://127.0.0.1:8000/x",
            "http://[::1]:8000",
            "http://localhost:1",
            "https://127.0.0.1:8443",
        ] {
            assert!(parse(text).unwrap().is_loopback(), "{text}");
        }
        assert_eq!(parse("http://[::1]:8000").unwrap().authority, "[::1]:8000");
        for text in [
            "",
            "api.fortnite.com",
            "http://api.fortnite.com/",
            "http://10.0.0.1/",
            "ftp://127.0.0.1/",
            "https://user@host/",
            "https://host/?a=b",
            "http://127.0.0.1.example/",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_contacts_have_bounds() {
        for text in ["0.1", "3", "1000", "7.19"] {
            assert!(rate(text).is_some(), "{text}");
        }
        for text in ["0", "0.05", "-1", "1001", "NaN", "inf", "1e2", "", "3/s"] {
            assert!(rate(text).is_none(), "{text}");
        }
        assert!(contact("ann@example.com").is_some());
        for text in ["", " ", "a(b)", "a\r\nX: y", "ü", &"x".repeat(201)] {
            assert!(contact(text).is_none(), "{text}");
        }
    }
}
