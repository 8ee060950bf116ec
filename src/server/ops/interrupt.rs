//! SIGINT in a command that is not a server.

use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

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
