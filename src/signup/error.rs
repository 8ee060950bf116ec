//! Why there can be no sign-up.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::pass::SECRET_BYTES;
use crate::request::{BASE_URL_BYTES_MAX, BASE_URL_FORM};

/// Why sign-up cannot begin. Displays with the file, or what else is wrong.
#[derive(Debug)]
pub enum SignupError {
    /// A file of the state directory cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file of the secret holds something else.
    Secret {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// Others than its owner may read the file of the secret, or change it.
    SecretMode {
        /// The file.
        path: PathBuf,
        /// Who may do what.
        mode: u32,
    },
    /// Links cannot begin with this text.
    BaseUrl(String),
    /// The command that sends mail is empty.
    NoCommand,
    /// The mailer's thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for SignupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignupError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            SignupError::Secret { path, bytes } => write!(
                f,
                "{}: the file has {bytes} bytes; want {SECRET_BYTES}. Once it is removed, another is \
                 made, and links that were mailed before are no longer valid",
                path.display()
            ),
            SignupError::SecretMode { path, mode } => write!(
                f,
                "{}: the file's mode is {mode:o}; want 600. Whoever reads it can act for every address: \
                 if anybody may have, remove it, and another is made",
                path.display()
            ),
            SignupError::BaseUrl(text) => write!(
                f,
                "links cannot begin with {text:?}; want {BASE_URL_FORM}, in at most \
                 {BASE_URL_BYTES_MAX} characters"
            ),
            SignupError::NoCommand => {
                f.write_str("the command that sends mail is empty; want one as /usr/sbin/sendmail")
            }
            SignupError::Thread(source) => {
                write!(f, "cannot start the thread that sends mail: {source}")
            }
        }
    }
}

impl std::error::Error for SignupError {}
