use super::*;
use crate::model::PortCounters;
use crate::model::{
    ControlStats, FabricPeerView, FlowsView, MemberFitness, NeighbourView, PortRole, PortView, ReasonView,
    TableRole, TableView, WorkerStats, WorkerView,
};
use scalebricks_apps::gateway::NodeStats;
use scalebricks_cluster::mesh::{MeshStats, PeerCount, PeerStats, StrangerCount};
use scalebricks_cluster::moved::{FlowSums, MovedCounters};
use scalebricks_cluster::stats::PlaneStats;
use scalebricks_elements::gateway::DropReason;
use scalebricks_types::NodeId;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};

fn plane() -> PlaneStats {
    PlaneStats {
        entries: 1,
        voids: 2,
        malformed: 3,
        gaps: 4,
        refused: 5,
        repins: 6,
        astray: 7,
        fib_astray: 9,
        begun_anew: 8,
        reloads: 9,
        rewound: 10,
        shedding: 12,
        shed: 13,
        calls_refused: 14,
        calls_delayed: 15,
    }
}

fn mesh() -> MeshStats {
    let counts = PeerCount::ALL.iter().zip(100..).map(|(what, count)| (*what, count)).collect();
    MeshStats {
        peers: [(NodeId::new(7), PeerStats { is_connected: true, waiting: 8, counts })].into(),
        strangers: StrangerCount::ALL.iter().zip(200..).map(|(what, count)| (*what, count)).collect(),
    }
}

/// A node with something of everything.
fn node() -> (Status, Stats) {
    let worker = WorkerView {
        worker: 0,
        core: Some(2),
        mode: "sleep".to_owned(),
        busy_share: 0.25,
        busy_s: 1.5,
        turns: 1000,
        mean_batch_fill: 3.5,
    };
    let neighbour = |state: &str| NeighbourView {
        port: PortRole::Internet,
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        mac: None,
        state: state.to_owned(),
        age_s: None,
    };
    let status = Status {
        version: "0.1.0".to_owned(),
        node: 1,
        nodes: 4,
        architecture: "scalebricks".to_owned(),
        key: "flow5".to_owned(),
        state: NodeState::Ready,
        reasons: vec![ReasonView::new("ran_link", "the link towards the base stations is down")],
        uptime_s: 12.5,
        flows: FlowsView {
            in_cluster: 100,
            here: 25,
            file: "flows.csv".to_owned(),
            loaded_unix_s: Some(1.7e9),
            generation: 2,
        },
        tables: vec![TableView { table: TableRole::Gpt, table_bytes: 4096, keys: Some(200) }],
        ports: vec![PortView {
            role: PortRole::Fabric,
            device: "net_\"null\\0\n".to_owned(),
            driver: "net_null".to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            addresses: Vec::new(),
            is_link_up: true,
            speed_mbps: Some(10_000),
        }],
        neighbours: vec![neighbour("reachable"), neighbour("odd \"state\"\n\\"), neighbour("reachable")],
        fabric: [(0, true, None), (2, false, Some(3)), (3, true, None)]
            .map(|(node, is_reached, via)| FabricPeerView {
                node,
                is_heard: true,
                is_reached,
                round_trip_us: None,
                via,
            })
            .to_vec(),
        workers: vec![worker.clone()],
    };
    let mut counted = NodeStats { internet_in: u64::MAX, relayed: 7, probes_out: 8, ..NodeStats::default() };
    counted.dropped.count(DropReason::UnknownFlow);
    let counters = NodeCounters::from(&counted);
    let port = PortCounters {
        role: PortRole::Fabric,
        rx_packets: 1,
        rx_bytes: 2,
        rx_missed: 3,
        rx_errors: 4,
        rx_no_buffer: 5,
        rx_shared: 9,
        rx_unusable: 10,
        tx_packets: 6,
        tx_bytes: 7,
        tx_errors: 8,
    };
    let stats = Stats {
        uptime_s: 12.5,
        total: counters.clone(),
        workers: vec![WorkerStats { worker, counters }],
        ports: vec![port],
        slow_path: [("arp_reply_sent".to_owned(), 9)].into(),
        moved_counters: Some(MovedCounters {
            ended: FlowSums { flows: 2, upstream_packets: 5, downstream_bytes: 700, ..FlowSums::default() },
            under_way_flows: 3,
            duplicate_parcels: 4,
            ..MovedCounters::default()
        }),
        control: Some(ControlStats {
            members: vec![
                MemberFitness { node: 0, suspended_for: Vec::new() },
                MemberFitness { node: 1, suspended_for: vec!["ran_link".to_owned()] },
            ],
            ..ControlStats::from((plane(), Some(mesh())))
        }),
        ..Stats::default()
    };
    (status, stats)
}

