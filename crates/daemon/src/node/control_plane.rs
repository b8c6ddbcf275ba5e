//! The control plane inside a node's process: a thread with a runtime of its own, beside the workers.

use crate::node::config::{ControlFile, EngineAt};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::leasing::Leasing;
use scalebricks_cluster::live::live;
use scalebricks_cluster::mesh::{ClusterKey, Mesh, MeshConfig, MeshError, MeshLimits, MeshStats};
use scalebricks_cluster::plane::PlaneConfig;
use scalebricks_cluster::shared_tables::SharedTables;
use scalebricks_control::engine::Engine;
use scalebricks_engine::embedded::{EmbeddedLog, Options};
use scalebricks_engine::nats::JetStream;
use scalebricks_tables::compact::{Params, ParamsError, Structure};
use scalebricks_types::{ClusterSize, HashSeed, KeyHasher, NodeId};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest time that a packet takes from the GPT of one node to the FIB of another: a worker may sleep, and a switch hold it.
const GRACE: Duration = Duration::from_millis(50);

/// Threads of the control plane.
const THREADS: usize = 2;

/// Time between two tries to reach the engine at the start.
const PATIENCE: Duration = Duration::from_millis(500);

/// Why a node has no control plane.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The shape of the GPT.
    #[error("the table that leads to nodes: {0}")]
    Params(#[from] ParamsError),
    /// The way to the other nodes.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// The engine.
    #[error("engine: {0}")]
    Engine(String),
    /// The thread.
    #[error("starting the control plane: {0}")]
    Thread(std::io::Error),
}

/// The shape of a cluster's GPT at the beginning. What it becomes the cluster knows.
///
/// # Errors
/// [`ParamsError`] for more flows than a table can be made for.
pub fn params(control: &ControlFile, gpt: Structure, size: ClusterSize) -> Result<Params, ParamsError> {
    let value_bits = (size.get() as u32).next_power_of_two().trailing_zeros().max(1) as u8; // 8 at most
    Params::for_keys(gpt, 2 * control.flows, value_bits, control.partitions)
}

/// What a daemon is made of.
pub struct Setting<'a> {
    /// What the node is told.
    pub control: &'a ControlFile,
    /// The node.
    pub node: NodeId,
    /// The shape of the GPT at the beginning.
    pub params: Params,
    /// The secret of the key hash.
    pub seed: HashSeed,
    /// The key file.
    pub key: &'a Path,
    /// The node's lease.
    pub leasing: Leasing,
}

