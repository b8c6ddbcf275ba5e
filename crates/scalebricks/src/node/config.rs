//! The configuration of a node: a TOML file, checked whole before anything starts.

use scalebricks_dataplane::policy::MIN_MTU;
use scalebricks_dataplane::{Architecture, Oversize};
use scalebricks_types::{ClusterSize, HashSeed, KeyProfile, MAX_NODES, NodeId};
use scalebricks_wire::MacAddr;
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// Everything a node is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// The cluster's size.
    pub size: ClusterSize,
    /// Its architecture.
    pub architecture: Architecture,
    /// The secret of its key hash.
    pub seed: HashSeed,
    /// What of a downstream packet is its key.
    pub profile: KeyProfile,
    /// What happens to what does not fit the base-station link.
    pub oversize: Oversize,
    /// Largest IP packet there.
    pub base_station_mtu: u16,
    /// Whether IPv4 header checksums are verified.
    pub verify_ipv4_checksum: bool,
    /// The gateway's tunnel address.
    pub gateway: Ipv4Addr,
    /// The source of its ICMPv6 errors.
    pub gateway_v6: Ipv6Addr,
    /// This node.
    pub id: NodeId,
    /// The file of flows.
    pub flows: PathBuf,
    /// Tunnel addresses of the base stations, with their next hop.
    pub base_stations: Vec<Station>,
    /// The ports: Internet, base stations, fabric.
    pub ports: [Port; 3],
}

/// A base station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Its tunnel address.
    pub address: Ipv4Addr,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// What it leads to.
    pub role: Role,
    /// The DPDK device: a PCI address, or a virtual device with its arguments.
    pub device: String,
    /// Its MAC address, if not the device's.
    pub mac: Option<MacAddr>,
    /// Addresses it answers for, with their networks' lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops of everything else; several share the flows.
    pub gateways: Vec<IpAddr>,
}

/// What a port leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The Internet.
    Internet,
    /// The base stations.
    BaseStation,
    /// The other nodes.
    Fabric,
}

impl Role {
    const ALL: [Self; 3] = [Self::Internet, Self::BaseStation, Self::Fabric];

    /// As in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::BaseStation => "base-station",
            Self::Fabric => "fabric",
        }
    }
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: usize,
    /// The key it is about.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "line {}: {}", self.line, self.what)
        } else {
            write!(f, "line {}: {}: {}", self.line, self.key, self.what)
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Cluster,
    node: Node,
    #[serde(default)]
    base_station: Vec<StationSection>,
    #[serde(default)]
    port: Vec<Spanned<PortSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    nodes: Spanned<usize>,
    #[serde(default)]
    architecture: ArchitectureName,
    secret: Spanned<String>,
    gateway: Ipv4Addr,
    gateway_v6: Ipv6Addr,
    #[serde(default)]
    key: KeyName,
    #[serde(default)]
    oversize: OversizeName,
    base_station_mtu: Option<Spanned<u16>>,
    #[serde(default = "yes")]
    verify_ipv4_checksum: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ArchitectureName {
    #[default]
    Scalebricks,
    HashPartition,
    FullDuplication,
    Vlb,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeyName {
    #[default]
    Flow5,
    Ue,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OversizeName {
    #[default]
    FragmentOuter,
    Icmp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    id: Spanned<usize>,
    flows: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StationSection {
    address: Spanned<Ipv4Addr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortSection {
    role: Spanned<Role>,
    device: Spanned<String>,
    mac: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    #[serde(default)]
    gateways: Vec<IpAddr>,
}

/// Default of `base_station_mtu`.
const BASE_STATION_MTU: u16 = 1_600;

/// What was wrong so far.
struct Problems<'a> {
    text: &'a str,
    found: Vec<Problem>,
}

impl Problems<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).fold(1, |line, byte| line + usize::from(byte == b'\n'))
    }

    fn add(&mut self, span: Range<usize>, key: &str, what: impl Into<String>) {
        let line = self.line(span.start);
        self.found.push(Problem { line, key: key.to_owned(), what: what.into() });
    }
}

impl NodeFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s, or the first if the file cannot be understood as TOML with these keys.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = Problems { text, found: Vec::new() }.line(at);
            vec![Problem { line, key: String::new(), what: error.message().trim().replace('\n', ", ") }]
        })?;
        let mut problems = Problems { text, found: Vec::new() };
        let made = file.make(&mut problems);
        match made {
            Some(made) if problems.found.is_empty() => Ok(made),
            _ => {
                problems.found.sort_by_key(|problem| problem.line);
                Err(problems.found)
            }
        }
    }
}

