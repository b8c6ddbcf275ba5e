//! Flows pinned by HTTP, and refusals.

use crate::admin::running::Running;
use bytes::Bytes;
use scalebricks_admin::client::{Client, ClientError, Target};
use scalebricks_admin::flow_list::columns::FlowParser;
use scalebricks_admin::flows::{Answer, Flows, FlowsError};
use scalebricks_admin::model::{ClusterView, FlowsProblem, MAX_FLOWS, MAX_PROBLEMS, StandbyView};
use scalebricks_admin::server::{AdminServer, Limits, Listen};
use scalebricks_apps::gateway::{FlowSpec, PinnedState};
use scalebricks_cluster::plane::Accepted;
use scalebricks_cluster::verify::{DifferenceKind, Verdict};
use scalebricks_control::membership::Standby;
use scalebricks_elements::gateway::FlowCount;
use scalebricks_types::{ClusterSize, FlowKey, KeyProfile, NodeId, Teid};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// A control plane that keeps flows in a map, and refuses on request.
struct Fake {
    parser: FlowParser,
    flows: Mutex<HashMap<FlowKey, FlowSpec>>,
    refusal: Mutex<Option<FlowsError>>,
    applies: Mutex<bool>,
    drained: Mutex<Vec<u16>>,
}

impl Fake {
    fn new() -> Self {
        let stations = [Ipv4Addr::new(10, 9, 0, 1)];
        Self {
            parser: FlowParser::new(KeyProfile::Ue, ClusterSize::new(4).unwrap(), &stations),
            flows: Mutex::default(),
            refusal: Mutex::default(),
            applies: Mutex::new(true),
            drained: Mutex::default(),
        }
    }

    fn done<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut HashMap<FlowKey, FlowSpec>) -> T,
    ) -> Answer<'_, T> {
        let done = match self.refusal.lock().unwrap().clone() {
            Some(refusal) => Err(refusal),
            None => Ok(work(&mut self.flows.lock().unwrap())),
        };
        Box::pin(async move { done })
    }
}

impl Flows for Fake {
    fn parser(&self) -> &FlowParser {
        &self.parser
    }

