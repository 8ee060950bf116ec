//! Settings of a collector: source, destination and rate.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use hyper::Uri;

use super::error::{CollectError, Result};
use crate::model::IslandCode;

/// A file of the server's state directory.
const KEY_FILE: &str = "keys.jsonl";

#[derive(Clone, Debug)]
pub struct CollectSettings {
    pub dataset: PathBuf,
    /// State directory of the collector; another one than the server's.
    pub state: PathBuf,
    /// How the upstream's operator reaches this collector's operator. Sent in `User-Agent`.
    pub contact: String,
    pub upstream: HttpAddress,
    /// Requests per second at most.
    pub rate: f64,
    /// Islands of the live snapshot; 0 for no live snapshot.
    pub live: usize,
    /// Which of the platform's series is collected, by its name in responses.
    pub platform: &'static str,
    /// The only islands that are collected; all if none.
    pub codes: Option<BTreeSet<IslandCode>>,
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<HttpAddress>,
    /// Ends when everything that was due is done.
    pub once: bool,
    /// Address of the listener for metrics and readiness.
    pub admin: Option<SocketAddr>,
}

impl CollectSettings {
    /// Returns the time of some requests at the rate, in hours.
    #[expect(clippy::cast_precision_loss, reason = "counts of islands")]
    pub(super) fn hours(&self, requests: usize) -> f64 {
        requests as f64 / self.rate / 3600.0
    }
}

/// Returns the upstream's name of one of the platform's own series of players: those in a match, which are comparable
/// with sums over islands, or those in the client, menus included.
pub fn platform(text: &str) -> Option<&'static str> {
    match text {
        "in-match" => Some("inMatchPeakCCU"),
        "in-client" => Some("inClientPeakCCU"),
        _ => None,
    }
}

/// Parses a contact: 1 to 200 printable ASCII characters without parentheses, which would end the comment
/// that it is sent in.
pub fn contact(text: &str) -> Option<String> {
    let plain = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '(' | ')' | '\\');
    let is_valid = matches!(text.len(), 1..=200) && text.trim() == text && text.chars().all(plain);
    is_valid.then(|| text.to_owned())
}

/// Reads the file of `--codes`: one code a line. It may begin with a byte order mark. A `#` begins a comment, and empty
/// lines are ignored.
pub fn codes(path: &Path) -> Result<BTreeSet<IslandCode>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read --codes {shown}: {error}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut codes = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split('#').next().unwrap_or_default().trim();
        if code.is_empty() {
            continue;
        }
        let parsed = code.parse().map_err(|()| {
            format!(
                "{shown}:{number}: an island code such as 1234-5678-9012 is expected, got {code:?}"
            )
        });
        codes.insert(parsed?);
    }
    if codes.is_empty() {
        return Err(format!("{shown}:1: the file must have an island code"));
    }
    Ok(codes)
}

/// Highest rate for an upstream that is not on a loopback address.
const REMOTE_RATE_MAX: f64 = 10.0;

/// Parses a number of requests per second, from 0.1 to 1000.
pub fn rate(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let rate = text.parse().ok().filter(|_| text.bytes().all(is_plain));
    rate.filter(|rate| (0.1..=1000.0).contains(rate))
}

/// The address of the upstream, or of a proxy between the collector and an upstream over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    /// Whether requests go over TLS.
    pub is_tls: bool,
    pub host: String,
    /// Host and port, as in a CONNECT, which always has both.
    pub host_and_port: String,
    /// The value of the `Host` header.
    pub authority: String,
    /// Path before all targets, without a slash at the end.
    pub base_path: String,
}

impl HttpAddress {
    /// Parses a URL without user and query.
    fn parse(text: &str) -> Option<HttpAddress> {
        let uri: Uri = text.parse().ok()?;
        let (is_tls, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return None,
        };
        let authority = uri.authority()?;
        let host = authority.host().to_ascii_lowercase();
        let given_port = authority.port_u16();
        let port = given_port.unwrap_or(default_port);
        let host_and_port = format!("{host}:{port}");
        let address = HttpAddress {
            is_tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            authority: if port == default_port {
                host
            } else {
                host_and_port.clone()
            },
            host_and_port,
            base_path: uri.path().trim_end_matches('/').to_owned(),
        };
        let has_user = authority.as_str().contains('@');
        // A port over 65535 is none to the parser.
        let has_bad_port = given_port.is_none() && authority.as_str() != authority.host();
        let is_sound = !has_user && !has_bad_port && uri.query().is_none();
        let is_sound = is_sound && !address.host.is_empty();
        is_sound.then_some(address)
    }

