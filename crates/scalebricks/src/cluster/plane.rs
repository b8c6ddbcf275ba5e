//! The control plane of a node, as the rest of the process has it.

use super::actor::Actor;
use super::counters::MovedCounters;
use super::daemon::SharedTables;
use super::event::Event;
use super::inbox::{Beats, Inbox};
use super::placement::{self, Placed};
use super::repins::Repins;
use super::rib::Reading;
use super::verify::{Readable, Verifications};
use super::write::{SUBMISSION_CHANGES, Submission, WAITING, Writing, upserts};
use super::{shape, view};
use arc_swap::ArcSwap;
use scalebricks_control::agent::{Agent, AgentStats};
use scalebricks_control::courier::ProcessId;
use scalebricks_control::distribution::Tables;
use scalebricks_control::engine::{Engine, EngineError, SwapError, WriterId};
use scalebricks_control::membership::{Beat, View};
use scalebricks_control::record::{Change, Session};
use scalebricks_control::shape::Shape;
use scalebricks_control::version::Version;
use scalebricks_dataplane::FlowCount;
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, KeyHasher, NodeId, PartitionCount, PartitionId, Position, Teid};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

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

/// The way to other nodes. Whatever is sent may be lost.
pub trait Link: Send + Sync {
    /// Sends a heartbeat to all others.
    fn beat(&self, beat: Beat);

    /// Sends to one.
    fn send(&self, to: NodeId, bytes: Vec<u8>);
}

/// What the actor tells, and what all may use.
pub(super) struct Shared {
    /// This process.
    pub(super) process: ProcessId,
    pub(super) partitions: PartitionCount,
    hasher: KeyHasher,
    /// Keys of the cluster.
    pub(super) keys: AtomicU64,
    pub(super) writers: Vec<mpsc::Sender<Submission>>,
    pub(super) room: Vec<AtomicU64>,
    /// Keys for which room is reserved.
    pub(super) reserved: Vec<AtomicU64>,
    pub(super) view: ArcSwap<View>,
    pub(super) shape: ArcSwap<Shape>,
    pub(super) placed: ArcSwap<Placed>,
    pub(super) repins: Repins,
    pub(super) has_caught_up: AtomicBool,
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

/// Why changes were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedChanges {
    /// Too much waits for the log already.
    #[error("too many changes wait for the log; try again soon")]
    Busy,
    /// A flow would be pinned to a node that is not alive.
    #[error("{0} is not alive: pin the flow to another")]
    NodeNotAlive(NodeId),
    /// The node was drained or dead a moment ago, or was and a member does not know of tenures.
    #[error("{0} does not take flows yet; try again soon, or upgrade the nodes that have old software")]
    NotOpen(NodeId),
    /// The table cannot name the node yet.
    #[error("the table has too few value bits for {0}, and is being given more; try again soon")]
    NotNamed(NodeId),
    /// A flow would be pinned to a node that is drained.
    #[error("{0} is drained: pin the flow to another, or end that with `scalebricks cluster undrain {number}`", number = .0.get())]
    Drained(NodeId),
    /// The table of this partition is full.
    #[error("partition {} has no room for {} more keys now; the table grows, try again soon", .0.0, .1)]
    NoRoom(PartitionId, u64),
    /// The nodes that know the partition's room have not been heard yet.
    #[error("partition {} has no owner yet; try again soon", .0.0)]
    NoOwner(PartitionId),
    /// It is about no key: [`ControlPlane::accept_in_all`] takes such.
    #[error("a change about no key is for all partitions")]
    NoKey,
    /// More than one call may bring.
    #[error("{0} changes of one partition in one call, {SUBMISSION_CHANGES} are allowed: split them")]
    TooMany(usize),
    /// The engine did not take all of them.
    #[error("the log did not take the changes, or only some of them: {0}")]
    Engine(String),
    /// The process is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Where accepted changes are in the logs of their partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted(Vec<(PartitionId, Position)>);

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
        let link = link(way_in.clone());
        let mut writers = Vec::new();
        for partition in (0..config.partitions.get()).map(|at| PartitionId(at as u16)) {
            let (sender, submissions) = mpsc::channel(WAITING);
            writers.push(sender);
            let (engine, events) = (Arc::clone(&engine), events.clone());
            tokio::spawn(Writing { engine, partition, writer, submissions, events }.run());
        }
        let numbers = || (0..config.partitions.get()).map(|_| AtomicU64::new(0)).collect();
        let shared = Arc::new(Shared {
            process: ProcessId(writer.0),
            partitions: config.partitions,
            hasher: config.hasher,
            keys: AtomicU64::new(0),
            writers,
            room: numbers(),
            reserved: numbers(),
            view: ArcSwap::from_pointee(view.clone()),
            shape: ArcSwap::from_pointee(shape),
            placed: ArcSwap::from_pointee(placed),
            repins: Repins::default(),
            has_caught_up: AtomicBool::new(false),
            malformed: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            voids: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            counters: Mutex::default(),
            agent: ArcSwap::default(),
        });
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

