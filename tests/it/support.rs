//! The harness: starts the binary on a free port, stops it for certain, speaks strict HTTP/1.1.
//!
//! Knows nothing of what the answers should be.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `--base-url` is in every test that does not say otherwise.
pub(crate) const BASE_URL: &str = "http://x.test";

/// Longer than any honest answer or start takes, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether tests should go on for as long as the gate lets them.
pub(crate) fn wants_slow() -> bool {
    std::env::var_os("ISLAND_METRICS_SLOW").is_some()
}

/// A directory of its own, removed with all it holds when dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("island-metrics-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.0);
    }
}

/// Writes a file of a test's dataset, and the directories above it.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's input need not survive a crash"
)]
pub(crate) fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The binary under test, without the settings of the person who runs the tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_island-metrics"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ISLAND_METRICS_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

/// Publishes a dataset that must be without fault.
pub(crate) fn publish(dataset: &Path, to: &Path, generated_at: &str) {
    let (dataset, to) = (dataset.to_str().unwrap(), to.to_str().unwrap());
    let words = [
        "publish",
        "--dataset",
        dataset,
        "--to",
        to,
        "--generated-at",
        generated_at,
    ];
    let output = run(&words);
    assert!(
        output.status.success(),
        "{words:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    addr: SocketAddr,
}

impl Server {
    /// Starts `serve` with these words after `--listen`, and waits until it says where it listens.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        // Reads on to the end, so that the server never blocks on a full pipe.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _nobody_listens_any_more = tell.send(line);
            }
        });
        let mut said = Vec::new();
        let mut server = Self {
            child,
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        loop {
            let Ok(line) = told.recv_timeout(PATIENCE) else {
                panic!("the server did not start: {args:?}\n{}", said.join("\n"));
            };
            if let Some((_, rest)) = line.split_once("listening on http://") {
                let addr = rest
                    .split(|c: char| c.is_whitespace() || c == '/')
                    .next()
                    .unwrap();
                server.addr = addr.parse().unwrap();
                return server;
            }
            said.push(line);
        }
    }

    /// Serves a published directory to anonymous clients with room for every test's requests.
    pub(crate) fn of(published: &Path, more: &[&str]) -> Self {
        let mut args = vec!["--published", published.to_str().unwrap()];
        args.extend([
            "--limit-anonymous",
            "60000",
            "--workers",
            "1",
            "--base-url",
            BASE_URL,
        ]);
        args.extend(more);
        Self::start(&args)
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Kills it as the system does when memory is short: no handler runs.
    pub(crate) fn kill(&self) {
        self.signal("-KILL");
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal("-TERM");
        self.child.wait().unwrap()
    }

    fn signal(&self, signal: &str) {
        let process = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &process]).status();
        assert!(status.unwrap().success(), "kill {signal} {process}");
    }

    /// A new keep-alive connection.
    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _dead_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header that may stand at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice in {:?}", self.headers);
        value
    }

    /// The value of a header that must be there.
    pub(crate) fn expect(&self, name: &str) -> &str {
        let Some(value) = self.header(name) else {
            panic!("no {name} on {} with {:?}", self.status, self.headers);
        };
        value
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!(
                "{e} in {} {:?}",
                self.status,
                String::from_utf8_lossy(&self.body)
            )
        })
    }
}

/// One keep-alive connection, one request at a time.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, &[])
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: x.test\r\n");
        for (name, value) in headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.send(head.as_bytes(), method == "HEAD")
    }

    /// Sends these very bytes and reads one answer, which has no body if it answers a HEAD.
    pub(crate) fn send(&mut self, bytes: &[u8], is_head: bool) -> Reply {
        self.stream.get_mut().write_all(bytes).unwrap();
        let status_line = self.line();
        let rest = status_line.strip_prefix("HTTP/1.1 ");
        let status: u16 = rest
            .and_then(|r| r.get(..3))
            .and_then(|d| d.parse().ok())
            .unwrap_or_else(|| {
                panic!(
                    "no status line: {status_line:?} after {:?}",
                    String::from_utf8_lossy(bytes)
                )
            });
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("header {line:?}"));
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            assert!(
                !name.is_empty() && name.bytes().all(is_token),
                "header {line:?}"
            );
            headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        assert!(
            reply.header("transfer-encoding").is_none(),
            "bodies here have known lengths"
        );
        if is_head || status == 204 || status == 304 {
            return reply;
        }
        reply.body = vec![0; reply.expect("content-length").parse().unwrap()];
        self.stream.read_exact(&mut reply.body).unwrap();
        assert!(
            self.stream.buffer().is_empty(),
            "bytes after the body of {reply:?}"
        );
        reply
    }

    /// One line that ends in CR LF, without it.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let Some(bare) = line.strip_suffix("\r\n") else {
            panic!("line {line:?} ends badly")
        };
        assert!(!bare.contains(['\r', '\n']), "line {line:?}");
        bare.to_owned()
    }
}
