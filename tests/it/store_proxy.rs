//! A proxy between a server and the store, which disturbs their connections. Each server has its
//! own.
//!
//! TCP delivers bytes in order or not at all: a connection that has lost bytes delivers none of
//! those that follow. A doubled command arrives again on another connection, and its second answer
//! is lost.

use std::net::Shutdown;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use crate::prelude::*;

/// The treatment of commands, answers and new connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Pass,
    /// Commands arrive later.
    Delay(Duration),
    AnswerLate(Duration),
    /// Commands are lost, and all that follows them on their connection.
    Drop,
    /// Answers are lost, and all that follows them on their connection.
    DropAnswers,
    /// Commands arrive twice.
    Double,
    /// On each connection, commands are lost that follow one with the record of a key.
    DropAfterKey,
    /// The next answer with the record of a key ends its connection, and is lost.
    CutKeyAnswer,
    /// New connections are closed.
    Refuse,
}

/// Numbers of writes that were disturbed.
#[derive(Debug, Default)]
pub(crate) struct Disturbed {
    pub(crate) delayed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) doubled: AtomicU64,
}

pub(crate) struct StoreProxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    store_port: u16,
    mode: Mutex<Mode>,
    /// Both ends of each open connection.
    connections: Mutex<BTreeMap<u64, [TcpStream; 2]>>,
    disturbed: Disturbed,
    is_over: AtomicBool,
}

impl StoreProxy {
    pub(crate) fn start(store_port: u16) -> StoreProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = StoreProxy {
            port: listener.local_addr().unwrap().port(),
            shared: Arc::new(Shared {
                store_port,
                mode: Mutex::new(Mode::Pass),
                connections: Mutex::default(),
                disturbed: Disturbed::default(),
                is_over: AtomicBool::new(false),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        thread::spawn(move || {
            for (number, server) in (0..).zip(listener.incoming()) {
                if shared.is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that cannot be made is closed.
                let _ = shared.connect(number, server.unwrap());
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
    }

    pub(crate) fn mode(&self) -> Mode {
        *self.shared.mode.lock().unwrap()
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        for [server, store] in self.shared.connections.lock().unwrap().values() {
            close(server, store);
        }
    }

    pub(crate) fn disturbed(&self) -> &Disturbed {
        &self.shared.disturbed
    }
}

impl Drop for StoreProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, number: u64, server: TcpStream) -> std::io::Result<()> {
        if *self.mode.lock().unwrap() == Mode::Refuse {
            return Ok(());
        }
        let store = TcpStream::connect(("127.0.0.1", self.store_port))?;
        server.set_nodelay(true)?;
        store.set_nodelay(true)?;
        let ends = [server.try_clone()?, store.try_clone()?];
        self.connections.lock().unwrap().insert(number, ends);
        let (answers_from, answers_to) = (store.try_clone()?, server.try_clone()?);
        let (shared, other) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || {
            shared.pass(server, store, true);
            shared.connections.lock().unwrap().remove(&number);
        });
        thread::spawn(move || other.pass(answers_from, answers_to, false));
        Ok(())
    }

    /// Passes bytes in one direction until an end closes. Delayed ones do not delay others further, as on a long way.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, are_commands: bool) {
        let (mut is_lost, mut has_key) = (false, false);
        let (sender, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
        let end = [&from, &to].map(|end| end.try_clone().unwrap());
        thread::spawn(move || {
            for (at, bytes) in arriving {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            close(&end[0], &end[1]);
        });
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            let bytes = &chunk[..count];
            let (mode, mut at) = (*self.mode.lock().unwrap(), Instant::now());
            match (mode, are_commands) {
                (Mode::Delay(time), true) | (Mode::AnswerLate(time), false) => {
                    self.disturbed.delayed.fetch_add(1, Ordering::Relaxed);
                    at += time;
                }
                (Mode::Drop, true) | (Mode::DropAnswers, false) => is_lost = true,
                (Mode::DropAfterKey, true) => {
                    is_lost |= has_key;
                    has_key |= has_record(bytes);
                }
                (Mode::CutKeyAnswer, false) if has_record(bytes) => {
                    *self.mode.lock().unwrap() = Mode::Pass;
                    break;
                }
                (Mode::Double, true) if are_whole(bytes) => self.send_again(bytes),
                _ => {}
            }
            if is_lost {
                self.disturbed.lost.fetch_add(1, Ordering::Relaxed);
            } else if sender.send((at, bytes.to_vec())).is_err() {
                break;
            }
        }
    }

    /// Sends commands on another connection. It is opened before the commands are passed on, so
    /// they reach the same process of the store or none.
    fn send_again(&self, commands: &[u8]) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.store_port)) else {
            return;
        };
        if stream.write_all(commands).is_ok() {
            self.disturbed.doubled.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                let patience = Some(Duration::from_secs(2));
                stream.set_read_timeout(patience).unwrap();
                // Until the store has handled the commands, the connection stays open.
                let _ = stream.read(&mut [0; 1024]);
            });
        }
    }
}

fn has_record(bytes: &[u8]) -> bool {
    let name = b"\"address\"";
    bytes.windows(name.len()).any(|part| part == name)
}

fn close(server: &TcpStream, store: &TcpStream) {
    // An end may be closed already.
    let _ = server.shutdown(Shutdown::Both);
    let _ = store.shutdown(Shutdown::Both);
}

/// Whether bytes are whole commands of the protocol RESP: `*COUNT`, and for each word `$LENGTH` and
/// the word, each followed by CR LF.
fn are_whole(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some((count, mut rest)) = number(bytes, b'*') else {
            return false;
        };
        for _ in 0..count {
            let word = number(rest, b'$').and_then(|(length, after)| after.get(length + 2..));
            let Some(after) = word else { return false };
            rest = after;
        }
        bytes = rest;
    }
    true
}

/// The number of a line that begins with `mark`, and the bytes after the line.
fn number(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let rest = bytes.strip_prefix(&[mark])?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, &rest[end + 2..]))
}
