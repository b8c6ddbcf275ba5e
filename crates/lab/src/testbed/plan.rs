//! What the lab consists of: names, addresses, flows. All of it is a function of a few numbers.
//!
//! ```text
//!   NAME-inet                      NAME-switch                         NAME-ran          NAME-ue
//!   Internet host                                                      base station      phones
//!   192.0.2.1 ── inet0 ──── i-host ─ br-inet  br-ran ─ r-bs ──── ran0 ── 10.9.0.1 ═ TUN ═ 10.45.0.1 …
//!   2001:db8::1                        │  br-fab  │                                      2001:db8:45:1::1 …
//!                                 i-n0 │   │ f-n0 │ r-n0
//!                                    inet fab    ran            NAME-n0: node 0, over packet or XDP sockets,
//!                                                               192.0.2.10, 10.9.0.10, gateway 10.255.0.1
//! ```

mod files;

use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::fabric::mac::FabricMac;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, NodeId};
use scalebricks_wire::MacAddr;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The Internet host's IPv4 address.
pub const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The Internet host's IPv6 address.
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The base station's tunnel address.
pub const STATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The gateway's tunnel address: the same at every node.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The gateway's tunnel address as a route.
pub const GATEWAY_ROUTE: &str = "10.255.0.1/32";
/// The phones' IPv4 network.
pub const UES_V4: &str = "10.45.0.0/24";
/// The phones' IPv6 network.
pub const UES_V6: &str = "2001:db8:45::/48";
/// MTU of the Internet and of the phones.
pub const INTERNET_MTU: u16 = 1500;
/// MTU of the links to base stations and between nodes: a full packet fits with its tunnel headers.
pub const TUNNEL_MTU: u16 = 1600;
/// The port of nodes on the control network.
const CONTROL_PORT: u16 = 7_400;
/// How workers wait, in configurations. The nodes share one machine's cores: idle ones leave them to the others.
pub(crate) const WORKER: &str = "[worker]\nidle = \"sleep\"\nsleep_us = 250\n";
/// First source port of the base station's packets.
pub const SOURCE_PORTS: u16 = 20_000;
/// Source ports for the phones of one entry node; their flows are spread over them (TS 29.281 §4.4.2.0).
pub const SOURCE_PORTS_PER_NODE: u16 = 16;
/// Most NATS servers that store the log.
pub const MAX_LOG_SERVERS: u8 = 3;
/// The TUN of the phones.
pub const TUN: &str = "phones";
/// Port of the file server at the Internet host.
pub const HTTP_PORT: u16 = 8080;
/// Most nodes of a lab: the host parts of addresses have room for as many.
pub const MAX_NODES: usize = 16;
/// Most flows that no phone uses: the address range has room for as many.
pub const MAX_FLOWS: u32 = 1 << 22;
/// First uplink TEID: IPv4 at UE 0. The next is IPv6 at UE 0; UE 1 has the two after that.
const UPLINK: u32 = 0x0001_0000;
/// First downlink TEID, in the same order.
const DOWNLINK: u32 = 0x0002_0000;
/// QoS flow of UEs with an even number; the others have none, and their packets no container.
const QFI: u8 = 9;

/// The sockets over which nodes use their interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Even nodes over packet sockets, odd ones over XDP sockets
    Mixed,
    /// Packet sockets at all nodes
    AfPacket,
    /// XDP sockets at all nodes
    AfXdp,
}

/// One of a node's three ports, by its interface in the node's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePort {
    /// To the Internet.
    Internet,
    /// To base stations.
    Ran,
    /// To the other nodes.
    Fabric,
}

impl NodePort {
    /// All of a node's ports.
    pub const ALL: [Self; 3] = [Self::Internet, Self::Ran, Self::Fabric];

    /// The interface at the node, the bridge at its other end, the largest packet, and the role in `node.toml`.
    const fn properties(self) -> (&'static str, &'static str, u16, &'static str) {
        match self {
            Self::Internet => ("inet", "br-inet", INTERNET_MTU, "internet"),
            Self::Ran => ("ran", "br-ran", TUNNEL_MTU, "base-station"),
            Self::Fabric => ("fab", "br-fab", TUNNEL_MTU, "fabric"),
        }
    }