/// A strict parser of `OpenMetrics`: returns series by name and labels, and the names of families.
fn read(text: &str) -> (HashMap<String, f64>, BTreeSet<String>) {
    let (mut series, mut families) = (HashMap::new(), BTreeSet::new());
    let mut current: Option<(String, Option<String>)> = None;
    let body = text.strip_suffix("# EOF\n").expect("an end");
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(words.ends_with('.') && !words.ends_with(".."), "{line}");
            assert!(families.insert(name.to_owned()), "{name} twice");
            current = Some((name.to_owned(), None));
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            let (family, seen) = current.as_mut().unwrap();
            assert!(family == name && seen.is_none(), "{line}");
            assert!(["counter", "gauge", "info"].contains(&kind), "{line}");
            *seen = Some(kind.to_owned());
        } else {
            let (family, kind) = current.as_ref().unwrap();
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            let suffix = match kind.as_deref().unwrap() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            assert_eq!(bare, format!("{family}{suffix}"), "{line}");
            assert!(
                bare.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{line}"
            );
            check_labels(&name[bare.len()..]);
            assert!(series.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line} twice");
        }
    }
    (series, families)
}

/// `{name="value",…}`, values escaped.
fn check_labels(text: &str) {
    let Some(mut rest) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return assert_eq!(text, "");
    };
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{text}");
        let mut bytes = value.bytes().enumerate();
        let end = loop {
            match bytes.next().unwrap() {
                (_, b'\\') => assert!(matches!(bytes.next().unwrap().1, b'\\' | b'"' | b'n')),
                (at, b'"') => break at,
                (_, byte) => assert_ne!(byte, b'\n'),
            }
        };
        rest = value[end + 1..].trim_start_matches(',');
    }
}