impl File {
    fn make(self, problems: &mut Problems<'_>) -> Option<NodeFile> {
        let Cluster { nodes, secret, base_station_mtu, .. } = &self.cluster;
        let size = ClusterSize::new(*nodes.get_ref()).ok();
        if size.is_none() {
            problems.add(
                nodes.span(),
                "cluster.nodes",
                format!("{} is not 1 to {MAX_NODES}", nodes.get_ref()),
            );
        }
        let seed = seed(secret.get_ref());
        if seed.is_none() {
            problems.add(secret.span(), "cluster.secret", "not 32 hexadecimal digits, the same at all nodes");
        }
        let mtu = base_station_mtu.as_ref().map_or(BASE_STATION_MTU, |mtu| *mtu.get_ref());
        if let Some(given) = base_station_mtu.as_ref().filter(|_| mtu < MIN_MTU) {
            problems.add(
                given.span(),
                "cluster.base_station_mtu",
                format!("{mtu} is not {MIN_MTU} to 65535"),
            );
        }
        let (id, nodes) = (self.node.id.get_ref(), nodes.get_ref());
        if id >= nodes {
            let what = format!("{id} in a cluster of {nodes} (numbered from 0)");
            problems.add(self.node.id.span(), "node.id", what);
        }
        let mut base_stations: Vec<Station> = Vec::new();
        for station in &self.base_station {
            let address = *station.address.get_ref();
            if base_stations.iter().any(|other| other.address == address) {
                problems.add(
                    station.address.span(),
                    "base_station.address",
                    format!("{address} is there twice"),
                );
            }
            base_stations.push(Station { address });
        }
        let ports = ports(self.port, problems);
        let cluster = self.cluster;
        Some(NodeFile {
            size: size?,
            architecture: match cluster.architecture {
                ArchitectureName::Scalebricks => Architecture::ScaleBricks,
                ArchitectureName::HashPartition => Architecture::HashPartition,
                ArchitectureName::FullDuplication => Architecture::FullDuplication,
                ArchitectureName::Vlb => Architecture::Vlb,
            },
            seed: seed?,
            profile: match cluster.key {
                KeyName::Flow5 => KeyProfile::Flow5,
                KeyName::Ue => KeyProfile::Ue,
            },
            oversize: match cluster.oversize {
                OversizeName::FragmentOuter => Oversize::FragmentOuter,
                OversizeName::Icmp => Oversize::Icmp,
            },
            base_station_mtu: mtu,
            verify_ipv4_checksum: cluster.verify_ipv4_checksum,
            gateway: cluster.gateway,
            gateway_v6: cluster.gateway_v6,
            id: NodeId::new(u8::try_from(*self.node.id.get_ref()).ok()?),
            flows: self.node.flows,
            base_stations,
            ports: ports?,
        })
    }
}

/// The three ports, in the order of [`Role::ALL`].
fn ports(sections: Vec<Spanned<PortSection>>, problems: &mut Problems<'_>) -> Option<[Port; 3]> {
    let mut found: [Option<Port>; 3] = [None, None, None];
    for section in sections {
        let span = section.span();
        let section = section.into_inner();
        let role = *section.role.get_ref();
        let mac = section.mac.as_ref().and_then(|text| {
            let mac = mac(text.get_ref());
            if mac.is_none() {
                let what = format!("'{}' is not a unicast address like 02:00:00:00:00:01", text.get_ref());
                problems.add(text.span(), "port.mac", what);
            }
            mac
        });
        let addresses = section.addresses.iter().filter_map(|text| {
            let address = network(text.get_ref());
            if address.is_none() {
                let what =
                    format!("'{}' is not an address with its network, like 192.0.2.1/24", text.get_ref());
                problems.add(text.span(), "port.addresses", what);
            }
            address
        });
        let addresses = addresses.collect();
        if section.device.get_ref().trim().is_empty() {
            let what = "empty; a PCI address (0000:01:00.0) or a virtual device (net_af_packet0,iface=eth1)";
            problems.add(section.device.span(), "port.device", what);
        }
        let port =
            Port { role, device: section.device.into_inner(), mac, addresses, gateways: section.gateways };
        let place = Role::ALL.iter().position(|&other| other == role)?;
        if found[place].replace(port).is_some() {
            problems.add(span, "port.role", format!("a second port is '{}'", role.name()));
        }
    }
    for (role, port) in Role::ALL.into_iter().zip(&found) {
        if port.is_none() {
            let end = problems.text.len();
            problems.add(end..end, "port", format!("none has the role '{}'", role.name()));
        }
    }
    let [internet, base_station, fabric] = found;
    Some([internet?, base_station?, fabric?])
}

fn seed(text: &str) -> Option<HashSeed> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let word = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
    is_hex.then(|| Some(HashSeed::new(word(0)?, word(16)?)))?
}

fn mac(text: &str) -> Option<MacAddr> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        *octet =
            parts.next().filter(|part| part.len() == 2).and_then(|part| u8::from_str_radix(part, 16).ok())?;
    }
    let mac = MacAddr(octets);
    (parts.next().is_none() && !mac.is_multicast()).then_some(mac)
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            (file.size.get(), file.id, file.architecture),
            (4, NodeId::new(2), Architecture::ScaleBricks)
        );
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
            (
                "ddeeff\"",
                "ddeef\"",
                "line 4: cluster.secret: not 32 hexadecimal digits, the same at all nodes",
            ),
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
            (
                "role = \"base-station\"",
                "role = \"internet\"",
                "line 21: port.role: a second port is 'internet'",
            ),
        ] {
            assert_eq!(problem(from, to)[0], expected);
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let text = GOOD.replace("nodes = 4", "nodes = 999").replace("id = 2", "id = 1000");
        let told: Vec<usize> =
            NodeFile::parse(&text).unwrap_err().iter().map(|problem| problem.line).collect();
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
}
