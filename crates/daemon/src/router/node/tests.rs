//! Control sides of several nodes with one log, in this process.

use super::config::RouterFile;
use super::control::ControlSide;
use super::feeder::FeederStatus;
use super::routes::SharedRoutes;
use super::routes::tables::RouteTables;
use crate::replica::PARTITION;
use scalebricks_control::engine::Engine;
use scalebricks_control::routes::{Exit, IpPrefix};
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{NodeId, NodeSet, Position};
use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not after a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The configuration of a node of three, with the network 192.0.N.0/24 at its port, and more in its section of feeders.
fn file(node: u8, feeder: &str) -> RouterFile {
    let links = (0..3)
        .filter(|other| *other != node)
        .map(|other| format!("[[link]]\nnode = {other}\ndevice = \"net_ring{other}\"\n"));
    let text = format!(
        "[router]\nnode = {node}\nnodes = 3\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nport_rate = \"1G\"\n\
         [control]\nengine = \"directory:log\"\nname = \"r\"\n{feeder}\n\
         [[port]]\ndevice = \"net_tap0\"\naddresses = [\"192.0.{node}.1/24\"]\n{}",
        links.collect::<String>()
    );
    RouterFile::parse(&text).unwrap()
}

/// Nodes with one log.
struct Rig {
    folder: tempfile::TempDir,
    engine: Arc<dyn Engine>,
    /// The nodes that all others reach.
    alive: Arc<Mutex<NodeSet>>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
        Self { folder, engine, alive: Arc::new(Mutex::new([0, 1, 2].into_iter().map(NodeId::new).collect())) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, node: u8, feeder: &str) -> ControlSide {
        let file = file(node, feeder);
        let (v4, v6) = (Arc::new(Lpm::new(Params::SMALL)), Arc::new(Lpm::new(Params::SMALL)));
        let tables = RouteTables::new(file.id, v4, v6, Box::new(|_, _| {}));
        let alive = Arc::clone(&self.alive);
        let alive = move || *alive.lock().unwrap();
        let routes = SharedRoutes::new(alive(), tables);
        let (engine, beside) = (Arc::clone(&self.engine), |path: &Path| self.folder.path().join(path));
        ControlSide::start(async move { engine }, &file, beside, routes, alive).unwrap()
    }

    /// The position of the last entry of the log.
    fn logged(&self) -> Position {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.engine.last(PARTITION)).unwrap()
    }

    fn set_alive(&self, nodes: &[u8]) {
        *self.alive.lock().unwrap() = nodes.iter().copied().map(NodeId::new).collect();
    }
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().map(IpPrefix::V4).unwrap()
}

/// The node and the next hop of a selected route.
fn route(node: &ControlSide, to: &str) -> Option<(u8, Option<IpAddr>)> {
    let Exit { node, next_hop, .. } = node.routes().lock().rib.selected(prefix(to))?.exit;
    Some((node.get(), next_hop))
}

#[allow(clippy::unnecessary_wraps, reason = "it is compared with a route that may not exist")]
fn via(node: u8, host: u8) -> Option<(u8, Option<IpAddr>)> {
    Some((node, Some([192, 0, node, host].into())))
}

fn status(node: &ControlSide, name: &str) -> FeederStatus {
    node.feeders().iter().map(|status| status.lock().clone()).find(|status| status.name == name).unwrap()
}

#[test]
fn nodes_agree_on_the_routes_of_a_file_and_on_the_dead() {
    let rig = Rig::new();
    std::fs::write(
        rig.path("routes"),
        "10.0.0.0/8 via 192.0.1.9\n10.0.0.0/8 via 192.0.2.9 preference 5\n11.0.0.0/8 via 192.0.1.8\n12.0.0.0/8 via 198.51.100.1\n",
    )
    .unwrap();
    let mut nodes = vec![rig.start(0, "[feeder]\nroutes = \"routes\""), rig.start(1, ""), rig.start(2, "")];
    let agree = |nodes: &[ControlSide], to: &str, wanted| nodes.iter().all(|node| route(node, to) == wanted);
    until("all have the routes", || {
        nodes.iter().all(ControlSide::has_all_routes)
            && agree(&nodes, "10.0.0.0/8", via(1, 9))
            && agree(&nodes, "11.0.0.0/8", via(1, 8))
            && agree(&nodes, "192.0.2.0/24", Some((2, None)))
    });
    // A path waits for the network of its next hop, so the path over node 2 may come later.
    let numbers = |node: &ControlSide| node.routes().lock().rib.next_hops().collect::<Vec<_>>();
    let number_alike = |nodes: &[ControlSide], hops| {
        nodes.iter().all(|node| numbers(node) == numbers(&nodes[0])) && numbers(&nodes[0]).len() == hops
    };
    until("all number the next hops alike", || number_alike(&nodes, 3));
    let shown = status(&nodes[0], "static");
    assert_eq!((shown.routes, shown.unresolved), (2, 1), "one next hop is in no network of a port");
    // Node 1 dies: its routes move or go. Nothing is logged for it.
    let logged = rig.logged();
    rig.set_alive(&[0, 2]);
    until("the routes of node 1 are gone", || {
        let living = [&nodes[0], &nodes[2]];
        living.iter().all(|node| {
            route(node, "10.0.0.0/8") == via(2, 9)
                && route(node, "11.0.0.0/8").is_none()
                && route(node, "192.0.1.0/24").is_none()
        })
    });
    assert_eq!(rig.logged(), logged);
    rig.set_alive(&[0, 1, 2]);
    until("they are back", || {
        agree(&nodes, "10.0.0.0/8", via(1, 9)) && agree(&nodes, "11.0.0.0/8", via(1, 8))
    });
    // The file changes: only the difference is logged.
    let logged = status(&nodes[0], "static").logged;
    std::fs::write(
        rig.path("routes"),
        "10.0.0.0/8 via 192.0.1.9\n12.0.0.0/8 via 192.0.2.7\n11.0.0.0/8 via 192.0.1.8\n",
    )
    .unwrap();
    nodes[0].reload().unwrap();
    until("the new route is there", || agree(&nodes, "12.0.0.0/8", via(2, 7)));
    until("two records were logged", || status(&nodes[0], "static").logged == logged + 2);
    std::fs::write(rig.path("routes"), "10.0.0.0/8 via nowhere\n").unwrap();
    let error = nodes[0].reload().unwrap_err().to_string();
    assert!(error.contains("routes: line 1:"), "{error}");
    assert!(agree(&nodes, "12.0.0.0/8", via(2, 7)), "a bad file changes nothing");
    // A node that starts again has everything from the log.
    drop(nodes.remove(1));
    nodes.insert(1, rig.start(1, ""));
    until("it is there again", || nodes[1].has_all_routes() && agree(&nodes, "12.0.0.0/8", via(2, 7)));
    until("all number the next hops alike again", || number_alike(&nodes, 3));
}

