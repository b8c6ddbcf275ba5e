//! Tests of the configuration: accepted files, and the problems of others.

use super::*;
use scalebricks_cluster::secret::SecretAt;
use scalebricks_control::lease::LeaseTimes;

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
fn a_good_file_is_accepted_with_defaults() {
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
        ("ddeeff\"", "ddeef\"", "line 4: cluster.secret: not 32 hexadecimal digits"),
        (
            "\"192.0.2.2/24\"",
            "\"192.0.2.2\"",
            "line 18: port.addresses: '192.0.2.2' is not an address with a prefix length, like 192.0.2.1/24",
        ),
        (
            "\"02:00:",
            "\"01:00:",
            "line 28: port.mac: '01:00:00:00:00:07' is not a unicast address like 02:00:00:00:00:01",
        ),
        (
            "role = \"base-station\"",
            "role = \"internet\"",
            "line 21: port.role: a second port has the role 'internet'",
        ),
    ] {
        assert_eq!(problem(from, to)[0], expected);
    }
}

#[test]
fn workers_memory_and_routes_are_parsed() {
    let more = r#"
[worker]
cores = [2, 3]
mode = "split"
idle = "spin"

[dpdk]
memory = "huge-pages"
packets = 65535

[admin_tcp]
listen = "127.0.0.1:9443"
certificate = "a.crt"
key = "a.key"
token = "token"

[[route]]
port = "internet"
to = "198.51.100.0/24"
via = ["192.0.2.3", "192.0.2.4"]
"#;
    let file = NodeFile::parse(&format!("{GOOD}vlan = 7\n{more}")).unwrap();
    assert_eq!((file.workers.cores.clone(), file.workers.count()), (vec![2, 3], 2));
    assert_eq!((file.workers.layout, file.workers.idle), (Layout::Split, Idle::Spin));
    assert!(file.dpdk.huge_pages);
    assert_eq!(file.admin_tcp.unwrap().listen, "127.0.0.1:9443".parse().unwrap());
    assert_eq!(
        file.ports.each_ref().map(|port| (port.vlan, port.mtu)),
        [(None, 1500), (None, 1600), (Some(7), 1600)]
    );
    let routes: Vec<_> =
        file.routes.iter().map(|route| (route.to.0.to_string(), route.to.1, route.via.len())).collect();
    assert_eq!(routes, [("0.0.0.0".to_owned(), 0, 1), ("198.51.100.0".to_owned(), 24, 2)]);
    let plain = NodeFile::parse(GOOD).unwrap();
    assert_eq!((plain.workers.count(), plain.workers.idle), (1, Idle::Sleep { us: 50 }));
    let probe_every = |more: &str| NodeFile::parse(&format!("{GOOD}{more}")).unwrap().probe_every;
    assert_eq!(probe_every(""), Some(Duration::from_millis(100)));
    assert_eq!(probe_every("[fabric]\nprobe_ms = 20"), Some(Duration::from_millis(20)));
    assert_eq!(probe_every("[fabric]\nprobe_ms = 0"), None);
    assert_eq!(plain.admin, std::path::Path::new("/run/scalebricks/node2.sock"));
}

