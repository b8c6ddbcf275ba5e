//! The control plane inside a node's process: a thread with its own runtime, beside the workers.

use crate::node::config::{ControlFile, EngineAt};
use scalebricks_admin::runtime_thread::RuntimeThread;
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
use scalebricks_types::ClusterSize;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The longest time that a packet takes from the GPT of one node to the FIB of another: a worker may sleep, and a
/// switch may queue it.
pub const GRACE: Duration = Duration::from_millis(50);

/// Number of threads of the control plane.
const THREADS: usize = 2;

/// Time between two attempts to reach the engine at the start.
const PATIENCE: Duration = Duration::from_millis(500);

/// Errors of the control plane.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The GPT cannot have this shape.
    #[error("shape of the GPT: {0}")]
    Params(#[from] ParamsError),
    /// The mesh.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// The engine.
    #[error("engine: {0}")]
    Engine(String),
    /// The thread cannot be started.
    #[error("cannot start the control plane: {0}")]
    Thread(std::io::Error),
}

/// The initial shape of a cluster's GPT. The cluster's record contains later shapes.
///
/// # Errors
/// [`ParamsError`] if the number of flows is too large.
pub fn params(control: &ControlFile, gpt: Structure, size: ClusterSize) -> Result<Params, ParamsError> {
    let value_bits = (size.get() as u32).next_power_of_two().trailing_zeros().max(1) as u8; // 8 at most
    Params::for_keys(gpt, 2 * control.flows, value_bits, control.partitions)
}

/// The control plane of a node. Dropping it stops it.
pub struct Daemon {
    plane: Arc<OnceLock<ControlPlane>>,
    mesh: Arc<OnceLock<Weak<Mesh>>>,
    tables: SharedTables,
    _thread: RuntimeThread,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

impl Daemon {
    /// Starts the control plane. It waits until its engine can be reached; until then the node has no flows.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(
        control: &ControlFile,
        config: PlaneConfig,
        leasing: Leasing,
        tables: SharedTables,
    ) -> Result<Self, DaemonError> {
        let mesh = MeshConfig {
            cluster: control.name.clone(),
            node: config.node,
            listen: control.listen,
            peers: control.peers.clone(),
            key: ClusterKey::read(&control.key)?,
            limits: MeshLimits::default(),
        };
        let engine = control.engine.clone();
        let (plane, known_mesh) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (result, started) = std::sync::mpsc::channel();
        let run = {
            let (plane, known_mesh, tables) = (Arc::clone(&plane), Arc::clone(&known_mesh), tables.clone());
            move || async move {
                let name = mesh.cluster.clone();
                let begun = check(&engine, &name).and_then(|()| Ok(Mesh::start(mesh)?));
                let (mesh, events) = match begun {
                    Ok(begun) => begun,
                    Err(error) => return drop(result.send(Err(error))),
                };
                let mesh = Arc::new(mesh);
                let _once = known_mesh.set(Arc::downgrade(&mesh));
                let _waits = result.send(Ok(()));
                let engine = open(&engine, &name).await;
                live(config, engine, mesh, events, &plane, tables, Some(leasing)).await;
            }
        };
        // Two threads, so that messages are received while one is busy.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(THREADS).thread_name("control");
        let thread = RuntimeThread::start("control", &mut runtime, run).map_err(DaemonError::Thread)?;
        match started.recv() {
            Ok(Ok(())) => Ok(Self { plane, mesh: known_mesh, tables, _thread: thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(DaemonError::Engine("the control plane stopped at its start".to_owned())),
        }
    }

    /// The cell of the control plane, which is set when its engine was reached.
    pub fn later(&self) -> Arc<OnceLock<ControlPlane>> {
        Arc::clone(&self.plane)
    }

    /// The control plane; `None` until its engine was reached.
    pub fn plane(&self) -> Option<&ControlPlane> {
        self.plane.get()
    }

    /// Counters of the mesh, while it runs.
    pub fn mesh_stats(&self) -> Option<MeshStats> {
        Some(self.mesh.get()?.upgrade()?.stats())
    }

    /// The tables.
    pub const fn tables(&self) -> &SharedTables {
        &self.tables
    }

    /// Whether the node's tables are complete.
    pub fn has_caught_up(&self) -> bool {
        self.plane().is_some_and(ControlPlane::has_caught_up)
    }
}

/// Checks the files that a control plane reads at its start: the cluster key, secrets, TLS. Returns all problems.
pub fn check_files(control: &ControlFile) -> Vec<DaemonError> {
    let key = ClusterKey::read(&control.key).map(drop).map_err(DaemonError::from);
    [key, check(&control.engine, &control.name)].into_iter().filter_map(Result::err).collect()
}

/// Checks that this machine has the address at which the mesh listens. A port in use is an error unless the node itself
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

/// Checks an engine's options without connecting. Reads secrets and files for TLS.
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

/// Opens an engine; retries until it can be reached.
pub(crate) async fn open(engine: &EngineAt, cluster: &str) -> Arc<dyn Engine> {
    if let EngineAt::Nats(nats) = engine
        && nats.sends_secrets_in_clear()
    {
        tracing::warn!("the password is sent to the NATS servers in clear text: set [control.tls]");
    }
    loop {
        match try_open(engine, cluster).await {
            Ok(engine) => return engine,
            Err(error) => tracing::error!(%error, "cannot open the engine; trying again"),
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

async fn try_open(engine: &EngineAt, cluster: &str) -> Result<Arc<dyn Engine>, DaemonError> {
    let failed = |error: &dyn std::fmt::Display| DaemonError::Engine(error.to_string());
    Ok(match engine {
        EngineAt::Directory(path) => {
            Arc::new(EmbeddedLog::open(path, Options::default()).map_err(|error| failed(&error))?)
        }
        EngineAt::Nats(nats) => {
            let connected = JetStream::connect(nats.options(cluster).map_err(DaemonError::Engine)?).await;
            Arc::new(connected.map_err(|error| failed(&error))?)
        }
    })
}
