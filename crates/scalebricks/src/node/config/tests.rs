//! What is understood, and what is said of the rest.

use super::*;

const GOOD: &str = r#"
[cluster]
nodes = 4
secret = "00112233445566778899aabbccddeeff"
gateway = "10.255.0.1"
gateway_v6 = "fd00:5b::1"

[node]
id = 2
flows = "flows.csv"

[[base_station]]
address = "10.9.0.1"

[[port]]
role = "internet"
device = "net_af_packet0,iface=inet"
addresses = ["192.0.2.2/24", "2001:db8::2/64"]
gateways = ["192.0.2.1"]

[[port]]
role = "base-station"
device = "net_af_packet1,iface=ran"

[[port]]
role = "fabric"
device = "net_af_packet2,iface=fab"
mac = "02:00:00:00:00:07"
"#;

fn problem(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from));
    let problems = NodeFile::parse(&GOOD.replacen(from, to, 1)).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_file_is_what_it_says_and_the_rest_has_defaults() {
    let file = NodeFile::parse(GOOD).unwrap();
    assert_eq!((file.size.get(), file.id, file.architecture), (4, NodeId::new(2), Architecture::ScaleBricks));
    assert_eq!((file.profile, file.base_station_mtu), (KeyProfile::Flow5, BASE_STATION_MTU));
    assert!(file.verify_ipv4_checksum);
    assert_eq!(file.seed, HashSeed::new(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff));
    assert_eq!(file.ports[0].addresses[1], ("2001:db8::2".parse().unwrap(), 64));
    assert_eq!(file.ports[1].role, Role::BaseStation);
    assert_eq!(file.ports[2].mac, Some(MacAddr([2, 0, 0, 0, 0, 7])));
}

#[test]
fn problems_name_line_key_and_what_is_allowed() {
    for (from, to, expected) in [
        ("nodes = 4", "nodes = 0", "line 3: cluster.nodes: 0 is not 1 to 256"),
        ("id = 2", "id = 4", "line 9: node.id: 4 in a cluster of 4 (numbered from 0)"),
        ("ddeeff\"", "ddeef\"", "line 4: cluster.secret: not 32 hexadecimal digits, the same at all nodes"),
        (
            "\"192.0.2.2/24\"",
            "\"192.0.2.2\"",
            "line 18: port.addresses: '192.0.2.2' is not an address with its network, like 192.0.2.1/24",
        ),
        (
            "\"02:00:",
            "\"01:00:",
            "line 28: port.mac: '01:00:00:00:00:07' is not a unicast address like 02:00:00:00:00:01",
        ),
        ("role = \"base-station\"", "role = \"internet\"", "line 21: port.role: a second port is 'internet'"),
    ] {
        assert_eq!(problem(from, to)[0], expected);
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let text = GOOD.replace("nodes = 4", "nodes = 999").replace("id = 2", "id = 1000");
    let told: Vec<usize> = NodeFile::parse(&text).unwrap_err().iter().map(|problem| problem.line).collect();
    assert_eq!(told, [3, 9]);
}

#[test]
fn what_toml_refuses_is_named_too() {
    for (from, to, line, words) in [
        ("nodes = 4", "nodes = \"four\"", 3, "four"),
        ("nodes = 4", "nodse = 4", 3, "nodse"),
        ("role = \"fabric\"", "role = \"switch\"", 26, "switch"),
        ("gateway = \"10.255.0.1\"\n", "", 2, "gateway"),
        ("[node]", "[node", 8, ""),
    ] {
        let told = problem(from, to);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with(&format!("line {line}: ")) && told[0].contains(words), "{}", told[0]);
    }
}
