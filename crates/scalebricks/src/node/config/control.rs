//! Where flows come from, if not from a file: the control plane.

use super::takeover::{self, TakeoverFile};
use super::{Port, Problems, sections};
use scalebricks_control::version::Version;
use scalebricks_dataplane::pinned::MAX_KEYS;
use scalebricks_engine::remote::Endpoint;
use scalebricks_types::{ClusterSize, NodeId, PartitionCount};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

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
    /// The newest version of the protocol to use.
    pub version: Version,
    /// Keys that this node's FIB holds, at most: two a flow.
    pub fib_keys: usize,
    /// Where the other nodes listen.
    pub peers: BTreeMap<NodeId, SocketAddr>,
    /// The other nodes' addresses, if one is to answer for those of another that died.
    pub takeover: Option<TakeoverFile>,
}

/// Who keeps the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAt {
    /// This process, in a directory: for a node that is alone.
    Directory(PathBuf),
    /// A process of this machine.
    Process(Endpoint),
    /// NATS servers.
    Nats(NatsAt),
}

impl EngineAt {
    /// The same with files found by `beside`.
    #[must_use]
    pub fn with_files(self, beside: impl Fn(&Path) -> PathBuf) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(beside(&path)),
            Self::Process(endpoint) => Self::Process(endpoint),
            Self::Nats(nats) => {
                let credentials = nats.credentials.map(|path| beside(&path));
                let tls = nats.tls.map(|tls| NatsTls {
                    authorities: tls.authorities.map(|path| beside(&path)),
                    identity: tls.identity.map(|(own, key)| (beside(&own), beside(&key))),
                });
                Self::Nats(NatsAt { credentials, tls, ..nats })
            }
        }
    }
}

/// NATS servers, and how they are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsAt {
    /// Servers of one cluster, as `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// How many keep each log: 1, 3 or 5.
    pub replicas: u8,
    /// A file of credentials.
    pub credentials: Option<PathBuf>,
    /// Files for TLS, if it is wanted.
    pub tls: Option<NatsTls>,
}

/// Files for TLS, in the PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsTls {
    /// Who signed the servers' certificates, if not somebody the system trusts.
    pub authorities: Option<PathBuf>,
    /// This node's certificate and its key, if servers ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The section as it has to be; `None` if there is a problem with it.
pub(super) fn control(
    section: sections::Control,
    id: usize,
    size: Option<ClusterSize>,
    ports: Option<&[Port; 3]>,
    problems: &mut Problems<'_>,
) -> Option<ControlFile> {
    let engine = engine(&EngineSection::from(&section), problems);
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
    let takeover = ports.and_then(|ports| takeover::takeover(&section, ports, problems));
    Some(ControlFile {
        engine: engine?,
        name: section.name,
        listen: section.listen,
        key: section.key,
        flows: *section.flows.get_ref(),
        partitions: count?,
        version: version?,
        fib_keys: usize::try_from(fib_keys).unwrap_or(MAX_KEYS),
        peers,
        takeover,
    })
}

/// What a section says of the engine.
pub(crate) struct EngineSection<'a> {
    /// Where it is.
    pub engine: &'a Spanned<String>,
    /// Servers that keep each log.
    pub replicas: Option<u8>,
    /// The file with a NATS user's credentials.
    pub credentials: Option<&'a PathBuf>,
    /// TLS to NATS servers.
    pub tls: Option<&'a sections::NatsTls>,
}

impl<'a> From<&'a sections::Control> for EngineSection<'a> {
    fn from(section: &'a sections::Control) -> Self {
        let sections::Control { engine, replicas, credentials, tls, .. } = section;
        Self { engine, replicas: *replicas, credentials: credentials.as_ref(), tls: tls.as_ref() }
    }
}

/// The engine that a section names; `None` if there is a problem with it.
pub(crate) fn engine(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> Option<EngineAt> {
    let given = section.engine;
    let text = given.get_ref();
    if text.starts_with("nats://") || text.starts_with("tls://") {
        return Some(EngineAt::Nats(nats(section, problems)));
    }
    if section.replicas.is_some() || section.credentials.is_some() || section.tls.is_some() {
        let what = "replicas, credentials and tls are for an engine at nats:// only";
        problems.add(given.span(), "control.engine", what);
    }
    if let Some(directory) = text.strip_prefix("directory:").filter(|path| !path.is_empty()) {
        return Some(EngineAt::Directory(PathBuf::from(directory)));
    }
    match text.parse::<Endpoint>() {
        Ok(endpoint) => Some(EngineAt::Process(endpoint)),
        Err(error) => {
            problems.add(
                given.span(),
                "control.engine",
                format!("{error}, nats://HOST:PORT for several machines, or directory:PATH for a node that is alone"),
            );
            None
        }
    }
}

/// Servers that keep each log, unless told otherwise.
const REPLICAS: u8 = 3;

fn nats(section: &EngineSection<'_>, problems: &mut Problems<'_>) -> NatsAt {
    let span = || section.engine.span();
    let replicas = section.replicas.unwrap_or(REPLICAS);
    if ![1, 3, 5].contains(&replicas) {
        problems.add(span(), "control.replicas", format!("{replicas} is not 1, 3 or 5"));
    }
    let tls = section.tls.map(|tls| {
        let identity = tls.certificate.clone().zip(tls.key.clone());
        if identity.is_none() && (tls.certificate.is_some() || tls.key.is_some()) {
            problems.add(span(), "control.tls", "a certificate and its key go together");
        }
        NatsTls { authorities: tls.authorities.clone(), identity }
    });
    NatsAt {
        servers: section.engine.get_ref().split(',').map(|server| server.trim().to_owned()).collect(),
        replicas,
        credentials: section.credentials.cloned(),
        tls,
    }
}