    /// Its interface at the node.
    pub const fn interface(self) -> &'static str {
        self.properties().0
    }

    /// The bridge at the other end of its cable.
    pub const fn bridge(self) -> &'static str {
        self.properties().1
    }

    /// The bridge's port for a node.
    pub fn bridge_port(self, node: NodeId) -> String {
        format!("{}-n{}", &self.interface()[..1], node.get())
    }

    /// Largest packet on it.
    pub const fn mtu(self) -> u16 {
        self.properties().2
    }

    /// The role of `node.toml`.
    const fn role(self) -> &'static str {
        self.properties().3
    }
}

/// A phone: two addresses, two flows, one handling node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ue {
    /// Its number.
    pub number: u16,
    /// The handling node of its flows.
    pub node: NodeId,
}

impl Ue {
    /// The phone's own entry node, for outages: phones that are pinned to one node enter at all nodes in turn, so 16 phones and
    /// four nodes have each pair of entry and handling node once.
    pub const fn entry(self, size: ClusterSize) -> NodeId {
        let nodes = size.get() as u16;
        NodeId::new((self.number / nodes % nodes) as u8) // less than 16
    }

    /// The phone with this uplink TEID.
    pub const fn of_uplink(teid: u32, size: ClusterSize) -> Option<Self> {
        let number = match teid.checked_sub(UPLINK) {
            Some(tunnel) if tunnel < 500 => (tunnel / 2) as u16,
            _ => return None,
        };
        Some(Self { number, node: NodeId::new((number % size.get() as u16) as u8) })
    }

    /// Its IPv4 address.
    pub const fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 45, 0, 1 + self.number as u8) // a Plan has at most 250 of them
    }

    /// Its IPv6 address, in a /64 that belongs to the phone.
    pub const fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0x45, 1 + self.number, 0, 0, 0, 1)
    }

    /// Its address in a family.
    pub const fn address(self, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(self.v4()),
            Family::V6 => IpAddr::V6(self.v6()),
        }
    }

    /// The TEID at the gateway of its tunnel for a family.
    pub const fn uplink_teid(self, family: Family) -> u32 {
        UPLINK + 2 * self.number as u32 + family as u32
    }

    /// The TEID at the base station of its tunnel for a family.
    pub const fn downlink_teid(self, family: Family) -> u32 {
        DOWNLINK + 2 * self.number as u32 + family as u32
    }

    /// Its QoS flow.
    pub const fn qfi(self) -> Option<u8> {
        if self.number.is_multiple_of(2) { Some(QFI) } else { None }
    }
}

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    V4 = 0,
    /// IPv6.
    V6 = 1,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Whether an address is of it.
    pub const fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == matches!(self, Self::V4)
    }

    /// The option of `ping`, `curl` and `iperf3`.
    pub const fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// The Internet host's address.
    pub const fn host(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(HOST_V4),
            Self::V6 => IpAddr::V6(HOST_V6),
        }
    }

    /// The phones' network.
    pub const fn ues(self) -> &'static str {
        match self {
            Self::V4 => UES_V4,
            Self::V6 => UES_V6,
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// A network of the control plane, which uses the kernel's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlNet {
    /// Between nodes: the control network.
    Mesh,
    /// Between nodes and a single server of the log.
    Log,
}

impl ControlNet {
    /// Its interfaces, its bridge, the first letter of the bridge's ports, and the second octet of its addresses.
    const fn properties(self) -> (&'static str, &'static str, char, u8) {
        match self {
            Self::Mesh => ("ctl", "br-ctl", 'c', 254),
            Self::Log => ("log", "br-log", 'l', 253),
        }
    }

    /// Its interfaces' name.
    pub const fn interface(self) -> &'static str {
        self.properties().0
    }

    /// Its bridge.
    pub const fn bridge(self) -> &'static str {
        self.properties().1
    }

    /// The first letter of its bridge's ports.
    pub const fn letter(self) -> char {
        self.properties().2
    }

    /// The second octet of its addresses.
    const fn octet(self) -> u8 {
        self.properties().3
    }
}

/// All namespaces that a lab of this name can have, for every size.
pub fn all_namespaces(name: &str) -> Vec<String> {
    let nodes = (0..MAX_NODES).map(|node| format!("{name}-n{node}"));
    let logs = (0..MAX_LOG_SERVERS).map(|server| format!("{name}-log{server}"));
    let parts = ["inet", "ran", "ue", "switch"].map(|part| format!("{name}-{part}"));
    parts.into_iter().chain(nodes).chain(logs).collect()
}

