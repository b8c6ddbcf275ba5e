//! The nodes of the cluster, the log that they follow, and what is asked of them.

use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::ends::Verdict;
use crate::testbed::exec::Cmd;
use crate::testbed::log;
use crate::testbed::nodes::{Process, own_program};
use crate::testbed::plan::WORKER;
use crate::testbed::router_lab::machines::Machines;
use crate::testbed::state;
use scalebricks_admin::client::{Client, Target};
use scalebricks_admin::model::GraphView;
use scalebricks_elements::gateway::FabricMac;
use scalebricks_types::{ClusterSize, NodeId};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Nodes, and inside hosts.
pub const NODES: u8 = 4;

/// The address of the NATS server.
pub const LOG: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 100);

/// The public addresses of the NAT.
pub const PUBLIC: &str = "192.0.2.0/30";

/// The elements in front of a node's appliance.
pub const HANDLED: &[&str] = &["from_inside", "from_outside"];

/// The port of the control plane.
const CONTROL_PORT: u16 = 7946;

/// What a node logs when it forwards, and before, when it has the cluster's pins.
const READY: &str = ": ready";

/// Time until a node must serve its socket.
const START: Duration = Duration::from_secs(60);

/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A firewall.
    Firewall,
    /// A NAT.
    Nat44,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Firewall, Self::Nat44];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Firewall => "firewall",
            Self::Nat44 => "nat44",
        }
    }

    fn section(self) -> String {
        match self {
            Self::Firewall => "[appliance]\nkind = \"firewall\"\n".to_owned(),
            Self::Nat44 => {
                format!("[appliance]\nkind = \"nat44\"\ninside = \"10.1.0.0/24\"\npublic = \"{PUBLIC}\"\n")
            }
        }
    }
}

/// A node's machine.
pub fn name(node: u8) -> String {
    format!("n{node}")
}

/// A node's address on the network of the control plane.
pub const fn control(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 254, 0, node + 1)
}

/// Sets the forwarding entries of the fabric, which neither learns nor floods.
///
/// # Errors
/// The error of a command.
pub fn fabric(machines: Machines<'_>) -> Result<(), LabError> {
    let size = ClusterSize::new(usize::from(NODES)).map_err(|error| LabError::Setup(error.to_string()))?;
    let mut entries = String::new();
    for node in 0..NODES {
        for mac in FabricMac::announced_by(NodeId::new(node), size) {
            // Writing to a String cannot fail.
            let _ = writeln!(entries, "fdb add {mac} dev f{node} master static sticky");
        }
        let _ =
            writeln!(entries, "link set dev f{node} learning off flood off mcast_flood off bcast_flood off");
    }
    let batch = Cmd::new("bridge -batch -").inside(&machines.namespace("net"));
    batch.input(entries).run(machines.0.interrupt).map(drop)
}

/// Starts the server of the log.
///
/// # Errors
/// As [`Process::await_word`].
pub fn start_log(machines: Machines<'_>, kind: Kind, program: &Path) -> Result<Process, LabError> {
    let (site, store) = (machines.0, format!("nats-{}", kind.name()));
    state::write(&site.path("nats.conf"), log::server_text("flows", LOG, &site.path(&store), "").as_bytes())?;
    log::start_server(site, program, "nats", &machines.namespace("log"))
}

/// The sum of a counter of these elements.
pub fn count(graph: &GraphView, elements: &[&str], counter: &str) -> u64 {
    let of = |name: &&str| graph.elements.iter().find(|element| element.name == **name);
    elements.iter().filter_map(of).filter_map(|element| element.counters.get(counter)).sum()
}

/// The running nodes.
#[derive(Debug)]
pub struct Cluster<'a> {
    /// What it is.
    pub kind: Kind,
    machines: Machines<'a>,
    nodes: BTreeMap<u8, Process>,
    /// What was dropped at the start, by node, element and reason.
    dropped: BTreeMap<(u8, String, String), u64>,
}

