//! Checks that settings fit together and work on this machine, before anything is bound or opened.
//!
//! An impossible setting ends the start immediately with one line, not halfway through, and not on
//! the day when it first matters.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;

use super::arguments::Arguments;
use super::error::CliError;
use crate::observe::max_fds;
use crate::server::{OTHER_FDS, Settings};

/// Rejects the first setting that cannot be met.
pub(super) fn validate(arguments: &Arguments, settings: &Settings) -> Result<(), CliError> {
    let problems = [
        ("listen", twice(&settings.listen)),
        (
            "listen-tls",
            twice(&settings.listen_tls).or_else(|| listen_tls(settings)),
        ),
        ("admin", admin(settings)),
        ("published", published(settings)),
        ("state", state(settings)),
        ("access-log", access_log(settings)),
        ("connections", connections(settings)),
    ];
    for (name, problem) in problems {
        if let Some(problem) = problem {
            return Err(arguments.setting_error(name, &problem));
        }
    }
    Ok(())
}

/// Port 0 is a different free port each time, so it may be given more than once.
fn twice(listen: &[SocketAddr]) -> Option<String> {
    let mut earlier = (0..).map(|at| &listen[..at]).zip(listen);
    let (_, twice) = earlier.find(|(before, at)| at.port() != 0 && before.contains(at))?;
    Some(format!("must not name an address twice, got {twice}"))
}

fn listen_tls(settings: &Settings) -> Option<String> {
    let mut addresses = settings.listen_tls.iter();
    let taken = addresses.find(|at| at.port() != 0 && settings.listen.contains(at))?;
    Some(format!("must not be an address of --listen, got {taken}"))
}

fn admin(settings: &Settings) -> Option<String> {
    let admin = settings.admin.filter(|admin| admin.port() != 0)?;
    let taken = settings.listen.contains(&admin) || settings.listen_tls.contains(&admin);
    taken.then(|| format!("must not be an address that the API listens on, got {admin}"))
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

fn connections(settings: &Settings) -> Option<String> {
    let (count, limit) = (settings.connections.in_all?, max_fds()?);
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
