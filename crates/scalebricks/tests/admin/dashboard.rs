//! The dashboard's server, between browsers and real admin servers.

use crate::admin::running::Running;
use crate::admin::tls::Files;
use crate::harness::{program, until};
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::dashboard::{Access, DashboardServer, Nodes, Place, Source};
use scalebricks_admin::server::{AdminServer, Listen};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const OFTEN: Duration = Duration::from_millis(20);

/// A dashboard, and the token that it made.
struct Served {
    server: DashboardServer,
    token: String,
}

/// An answer: its status, its head in lower case, and its body.
struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Served {
    fn of(sockets: &[PathBuf], patience: Duration) -> Self {
        Self::from(Source::Named(sockets.iter().cloned().map(Target::Unix).collect()), patience)
    }

    fn from(source: Source, patience: Duration) -> Self {
        let place = Place { address: SocketAddr::from(([127, 0, 0, 1], 0)), access: Access::Local(None) };
        let server = DashboardServer::start(&place, Nodes::new(source, patience).asked_every(OFTEN)).unwrap();
        let (_, token) =
            server.invitation().split_once("#token=").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        Self { server, token }
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer { code: head[9..12].parse().unwrap(), head: head.to_lowercase(), body: body.to_owned() }
    }

    /// With the token: the status and the JSON.
    fn json(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let answer = self.ask(method, path, &format!("Authorization: Bearer {}\r\n", self.token), body);
        (
            answer.code,
            serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{path}: {}", answer.body)),
        )
    }

    fn nodes(&self) -> Value {
        self.json("GET", "/api/nodes", "").1["nodes"].clone()
    }

    /// The nodes once this holds for them.
    fn once(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut found = Vec::new();
        until(what, || {
            found.clone_from(self.nodes().as_array().unwrap());
            holds(&found)
        });
        found
    }
}

fn answers(node: &Value) -> bool {
    node["is_answering"] == true
}

