//! The command `collect`: flags to collector settings.

use std::path::PathBuf;

use super::arguments::{Arguments, parsed, secret_problem};
use super::error::CliError;
use super::progress::Progress;
use super::{print, report};
use crate::collect::{self, CollectSettings, HttpAddress, is_excluded, rate_problem};
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

/// Returns the proxy that the environment names for an upstream over TLS.
fn proxy(upstream: &HttpAddress) -> Result<Option<HttpAddress>, CliError> {
    let variable = |name: &str| {
        let names = [name.to_owned(), name.to_ascii_lowercase()];
        let values = names.iter().filter_map(std::env::var_os);
        let mut values = values.filter(|value| !value.is_empty());
        values
            .next()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let proxy = variable("HTTPS_PROXY");
    if !upstream.is_tls || proxy.is_empty() || is_excluded(&upstream.host, &variable("NO_PROXY")) {
        return Ok(None);
    }
    let address = collect::proxy(&proxy).ok_or_else(|| {
        let expected = "http://HOST:PORT, without a user";
        CliError::configuration(secret_problem("HTTPS_PROXY", expected))
    });
    address.map(Some)
}

fn settings(arguments: &Arguments) -> Result<CollectSettings, CliError> {
    let upstream = arguments.required("upstream", collect::upstream)?;
    let codes: Option<PathBuf> = arguments.optional("codes", parsed)?;
    let codes = codes.as_deref().map(collect::codes).transpose();
    Ok(CollectSettings {
        dataset: arguments.required("dataset", parsed)?,
        state: arguments.required("state", parsed)?,
        contact: arguments.required("contact", collect::contact)?,
        rate: arguments.required("rate", collect::rate)?,
        live: arguments.required("live", parsed)?,
        platform: arguments.required("platform", collect::platform)?,
        codes: codes.map_err(CliError::configuration)?,
        ca_file: arguments.optional("ca-file", parsed)?,
        proxy: proxy(&upstream)?,
        upstream,
        once: arguments.has("once"),
        admin: arguments.optional("admin", parsed)?,
    })
}
