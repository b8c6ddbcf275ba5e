//! The handle of a node's control plane.

use super::actor::Actor;
use super::calling::{self, ANSWERS, CallDriver, CallQueues};
use super::event::Event;
use super::identity::Identity;
use super::inbox::{Beats, Inbox};
use super::leasing::Leasing;
use super::moved::MovedCounters;
use super::peers::Peers;
use super::placement::{self, Placed};
use super::progress::Progress;
use super::repins::Repins;
use super::rib::LogReader;
use super::shared_tables::SharedTables;
use super::verify::{Readable, Verifications};
use super::write::{self, LogTask, Work};
use super::{shape, view};
use arc_swap::ArcSwap;
use scalebricks_control::agent::{Agent, AgentStats};
use scalebricks_control::courier::ProcessId;
use scalebricks_control::distribution::Tables;
use scalebricks_control::engine::{Engine, EngineError, SwapError, WriterId};
use scalebricks_control::membership::{Beat, Fitness, View};
use scalebricks_control::record::Session;
use scalebricks_control::shape::Shape;
use scalebricks_control::version::Version;
use scalebricks_elements::gateway::FlowCount;
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, KeyHasher, NodeId, PartitionCount, PartitionId, Teid};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

pub use super::accept::{Accepted, ChangeRefusal, RefusedChanges};

/// Most events that wait for the actor.
const EVENTS: usize = 4_096;

/// Time limit of a question to another node.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Configuration of a node's control plane.
#[derive(Debug, Clone)]
pub struct PlaneConfig {
    /// The node.
    pub node: NodeId,
    /// Number of partitions of the key space, the same at all nodes forever.
    pub partitions: PartitionCount,
    /// The shape of the GPT, if this node starts the cluster.
    pub params: Params,
    /// The hash of keys, with the cluster's secret.
    pub hasher: KeyHasher,
    /// The longest time that a packet takes from one node to another.
    pub grace: Duration,
    /// The newest version of the protocol to use.
    pub version: Version,
}

/// The link to other nodes. Messages may be lost, and are not duplicated.
pub trait PeerLink: Send + Sync {
    /// Sends a heartbeat to all others.
    fn beat(&self, beat: Beat);

    /// Sends a message to one node.
    fn send(&self, to: NodeId, bytes: Vec<u8>);
}

/// State that the actor publishes, and that all tasks use.
pub(super) struct PlaneState {
    pub(super) node: NodeId,
    /// The number of this process.
    pub(super) process: ProcessId,
    pub(super) partitions: PartitionCount,
    hasher: KeyHasher,
    /// Number of the cluster's keys.
    pub(super) keys: AtomicU64,
    pub(super) progress: Progress,
    /// By partition, the queues to its owner.
    pub(super) call_queues: Vec<CallQueues>,
    /// By partition, the queue to its log, for the owner.
    pub(super) logs: Vec<mpsc::Sender<Work>>,
    pub(super) identity: Arc<Identity>,
    pub(super) view: ArcSwap<View>,
    pub(super) shape: ArcSwap<Shape>,
    pub(super) placed: ArcSwap<Placed>,
    pub(super) repins: Repins,
    pub(super) has_caught_up: AtomicBool,
    /// The node's life; 0 before the actor has started.
    pub(super) life: AtomicU64,
    /// The life in which its tables are complete; 0 if they are not.
    pub(super) caught_up_in: AtomicU64,
    /// Received heartbeats, and this node's fitness.
    pub(super) beats: Arc<Beats>,
    /// The node's lease, if it keeps one.
    pub(super) lease: OnceLock<Leasing>,
    pub(super) malformed: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) voids: AtomicU64,
    pub(super) reloads: AtomicU64,
    /// Replaced as a whole.
    pub(super) counters: Mutex<MovedCounters>,
    pub(super) agent: ArcSwap<AgentStats>,
}

impl PlaneState {
    pub(super) fn partition_of(&self, key: &FlowKey) -> PartitionId {
        self.partitions.of(self.hasher.hash(key))
    }

    /// This node's fitness.
    pub(super) fn fitness(&self) -> Fitness {
        self.beats.fitness()
    }