#[test]
fn the_page_is_served_without_a_token_and_confined_to_its_origin() {
    let served = Served::of(&[], LONG);
    let page = served.ask("GET", "/", "", "");
    assert!(page.code == 200 && page.head.contains("content-type: text/html"), "{}", page.head);
    assert!(!page.body.contains(&served.token));
    let mut paths = vec!["/".to_owned(), "/no/such/page".to_owned(), "/api/nodes".to_owned()];
    for mark in ["href=\"/", "src=\"/"] {
        let names = page.body.split(mark).skip(1).map(|rest| format!("/{}", rest.split('"').next().unwrap()));
        paths.extend(names);
    }
    assert_eq!(paths.len(), 6, "{paths:?}");
    for path in &paths {
        let answer = served.ask("GET", path, "", "");
        let policy = answer.head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        for header in
            ["x-content-type-options: nosniff", "cache-control: no-store", "referrer-policy: no-referrer"]
        {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
        let code = match path.as_str() {
            "/no/such/page" => 404,
            "/api/nodes" => 401,
            _ => 200,
        };
        assert_eq!(answer.code, code, "{path}");
    }
    assert_eq!(served.ask("POST", "/", "", "").code, 405);
}

#[test]
fn data_needs_the_token() {
    let running = Running::start();
    let served = Served::of(&[running.socket()], LONG);
    assert_eq!(served.token.len(), 32);
    assert_ne!(Served::of(&[], LONG).token, served.token);
    let trace = "/api/nodes/0/trace";
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let (right, wrong) = (bearer(&served.token), bearer(&served.token.replace(|_: char| true, "0")));
    for headers in
        ["", &wrong, &bearer(""), &bearer(&served.token[1..]), &right.repeat(2), "Cookie: token=1\r\n"]
    {
        for (method, path) in
            [("GET", "/api/nodes"), ("GET", "/api/nodes/0"), ("POST", trace), ("GET", "/api/flow?ue=1")]
        {
            let answer = served.ask(method, path, headers, "");
            assert_eq!(answer.code, 401, "{method} {path} {headers}");
            assert!(!answer.body.contains("scalebricks"), "{}", answer.body);
        }
    }
    assert_eq!(served.ask("GET", "/api/nodes", &right, "").code, 200);
}

#[test]
fn the_nodes_own_answers_are_passed_on() {
    let running = Running::start();
    let served = Served::of(&[running.socket()], LONG);
    let node = served.once("an answer", |nodes| nodes.iter().any(answers)).remove(0);
    assert_eq!((&node["id"], &node["error"]), (&json!(0), &Value::Null));
    assert_eq!(node["target"], running.socket().to_str().unwrap());
    let own: Value = serde_json::from_str(&running.client().text("/v1/status").unwrap()).unwrap();
    assert_eq!(node["status"]["tables"], own["tables"]);
    assert_eq!(node["status"]["ports"], own["ports"]);
    assert!(node["stats"]["workers"].is_null() && node["stats"]["total"]["dropped"]["unknown_flow"] == 0);
    let (code, detail) = served.json("GET", "/api/nodes/0", "");
    assert_eq!((code, &detail["stats"]["workers"][0]["worker"]["core"]), (200, &json!(2)));
    assert_eq!(detail["cluster"], Value::Null, "its flows come from a file");
    running.far.lock().unwrap().downstream(4, b"");
    running.far.lock().unwrap().downstream(9_999, b"");
    served.once("counted packets", |nodes| nodes[0]["stats"]["total"]["internet_in"] == 2);

    let packet = json!({ "packet": { "kind": "downstream", "src": "198.51.100.7", "dst": "10.45.0.4", "protocol": 17,
        "src_port": 53, "dst_port": 4000 } });
    let (code, trace) = served.json("POST", "/api/nodes/0/trace", &packet.to_string());
    assert_eq!((code, &trace["flow"]["downlink_teid"]), (200, &json!(0x20004)), "{trace}");
    for (body, expected) in [("{}", 422), ("nonsense", 400)] {
        let (code, problem) = served.json("POST", "/api/nodes/0/trace", body);
        assert!(code == expected && problem["error"].is_string(), "{code} {problem}");
    }
    assert_eq!(served.json("POST", "/api/nodes/1/trace", "{}").0, 404);
    let (code, problem) = served.json("GET", "/api/flow?ue=10.45.0.4", "");
    assert!(code == 501 && problem["error"].is_string(), "{code} {problem}");
    // Only what the page needs is passed on.
    for (method, path) in [
        ("POST", "/v1/capture"),
        ("POST", "/api/nodes/0/capture"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
    ] {
        assert_eq!(served.json(method, path, "{}").0, 404, "{method} {path}");
    }
    let long = format!("Authorization: Bearer {}\r\n", served.token);
    let answer = served.ask("POST", "/api/nodes/0/trace", &long, &"x".repeat(200_000));
    assert_eq!(answer.code, 413, "{}", answer.body);
}

#[test]
fn a_node_that_does_not_answer_holds_up_nobody() {
    let running = Running::start();
    let path = |name: &str| running.folder.path().join(name);
    // It accepts connections, and never answers: within this test's patience nothing is known about it.
    let _silent = UnixListener::bind(path("silent.sock")).unwrap();
    drop(UnixListener::bind(path("dead.sock")).unwrap());
    let sockets = [path("silent.sock"), path("dead.sock"), path("none.sock"), running.socket()];
    let served = Served::of(&sockets, 10 * LONG);
    let nodes = served.once("an answer", |nodes| nodes.iter().any(answers));
    assert_eq!(nodes.len(), 4);
    let nodes = served.once("errors", |nodes| {
        !nodes.is_empty() && nodes[1..3].iter().all(|node| node["error"].is_string())
    });
    assert_eq!((&nodes[0]["was_asked"], &nodes[0]["error"]), (&json!(false), &Value::Null));
    assert!(nodes[1]["error"].as_str().unwrap().contains("connection refused"));
    assert!(nodes[2]["error"].as_str().unwrap().contains("no such socket"));
    assert!(answers(&nodes[3]) && !nodes[..3].iter().any(answers));

    let served = Served::of(&sockets[..1], Duration::from_millis(50));
    let nodes = served.once("a timeout", |nodes| nodes.iter().any(|node| node["was_asked"] == true));
    assert!(nodes[0]["error"].as_str().unwrap().contains("no answer within"), "{}", nodes[0]);
    let (code, problem) = served.json("POST", "/api/nodes/0/trace", "{}");
    assert!(code == 504 && problem["error"].is_string());
    assert_eq!(served.json("GET", "/api/flow?ue=10.45.0.4", "").0, 502);
}

#[test]
fn an_answer_of_another_format_is_not_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("node0.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _request = stream.read(&mut [0; 4096]);
            let body = "{\"node\":\"<script>alert(1)</script>\"}";
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _closed = stream.write_all(answer.as_bytes());
        }
    });
    let served = Served::of(&[socket], LONG);
    let node = served.once("an error", |nodes| nodes.iter().any(|node| node["was_asked"] == true)).remove(0);
    assert!(node["error"].as_str().unwrap().contains("unexpected answer"), "{node}");
    // The error may quote the answer: the page writes it as text (scripts/dashboard-test shows one).
    assert!(node["status"].is_null() && node["stats"].is_null(), "{node}");
}

