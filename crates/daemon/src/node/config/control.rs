//! The section `[control]`: the control plane.

use super::engine::{EngineAt, EngineSection, engine};
use super::takeover::{self, TakeoverFile};
use super::{AdminTcp, Port, Problems, sections};
use crate::config::Spanned;
use scalebricks_apps::gateway::flow_tables::log::MAX_KEYS;
use scalebricks_control::lease::LeaseTimes;
use scalebricks_control::version::Version;
use scalebricks_types::{ClusterSize, NodeId, PartitionCount};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Default of `control.partitions`.
pub(super) const PARTITIONS: u32 = 64;

/// Least `control.lease.claim_ms`: two reads of the view.
pub(super) const LEAST_CLAIM_MS: u64 = 2_000;

/// Most `control.lease.forward_ms`: callers wait for 30 s, and a change that owners delay must be done by then.
pub(super) const MOST_FORWARD_MS: u64 = 20_000;

/// The checked section `[control]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFile {
    /// The engine that stores the log.
    pub engine: EngineAt,
    /// The cluster's name: nodes of other clusters are ignored.
    pub name: String,
    /// Where this node listens for the others, TCP and UDP.
    pub listen: SocketAddr,
    /// The file with the key that all nodes share.
    pub key: PathBuf,
    /// Number of flows that the cluster is made for.
    pub flows: u64,
    /// Partitions of the key space, each with its own log. It must be the same at all nodes, and never changes.
    pub partitions: PartitionCount,
    /// The newest version of the protocol to use.
    pub version: Version,
    /// Most keys that this node's FIB holds, two per flow.
    pub fib_keys: usize,
    /// How long the node acts without contact to the log and to half of the other members. It must be the same at all
    /// nodes.
    pub lease: LeaseTimes,
    /// Where the other nodes listen.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// The other nodes' addresses, if this node takes over those of dead nodes.
    pub takeover: Option<TakeoverFile>,
}

impl ControlFile {
    /// Checks that the admin server and the control plane listen at different addresses.
    pub(super) fn check_places(&self, admin_tcp: Option<&Spanned<AdminTcp>>, problems: &mut Problems<'_>) {
        let overlap = |a: SocketAddr, b: SocketAddr| {
            a.port() == b.port() && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
        };
        if let Some(tcp) = admin_tcp.filter(|tcp| overlap(tcp.get_ref().listen, self.listen)) {
            let what = format!("{} is also control.listen", tcp.get_ref().listen);
            problems.add(tcp.span(), "admin_tcp.listen", what);
        }
    }
}

/// Checks the section; `None` if it has a problem that leaves no value.
pub(super) fn control(
    section: sections::Control,
    id: usize,
    size: Option<ClusterSize>,
    ports: Option<&[Port; 3]>,
    problems: &mut Problems<'_>,
) -> Option<ControlFile> {
    let engine = engine(&engine_section(&section), problems);
    let partitions = section.partitions.as_ref().map_or(PARTITIONS, |given| *given.get_ref());
    let count = PartitionCount::new(partitions).ok();
    if let (None, Some(given)) = (count, &section.partitions) {
        problems.add(
            given.span(),
            "control.partitions",
            format!("{partitions} is not a power of two up to 65536"),
        );
    }
    let flows = *section.flows.get_ref();
    let version =
        section.version.as_ref().map_or(Some(Version::NEWEST), |given| Version::known(*given.get_ref()));
    if let (None, Some(given)) = (version, &section.version) {
        let (first, newest) = (Version::FIRST, Version::NEWEST);
        problems.add(
            given.span(),
            "control.version",
            format!("this software knows versions {first} to {newest}"),
        );
    }
    let fib_keys = section.fib_keys.as_ref().map_or(MAX_KEYS as u64, |given| *given.get_ref());
    let what = |listen| format!("{listen} is not ADDRESS:PORT with an address that other nodes can reach");
    let is_right = |listen: SocketAddr| listen.port() != 0 && is_unicast(listen.ip());
    let listen = problems.check(&section.listen, "control.listen", is_right, what);
    let mut peers: BTreeMap<NodeId, SocketAddr> = BTreeMap::new();
    for peer in &section.peer {
        let node = *peer.node.get_ref();
        let address = *peer.address.get_ref();
        if address.port() == 0 || address.ip().is_unspecified() || !is_unicast(address.ip()) {
            let what = format!("{address} is not the ADDRESS:PORT of another node");
            problems.add(peer.address.span(), "control.peer.address", what);
        } else if address == listen || peers.values().any(|other| *other == address) {
            let what = format!("{address} is used twice: by this node or another peer");
            problems.add(peer.address.span(), "control.peer.address", what);
        }
        let known = size.is_none_or(|size| node < size.get());
        if node == id || !known {
            problems.add(
                peer.node.span(),
                "control.peer.node",
                format!("{node} is not another node of the cluster"),
            );
        } else if peers.insert(NodeId::new(node as u8), address).is_some() {
            problems.add(peer.node.span(), "control.peer.node", format!("{node} occurs twice"));
        }
    }
    let lease = lease(section.lease.as_ref(), problems);
    let takeover = ports.and_then(|ports| takeover::takeover(&section, ports, problems));
    Some(ControlFile {
        engine: engine?,
        name: section.name.into_inner(),
        listen,
        key: section.key,
        flows,
        partitions: count?,
        version: version?,
        fib_keys: usize::try_from(fib_keys).unwrap_or(MAX_KEYS),
        lease,
        peers,
        takeover,
    })
}

/// Checks the durations of a lease.
fn lease(section: Option<&sections::Lease>, problems: &mut Problems<'_>) -> LeaseTimes {
    let default = LeaseTimes::default();
    let given = |time: Option<&Spanned<u64>>, default| {
        time.map_or(default, |time| Duration::from_millis(*time.get_ref()))
    };
    let claim = section.and_then(|section| section.claim_ms.as_ref());
    let forward = section.and_then(|section| section.forward_ms.as_ref());
    let times = LeaseTimes { claim: given(claim, default.claim), forward: given(forward, default.forward) };
    if let Some(given) = forward.or(claim).filter(|_| times.forward < times.claim) {
        let what = format!(
            "a node that claims its addresses must forward, but claim_ms is {}, forward_ms {}",
            ms(times.claim),
            ms(times.forward)
        );
        problems.add(given.span(), "control.lease", what);
    }
    times
}

const fn ms(time: Duration) -> u128 {
    time.as_millis()
}

fn is_unicast(address: IpAddr) -> bool {
    !address.is_multicast() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

fn engine_section(section: &sections::Control) -> EngineSection<'_> {
    EngineSection {
        engine: &section.engine,
        name: &section.name,
        replicas: section.replicas.as_ref(),
        user: section.user.as_ref(),
        password: section.password.as_ref(),
        token: section.token.as_ref(),
        credentials: section.credentials.as_ref(),
        tls: section.tls.as_ref(),
    }
}