/// The control plane of a node. Dropping it stops it.
pub struct Daemon {
    plane: Arc<OnceLock<ControlPlane>>,
    mesh: Arc<OnceLock<Weak<Mesh>>>,
    tables: SharedTables,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

impl Daemon {
    /// Starts it. It begins as soon as its engine can be reached; until then the node has no flows.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(setting: &Setting<'_>, tables: SharedTables) -> Result<Self, DaemonError> {
        let &Setting { control, node, params, seed, key, ref leasing } = setting;
        let leasing = leasing.clone();
        let config = PlaneConfig {
            node,
            partitions: control.partitions,
            params,
            hasher: KeyHasher::new(seed),
            grace: GRACE,
            version: control.version,
        };
        let mesh = MeshConfig {
            cluster: control.name.clone(),
            node,
            listen: control.listen,
            peers: control.peers.clone(),
            key: ClusterKey::read(key)?,
            limits: MeshLimits::default(),
        };
        let engine = control.engine.clone();
        let (plane, known_mesh) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (stop, stopped) = oneshot::channel();
        let (told, started) = std::sync::mpsc::channel();
        let run = {
            let (plane, known_mesh, tables) = (Arc::clone(&plane), Arc::clone(&known_mesh), tables.clone());
            move || {
                // Two threads: what keeps one busy must not keep others' messages from coming in.
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(THREADS)
                    .thread_name("control")
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(told.send(Err(DaemonError::Thread(error)))),
                };
                runtime.block_on(async move {
                    let name = mesh.cluster.clone();
                    let begun = check(&engine, &name).and_then(|()| Ok(Mesh::start(mesh)?));
                    let (mesh, events) = match begun {
                        Ok(begun) => begun,
                        Err(error) => return drop(told.send(Err(error))),
                    };
                    let mesh = Arc::new(mesh);
                    let _once = known_mesh.set(Arc::downgrade(&mesh));
                    let _waits = told.send(Ok(()));
                    let lives = async {
                        let engine = open(&engine, &name).await;
                        live(config, engine, mesh, events, &plane, tables, Some(leasing)).await;
                    };
                    tokio::select! {
                        _ = stopped => {}
                        () = lives => {}
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run);
        let thread = thread.map_err(DaemonError::Thread)?;
        match started.recv() {
            Ok(Ok(())) => {
                Ok(Self { plane, mesh: known_mesh, tables, stop: Some(stop), thread: Some(thread) })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(DaemonError::Engine("the control plane ended at once".to_owned())),
        }
    }

    /// The control plane, as soon as its engine could be reached.
    pub fn later(&self) -> Arc<OnceLock<ControlPlane>> {
        Arc::clone(&self.plane)
    }

    /// The control plane, when its engine could be reached.
    pub fn plane(&self) -> Option<&ControlPlane> {
        self.plane.get()
    }

    /// What was counted on the way to the other nodes, while there is one.
    pub fn mesh_stats(&self) -> Option<MeshStats> {
        Some(self.mesh.get()?.upgrade()?.stats())
    }

    /// The tables.
    pub const fn tables(&self) -> &SharedTables {
        &self.tables
    }

    /// Whether the node has all it is to have.
    pub fn has_caught_up(&self) -> bool {
        self.plane().is_some_and(ControlPlane::has_caught_up)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Checks the files that a control plane reads at its start: the cluster key, secrets, TLS. All that is wrong with them.
pub fn check_files(control: &ControlFile) -> Vec<DaemonError> {
    let key = ClusterKey::read(&control.key).map(drop).map_err(DaemonError::from);
    [key, check(&control.engine, &control.name)].into_iter().filter_map(Result::err).collect()
}

/// Checks that this machine has an address to listen at for other nodes. A port in use is an error unless the node itself
/// `is_running`.
///
/// # Errors
/// [`MeshError::Listen`].
pub fn check_listen(address: SocketAddr, is_running: bool) -> Result<(), DaemonError> {
    let bound = std::net::UdpSocket::bind(address).and_then(|udp| {
        let tcp = std::net::TcpListener::bind(address);
        drop(udp);
        tcp
    });
    match bound {
        Err(error) if !(is_running && error.kind() == ErrorKind::AddrInUse) => {
            Err(MeshError::Listen { address, error }.into())
        }
        _ => Ok(()),
    }
}

/// What can be said of an engine before it is reached. Reads secrets and files for TLS.
pub(crate) fn check(engine: &EngineAt, cluster: &str) -> Result<(), DaemonError> {
    match engine {
        EngineAt::Nats(nats) => {
            nats.options(cluster).map_err(DaemonError::Engine)?;
            match &nats.tls {
                Some(tls) => scalebricks_admin::tls::check(tls.authorities.as_deref(), tls.identity.as_ref())
                    .map_err(|error| DaemonError::Engine(error.to_string())),
                None => Ok(()),
            }
        }
        EngineAt::Directory(_) => Ok(()),
    }
}

/// Opens an engine; not before it can be had.
pub(crate) async fn open(engine: &EngineAt, cluster: &str) -> Arc<dyn Engine> {
    if let EngineAt::Nats(nats) = engine
        && nats.sends_secrets_in_clear()
    {
        tracing::warn!("the password goes to the NATS servers in clear text: set [control.tls]");
    }
    loop {
        match try_open(engine, cluster).await {
            Ok(engine) => return engine,
            Err(error) => tracing::error!(%error, "the engine cannot be opened; trying again"),
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

async fn try_open(engine: &EngineAt, cluster: &str) -> Result<Arc<dyn Engine>, DaemonError> {
    let told = |error: &dyn std::fmt::Display| DaemonError::Engine(error.to_string());
    Ok(match engine {
        EngineAt::Directory(path) => {
            Arc::new(EmbeddedLog::open(path, Options::default()).map_err(|error| told(&error))?)
        }
        EngineAt::Nats(nats) => {
            let connected = JetStream::connect(nats.options(cluster).map_err(DaemonError::Engine)?).await;
            Arc::new(connected.map_err(|error| told(&error))?)
        }
    })
}
