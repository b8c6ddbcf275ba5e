//! The control plane of a node, as the rest of the process has it.

use super::actor::Actor;
use super::calling::{self, ANSWERS, Calling, LaneWays};
use super::event::Event;
use super::identity::Identity;
use super::inbox::{Beats, Inbox};
use super::leasing::Leasing;
use super::moved::MovedCounters;
use super::placement::{self, Placed};
use super::relaying::Relaying;
use super::repins::Repins;
use super::rib::Reading;
use super::shared_tables::SharedTables;
use super::verify::{Readable, Verifications};
use super::write::{self, Work, Writing};
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

pub use super::accept::{Accepted, RefusedChanges, Why};

/// Events that wait for the actor.
const EVENTS: usize = 4_096;

/// How long a question may take.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What a node's control plane is told.
#[derive(Debug, Clone)]
pub struct PlaneConfig {
    /// The node.
    pub node: NodeId,
    /// Partitions of the key space, the same at all nodes for ever.
    pub partitions: PartitionCount,
    /// The shape of the GPT, if the cluster begins with this node.
    pub params: Params,
    /// The hash of keys, with the cluster's secret.
    pub hasher: KeyHasher,
    /// The longest time that a packet takes from one node to another.
    pub grace: Duration,
    /// The newest version of the protocol to use.
    pub version: Version,
}

/// The way to other nodes. Whatever is sent may be lost; nothing comes twice.
pub trait Link: Send + Sync {
    /// Sends a heartbeat to all others.
    fn beat(&self, beat: Beat);

    /// Sends to one.
    fn send(&self, to: NodeId, bytes: Vec<u8>);
}

/// What the actor tells, and what all may use.
pub(super) struct Shared {
    pub(super) node: NodeId,
    /// This process.
    pub(super) process: ProcessId,
    pub(super) partitions: PartitionCount,
    hasher: KeyHasher,
    /// Keys of the cluster.
    pub(super) keys: AtomicU64,
    /// By partition, to its owner, wherever that is.
    pub(super) lanes: Vec<LaneWays>,
    /// By partition, to its log, for the owner.
    pub(super) logs: Vec<mpsc::Sender<Work>>,
    pub(super) identity: Arc<Identity>,
    /// The newest version of the protocol to use.
    pub(super) version: Version,
    pub(super) view: ArcSwap<View>,
    pub(super) shape: ArcSwap<Shape>,
    pub(super) placed: ArcSwap<Placed>,
    pub(super) repins: Repins,
    pub(super) has_caught_up: AtomicBool,
    /// The life that the node is in; 0 before the actor has begun.
    pub(super) life: AtomicU64,
    /// The life in which its tables hold all they are to hold; 0 in none.
    pub(super) caught_up_in: AtomicU64,
    /// What came from other nodes last, and how fit this one is.
    pub(super) beats: Arc<Beats>,
    /// Its lease, if one is kept.
    pub(super) lease: OnceLock<Leasing>,
    pub(super) malformed: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) voids: AtomicU64,
    pub(super) reloads: AtomicU64,
    /// Replaced whole.
    pub(super) counters: Mutex<MovedCounters>,
    pub(super) agent: ArcSwap<AgentStats>,
}

impl Shared {
    pub(super) fn partition_of(&self, key: &FlowKey) -> PartitionId {
        self.partitions.of(self.hasher.hash(key))
    }

    /// How fit this node is.
    pub(super) fn fitness(&self) -> Fitness {
        self.beats.fitness()
    }

    /// The record of membership is now this one. An older one than known is passed over.
    pub(super) fn viewed(&self, view: &View) {
        if self.view.load().epoch() < view.epoch() {
            let view = Arc::new(view.clone());
            self.view.rcu(|known| Arc::clone(if known.epoch() < view.epoch() { &view } else { known }));
        }
    }

    /// The controller says this of nodes. Older than known is passed over.
    pub(super) fn placed(&self, placed: Placed) {
        let placed = Arc::new(placed);
        self.placed.rcu(|known| Arc::clone(if known.revision < placed.revision { &placed } else { known }));
    }
}

