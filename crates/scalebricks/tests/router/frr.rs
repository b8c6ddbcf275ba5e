//! Live routes from the real FRR: one BGP speaker announces prefixes to another, whose zebra sends them to a node. Needs
//! Debian's package `frr` and the right to create network namespaces; where they are missing the test says so and passes,
//! unless `REQUIRE_FRR` or `REQUIRE_NAMESPACES` is set.

use super::{Namespaces, ip};
use crate::harness::until;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use scalebricks_control::engine::Engine;
use scalebricks_control::routes::IpPrefix;
use scalebricks_daemon::router::node::config::RouterFile;
use scalebricks_daemon::router::node::control::ControlSide;
use scalebricks_daemon::router::node::routes::SharedRoutes;
use scalebricks_daemon::router::node::routes::tables::RouteTables;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{NodeId, NodeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Where Debian's package has its daemons.
const DAEMONS: &str = "/usr/lib/frr";

/// zebra and bgpd in a namespace; killed on drop.
struct Frr {
    name: String,
    daemons: Vec<Child>,
}

impl Frr {
    /// Starts both with a configuration.
    fn start(namespace: &str, configuration: &Path, module: &[&str]) -> Self {
        let run = format!("/var/run/frr/{namespace}");
        let made = Command::new("install").args(["-d", "-o", "frr", "-g", "frr", &run]).status().unwrap();
        assert!(made.success());
        let mut frr = Self { name: namespace.to_owned(), daemons: Vec::new() };
        for (daemon, module) in [("zebra", module), ("bgpd", &[])] {
            let child = Command::new("ip")
                .args(["netns", "exec", namespace, &format!("{DAEMONS}/{daemon}"), "-N", namespace, "-f"])
                .arg(configuration)
                .args(module)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            frr.daemons.push(child.unwrap());
            until("the daemon listens", || Path::new(&format!("{run}/{daemon}.vty")).exists());
        }
        frr
    }

    /// Changes the configuration.
    fn configure(&self, lines: &[&str]) {
        let mut vtysh = Command::new("vtysh");
        vtysh.args(["-N", &self.name, "-c", "configure terminal"]);
        vtysh.args(lines.iter().flat_map(|line| ["-c", line]));
        let out = vtysh.output().unwrap();
        assert!(out.status.success(), "{lines:?}: {}", String::from_utf8_lossy(&out.stdout));
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _gone = (daemon.kill(), daemon.wait());
        }
        let _gone = fs::remove_dir_all(format!("/var/run/frr/{}", self.name));
    }
}

/// A node of two; the speaker's neighbour is in the network of node 0's port.
fn start(node: u8, feeder: &str, engine: &Arc<dyn Engine>) -> ControlSide {
    let (other, address) = (1 - node, if node == 0 { "10.99.0.2/30" } else { "10.98.0.1/24" });
    let text = format!(
        "[router]\nnode = {node}\nnodes = 2\nsecret = \"000102030405060708090a0b0c0d0e0f\"\nport_rate = \"1G\"\n\
         [control]\nengine = \"directory:log\"\nname = \"r\"\n{feeder}\n\
         [[port]]\ndevice = \"net_tap0\"\naddresses = [\"{address}\"]\n[[link]]\nnode = {other}\ndevice = \"net_ring0\"\n"
    );
    let file = RouterFile::parse(&text).unwrap();
    let (v4, v6) = (Arc::new(Lpm::new(Params::SMALL)), Arc::new(Lpm::new(Params::SMALL)));
    let alive = || [0, 1].into_iter().map(NodeId::new).collect::<NodeSet>();
    let routes = SharedRoutes::new(alive(), RouteTables::new(file.id, v4, v6, Box::new(|_, _| {})));
    let engine = Arc::clone(engine);
    ControlSide::start(async move { engine }, &file, Path::to_owned, routes, alive).unwrap()
}

/// What is missing for this test.
fn prepare() -> Result<Namespaces, String> {
    if !Path::new(DAEMONS).join("zebra").exists() {
        let what = "no FRR (on Debian: apt install frr)".to_owned();
        assert!(std::env::var_os("REQUIRE_FRR").is_none(), "{what}");
        return Err(what);
    }
    let net = || {
        let net = Namespaces::new("frr", &["a", "b"])?;
        let [a, b] = [&net.0[0], &net.0[1]];
        ip(&format!("link add bgp netns {a} type veth peer name bgp netns {b}"))?;
        for (namespace, address) in [(a, "10.99.0.1/30"), (b, "10.99.0.2/30")] {
            ip(&format!("-n {namespace} addr add {address} dev bgp"))?;
            ip(&format!("-n {namespace} link set bgp up"))?;
        }
        Ok(net)
    };
    net().map_err(|error: String| {
        assert!(std::env::var_os("REQUIRE_NAMESPACES").is_none(), "{error}");
        format!("no network namespaces ({error}); run as root")
    })
}

