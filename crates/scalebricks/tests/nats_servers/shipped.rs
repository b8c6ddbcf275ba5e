//! The configurations in `deploy/nats`, run as they are by real servers, and the cluster of `examples/node`, which connects
//! to them.

use super::cluster::{free_ports, program};
use scalebricks_cluster::leasing::Leasing;
use scalebricks_control::engine::{Batch, BatchId, Engine, WriterId};
use scalebricks_daemon::node::config::EngineAt;
use scalebricks_daemon::node::load::Configuration;
use scalebricks_daemon::node::source::control_plane;
use scalebricks_elements::gateway::Lease;
use scalebricks_engine::nats::{JetStream, OpenError, Options};
use scalebricks_types::{PartitionId, Position};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Passwords that begin with a digit: a server must not take them for numbers.
const PASSWORD: &str = "1c0ffee";
const ROUTE_PASSWORD: &str = "7r0utes";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        sleep(Duration::from_millis(50));
    }
}

/// A private file, as secrets have to be.
fn secret(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Three servers with the shipped configuration. They go when this is dropped, or when the process of the test ends.
struct Servers {
    folder: TempDir,
    config: PathBuf,
    /// For clients, routes and monitoring, three each.
    ports: Vec<u16>,
    running: Vec<Option<Child>>,
}

impl Servers {
    /// None started yet. With `tls` the two lines of the configuration are uncommented that turn it on, and the certificate is
    /// that of everybody.
    fn new(tls: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = repository("deploy/nats/nats.conf");
        if tls {
            let text = fs::read_to_string(&config).unwrap();
            assert_eq!(text.matches("# include \"tls.conf\"").count(), 2);
            config = folder.path().join("nats.conf");
            fs::write(&config, text.replace("# include", "include")).unwrap();
            fs::copy(repository("deploy/nats/tls.conf"), folder.path().join("tls.conf")).unwrap();
            let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
            fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        }
        Self { folder, config, ports: free_ports(9), running: vec![None, None, None] }
    }

    fn log(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("{n}.log"))
    }

    fn start(&mut self, n: usize, route_password: &str) {
        let route = |port: &u16| format!("\"nats://route:{route_password}@127.0.0.1:{port}\"");
        let routes: Vec<String> = self.ports[3..6].iter().map(route).collect();
        let file = |name: &str| format!("\"{}\"", self.folder.path().join(name).display());
        let log = File::create(self.log(n)).unwrap();
        let child = Command::new("sh")
            .args(["-c", "\"$0\" \"$@\" & server=$!; cat >/dev/null; kill -9 $server"])
            .arg(program().unwrap())
            .arg("-c")
            .arg(&self.config)
            .args(["-m", &self.ports[6 + n].to_string()])
            .env("NATS_NAME", format!("nats-{n}"))
            .env("NATS_LISTEN", format!("127.0.0.1:{}", self.ports[n]))
            .env("NATS_STORE", file(&format!("store-{n}")))
            .env("NATS_CLUSTER_LISTEN", format!("127.0.0.1:{}", self.ports[3 + n]))
            .env("NATS_ROUTES", format!("[{}]", routes.join(", ")))
            .env("NATS_ROUTE_PASSWORD", format!("\"{route_password}\""))
            .env("NATS_PASSWORD", format!("\"{PASSWORD}\""))
            .env("NATS_CERT", file("cert.pem"))
            .env("NATS_KEY", file("key.pem"))
            .env("NATS_CA", file("cert.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running[n] = Some(child);
        let (log, port) = (self.log(n), self.ports[n]);
        until(&format!("server {n}, see {}", log.display()), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    fn stop(&mut self, n: usize) {
        if let Some(mut child) = self.running[n].take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    /// What a server's monitoring page says of routes.
    fn routes(&self, n: usize) -> io::Result<serde_json::Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[6 + n]))?;
        stream.write_all(b"GET /routez HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?.1;
        Ok(serde_json::from_str(body)?)
    }

    /// The servers that have a route to this one, as its monitoring page says. A server that takes clients may not serve it yet.
    fn routed(&self, n: usize) -> Vec<String> {
        let mut page = serde_json::Value::Null;
        until("the monitoring page", || self.routes(n).map(|routes| page = routes).is_ok());
        let routes = page["routes"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> =
            routes.iter().map(|route| route["remote_name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// A node of the example for these servers, on free ports: nothing else of its configuration is changed.
    fn node(&self, number: usize, mesh: &[u16], more: impl Fn(String) -> String) -> Configuration {
        let mut text =
            fs::read_to_string(repository(&format!("examples/node/node{}.toml", number + 1))).unwrap();
        for n in 0..3 {
            let (from, to) = (format!("127.0.0.1:{}", 4222 + n), format!("127.0.0.1:{}", self.ports[n]));
            assert!(text.contains(&from), "the example is for the servers of the compose file");
            text = text.replace(&from, &to);
        }
        text = text.replace("0.0.0.0:7400", &format!("127.0.0.1:{}", mesh[number]));
        for (peer, port) in mesh.iter().enumerate() {
            text = text.replace(&format!("10.254.0.{}:7400", 11 + peer), &format!("127.0.0.1:{port}"));
        }
        let path = self.folder.path().join(format!("node{number}.toml"));
        fs::write(&path, more(text)).unwrap();
        Configuration::read(&path).unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        (0..3).for_each(|n| self.stop(n));
    }
}

fn options(configuration: &Configuration) -> Options {
    let control = configuration.control().unwrap();
    let EngineAt::Nats(nats) = &control.engine else { panic!("{:?}", control.engine) };
    Options { timeout: Duration::from_secs(10), ..nats.options(&control.name).unwrap() }
}

fn refused(options: Options) -> OpenError {
    pollster::block_on(JetStream::connect(options)).unwrap_err()
}

/// The variables that a unit sets, with a folder of the test in place of the system's.
fn environment(unit: &str, folder: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(repository(unit)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Environment=")).unwrap();
    let folder = folder.display().to_string();
    let value = |value: &str| value.replace("/var/lib/scalebricks", &folder);
    line.split(' ').map(|word| word.split_once('=').unwrap()).map(|(k, v)| (k.to_owned(), value(v))).collect()
}

#[test]
fn the_unit_s_server_stores_a_log_which_survives_sigkill() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    let batch = |number| {
        let id = BatchId { writer: WriterId(1), number };
        Batch { id, payload: Arc::from(*b"payload") }
    };
    for life in 1..=2 {
        let mut server = Command::new(program)
            .arg("-c")
            .arg(repository("deploy/nats/local.conf"))
            .envs(environment("deploy/scalebricks-log.service", folder.path()))
            .env("NATS_LISTEN", &address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the server", || TcpStream::connect(&address).is_ok());
        let options =
            Options { servers: vec![format!("nats://{address}")], replicas: 1, ..Options::default() };
        let engine = pollster::block_on(JetStream::connect(options)).unwrap();
        let position = pollster::block_on(engine.append(PartitionId(0), batch(life)));
        assert_eq!(position, Ok(Position(life)));
        server.kill().unwrap();
        server.wait().unwrap();
    }
    assert!(folder.path().join("nats").is_dir());
}

#[test]
fn the_example_nodes_run_over_the_shipped_servers_which_refuse_strangers() {
    if program().is_none() {
        return;
    }
    let mut servers = Servers::new(false);
    servers.start(0, ROUTE_PASSWORD);
    servers.start(1, ROUTE_PASSWORD);
    servers.start(2, "wrong");
    let monitor = fs::read_to_string(servers.log(0)).unwrap();
    assert!(
        monitor.contains(&format!("Starting http monitor on 127.0.0.1:{}", servers.ports[6])),
        "{monitor}"
    );

    // A server with another route password stays out.
    until("the route of the other two", || {
        servers.routed(0) == ["nats-1"] && servers.routed(1) == ["nats-0"]
    });
    let log = servers.log(2);
    until("a refused route", || {
        let said = fs::read_to_string(&log).unwrap();
        said.contains("Authorization Violation") || said.contains("authentication error")
    });
    assert_eq!((servers.routed(0), servers.routed(2)), (vec!["nats-1".to_owned()], Vec::new()));

    secret(&servers.folder.path().join("cluster.key"), &"k".repeat(64));
    let password = servers.folder.path().join("nats.password");
    secret(&password, PASSWORD);
    let mesh = free_ports(4);
    let same = |text: String| text;
    let error = refused(options(&servers.node(0, &mesh, same)));
    assert!(
        !matches!(error, OpenError::Connect(_)),
        "there are two servers, not the three that keep a log: {error}"
    );

    // With the right one it comes in, and the cluster runs.
    servers.stop(2);
    servers.start(2, ROUTE_PASSWORD);
    until("all routes", || servers.routed(2) == ["nats-0", "nats-1"]);
    let nodes: Vec<_> = (0..4)
        .map(|number| {
            let configuration = servers.node(number, &mesh, same);
            let control = configuration.control().unwrap();
            let (lease, start) = (Arc::new(Lease::none()), tokio::time::Instant::now());
            let leasing = Leasing { times: control.lease, lease, fabric: None, start };
            control_plane(&configuration, &control, leasing).unwrap()
        })
        .collect();
    until("a cluster that has caught up", || {
        let all = |node: &scalebricks_daemon::node::control_plane::Daemon| {
            node.has_caught_up() && node.plane().is_some_and(|plane| plane.view().alive().count() == 4)
        };
        nodes.iter().all(all)
    });
    drop(nodes);

    // Clients without the password, or with another, do not.
    let without = |text: String| {
        let kept = text.lines().filter(|line| !line.starts_with("user =") && !line.starts_with("password ="));
        kept.collect::<Vec<_>>().join("\n")
    };
    let error = refused(options(&servers.node(0, &mesh, without)));
    assert!(matches!(&error, OpenError::Connect(why) if why.contains("uthorization")), "{error}");
    secret(&password, "another");
    let error = refused(options(&servers.node(0, &mesh, same)));
    assert!(matches!(&error, OpenError::Connect(why) if why.contains("uthorization")), "{error}");
}

#[test]
fn the_shipped_servers_speak_tls_when_its_lines_are_uncommented() {
    if program().is_none() {
        return;
    }
    let mut servers = Servers::new(true);
    (0..3).for_each(|n| servers.start(n, ROUTE_PASSWORD));
    until("all routes", || servers.routed(2) == ["nats-0", "nats-1"]);
    secret(&servers.folder.path().join("cluster.key"), &"k".repeat(64));
    secret(&servers.folder.path().join("nats.password"), PASSWORD);
    let mesh = free_ports(4);
    let with = |identity: bool| {
        let own = if identity { "certificate = \"cert.pem\"\nkey = \"key.pem\"\n" } else { "" };
        let tls = format!("[control.tls]\nauthorities = \"cert.pem\"\n{own}\n[[base_station]]");
        options(&servers.node(0, &mesh, |text| text.replace("[[base_station]]", &tls)))
    };
    assert!(matches!(refused(with(false)), OpenError::Connect(_)), "who are we?");
    until("an engine", || pollster::block_on(JetStream::connect(with(true))).is_ok());
}
