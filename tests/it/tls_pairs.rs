//! Certificates for tests of TLS, made with `openssl`; servers that use them, and a client of rustls.
//! A test begins with a [`Scene`], and ends there where `openssl` is not installed.

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::prelude::*;

pub(crate) const ECDSA: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub(crate) const RSA: &[&str] = &["-newkey", "rsa:2048"];
pub(crate) const VALID: &[&str] = &["-days", "30"];
pub(crate) const EXPIRED: &[&str] = &[
    "-startdate",
    "20240101000000Z",
    "-enddate",
    "20240201000000Z",
];
/// A request behind which the server closes the connection.
pub(crate) const LAST: &str = "GET /v1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
pub(crate) const NAMES: &str = "subjectAltName=DNS:localhost,IP:127.0.0.1";

const AUTHORITY: &str = "\
[ca]
default_ca = authority
[authority]
certificate = ca.pem
private_key = ca.key
database = index.txt
new_certs_dir = .
rand_serial = yes
unique_subject = no
default_md = sha256
copy_extensions = copy
policy = names
[names]
commonName = supplied
";

/// The files of a certificate and its key, beside the authority that issued it.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) authority: PathBuf,
}

/// A directory of certificates with a valid one for `localhost`, of an ECDSA key.
pub(crate) struct Scene {
    pub(crate) directory: TempDir,
    pub(crate) pair: Pair,
}

impl Scene {
    /// Makes the directory and the certificate; `None` without `openssl`.
    pub(crate) fn new() -> Option<Scene> {
        if !is_installed("openssl", "openssl") {
            return None;
        }
        let directory = TempDir::new();
        let pair = pair(&directory.join("tls"), "a");
        Some(Scene { directory, pair })
    }

    /// Makes another valid pair of the same authority.
    pub(crate) fn pair(&self, name: &str) -> Pair {
        pair(&self.directory.join("tls"), name)
    }

    /// Makes a pair of the same authority with this kind of key, these dates and names.
    pub(crate) fn pair_of(&self, name: &str, key: &[&str], dates: &[&str], names: &str) -> Pair {
        pair_of(&self.directory.join("tls"), name, key, dates, names)
    }

    /// Starts a server with the scene's pair.
    pub(crate) fn start(&self, more: &[&str]) -> (Server, SocketAddr) {
        start(&self.pair, more)
    }

    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        client_config(&self.pair)
    }
}

pub(crate) fn openssl(arguments: &[&str], directory: &Path) {
    let mut command = Command::new("openssl");
    let output = command.args(arguments).current_dir(directory).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// Makes a valid ECDSA pair for `localhost`.
pub(crate) fn pair(directory: &Path, name: &str) -> Pair {
    pair_of(directory, name, ECDSA, VALID, NAMES)
}

/// Makes a pair with this kind of key, these dates and names.
pub(crate) fn pair_of(
    directory: &Path,
    name: &str,
    key: &[&str],
    dates: &[&str],
    names: &str,
) -> Pair {
    fs::create_dir_all(directory).unwrap();
    let authority = directory.join("ca.pem");
    if !authority.exists() {
        let new = [
            &["req", "-x509"],
            ECDSA,
            &["-nodes", "-keyout", "ca.key", "-out", "ca.pem"],
        ];
        let words = [
            &new.concat()[..],
            &["-days", "30", "-subj", "/CN=authority"],
        ];
        openssl(&words.concat(), directory);
        write_file(&directory.join("ca.conf"), AUTHORITY);
        write_file(&directory.join("index.txt"), "");
    }
    let (key_file, request) = (format!("{name}.key"), format!("{name}.csr"));
    let certificate = format!("{name}.pem");
    let output = ["-nodes", "-keyout", &key_file, "-out", &request];
    let subject = ["-subj", "/CN=localhost", "-addext", names];
    openssl(
        &[&["req", "-new"], key, &output, &subject].concat(),
        directory,
    );
    let sign = [
        "ca", "-config", "ca.conf", "-batch", "-notext", "-in", &request,
    ];
    openssl(
        &[&sign[..], &["-out", &certificate], dates].concat(),
        directory,
    );
    let pair = Pair {
        certificate: directory.join(certificate),
        key: directory.join(key_file),
        authority,
    };
    set_mode(&pair.key, 0o640);
    pair
}

/// Makes a valid pair, and what a client refuses: the pair of another authority, an expired one, and one for another name.
pub(crate) fn pairs(directory: &TempDir) -> [Pair; 4] {
    let place = directory.join("pki");
    let other_name = "subjectAltName=DNS:api.example";
    [
        pair(&place, "sound"),
        pair(&directory.join("other"), "other"),
        pair_of(&place, "expired", ECDSA, EXPIRED, NAMES),
        pair_of(&place, "named", ECDSA, VALID, other_name),
    ]
}

/// Makes a pair whose certificate an intermediate authority has issued: `middle.pem`, beside it.
pub(crate) fn chain_pair(directory: &Path) -> Pair {
    let issued = pair_of(
        directory,
        "middle",
        ECDSA,
        VALID,
        "basicConstraints=critical,CA:TRUE",
    );
    let new = [&["req", "-new"], ECDSA, &["-nodes", "-keyout", "leaf.key"]].concat();
    let about = ["-out", "leaf.csr", "-subj", "/CN=leaf", "-addext", NAMES];
    openssl(&[&new[..], &about].concat(), directory);
    let sign = words("x509 -req -in leaf.csr -copy_extensions copy -days 30");
    let by = words("-CA middle.pem -CAkey middle.key -out leaf.pem");
    openssl(&[&sign[..], &by].concat(), directory);
    let pair = Pair {
        certificate: directory.join("leaf.pem"),
        key: directory.join("leaf.key"),
        authority: issued.authority,
    };
    set_mode(&pair.key, 0o640);
    pair
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn arguments(pair: &Pair) -> [&str; 4] {
    let (certificate, key) = (text(&pair.certificate), text(&pair.key));
    ["--tls-certificate", certificate, "--tls-key", key]
}

/// Starts a server with a TLS listener beside the plain one. Returns the address of the TLS listener.
pub(crate) fn start(pair: &Pair, more: &[&str]) -> (Server, SocketAddr) {
    let listen = ["--listen-tls", "127.0.0.1:0"];
    let server = Server::start(&[&listen[..], &arguments(pair), more].concat());
    server.await_line("listening on https://");
    let lines = server.lines();
    let address = lines.iter().find_map(|line| line.split("https://").nth(1));
    let address = address.unwrap().parse().unwrap();
    (server, address)
}

/// Runs curl with the authority of a pair, for `/v1/islands?limit=2`.
pub(crate) fn curl(address: SocketAddr, pair: &Pair, more: &[&str]) -> Output {
    let url = format!("https://localhost:{}/v1/islands?limit=2", address.port());
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "--cacert", text(&pair.authority)]);
    command.args(more).arg(url).output().unwrap()
}

