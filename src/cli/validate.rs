//! Whether settings can be met together and on this machine, before anything is bound or opened.
//!
//! A server that is told of what cannot be ends at once, with one line: better than half a start,
//! or a fault on the day when the setting first matters.

use std::fs::{self, File};
use std::path::Path;

use super::arguments::Arguments;
use super::error::CliError;
use crate::server::{DESCRIPTORS_ASIDE, Served, Settings, SignUp};

/// Refuses the first setting that cannot be met.
pub(super) fn validate(arguments: &Arguments, settings: &Settings) -> Result<(), CliError> {
    let refuse = |name: &str, problem: String| {
        let place = arguments.place(name);
        Err(CliError::configuration(format!("{place} {problem}")))
    };
    for (at, address) in settings.listen.iter().enumerate() {
        // Port 0 is another one each time.
        if address.port() != 0 && settings.listen[..at].contains(address) {
            return refuse("listen", format!("is {address} twice; want it once"));
        }
    }
    if let Some(admin) = settings.admin
        && admin.port() != 0
        && settings.listen.contains(&admin)
    {
        let problem = format!("is {admin}, where the API listens; want another port");
        return refuse("admin", problem);
    }
    if let Served::Directory(path) = &settings.served
        && path.metadata().is_ok_and(|found| !found.is_dir())
    {
        let problem = format!("is {}, which is no directory; want one", quoted(path));
        return refuse("published", problem);
    }
    if let Some(path) = &settings.state
        && let Some(obstacle) = obstacle(path)
    {
        let problem = if obstacle == path {
            format!("is {}, which is no directory; want one", quoted(path))
        } else {
            let (path, obstacle) = (quoted(path), quoted(obstacle));
            format!("is {path}, but {obstacle} is no directory; want a place to make one in")
        };
        return refuse("state", problem);
    }
    if settings.sign_up.is_some() && settings.state.is_none() {
        let problem = "keeps keys; want --state DIR with it".to_owned();
        return refuse("signup", problem);
    }
    if let (Some(SignUp::Email(_)), None) = (&settings.sign_up, &settings.base_url) {
        let problem = "mails links; want --base-url URL with it, which they begin with".to_owned();
        return refuse("signup", problem);
    }
    if let Some(SignUp::Email(command)) = &settings.sign_up
        && command.trim().is_empty()
    {
        let problem = "is empty; want a command, such as /usr/sbin/sendmail".to_owned();
        return refuse("mailer", problem);
    }
    if let Some(path) = &settings.access_log
        && let Err(problem) = check_appendable(path)
    {
        return refuse("access-log", format!("is {}; {problem}", quoted(path)));
    }
    if let (Some(count), Some(limit)) = (settings.connections.in_all, open_files_max()) {
        let most = limit.saturating_sub(DESCRIPTORS_ASIDE);
        if u64::from(count) > most {
            let problem = format!(
                "is {count}; want at most {most}, as the process may open {limit} files (ulimit -n, LimitNOFILE=) and needs {DESCRIPTORS_ASIDE} beside connections"
            );
            return refuse("connections", problem);
        }
    }
    Ok(())
}

/// A path within a sentence; what it ends with is seen.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

/// What keeps a directory from being there or being made: the nearest thing on its path that
/// exists and is none.
fn obstacle(path: &Path) -> Option<&Path> {
    // A link that leads nowhere is there too.
    let there = |path: &&Path| path.symlink_metadata().is_ok();
    let nearest = path.ancestors().find(there)?;
    (!nearest.is_dir()).then_some(nearest)
}

/// Whether a log can be appended to, or be made, as far as that shows without making it.
fn check_appendable(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err("want a file, not a directory".to_owned()),
        Ok(found) if found.is_file() => {
            let opened = File::options().append(true).open(path);
            opened
                .map(drop)
                .map_err(|error| format!("it cannot be written: {error}"))
        }
        // To open a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(_) => match path.parent().filter(|above| *above != Path::new("")) {
            Some(above) if !above.is_dir() => {
                Err(format!("want a directory {} to make it in", quoted(above)))
            }
            _ => Ok(()),
        },
    }
}

/// How many files the process may open, where the system tells.
fn open_files_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    // `unlimited` is no number, and no limit.
    line.split_whitespace().next()?.parse().ok()
}
