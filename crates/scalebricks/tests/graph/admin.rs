//! A run that is inspected and changed over its admin socket.

use crate::harness::{PATIENCE, program, refused, said, until};
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::graph::{Configuration, ReloadError, Replace, ServedGraph};
use scalebricks_admin::model::{ConfigurationProblem, GraphView, Health, LinkView, ReplacedView};
use scalebricks_admin::server::{AdminServer, Limits, Listen, graph_openapi};
use scalebricks_apps::click::Router;
use scalebricks_apps::click::live::ReplaceError;
use scalebricks_apps::directory::Directory;
use scalebricks_graph::{Ledger, Worker};
use scalebricks_io::{Packet, Pool};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ROUTER: &str = "elementclass Inner { input -> c :: Counter -> output }
s :: InfiniteSource(LIMIT 50, ACTIVE false) -> e :: Inner -> q :: Queue(30) -> u :: Unqueue(ACTIVE false)
  -> Discard;
f :: Idle -> Discard;
";

/// A program that runs until it is dropped.
struct Running {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Running {
    fn new(text: &str) -> Self {
        Self::start(tempfile::tempdir().unwrap(), text, &[])
    }

    /// With additional options.
    fn start(folder: tempfile::TempDir, text: &str, options: &[&str]) -> Self {
        std::fs::write(folder.path().join("r.click"), text).unwrap();
        let child = program()
            .args(["graph", "run", "r.click", "--admin", "graph.sock", "--json"])
            .args(options)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let running = Self { folder, child: Some(child) };
        until("it answers", || UnixStream::connect(running.path("graph.sock")).is_ok());
        running
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self) -> Client {
        Client::new(Target::Unix(self.path("graph.sock")), PATIENCE).unwrap()
    }

    /// The output of `scalebricks graph` with these arguments.
    fn ask(&self, args: &[&str]) -> String {
        said(self.folder.path(), &[&["graph"], args, &["--socket", "graph.sock"]].concat())
    }

    fn refused(&self, args: &[&str]) -> (i32, String) {
        refused(self.folder.path(), &[&["graph"], args, &["--socket", "graph.sock"]].concat())
    }

    /// Its standard error so far.
    fn stderr(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap()
    }

