//! A connection to the node of the store that accepts writes, and the scripts that run there.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncStream, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, InfoDict, RedisConnectionInfo,
    RedisError, ServerErrorKind,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::settings::{SharedQuotaSettings, StoreNode};
use crate::tls::{client_config, handshake_problem};

/// For a connection and the check of the node. Nodes of one network answer in milliseconds.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// A store that has not answered for this long is away.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longest text of the store in the log.
const TEXT_CHARS_MAX: usize = 120;
/// The flag that names certificates to trust.
const CA_FLAG: &str = "--shared-quota-ca-file";

/// A script, and its SHA-1, by which the store knows it.
pub(super) struct StoreScript {
    text: String,
    hash: String,
}

impl StoreScript {
    /// `head` is its first line, with flags, or nothing.
    pub(super) fn new(head: &str, text: &str) -> StoreScript {
        let text = [head, include_str!("common.lua"), text].concat();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        StoreScript { text, hash }
    }
}

pub(super) struct NodeConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) node: StoreNode,
    /// Differs after each start of the node, and between nodes: another one may lack data.
    pub(super) run_id: String,
    /// A line for the log if the node may remove figures while they are needed.
    pub(super) warning: Option<String>,
    /// The task that reads and writes the connection, which ends with this set. Else it would wait for an answer for
    /// ever, and keep the connection open.
    _driver: JoinSet<()>,
}

impl NodeConnection {
    /// Runs a script with the keys and arguments that `fill` adds. Its text is sent only if the store does not know it:
    /// `redis::Script` would need a further permission. The error describes the problem and names the node.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &StoreScript,
        keys: usize,
        fill: impl Fn(&mut Cmd),
    ) -> Result<T, String> {
        let command = |name, text: &str| {
            let mut command = redis::cmd(name);
            command.arg(text).arg(keys);
            fill(&mut command);
            command
        };
        let mut connection = self.connection.clone();
        let known = command("EVALSHA", &script.hash);
        let answer = match known.query_async(&mut connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let sent = command("EVAL", &script.text);
                sent.query_async(&mut connection).await
            }
            other => other,
        };
        answer.map_err(|error| format!("{}: {}", self.node, problem(error)))
    }
}

/// A write that a node refuses if it is full, or lacks replicas. Such a node accepts connections all the same, and calls of
/// the script that write nothing.
pub(super) const QUOTA_PROBE: [&str; 4] = ["HSET", "imq:probe", "run", "0"];

/// Connects to the first node that accepts a write, `probe`. The error names each node and its problem.
pub(super) async fn connect(
    settings: &SharedQuotaSettings,
    probe: &[&str],
) -> Result<Arc<NodeConnection>, String> {
    let mut problems = Vec::new();
    for node in &settings.nodes {
        match open(node, settings, probe).await {
            Ok(connection) => return Ok(Arc::new(connection)),
            Err(problem) => problems.push(format!("{node}: {problem}")),
        }
    }
    Err(problems.join("; "))
}

/// Opens a connection. Its name is looked up each time: after a failover, it may lead to another node. A name server that
/// does not answer is not taken for the store.
pub(super) async fn open(
    node: &StoreNode,
    settings: &SharedQuotaSettings,
    probe: &[&str],
) -> Result<NodeConnection, String> {
    let millis = CONNECT_MAX.as_millis();
    let found = timeout(CONNECT_MAX, lookup_host(&node.authority)).await;
    let found = found.map_err(|_| format!("no answer of the name server within {millis} ms"))?;
    let found = found.map_err(|error| error.to_string())?;
    let addresses: Vec<SocketAddr> = found.collect();
    let opening = open_at(node, &addresses, settings, probe);
    timeout(CONNECT_MAX, opening).await.unwrap_or_else(|_| {
        // A store without TLS waits for the rest of what it takes for a command.
        let hint = if node.is_tls {
            "; if it does not use TLS, write redis://"
        } else {
            ""
        };
        Err(format!("no answer within {millis} ms{hint}"))
    })
}

/// Opens a connection to addresses. It is closed when the returned value, or this future, is dropped.
async fn open_at(
    node: &StoreNode,
    addresses: &[SocketAddr],
    settings: &SharedQuotaSettings,
    probe: &[&str],
) -> Result<NodeConnection, String> {
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(user) = &node.user {
        info = info.set_username(user);
    }
    if let Some(password) = settings.password()? {
        info = info.set_password(password);
    }
    let stream = TcpStream::connect(addresses).await;
    let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream = stream.map_err(|error| error.to_string())?;
    let stream: Pin<Box<dyn AsyncStream + Send + Sync>> = if node.is_tls {
        Box::pin(encrypt(node, settings.ca_file.as_deref(), stream).await?)
    } else {
        Box::pin(stream)
    };
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
    let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (connection, driver) = opened.map_err(|error| {
        // A port for TLS closes the connection at the first command.
        let hint = if !node.is_tls && error.is_io_error() {
            "; if it uses TLS, write rediss://"
        } else {
            ""
        };
        problem(error) + hint
    })?;
    let driver = [driver].into_iter().collect();
    inspect(node, connection, driver, probe).await
}

