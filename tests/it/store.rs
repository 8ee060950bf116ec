//! A store for tests of several servers: `redis-server`, or the program that `IM_TEST_STORE` names.

use std::ffi::OsString;

use crate::prelude::*;

/// Daily limit of an address and of a free key.
pub(crate) const LIMIT: u32 = 60;
/// A store without files.
pub(crate) struct Store {
    pub(crate) port: u16,
    /// Arguments of the program.
    pub(crate) more: Vec<String>,
    process: Option<Child>,
}

pub(crate) fn program() -> OsString {
    std::env::var_os("IM_TEST_STORE").unwrap_or_else(|| "redis-server".into())
}

impl Store {
    /// `None`, with a line that names what to install, if the program is missing.
    pub(crate) fn start(more: &[&str]) -> Option<Store> {
        let mut store = Store {
            // No other process has it while the store is down.
            port: address().0.port(),
            process: None,
            more: more.iter().map(|&word| word.to_owned()).collect(),
        };
        if !store.run() {
            report_skipped("redis-server, `apt-get install redis-server`");
            return None;
        }
        Some(store)
    }

    /// Starts the program, and waits until it accepts connections.
    pub(crate) fn run(&mut self) -> bool {
        let port = self.port.to_string();
        let started = Command::new(program())
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", ""])
            // A replica would write its copy to a file.
            .args(["--repl-diskless-load", "swapdb"])
            .args(&self.more)
            .stdout(Stdio::null())
            .spawn();
        let Ok(process) = started else { return false };
        self.process = Some(process);
        wait_for("the store", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        true
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.as_ref().unwrap().id(), name);
    }

    /// Sends a command to the store, and returns the first line of its answer.
    pub(crate) fn command(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// The name of the hash that has the credits of an IPv4 address today, or nothing.
    pub(crate) fn credits_key(&self, address: &str) -> String {
        let tag = address.parse::<std::net::Ipv4Addr>().unwrap().to_bits();
        let script = format!("return {{ok=redis.call('keys','imq:3:*:a:*{tag:08x}')[1] or ''}}");
        let answer = self.command(&format!("EVAL \"{script}\" 0"));
        answer
            .strip_prefix('+')
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    /// Credits of an IPv4 address that all servers have received today: the sum of the fields of all
    /// starts of all servers, `DIRECTORY:START`.
    pub(crate) fn credits(&self, address: &str) -> u32 {
        let key = self.credits_key(address);
        let each = "if fields[at]:find(':') then sum=sum+fields[at+1] end";
        let script = format!(
            "local fields,sum=redis.call('hgetall','{key}'),0 for at=1,#fields,2 do {each} end return sum"
        );
        let answer = self.command(&format!("EVAL \"{script}\" 0"));
        let digits = answer
            .strip_prefix(':')
            .unwrap_or_else(|| panic!("{answer}"));
        digits.parse().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts servers that share by this store. Each has a state directory of its own.
    pub(crate) fn peers(&self, directory: &Path, count: usize, more: &[&str]) -> Vec<Peer> {
        let state = |at| directory.join(format!("state-{at}"));
        let start = |at: usize| self.peer(&state(at), count, more);
        (0..count).map(start).collect()
    }

    /// Starts one of `count` servers.
    pub(crate) fn peer(&self, state: &Path, count: usize, more: &[&str]) -> Peer {
        Peer::start(&self.url(), state, count, more)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ended_already = process.kill();
            let _ended_already = process.wait();
        }
    }
}

/// A file with the password of a store, which only its user may read.
pub(crate) fn password_file(directory: &TempDir, password: &str) -> PathBuf {
    let file = directory.join("password");
    write_file(&file, password);
    set_mode(&file, 0o600);
    file
}

/// Waits until all servers use the store, or none does.
pub(crate) fn await_all(peers: &[Peer], is_up: bool) {
    for peer in peers {
        peer.await_up(is_up);
    }
}

/// A server that shares quotas.
pub(crate) struct Peer {
    pub(crate) server: Server,
    pub(crate) admin: SocketAddr,
}

impl Peer {
    /// Starts one of `count` servers that share by the store of this URL.
    pub(crate) fn start(url: &str, state: &Path, count: usize, more: &[&str]) -> Peer {
        Peer::start_as(command(), url, state, count, more)
    }

    /// The same with a prepared command.
    pub(crate) fn start_as(
        command: Command,
        url: &str,
        state: &Path,
        count: usize,
        more: &[&str],
    ) -> Peer {
        let (count, limit) = (count.to_string(), LIMIT.to_string());
        let (admin, port) = address();
        let mut words = vec!["--shared-quota", url, "--shared-quota-replicas", &count];
        words.extend(["--state", state.to_str().unwrap(), "--workers", "1"]);
        words.extend(["--limit-anonymous", &limit, "--limit-free", &limit]);
        // A small file of counters: it is searched for secrets.
        words.extend(["--admin", &port, "--quota-clients", "10000"]);
        words.extend(more);
        Peer {
            server: Server::start_as(command, &words),
            admin,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        self.server.connect()
    }

    pub(crate) fn await_line(&self, part: &str) {
        self.server.await_line(part);
    }

    /// A metric of shared quotas, without the beginning of its name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        metrics(self.admin)[&format!("island_metrics_shared_quota_{name}")]
    }

    /// A metric of shared keys, without the beginning of its name.
    pub(crate) fn keys_metric(&self, name: &str) -> f64 {
        metrics(self.admin)[&format!("island_metrics_shared_keys_{name}")]
    }

    /// Waits until a line of the log contains `part`, also a line before one that was waited for.
    pub(crate) fn await_any_line(&self, part: &str) {
        wait_for(part, || self.count_lines(part) > 0);
    }

    /// Lines of the log so far that contain `part`.
    pub(crate) fn count_lines(&self, part: &str) -> usize {
        let lines = self.server.lines();
        lines.iter().filter(|line| line.contains(part)).count()
    }

    /// Whether the store has answered each request in time.
    pub(crate) fn was_answered_in_time(&self) -> bool {
        let late = self.metric("requests_total{result=\"late\"}");
        late + self.metric("shares_total") == 0.0
    }

    pub(crate) fn await_up(&self, is_up: bool) {
        let wanted = f64::from(u8::from(is_up));
        wait_for("the store's state", || self.metric("up").eq(&wanted));
    }
}