#[test]
fn invalid_values_are_named() {
    for (more, expected) in [
        ("[fabric]\nprobe_ms = 19", "fabric.probe_ms: 19 is not 0, or 20 to 150"),
        ("[fabric]\nprobe_ms = 151", "fabric.probe_ms: 151 is not 0, or 20 to 150"),
        ("[worker]\nsleep_us = 0", "worker.sleep_us: 0 is not 1 to 100000"),
        ("[worker]\ncores = [1, 1]", "worker.cores: a core occurs twice; each core has one worker"),
        (
            "[worker]\ncores = [1]\nmode = \"split\"",
            "worker.cores: the mode 'split' needs two cores: the external one, then the internal one",
        ),
        ("[dpdk]\npackets = 100", "dpdk.packets: 100 is not 2048 or more"),
        ("[dpdk]\nmemory_mib = 1", "dpdk.memory_mib: 1 is too little for 16383 packets, which need 55"),
        (
            "[[route]]\nport = \"fabric\"\nto = \"10.0.0.0/8\"\nvia = []",
            "route.port: the fabric has no routes: use 'internet' or 'base-station'",
        ),
        (
            "[[route]]\nport = \"internet\"\nto = \"10.0.0.0/8\"\nvia = [\"203.0.113.1\"]",
            "route.via: 203.0.113.1 is in none of the port's networks of this family",
        ),
    ] {
        let problems = NodeFile::parse(&format!("{GOOD}\n{more}\n")).unwrap_err();
        assert!(problems[0].to_string().ends_with(expected), "{}", problems[0]);
    }
    for (from, to, expected) in [
        ("[\"192.0.2.1\"]", "[\"192.0.3.1\"]", "port.gateways: 192.0.3.1 is in none of the port's networks"),
        ("mac = ", "vlan = 4095\nmac = ", "port.vlan: 4095 is not 1 to 4094"),
        ("mac = ", "mtu = 1500\nmac = ", "port.mtu: 1500 is less than 1600, which packets may need here"),
        (
            "net_af_packet1,iface=ran",
            "net_af_packet0,iface=inet",
            "port.device: 'net_af_packet0' is used twice; ports that share a device need a 'vlan' each",
        ),
    ] {
        let problems = problem(from, to);
        assert!(problems.iter().any(|problem| problem.ends_with(expected)), "{problems:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = GOOD.replace("nodes = 4", "nodes = 999").replace("id = 2", "id = 1000");
    let lines: Vec<usize> = NodeFile::parse(&text).unwrap_err().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 9]);
}

#[test]
fn errors_of_toml_have_their_line() {
    for (from, to, line, words) in [
        ("nodes = 4", "nodes = \"four\"", 3, "four"),
        ("nodes = 4", "nodse = 4", 3, "nodse"),
        ("role = \"fabric\"", "role = \"switch\"", 26, "switch"),
        ("gateway = \"10.255.0.1\"\n", "", 2, "gateway"),
        ("[node]", "[node", 8, ""),
    ] {
        let found = problem(from, to);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&format!("line {line}: ")) && found[0].contains(words), "{}", found[0]);
    }
}

const CONTROL: &str = r#"
[control]
engine = "directory:/x/log"
name = "berlin"
listen = "10.254.0.12:7400"
key = "cluster.key"
flows = 1_000_000

[[control.peer]]
node = 0
address = "10.254.0.10:7400"
"#;

fn controlled(from: &str, to: &str) -> Result<NodeFile, Vec<String>> {
    let text = format!("{}{CONTROL}", GOOD.replace("flows = \"flows.csv\"\n", ""));
    assert!(text.contains(from));
    let problems = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
    NodeFile::parse(&text.replacen(from, to, 1)).map_err(problems)
}

#[test]
fn flows_may_come_from_the_control_plane() {
    let control = controlled("", "").unwrap().control.unwrap();
    assert_eq!(control.engine, EngineAt::Directory("/x/log".into()));
    assert_eq!((control.name.as_str(), control.flows, control.partitions.get()), ("berlin", 1_000_000, 64));
    assert_eq!(control.peers[&NodeId::new(0)], "10.254.0.10:7400".parse().unwrap());
    assert_eq!(control.lease, LeaseTimes::default());
    let lease = "flows = 9\nlease = { claim_ms = 2000, forward_ms = 20000 }";
    let lease = controlled("flows = 1_000_000", lease).unwrap().control.unwrap().lease;
    assert_eq!((lease.claim.as_millis(), lease.forward.as_millis()), (2_000, 20_000));
    let control = controlled("directory:/x/log", "directory:log").unwrap().control.unwrap();
    let engine = control.engine.with_files(|file| std::path::Path::new("/etc/x").join(file));
    assert_eq!(engine, EngineAt::Directory("/etc/x/log".into()));
    let to = "engine = \"nats://a:4222, nats://b:4222\"\ncredentials = \"x.creds\"";
    let control = controlled("engine = \"directory:/x/log\"", to).unwrap().control.unwrap();
    let EngineAt::Nats(nats) = control.engine else { panic!("{:?}", control.engine) };
    assert_eq!((nats.servers.len(), nats.replicas), (2, 3));
    assert_eq!(nats.auth, NatsAuth::Credentials("x.creds".into()));
}