/// A node's control plane. See the [module](super). Dropping it stops it.
#[derive(Clone)]
pub struct ControlPlane {
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) reading: Reading,
    pub(super) runtime: tokio::runtime::Handle,
    _stop: Arc<oneshot::Sender<()>>,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts the control plane of a node, on the current runtime, when its engine can be reached. `link` is given the way in
    /// for what comes from other nodes.
    ///
    /// # Errors
    /// [`EngineError`] where the engine cannot be used, or keeps another cluster.
    pub async fn start<T: Tables + Readable + Clone + 'static>(
        config: PlaneConfig,
        engine: Arc<dyn Engine>,
        mut tables: T,
        link: impl FnOnce(Inbox) -> Arc<dyn Link>,
    ) -> Result<Self, EngineError> {
        let writer = draw_writer(&*engine).await?;
        let (revision, view) = view::read(&*engine, config.partitions).await?;
        let (shape_revision, shape) = shape::read(&*engine, config.params).await?;
        tables.begin(shape.now);
        let placed = placement::read(&*engine).await?;
        let (events, inbox) = mpsc::channel(EVENTS);
        let beats = Arc::<Beats>::default();
        let way_in = Inbox { events: events.clone(), beats };
        // All that is sent goes round broken pairs, the calls of writers too.
        let link = Arc::new(Relaying::new(link(way_in.clone())));
        let identity = Arc::new(Identity::new(Arc::clone(&engine), writer));
        let (mut lanes, mut logs, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for partition in (0..config.partitions.get()).map(|at| PartitionId(at as u16)) {
            let (log, work) = mpsc::channel(write::WAITING);
            logs.push(log);
            let (engine, events, identity) = (Arc::clone(&engine), events.clone(), Arc::clone(&identity));
            tokio::spawn(Writing { engine, partition, identity, work, events }.run());
            let (submissions, submitted) = mpsc::channel(calling::WAITING);
            let (answers, answered) = mpsc::channel(ANSWERS);
            lanes.push(LaneWays { submissions, answers });
            calls.push((partition, submitted, answered));
        }
        let shared = Arc::new(Shared {
            node: config.node,
            process: ProcessId(writer.0),
            partitions: config.partitions,
            hasher: config.hasher,
            keys: AtomicU64::new(0),
            lanes,
            logs,
            identity: Arc::clone(&identity),
            version: config.version,
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
            let calling = Calling {
                me: config.node,
                partition,
                submissions,
                answers,
                events: events.clone(),
                link: Arc::clone(&link) as Arc<dyn Link>,
                identity: Arc::clone(&identity),
                shared: Arc::downgrade(&shared),
            };
            tokio::spawn(calling.run());
        }
        let reading = Reading { engine: Arc::clone(&engine), params: shape.first, hasher: config.hasher };
        let readable: Arc<dyn Readable> = Arc::new(tables.clone());
        let verifications =
            Verifications::new(config.node, reading.clone(), readable, Arc::clone(&shared), events.clone());
        let PlaneConfig { node, partitions, grace, version, .. } = config;
        let mut agent =
            Agent::new(node, tables, partitions, view, revision, grace, Duration::ZERO).holding_to(version);
        agent.shaped(shape_revision, shape);
        let (stop, stopped) = oneshot::channel();
        let watching = tokio::spawn(view::watch(Arc::clone(&engine), events.clone(), Arc::clone(&shared)));
        let actor = Actor::new(agent, config, engine, link, Arc::clone(&shared), way_in, verifications);
        tokio::spawn(async move {
            actor.run(inbox, stopped).await;
            watching.abort();
        });
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { shared, events, reading, runtime, _stop: Arc::new(stop) })
    }

    /// Who is alive and owns what.
    pub fn view(&self) -> Arc<View> {
        self.shared.view.load_full()
    }

    /// The shape of the table at all nodes.
    pub fn shape(&self) -> Shape {
        **self.shared.shape.load()
    }

    /// Whether this node's tables hold all they are to hold.
    pub fn has_caught_up(&self) -> bool {
        self.shared.has_caught_up.load(Ordering::Relaxed)
    }

    /// How fit this node is, from now on. It says so to the others within some milliseconds, and they act on it. To be called from any
    /// thread.
    pub fn set_fitness(&self, fitness: Fitness) {
        self.shared.beats.set_fitness(fitness);
    }

    /// What [`ControlPlane::set_fitness`] was told last; fit before.
    pub fn fitness(&self) -> Fitness {
        self.shared.fitness()
    }

    /// Keys of the cluster, as the owners told of their partitions a moment ago.
    pub fn keys(&self) -> u64 {
        self.shared.keys.load(Ordering::Relaxed)
    }

    /// From now on counters of flows move with them, from these tables and into them, which must be those that the plane was
    /// started with. Once; later calls do nothing.
    pub async fn carry_counters(&self, tables: SharedTables) {
        let _stops = self.events.send(Event::Carry(tables)).await;
    }

    /// What a flow has carried, as a node has it that counts it: here and at the nodes it was at before. `None` if that node
    /// knows nothing of it, or does not answer in time.
    pub async fn flow_count(&self, node: NodeId, uplink: Teid) -> Option<FlowCount> {
        let (answer, count) = oneshot::channel();
        self.events.send(Event::Tally(node, uplink, answer)).await.ok()?;
        tokio::time::timeout(ANSWER_TIME, count).await.ok()?.ok()?
    }

    /// What has become of the counters of flows that left this node.
    pub fn moved_counters(&self) -> MovedCounters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a key exists, as the owner of its partition has it: told to `answer`, on a thread of the control plane, within two
    /// seconds. `None`: no owner said so in time.
    pub fn ask_whether_exists(&self, key: FlowKey, answer: impl FnOnce(Option<bool>) + Send + 'static) {
        let plane = self.clone();
        self.runtime.spawn(async move {
            let found = plane.session(&key).await;
            answer(found.ok().map(|session| session.is_some()));
        });
    }

    /// What a key leads to, as the owner of its partition has it.
    ///
    /// # Errors
    /// [`RefusedChanges::NoOwner`] where nobody answers in time.
    pub async fn session(&self, key: &FlowKey) -> Result<Option<Session>, RefusedChanges> {
        let (answer, found) = oneshot::channel();
        self.events.send(Event::Ask(*key, answer)).await.map_err(|_| RefusedChanges::Stopping)?;
        match tokio::time::timeout(ANSWER_TIME, found).await {
            Ok(Ok(found)) => Ok(found),
            _ => Err(RefusedChanges::NoOwner(self.shared.partition_of(key))),
        }
    }
}

/// A number for this process's batches, higher than all before.
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
            // Another was first, or it may have worked: the next number is free in any case.
            Err(SwapError::Conflict(_) | SwapError::Unknown(_)) => {}
            Err(error) => return Err(EngineError::Refused(error.to_string())),
        }
    }
}
