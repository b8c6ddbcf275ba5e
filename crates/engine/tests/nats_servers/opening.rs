//! Unusable servers, and streams with other configurations.

use crate::nats_servers::cluster::Cluster;
use crate::nats_servers::{prefix, servers};
use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_engine::nats::{Auth, JetStream, OpenError, Options, Tls};
use scalebricks_types::{PartitionId, Position};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

const P: PartitionId = PartitionId(0);

fn batch(number: u64) -> Batch {
    Batch { id: BatchId { writer: WriterId(1), number }, payload: Arc::from(number.to_le_bytes()) }
}

fn options(port: u16) -> Options {
    let servers = vec![format!("nats://127.0.0.1:{port}")];
    Options { servers, timeout: Duration::from_secs(1), ..Options::default() }
}

#[test]
fn options_that_cannot_be_are_refused() {
    let wrong = [
        Options { servers: vec![], ..Options::default() },
        Options { servers: vec!["nats://u:p@127.0.0.1".to_owned()], ..Options::default() },
        Options { servers: vec!["nats://".to_owned()], ..Options::default() },
        Options { servers: vec!["http://127.0.0.1".to_owned()], ..Options::default() },
        Options { servers: vec!["nats://127.0.0.1:0".to_owned()], ..Options::default() },
        Options { servers: vec!["nats://127.0.0.1:4222/x".to_owned()], ..Options::default() },
        Options { servers: vec!["nats://127.0.0.1:99999".to_owned()], ..Options::default() },
        Options { servers: vec!["nats://a".to_owned(), "nats://a".to_owned()], ..Options::default() },
        Options { prefix: "A".to_owned(), ..Options::default() },
        Options { prefix: String::new(), ..Options::default() },
        Options { replicas: 2, ..Options::default() },
        Options { timeout: Duration::ZERO, ..Options::default() },
        Options { in_flight_bytes: 1, ..Options::default() },
    ];
    for options in wrong {
        let error = pollster::block_on(JetStream::connect(options.clone())).err();
        assert!(matches!(error, Some(OpenError::Options(_))), "{options:?}");
    }
}

#[test]
fn nobody_there_is_told() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = pollster::block_on(JetStream::connect(options(port))).unwrap_err();
    assert!(matches!(error, OpenError::Connect(_)), "{error}");
    let auth = Auth::Credentials("does/not/exist".into());
    let error = pollster::block_on(JetStream::connect(Options { auth, ..options(port) })).unwrap_err();
    assert!(error.to_string().contains("does/not/exist"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let auth = Auth::Credentials(file.path().to_owned());
    let error = pollster::block_on(JetStream::connect(Options { auth, ..options(port) })).unwrap_err();
    assert!(matches!(error, OpenError::Credentials { .. }), "{error}");
}

#[test]
fn an_old_server_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = json!({
            "server_id": "x", "version": "2.9.22", "proto": 1, "headers": true, "max_payload": 1 << 20,
            "host": "127.0.0.1", "port": port
        });
        write!(stream, "INFO {info}\r\n").unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            if line == "PING" {
                stream.write_all(b"PONG\r\n").unwrap();
            }
        }
    });
    let error = pollster::block_on(JetStream::connect(options(port))).unwrap_err();
    assert_eq!(error, OpenError::Version("2.9.22".to_owned()));
}

#[test]
fn servers_without_jetstream_or_with_short_messages_are_told() {
    let Some(cluster) = Cluster::start_with(1, "max_payload: 2MB\n") else { return };
    let error = pollster::block_on(JetStream::connect(cluster.options("a"))).unwrap_err();
    assert!(matches!(error, OpenError::NoJetStream(_)), "{error}");
    let lines = "jetstream { store_dir: \"DIRECTORY\" }\n";
    let cluster = Cluster::start_with(1, lines).unwrap();
    let error = pollster::block_on(JetStream::connect(cluster.options("a"))).unwrap_err();
    assert_eq!(error, OpenError::MaxPayload(1 << 20));
}