/// A lab. As JSON, it is the file that describes a lab that is up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The start of its namespaces' names.
    pub name: String,
    /// Its nodes.
    #[serde(with = "as_number")]
    pub size: ClusterSize,
    /// Phones pinned to each node.
    pub ues_per_node: u16,
    /// The sockets over which nodes use their interfaces.
    pub driver: Driver,
    /// The nodes' architecture.
    #[serde(with = "as_text")]
    pub architecture: Architecture,
    /// Whether flows come from the control plane.
    pub is_controlled: bool,
    /// The structure of the GPT.
    #[serde(with = "as_text")]
    pub gpt: Structure,
    /// The program of the NATS servers that store the log of a lab with a control plane.
    pub nats: PathBuf,
    /// Their number: 1, or [`MAX_LOG_SERVERS`].
    pub log_servers: u8,
    /// Flows that no phone uses: at most [`MAX_FLOWS`].
    pub flows: u32,
}

/// Values that are stored as their names.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(Error::custom)
    }
}

/// The number of nodes.
mod as_number {
    use scalebricks_types::ClusterSize;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(size: &ClusterSize, to: S) -> Result<S::Ok, S::Error> {
        size.get().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ClusterSize, D::Error> {
        ClusterSize::new(usize::deserialize(from)?).map_err(Error::custom)
    }
}

impl Plan {
    /// The Internet host's namespace.
    pub fn inet(&self) -> String {
        format!("{}-inet", self.name)
    }

    /// The base station's namespace.
    pub fn ran(&self) -> String {
        format!("{}-ran", self.name)
    }

    /// The phones' namespace.
    pub fn ue(&self) -> String {
        format!("{}-ue", self.name)
    }

    /// The namespace of the bridges.
    pub fn switch(&self) -> String {
        format!("{}-switch", self.name)
    }

    /// A node's namespace.
    pub fn node(&self, node: NodeId) -> String {
        format!("{}-n{}", self.name, node.get())
    }

    /// The namespace of a NATS server.
    pub fn log_server(&self, server: u8) -> String {
        format!("{}-log{server}", self.name)
    }

    /// The NATS servers of the log; none without a control plane.
    pub fn servers(&self) -> impl Iterator<Item = u8> + use<> {
        0..if self.is_controlled { self.log_servers } else { 0 }
    }

    /// The network between nodes and log. One server has its own network, so that the log stays reachable while the control network
    /// is down; three are on the control network.
    pub const fn log_network(&self) -> ControlNet {
        if self.log_servers == 1 { ControlNet::Log } else { ControlNet::Mesh }
    }

    /// The namespaces of this lab.
    pub fn namespaces(&self) -> Vec<String> {
        let nodes = self.size.nodes().map(|node| self.node(node));
        let logs = self.servers().map(|server| self.log_server(server));
        [self.inet(), self.ran(), self.ue(), self.switch()].into_iter().chain(nodes).chain(logs).collect()
    }

    /// The phones.
    pub fn ues(&self) -> impl Iterator<Item = Ue> {
        let count = self.ues_per_node * self.size.get() as u16; // 250 at most, as arguments are checked
        let size = self.size.get() as u16;
        (0..count).map(move |number| Ue { number, node: NodeId::new((number % size) as u8) })
    }

    /// The first phone pinned to a node.
    pub fn ue_of(node: NodeId) -> Ue {
        Ue { number: u16::from(node.get()), node }
    }

    /// A node's address on the Internet link.
    pub const fn internet_address(node: NodeId, family: Family) -> IpAddr {
        match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + node.get())),
            Family::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10 + node.get() as u16)),
        }
    }

    /// A node's address on the base stations' link.
    pub const fn ran_address(node: NodeId) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 0, 10 + node.get())
    }

    /// A node's address on a network of the control plane.
    pub const fn control_address(net: ControlNet, node: NodeId) -> Ipv4Addr {
        Ipv4Addr::new(10, net.octet(), 0, 10 + node.get())
    }

    /// The address at which a NATS server listens.
    pub const fn log_address(&self, server: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.log_network().octet(), 0, 100 + server)
    }

    /// The source ports of the base station's packets for phones with this entry node.
    pub const fn source_ports(entry: NodeId) -> std::ops::Range<u16> {
        let first = SOURCE_PORTS + entry.get() as u16 * SOURCE_PORTS_PER_NODE;
        first..first + SOURCE_PORTS_PER_NODE
    }

    /// The MAC address of a node's port.
    pub const fn mac(node: NodeId, port: NodePort) -> MacAddr {
        MacAddr([0x02, 0x5a, 0, 0, port as u8, node.get()])
    }

    /// The MAC addresses that the fabric's bridge must send to a node, besides its port's own.
    pub fn fabric_addresses(&self, node: NodeId) -> impl Iterator<Item = MacAddr> {
        FabricMac::announced_by(node, self.size)
    }

    /// Whether a node uses XDP sockets.
    pub const fn uses_xdp(&self, node: NodeId) -> bool {
        match self.driver {
            Driver::Mixed => node.get() % 2 == 1,
            Driver::AfPacket => false,
            Driver::AfXdp => true,
        }
    }
}

