//! Strict HTTP/1.1 over a keep-alive connection, one request at a time.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of responses, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats a call on a socket with a timeout while it fails because this process was stopped and
/// continued: the system does not restart such a call (signal(7)).
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header, which may appear at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice in {:?}", self.headers);
        value
    }

    /// The value of a required header.
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
    address: SocketAddr,
    /// Whether the last response closed the connection: the next request opens another.
    is_over: bool,
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).unwrap(), address)
    }

    /// The same from another address of this machine.
    pub(crate) fn connect_from(from: &str, address: SocketAddr) -> Self {
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        let from = SocketAddr::new(from.parse().unwrap(), 0);
        socket.bind(&from.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::on(socket.into(), address)
    }

    fn on(stream: TcpStream, address: SocketAddr) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            address,
            stream: BufReader::new(stream),
            is_over: false,
        }
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, &[])
    }

    /// The same, with gzip accepted or not.
    pub(crate) fn get_coded(&mut self, target: &str, gzip: bool) -> Reply {
        let coding = if gzip { "gzip" } else { "identity" };
        self.request("GET", target, &[("Accept-Encoding", coding)])
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.send(head.as_bytes(), method == "HEAD")
    }

    /// Sends exactly these bytes and reads one response, without a body if the request is a HEAD.
    pub(crate) fn send(&mut self, bytes: &[u8], is_head: bool) -> Reply {
        if self.is_over {
            *self = Self::connect(self.address);
        }
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
        self.is_over = reply.header("connection") == Some("close");
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

    /// A line, without the CR LF at its end.
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
