//! What all parts of the soak share: the server, what is wrong, what must not be seen, and whether to go on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;

use crate::common::Outcome;
use crate::common::process::Server;

/// How long a part sleeps at most, so that it ends soon when it is to.
const NAP: Duration = Duration::from_millis(20);
/// What keys begin with: it stands in no line and on no page.
const KEY_PREFIX: &[u8] = b"im_live_";
/// Where the secret of a key begins, behind its number.
const SECRET_AT: usize = 19;

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) state: PathBuf,
    is_over: AtomicBool,
    faults: Mutex<Vec<String>>,
    keys: Mutex<Vec<String>>,
}

impl Stage {
    pub(crate) fn new(server: Server, admin: SocketAddr, state: PathBuf) -> Stage {
        Stage {
            address: server.address,
            server,
            admin,
            state,
            is_over: AtomicBool::new(false),
            faults: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// Tells what is wrong, at once and at the end.
    pub(crate) fn wrong(&self, fault: String) {
        println!("wrong: {fault}");
        self.faults().push(fault);
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Vec<String>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key that nobody may see.
    pub(crate) fn hide(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key.to_owned());
    }

    /// Whether a text shows a key, or the secret of one.
    pub(crate) fn shows_key(&self, text: &[u8]) -> bool {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut secrets = keys
            .iter()
            .filter_map(|key| key.as_bytes().get(SECRET_AT..));
        memmem::find(text, KEY_PREFIX).is_some()
            || secrets.any(|secret| memmem::find(text, secret).is_some())
    }

    pub(crate) fn begin(&self) {
        self.is_over.store(false, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Does something again and again until the end. What fails is told, and ends it.
    pub(crate) fn every(
        &self,
        what: &str,
        interval: Duration,
        mut act: impl FnMut() -> Outcome<()>,
    ) {
        while !self.is_over() {
            let next = Instant::now() + interval;
            if let Err(error) = act() {
                self.wrong(format!("{what}: {error}"));
                return;
            }
            while Instant::now() < next && !self.is_over() {
                thread::sleep(NAP);
            }
        }
    }
}