#[cfg(test)]
impl Plan {
    /// Four nodes with two phones each and flows from files.
    pub(crate) fn sample() -> Self {
        Self {
            name: "sb".to_owned(),
            size: ClusterSize::new(4).unwrap(),
            ues_per_node: 2,
            driver: Driver::Mixed,
            architecture: Architecture::ScaleBricks,
            is_controlled: false,
            gpt: Structure::default(),
            nats: PathBuf::from("nats-server"),
            log_servers: 1,
            flows: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_admin::flow_list::Reading;
    use scalebricks_console::Console;
    use scalebricks_types::KeyProfile;
    use std::collections::HashSet;

    fn plan() -> Plan {
        Plan { ues_per_node: 3, architecture: Architecture::Vlb, ..Plan::sample() }
    }

    #[test]
    fn the_flow_file_is_valid_and_pins_equally_many_ues_to_each_node() {
        let reading = Reading { profile: KeyProfile::Ue, size: plan().size, base_stations: &[STATION] };
        let progress = Console::new(true).progress("", 0);
        let flows = reading.read(plan().flows_csv().as_bytes(), &progress).unwrap();
        assert_eq!(flows.len(), 4 * 3 * 2);
        for node in plan().size.nodes() {
            assert_eq!(flows.iter().filter(|flow| flow.node == node).count(), 3 * 2);
            assert_eq!(plan().ues().find(|ue| ue.node == node), Some(Plan::ue_of(node)));
        }
        let mut more = Vec::new();
        Plan { flows: 10, ..plan() }.write_more_flows(&mut more).unwrap();
        let more = reading.read(&more[..], &Console::new(true).progress("", 0)).unwrap();
        let of = |node| more.iter().filter(|flow| flow.node == NodeId::new(node)).count();
        assert_eq!([of(0), of(1), of(2), of(3)], [3, 3, 2, 2]);
        let is_new = |key| flows.iter().all(|flow| flow.key != key);
        assert!(
            more.iter()
                .all(|flow| is_new(flow.key) && is_new(scalebricks_types::FlowKey::teid(flow.uplink_teid)))
        );
        assert!(flows.iter().any(|flow| flow.qfi.is_some()) && flows.iter().any(|flow| flow.qfi.is_none()));
    }

    #[test]
    fn sixteen_phones_have_each_pair_of_entry_and_handling_node_once() {
        let plan = Plan { ues_per_node: 4, ..plan() };
        let pairs: HashSet<_> = plan.ues().map(|ue| (ue.entry(plan.size), ue.node)).collect();
        assert_eq!(pairs.len(), 16);
        for ue in plan.ues() {
            for family in Family::ALL {
                assert_eq!(Ue::of_uplink(ue.uplink_teid(family), plan.size), Some(ue));
            }
        }
        assert_eq!(Ue::of_uplink(4095, plan.size), None);
        assert_eq!(Ue::of_uplink(0x0100_0000, plan.size), None);
    }

    #[test]
    fn names_are_short_enough_and_unique() {
        let mut seen = HashSet::new();
        for node in plan().size.nodes() {
            for port in NodePort::ALL {
                assert!(seen.insert(port.bridge_port(node)) && port.bridge_port(node).len() < 15);
                assert!(seen.insert(Plan::mac(node, port).to_string()));
                assert!(!FabricMac::is_marked(Plan::mac(node, port)));
            }
        }
        assert!(plan().namespaces().iter().all(|name| all_namespaces("sb").contains(name)));
    }
}
