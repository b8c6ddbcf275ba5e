//! The example's IP router over interfaces, by DPDK and without it, between the stacks of two network namespaces. Creating namespaces requires rights;
//! without them or `ping` the test is skipped, unless `REQUIRE_NAMESPACES` is set.

use super::{element, example};
use serde_json::Value;
use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    let said = || format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(()) } else { Err(said()) }
}

/// The namespaces of the router and two hosts with their links; removed on drop.
struct Net {
    router: String,
    hosts: [String; 2],
}

impl Net {
    fn new(test: &str) -> Result<Self, String> {
        Command::new("ping").arg("-V").output().map_err(|error| format!("ping: {error}"))?;
        let name = |end: &str| format!("sb-{test}-{}-{end}", std::process::id());
        let net = Self { router: name("r"), hosts: [name("a"), name("b")] };
        ip(&format!("netns add {}", net.router))?;
        for (at, (host, link)) in net.hosts.iter().zip(["192.0.2", "198.51.100"]).enumerate() {
            ip(&format!("netns add {host}"))?;
            ip(&format!("-n {} link add r{at} type veth peer name host netns {host}", net.router))?;
            ip(&format!("-n {} link set r{at} addrgenmode none up", net.router))?;
            ip(&format!("-n {host} link set host addrgenmode none up"))?;
            ip(&format!("-n {host} addr add {link}.9/24 dev host"))?;
            ip(&format!("-n {host} route add default via {link}.1"))?;
        }
        Ok(net)
    }

    fn ping(&self, host: usize, arguments: &str) -> Output {
        let ping = ["netns", "exec", &self.hosts[host], "ping", "-n"];
        Command::new("ip").args(ping).args(arguments.split(' ')).output().unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for namespace in self.hosts.iter().chain([&self.router]) {
            let _gone = ip(&format!("netns del {namespace}"));
        }
    }
}

/// The router's process; killed on drop.
struct Router(Option<Child>);

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _gone = (child.kill(), child.wait());
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(feature = "dpdk")]
#[test]
fn the_example_router_forwards_between_two_kernels() {
    forwards("click", ["eth0=net_af_packet0,iface=r0", "eth1=net_af_packet1,iface=r1"]);
}

#[test]
fn it_forwards_without_dpdk() {
    forwards("plain", ["eth0=r0", "eth1=r1"]);
}

/// Runs the router over these devices, and pings through it.
fn forwards(test: &str, devices: [&str; 2]) {
    let net = match Net::new(test) {
        Ok(net) => net,
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let _ =
                writeln!(io::stderr(), "skipped: no network namespace, or no ping ({error}); run as root");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let router = Command::new("ip")
        .args(["netns", "exec", &net.router, env!("CARGO_BIN_EXE_scalebricks"), "graph", "run"])
        .args([&example("router.click"), "--port", devices[0], "--port", devices[1], "--json", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut router = Router(Some(router.unwrap()));

    let until = Instant::now() + Duration::from_secs(60);
    while !net.ping(0, "-c 1 -W 1 198.51.100.9").status.success() {
        assert!(Instant::now() < until, "nothing passes the router");
    }
    let both_ways = [(0, "-c 20 -i 0.01 -s 1400 198.51.100.9"), (1, "-c 20 -i 0.01 192.0.2.9")];
    for (host, arguments) in both_ways.into_iter().chain([(0, "-c 3 -i 0.01 192.0.2.1")]) {
        let answered = net.ping(host, arguments);
        assert!(
            answered.status.success() && text(&answered).contains(" 0% packet loss"),
            "{}",
            text(&answered)
        );
    }
    let expired = net.ping(0, "-c 1 -W 5 -t 1 198.51.100.9");
    assert!(text(&expired).contains("From 192.0.2.1 icmp_seq=1 Time to live exceeded"), "{}", text(&expired));

    let child = router.0.take().unwrap();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(interrupt.success(), "{}", ended.status);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let packets = |name: &str| element(&report, name)["counters"]["packets"].as_u64().unwrap();
    // 20 pings in each of two directions with their answers, three to the router, and those before the first answer.
    assert!(packets("ttl0") >= 44 && packets("ttl1") >= 42, "{report}");
    assert_eq!(packets("ping"), 3, "{report}");
}
