//! A connection over TLS: records begin and end at random positions of the input, and are transferred in
//! random pieces.
//!
//! `run.sh` makes the certificate and its key, which are read when the target starts. Session keys are
//! random; the plain text in both directions does not depend on them.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use hyper_util::rt::TokioIo;
use island_metrics::server::InMemoryServer;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::draws::Draws;
use crate::socket::{Manner, Outcome, Socket, Wire, Woken};

/// Both ends of TLS.
pub struct Tls {
    acceptor: TlsAcceptor,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the pair named by `IM_FUZZ_TLS`, a path without its endings `.pem` and `.key`.
    #[expect(clippy::disallowed_methods, reason = "it is no setting of the service")]
    pub fn new() -> Tls {
        let path = std::env::var("IM_FUZZ_TLS").unwrap_or_else(|_| "tls".to_owned());
        let read = |ending: &str| {
            let file = format!("{path}.{ending}");
            fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}; run.sh makes it"))
        };
        let certificate = CertificateDer::from_pem_slice(&read("pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(&read("key")).expect("a key");
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.clone())
            .expect("a usable certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions of the provider")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of the provider")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("they belong together");
        Tls {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            client: Arc::new(client),
        }
    }

    /// Sends an input on a new connection, until the connection ends or waits. It must do one of the two.
    pub fn converse(
        &self,
        server: &InMemoryServer,
        peer: IpAddr,
        input: &[u8],
        ends: bool,
    ) -> Outcome {
        let manner = Manner {
            is_piecemeal: true,
            ends: false,
        };
        let wire = Rc::new(RefCell::new(Wire::new(&[], manner, Draws::of(input))));
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        let mut client = Client {
            session: client,
            input,
            ends,
            taken: 0,
            received: Vec::new(),
            draws: Draws::of(input),
        };
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let socket = TokioIo::new(Socket(Rc::clone(&wire)));
        let mut serving = pin!(async {
            let stream = self.acceptor.accept(socket).await.expect("both ends agree");
            server.serve(TokioIo::new(stream), peer).await;
        });
        let has_ended = loop {
            let mut progress = client.step(&mut wire.borrow_mut());
            let before = wire.borrow().received.len();
            let mut context = Context::from_waker(&waker);
            if serving.as_mut().poll(&mut context).is_ready() {
                break true;
            }
            progress |= wire.borrow().received.len() > before;
            if !woken.take() && !progress {
                break false;
            }
        };
        client.step(&mut wire.borrow_mut());
        assert!(has_ended || !ends, "it waits for a client that left");
        assert!(
            has_ended || wire.borrow().is_read(),
            "it waits for what is there"
        );
        Outcome {
            received: client.received,
            has_ended,
        }
    }
}

struct Client<'a> {
    session: ClientConnection,
    input: &'a [u8],
    ends: bool,
    /// Number of encrypted bytes of the server that were processed.
    taken: usize,
    received: Vec<u8>,
    draws: Draws,
}

impl Client<'_> {
    /// Processes the received bytes, and sends a record. Returns whether anything was done.
    fn step(&mut self, wire: &mut Wire) -> bool {
        let before = (self.taken, wire.sent.len());
        while self.taken < wire.received.len() {
            let mut rest = &wire.received[self.taken..];
            self.taken += self.session.read_tls(&mut rest).expect("bytes in memory");
            let state = self.session.process_new_packets();
            state.expect("records of the server are sound");
            match self.session.reader().read_to_end(&mut self.received) {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
        if !self.session.is_handshaking() && !self.input.is_empty() {
            let most = self.input.len().min(1 + self.draws.below(700));
            let (record, rest) = self.input.split_at(1 + self.draws.below(most));
            self.session.writer().write_all(record).expect("memory");
            self.input = rest;
            if rest.is_empty() && self.ends {
                self.session.send_close_notify();
            }
        }
        while self.session.wants_write() {
            self.session.write_tls(&mut wire.sent).expect("memory");
        }
        let is_over = !self.session.is_handshaking() && self.input.is_empty();
        wire.manner.ends = is_over && self.ends;
        before != (self.taken, wire.sent.len())
    }
}