#[test]
fn one_way_of_authentication_is_allowed() {
    let auth = |lines: &str| {
        let to = format!("engine = \"nats://a:4222\"\n{lines}");
        let control = controlled("engine = \"directory:/x/log\"", &to).map(|file| file.control.unwrap());
        control.map(|control| {
            match control.engine.with_files(|file| std::path::Path::new("/etc/x").join(file)) {
                EngineAt::Nats(nats) => (nats.sends_secrets_in_clear(), nats.auth),
                other @ EngineAt::Directory(_) => panic!("{other:?}"),
            }
        })
    };
    let (file, env) = (SecretAt::File("/etc/x/secret".into()), SecretAt::Env("SECRET".to_owned()));
    let password = |password| NatsAuth::Password { user: "u".to_owned(), password };
    assert_eq!(auth(""), Ok((false, NatsAuth::None)));
    let with_file = "user = \"u\"\npassword = { file = \"secret\" }";
    assert_eq!(auth(with_file), Ok((true, password(file.clone()))));
    assert_eq!(auth(&format!("{with_file}\ntls = {{}}")), Ok((false, password(file.clone()))));
    assert_eq!(auth("user = \"u\"\npassword = { env = \"SECRET\" }"), Ok((true, password(env))));
    assert_eq!(auth("token = { file = \"secret\" }"), Ok((true, NatsAuth::Token(file))));
    let credentials = NatsAuth::Credentials("/etc/x/a.creds".into());
    assert_eq!(auth("credentials = \"a.creds\""), Ok((false, credentials)));
    assert!(
        auth(&format!("{with_file}\ncredentials = \"a.creds\"")).unwrap_err()[0]
            .contains("servers ask for one of")
    );
}

#[test]
fn addresses_of_other_nodes_are_taken_over_unless_that_is_off() {
    let control = |more: &str| {
        let to = format!("node = 0\n{more}");
        controlled("node = 0", &to).map(|file| file.control.unwrap().takeover)
    };
    assert_eq!(control(""), Ok(None));
    let given = "internet = [\"192.0.2.10\", \"2001:db8::10\"]";
    let addresses = ["192.0.2.10", "2001:db8::10"].map(|address| (Role::Internet, address.parse().unwrap()));
    let addresses = [(NodeId::new(0), addresses.to_vec())].into();
    assert_eq!(control(given), Ok(Some(TakeoverFile { addresses })));
    let off = format!("{given}\n").replace("internet", "address = \"10.254.0.10:7400\"\ninternet");
    let text = CONTROL
        .replace("address = \"10.254.0.10:7400\"\n", &off)
        .replace("flows =", "takeover = false\nflows =");
    let text = format!("{}{text}", GOOD.replace("flows = \"flows.csv\"\n", ""));
    assert_eq!(NodeFile::parse(&text).unwrap().control.unwrap().takeover, None);
    for (more, expected) in [
        (
            "internet = [\"192.0.3.10\"]",
            "192.0.3.10 is not a host address in the networks of this node's port",
        ),
        (
            "internet = [\"2001:db8:1::1\"]",
            "2001:db8:1::1 is not a host address in the networks of this node's port",
        ),
        ("internet = [\"224.0.0.1\"]", "224.0.0.1 is not a host address in the networks of this node's port"),
        (
            "base_station = [\"192.0.2.10\"]",
            "192.0.2.10 is not a host address in the networks of this node's port",
        ),
        ("internet = [\"192.0.2.2\"]", "192.0.2.2 is used twice: by this node, a next hop or another peer"),
        ("internet = [\"192.0.2.1\"]", "192.0.2.1 is used twice: by this node, a next hop or another peer"),
        (
            "internet = [\"192.0.2.9\", \"192.0.2.9\"]",
            "192.0.2.9 is used twice: by this node, a next hop or another peer",
        ),
    ] {
        let problems = control(more).unwrap_err();
        assert!(problems[0].ends_with(expected), "{more}: {problems:?}");
    }
    let problems = controlled("flows = 1_000_000", "flows = 9\ntakeover = true").unwrap_err();
    assert!(problems[0].contains("control.takeover: no peer has addresses"), "{problems:?}");
}

