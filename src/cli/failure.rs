//! `Failure`: what a person is told, and the sysexits code (CONTRACT section 2).

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::dataset::LoadError;
use crate::publish::PublishError;
use crate::server::StartError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command line is not understood.
    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        Failure {
            code: 64,
            message: format!("{message}; `island-metrics --help` lists commands and flags"),
        }
    }

    /// A setting is impossible.
    pub(crate) fn configuration(message: impl fmt::Display) -> Failure {
        Failure {
            code: 78,
            message: message.to_string(),
        }
    }

    /// Reading or writing failed.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Failure {
        Failure {
            code: 74,
            message: format!("{}: {error}", path.display()),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
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
        let code = match &error {
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
            StartError::Runtime(_) | StartError::Sample(_) => 70,
        };
        Failure {
            code,
            message: error.to_string(),
        }
    }
}
