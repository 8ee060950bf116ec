//! The nodes of the store and the credentials for it.

use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::str::FromStr;

use crate::quota::SharingSettings;
use crate::regular_file;

const DEFAULT_PORT: u16 = 6379;
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Whether a server issues the keys of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySharing {
    /// It issues them.
    Lead,
    /// It takes them over.
    Follow,
}

/// Settings of the store.
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
    /// How the keys are shared, if they are not this server's own.
    pub(crate) keys: Option<KeySharing>,
}

impl SharedQuotaSettings {
    /// Reads the password. An error names the file and what is wrong with it.
    pub(crate) fn password(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.password_file else {
            return Ok(None);
        };
        let failed = |problem: &dyn fmt::Display| format!("{}: {problem}", path.display());
        let file = regular_file::open(path).map_err(|error| failed(&error))?;
        let file = file.ok_or_else(|| failed(&"the file does not exist"))?;
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            let problem = format!(
                "others can read the password: the file's mode is {mode:03o}; set it to 600"
            );
            return Err(failed(&problem));
        }
        let mut text = String::new();
        let mut limited = file.take(PASSWORD_BYTES_MAX);
        limited
            .read_to_string(&mut text)
            .map_err(|error| failed(&error))?;
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
    /// TCP port.
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
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(())?;
                let _: std::net::Ipv6Addr = host.parse().map_err(|_| ())?;
                let port = match port {
                    "" => None,
                    _ => Some(port.strip_prefix(':').ok_or(())?),
                };
                (host, port)
            }
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(());
        }
        let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| ()))?;
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
