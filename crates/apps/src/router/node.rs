//! A node of a cluster router on real links between real neighbours.
//!
//! ```text
//!                ARP, neighbour discovery ─▶ answers, resolvers of port p
//! FromDevice(port p) ─▶ Classifier ─▶ header ─▶ TTL ─▶ RouterInput ─▶ steering ─┬▶ link to each node
//!                           ICMP errors ◀──┴──────┴──────────┘  ▲               │
//!                           ping ────────────────────────────────┤               ▼
//!                             └◀─── own ◀── RouterOutput ◀── RestoreMac ◀────────┤
//!                                              │                └▶ port p        │
//!                                  resolvers ◀─┘                                 │
//! FromDevice(link n) ─▶ MacSwitch ─┬▶ link to each node, RestoreMac ─────────────┘
//!                                  └▶ LinkHello ─▶ link to each node
//! ```
//!
//! The data path is that of [`cluster`](super::cluster): parse and look up once, then addresses alone. Around it:
//!
//! - `LinkHello` finds out which links work, and tells `MacSwitch` and the steering element.
//! - `NextHopKeeper` resolves next hops ahead of traffic. Packets to one that is not resolved, and to hosts on the node's
//!   own networks, take the slow way through `RouterOutput` and the resolvers, which hold a bounded number of packets.
//! - ICMP errors have the address of the port where the packet arrived, are rate-limited, and are routed as any packet.
//! - The node answers pings to its own addresses. Other packets for them are dropped and counted.

use crate::router::cluster::{RouterError, Steering, Switching};
use crate::router::network::NetworkError;
use crate::router::server::Interface;
use scalebricks_elements::fabric::links::Links;
use scalebricks_elements::fabric::mac::{ExternalPort, PORTS, RouterMac};
use scalebricks_elements::fabric::mtus::Mtus;
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_elements::gateway::FabricMac;
use scalebricks_elements::{LinkHello, RestoreMac, RouterInput, RouterOutput};
use scalebricks_graph::{Builder, Graph, Ledger, Registry};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::{Lpm, Prefix};
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::nd::link_local;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Most hellos that wait before a link.
const HELLOS: &str = "16";

/// An external port of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePort {
    /// Device, addresses and MAC address.
    pub interface: Interface,
    /// Most bytes of a packet, from the IP header on; 1,280 at least.
    pub mtu: u16,
}

/// A link to another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLink {
    /// The node at its other end.
    pub node: NodeId,
    /// The device.
    pub device: String,
}

/// A node of a cluster router. [`graph`](Self::graph) builds it.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's number.
    pub id: NodeId,
    /// Number of nodes.
    pub size: ClusterSize,
    /// Its external ports, 1 to 64. Port p of the cluster's routes is the p-th.
    pub ports: Vec<NodePort>,
    /// Its links, at most one per other node. A node without a link is reached over others.
    pub links: Vec<NodeLink>,
    /// R: the rate of all external ports together, bytes per second.
    pub rate: u64,
    /// The rate of a link, bytes per second; 3R/N if `None`.
    pub link_rate: Option<u64>,
    /// How packets are spread.
    pub steering: Steering,
    /// Packets that a queue before a device holds.
    pub queue: usize,
    /// Bytes that may exceed the rates of the steering at once; `None` for the elements' defaults.
    pub burst: Option<u64>,
    /// Seed of random choices and of the flow hash; should be secret.
    pub seed: u64,
    /// Most ICMP errors of each kind per second.
    pub errors_per_second: u32,
}

/// What a node's graph shares with its control plane, which changes it while the graph runs.
#[derive(Debug, Clone)]
pub struct NodeTables {
    /// IPv4 routes to [`RouterMac::hop`].
    pub routes: Arc<Lpm<Ipv4Addr>>,
    /// IPv6 routes.
    pub routes6: Arc<Lpm<Ipv6Addr>>,
    /// This node's next hops: control defines them, the node resolves them.
    pub next_hops: Arc<NextHops>,
    /// The cluster's links: the node finds out, control reads [`Links::reachable`].
    pub links: Arc<Links>,
    /// The MTU of all ports of the cluster. [`NodeConfig::graph`] enters those of the node.
    pub mtus: Arc<Mtus>,
}