/// A connection of a client. Reading to its end fails if the server sends no `close_notify`.
pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// The configuration of a client that trusts the authority of a pair.
pub(crate) fn client_config(pair: &Pair) -> Arc<ClientConfig> {
    Arc::new(client_config_with(pair, aws_lc_rs::default_provider()))
}

/// The same with some of the provider's algorithms.
pub(crate) fn client_config_with(pair: &Pair, provider: CryptoProvider) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&pair.authority).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(roots).with_no_client_auth()
}

pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(client, socket(address))
}

/// Requests a target on a new connection, which the server closes. Returns head and body.
pub(crate) fn fetch(address: SocketAddr, config: &Arc<ClientConfig>, target: &str) -> String {
    let mut client = connect(address, config);
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

/// The same configuration for full handshakes only.
pub(crate) fn without_tickets(config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
    let mut config = config.as_ref().clone();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// A connection that is kept, and opened again behind its last response.
pub(crate) struct KeptConnection {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    client: BufReader<TlsClient>,
}

impl KeptConnection {
    pub(crate) fn new(address: SocketAddr, config: &Arc<ClientConfig>) -> KeptConnection {
        KeptConnection {
            address,
            config: Arc::clone(config),
            client: BufReader::new(connect(address, config)),
        }
    }

    /// Requests a target. Returns head and body.
    pub(crate) fn get(&mut self, target: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.client.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut response, mut body_bytes) = (String::new(), 0);
        while !response.ends_with("\r\n\r\n") {
            let begun = response.len();
            assert!(self.client.read_line(&mut response).unwrap() > 0);
            if let Some(length) = response[begun..].strip_prefix("content-length: ") {
                body_bytes = length.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; body_bytes];
        self.client.read_exact(&mut body).unwrap();
        if response.contains("connection: close\r\n") {
            *self = KeptConnection::new(self.address, &self.config);
        }
        response + std::str::from_utf8(&body).unwrap()
    }
}

/// The certificate that a server presents; `None` if the client does not trust it. A session that is
/// continued has the certificate of its first connection.
pub(crate) fn try_presented(address: SocketAddr, config: &Arc<ClientConfig>) -> Option<Vec<u8>> {
    let mut client = connect(address, &without_tickets(config));
    client.conn.complete_io(&mut client.sock).ok()?;
    Some(client.conn.peer_certificates()?[0].to_vec())
}

/// The same, which must succeed.
pub(crate) fn presented(address: SocketAddr, config: &Arc<ClientConfig>) -> Vec<u8> {
    try_presented(address, config).unwrap()
}

/// The certificate in a PEM file.
pub(crate) fn certificate(path: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(path).unwrap().to_vec()
}
