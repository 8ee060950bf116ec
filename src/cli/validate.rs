//! Checks that settings fit together and work on this machine, before anything is bound or opened.
//!
//! An impossible setting ends the start immediately with one line, not halfway through, and not on
//! the day when it first matters.

use std::collections::HashSet;
use std::env;
use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Access, access};

use super::arguments::Arguments;
use super::error::CliError;
use crate::observe::max_fds;
use crate::server::{OTHER_FDS, Settings};

pub(super) fn validate(arguments: &Arguments, settings: &Settings) -> Result<(), CliError> {
    require_others(arguments)?;
    let found = twice(settings)
        .or_else(|| Some(("published", published(settings)?)))
        .or_else(|| Some(("state", state(settings)?)))
        .or_else(|| Some(("access-log", access_log(settings)?)))
        .or_else(|| Some(("mailer", mailer(settings)?)))
        .or_else(|| Some(("connections", connections(settings)?)));
    match found {
        Some((name, problem)) => Err(arguments.setting_error(name, &problem)),
        None => Ok(()),
    }
}

/// Rejects the first setting without another one that it requires.
fn require_others(arguments: &Arguments) -> Result<(), CliError> {
    let has = |name| arguments.has(name);
    let is_shared = has("shared-quota");
    let mut stores = arguments.texts("shared-quota").into_iter();
    let has_tls_store = stores.any(|url| url.trim().to_lowercase().starts_with("rediss:"));
    let store = "requires --shared-quota redis://HOST";
    let is_by_mail = arguments.texts("signup") == ["email"];
    let has_command = !arguments.texts("mailer").concat().trim().is_empty();
    let (has_tls, has_sharing) = (cfg!(feature = "tls"), cfg!(feature = "shared-quota"));
    let tls = "requires TLS, which this build lacks; build it with `cargo build --release --features tls`";
    let sharing = "requires shared quotas, which this build lacks; build it with `cargo build --release --features shared-quota`";
    #[rustfmt::skip] // one row per requirement
    let requirements = [
        ("shared-quota", has_sharing, sharing),
        ("listen-tls", has_tls, tls),
        ("tls-certificate", has_tls, tls),
        ("tls-key", has_tls, tls),
        ("tls-certificate", has("tls-key"), "requires --tls-key PATH"),
        ("tls-key", has("tls-certificate"), "requires --tls-certificate PATH"),
        ("listen-tls", has("tls-key"), "requires --tls-certificate PATH and --tls-key PATH"),
        ("shared-quota-password-file", is_shared, store),
        ("shared-quota-ca-file", is_shared, store),
        ("shared-quota-replicas", is_shared, store),
        ("shared-quota-outage", is_shared, store),
        ("shared-keys", is_shared, store),
        ("shared-keys", has("state"), "requires --state DIR"),
        ("shared-quota-ca-file", has_tls_store, "requires --shared-quota rediss://HOST"),
        ("signup", has("mailer") || !is_by_mail, "email requires --mailer COMMAND, such as /usr/sbin/sendmail"),
        ("mailer", is_by_mail, "requires --signup email"),
        ("signup", has("state"), "requires --state DIR, where keys are stored"),
        ("signup", has("base-url") || !is_by_mail, "email requires --base-url URL, for the links in mails"),
        ("mailer", has_command, "must be a command such as /usr/sbin/sendmail"),
    ];
    for (name, is_met, problem) in requirements {
        if has(name) && !is_met {
            return Err(arguments.setting_error(name, problem));
        }
    }
    Ok(())
}

/// Returns the first flag with an address that an earlier one has, and the problem. Port 0 is a different free port each
/// time.
fn twice(settings: &Settings) -> Option<(&'static str, String)> {
    let [listen, tls] = [&settings.listen, &settings.listen_tls].map(|all| all.iter());
    let listen = listen.map(|at| ("listen", at));
    let tls = tls.map(|at| ("listen-tls", at));
    let admin = settings.admin.iter().map(|at| ("admin", at));
    let mut earlier = HashSet::new();
    let mut all = listen.chain(tls).chain(admin);
    let (name, taken) = all.find(|(_, at)| at.port() != 0 && !earlier.insert(*at))?;
    let problem = format!("must not be an address that the server listens on already, got {taken}");
    Some((name, problem))
}

fn published(settings: &Settings) -> Option<String> {
    let path = settings.published.as_deref()?;
    let is_other = path.metadata().is_ok_and(|found| !found.is_dir());
    is_other.then(|| format!("must be a directory, got {}", quoted(path)))
}

/// The state directory must exist or be creatable. A dangling link on its path is an obstacle too.
fn state(settings: &Settings) -> Option<String> {
    let path = settings.state.as_deref()?;
    let mut ancestors = path.ancestors();
    let nearest = ancestors.find(|path| path.symlink_metadata().is_ok())?;
    if nearest.is_dir() {
        return None;
    }
    let (path, nearest) = (quoted(path), quoted(nearest));
    Some(format!(
        "must be a directory, got {path}; {nearest} is not a directory"
    ))
}

/// The access log must be appendable or creatable, as far as that is known without creating it.
fn access_log(settings: &Settings) -> Option<String> {
    let path = settings.access_log.as_deref()?;
    let problem = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(found) if found.is_file() => {
            let opened = File::options().append(true).open(path);
            format!("it cannot be written: {}", opened.err()?)
        }
        // Opening a pipe would wait for its reader.
        Ok(_) => return None,
        Err(_) => {
            let parent = path.parent().filter(|parent| *parent != Path::new(""))?;
            if parent.is_dir() {
                return None;
            }
            format!("{} is not a directory", quoted(parent))
        }
    };
    Some(format!(
        "must be a writable file, got {}; {problem}",
        quoted(path)
    ))
}

/// The command must be found as it will be when it is run: by its path, or in the directories of `PATH`.
fn mailer(settings: &Settings) -> Option<String> {
    let command = settings.signup.as_ref()?.mailer.as_deref()?;
    let program = command.split_ascii_whitespace().next()?;
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let is_found = if program.contains('/') {
        is_program(Path::new(program))
    } else {
        // Without it, these are used.
        let directories = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        env::split_paths(&directories).any(|directory| is_program(&directory.join(program)))
    };
    (!is_found).then(|| format!("must be a command that can be executed, got {program:?}"))
}

fn connections(settings: &Settings) -> Option<String> {
    let (count, limit) = (settings.connections.connections_max?, max_fds()?);
    let max = limit.saturating_sub(OTHER_FDS);
    (u64::from(count) > max).then(|| {
        format!(
            "must be at most {max}, got {count}; the process may open {limit} files \
             (ulimit -n, LimitNOFILE=) of which {OTHER_FDS} are not for connections"
        )
    })
}

/// A path in quotes, so that trailing spaces show.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}