#[test]
fn a_strict_reader_understands_all_of_it() {
    let (status, stats) = node();
    let (series, families) = read(&render(&status, &stats, true).unwrap());
    for (name, value) in [
        ("scalebricks_ready", 1.0),
        ("scalebricks_state{state=\"ready\"}", 1.0),
        ("scalebricks_state{state=\"loading\"}", 0.0),
        ("scalebricks_flows{scope=\"here\"}", 25.0),
        ("scalebricks_table_size_bytes{table=\"gpt\"}", 4096.0),
        ("scalebricks_dropped_packets_total{reason=\"unknown_flow\"}", 1.0),
        ("scalebricks_dropped_packets_total{reason=\"truncated\"}", 0.0),
        ("scalebricks_packets_total{worker=\"0\",port=\"internet\",direction=\"in\"}", u64::MAX as f64),
        ("scalebricks_port_bytes_total{port=\"fabric\",direction=\"out\"}", 7.0),
        ("scalebricks_port_refused_packets_total{port=\"fabric\",reason=\"shared\"}", 9.0),
        ("scalebricks_port_refused_packets_total{port=\"fabric\",reason=\"unusable\"}", 10.0),
        ("scalebricks_worker_busy_seconds_total{worker=\"0\"}", 1.5),
        ("scalebricks_slow_path_events_total{event=\"arp_reply_sent\"}", 9.0),
        ("scalebricks_neighbours{port=\"internet\",state=\"reachable\"}", 2.0),
        ("scalebricks_control_member_fit{member=\"0\"}", 1.0),
        ("scalebricks_control_member_fit{member=\"1\"}", 0.0),
        ("scalebricks_control_member_suspended{member=\"1\",reason=\"ran_link\"}", 1.0),
        ("scalebricks_fabric_peers{way=\"direct\"}", 2.0),
        ("scalebricks_fabric_peers{way=\"relayed\"}", 1.0),
        ("scalebricks_fabric_peers{way=\"none\"}", 0.0),
        ("scalebricks_relayed_packets_total", 7.0),
        ("scalebricks_fabric_probes_total{event=\"sent\"}", 8.0),
        ("scalebricks_ended_flows_total", 2.0),
        ("scalebricks_ended_flow_packets_total{direction=\"upstream\"}", 5.0),
        ("scalebricks_ended_flow_bytes_total{direction=\"downstream\"}", 700.0),
        ("scalebricks_pending_flow_counters{state=\"under-way\"}", 3.0),
        ("scalebricks_flow_counter_parcels_total{event=\"duplicate\"}", 4.0),
        ("scalebricks_node_fit{reason=\"ran_link\"}", 0.0),
        ("scalebricks_node_fit{reason=\"worker\"}", 1.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert_eq!(families.len(), 64);
}

#[test]
fn the_page_lists_every_metric() {
    let (status, stats) = node();
    let (series, _) = read(&render(&status, &stats, true).unwrap());
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md")).unwrap();
    for name in series.keys().map(|name| name.split('{').next().unwrap()).collect::<BTreeSet<_>>() {
        assert!(page.contains(&format!("`{name}`")), "docs/admin.md lacks {name}");
    }
}

#[test]
fn a_node_that_has_nothing_yet_is_no_error() {
    let (mut status, _) = node();
    status.state = NodeState::Loading;
    (status.tables, status.ports, status.neighbours) = (Vec::new(), Vec::new(), Vec::new());
    let (series, _) = read(&render(&status, &Stats::default(), false).unwrap());
    assert_eq!(series.get("scalebricks_ready"), Some(&0.0));
}

/// promtool knows the older text only; what differs is the end mark, which it takes for a comment, counters' names,
/// which it would want with `_total` in their type line, and the type `info`, which it refuses.
#[test]
fn promtool_reads_it_if_it_is_here() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let (status, stats) = node();
    let text = render(&status, &stats, true).unwrap().replace(" info\n", " gauge\n");
    let Ok(mut tool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
    else {
        return;
    };
    tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    // 3 is a matter of taste, 1 a text that cannot be read.
    assert_ne!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_strict_reader_understands_a_graph() {
    use crate::model::{ElementCounts, ElementView, GraphView};
    let counts = |name: &str, count| [(name.to_owned(), count)].into();
    let element = ElementView {
        name: "a/q \"\\".to_owned(),
        class: "Queue".to_owned(),
        counters: counts("packets", 7),
        dropped: counts("queue_full", 3),
        ..ElementView::default()
    };
    let gone =
        ElementCounts { name: "c".to_owned(), counters: counts("packets", 5), ..ElementCounts::default() };
    let beside = ElementView { name: "ControlSocket@1".to_owned(), ..ElementView::default() };
    let view = GraphView {
        replacements: 2,
        elements: vec![element, beside],
        former: vec![gone],
        ..GraphView::default()
    };
    let (series, families) = read(&render_graph(&view).unwrap());
    for (name, value) in [
        ("replacements_total", 2.0),
        ("elements", 2.0),
        ("element_events_total{element=\"a/q \\\"\\\\\",class=\"Queue\",event=\"packets\"}", 7.0),
        ("element_events_total{element=\"c\",class=\"\",event=\"packets\"}", 5.0),
        (
            "element_dropped_packets_total{element=\"a/q \\\"\\\\\",class=\"Queue\",reason=\"queue_full\"}",
            3.0,
        ),
    ] {
        assert_eq!(series.get(&format!("scalebricks_graph_{name}")), Some(&value), "{name}");
    }
    let page = include_str!("../../../../docs/click.md");
    assert!(families.iter().all(|family| page.contains(&format!("`{family}"))), "{families:?}");
}