/// Checks that a node accepts writes.
async fn inspect(
    node: &StoreNode,
    mut connection: MultiplexedConnection,
    driver: JoinSet<()>,
    probe: &[&str],
) -> Result<NodeConnection, String> {
    let info = redis::cmd("INFO").query_async(&mut connection).await;
    let info: InfoDict = info.map_err(problem)?;
    let member = |name: &str| info.get::<String>(name);
    let mode = member("redis_mode");
    // A sentinel has a mode in place of a role.
    let role = member("role").or_else(|| mode.clone().filter(|mode| mode == "sentinel"));
    match role.as_deref() {
        Some("master") => {}
        Some(other) => {
            let other = printable(other);
            return Err(format!("its role is {other}, which accepts no writes"));
        }
        None => return Err("INFO has no role".to_owned()),
    }
    if info.get("cluster_enabled") == Some(1) || mode.as_deref() == Some("cluster") {
        return Err(
            "the node is part of a cluster, which is not supported; use a single node, or \
                    a primary with replicas"
                .to_owned(),
        );
    }
    let mut command = redis::cmd(probe[0]);
    command.arg(&probe[1..]);
    let probed: Result<u32, RedisError> = command.query_async(&mut connection).await;
    // A key of another type is named only where writes are accepted.
    if let Err(error) = probed
        && error.code() != Some("WRONGTYPE")
    {
        return Err(problem(error));
    }
    let run_id = member("run_id").ok_or("INFO has no run_id")?;
    let policy = member("maxmemory_policy").filter(|policy| policy != "noeviction");
    let warning = policy.map(|policy| {
        let policy = printable(&policy);
        format!(
            "shared quota: {node} has maxmemory-policy {policy} and may remove quotas of today; \
             set noeviction"
        )
    });
    Ok(NodeConnection {
        connection,
        node: node.clone(),
        run_id,
        warning,
        _driver: driver,
    })
}

async fn encrypt(
    node: &StoreNode,
    ca_file: Option<&Path>,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let config = client_config(ca_file, CA_FLAG)?;
    let host = node.authority.rsplit_once(':').map_or("", |(host, _)| host);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|error| format!("the host has no valid name: {error}"))?;
    let connecting = TlsConnector::from(config).connect(name, stream).await;
    connecting.map_err(|error| handshake_problem(&error, CA_FLAG))
}

/// Describes an error of the library in the words of the store.
#[expect(clippy::needless_pass_by_value, reason = "a conversion for map_err")]
fn problem(error: RedisError) -> String {
    match (error.code(), error.detail()) {
        _ if error.is_timeout() => format!("no answer within {} s", ANSWER_MAX.as_secs()),
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            "it refuses the login: a wrong user name or password, or too many clients".to_owned()
        }
        // One text for all places at which the connection may be cut.
        _ if error.kind() == ErrorKind::Parse => {
            "an answer that cannot be read, or was cut off".to_owned()
        }
        (Some(code), Some(detail)) => printable(&format!("{code} {detail}")),
        _ => printable(&error.to_string()),
    }
}

/// Returns a text of the store for the log: its first characters, those that are printable ASCII.
fn printable(text: &str) -> String {
    let start: String = text.chars().take(TEXT_CHARS_MAX).collect();
    start.replace(|c| !(' '..='~').contains(&c), "?")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use tokio::runtime::Builder;

    use super::super::store_tests::settings;
    use super::*;

    #[test]
    fn a_connection_to_a_node_that_does_not_answer_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = format!("redis://{}", listener.local_addr().unwrap());
        let settings = settings(&node.parse().unwrap());
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        // It runs on, as that of a server.
        let failed = runtime.block_on(async {
            let failed = connect(&settings, &QUOTA_PROBE).await;
            tokio::time::sleep(CONNECT_MAX).await;
            failed
        });
        assert!(failed.err().unwrap().contains("no answer within 500 ms"));
        let (mut accepted, _) = listener.accept().unwrap();
        let wait = Duration::from_secs(5);
        accepted.set_read_timeout(Some(wait)).unwrap();
        assert!(accepted.read_to_end(&mut Vec::new()).is_ok());
    }

    #[test]
    fn texts_of_the_store_are_one_short_line_of_ascii() {
        let forged = "ERR x\r\n2026-11-25T00:00:00Z forged \u{1b}[31m\u{202e}é";
        assert_eq!(
            printable(forged),
            "ERR x??2026-11-25T00:00:00Z forged ?[31m??"
        );
        assert_eq!(printable(&"x".repeat(1 << 20)).len(), TEXT_CHARS_MAX);
    }
}
