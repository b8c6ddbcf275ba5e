//! One run reports every mistake of a file, with its line; and what is only a consequence is not reported.

use crate::node::config::NodeFile;
use crate::router::node::config::RouterFile;
use crate::switch::config::SwitchFile;
use proptest::prelude::*;

const NODE: &str = include_str!("../../../../examples/node/node1.toml");
const SWITCH: &str = include_str!("../../../../examples/switch/switch.toml");
const ROUTER: &str = include_str!("../../../../examples/router/node.toml");

fn of_node(text: &str) -> Vec<String> {
    NodeFile::parse(text).map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

fn of_switch(text: &str) -> Vec<String> {
    SwitchFile::parse(text).map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

fn of_router(text: &str) -> Vec<String> {
    RouterFile::parse(text).map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn every_kind_of_mistake_is_reported_in_one_run() {
    let text = r#"[cluster]
nodes = "four"
secret = "hunter2"
gateway = "10.255.0"
gateway_v6 = "fd00:5b::1"
keys = "ue"
oversize = "fragment"
gpt = "setsepp"
base_station_mtu = 70000
verify_ipv4_checksum = 1

[node]
id = 3
colour = "red"

[worker]
cores = [1, "two"]
idle = 7

[control]
engine = "nats://127.0.0.1:4222"
name = "berlin"
listen = "10.254.0.10"
password = "hunter2"
token = { path = "x" }
flows = 0
lease = { claim_ms = 100 }

[control.peer]
node = 1
address = "10.254.0.11:7400"

[[base_station]]
address = "10.9.0.10"

[[port]]
role = "internet"
device = "net_af_xpd0,iface=eth1"
mac = "02:00:00:00:00:01"
adresses = ["192.0.2.2/24", "192.0.2.2/24"]
gateways = ["192.0.2.2", "198.51.100.1"]

[[port]]
role = "base-station"
device = "net_af_packet1"
mac = "02:00:00:00:00:01"
addresses = ["10.9.0.10/24", "10.9.0.11"]

[[port]]
role = "fabric"
vlan = 4095

[admin_tcp]
listen = "127.0.0.1:9443"
certificate = "a.crt"
"#;
    let expected = [
        "line 2: cluster.nodes: 'four' is not an integer, 1 to 256",
        "line 3: cluster.secret: not 32 hexadecimal digits",
        "line 4: cluster.gateway: '10.255.0' is not an IPv4 address, like 192.0.2.1",
        "line 6: cluster.keys: unknown; did you mean key?",
        "line 7: cluster.oversize: 'fragment' is not 'fragment-outer' or 'icmp'",
        "line 8: cluster.gpt: 'setsepp' is not 'setsep' or 'othello'; did you mean 'setsep'?",
        "line 9: cluster.base_station_mtu: 70000 is not 576 to 65535",
        "line 10: cluster.verify_ipv4_checksum: 1 is not true or false",
        "line 14: node.colour: unknown; node has admin, drain_ms, flows, id",
        "line 17: worker.cores: 'two' is not an integer, 0 to 65535",
        "line 18: worker.idle: 7 is not 'sleep' or 'spin'",
        "line 20: control.key: missing; it must be a path",
        "line 23: control.listen: '10.254.0.10' is not ADDRESS:PORT, like 192.0.2.1:7400 or [2001:db8::1]:7400",
        "line 24: control.password: a secret must not be in this file: write { file = \"PATH\" } or { env = \"NAME\" }; \
         only its owner may read the file",
        "line 25: control.token: not { file = \"PATH\" } or { env = \"NAME\" }",
        "line 26: control.flows: 0 is not 1 or more",
        "line 27: control.lease.claim_ms: 100 is not 2000 or more",
        "line 29: control.peer: write [[control.peer]]: there may be several such sections",
        "line 34: base_station.address: 10.9.0.10 is an address of this node's port",
        "line 38: port.device: 'net_af_xpd0,iface=eth1' is not a PCI address (0000:01:00.0) or a virtual device of DPDK \
         (net_af_packet0,iface=eth1); did you mean 'net_af_xdp0'?",
        "line 40: port.adresses: unknown; did you mean addresses?",
        "line 40: port.addresses: 192.0.2.2 occurs twice",
        "line 41: port.gateways: 192.0.2.2 is the port's own address",
        "line 41: port.gateways: 198.51.100.1 is in none of the port's networks",
        "line 46: port.mac: '02:00:00:00:00:01' occurs twice; each device has its own address",
        "line 47: port.addresses: '10.9.0.11' is not an address with a prefix length, like 192.0.2.1/24",
        "line 49: port.device: missing; it must be a PCI address (0000:01:00.0) or a virtual device of DPDK \
         (net_af_packet0,iface=eth1)",
        "line 51: port.vlan: 4095 is not 1 to 4094",
        "line 53: admin_tcp.key: missing; it must be a path",
        "line 53: admin_tcp.token: missing; it must be a path",
    ];
    let found = of_node(text);
    for (at, expected) in expected.iter().enumerate() {
        assert_eq!(found.get(at).map(String::as_str), Some(*expected), "{}", found.join("\n"));
    }
    // The checks of several keys run beside them: a password without a user, and two ways to log in.
    let rest: Vec<&String> = found.iter().filter(|problem| !expected.contains(&problem.as_str())).collect();
    assert!(rest.iter().all(|problem| problem.contains("control.")), "{rest:?}");
    assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:?}");
}

#[test]
fn what_follows_from_a_wrong_value_is_not_reported() {
    for (from, to, expected) in [
        (
            "role = \"fabric\"",
            "role = \"fabrik\"",
            "is not 'internet', 'base-station' or 'fabric'; did you mean 'fabric'?",
        ),
        ("nodes = 4", "nodes = 0", "line 4: cluster.nodes: 0 is not 1 to 256"),
        ("nodes = 4", "", "line 3: cluster.nodes: missing; it must be an integer, 1 to 256"),
        ("\"192.0.2.11/24\"", "\"192.0.2.11\"", "'192.0.2.11' is not an address with a prefix length"),
        ("addresses = [\"192", "adresses = [\"192", "port.adresses: unknown; did you mean addresses?"),
        ("[cluster]", "[clutser]", "line 3: clutser: unknown; did you mean cluster?"),
    ] {
        assert!(NODE.contains(from), "{from}");
        let found = of_node(&NODE.replacen(from, to, 1));
        assert!(found.len() == 1 && found[0].contains(expected), "{to}: {found:?}");
    }
    let found = of_node("");
    for section in ["cluster", "node"] {
        let missing = format!("line 1: {section}: the section is missing; it needs ");
        assert!(found.iter().any(|problem| problem.starts_with(&missing)), "{found:?}");
    }
}

#[test]
fn a_switch_and_a_router_are_read_by_the_same_rules() {
    let switch = SWITCH
        .replacen("kind = \"mac\"", "kind = \"macs\"", 1)
        .replacen("frames_per_s", "frame_per_s", 1)
        .replacen("net_ring0", "net_rign0", 1);
    let found = of_switch(&switch);
    assert!(found.len() == 3, "{found:?}");
    assert!(found[0].starts_with("line 8: names.kind: 'macs' is not 'mac', 'ipv4', "), "{found:?}");
    assert!(found[1].contains("storm.frame_per_s: unknown; did you mean frames_per_s?"), "{found:?}");
    assert!(found[2].contains("did you mean 'net_ring0'?"), "{found:?}");
    let router = ROUTER.replacen("port_rate", "port_rat", 1).replacen("nodes = 4", "nodes = 400", 1);
    let found = of_router(&router);
    assert!(found.len() == 2 && found.iter().all(|problem| problem.contains("router.")), "{found:?}");
}

#[test]
fn all_errors_of_the_syntax_are_reported() {
    let found = of_node("[cluster]\nnodes = \nsecret = \"x\n[node\nid = 1\n");
    let lines: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
    for line in ["line 2", "line 3", "line 4"] {
        assert!(lines.contains(&line), "{found:?}");
    }
}

/// A mistake in one line of a good file, and how its report begins after the number of the line.
const MISTAKES: [(&str, &str, &str); 9] = [
    ("nodes = 4", "nodes = 4.5", "cluster.nodes: 4.5 is not"),
    ("gateway = \"10.255.0.1\"", "gateway = 1", "cluster.gateway: 1 is not"),
    ("key = \"ue\"", "key = \"eu\"", "cluster.key: 'eu' is not"),
    ("name = \"example\"", "names = \"example\"", "control.names: unknown"),
    ("flows = 100_000", "flows = -1", "control.flows: -1 is not"),
    (
        "base_station = [\"10.9.0.13\"]",
        "base_station = [\"10.9.0\"]",
        "control.peer.base_station: '10.9.0' is not",
    ),
    ("gateways = [\"192.0.2.1\", ", "gateways = [\"192.0.3.1\", ", "port.gateways: 192.0.3.1 is in none"),
    ("device = \"net_af_packet1", "device = \"net_ap_facket1", "port.device: 'net_ap_facket1"),
    ("role = \"fabric\"", "roles = \"fabric\"", "port.roles: unknown"),
];

proptest! {
    /// Any set of mistakes is reported completely, each in its line, and nothing else.
    #[test]
    fn any_mistakes_are_all_reported(chosen in proptest::sample::subsequence(MISTAKES.to_vec(), 0..=MISTAKES.len()), blank in 0..3_usize) {
        let mut text = "\n".repeat(blank) + NODE;
        for (from, to, _) in &chosen {
            prop_assert!(text.contains(from), "{}", from);
            text = text.replacen(from, to, 1);
        }
        let line = |to: &str| text[..text.find(to).unwrap()].matches('\n').count() + 1;
        let mut expected: Vec<(usize, &str)> = chosen.iter().map(|(_, to, what)| (line(to), *what)).collect();
        expected.sort_unstable();
        let found = of_node(&text);
        prop_assert_eq!(found.len(), expected.len(), "{:?}", found);
        for (found, (line, what)) in found.iter().zip(expected) {
            prop_assert!(found.starts_with(&format!("line {line}: {what}")), "{} {}", line, found);
        }
    }
}
