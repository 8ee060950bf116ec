//! `CliError`: the message and the sysexits code of a failed command.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

use crate::dataset::LoadError;
use crate::keys::KeyStoreError;
use crate::model::without_controls;
use crate::publish::PublishError;
use crate::server::StartError;
use crate::snapshot::SnapshotError;

/// Not ready, for `healthcheck`: container engines define 0 and 1 only.
const UNHEALTHY: u8 = 1;
// Exit codes of sysexits.h.
const USAGE: u8 = 64;
const DATA: u8 = 65;
const UNAVAILABLE: u8 = 69;
const SOFTWARE: u8 = 70;
const IO: u8 = 74;
const CONFIG: u8 = 78;

#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl CliError {
    /// The message is escaped: it may quote the command line or a path, and must fill one line of a log.
    fn new(code: u8, message: impl Display) -> CliError {
        CliError {
            code,
            message: without_controls(&message.to_string()),
        }
    }

    pub(crate) fn usage(message: impl Display) -> CliError {
        let message = message.to_string();
        let between = if message.ends_with('?') { " " } else { "; " };
        let hint = "`island-metrics --help` lists commands and flags";
        CliError::new(USAGE, format!("{message}{between}{hint}"))
    }

    /// A setting that is invalid, or impossible on this machine.
    pub(crate) fn configuration(message: impl Display) -> CliError {
        CliError::new(CONFIG, message)
    }

    pub(crate) fn io(path: &Path, error: &std::io::Error) -> CliError {
        CliError::new(IO, format!("{}: {error}", path.display()))
    }

    /// The result of `healthcheck` for a process that is not ready.
    pub(crate) fn unhealthy(message: impl Display) -> CliError {
        CliError::new(UNHEALTHY, message)
    }

    #[cfg(feature = "collect")]
    pub(crate) fn collect(error: crate::collect::CollectError) -> CliError {
        use crate::collect::CollectError;
        match error {
            CollectError::Dataset(error) => error.into(),
            CollectError::Setting(_) => CliError::configuration(error),
            CollectError::Io(_) | CollectError::Damaged(_) => CliError::new(IO, error),
            CollectError::Unavailable(_) => CliError::new(UNAVAILABLE, error),
        }
    }
}

impl From<LoadError> for CliError {
    fn from(error: LoadError) -> CliError {
        match error {
            LoadError::Io(error) => CliError::new(IO, error),
            LoadError::Faults(faults) => {
                let total = faults.total;
                let plural = if total == 1 { "" } else { "s" };
                let is_data = faults.total > faults.unreadable;
                CliError {
                    code: if is_data { DATA } else { IO },
                    // A line per fault, in which names are escaped.
                    message: format!("the dataset has {total} fault{plural}\n{faults}"),
                }
            }
        }
    }
}

impl From<PublishError> for CliError {
    fn from(error: PublishError) -> CliError {
        match error {
            PublishError::Dataset(error) => error.into(),
            PublishError::Published(SnapshotError::Io(_)) | PublishError::Uncertain(_) => {
                CliError::new(IO, error)
            }
            _ => CliError::new(DATA, error),
        }
    }
}

impl From<Vec<SnapshotError>> for CliError {
    /// The faults of a published directory, a line each.
    fn from(faults: Vec<SnapshotError>) -> CliError {
        let is_damage = |fault: &SnapshotError| matches!(fault, SnapshotError::Damaged(_));
        let code = if faults.iter().any(is_damage) {
            DATA
        } else {
            IO
        };
        let lines = faults.iter().map(SnapshotError::to_string);
        let lines: Vec<String> = lines.map(|line| without_controls(&line)).collect();
        CliError {
            code,
            message: lines.join("\n"),
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> CliError {
        let code = match &error {
            StartError::Unavailable(_) => UNAVAILABLE,
            StartError::Setting(_) => CONFIG,
            StartError::SignUp(error) if error.kind() == ErrorKind::InvalidInput => CONFIG,
            StartError::SignUp(error) if error.kind() == ErrorKind::InvalidData => DATA,
            StartError::Internal(_) => SOFTWARE,
            // A full disk or a missing directory may be temporary.
            StartError::Io(_) | StartError::SignUp(_) => IO,
            StartError::Keys(error) => key_code(error),
        };
        CliError::new(code, error)
    }
}

impl From<KeyStoreError> for CliError {
    fn from(error: KeyStoreError) -> CliError {
        CliError::new(key_code(&error), error)
    }
}

fn key_code(error: &KeyStoreError) -> u8 {
    match error {
        KeyStoreError::Io(_) => IO,
        _ => DATA,
    }
}
