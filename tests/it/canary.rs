//! Canaries: no secret of an issued key may be stored or logged.
//!
//! The directories and servers of all tests check this when they are dropped.

use std::sync::PoisonError;

use crate::prelude::*;

/// Length of a secret: the letters and digits after a key's last underscore.
const SECRET_CHARS: usize = 36;

/// The secrets of all tests of the process: none may appear in the files of another test either.
static SECRETS: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());

pub(crate) fn secret(key: &str) -> &str {
    let (_, secret) = key.rsplit_once('_').unwrap();
    let sound = secret.len() == SECRET_CHARS && secret.bytes().all(|b| b.is_ascii_alphanumeric());
    assert!(sound, "no key: {key}");
    secret
}

/// Adds the secret of a key to those that must not appear.
pub(crate) fn remember(key: &str) {
    let mut secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.insert(secret(key).as_bytes().to_vec());
}

pub(crate) fn holds_a_secret(bytes: &[u8]) -> bool {
    let words = bytes.split(|byte| !byte.is_ascii_alphanumeric());
    let mut windows = words.flat_map(|word| word.windows(SECRET_CHARS)).peekable();
    if windows.peek().is_none() {
        return false;
    }
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    windows.any(|window| secrets.contains(window))
}

/// The first file below a directory that contains a known secret.
pub(crate) fn file_with_a_secret(directory: &Path) -> Option<PathBuf> {
    // Unreadable entries were removed by the test.
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let path = entry.path();
        let found = if path.is_dir() {
            file_with_a_secret(&path)
        } else if !path.is_file() {
            // Reading a pipe would block.
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
        "the file with the secret"
    );
    let path = dir.join("");
    let dropping = thread::spawn(move || drop(dir)).join();
    assert!(dropping.is_err(), "the directory complains");
    assert!(!path.exists(), "and is removed nevertheless");
}

#[test]
fn a_secret_on_stderr_fails_the_test_whose_server_logged_it() {
    let key = format!("im_live_0123456789_{}", "Zy9".repeat(12));
    remember(&key);
    let dir = TempDir::new();
    // A server logs the directory that it watches, which here is named like a key.
    let published = dir.join(&key);
    let server = Server::start(&["--published", published.to_str().unwrap()]);
    let dropping = thread::spawn(move || drop(server)).join();
    assert!(dropping.is_err(), "the server complains");
}
