//! Canaries: every secret that a test has issued, looked for where none may stand.
//!
//! Directories and servers of tests look when they are dropped, so that every test shows that no
//! secret is stored or logged, whatever else it is about.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::support::{Server, TempDir, write_file};

/// Letters and digits behind a key's last underscore.
const SECRET_CHARS: usize = 36;

/// Of all tests of the process: one test's secret must not turn up in another's files either.
static SECRETS: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());

/// The part of a key that nobody but its owner may see.
pub(crate) fn secret(key: &str) -> &str {
    let (_, secret) = key.rsplit_once('_').unwrap();
    let sound = secret.len() == SECRET_CHARS && secret.bytes().all(|b| b.is_ascii_alphanumeric());
    assert!(sound, "no key: {key}");
    secret
}

/// Has a key's secret looked for from now on.
pub(crate) fn remember(key: &str) {
    let mut secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.insert(secret(key).as_bytes().to_vec());
}

/// Whether a remembered secret stands in these bytes.
pub(crate) fn holds_a_secret(bytes: &[u8]) -> bool {
    let words = bytes.split(|byte| !byte.is_ascii_alphanumeric());
    let mut windows = words.flat_map(|word| word.windows(SECRET_CHARS)).peekable();
    if windows.peek().is_none() {
        return false;
    }
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    windows.any(|window| secrets.contains(window))
}

/// A file, somewhere below a directory, in which a remembered secret stands.
pub(crate) fn file_with_a_secret(directory: &Path) -> Option<PathBuf> {
    // What cannot be listed or read any more has been removed by the test.
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        let found = if path.is_dir() {
            file_with_a_secret(&path)
        } else if !path.is_file() {
            // A pipe would be waited for.
            None
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            holds_a_secret(&bytes).then_some(path)
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn a_secret_in_a_file_fails_the_test_that_made_it() {
    let key = format!("im_live_0123456789_{}", "aB3".repeat(12));
    remember(&key);
    let dir = TempDir::new();
    write_file(&dir.join("a/b/log"), "nothing to see");
    assert_eq!(file_with_a_secret(&dir.join("")), None);
    write_file(&dir.join("a/b/log"), &format!("200 GET /v1?key={key} 1ms"));
    assert_eq!(
        file_with_a_secret(&dir.join("")),
        Some(dir.join("a/b/log")),
        "found where it stands"
    );
    let path = dir.join("");
    let dropping = thread::spawn(move || drop(dir)).join();
    assert!(dropping.is_err(), "the directory complains");
    assert!(!path.exists(), "and is removed nevertheless");
}

#[test]
fn a_secret_on_stderr_fails_the_test_whose_server_said_it() {
    let key = format!("im_live_0123456789_{}", "Zy9".repeat(12));
    remember(&key);
    let dir = TempDir::new();
    // A server names the directory that it watches, so this one says a key.
    let published = dir.join(&key);
    let server = Server::start(&["--published", published.to_str().unwrap()]);
    let dropping = thread::spawn(move || drop(server)).join();
    assert!(dropping.is_err(), "the server complains");
}