#[test]
fn a_single_server_asks_for_a_password() {
    let lines =
        "jetstream { store_dir: \"DIRECTORY\" }\nmax_payload: 2MB\nauthorization { user: u, password: p }\n";
    let Some(cluster) = Cluster::start_with(1, lines) else { return };
    let error = pollster::block_on(JetStream::connect(cluster.options("a"))).unwrap_err();
    assert!(matches!(error, OpenError::Connect(_)), "{error}");
    let auth = Auth::Password { user: "u".to_owned(), password: "p".to_owned() };
    assert!(!format!("{auth:?}").contains("\"p\""));
    pollster::block_on(async {
        let engine = JetStream::connect(Options { auth, ..cluster.options("a") }).await.unwrap();
        assert_eq!(engine.append(P, batch(1)).await, Ok(Position(1)));
        // More replicas than servers.
        let auth = Auth::Password { user: "u".to_owned(), password: "p".to_owned() };
        let options = Options { auth, prefix: "b".to_owned(), replicas: 3, ..cluster.options("b") };
        let error = JetStream::connect(options).await.unwrap_err();
        assert!(matches!(error, OpenError::Refused { .. }), "{error}");
    });
}

#[test]
fn a_single_server_asks_for_a_token() {
    let lines =
        "jetstream { store_dir: \"DIRECTORY\" }\nmax_payload: 2MB\nauthorization { token: \"secret\" }\n";
    let Some(cluster) = Cluster::start_with(1, lines) else { return };
    let with = |token: &str| {
        let options = Options { auth: Auth::Token(token.to_owned()), ..cluster.options("a") };
        pollster::block_on(JetStream::connect(options))
    };
    assert!(matches!(with("wrong"), Err(OpenError::Connect(_))));
    let engine = with("secret").unwrap();
    assert_eq!(pollster::block_on(engine.append(P, batch(1))), Ok(Position(1)));
}

/// Servers with a certificate, which require a client certificate.
#[test]
fn servers_are_known_by_certificates_and_know_us_by_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let lines = format!(
        "jetstream {{ store_dir: \"DIRECTORY\" }}\nmax_payload: 2MB\n\
         tls {{ cert_file: {cert:?}, key_file: {key:?}, ca_file: {cert:?}, verify: true }}\n"
    );
    let Some(cluster) = Cluster::start_with(1, &lines) else { return };
    let servers = vec![cluster.options("a").servers[0].replace("127.0.0.1", "localhost")];
    let plain = Options { servers, timeout: Duration::from_secs(2), ..cluster.options("a") };
    let with = |authorities: Option<&std::path::PathBuf>, has_identity: bool| {
        let identity = has_identity.then(|| (cert.clone(), key.clone()));
        let tls = Some(Tls { authorities: authorities.cloned(), identity });
        pollster::block_on(JetStream::connect(Options { tls, ..plain.clone() }))
    };
    assert!(matches!(with(None, true), Err(OpenError::Connect(_))), "no trusted authority signed it");
    assert!(matches!(with(Some(&cert), false), Err(OpenError::Connect(_))), "who are we?");
    let engine = with(Some(&cert), true).unwrap();
    assert_eq!(pollster::block_on(engine.append(P, batch(1))), Ok(Position(1)));
}

#[test]
fn a_stream_of_another_make_is_told_and_left_alone() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        assert_eq!(engine.append(P, batch(1)).await, Ok(Position(1)));
        drop(engine);
        let options = Options { replicas: 1, ..cluster.options(&prefix) };
        let error = JetStream::connect(options).await.unwrap_err();
        let OpenError::Configuration { differences, .. } = &error else { panic!("{error}") };
        assert_eq!(differences, "num_replicas is 3, not 1");
        let info = cluster.ask(&format!("STREAM.INFO.{prefix}-records"), &json!({}));
        assert_eq!(info["config"]["num_replicas"], 3);
        let name = format!("{prefix}-log-1");
        let config =
            json!({ "name": name, "subjects": [format!("{prefix}.log.1.*")], "max_age": 1_000_000_000 });
        cluster.ask(&format!("STREAM.CREATE.{name}"), &config);
        let engine = cluster.open(&prefix).await;
        let refused = engine.append(PartitionId(1), batch(1)).await.unwrap_err();
        assert!(refused.to_string().contains("max_age is 1000000000, not 0"), "{refused}");
    });
    cluster.remove_streams(&prefix);
}

#[test]
fn sixty_four_partitions_are_prepared() {
    let Some(cluster) = servers() else { return };
    let prefix = prefix();
    pollster::block_on(async {
        let engine = cluster.open(&prefix).await;
        let began = Instant::now();
        engine.prepare((0..64).map(PartitionId)).await.unwrap();
        println!("64 streams in {:?}", began.elapsed());
        engine.prepare((0..64).map(PartitionId)).await.unwrap();
        assert_eq!(engine.append(PartitionId(63), batch(1)).await, Ok(Position(1)));
    });
    cluster.remove_streams(&prefix);
}
