//! A proxy between the collector and an upstream over TLS: `HTTPS_PROXY`, `NO_PROXY` and the method CONNECT.

use std::str::FromStr;

use hyper::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of the proxy's response, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
}

impl FromStr for Proxy {
    type Err = ();

    /// Parses `http://HOST:PORT`. Credentials and proxies over TLS are not supported.
    fn from_str(text: &str) -> Result<Proxy, ()> {
        let uri: Uri = text.parse().map_err(drop)?;
        let authority = uri.authority().ok_or(())?;
        let is_plain = uri.scheme_str().is_none_or(|scheme| scheme == "http");
        if !is_plain || authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") {
            return Err(());
        }
        Ok(Proxy {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
        })
    }
}

/// Returns whether `NO_PROXY` names a host: itself, a domain above it, or `*`.
pub fn is_excluded(host: &str, no_proxy: &str) -> bool {
    no_proxy.split(',').map(str::trim).any(|name| {
        let domain = name.trim_start_matches('.');
        let above = host.strip_suffix(domain);
        name == "*"
            || (!domain.is_empty()
                && above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

impl Proxy {
    /// Opens a connection to a host through the proxy.
    pub(super) async fn connect(&self, authority: &str) -> Result<TcpStream, String> {
        let problem = |problem: String| format!("the proxy {}:{} {problem}", self.host, self.port);
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await;
        let mut socket = socket.map_err(|error| problem(format!("cannot be reached: {error}")))?;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        let lost = |error: std::io::Error| problem(format!("closed the connection: {error}"));
        socket.write_all(request.as_bytes()).await.map_err(lost)?;
        let mut head = Vec::new();
        // The first bytes after the head are the upstream's.
        while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
            head.push(socket.read_u8().await.map_err(lost)?);
        }
        let head = String::from_utf8_lossy(&head);
        let line = head.lines().next().unwrap_or_default();
        if line.split(' ').nth(1) != Some("200") {
            return Err(problem(format!("refused the connection: {line:?}")));
        }
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_plain_address() {
        let proxy = |host: &str, port| {
            Ok(Proxy {
                host: host.to_owned(),
                port,
            })
        };
        assert_eq!("http://10.0.0.1:3128".parse(), proxy("10.0.0.1", 3128));
        assert_eq!("http://proxy.example/".parse(), proxy("proxy.example", 80));
        assert_eq!("proxy.example:8080".parse(), proxy("proxy.example", 8080));
        for text in [
            "",
            "https://proxy.example",
            "http://a:b@proxy.example",
            "http://p/x",
            "socks5://p",
        ] {
            assert_eq!(text.parse::<Proxy>(), Err(()), "{text}");
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
