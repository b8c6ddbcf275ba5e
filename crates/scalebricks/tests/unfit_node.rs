//! A node as a process on real links, which fail one after the other. It makes network namespaces, which takes rights; where they are
//! missing it says so and passes, unless `REQUIRE_NAMESPACES` is set.

#![cfg(feature = "dpdk")]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

use scalebricks_admin::client::{Client, Target};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
[cluster]
nodes = 1
secret = "00112233445566778899aabbccddeeff"
gateway = "10.255.0.1"
gateway_v6 = "fd00:5b::1"
key = "ue"
[node]
id = 0
flows = "flows.csv"
admin = "node.sock"
drain_ms = 10
[dpdk]
memory = "ordinary"
packets = 4095
[[base_station]]
address = "10.9.0.1"
[[port]]
role = "internet"
device = "net_af_packet0,iface=n_in"
addresses = ["192.0.2.10/24"]
gateways = ["192.0.2.1"]
[[port]]
role = "base-station"
device = "net_af_packet1,iface=n_ran"
addresses = ["10.9.0.10/24"]
[[port]]
role = "fabric"
device = "net_af_packet2,iface=n_fab"
"#;

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    let said = || format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(()) } else { Err(said()) }
}

/// Two network namespaces, the node's and that of all it speaks to; gone with this.
struct Net {
    node: String,
    peers: String,
}

impl Net {
    fn new() -> Result<Self, String> {
        let pid = std::process::id();
        let net = Self { node: format!("sb-unfit-{pid}-n"), peers: format!("sb-unfit-{pid}-p") };
        ip(&format!("netns add {}", net.node))?;
        ip(&format!("netns add {}", net.peers))?;
        for link in ["in", "ran", "fab"] {
            let Self { node, peers } = &net;
            ip(&format!("-n {node} link add n_{link} type veth peer name p_{link} netns {peers}"))?;
            ip(&format!("-n {node} link set n_{link} addrgenmode none up"))?;
            ip(&format!("-n {peers} link set p_{link} up"))?;
        }
        net.at_peers("addr add 192.0.2.1/24 dev p_in");
        net.at_peers("addr add 10.9.0.1/24 dev p_ran");
        Ok(net)
    }

    fn at_peers(&self, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.peers)).unwrap();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in [&self.node, &self.peers] {
            let _gone = ip(&format!("netns del {namespace}"));
        }
    }
}

/// The node's process; killed with this.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _gone = (self.0.kill(), self.0.wait());
    }
}

/// Waits until `/readyz` says this of a reason.
fn wait(socket: &Path, what: &str, wanted: impl Fn(&Result<String, String>) -> bool) {
    let client = Client::new(Target::Unix(socket.to_owned()), Duration::from_secs(5)).unwrap();
    let began = Instant::now();
    loop {
        let said = client.text("/readyz").map_err(|error| error.to_string());
        if wanted(&said) {
            eprintln!("{what} after {:.2} s: {said:?}", began.elapsed().as_secs_f64());
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {said:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_whose_links_and_next_hops_fail_says_so_and_is_ready_again_when_they_are_back() {
    let net = match Net::new() {
        Ok(net) => net,
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let _ = writeln!(io::stderr(), "skipped: no network namespace ({error}); run as root");
            return;
        }
        Err(error) => panic!("no network namespace: {error}"),
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("node.toml"), CONFIG).unwrap();
    let flows = "ue,node,base_station,uplink_teid,downlink_teid\n10.1.0.1,0,10.9.0.1,1,1\n";
    fs::write(dir.path().join("flows.csv"), flows).unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let node = Command::new("ip")
        .args(["netns", "exec", &net.node, env!("CARGO_BIN_EXE_scalebricks"), "node", "run"])
        .arg(dir.path().join("node.toml"))
        .stderr(log)
        .stdout(Stdio::null())
        .spawn();
    let _node = Node(node.unwrap());
    let socket = dir.path().join("node.sock");
    let is_ready = |said: &Result<String, String>| said.is_ok();
    let is_unfit = |reason: &'static str| {
        move |said: &Result<String, String>| {
            said.as_ref().is_err_and(|why| why.contains(&format!("\"{reason}\"")))
        }
    };
    wait(&socket, "ready", is_ready);
    // Next hops are watched once they have answered.
    let client = Client::new(Target::Unix(socket.clone()), Duration::from_secs(5)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while client.status().unwrap().neighbours.iter().any(|neighbour| neighbour.mac.is_none()) {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    for (down, up, reason) in [
        ("link set p_in down", "link set p_in up", "internet_link"),
        ("link set p_ran down", "link set p_ran up", "ran_link"),
        ("link set p_fab down", "link set p_fab up", "fabric_link"),
        ("addr del 10.9.0.1/24 dev p_ran", "addr add 10.9.0.1/24 dev p_ran", "ran_next_hop"),
        ("addr del 192.0.2.1/24 dev p_in", "addr add 192.0.2.1/24 dev p_in", "internet_next_hop"),
    ] {
        net.at_peers(down);
        wait(&socket, reason, is_unfit(reason));
        net.at_peers(up);
        wait(&socket, "ready", is_ready);
    }
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    for words in
        ["the node is unfit: the internet link is down", "the node is unfit: no answer from 10.9.0.1"]
    {
        assert!(log.contains(words), "{words} in {log}");
    }
}
