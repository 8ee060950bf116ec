//! The nodes of the store and the credentials for it.

use std::fmt;
use std::io;
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
        if metadata.len() > PASSWORD_BYTES_MAX {
            let problem = format!("a password has at most {PASSWORD_BYTES_MAX} bytes");
            return Err(failed(&problem));
        }
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
    pub(crate) is_tls: bool,
    /// Name of the user; the store's default user if `None`.
    pub(crate) user: Option<String>,
    /// `HOST:PORT`, with brackets around an IPv6 address.
    pub(crate) authority: String,
}

impl FromStr for StoreNode {
    type Err = ();

    /// A password in the URL is refused: other users can see the arguments of a process.
    fn from_str(text: &str) -> Result<StoreNode, ()> {
        let url = redis::parse_redis_url(text).ok_or(())?;
        let host = url.host_str().unwrap_or_default();
        let user = Some(url.username()).filter(|user| !user.is_empty());
        let is_plain = url.password().is_none()
            && text.matches('@').count() == usize::from(user.is_some())
            && ["", "/"].contains(&url.path())
            && url.query().is_none()
            && url.fragment().is_none();
        // Other characters are escaped.
        if !is_plain || host.is_empty() || url.as_str().contains('%') {
            return Err(());
        }
        Ok(StoreNode {
            is_tls: match url.scheme() {
                "redis" => false,
                "rediss" => true,
                _ => return Err(()),
            },
            user: user.map(str::to_owned),
            authority: format!("{host}:{}", url.port().unwrap_or(DEFAULT_PORT)),
        })
    }
}

impl fmt::Display for StoreNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        write!(f, "{scheme}://{}", self.authority)
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
