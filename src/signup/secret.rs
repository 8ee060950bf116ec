//! What passes are signed with: a file of the state directory, so that links outlive a restart and
//! are good at every server that shares the directory.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::error::SignupError;
use super::pass::SECRET_BYTES;
use crate::durable;
use crate::regular_file;

const FILE: &str = "signup.secret";
/// For another process that is starting in the same directory.
const PATIENCE: Duration = Duration::from_secs(10);

/// The secret of a state directory, made if there is none.
pub(super) fn read_or_make(directory: &Path) -> Result<[u8; SECRET_BYTES], SignupError> {
    let path = directory.join(FILE);
    let failed = |at: &Path| {
        let path = at.to_owned();
        move |source: io::Error| SignupError::Io { path, source }
    };
    durable::create_private_directory(directory).map_err(failed(directory))?;
    // Two processes that start at once agree on one secret.
    let _lock = durable::lock_within(directory, PATIENCE).map_err(failed(directory))?;
    let Some(file) = regular_file::open(&path).map_err(failed(&path))? else {
        let mut secret = [0; SECRET_BYTES];
        // The kernel's generator does not fail once a machine has started.
        getrandom::fill(&mut secret).expect("the system gives random numbers");
        durable::replace_private(&path, &secret).map_err(failed(&path))?;
        return Ok(secret);
    };
    let found = file.metadata().map_err(failed(&path))?;
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SignupError::SecretMode { path, mode });
    }
    let mut bytes = Vec::with_capacity(SECRET_BYTES + 1);
    file.take(SECRET_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed(&path))?;
    bytes.try_into().map_err(|_| SignupError::Secret {
        path,
        bytes: found.len(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn all_who_begin_at_once_have_one_secret_and_keep_it() {
        let directory = std::env::temp_dir().join(format!("im-secret-{}", std::process::id()));
        let state = directory.join("state");
        let secrets = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| read_or_make(&state).unwrap()))
                .collect();
            let secrets = all.into_iter().map(|one| one.join().unwrap());
            secrets.collect::<Vec<_>>()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        assert_ne!(secrets[0], [0; SECRET_BYTES]);
        assert_eq!(read_or_make(&state).unwrap(), secrets[0]);
        let mode = fs::metadata(state.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let directory = std::env::temp_dir().join(format!("im-open-secret-{}", std::process::id()));
        read_or_make(&directory).unwrap();
        for (mode, is_good) in [
            (0o640, false),
            (0o604, false),
            (0o620, false),
            (0o400, true),
        ] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(directory.join(FILE), permissions).unwrap();
            let read = read_or_make(&directory);
            assert_eq!(read.is_ok(), is_good, "{mode:o}");
            if let Err(error) = read {
                let found = format!("signup.secret: the file's mode is {mode:o}; want 600");
                assert!(error.to_string().contains(&found), "{error}");
            }
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_of_another_length_is_refused_by_name() {
        let directory = std::env::temp_dir().join(format!("im-no-secret-{}", std::process::id()));
        durable::create_private_directory(&directory).unwrap();
        for length in [0, 31, 33, 64] {
            durable::replace_private(&directory.join(FILE), &vec![7; length]).unwrap();
            let text = read_or_make(&directory).unwrap_err().to_string();
            let found = format!("signup.secret: the file has {length} bytes; want 32");
            assert!(text.contains(&found), "{text}");
        }
        fs::remove_file(directory.join(FILE)).unwrap();
        fs::create_dir(directory.join(FILE)).unwrap();
        let text = read_or_make(&directory).unwrap_err().to_string();
        assert!(
            text.contains("signup.secret: is not a regular file"),
            "{text}"
        );
        fs::remove_dir_all(directory).unwrap();
    }
}
