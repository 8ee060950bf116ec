//! Signals of commands: SIGINT of those that are no server, and the limit of a file's size.

use std::thread;

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

/// Calls `action` on another thread for each SIGINT, which no longer ends the process. If the thread or the
/// handler cannot be created, SIGINT ends the process as before.
pub(crate) fn on_interrupt(mut action: impl FnMut() + Send + 'static) {
    let wait = move || {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
                return;
            };
            while interrupts.recv().await.is_some() {
                action();
            }
        });
    };
    // Not joined: it ends with the process.
    let _ = thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(wait);
}