impl<'a> Cluster<'a> {
    /// Starts all nodes, and waits until each is ready.
    ///
    /// # Errors
    /// As [`Process::await_word`].
    pub fn start(machines: Machines<'a>, kind: Kind) -> Result<Self, LabError> {
        state::write_secret(&machines.0.path("cluster.key"), &[0x5b; 32])?;
        let launched = (0..NODES).map(|node| Ok((node, launch(machines, kind, node)?)));
        let launched = launched.collect::<Result<Vec<_>, LabError>>()?;
        let ready = launched
            .into_iter()
            .map(|(node, process)| Ok((node, process.await_word(READY, machines.0.interrupt)?)));
        let nodes = ready.collect::<Result<_, LabError>>()?;
        Ok(Self { kind, machines, nodes, dropped: BTreeMap::new() })
    }

    /// Takes what nodes have dropped until now as drops of the start: until its socket is bound to an interface, DPDK's
    /// driver takes frames of all of them.
    ///
    /// # Errors
    /// As [`graph`](Self::graph).
    pub fn note_drops(&mut self) -> Result<(), LabError> {
        for node in 0..NODES {
            for element in self.graph(node)?.elements {
                let of = |(reason, count)| ((node, element.name.clone(), reason), count);
                self.dropped.extend(element.dropped.into_iter().map(of));
            }
        }
        Ok(())
    }

    /// What an element had dropped for a reason at [`note_drops`](Self::note_drops).
    pub fn dropped_at_start(&self, node: u8, element: &str, reason: &str) -> u64 {
        self.dropped.get(&(node, element.to_owned(), reason.to_owned())).copied().unwrap_or(0)
    }

    /// Pins inside hosts to nodes, and waits until all nodes know.
    ///
    /// # Errors
    /// As [`Cmd::run`].
    pub fn pin(&self, pins: impl Iterator<Item = (Ipv4Addr, u8)>) -> Result<(), LabError> {
        let site = self.machines.0;
        let mut text = "ue,node\n".to_owned();
        for (inside, node) in pins {
            let _ = writeln!(text, "{inside},{node}"); // writing to a String cannot fail
        }
        let file = site.path("pins.csv");
        state::write(&file, text.as_bytes())?;
        let line =
            format!("flow import {} --socket {} --wait --quiet", file.display(), self.socket(0).display());
        let mut last = Ok(());
        let imported = poll(START, Duration::from_millis(500), site.interrupt, || {
            last = own_program()?.words(&line).limit(START).run(site.interrupt).map(drop);
            Ok(last.is_ok().then_some(()))
        });
        imported.and(last)
    }

    fn socket(&self, node: u8) -> PathBuf {
        self.machines.0.path(format!("{}.sock", name(node)))
    }

    fn client(&self, node: u8) -> Result<Client, LabError> {
        Client::new(Target::Unix(self.socket(node)), PATIENCE)
            .map_err(|error| LabError::Setup(format!("node {node}: {error}")))
    }

    /// A node's elements and their counters.
    ///
    /// # Errors
    /// [`LabError::Setup`] if it does not answer.
    pub fn graph(&self, node: u8) -> Result<GraphView, LabError> {
        let graph = self.client(node)?.graph(None);
        graph.map_err(|error| LabError::Setup(format!("counters of node {node}: {error}")))
    }

    /// Drains a node, and waits until its pins have left.
    ///
    /// # Errors
    /// [`LabError::Setup`].
    pub fn drain(&self, node: u8) -> Result<(), LabError> {
        let drained = self.client(0)?.drain(u16::from(node), true);
        drained.map(drop).map_err(|error| LabError::Setup(format!("drain of node {node}: {error}")))
    }

    /// Kills a node as a crash would.
    pub fn kill(&mut self, node: u8) {
        if let Some(process) = self.nodes.remove(&node) {
            process.kill_at_once();
        }
    }