#[test]
fn routes_of_frr_reach_all_nodes_and_survive_its_restart() {
    let net = match prepare() {
        Ok(net) => net,
        Err(why) => {
            let _ = writeln!(io::stderr(), "skipped: {why}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    // FRR drops its rights before it reads this.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let announcer = write(
        "a.conf",
        "router bgp 65001\n bgp router-id 10.99.0.1\n no bgp ebgp-requires-policy\n no bgp network import-check\n \
         neighbor 10.99.0.2 remote-as 65002\n address-family ipv4 unicast\n  network 10.1.0.0/16\n  network 10.2.0.0/16\n",
    );
    let receiver = write(
        "b.conf",
        "fpm address 127.0.0.1 port 2620\nrouter bgp 65002\n bgp router-id 10.99.0.2\n no bgp ebgp-requires-policy\n \
         neighbor 10.99.0.1 remote-as 65001\n",
    );
    let engine: Arc<dyn Engine> =
        Arc::new(EmbeddedLog::open(&folder.path().join("log"), Options::default()).unwrap());
    let [a, b] = [net.0[0].as_str(), net.0[1].as_str()];
    let feeder = "[feeder.fpm]\nlisten = \"127.0.0.1:2620\"\nquiet_ms = 8000";
    let nodes = std::thread::scope(|scope| {
        // The threads that it starts listen in the namespace of the speaker.
        let first = scope.spawn(|| {
            let namespace = File::open(format!("/var/run/netns/{b}")).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            start(0, feeder, &engine)
        });
        [first.join().unwrap(), start(1, "", &engine)]
    });
    until("the nodes follow the log", || nodes.iter().all(ControlSide::has_all_routes));
    let has = |prefix: &str, wanted: bool| {
        let prefix = IpPrefix::V4(prefix.parse().unwrap());
        nodes.iter().all(|node| {
            let exit = node.routes().lock().rib.selected(prefix).map(|exit| exit.exit);
            let is_right = |exit: scalebricks_control::routes::Exit| {
                exit.node == NodeId::new(0) && exit.next_hop == Some([10, 99, 0, 1].into())
            };
            if wanted { exit.is_some_and(is_right) } else { exit.is_none() }
        })
    };
    let speaker =
        || nodes[0].feeders().iter().map(|feeder| feeder.lock().clone()).find(|of| of.name == "fpm").unwrap();

    let announcing = Frr::start(a, &announcer, &[]);
    let receiving = Frr::start(b, &receiver, &["-M", "dplane_fpm_nl"]);
    until("both prefixes are routes", || has("10.1.0.0/16", true) && has("10.2.0.0/16", true));
    until("the start is complete", || speaker().state == "complete");
    announcing.configure(&["router bgp 65001", "address-family ipv4 unicast", "no network 10.1.0.0/16"]);
    until("a prefix is withdrawn", || has("10.1.0.0/16", false));
    assert!(has("10.2.0.0/16", true));

    // It restarts, with zebra's other module, and learns of another prefix instead.
    drop(receiving);
    until("the end is noticed", || speaker().state.starts_with("waiting"));
    announcing.configure(&[
        "router bgp 65001",
        "address-family ipv4 unicast",
        "no network 10.2.0.0/16",
        "network 10.3.0.0/16",
    ]);
    assert!(has("10.2.0.0/16", true), "routes stay while it restarts");
    let receiver = write(
        "b.conf",
        &fs::read_to_string(&receiver).unwrap().replace("fpm address 127.0.0.1 port 2620\n", ""),
    );
    let _receiving = Frr::start(b, &receiver, &["-M", "fpm:netlink"]);
    until("the new prefix is a route", || has("10.3.0.0/16", true));
    until("the old one is gone", || has("10.2.0.0/16", false));
    // The status follows the log.
    until("the status counts the route", || speaker().routes == 1);
    let shown = speaker();
    assert!(shown.fault.is_none() && shown.last_error.is_none(), "{shown:?}");
    assert_eq!(shown.unresolved, 0, "{shown:?}");
}
