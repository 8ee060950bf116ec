//! Strict HTTP/1.1 over a keep-alive connection, one request at a time.

use std::io::{self, BufRead, ErrorKind};

use crate::prelude::*;

/// Timeout of responses, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

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

/// A connection that fails a test rather than wait for ever.
pub(crate) fn socket(address: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(address).unwrap())
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The same from an address of this machine, with a receive buffer of so many bytes.
pub(crate) fn socket_from(from: &str, address: SocketAddr, buffer: Option<usize>) -> TcpStream {
    let kind = socket2::Type::STREAM;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    let from = SocketAddr::new(from.parse().unwrap(), 0);
    socket.bind(&from.into()).unwrap();
    socket.connect(&address.into()).unwrap();
    patient(socket.into())
}

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

    /// The headers whose names begin with none of these.
    pub(crate) fn headers_but(&self, passing: &[&str]) -> Vec<(String, String)> {
        let is_passing = |name: &str| passing.iter().any(|start| name.starts_with(start));
        let headers = self.headers.iter().cloned();
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value));
        headers.filter(|(name, _)| !is_passing(name)).collect()
    }

    /// The number in a required header.
    pub(crate) fn number(&self, name: &str) -> u32 {
        self.expect(name).parse().unwrap()
    }

    /// The number of requests left to the client.
    pub(crate) fn left(&self) -> u32 {
        self.number("x-ratelimit-remaining")
    }

    /// Asserts that a header lists all of these names.
    #[track_caller]
    pub(crate) fn lists(&self, header: &str, names: &str) {
        let listed = self.expect(header);
        for name in words(names) {
            let is_listed = listed.split(", ").any(|found| found == name);
            assert!(is_listed, "no {name} in {header}: {listed}");
        }
    }

    /// The message of an error.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        json["error"]["message"].as_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!(
                "{e} in {} {:?}",
                self.status,
                String::from_utf8_lossy(&self.body)
            )
        })
    }
}

/// Reads the head of a response of a version; `None` if the connection ends before it.
pub(crate) fn read_head(stream: &mut impl BufRead, version: &str) -> Option<Reply> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(0) if lines.is_empty() => return None,
            // A client that sends to a closed connection gets a reset.
            Err(error) if lines.is_empty() && error.kind() == ErrorKind::ConnectionReset => {
                return None;
            }
            read => assert!(read.unwrap() > 0, "a head that is cut: {lines:?}"),
        }
        let Some(bare) = line.strip_suffix("\r\n") else {
            panic!("line {line:?} ends badly")
        };
        assert!(!bare.contains(['\r', '\n']), "line {line:?}");
        if bare.is_empty() {
            break;
        }
        lines.push(bare.to_owned());
    }
    let status = lines[0].get(9..12).and_then(|digits| digits.parse().ok());
    let status = status.filter(|_| lines[0].starts_with(version));
    let headers = lines[1..].iter().map(|line| {
        let (name, value) = line
            .split_once(':')
            .unwrap_or_else(|| panic!("header {line:?}"));
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        assert!(is_name, "header {line:?}");
        (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
    });
    Some(Reply {
        status: status.unwrap_or_else(|| panic!("no status line: {lines:?}")),
        headers: headers.collect(),
        body: Vec::new(),
    })
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
        Self::on(socket(address), address)
    }

    /// The same from another address of this machine.
    pub(crate) fn connect_from(from: &str, address: SocketAddr) -> Self {
        Self::on(socket_from(from, address, None), address)
    }

    fn on(stream: TcpStream, address: SocketAddr) -> Self {
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
        let Some(mut reply) = read_head(&mut self.stream, "HTTP/1.1 ") else {
            panic!("no response to {:?}", String::from_utf8_lossy(bytes));
        };
        self.is_over = reply.header("connection") == Some("close");
        assert!(
            reply.header("transfer-encoding").is_none(),
            "bodies here have known lengths"
        );
        if is_head || reply.status == 204 || reply.status == 304 {
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
}