    fn pin(&self, flows: Vec<FlowSpec>, _are_new: bool) -> Answer<'_, Accepted> {
        self.done(|all| {
            all.extend(flows.into_iter().map(|flow| (flow.key, flow)));
            Accepted::default()
        })
    }

    fn move_to(&self, flows: Vec<(FlowKey, NodeId)>) -> Answer<'_, Accepted> {
        let absent: Vec<usize> = {
            let all = self.flows.lock().unwrap();
            flows
                .iter()
                .enumerate()
                .filter(|(_, (key, _))| !all.contains_key(key))
                .map(|(at, _)| at)
                .collect()
        };
        if !absent.is_empty() {
            return Box::pin(async move { Err(FlowsError::Absent(absent)) });
        }
        self.done(|all| {
            for (key, node) in flows {
                all.entry(key).and_modify(|flow| flow.node = node);
            }
            Accepted::default()
        })
    }

    fn unpin(&self, flows: Vec<FlowKey>) -> Answer<'_, (Accepted, usize)> {
        self.done(|all| (Accepted::default(), flows.iter().filter(|key| all.remove(key).is_none()).count()))
    }

    fn find(&self, key: FlowKey) -> Answer<'_, Option<(NodeId, PinnedState)>> {
        self.done(|all| {
            let is_it = |flow: &&FlowSpec| flow.key == key || FlowKey::teid(flow.uplink_teid) == key;
            all.values().find(is_it).map(|flow| (flow.node, PinnedState::from(flow)))
        })
    }

    fn carried(&self, node: NodeId, uplink: Teid) -> Answer<'_, Option<FlowCount>> {
        let count = FlowCount {
            downstream_packets: u64::from(node.get()),
            downstream_bytes: u64::from(uplink.get()),
            ..FlowCount::default()
        };
        self.done(|_| (uplink.get() == 2).then_some(count))
    }

    fn cluster(&self) -> ClusterView {
        ClusterView {
            node: 0,
            has_caught_up: true,
            epoch: 7,
            nodes: 4,
            key: "ue".to_owned(),
            base_stations: self.parser.base_stations().to_vec(),
            members: Vec::new(),
            unowned_partitions: vec![3],
            flows: self.flows.lock().unwrap().len() as u64,
            drained: self.drained.lock().unwrap().clone(),
            standbys: vec![StandbyView { node: 1, to: Some(2) }],
            repins: Vec::new(),
            positions: Vec::new(),
        }
    }

    fn drain(&self, node: NodeId) -> Answer<'_, (Accepted, Vec<NodeId>)> {
        if node == NodeId::new(9) {
            return Box::pin(async move { Err(FlowsError::NoSuchNode(node)) });
        }
        self.drained.lock().unwrap().push(node.get().into());
        self.done(|_| (Accepted::default(), vec![NodeId::new(1)]))
    }

    fn undrain(&self, node: NodeId) -> Answer<'_, ()> {
        self.drained.lock().unwrap().retain(|drained| *drained != u16::from(node.get()));
        self.done(|_| ())
    }

    fn forget(&self, _node: NodeId) -> Answer<'_, ()> {
        self.done(|_| ())
    }

    fn set_standby(&self, node: NodeId, standby: Standby) -> Answer<'_, ()> {
        if standby == Standby::One(node) {
            return Box::pin(async { Err(FlowsError::Invalid("itself".to_owned())) });
        }
        self.done(|_| ())
    }

    /// Two pieces, and an error if it refuses.
    fn export(&self) -> Answer<'_, mpsc::Receiver<io::Result<Bytes>>> {
        let (pieces, receiver) = mpsc::channel(3);
        pieces.try_send(Ok(Bytes::from_static(b"ue,node\n"))).unwrap();
        pieces.try_send(Ok(Bytes::from_static(b"10.0.0.1,1\n"))).unwrap();
        if !*self.applies.lock().unwrap() {
            pieces.try_send(Err(io::Error::other("the log cannot be read"))).unwrap();
        }
        self.done(|_| receiver)
    }

    /// Node 1 differs, node 2 is silent.
    fn verify(&self, told: u32, patience: Duration) -> Answer<'_, mpsc::Receiver<(NodeId, Option<Verdict>)>> {
        let (verdicts, receiver) = mpsc::channel(2);
        let counts = [(DifferenceKind::FibMissing, u64::from(told))].into();
        let verdict = Verdict { keys: patience.as_secs(), counts, ..Verdict::default() };
        verdicts.try_send((NodeId::new(1), Some(verdict))).unwrap();
        verdicts.try_send((NodeId::new(2), None)).unwrap();
        self.done(|_| receiver)
    }

    fn applied<'a>(&'a self, _accepted: &'a Accepted) -> Answer<'a, ()> {
        let applies = *self.applies.lock().unwrap();
        Box::pin(async move { if applies { Ok(()) } else { std::future::pending().await } })
    }
}

struct Served {
    fake: Arc<Fake>,
    server: AdminServer,
    _running: Running,
}

impl Served {
    fn start() -> Self {
        let running = Running::start();
        let limits = Limits { request_time: Duration::from_millis(800), ..Limits::default() };
        let listen = Listen { limits, ..Listen::on(running.folder.path().join("flows.sock")) };
        let fake = Arc::new(Fake::new());
        let flows: Arc<dyn Flows> = Arc::<Fake>::clone(&fake);
        let server = AdminServer::start_with(&listen, Arc::clone(&running.window) as _, Some(flows)).unwrap();
        Self { fake, server, _running: running }
    }

    fn post(&self, path: &str, body: &[u8]) -> (u16, String) {
        ask(self.server.socket(), "POST", path, body)
    }

    fn get(&self, path: &str) -> (u16, String) {
        ask(self.server.socket(), "GET", path, b"")
    }