#[test]
fn a_node_that_ends_keeps_its_last_status_and_one_that_starts_appears() {
    let running = Running::start();
    let socket = |name: &str| running.folder.path().join(name);
    let start =
        |name: &str| AdminServer::start(&Listen::on(socket(name)), Arc::clone(&running.window) as _).unwrap();
    let first = start("node1.sock");
    let served = Served::from(Source::Directory(running.folder.path().to_owned()), LONG);
    served.once("an answer", |nodes| nodes.iter().any(answers));
    drop(first);
    let nodes = served.once("an error", |nodes| nodes[0]["error"].is_string());
    assert!(
        !answers(&nodes[0]) && nodes[0]["stats"].is_null() && nodes[0]["status"]["nodes"] == 2,
        "{}",
        nodes[0]
    );
    let _second = start("node2.sock");
    let nodes = served.once("another node", |nodes| nodes.len() == 2 && answers(&nodes[1]));
    assert!(nodes[1]["target"].as_str().unwrap().ends_with("node2.sock"), "{}", nodes[1]);
    let _again = start("node1.sock");
    served.once("both", |nodes| nodes.len() == 2 && nodes.iter().all(answers));
}

#[test]
fn sixty_four_nodes_are_asked() {
    let running = Running::start();
    let socket = |n: usize| running.folder.path().join(format!("node{n:02}.sock"));
    let start = |n| AdminServer::start(&Listen::on(socket(n)), Arc::clone(&running.window) as _).unwrap();
    let servers: Vec<AdminServer> = (0..64).map(start).collect();
    let served = Served::from(Source::Directory(running.folder.path().to_owned()), LONG);
    let nodes = served.once("all answers", |nodes| nodes.len() == 64 && nodes.iter().all(answers));
    let targets: Vec<_> = nodes.iter().map(|node| node["target"].as_str().unwrap().to_owned()).collect();
    assert!(targets.is_sorted() && targets[63].ends_with("node63.sock"), "{targets:?}");
    drop(servers);
    served.once("no answers", |nodes| !nodes.iter().any(answers));
}

#[test]
fn over_tls_too() {
    let files = Files::new();
    let access = Access::Tls {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        token: files.token.clone(),
    };
    let place = Place { address: SocketAddr::from(([127, 0, 0, 1], 0)), access };
    let server = DashboardServer::start(&place, Nodes::new(Source::Named(Vec::new()), LONG)).unwrap();
    assert_eq!(server.invitation(), format!("https://{}/", server.address()), "the token is in its file");
    let client = |token: &PathBuf| {
        let address = format!("localhost:{}", server.address().port());
        let target = Target::Tls { address, ca: files.certificate.clone(), token: token.clone() };
        Client::new(target, LONG).unwrap()
    };
    assert_eq!(client(&files.token).text("/api/nodes").unwrap(), "{\"cluster\":null,\"nodes\":[]}");
    let wrong = files.token.with_extension("wrong");
    std::fs::write(&wrong, "0123456789abcdef").unwrap();
    assert!(matches!(client(&wrong).text("/api/nodes"), Err(ClientError::Token(_))));
    assert!(client(&wrong).text("/").unwrap().starts_with("<!doctype html>"));
}

#[test]
fn the_program_serves_until_ctrl_c_and_refuses_other_addresses_without_tls() {
    let running = Running::start();
    let mut served = program()
        .args(["dashboard", "--listen", "127.0.0.1:0", "--socket"])
        .arg(running.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (address, token) = line.trim().strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            format!("GET /api/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let mut start = [0; 15];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    // With the connection open.
    Command::new("kill").args(["-INT", &served.id().to_string()]).status().unwrap();
    assert_eq!(served.wait().unwrap().code(), Some(0));

    for (args, code, words) in [
        (&["--listen", "0.0.0.0:0"][..], 2, "needs --listen-certificate"),
        (&["--listen", "127.0.0.1:0", "--listen-certificate", "x"], 2, "--listen-key"),
        (&["--listen", "127.0.0.1:0", "--listen-token-file", "/no/such/file"], 1, "/no/such/file"),
        (&["--listen", "127.0.0.1:0", "--tcp", "gw:1"], 2, "--ca"),
        (&["--listen", "192.0.2.254"], 2, "invalid"),
    ] {
        let out = program().arg("dashboard").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(code) && said.contains(words), "{args:?}: {:?} {said}", out.status);
    }
}
