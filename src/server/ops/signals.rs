//! The signal at the limit of a file's size.

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// SIGXFSZ, which tokio has no name for.
const SIZE_LIMIT: i32 = 25;

/// Makes a write beyond the limit of a file's size (`ulimit -f`) an error, as on a full disk, by a handler that does
/// nothing: by default the signal ends the process without a message.
pub(crate) fn report_size_limit() {
    if let Ok(runtime) = Builder::new_current_thread().enable_io().build() {
        let _entered = runtime.enter();
        // The handler stays when the stream of its signals is dropped.
        let _ = signal(SignalKind::from_raw(SIZE_LIMIT));
    }
}