    fn count(&self) -> usize {
        self.fake.flows.lock().unwrap().len()
    }
}

/// The status and the whole response.
pub fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The server may close before it has read everything.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let code = answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn problem(answer: &str) -> FlowsProblem {
    serde_json::from_str(body(answer)).unwrap()
}

fn flow(n: usize) -> Value {
    json!({
        "ue": Ipv4Addr::from(0x0a2d_0000 + n as u32), "node": n % 4, "base_station": "10.9.0.1",
        "uplink_teid": n + 1, "downlink_teid": format!("{:#x}", n + 1), "qfi": 9,
    })
}

fn flows(count: usize) -> Vec<u8> {
    serde_json::to_vec(&(0..count).map(flow).collect::<Vec<_>>()).unwrap()
}

#[test]
fn flows_are_pinned_moved_shown_and_taken_out() {
    let served = Served::start();
    let (code, answer) = served.post("/v1/flows", &flows(MAX_FLOWS));
    assert_eq!(code, 202, "{answer}");
    assert_eq!(body(&answer), r#"{"accepted":5000,"absent":0,"is_applied":false}"#);
    assert_eq!(served.count(), MAX_FLOWS);
    let moved = br#"[{"ue":"10.45.0.1","node":"3"}]"#;
    assert_eq!(served.post("/v1/flows/move?wait=applied", moved).0, 200);
    for query in ["ue=10.45.0.1", "uplink_teid=0x2", "uplink_teid=2", "ue=10%2E45.0.1"] {
        let (code, answer) = served.get(&format!("/v1/flow?{query}"));
        assert_eq!(code, 200, "{answer}");
        let pinned =
            r#"{"node":3,"base_station":"10.9.0.1","uplink_teid":2,"downlink_teid":2,"qfi":9,"carried":"#;
        let carried =
            r#"{"downstream_packets":3,"downstream_bytes":2,"upstream_packets":0,"upstream_bytes":0}}"#;
        assert_eq!(body(&answer), format!("{pinned}{carried}"));
    }
    let (code, answer) = served.post("/v1/flows/delete", br#"[{"ue":"10.45.0.1"},{"ue":"10.46.0.1"}]"#);
    assert_eq!((code, body(&answer)), (202, r#"{"accepted":1,"absent":1,"is_applied":false}"#));
    assert_eq!(served.get("/v1/flow?ue=10.45.0.1").0, 404);
    let (code, answer) = served.get("/v1/cluster");
    assert!(code == 200 && answer.contains(r#""epoch":7"#), "{answer}");
    let (code, answer) = served.post("/v1/cluster/drain?wait=applied", br#"{"node":2}"#);
    assert_eq!((code, body(&answer)), (200, r#"{"heirs":[1],"is_applied":true}"#));
}

/// The joined pieces of a chunked body, which may be truncated.
fn unchunked(body: &str) -> (String, bool) {
    let (mut text, mut rest) = (String::new(), body);
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (text, true);
        }
        text.push_str(&more[..length]);
        rest = &more[length + 2..];
    }
    (text, false)
}

#[test]
fn an_export_that_is_not_whole_can_be_told() {
    let served = Served::start();
    let (code, answer) = served.get("/v1/flows");
    assert_eq!(code, 200, "{answer}");
    assert!(answer.contains("content-type: text/csv"), "{answer}");
    assert_eq!(unchunked(body(&answer)), ("ue,node\n10.0.0.1,1\n".to_owned(), true));
    *served.fake.applies.lock().unwrap() = false;
    // Pieces before the error may or may not have been sent.
    let (_, answer) = served.get("/v1/flows");
    assert!(answer.split_once("\r\n\r\n").is_none_or(|(_, body)| !unchunked(body).1), "{answer}");
    let client = Client::new(Target::Unix(served.server.socket().into()), Duration::from_secs(5)).unwrap();
    let mut came = 0;
    let exported = client.export(|bytes| {
        came += bytes.len();
        Ok(true)
    });
    assert!(matches!(exported, Err(ClientError::Protocol { .. })), "{exported:?} after {came} bytes");
}

#[test]
fn nodes_are_drained_and_compared() {
    let served = Served::start();
    assert_eq!(served.post("/v1/cluster/drain", br#"{"node":2}"#).0, 202);
    assert!(served.get("/v1/cluster").1.contains(r#""drained":[2],"standbys":[{"node":1,"to":2}]"#));
    let (code, answer) = served.post("/v1/cluster/undrain", br#"{"node":2}"#);
    assert_eq!((code, body(&answer)), (200, r#"{"node":2}"#));
    assert!(served.get("/v1/cluster").1.contains(r#""drained":[]"#));
    for (text, code, answer) in [
        (&br#"{"node":2,"to":3}"#[..], 200, r#"{"node":2,"to":3}"#),
        (br#"{"node":2,"to":null}"#, 200, r#"{"node":2,"to":null}"#),
        (br#"{"node":2,"to":2}"#, 400, r#"{"error":"itself","flows":[]}"#),
    ] {
        let (got, said) = served.post("/v1/cluster/standby", text);
        assert_eq!((got, body(&said)), (code, answer));
    }
    for (text, code) in [
        (&b"{}"[..], 422),
        (br#"{"node":2,"too":3}"#, 422),
        (br#"{"node":-1}"#, 422),
        (br#"{"node":300}"#, 404),
    ] {
        assert_eq!(served.post("/v1/cluster/standby", text).0, code);
        assert_eq!(served.post("/v1/cluster/undrain", text).0, code);
    }
    let (code, answer) = served.post("/v1/cluster/verify?differences=7&patience_s=5", b"");
    assert_eq!(code, 200);
    let (lines, is_whole) = unchunked(body(&answer));
    assert!(is_whole);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["verdict"]["counts"], json!({ "fib-missing": 7 }));
    assert_eq!((&lines[0]["node"], &lines[0]["verdict"]["keys"]), (&json!(1), &json!(5)));
    assert_eq!(lines[1], json!({ "node": 2, "verdict": null }));
    for (query, what) in [("patience_s=0", "1 to 3600"), ("patience_s=4000", "4000"), ("color=red", "color")]
    {
        let (code, answer) = served.post(&format!("/v1/cluster/verify?{query}"), b"");
        assert!(code == 400 && answer.contains(what), "{answer}");
    }
}

#[test]
fn who_waits_in_vain_is_told_so() {
    let served = Served::start();
    *served.fake.applies.lock().unwrap() = false;
    let (code, answer) = served.post("/v1/flows?wait=applied", &flows(1));
    assert_eq!((code, body(&answer)), (202, r#"{"accepted":1,"absent":0,"is_applied":false}"#));
}

#[test]
fn all_wrong_flows_are_told_by_index_and_field_and_none_is_accepted() {
    let served = Served::start();
    let with = |n: usize, field: &str, value: Value| {
        let mut flow = flow(n);
        flow[field] = value;
        flow
    };
    let flows = json!([
        flow(0),
        with(1, "ue", json!("10.45.0.300")),
        with(2, "node", json!(4)),
        with(3, "uplink_teid", json!("0x100000000")),
        with(4, "base_station", json!("10.9.0.2")),
        with(5, "qfi", json!(64)),
        with(6, "ue", json!("10.45.0.0")),
        with(7, "uplink_teid", json!(1)),
        {"ue": "10.45.0.9"},
        with(9, "node", json!(u64::MAX)),
    ]);
    let (code, answer) = served.post("/v1/flows", flows.to_string().as_bytes());
    assert_eq!(code, 400, "{answer}");
    let refusal = problem(&answer);
    let told: Vec<_> = refusal.flows.iter().map(|flow| (flow.index, flow.error.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, "ue '10.45.0.300' is not an IPv4 or IPv6 address"),
            (2, "node 4 of a cluster of 4 (numbered from 0)"),
            (3, "uplink_teid '0x100000000' is not 1 to 4294967295 or 0x1 to 0xffffffff"),
            (4, "base_station 10.9.0.2 is not in the configuration"),
            (5, "qfi '64' is not 0 to 63, or empty"),
            (6, "the same key as flow 0"),
            (7, "the same uplink_teid as flow 0"),
            (8, "node is missing"),
            (9, "node 18446744073709551615 of a cluster of 4 (numbered from 0)"),
        ]
    );
    assert!(
        refusal.error.starts_with("9 of 10 flows are wrong, and no flow was changed"),
        "{}",
        refusal.error
    );
    assert_eq!(served.count(), 0);
    // Of very many errors the first are reported.
    let bad = serde_json::to_vec(&vec![json!({"ue": "x"}); 3_000]).unwrap();
    let (code, answer) = served.post("/v1/flows", &bad);
    assert_eq!(code, 400);
    assert_eq!(problem_count(&answer), MAX_PROBLEMS);
    // A call accepts only its own fields.
    let (code, answer) = served.post("/v1/flows/delete", br#"[{"ue":"10.45.0.1","uplink_teid":5}]"#);
    assert!(code == 400 && answer.contains("uplink_teid is not allowed in this call"), "{answer}");
    let (code, answer) = served.post("/v1/flows/move", br#"[{"ue":"10.45.0.1","node":1}]"#);
    assert!(code == 404 && problem(&answer).flows[0].index == 0, "{answer}");
}

fn problem_count(answer: &str) -> usize {
    problem(answer).flows.len()
}

#[test]
fn what_is_no_list_of_flows_is_refused() {
    let served = Served::start();
    for (text, code, what) in [
        (&b"["[..], 400, "EOF"),
        (b"{}", 422, "array"),
        (b"null", 422, "array"),
        (b"[]", 400, "no flows"),
        (b"[1]", 422, "[0]"),
        (br#"[{"ue":"10.0.0.1"},{"ue":["10.0.0.1"]}]"#, 422, "[1].ue"),
        (br#"[{"node":-1}]"#, 422, "node"),
        (br#"[{"node":1.5}]"#, 422, "node"),
        (br#"[{"node":true}]"#, 422, "node"),
        (br#"[{"ue":"10.0.0.1","color":"red"}]"#, 422, "color"),
        (br#"[{"ue":"10.0.0.1","ue":"10.0.0.2"}]"#, 422, "duplicate"),
        (b"\xff", 400, ""),
    ] {
        for path in ["/v1/flows", "/v1/flows/move", "/v1/flows/delete"] {
            let (got, answer) = served.post(path, text);
            assert_eq!(got, code, "{answer}");
            assert!(answer.contains(r#"{"error":""#) && answer.contains(what), "{what}: {answer}");
        }
    }
    for (path, what) in [
        ("/v1/flows?wait=forever", "forever"),
        ("/v1/flows?color=red", "color"),
        ("/v1/flows?new=perhaps", "new"),
    ] {
        let (code, answer) = served.post(path, &flows(1));
        assert!(code == 400 && answer.contains(what), "{answer}");
    }
    for (query, what) in [
        ("", "name the flow"),
        ("color=red", "color"),
        ("ue=1", "ue '1'"),
        ("uplink_teid=0", "uplink_teid '0'"),
        ("ue=10.0.0.1&uplink_teid=1", "ue is not allowed"),
        ("ue=10.0.0.1&node=1", "node is not allowed"),
    ] {
        let (code, answer) = served.get(&format!("/v1/flow?{query}"));
        assert!(code == 400 && answer.contains(what), "{query}: {answer}");
    }
    for (text, code) in [
        (&b"{}"[..], 422),
        (br#"{"node":2,"now":1}"#, 422),
        (br#"{"node":900}"#, 404),
        (br#"{"node":9}"#, 404),
    ] {
        assert_eq!(served.post("/v1/cluster/drain", text).0, code);
    }
    assert_eq!(served.count(), 0);
}

#[test]
fn too_many_flows_and_too_long_bodies_are_refused() {
    let served = Served::start();
    let (code, answer) = served.post("/v1/flows", &flows(MAX_FLOWS + 1));
    assert!(code == 422 && answer.contains("more than 5000"), "{answer}");
    let empty = format!("[{}{{}}]", "{},".repeat(600_000));
    let (code, answer) = served.post("/v1/flows", empty.as_bytes());
    assert!(code == 422 && answer.contains("more than 5000"), "{answer}");
    let (code, answer) = served.post("/v1/flows", &vec![b' '; 8 << 20]);
    assert!(code == 413 || answer.is_empty(), "{answer}");
    let nested = vec![b'['; 1 << 20];
    assert!((400..500).contains(&served.post("/v1/flows", &nested).0));
    assert_eq!(served.count(), 0);
    assert_eq!(served.get("/v1/cluster").0, 200, "it lives");
}

#[test]
fn what_the_control_plane_refuses_has_a_code() {
    let served = Served::start();
    for (refusal, code, retry) in [
        (FlowsError::Later("busy".to_owned()), 503, true),
        (FlowsError::Conflict("no room".to_owned()), 409, false),
        (FlowsError::Invalid("no such thing".to_owned()), 400, false),
        (FlowsError::TooMany("split them".to_owned()), 413, false),
        (FlowsError::Full("no room".to_owned()), 507, false),
    ] {
        let words = refusal.to_string();
        *served.fake.refusal.lock().unwrap() = Some(refusal);
        let (got, answer) = served.post("/v1/flows", &flows(3));
        assert_eq!(got, code, "{answer}");
        assert_eq!(answer.contains("retry-after: 1\r\n"), retry, "{answer}");
        assert_eq!(problem(&answer).error, words);
    }
    assert_eq!(served.get("/v1/flow?uplink_teid=1").0, 507);
}

/// Void changes are reported with their reason, whether or not the call waits for tables.
#[test]
fn flows_that_were_refused_are_named() {
    let served = Served::start();
    for (path, is_room, wanted) in [
        ("/v1/flows", false, 409),
        ("/v1/flows?wait=applied", false, 409),
        ("/v1/flows/delete?wait=applied", false, 409),
        ("/v1/flows", true, 507),
    ] {
        let flows = vec![(1, "no such key".to_owned()), (2, "another key has the same hash".to_owned())];
        *served.fake.refusal.lock().unwrap() =
            Some(FlowsError::Refused { flows, refused: 2, of: 3, is_room });
        let body =
            if path.contains("delete") { br#"[{"ue": "10.45.0.1"}]"#.to_vec() } else { self::flows(3) };
        let (got, answer) = served.post(path, &body);
        assert_eq!(got, wanted, "{answer}");
        let problem = problem(&answer);
        assert!(
            problem.error.starts_with("2 of 3 flows were refused, the others are done"),
            "{}",
            problem.error
        );
        assert!(problem.error.ends_with("flow 1: no such key"), "{}", problem.error);
        let told: Vec<(u64, &str)> =
            problem.flows.iter().map(|flow| (flow.index, flow.error.as_str())).collect();
        assert_eq!(told, [(1, "no such key"), (2, "another key has the same hash")]);
    }
}

#[test]
fn a_node_without_a_control_plane_says_where_its_flows_come_from() {
    let running = Running::start();
    for (method, path) in [
        ("POST", "/v1/flows"),
        ("POST", "/v1/flows/move"),
        ("POST", "/v1/flows/delete"),
        ("POST", "/v1/cluster/drain"),
        ("POST", "/v1/cluster/verify"),
        ("GET", "/v1/flows"),
        ("GET", "/v1/flow?ue=10.0.0.1"),
        ("GET", "/v1/cluster"),
    ] {
        let (code, answer) = ask(&running.socket(), method, path, b"[]");
        assert!(code == 501 && answer.contains("come from a file"), "{answer}");
    }
    assert_eq!(ask(&running.socket(), "PUT", "/v1/flows", b"").0, 405);
}