    fn read(&self, element: &str, handler: &str) -> String {
        self.client().read_handler(element, handler, "", None).unwrap().value
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Ends the run; its report and its standard error.
    fn end(mut self) -> (Value, String) {
        self.signal("-INT");
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let error = self.stderr();
        assert_eq!(output.status.code(), Some(130), "{error}");
        assert!(!self.path("graph.sock").exists());
        (serde_json::from_slice(&output.stdout).unwrap(), error)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Status and body of the response to a request.
fn exchange(socket: &Path, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    // The server may refuse it before it has read everything.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn elements_are_listed_and_their_handlers_read_and_written() {
    let running = Running::new(ROUTER);
    let client = running.client();
    let view: GraphView = client.graph(None).unwrap();
    let names: Vec<&str> = view.elements.iter().map(|element| element.name.as_str()).collect();
    assert!(["s", "e/c", "q", "u", "f"].iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!((view.file.as_str(), view.replacements, view.former.len()), ("r.click", 0, 0));
    assert_eq!((view.workers, view.is_replaceable), (1, true));
    assert_eq!(running.read("e/c", "count"), "0");
    client.write_handler("s", "active", "true").unwrap();
    until("packets", || running.read("s", "count") == "50");
    let counter = client.element("e/c", None).unwrap();
    assert_eq!((counter.class.as_str(), counter.counters["packets"]), ("Counter", 50));
    let link = |flow: &str, element: &str| LinkView {
        port: 0,
        flow: flow.to_owned(),
        element: element.to_owned(),
        other_port: 0,
    };
    assert_eq!((counter.inputs, counter.outputs), (vec![link("agnostic", "s")], vec![link("agnostic", "q")]));
    let queue = client.element("q", None).unwrap();
    assert_eq!((queue.configuration.as_str(), queue.dropped["queue_full"]), ("30", 20));
    let capacity = queue.handlers.iter().find(|handler| handler.name == "capacity").unwrap();
    assert!(capacity.reads && capacity.writes, "{capacity:?}");
    assert_eq!((running.read("q", "length"), running.read("2", "class")), ("30".into(), "Queue".into()));
    client.write_handler("q", "capacity", "77").unwrap();
    assert_eq!(running.read("q", "capacity"), "77");

    // The program gets the same.
    let table = running.ask(&["show"]);
    assert!(table.contains("queue_full 20") && table.contains("e/c"), "{table}");
    let table = running.ask(&["show", "q"]);
    assert!(table.contains("[0] <- e/c [0], push") && table.contains("read, write"), "{table}");
    let json: Value = serde_json::from_str(&running.ask(&["show", "--json"])).unwrap();
    assert_eq!(json["elements"][0]["name"], "s");
    assert_eq!(running.ask(&["read", "e/c.count"]), "50\n");
    assert_eq!(running.ask(&["write", "u.active", "true"]), "");
    until("an empty queue", || running.read("q", "length") == "0");
    let (status, error) = running.refused(&["write", "q.capacity", "-5"]);
    assert_eq!((status, error.trim()), (1, "error: refused: no number: \"-5\""));
    let metrics = client.text("/metrics").unwrap();
    for line in [
        "scalebricks_graph_element_events_total{element=\"e/c\",class=\"Counter\",event=\"packets\"} 50\n",
        "scalebricks_graph_element_dropped_packets_total{element=\"q\",class=\"Queue\",reason=\"queue_full\"} 20\n",
        "scalebricks_graph_replacements_total 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(serde_json::from_str::<Health>(&client.text("/healthz").unwrap()).unwrap().is_ready);
    let (report, _) = running.end();
    assert_eq!(report["ended"], "interrupted");
}

#[test]
fn what_makes_no_sense_is_refused_in_words_and_the_run_goes_on() {
    let running = Running::new(ROUTER);
    let socket = running.path("graph.sock");
    let long = format!("/v1/graph/{}/count", "x".repeat(8_000));
    let value = br#"{"value":"5"}"#;
    let cases: [(&str, &str, &[u8], u16, &str); 21] = [
        ("GET", "/v1/graph/x/count", b"", 404, "no element"),
        ("GET", "/v1/graph/99/count", b"", 404, "no element"),
        ("GET", "/v1/graph/99999999999999999999999/count", b"", 404, "no element"),
        ("GET", &long, b"", 404, "no element"),
        ("GET", "/v1/graph/q/nothing", b"", 404, "no handler"),
        ("GET", "/v1/graph/q/%0a%00%22", b"", 404, "no handler"),
        ("GET", "/v1/graph/%ff/count", b"", 400, "UTF-8"),
        ("GET", "/v1/graph/e/c/count", b"", 404, "unknown path"),
        ("GET", "/v1/graph//count", b"", 404, "no element"),
        ("GET", "/v1/graph/e%2Fc/reset_counts", b"", 409, "write-only"),
        ("GET", "/v1/graph/q/length?more=1", b"", 400, "more"),
        ("GET", "/v1/graph/q/length?worker=1", b"", 404, "no worker 1: there are 1"),
        ("GET", "/v1/graph/q/packets?worker=1", b"", 404, "no worker 1"),
        ("GET", "/v1/graph/q?worker=99999999999999999999", b"", 400, "worker"),
        ("GET", "/v1/graph?worker=-1", b"", 400, "worker"),
        ("PUT", "/v1/graph/q/length", value, 409, "read-only"),
        ("PUT", "/v1/graph/q/nothing", value, 404, "no handler"),
        ("PUT", "/v1/graph/q/capacity", br#"{"value":"many\u0000"}"#, 400, "no number"),
        ("PUT", "/v1/graph/q/capacity", br#"{"value":5}"#, 422, "invalid type"),
        ("PUT", "/v1/graph/q/capacity", b"5", 422, "HandlerValue"),
        ("DELETE", "/v1/graph/q", b"", 405, "method"),
    ];
    for (method, path, body, code, what) in cases {
        let (answered, text) = exchange(&socket, method, path, body);
        assert_eq!(answered, code, "{method} {path}: {text}");
        let error = serde_json::from_str::<Value>(&text).unwrap()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(what), "{method} {path}: {error}");
    }
    assert_eq!(exchange(&socket, "PUT", "/v1/graph", &vec![b' '; 5 << 20]).0, 413);
    let (code, text) = exchange(&socket, "PUT", "/v1/graph?file=mine.click", b"Idle ->\n  Discrd;");
    let problem: ConfigurationProblem = serde_json::from_str(&text).unwrap();
    assert_eq!((code, problem.faults.len()), (422, 1));
    let fault = &problem.faults[0];
    assert_eq!((fault.file.as_str(), fault.line, fault.column), ("mine.click", 2, 3));
    assert!(problem.error.contains("mine.click:2:3: ") && fault.problem.contains("Discard"), "{problem:?}");
    assert_eq!(running.read("q", "capacity"), "30");
    drop(running.end());
}

#[test]
fn a_configuration_is_read_again_while_packets_flow() {
    let text = |count: usize| {
        let row: Vec<String> = (0..count).map(|at| format!("c{at} :: Counter -> ")).collect();
        let row = row.concat();
        format!(
            "s :: RatedSource(RATE 20000) -> {row}q :: Queue(100000) -> u :: Unqueue -> end :: Counter -> d :: Discard;\n"
        )
    };
    let running = Running::new(&text(1));
    let write = |text: &str| std::fs::write(running.path("r.click"), text).unwrap();
    let replaced =
        |count: u64| until("it follows", || running.client().graph(None).unwrap().replacements == count);
    for count in 2..=10 {
        write(&text(count));
        running.signal("-HUP");
        replaced(count as u64 - 1);
    }
    for _ in 0..10 {
        running.ask(&["reload"]);
    }
    write("s :: RatedSource ->\n Queue;");
    let (status, error) = running.refused(&["reload"]);
    assert!(status == 1 && error.contains("r.click:2:2: ") && error.contains("    "), "{error}");
    running.signal("-HUP");
    until("it refuses", || running.stderr().contains("the old configuration keeps running"));
    std::fs::write(running.path("other.click"), text(3)).unwrap();
    let told = running.ask(&["reload", "other.click"]);
    assert_eq!(told, "8 elements, 7 connections; replaced 20 times until now\n");
    let (_, error) = running.refused(&["reload", "absent.click"]);
    assert!(error.contains("absent.click"), "{error}");
    std::fs::remove_file(running.path("r.click")).unwrap();
    let (_, error) = running.refused(&["reload"]);
    assert!(error.contains("r.click: "), "{error}");
    let view = running.client().graph(None).unwrap();
    assert_eq!((view.replacements, view.former.len()), (20, 7));
    assert!(running.ask(&["show"]).contains("c9 (gone)"));
    let metrics = running.client().text("/metrics").unwrap();
    assert!(metrics.contains("{element=\"c9\",class=\"Counter\",event=\"packets\"}"), "{metrics}");
    let (report, error) = running.end();
    assert!(
        error.contains("error: the old configuration keeps running: in the configuration\nr.click:2:2: "),
        "{error}"
    );
    // No packet of the source was lost or duplicated.
    let element = |name| super::element(&report, name);
    let count = |name| element(name)["counters"]["packets"].as_u64().unwrap();
    let made = element("s")["counters"]["made"].as_u64().unwrap();
    assert_eq!((count("end") + report["held"].as_u64().unwrap(), count("c0")), (made, made));
    assert!(made > 100 && element("q")["dropped"].as_object().unwrap().is_empty(), "{report}");
}

/// A configuration that cannot be replaced.
struct Ended;

impl Replace for Ended {
    fn replace(&self, with: Configuration) -> Result<ReplacedView, ReloadError> {
        let error = if with == Configuration::File { ReplaceError::Ended } else { ReplaceError::NoAnswer };
        Err(error.into())
    }

    fn replacements(&self) -> u64 {
        0
    }
}

/// A server of a graph whose worker does not run, and the channel to that worker.
fn still(listen: &Listen) -> (AdminServer, Worker<Packet>) {
    let registry = scalebricks_elements::registry::<Packet>();
    let router = Router::read("r.click", b"Idle -> q :: Queue(3) -> Idle", &[], &registry).unwrap();
    let mut ledger = Ledger::new();
    let graph = router.graph(&registry, &mut ledger).unwrap();
    let worker = Worker::new(graph, Box::new(Pool::new(64, 100).unwrap()), ());
    let directory = Arc::<Directory>::default();
    directory.add(&worker, Arc::new(Mutex::new(ledger)));
    let graph = ServedGraph::new(directory, "r.click", Instant::now()).replaced_by(Arc::new(Ended));
    (AdminServer::start_graph(listen, Arc::new(graph)).unwrap(), worker)
}

#[test]
fn a_worker_that_does_not_turn_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (server, worker) = still(&Listen::on(folder.path().join("a.sock")));
    let capacity = "/v1/graph/q/capacity";
    let (code, text) = exchange(server.socket(), "GET", capacity, b"");
    assert!(code == 503 && text.contains("worker 0 does not answer"), "{code} {text}");
    assert_eq!(exchange(server.socket(), "PUT", capacity, br#"{"value":"5"}"#).0, 503);
    // Requests that need no worker are answered.
    let (code, text) = exchange(server.socket(), "GET", "/v1/graph/q/packets", b"");
    assert_eq!((code, text.as_str()), (200, r#"{"value":"0"}"#));
    assert_eq!(exchange(server.socket(), "GET", "/v1/graph", b"").0, 200);
    let remote = worker.remote();
    while remote.ask(|_| ()).is_ok() {}
    let (code, text) = exchange(server.socket(), "GET", capacity, b"");
    assert!(code == 503 && text.contains("mailbox is full"), "{code} {text}");
    assert_eq!(exchange(server.socket(), "POST", "/v1/graph", b"").0, 503);
    assert_eq!(exchange(server.socket(), "PUT", "/v1/graph", b"").0, 503);

    let limits = Limits { request_time: Duration::from_millis(200), ..Limits::default() };
    let (slow, _worker) = still(&Listen { limits, ..Listen::on(folder.path().join("b.sock")) });
    assert_eq!(exchange(slow.socket(), "GET", capacity, b"").0, 408);
    assert_eq!(exchange(slow.socket(), "GET", "/v1/graph", b"").0, 200, "others are answered meanwhile");
    let gone = Client::new(Target::Unix(folder.path().join("c.sock")), PATIENCE).unwrap();
    assert!(matches!(gone.graph(None), Err(ClientError::NoSocket(_))));
}

#[test]
fn a_run_answers_over_tls_whoever_has_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("graph.crt"), made.cert.pem()).unwrap();
    let token = "0123456789abcdef0123".to_owned();
    for (name, text) in [("graph.key", made.signing_key.serialize_pem()), ("token", token)] {
        std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o600)).unwrap();
    }
    // No other program takes the port before the run does, because the loopback network is the test's own.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let tls = ["--admin-certificate", "graph.crt", "--admin-key", "graph.key", "--admin-token", "token"];
    let running = Running::start(folder, ROUTER, &[&["--admin-tcp", &listen][..], &tls].concat());
    let address = format!("localhost:{port}");
    let tcp = ["--tcp", &address, "--ca", "graph.crt", "--token-file", "token"];
    let folder = running.folder.path();
    assert_eq!(said(folder, &[&["graph", "read", "q.capacity"][..], &tcp].concat()), "30\n");
    said(folder, &[&["graph", "write", "q.capacity", "31"][..], &tcp].concat());
    assert_eq!(running.read("q", "capacity"), "31");
    // Every request with a wrong token is refused.
    std::fs::write(folder.join("token"), "0123456789abcdef0124").unwrap();
    for args in [&["read", "q.capacity"][..], &["write", "q.capacity", "32"], &["reload"], &["show"]] {
        let (status, error) = refused(folder, &[&["graph"], args, &tcp].concat());
        assert!(status == 1 && error.contains("does not accept the token"), "{error}");
    }
    assert_eq!(running.read("q", "capacity"), "31");
    // An incomplete set of options is refused.
    let half = ["graph", "run", "r.click", "--admin", "x.sock", "--admin-tcp", &listen];
    let (status, error) = refused(folder, &half);
    assert!(status == 2 && error.contains("--admin-certificate"), "{error}");
    drop(running.end());
}

#[test]
fn the_schema_is_published_and_its_copy_is_current() {
    let folder = tempfile::tempdir().unwrap();
    let listen = Listen::on(folder.path().join("graph.sock"));
    let (server, _worker) = still(&listen);
    let (_, published) = exchange(server.socket(), "GET", "/openapi.json", b"");
    assert_eq!(published, graph_openapi().unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-graph.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(path, &published).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == published, "docs/openapi-graph.json is not current: run with UPDATE_OPENAPI=1");
    let schema: Value = serde_json::from_str(&published).unwrap();
    for path in ["/v1/graph", "/v1/graph/{element}", "/v1/graph/{element}/{handler}", "/metrics", "/healthz"]
    {
        assert!(schema["paths"][path].is_object(), "{path}");
    }
    for reference in published.split("\"$ref\": \"#/").skip(1) {
        let pointer = format!("/{}", reference.split('"').next().unwrap());
        assert!(schema.pointer(&pointer).is_some(), "{pointer}");
    }
}