impl NodeConfig {
    /// The node's own addresses, with the link-local ones.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ports.iter().flat_map(|NodePort { interface, .. }| {
            let six = [interface.ip6.map(|(ip, _)| ip), Some(link_local(interface.mac))];
            std::iter::once(IpAddr::V4(interface.ip.address)).chain(six.into_iter().flatten().map(IpAddr::V6))
        })
    }

    /// The IPv4 networks at its ports, each with the target of its route. Control announces them to all nodes.
    pub fn connected(&self) -> Vec<(Prefix<Ipv4Addr>, RouterMac)> {
        let network = |(at, port): (u8, &NodePort)| {
            let prefix = Prefix::of(port.interface.ip.network(), port.interface.ip.length).ok()?;
            Some((prefix, RouterMac::connected(self.id, ExternalPort::new(at)?)))
        };
        (0..).zip(&self.ports).filter_map(network).collect()
    }

    /// The IPv6 networks at its ports.
    pub fn connected6(&self) -> Vec<(Prefix<Ipv6Addr>, RouterMac)> {
        let network = |(at, port): (u8, &NodePort)| {
            let (address, length) = port.interface.ip6?;
            Some((Prefix::of(address, length).ok()?, RouterMac::connected(self.id, ExternalPort::new(at)?)))
        };
        (0..).zip(&self.ports).filter_map(network).collect()
    }

    fn check(&self, links: &Links) -> Result<(), RouterError> {
        self.size.node(u16::from(self.id.get())).map_err(|error| RouterError::Node(error.to_string()))?;
        let wrong = |text: String| Err(RouterError::Node(text));
        if (links.id(), links.size()) != (self.id, self.size) {
            return wrong("the links are those of another node or cluster".to_owned());
        }
        if !(1..=PORTS).contains(&self.ports.len()) {
            return Err(RouterError::Ports(u8::try_from(self.ports.len()).unwrap_or(u8::MAX)));
        }
        let (mut devices, mut nodes) = (HashSet::new(), HashSet::new());
        let names = self.ports.iter().map(|port| &port.interface.device);
        for name in names.chain(self.links.iter().map(|link| &link.device)) {
            if name.is_empty() || !devices.insert(name) {
                return wrong(format!("two ports or links are the device {name:?}, or it has no name"));
            }
        }
        for NodeLink { node, .. } in &self.links {
            if *node == self.id || node.index() >= self.size.get() || !nodes.insert(*node) {
                return wrong(format!(
                    "a link leads to node {node}: there is no such other node, or two links lead there"
                ));
            }
        }
        for NodePort { interface, mtu } in &self.ports {
            let mac = interface.mac;
            if mac.is_multicast() || FabricMac::is_marked(mac) {
                return wrong(format!(
                    "{mac} cannot be the address of a port: it is a group, or encodes a way through the cluster"
                ));
            }
            if *mtu < 1_280 {
                return wrong(format!("the MTU of {} is {mtu}, and IPv6 needs 1280", interface.device));
            }
        }
        Ok(())
    }

    /// The graph of the node. A packet program binds the devices of its ports and links to `AF_PACKET`, XDP, DPDK, TAP or
    /// memory ports. One worker runs it. Hellos, timers and limits follow the time of the worker's turns.
    ///
    /// # Errors
    /// [`RouterError`].
    pub fn graph<P: PacketBuf + 'static>(
        &self,
        tables: &NodeTables,
        registry: &Registry<P>,
    ) -> Result<(Graph<P>, Ledger), RouterError> {
        self.check(&tables.links)?;
        for (at, port) in (0..).zip(&self.ports) {
            ExternalPort::new(at).map(|at| tables.mtus.set(self.id, at, port.mtu));
        }
        let mut builder = Builder::new();
        self.add_elements(&mut builder, tables)?;
        self.add_input(&mut builder, tables.mtus.least());
        for (at, port) in self.ports.iter().enumerate() {
            self.add_port(&mut builder, at, port);
        }
        self.add_links(&mut builder);
        let mut ledger = Ledger::new();
        let graph = builder
            .build(registry, &mut ledger)
            .map_err(|errors| NetworkError::Graph { node: self.id.index(), errors: errors.to_string() })?;
        Ok((graph, ledger))
    }

    fn switching(&self) -> Switching {
        let share = (self.rate.saturating_mul(3)).div_ceil(self.size.get() as u64);
        Switching {
            id: self.id,
            size: self.size,
            rate: self.rate,
            link_rate: self.link_rate.unwrap_or(share),
            steering: self.steering,
            queue: self.queue,
            burst: self.burst,
            seed: self.seed,
        }
    }

    /// The elements that exist once.
    fn add_elements<P: PacketBuf + 'static>(
        &self,
        builder: &mut Builder<P>,
        tables: &NodeTables,
    ) -> Result<(), RouterError> {
        let macs: Vec<_> = self.ports.iter().map(|port| port.interface.mac).collect();
        let restore = RestoreMac::new(macs, Arc::clone(&tables.next_hops))
            .map_err(|_| RouterError::Ports(u8::try_from(self.ports.len()).unwrap_or(u8::MAX)))?;
        let output = RouterOutput::new(self.ports.len(), self.own_addresses(), Arc::clone(&tables.next_hops));
        let followers = ["steer", "switch"].map(str::to_owned).to_vec();
        let hello = LinkHello::new(Arc::clone(&tables.links), true, followers);
        let (routes, routes6) = (Arc::clone(&tables.routes), Arc::clone(&tables.routes6));
        builder.add("route", RouterInput::new(routes, routes6, Some(Arc::clone(&tables.mtus))));
        builder.add("restore", restore).add("output", output).add("hello", hello);
        self.switching().declare(builder);
        let names = |prefix: &str| {
            let names = (0..self.ports.len()).map(|port| format!("{prefix}{port}"));
            names.collect::<Vec<_>>().join(" ")
        };
        builder.declare("keeper", "NextHopKeeper", &["restore", &names("arp"), &names("nd")]);
        builder.connect("restore", self.ports.len(), "output", 0);
        builder.connect("switch", self.size.get(), "hello", 0);
        let own = self.id.index();
        builder.connect("steer", own, "restore", 0).connect("switch", own, "restore", 0);
        builder.connect("route", 0, "steer", 0);
        Ok(())
    }

    /// From checked headers to the lookup, with errors and pings.
    fn add_input<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>, mtu: u16) {
        let interfaces = self
            .ports
            .iter()
            .map(|NodePort { interface: Interface { ip, .. }, .. }| format!("{}/{}", ip.address, ip.length));
        let interfaces = format!("INTERFACES {}", interfaces.collect::<Vec<_>>().join(" "));
        builder.declare("check4", "CheckIPHeader", &["14", &interfaces]).declare("ttl4", "DecIPTTL", &[]);
        builder.declare("check6", "CheckIP6Header", &["14", "BADADDRS ::1"]).declare(
            "ttl6",
            "DecIP6HLIM",
            &[],
        );
        builder.chain(&["check4", "ttl4", "route"]).chain(&["check6", "ttl6"]).connect("ttl6", 0, "route", 1);
        // Packets for the node itself do not expire.
        let (mut own, mut own6) = (Vec::new(), Vec::new());
        for address in self.own_addresses() {
            if address.is_ipv4() {
                own.push(format!("{address}/32 0"));
            } else {
                own6.push(format!("{address}/128 0"));
            }
        }
        own.push("0.0.0.0/0 1".to_owned());
        own6.push("::/0 1".to_owned());
        for (name, class, routes) in [("own4", "RadixIPLookup", &own), ("own6", "LookupIP6Route", &own6)] {
            builder.declare(name, class, &routes.iter().map(String::as_str).collect::<Vec<_>>());
        }
        builder.connect("ttl4", 1, "own4", 0).connect("own4", 0, "route", 0);
        builder.connect("ttl6", 1, "own6", 0).connect("own6", 0, "route", 1);
        builder.declare("encap4", "EtherEncap", &["0x0800", "0:0:0:0:0:0", "0:0:0:0:0:0"]);
        builder.declare("encap6", "EtherEncap", &["0x86dd", "0:0:0:0:0:0", "0:0:0:0:0:0"]);
        builder.connect("encap4", 0, "route", 0).connect("encap6", 0, "route", 1);
        self.add_errors(builder, mtu);
        builder.declare("ping4", "ICMPPingResponder", &[]).declare("ping6", "ICMP6PingResponder", &[]);
        builder
            .chain(&["output", "ping4", "encap4"])
            .connect("output", 1, "ping6", 0)
            .chain(&["ping6", "encap6"]);
    }

    fn add_errors<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>, mtu: u16) {
        let four = |port: &NodePort| port.interface.ip.address.to_string();
        let six = |port: &NodePort| {
            let Interface { ip6, mac, .. } = &port.interface;
            ip6.map_or_else(|| link_local(*mac), |(ip, _)| ip).to_string()
        };
        let (sources, sources6): (Vec<_>, Vec<_>) =
            self.ports.iter().map(|port| (four(port), six(port))).unzip();
        let (first, first6) =
            (sources.first().cloned().unwrap_or_default(), sources6.first().cloned().unwrap_or_default());
        let painted = format!("PAINTED {}", sources.join(" "));
        let painted6 = format!("PAINTED {}", sources6.join(" "));
        let (rate, pmtu) = (format!("RATE {}", self.errors_per_second), format!("PMTU {mtu}"));
        let burst = format!("BURST {}", (self.errors_per_second / 10).max(1));
        let no_fix = "SET_FIX_ANNO false";
        for (name, kind) in [
            ("expired4", &["timeexceeded", "transit"]),
            ("unreachable4", &["unreachable", "net"]),
            ("big4", &["unreachable", "needfrag"]),
        ] {
            let args = [&first, kind[0], kind[1], &painted, &rate, &burst, &pmtu, no_fix, "MARKED true"];
            builder.declare(name, "ICMPError", &args).chain(&[name, "encap4"]);
        }
        for (name, kind) in
            [("expired6", "timeexceeded"), ("unreachable6", "unreachable"), ("big6", "toobig")]
        {
            let args = [&first6, kind, "0", &painted6, &rate, &burst, &pmtu, "MARKED true"];
            builder.declare(name, "ICMP6Error", &args).chain(&[name, "encap6"]);
        }
        builder.connect("own4", 1, "expired4", 0).connect("own6", 1, "expired6", 0);
        builder.connect("route", 1, "unreachable4", 0).connect("route", 2, "unreachable6", 0);
        // Fragments are looked up again.
        builder.declare("fragment", "IPFragmenter", &[&mtu.to_string(), "MARKED true"]);
        builder.declare("again", "CheckIPHeader", &["14"]);
        builder.connect("route", 3, "fragment", 0).chain(&["fragment", "again", "route"]);
        builder.connect("fragment", 1, "big4", 0).connect("route", 4, "big6", 0);
    }

    /// An external port: what it receives, resolvers, and what leaves.
    fn add_port<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>, at: usize, port: &NodePort) {
        let Interface { device, ip, mac, ip6 } = &port.interface;
        let (mac, own) = (mac.to_string(), ip.address.to_string());
        let local = link_local(port.interface.mac).to_string();
        let own6 = ip6.map_or_else(|| local.clone(), |(ip, _)| ip.to_string());
        let named = |name: &str| format!("{name}{at}");
        let [from, class, arp, nd] = ["from_port", "class", "arp", "nd"].map(named);
        let [answer, answer6, paint, paint6] = ["answer4_", "answer6_", "paint4_", "paint6_"].map(named);
        let [filter, filter6, other] = ["filter4_", "filter6_", "other"].map(named);
        let queue = self.switching().output(builder, device, &named("port"));
        let kinds = [
            "12/0806 20/0001",
            "12/0806 20/0002",
            "12/86dd 20/3aff 54/87",
            "12/86dd 20/3aff 54/88",
            "12/0800",
            "12/86dd",
            "-",
        ];
        builder.declare(&from, "FromDevice", &[device]).declare(&class, "Classifier", &kinds);
        builder.chain(&[&from, &class]);
        builder.declare(&arp, "ARPQuerier", &[&own, &mac]).chain(&[&arp, &queue]);
        builder.declare(&nd, "IP6NDSolicitor", &[&own6, &mac]).chain(&[&nd, &queue]);
        builder.declare(&answer, "ARPResponder", &[&format!("{own} {mac}")]).chain(&[&answer, &queue]);
        let entry6 = if own6 == local { format!("{local} {mac}") } else { format!("{own6} {local} {mac}") };
        builder.declare(&answer6, "IP6NDAdvertiser", &[&entry6]).chain(&[&answer6, &queue]);
        builder.connect(&class, 0, &answer, 0).connect(&class, 1, &arp, 1);
        builder.connect(&class, 2, &answer6, 0).connect(&class, 3, &nd, 1);
        let number = at.to_string();
        for (output, filter, paint, check) in
            [(4, &filter, &paint, "check4"), (5, &filter6, &paint6, "check6")]
        {
            builder.declare(filter, "HostEtherFilter", &[&mac, "DROP_OTHER true"]);
            builder.declare(paint, "Paint", &[&number]).connect(&class, output, filter, 0);
            builder.chain(&[filter, paint, check]);
        }
        builder.declare(&other, "Discard", &[]).connect(&class, 6, &other, 0);
        builder.connect("restore", at, &queue, 0);
        for (family, resolver) in [(0, &arp), (1, &nd)] {
            builder.connect("output", 2 + 2 * at + family, resolver, 0);
            builder.connect("keeper", 2 * at + family, resolver, 2);
        }
    }

    /// The links: data from a queue of their own, after hellos. What goes to a node without a link is dropped: its link is
    /// never up.
    fn add_links<P: PacketBuf + 'static>(&self, builder: &mut Builder<P>) {
        for NodeLink { node, device } in &self.links {
            let named = |name: &str| format!("{name}{}", node.get());
            let [from, data, hellos, both, to] =
                ["from_node", "queue_node", "hellos_node", "sched_node", "to_node"].map(named);
            builder.declare(&from, "FromDevice", &[device]).connect(&from, 0, "switch", node.index());
            builder.declare(&data, "Queue", &[&self.queue.to_string()]).declare(&hellos, "Queue", &[HELLOS]);
            builder.declare(&both, "PrioSched", &[]).declare(&to, "ToDevice", &[device]);
            builder.connect(&hellos, 0, &both, 0).connect(&data, 0, &both, 1).chain(&[&both, &to]);
            builder.connect("hello", node.index(), &hellos, 0);
            builder.connect("steer", node.index(), &data, 0).connect("switch", node.index(), &data, 0);
        }
    }
}
