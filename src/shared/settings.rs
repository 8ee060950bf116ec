//! The nodes of the store and the credentials for it.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::quota::SharingSettings;
use crate::regular_file::{self, forbidden_mode};

const DEFAULT_PORT: u16 = 6379;
const PASSWORD_BYTES_MAX: u64 = 1024;

#[derive(Clone, Debug)]
pub(crate) struct SharedQuotaSettings {
    /// Nodes of one service. The first that accepts writes is used.
    pub(crate) nodes: Vec<StoreNode>,
    /// The file of the password, read whenever a connection is opened.
    pub(crate) password_file: Option<PathBuf>,
    /// The certificates to trust, read whenever a connection is opened; those of the system if `None`.
    pub(crate) ca_file: Option<PathBuf>,
    /// How the limits are shared.
    pub(crate) sharing: SharingSettings,
    /// The servers share their keys too.
    pub(crate) has_keys: bool,
}

impl SharedQuotaSettings {
    /// Reads the password. An error names the file and what is wrong with it.
    pub(crate) fn password(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.password_file else {
            return Ok(None);
        };
        let failed = |problem: &dyn fmt::Display| format!("{}: {problem}", path.display());
        let read = regular_file::read(path, PASSWORD_BYTES_MAX).map_err(|error| failed(&error))?;
        let (bytes, metadata) = read.ok_or_else(|| failed(&"the file does not exist"))?;
        if let Some(mode) = forbidden_mode(&metadata, 0o007) {
            let problem = format!(
                "others can read the password: the file's mode is {mode:03o}; set it to 600"
            );
            return Err(failed(&problem));
        }
        let text = io::read_to_string(bytes.as_slice()).map_err(|error| failed(&error))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// A node of the store: `redis[s]://[USER@]HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreNode {
    /// The node is reached over TLS.
    pub(crate) is_tls: bool,
    /// Name of the user; the store's default user if `None`.
    pub(crate) user: Option<String>,
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for StoreNode {
    type Err = ();

    /// A password in the URL is refused: other users can see the arguments of a process.
    fn from_str(url: &str) -> Result<StoreNode, ()> {
        let (is_tls, rest) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, address) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((user, address)) => (Some(user), address),
        };
        if user.is_some_and(|user| user.is_empty() || user.contains([':', '@'])) {
            return Err(());
        }
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| ())?),
            _ => (address, DEFAULT_PORT),
        };
        let in_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_valid = match in_brackets {
            Some(host) => host.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(is_name),
        };
        if !is_valid {
            return Err(());
        }
        let host = in_brackets.unwrap_or(host);
        Ok(StoreNode {
            is_tls,
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for StoreNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let StoreNode { host, port, .. } = self;
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_nodes() {
        let accepted = [
            ("redis://a", "redis://a:6379", None),
            ("redis://a/", "redis://a:6379", None),
            ("rediss://u@b.c:1", "rediss://b.c:1", Some("u")),
            ("redis://[::1]:7", "redis://[::1]:7", None),
            ("redis://[::1]", "redis://[::1]:6379", None),
        ];
        for (url, shown, user) in accepted {
            let node: StoreNode = url.parse().unwrap();
            assert_eq!(
                (node.to_string().as_str(), node.user.as_deref()),
                (shown, user)
            );
        }
        let refused = [
            "",
            "a:6379",
            "http://a",
            "redis://",
            "redis://@a",
            "redis://u:p@a",
            "redis://a:x",
            "redis://a:65536",
            "redis://a/0",
            "redis://[a]",
            "redis://[::1",
            "redis://::1",
            "redis://a b",
        ];
        for url in refused {
            assert_eq!(url.parse::<StoreNode>(), Err(()), "{url}");
        }
    }
}
