//! `Failure`: what a person is told, and the sysexits code (CONTRACT section 2).

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::dataset::LoadError;
use crate::keys::{KeyFileError, KeyStoreError};
use crate::publish::PublishError;
use crate::server::StartError;
use crate::signup::SignupError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command line is not understood.
    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        let message = one_line(message);
        let between = if message.ends_with('?') { " " } else { "; " };
        Failure {
            code: 64,
            message: format!("{message}{between}`island-metrics --help` lists commands and flags"),
        }
    }

    /// A setting is impossible.
    pub(crate) fn configuration(message: impl fmt::Display) -> Failure {
        Failure {
            code: 78,
            message: one_line(message),
        }
    }

    /// Reading or writing failed.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Failure {
        Failure {
            code: 74,
            message: format!("{}: {error}", path.display()),
        }
    }

    /// The same, with one more thing to know.
    pub(crate) fn and(mut self, more: impl fmt::Display) -> Failure {
        self.message = format!("{}; {more}", self.message);
        self
    }

    /// The same, with one more line at the end.
    pub(crate) fn with_line(mut self, line: &str) -> Failure {
        self.message = format!("{}\n{line}", self.message);
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// What is repeated of the command line may hold anything, and is to leave one line in a log.
fn one_line(message: impl fmt::Display) -> String {
    let mut line = String::new();
    for c in message.to_string().chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        match error {
            LoadError::Io { path, source } => Failure::io(&path, &source),
            LoadError::Faults(faults) => {
                let total = faults.total;
                let plural = if total == 1 { "" } else { "s" };
                Failure {
                    code: 65,
                    message: format!("the dataset has {total} fault{plural}\n{faults}"),
                }
            }
        }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Failure {
        let code = match error {
            PublishError::Dataset(error) => return error.into(),
            PublishError::Io { .. } => 74,
            PublishError::Snapshot { .. } | PublishError::Older { .. } => 65,
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        let code = match &error {
            StartError::Bind { .. } => 69,
            StartError::Inherited(_)
            | StartError::SignUp(
                SignupError::BaseUrl(_) | SignupError::NoCommand | SignupError::SecretMode { .. },
            ) => 78,
            StartError::SignUp(SignupError::Secret { .. }) => 65,
            StartError::SignUp(SignupError::Thread(_))
            | StartError::Runtime(_)
            | StartError::Sample(_) => 70,
            StartError::Keys(error) => key_file_code(error),
            // A disk that is full, or a directory that is not there yet: it may pass.
            StartError::SignUp(SignupError::Io { .. })
            | StartError::State(_)
            | StartError::AccessLog(_)
            | StartError::Supervisor(_) => 74,
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Failure {
        Failure {
            code: key_file_code(&error),
            message: error.to_string(),
        }
    }
}

impl From<KeyStoreError> for Failure {
    fn from(error: KeyStoreError) -> Failure {
        let code = match &error {
            KeyStoreError::File(error) => key_file_code(error),
            KeyStoreError::Refused(_) => 65,
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}

fn key_file_code(error: &KeyFileError) -> u8 {
    match error {
        KeyFileError::Io { .. } => 74,
        KeyFileError::Damaged { .. } => 65,
    }
}
