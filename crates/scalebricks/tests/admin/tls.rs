//! The TCP address: requires TLS and a token.

use crate::admin::running::Running;
use crate::harness::program;
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::server::{AdminServer, Listen, ServerError, TcpListen};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123";

/// A certificate for `localhost` with its key, and a token, as files.
pub struct Files {
    _folder: tempfile::TempDir,
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub token: PathBuf,
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

impl Files {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = Self {
            certificate: path("certificate.pem"),
            key: path("key.pem"),
            token: path("token"),
            _folder: folder,
        };
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        private(&files.key, &made.signing_key.serialize_pem());
        private(&files.token, &format!("{TOKEN}\n"));
        files
    }

    fn listen(&self) -> TcpListen {
        TcpListen {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            token: self.token.clone(),
        }
    }

    fn running(&self) -> Running {
        Running::listening(|listen| {
            listen.tcp = Some(self.listen());
            listen.limits.header_time = Duration::from_millis(300);
        })
    }
}

fn client(port: u16, ca: &Path, token: &Path) -> Client {
    let target =
        Target::Tls { address: format!("localhost:{port}"), ca: ca.to_owned(), token: token.to_owned() };
    Client::new(target, Duration::from_secs(10)).unwrap()
}

#[test]
fn who_has_the_token_is_answered() {
    let files = Files::new();
    let running = files.running();
    let port = running.server.tcp().unwrap().port();
    let client = client(port, &files.certificate, &files.token);
    assert_eq!(client.status().unwrap().nodes, 2);
    assert!(client.text("/metrics").unwrap().ends_with("# EOF\n"));
    assert!(running.client().status().is_ok(), "the socket needs none");
}

#[test]
fn who_has_not_is_refused_whatever_is_asked() {
    let files = Files::new();
    let running = files.running();
    let port = running.server.tcp().unwrap().port();
    let wrong = files.token.with_extension("wrong");
    for text in ["0123456789abcdef0124", "0123456789abcdef012", "0123456789abcdef01234", ""] {
        private(&wrong, text);
        let client = client(port, &files.certificate, &wrong);
        for path in ["/v1/status", "/metrics", "/healthz", "/openapi.json", "/v1/graph/steer/packets", "/no"]
        {
            assert!(matches!(client.text(path), Err(ClientError::Token(_))), "{text} {path}");
        }
        assert!(matches!(client.write_handler("steer", "x", ""), Err(ClientError::Token(_))), "{text}");
    }
}

#[test]
fn without_tls_there_is_nothing() {
    let files = Files::new();
    let running = files.running();
    let mut stream = TcpStream::connect(running.server.tcp().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    // The server does not wait for a silent client.
    let mut stream = TcpStream::connect(running.server.tcp().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_server_that_is_not_trusted_gets_no_token() {
    let (files, others) = (Files::new(), Files::new());
    let running = files.running();
    let port = running.server.tcp().unwrap().port();
    let error = client(port, &others.certificate, &files.token).status().unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let by_number = Target::Tls {
        address: format!("127.0.0.1:{port}"),
        ca: files.certificate.clone(),
        token: files.token.clone(),
    };
    let error = Client::new(by_number, Duration::from_secs(10)).unwrap().status().unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "the certificate is for localhost: {error}");
}

#[test]
fn files_that_will_not_do_are_named_before_anything_starts() {
    let files = Files::new();
    let running = Running::start();
    let start = |change: fn(&mut TcpListen, &Path)| {
        let mut tcp = files.listen();
        change(&mut tcp, running.folder.path());
        let mut listen = Listen::on(running.folder.path().join("other.sock"));
        listen.tcp = Some(tcp);
        AdminServer::start(&listen, Arc::clone(&running.window) as _).map(drop)
    };
    assert!(start(|_, _| ()).is_ok());
    let open = |tcp: &mut TcpListen, folder: &Path| {
        tcp.token = folder.join("open");
        private(&tcp.token, TOKEN);
        fs::set_permissions(&tcp.token, Permissions::from_mode(0o644)).unwrap();
    };
    let short = |tcp: &mut TcpListen, folder: &Path| {
        tcp.token = folder.join("short");
        private(&tcp.token, "tooshort");
    };
    for change in [
        open,
        short,
        |tcp: &mut TcpListen, _: &Path| tcp.token = "/no/such/token".into(),
        |tcp: &mut TcpListen, _: &Path| tcp.certificate = tcp.key.clone(),
        |tcp: &mut TcpListen, _: &Path| tcp.key = tcp.certificate.clone(),
    ] {
        assert!(matches!(start(change), Err(ServerError::File { .. })));
    }
    assert!(!running.folder.path().join("other.sock").exists());
}

#[test]
fn the_program_asks_over_tls_too() {
    let files = Files::new();
    let running = files.running();
    let address = format!("localhost:{}", running.server.tcp().unwrap().port());
    let out = program()
        .args(["status", "--json", "--tcp", &address, "--ca"])
        .arg(&files.certificate)
        .arg("--token-file")
        .arg(&files.token)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = program().args(["status", "--tcp", &address]).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "TLS and token are not optional");
}