    /// Waits, unless the user interrupts or a node ends.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], [`LabError::Died`].
    pub fn wait(&mut self, time: Duration) -> Result<(), LabError> {
        let began = Instant::now();
        while began.elapsed() < time {
            self.machines.0.interrupt.check()?;
            self.nodes.values_mut().try_for_each(Process::check_running)?;
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Stops all nodes with SIGTERM: how each ended.
    pub fn stop(self) -> impl Iterator<Item = (u8, Result<Verdict, LabError>)> {
        let stop = |(node, process): (u8, Process)| {
            (node, process.stop().map(|_| Verdict::new(true, "ended with status 0")))
        };
        self.nodes.into_iter().map(stop)
    }
}

fn launch(machines: Machines<'_>, kind: Kind, node: u8) -> Result<Process, LabError> {
    let (site, name) = (machines.0, name(node));
    let file = site.path(format!("{name}.toml"));
    let socket = site.path(format!("{name}.sock"));
    state::write(&file, configuration(kind, node, &socket.to_string_lossy()).as_bytes())?;
    let command = own_program()?.words(&format!("node run {}", file.display()));
    site.start(&name, &command.inside(&machines.namespace(&name)))
}

fn configuration(kind: Kind, node: u8, admin: &str) -> String {
    let n = node + 1;
    let device = |number: u8, interface: &str| {
        // A ring of 8 MiB holds frames while the node sleeps or another process has its core.
        format!("net_af_packet{number},iface={interface},blocksz=4096,framesz=2048,framecnt=4096")
    };
    let mut text = format!(
        "# Written by the lab.\n\
         [cluster]\nnodes = {NODES}\nsecret = \"00112233445566778899aabbccddeeff\"\n\
         gateway = \"10.255.0.1\"\ngateway_v6 = \"fd00:5b::1\"\nbase_station_mtu = 1500\n\n\
         [node]\nid = {node}\nadmin = \"{admin}\"\ndrain_ms = 100\n\n{WORKER}\n\
         [dpdk]\nmemory = \"ordinary\"\n\n{}\n\
         [control]\nengine = \"nats://{LOG}:4222\"\nreplicas = 1\nname = \"flows\"\nlisten = \"{}:{CONTROL_PORT}\"\n\
         key = \"cluster.key\"\nflows = 1000\npartitions = 16\n",
        kind.section(),
        control(node),
    );
    for peer in (0..NODES).filter(|peer| *peer != node) {
        let p = peer + 1;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[control.peer]]\nnode = {peer}\naddress = \"{}:{CONTROL_PORT}\"\ninternet = [\"198.51.100.{p}\"]\n\
             base_station = [\"10.1.0.{p}\"]\n",
            control(peer)
        );
    }
    for (number, (role, interface, address)) in [
        ("internet", "out", format!("addresses = [\"198.51.100.{n}/24\"]\n")),
        ("base-station", "in", format!("addresses = [\"10.1.0.{n}/24\"]\n")),
        ("fabric", "fab", String::new()),
    ]
    .into_iter()
    .enumerate()
    {
        let device = device(number as u8, interface);
        let _ = write!(text, "\n[[port]]\nrole = \"{role}\"\ndevice = \"{device}\"\nmtu = 1500\n{address}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_daemon::node::config::NodeFile;

    #[test]
    fn nodes_parse_their_configurations() {
        for (kind, node) in Kind::ALL.into_iter().flat_map(|kind| (0..NODES).map(move |node| (kind, node))) {
            let file = NodeFile::parse(&configuration(kind, node, "/x/admin.sock")).unwrap();
            assert!(file.profile.is_of_appliance() && file.appliance.is_some());
            let control = file.control.unwrap();
            assert_eq!((control.peers.len(), control.takeover.unwrap().addresses.len()), (3, 3));
        }
    }
}