/// A message of zebra: a route over a gateway, or its withdrawal.
fn message(kind: u16, prefix: [u8; 4], length: u8, gateway: Option<[u8; 4]>) -> Vec<u8> {
    let attribute = |kind: u16, value: &[u8]| [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    let mut body = [&[2, length, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0][..], &attribute(1, &prefix)].concat();
    body.extend(gateway.iter().flat_map(|gateway| attribute(5, gateway)));
    let length = u32::try_from(16 + body.len()).unwrap();
    let message = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], &body].concat();
    [&[1, 1][..], &u16::try_from(message.len() + 4).unwrap().to_be_bytes(), &message].concat()
}

#[test]
fn a_speaker_that_restarts_keeps_its_routes_until_all_are_sent_again() {
    let rig = Rig::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let feeder = format!("[feeder.fpm]\nlisten = \"127.0.0.1:{port}\"\nquiet_ms = 400\nkeep_s = 2");
    let nodes = [rig.start(0, &feeder), rig.start(1, ""), rig.start(2, "")];
    until("all are there", || nodes.iter().all(ControlSide::has_all_routes));
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let agree = |to: &str, wanted| nodes.iter().all(|node| route(node, to) == wanted);
    let new = |second: u8, host: u8| message(24, [10, second, 0, 0], 16, Some([192, 0, 1, host]));
    let mut session = connect();
    session.write_all(&[new(1, 9), new(2, 9), new(3, 8)].concat()).unwrap();
    until("its routes are everywhere", || agree("10.1.0.0/16", via(1, 9)) && agree("10.3.0.0/16", via(1, 8)));
    until("the start is complete", || status(&nodes[0], "fpm").state == "complete");
    session.write_all(&[message(25, [10, 1, 0, 0], 16, None), new(2, 7)].concat()).unwrap();
    until("changes are everywhere", || agree("10.1.0.0/16", None) && agree("10.2.0.0/16", via(1, 7)));
    // It restarts, and sends one route less.
    drop(session);
    until("the end is noticed", || status(&nodes[0], "fpm").state.starts_with("waiting"));
    assert!(agree("10.3.0.0/16", via(1, 8)), "routes stay meanwhile");
    let mut session = connect();
    session.write_all(&new(2, 6)).unwrap();
    until("the new one is there", || agree("10.2.0.0/16", via(1, 6)));
    until("the old one is gone", || agree("10.3.0.0/16", None));
    assert!(agree("10.2.0.0/16", via(1, 6)));
    // Another connection replaces a session; a wrong frame ends one, and the routes stay for a while.
    let mut other = connect();
    other.write_all(&new(2, 5)).unwrap();
    until("the new session counts", || agree("10.2.0.0/16", via(1, 5)));
    other.write_all(&[9; 64]).unwrap();
    until("the wrong frame ends it", || status(&nodes[0], "fpm").state.starts_with("waiting"));
    assert_eq!(
        status(&nodes[0], "fpm").counts.iter().find(|(name, _)| *name == "bad_frames"),
        Some(&("bad_frames", 1))
    );
    until("without a session its routes go in the end", || agree("10.2.0.0/16", None));
    assert!(agree("192.0.1.0/24", Some((1, None))));
    drop(session);
}

#[test]
fn routes_wait_for_the_network_of_their_next_hop() {
    let rig = Rig::new();
    std::fs::write(rig.path("routes"), "10.0.0.0/8 via 192.0.2.9\n").unwrap();
    let first = rig.start(0, "[feeder]\nroutes = \"routes\"");
    until("it waits", || status(&first, "static").unresolved == 1);
    assert_eq!(route(&first, "10.0.0.0/8"), None);
    let _second = rig.start(2, "");
    until("the network is there", || route(&first, "10.0.0.0/8") == via(2, 9));
    assert_eq!(status(&first, "static").unresolved, 0);
}
