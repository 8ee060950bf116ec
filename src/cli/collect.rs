//! The command `collect`: flags to collector settings.

use super::arguments::{Arguments, parsed};
use super::error::CliError;
use super::progress::Progress;
use super::{print, report};
use crate::collect::{self, CollectSettings, PlatformSeries, rate_problem};
use crate::observe::{Notifier, SystemdEnvironment};

/// Collects until a signal; with `--once`, until nothing is due. With `--plan`, prints what is due.
pub(super) fn collect(arguments: &Arguments) -> Result<(), CliError> {
    let settings = settings(arguments)?;
    if let Some(problem) = rate_problem(&settings) {
        return Err(CliError::usage(problem));
    }
    if arguments.has("plan") {
        return print(&collect::summary(&settings).map_err(CliError::collect)?);
    }
    let systemd = SystemdEnvironment::read(std::process::id(), |name| std::env::var_os(name));
    let notifier = Notifier::connect(systemd.notify_socket.as_deref());
    let mut notifier = notifier
        .map_err(|error| CliError::configuration(format!("cannot use NOTIFY_SOCKET: {error}")))?;
    let mut progress = Progress::new();
    let mut show_progress = |done, all| progress.show("islands up to date:", done, all);
    let run = collect::run(settings, &mut notifier, report, &mut show_progress);
    run.map_err(CliError::collect)
}

fn settings(arguments: &Arguments) -> Result<CollectSettings, CliError> {
    Ok(CollectSettings {
        dataset: arguments.required("dataset", parsed)?,
        state: arguments.required("state", parsed)?,
        contact: arguments.required("contact", collect::contact)?,
        upstream: arguments.required("upstream", parsed)?,
        rate: arguments.required("rate", collect::rate)?,
        live: arguments.required("live", parsed)?,
        platform: arguments.required("platform", PlatformSeries::parse)?,
        ca_file: arguments.optional("ca-file", parsed)?,
        once: arguments.has("once"),
        admin: arguments.optional("admin", parsed)?,
    })
}