    /// Has changes accepted: they are in the logs when this returns, and will be applied by all.
    ///
    /// # Errors
    /// [`RefusedChanges`]; but for [`RefusedChanges::Engine`] and [`RefusedChanges::Stopping`] none of them was logged.
    pub async fn accept(&self, changes: Vec<Change>) -> Result<Accepted, RefusedChanges> {
        let mut by_partition: BTreeMap<PartitionId, Vec<Change>> = BTreeMap::new();
        let (view, shape) = (self.shared.view.load(), self.shared.shape.load());
        let placed = self.shared.placed.load();
        for mut change in changes {
            if let Change::Upsert(_, session) | Change::Move(_, session) = &mut change {
                let node = session.node;
                if !view.member(node).is_some_and(|member| member.is_alive) {
                    return Err(RefusedChanges::NodeNotAlive(node));
                }
                if placed.placement.is_drained(node) {
                    return Err(RefusedChanges::Drained(node));
                }
                session.epoch = view.pins_in(node).ok_or(RefusedChanges::NotOpen(node))?;
                if !shape.can_name(node) {
                    return Err(RefusedChanges::NotNamed(node));
                }
            }
            let partition = change.key().map(|key| self.shared.partition_of(key));
            let partition = partition.ok_or(RefusedChanges::NoKey)?;
            by_partition.entry(partition).or_default().push(change);
        }
        self.submit(by_partition).await
    }

    /// Has changes accepted in every partition, for those that are about no key.
    ///
    /// # Errors
    /// As [`ControlPlane::accept`].
    pub async fn accept_in_all(&self, changes: &[Change]) -> Result<Accepted, RefusedChanges> {
        let partitions = (0..self.shared.partitions.get()).map(|at| PartitionId(at as u16)); // at most 2^16
        self.submit(partitions.map(|partition| (partition, changes.to_vec())).collect()).await
    }

    async fn submit(
        &self,
        by_partition: BTreeMap<PartitionId, Vec<Change>>,
    ) -> Result<Accepted, RefusedChanges> {
        let view = self.shared.view.load();
        let alive = view.alive().count().max(1) as u64;
        let mut permits = Vec::new();
        for (partition, changes) in &by_partition {
            if changes.len() > SUBMISSION_CHANGES {
                return Err(RefusedChanges::TooMany(changes.len()));
            }
            if view.owner(*partition).is_none() {
                return Err(RefusedChanges::NoOwner(*partition));
            }
            let writer = &self.shared.writers[usize::from(partition.0)];
            permits.push(writer.try_reserve().map_err(|error| match error {
                mpsc::error::TrySendError::Full(()) => RefusedChanges::Busy,
                mpsc::error::TrySendError::Closed(()) => RefusedChanges::Stopping,
            })?);
        }
        self.reserve(&by_partition, alive)?;
        let mut logged = Vec::new();
        for (permit, (partition, changes)) in permits.into_iter().zip(by_partition) {
            let (answer, position) = oneshot::channel();
            permit.send(Submission { changes, answer });
            logged.push((partition, position));
        }
        let mut accepted = Accepted::default();
        for (partition, position) in logged {
            let position = position.await.map_err(|_| RefusedChanges::Stopping)?;
            accepted.0.push((partition, position.map_err(RefusedChanges::Engine)?));
        }
        Ok(accepted)
    }

    /// Reserves room for new keys. Others accept, too, and do not tell each other at once: each has its share of what is left.
    fn reserve(
        &self,
        by_partition: &BTreeMap<PartitionId, Vec<Change>>,
        alive: u64,
    ) -> Result<(), RefusedChanges> {
        let mut reserved: Vec<(PartitionId, u64)> = Vec::new();
        for (&partition, changes) in by_partition {
            let (at, new) = (usize::from(partition.0), upserts(changes));
            let before = self.shared.reserved[at].fetch_add(new, Ordering::Relaxed);
            reserved.push((partition, new));
            let room = self.shared.room[at].load(Ordering::Relaxed);
            if new > 0 && (before + new) * alive > room {
                for (partition, keys) in reserved {
                    self.shared.reserved[usize::from(partition.0)].fetch_sub(keys, Ordering::Relaxed);
                }
                return Err(RefusedChanges::NoRoom(partition, new));
            }
        }
        Ok(())
    }

    /// Waits until all living nodes have applied what was accepted. False: the node is stopping.
    pub async fn applied(&self, accepted: &Accepted) -> bool {
        let (answer, done) = oneshot::channel();
        self.events.send(Event::Wait(accepted.0.clone(), answer)).await.is_ok() && done.await.is_ok()
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
pub(crate) async fn draw_writer(engine: &dyn Engine) -> Result<WriterId, EngineError> {
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
