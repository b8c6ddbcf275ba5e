//! Where flows come from, if not from a file: the control plane.

use super::engine::{EngineAt, EngineSection, engine};
use super::takeover::{self, TakeoverFile};
use super::{AdminTcp, Port, Problems, sections};
use scalebricks_apps::gateway::flow_tables::log::MAX_KEYS;
use scalebricks_control::lease::LeaseTimes;
use scalebricks_control::version::Version;
use scalebricks_types::{ClusterSize, NodeId, PartitionCount};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Default of `control.partitions`.
const PARTITIONS: u32 = 64;

/// The least of `control.lease.claim_ms`: two reads of the view.
const LEAST_LEASE: Duration = Duration::from_secs(2);

/// The most of `control.lease.forward_ms`: callers wait for 30 s, and a change that owners delay must be over by then.
const LONGEST_LEASE: Duration = Duration::from_secs(20);

/// What a node is told of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFile {
    /// Who keeps the log.
    pub engine: EngineAt,
    /// The cluster's name: nodes of another do not listen.
    pub name: String,
    /// Where this node listens for the others, TCP and UDP.
    pub listen: SocketAddr,
    /// The file with the key that all nodes share.
    pub key: PathBuf,
    /// Flows that the cluster is made for.
    pub flows: u64,
    /// Shares of the key space, each with a log of its own: the same at all nodes, for ever.
    pub partitions: PartitionCount,
    /// The newest version of the protocol to use.
    pub version: Version,
    /// Keys that this node's FIB holds, at most: two a flow.
    pub fib_keys: usize,
    /// How long the node acts without contact to the log and to half of the other members: the same at all nodes.
    pub lease: LeaseTimes,
    /// Where the other nodes listen.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// The other nodes' addresses, if one is to answer for those of another that died.
    pub takeover: Option<TakeoverFile>,
}

impl ControlFile {
    /// Checks that the admin server and the control plane listen at different addresses.
    pub(super) fn check_places(
        &self,
        admin_tcp: Option<&AdminTcp>,
        place: &Spanned<usize>,
        problems: &mut Problems<'_>,
    ) {
        let overlap = |a: SocketAddr, b: SocketAddr| {
            a.port() == b.port() && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
        };
        if let Some(tcp) = admin_tcp.filter(|tcp| overlap(tcp.listen, self.listen)) {
            let what = format!("{} is where control.listen is, too", tcp.listen);
            problems.add(place.span(), "admin_tcp.listen", what);
        }
    }
}

/// The section as it has to be; `None` if there is a problem with it.
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
    if *section.flows.get_ref() == 0 {
        problems.add(section.flows.span(), "control.flows", "0: for how many flows is the cluster made?");
    }
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
    if let (0, Some(given)) = (fib_keys, &section.fib_keys) {
        problems.add(given.span(), "control.fib_keys", "0: how many keys may this node hold, two a flow?");
    }
    let listen = *section.listen.get_ref();
    if listen.port() == 0 || !is_unicast(listen.ip()) {
        let what = format!("{listen} is no address that other nodes can be told: ADDRESS:PORT");
        problems.add(section.listen.span(), "control.listen", what);
    }
    let mut peers: BTreeMap<NodeId, SocketAddr> = BTreeMap::new();
    for peer in &section.peer {
        let node = *peer.node.get_ref();
        let address = *peer.address.get_ref();
        if address.port() == 0 || address.ip().is_unspecified() || !is_unicast(address.ip()) {
            let what = format!("{address} is no address of another node: ADDRESS:PORT");
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
            problems.add(peer.node.span(), "control.peer.node", format!("{node} is there twice"));
        }
    }
    let lease = lease(section.lease.as_ref(), problems);
    let takeover = ports.and_then(|ports| takeover::takeover(&section, ports, problems));
    Some(ControlFile {
        engine: engine?,
        name: section.name.into_inner(),
        listen,
        key: section.key,
        flows: *section.flows.get_ref(),
        partitions: count?,
        version: version?,
        fib_keys: usize::try_from(fib_keys).unwrap_or(MAX_KEYS),
        lease,
        peers,
        takeover,
    })
}

/// How long a lease lasts.
fn lease(section: Option<&sections::Lease>, problems: &mut Problems<'_>) -> LeaseTimes {
    let default = LeaseTimes::default();
    let given = |time: Option<&Spanned<u64>>, default| {
        time.map_or(default, |time| Duration::from_millis(*time.get_ref()))
    };
    let claim = section.and_then(|section| section.claim_ms.as_ref());
    let forward = section.and_then(|section| section.forward_ms.as_ref());
    let times = LeaseTimes { claim: given(claim, default.claim), forward: given(forward, default.forward) };
    if let Some(given) = claim.filter(|_| times.claim < LEAST_LEASE) {
        let what = format!("the view is read every second to renew the lease: {} at least", ms(LEAST_LEASE));
        problems.add(given.span(), "control.lease.claim_ms", what);
    }
    if let Some(given) = forward.filter(|_| times.forward > LONGEST_LEASE) {
        let what =
            format!("changes may wait for longer, and their callers do not: {} at most", ms(LONGEST_LEASE));
        problems.add(given.span(), "control.lease.forward_ms", what);
    }
    if let Some(given) = forward.or(claim).filter(|_| times.forward < times.claim) {
        let what = format!(
            "a node that claims its addresses forwards: claim_ms is {}, forward_ms {}",
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
        replicas: section.replicas,
        user: section.user.as_ref(),
        password: section.password.as_ref(),
        token: section.token.as_ref(),
        credentials: section.credentials.as_ref(),
        tls: section.tls.as_ref(),
    }
}
