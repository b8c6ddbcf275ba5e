//! Where flows come from, if not from a file: the control plane.

use super::Problems;
use super::sections;
use scalebricks_engine::remote::Endpoint;
use scalebricks_types::{ClusterSize, NodeId, PartitionCount};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Default of `control.partitions`.
const PARTITIONS: u32 = 64;

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
    /// Where the other nodes listen.
    pub peers: BTreeMap<NodeId, SocketAddr>,
}

/// Who keeps the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAt {
    /// This process, in a directory: for a node that is alone.
    Directory(PathBuf),
    /// A process of this machine.
    Process(Endpoint),
}

/// The section as it has to be; `None` if there is a problem with it.
pub(super) fn control(
    section: sections::Control,
    id: usize,
    size: Option<ClusterSize>,
    problems: &mut Problems<'_>,
) -> Option<ControlFile> {
    let engine = engine(&section.engine, problems);
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
    let mut peers = BTreeMap::new();
    for peer in &section.peer {
        let node = *peer.node.get_ref();
        let known = size.is_none_or(|size| node < size.get());
        if node == id || !known {
            problems.add(
                peer.node.span(),
                "control.peer.node",
                format!("{node} is not another node of the cluster"),
            );
        } else if peers.insert(NodeId::new(node as u8), peer.address).is_some() {
            problems.add(peer.node.span(), "control.peer.node", format!("{node} is there twice"));
        }
    }
    Some(ControlFile {
        engine: engine?,
        name: section.name,
        listen: section.listen,
        key: section.key,
        flows: *section.flows.get_ref(),
        partitions: count?,
        peers,
    })
}

fn engine(given: &toml::Spanned<String>, problems: &mut Problems<'_>) -> Option<EngineAt> {
    let text = given.get_ref();
    if let Some(directory) = text.strip_prefix("directory:").filter(|path| !path.is_empty()) {
        return Some(EngineAt::Directory(PathBuf::from(directory)));
    }
    match text.parse::<Endpoint>() {
        Ok(endpoint) => Some(EngineAt::Process(endpoint)),
        Err(error) => {
            problems.add(
                given.span(),
                "control.engine",
                format!("{error}, or directory:PATH for a node that is alone"),
            );
            None
        }
    }
}
