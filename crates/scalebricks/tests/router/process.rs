//! The process of a node between two kernels, and the commands that ask it.

use super::{Namespaces, ip};
use crate::harness::{refused, said, until};
use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command};

/// A process; killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = (self.0.kill(), self.0.wait());
    }
}

/// A node alone with two ports between the kernels of two hosts: ping through it, routes from a file, and the commands.
#[test]
fn a_node_routes_between_two_kernels_and_answers_its_commands() {
    let net = || {
        Command::new("ping").arg("-V").output().map_err(|error| format!("ping: {error}"))?;
        let net = Namespaces::new("router", &["r", "a", "b"])?;
        let router = &net.0[0];
        for (at, link) in [(1, "192.0.2"), (2, "198.51.100")] {
            let host = &net.0[at];
            ip(&format!("-n {router} link add r{at} type veth peer name host netns {host}"))?;
            ip(&format!("-n {router} link set r{at} addrgenmode none up"))?;
            ip(&format!("-n {host} link set host addrgenmode none up"))?;
            ip(&format!("-n {host} addr add {link}.9/24 dev host"))?;
            ip(&format!("-n {host} route add default via {link}.1"))?;
        }
        ip(&format!("-n {} addr add 203.0.113.1/32 dev lo", net.0[2]))?;
        Ok(net)
    };
    let net: Namespaces = match net() {
        Ok(net) => net,
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let error: String = error;
            let _ =
                writeln!(io::stderr(), "skipped: no network namespace, or no ping ({error}); run as root");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file(
        "node.toml",
        "[router]\nnode = 0\nnodes = 1\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nport_rate = \"1G\"\n\
         admin = \"router.sock\"\n[control]\nengine = \"directory:log\"\nname = \"r\"\n[feeder]\nroutes = \"routes\"\n\
         [[port]]\ndevice = \"net_af_packet0,iface=r1\"\naddresses = [\"192.0.2.1/24\"]\n\
         [[port]]\ndevice = \"net_af_packet1,iface=r2\"\naddresses = [\"198.51.100.1/24\"]\n",
    );
    file("routes", "# none yet\n");
    let node = Command::new("ip")
        .args(["netns", "exec", &net.0[0], env!("CARGO_BIN_EXE_scalebricks")])
        .args(["router", "node", "--config", "node.toml"])
        .current_dir(folder.path())
        .spawn();
    let node = Process(node.unwrap());
    let ping = |host: usize, to: &str| {
        let ping = ["netns", "exec", &net.0[host], "ping", "-n", "-c", "1", "-W", "1", to];
        Command::new("ip").args(ping).output().unwrap().status.success()
    };
    until("a ping passes", || ping(1, "198.51.100.9"));
    until("the node answers pings", || ping(2, "198.51.100.1"));
    assert!(!ping(1, "203.0.113.1"), "there is no route yet");

    let socket = ["--socket", "router.sock"];
    let ask = |command: &[&str]| said(folder.path(), &[&["router"], command, &socket].concat());
    let status = ask(&["status"]);
    assert!(status.contains("0 of 1, flowlets") && status.contains("2 IPv4, 0 IPv6"), "{status}");
    file("routes", "203.0.113.0/24 via 198.51.100.9\n");
    let pid = node.0.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    until("the new route is used", || ping(1, "203.0.113.1"));
    let routes = ask(&["routes", "203.0.113.77"]);
    assert!(routes.contains("203.0.113.0/24") && routes.contains("198.51.100.9"), "{routes}");
    assert!(!routes.contains("192.0.2.0/24"), "{routes}");
    let all = ask(&["routes", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all["routes"].as_array().unwrap().len(), 3, "{all}");
    assert_eq!(all["routes"][2]["paths"][0]["feeder"], "static of node 0", "{all}");
    let hops = ask(&["next-hops"]);
    assert!(hops.contains("198.51.100.9"), "{hops}");
    assert!(ask(&["links"]).contains("reachable"));
    let (_, error) = refused(folder.path(), &["router", "routes", "nowhere", "--socket", "router.sock"]);
    assert!(error.contains("nowhere"), "{error}");
    // It stops when it is asked to.
    let mut node = node;
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(node.0.wait().unwrap().success());
}