    /// Returns whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// Parses the URL of an upstream: over TLS, or on a loopback address.
pub fn upstream(text: &str) -> Option<HttpAddress> {
    HttpAddress::parse(text).filter(|address| address.is_tls || address.is_loopback())
}

/// Parses `http://HOST:PORT`, or `HOST:PORT`. Credentials and proxies over TLS are not supported.
pub fn proxy(text: &str) -> Option<HttpAddress> {
    let scheme = if text.contains("://") { "" } else { "http://" };
    let address = HttpAddress::parse(&format!("{scheme}{text}"));
    address.filter(|address| !address.is_tls && address.base_path.is_empty())
}

/// Returns whether `NO_PROXY` names a host, which is in lower case: itself, a domain above it, or `*`.
pub fn is_excluded(host: &str, no_proxy: &str) -> bool {
    let no_proxy = no_proxy.to_ascii_lowercase();
    no_proxy.split(',').map(str::trim).any(|name| {
        let domain = name.trim_start_matches('.');
        let above = host.strip_suffix(domain);
        name == "*"
            || (!domain.is_empty()
                && above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

/// Refuses directories that cannot be used.
pub(super) fn check(settings: &CollectSettings) -> Result<()> {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    if real(&settings.state) == real(&settings.dataset) {
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
    use crate::collect::scratch_tests::Scratch;

    #[test]
    fn only_https_or_a_loopback_address_is_an_upstream() {
        let parse = upstream;
        let upstream = parse("https://api.fortnite.com/ecosystem/v1/").unwrap();
        assert_eq!(upstream.authority, "api.fortnite.com");
        assert_eq!(
            (&*upstream.host_and_port, &*upstream.base_path),
            ("api.fortnite.com:443", "/ecosystem/v1")
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
            "https://host:70000/",
            "http://127.0.0.1.example/",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_connect_names_host_and_port_with_brackets_around_ipv6() {
        for (text, want) in [
            ("https://api.fortnite.com/", "api.fortnite.com:443"),
            ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
            ("https://[::1]:8443", "[::1]:8443"),
        ] {
            assert_eq!(upstream(text).unwrap().host_and_port, want);
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

    fn codes_of(text: &str) -> Result<BTreeSet<IslandCode>, String> {
        let scratch = Scratch::new();
        let path = scratch.path().join("codes");
        crate::durable::replace(&path, text.as_bytes()).unwrap();
        codes(&path)
    }

    #[test]
    fn a_file_has_a_code_a_line_with_comments_between() {
        let text =
            "\u{feff}# mine\n0000-0000-0007\r\n\n 0000-0000-0005 # the first one\n0000-0000-0007";
        let codes = codes_of(text).unwrap();
        let codes: Vec<u64> = codes.iter().map(|code| code.number()).collect();
        assert_eq!(codes, [5, 7]);
    }

    #[test]
    fn a_line_that_is_no_code_is_named() {
        for (text, line) in [
            ("0000-0000-0007\n\n7", 3),
            ("0000-0000-0007,x", 1),
            ("# none\n", 1),
            ("", 1),
        ] {
            let problem = codes_of(text).unwrap_err();
            let place = format!("codes:{line}: ");
            assert!(problem.contains(&place), "{text:?}: {problem}");
            assert!(problem.contains("island code"), "{problem}");
        }
    }

    #[test]
    fn a_proxy_is_a_plain_address() {
        let address = |text: &str| proxy(text).map(|proxy| proxy.host_and_port);
        for (text, want) in [
            ("http://10.0.0.1:3128", "10.0.0.1:3128"),
            ("http://proxy.example/", "proxy.example:80"),
            ("proxy.example:8080", "proxy.example:8080"),
        ] {
            assert_eq!(address(text).as_deref(), Some(want));
        }
        for text in [
            "",
            "https://proxy.example",
            "http://a:b@proxy.example",
            "http://p/x",
            "socks5://p",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn no_proxy_names_hosts_and_domains() {
        for (no_proxy, want) in [
            ("", false),
            ("*", true),
            ("api.fortnite.com", true),
            ("localhost, fortnite.com", true),
            (".fortnite.com", true),
            ("API.Fortnite.com", true),
            ("nite.com", false),
            ("x.api.fortnite.com", false),
        ] {
            assert_eq!(
                is_excluded("api.fortnite.com", no_proxy),
                want,
                "{no_proxy}"
            );
        }
    }
}