#[test]
fn problems_of_the_control_plane_are_named() {
    for (from, to, expected) in [
        ("id = 2", "id = 2\nflows = \"flows.csv\"", "set one of node.flows"),
        ("nodes = 4", "nodes = 4\narchitecture = \"vlb\"", "supports only the architecture scalebricks"),
        ("directory:/x/log", "tcp:127.0.0.1:1", "were removed. Write nats://HOST:PORT"),
        ("directory:/x/log", "unix:/run/x/engine.sock", "were removed. Write nats://HOST:PORT"),
        ("directory:/x/log", "somewhere", "directory:PATH for a single process"),
        ("flows = 1_000_000", "flows = 0", "control.flows: 0 is not 1 or more"),
        ("flows = 1_000_000", "flows = 9\npartitions = 3", "control.partitions: 3 is not a power of two"),
        ("nodes = 4", "nodes = 4\ngpt = \"bloom\"", "cluster.gpt: 'bloom' is not 'setsep' or 'othello'"),
        (
            "nodes = 4",
            "nodes = 4\narchitecture = \"vlb\"\ngpt = \"othello\"",
            "only the architecture scalebricks",
        ),
        (
            "flows = 1_000_000",
            "flows = 9\nversion = 99",
            "control.version: this software knows versions 4 to 4",
        ),
        ("flows = 1_000_000", "flows = 9\nreplicas = 3", "for an engine at nats:// only"),
        ("flows = 1_000_000", "flows = 9\nlease = { claim_ms = 1999 }", "control.lease.claim_ms: "),
        ("flows = 1_000_000", "flows = 9\nlease = { forward_ms = 20001 }", "control.lease.forward_ms: "),
        (
            "flows = 1_000_000",
            "flows = 9\nlease = { forward_ms = 2500 }",
            "claim_ms is 3000, forward_ms 2500",
        ),
        (
            "flows = 1_000_000",
            "flows = 9\nlease = { claim_ms = 11000 }",
            "claim_ms is 11000, forward_ms 10000",
        ),
        ("node = 0", "node = 2", "2 is not another node of the cluster"),
        ("node = 0", "node = 4", "4 is not another node of the cluster"),
    ] {
        let problems = controlled(from, to).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{to}: {problems:?}");
    }
    let neither = NodeFile::parse(&GOOD.replace("flows = \"flows.csv\"\n", "")).unwrap_err();
    assert!(neither[0].to_string().contains("set one of node.flows"), "{neither:?}");
}

/// A good file with this section, and without base stations.
fn with_appliance(section: &str) -> Result<NodeFile, Vec<String>> {
    let stations = "[[base_station]]\naddress = \"10.9.0.1\"\n";
    assert!(GOOD.contains(stations));
    let parsed = NodeFile::parse(&format!("{}[appliance]\n{section}", GOOD.replacen(stations, "", 1)));
    parsed.map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn an_appliance_brings_its_keys() {
    use scalebricks_apps::gateway::Appliance;
    let file = with_appliance("kind = \"firewall\"").unwrap();
    assert_eq!(file.profile, KeyProfile::Inside);
    let Some(ApplianceFile::BuiltIn(text)) = file.appliance else { panic!("a firewall is built in") };
    Appliance::check::<scalebricks_io::Packet>(&text).unwrap();
    let nat = "kind = \"nat44\"\ninside = \"10.1.0.0/24\"\npublic = \"192.0.2.0/30\"";
    let file = with_appliance(nat).unwrap();
    assert_eq!(file.profile.to_string(), "nat44:10.1.0.0/24:192.0.2.0/30:1024:512");
    let file = with_appliance(&format!("{nat}\nblock = 256\nfile = \"nat.click\"")).unwrap();
    assert_eq!(file.appliance, Some(ApplianceFile::File("nat.click".into())));
    assert_eq!(with_appliance("kind = \"gtp\"").unwrap().appliance, None);
}

#[test]
fn a_wrong_appliance_is_refused() {
    for (section, what) in [
        ("kind = \"router\"", "appliance.kind: 'router' is not 'gtp', 'firewall' or 'nat44'"),
        ("kind = \"nat44\"", "appliance.inside: a NAT needs it"),
        (
            "kind = \"nat44\"\ninside = \"10.1.0.0/16\"\npublic = \"192.0.2.0/30\"",
            "appliance.block: 65536 inside addresses need more than the 504 blocks",
        ),
        ("kind = \"gtp\"\noptions = \"x\"", "appliance: a gateway of tunnels has no other keys here"),
        ("kind = \"firewall\"\n[worker]\nmode = \"split\"", "appliance: an appliance has one worker"),
    ] {
        let problems = with_appliance(section).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(what)), "{section}: {problems:?}");
    }
}