    /// Publishes a view of the record. Older views are ignored.
    pub(super) fn viewed(&self, view: &View) {
        if self.view.load().epoch() < view.epoch() {
            let view = Arc::new(view.clone());
            self.view.rcu(|known| Arc::clone(if known.epoch() < view.epoch() { &view } else { known }));
        }
    }

    /// Publishes the placement. Older revisions are ignored.
    pub(super) fn placed(&self, placed: Placed) {
        let placed = Arc::new(placed);
        self.placed.rcu(|known| Arc::clone(if known.revision < placed.revision { &placed } else { known }));
    }
}

/// A node's control plane. See the [module](super). Dropping it stops it.
#[derive(Clone)]
pub struct ControlPlane {
    pub(super) shared: Arc<PlaneState>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) reading: LogReader,
    pub(super) runtime: tokio::runtime::Handle,
    _stop: Arc<oneshot::Sender<()>>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts the control plane of a node on the current runtime, once its engine can be reached. `link` gets the receiving end for
    /// messages of other nodes.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot be used, or stores another cluster.
    pub async fn start<T: Tables + Readable + Clone + 'static>(
        config: PlaneConfig,
        engine: Arc<dyn Engine>,
        mut tables: T,
        link: impl FnOnce(Inbox) -> Arc<dyn PeerLink>,
    ) -> Result<Self, EngineError> {
        let writer = draw_writer(&*engine).await?;
        let (revision, view) = view::read(&*engine, config.partitions).await?;
        let (shape_revision, shape) = shape::read(&*engine, config.params).await?;
        tables.begin(shape.now);
        let placed = placement::read(&*engine).await?;
        let (events, inbox) = mpsc::channel(EVENTS);
        let beats = Arc::<Beats>::default();
        let way_in = Inbox { events: events.clone(), beats };
        let peers = Arc::new(Peers::new(link(way_in.clone())));
        let identity = Arc::new(Identity::new(Arc::clone(&engine), writer));
        let (mut call_queues, mut logs, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for partition in (0..config.partitions.get()).map(|at| PartitionId(at as u16)) {
            let (log, work) = mpsc::channel(write::WAITING);
            logs.push(log);
            let (engine, events, identity) = (Arc::clone(&engine), events.clone(), Arc::clone(&identity));
            tokio::spawn(LogTask { engine, partition, identity, work, events }.run());
            let (submissions, submitted) = mpsc::channel(calling::WAITING);
            let (answers, answered) = mpsc::channel(ANSWERS);
            call_queues.push(CallQueues { submissions, answers });
            calls.push((partition, submitted, answered));
        }
        let shared = Arc::new(PlaneState {
            node: config.node,
            process: ProcessId(writer.0),
            partitions: config.partitions,
            hasher: config.hasher,
            keys: AtomicU64::new(0),
            progress: Progress::new(config.partitions),
            call_queues,
            logs,
            identity: Arc::clone(&identity),
            view: ArcSwap::from_pointee(view.clone()),
            shape: ArcSwap::from_pointee(shape),
            placed: ArcSwap::from_pointee(placed),
            repins: Repins::default(),
            has_caught_up: AtomicBool::new(false),
            life: AtomicU64::new(0),
            caught_up_in: AtomicU64::new(0),
            beats: Arc::clone(&way_in.beats),
            lease: OnceLock::new(),
            malformed: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            voids: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            counters: Mutex::default(),
            agent: ArcSwap::default(),
        });
        for (partition, submissions, answers) in calls {
            let calling = CallDriver {
                me: config.node,
                partition,
                submissions,
                answers,
                events: events.clone(),
                peers: Arc::clone(&peers),
                identity: Arc::clone(&identity),
                shared: Arc::downgrade(&shared),
            };
            tokio::spawn(calling.run());
        }
        let reading = LogReader { engine: Arc::clone(&engine), params: shape.first, hasher: config.hasher };
        let readable: Arc<dyn Readable> = Arc::new(tables.clone());
        let verifications =
            Verifications::new(config.node, reading.clone(), readable, Arc::clone(&shared), events.clone());
        let PlaneConfig { node, partitions, grace, version, .. } = config;
        let mut agent =
            Agent::new(node, tables, partitions, view, revision, grace, Duration::ZERO).holding_to(version);
        agent.shaped(shape_revision, shape);
        let (stop, stopped) = oneshot::channel();
        let watching = tokio::spawn(view::watch(Arc::clone(&engine), events.clone(), Arc::clone(&shared)));
        let actor = Actor::new(agent, config, engine, peers, Arc::clone(&shared), way_in, verifications);
        tokio::spawn(async move {
            actor.run(inbox, stopped).await;
            watching.abort();
        });
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { shared, events, reading, runtime, _stop: Arc::new(stop) })
    }

    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        self.shared.view.load_full()
    }

    /// The shape of the table at all nodes.
    pub fn shape(&self) -> Shape {
        **self.shared.shape.load()
    }

    /// Whether this node's tables are complete.
    pub fn has_caught_up(&self) -> bool {
        self.shared.has_caught_up.load(Ordering::Relaxed)
    }

    /// Sets this node's fitness. Other nodes get it within some milliseconds and act on it. Callable from any thread.
    pub fn set_fitness(&self, fitness: Fitness) {
        self.shared.beats.set_fitness(fitness);
    }

    /// The fitness that was set last; fit before.
    pub fn fitness(&self) -> Fitness {
        self.shared.fitness()
    }

    /// Number of the cluster's keys, as the owners recently reported.
    pub fn keys(&self) -> u64 {
        self.shared.keys.load(Ordering::Relaxed)
    }

    /// Starts the transfer of flow counters, from and to these tables, which must be those that the plane was started with. Only the
    /// first call has an effect.
    pub async fn carry_counters(&self, tables: SharedTables) {
        let _stops = self.events.send(Event::Carry(tables)).await;
    }

    /// A flow's counts at the node that handles it, including those of its earlier nodes. `None` if that node does not know the flow,
    /// or does not answer in time.
    pub async fn flow_count(&self, node: NodeId, uplink: Teid) -> Option<FlowCount> {
        let (answer, count) = oneshot::channel();
        self.events.send(Event::Tally(node, uplink, answer)).await.ok()?;
        tokio::time::timeout(ANSWER_TIME, count).await.ok()?.ok()?
    }

    /// Counters about the counts of flows that left this node.
    pub fn moved_counters(&self) -> MovedCounters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the owner of a key's partition whether the key exists, and passes the result to `answer` on a thread of the control plane
    /// within two seconds. `None`: no owner answered in time.
    pub fn ask_whether_exists(&self, key: FlowKey, answer: impl FnOnce(Option<bool>) + Send + 'static) {
        let plane = self.clone();
        self.runtime.spawn(async move {
            let found = plane.session(&key).await;
            answer(found.ok().map(|session| session.is_some()));
        });
    }

    /// The session of a key, from the owner of its partition.
    ///
    /// # Errors
    /// [`RefusedChanges::NoOwner`] if no owner answers in time.
    pub async fn session(&self, key: &FlowKey) -> Result<Option<Session>, RefusedChanges> {
        let (answer, found) = oneshot::channel();
        self.events.send(Event::Ask(*key, answer)).await.map_err(|_| RefusedChanges::Stopping)?;
        match tokio::time::timeout(ANSWER_TIME, found).await {
            Ok(Ok(found)) => Ok(found),
            _ => Err(RefusedChanges::NoOwner(self.shared.partition_of(key))),
        }
    }
}

/// Draws a number for this process's batches, higher than all earlier ones.
///
/// # Errors
/// [`EngineError`] of the engine.
pub async fn draw_writer(engine: &dyn Engine) -> Result<WriterId, EngineError> {
    const KEY: &str = "cluster.writer";
    loop {
        let record = engine.record(KEY).await?;
        let last = match record.as_ref().and_then(|record| record.value.as_deref()) {
            None => 0,
            Some(value) => {
                let bytes = value.try_into().map_err(|_| {
                    EngineError::Damaged("the record of the last writer is not a number".to_owned())
                })?;
                u64::from_le_bytes(bytes)
            }
        };
        let next = last + 1;
        let revision = record.map(|record| record.revision);
        match engine.swap(KEY, revision, Some(next.to_le_bytes().as_slice().into())).await {
            Ok(_) => return Ok(WriterId(next)),
            // Another process was first, or this attempt may have succeeded: the next number is free in any case.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(error) => return Err(EngineError::Refused(error.to_string())),
        }
    }
}
