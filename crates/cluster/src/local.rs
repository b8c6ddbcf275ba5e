//! The control planes of several nodes in one process, over one log: tables in memory, channels for links. For tests and
//! measurements.

use super::heartbeat::{BackupHeartbeat, beat_on};
use super::inbox::{Beats, Inbox};
use super::mesh::MeshLimits;
use super::plane::{ControlPlane, PeerLink, PlaneConfig};
use super::verify::Readable;
use scalebricks_control::distribution::{FibRoom, Tables};
use scalebricks_control::engine::{Engine, EngineError};
use scalebricks_control::membership::Beat;
use scalebricks_control::record::Session;
use scalebricks_control::version::Version;
use scalebricks_tables::compact::{Params, Reader, Table};
use scalebricks_tables::fib::FibDigest;
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{
    Applied, ApplyError, Delta, FlowKey, KeyHash, KeyHasher, NodeId, PartitionCount, PartitionId, Position,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Configuration that is the same at all nodes.
#[derive(Debug, Clone, Copy)]
pub struct LocalConfig {
    /// Partitions of the key space.
    pub partitions: PartitionCount,
    /// The shape of the GPT.
    pub params: Params,
    /// The hash of keys.
    pub hasher: KeyHasher,
    /// The longest time that a packet takes from one node to another.
    pub grace: Duration,
}

/// A node's tables: a real GPT, and a map instead of the FIB. Clones share them.
#[derive(Debug, Clone)]
pub struct MemoryTables {
    gpt: Table,
    /// By partition.
    fib: Arc<Vec<Mutex<HashMap<FlowKey, FibValue>>>>,
    /// Most keys in it.
    capacity: usize,
    shape: LocalConfig,
}

impl MemoryTables {
    /// Empty tables.
    pub fn new(shape: LocalConfig) -> Self {
        let fib = (0..shape.partitions.get()).map(|_| Mutex::default()).collect();
        Self { gpt: Table::new(shape.params), fib: Arc::new(fib), capacity: usize::MAX, shape }
    }

    /// The same, with room for so many keys in the FIB.
    #[must_use]
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// A reader of the GPT.
    pub fn reader(&self) -> Reader {
        Reader::new(&self.gpt)
    }

    /// Bytes of the GPT.
    pub fn gpt_bytes(&self) -> usize {
        self.gpt.table_bytes()
    }

    /// The nodes that the GPT names for these keys.
    pub fn named<'a>(&self, keys: impl IntoIterator<Item = &'a FlowKey>) -> Vec<u8> {
        let mut reader = self.reader();
        keys.into_iter().map(|key| reader.get(self.shape.hasher.hash(key))).collect()
    }

    /// The FIB's value of a key.
    pub fn get(&self, key: &FlowKey) -> Option<FibValue> {
        self.share(self.partition(self.shape.hasher.hash(key))).get(key).copied()
    }

    /// Keys in the FIB.
    pub fn len(&self) -> usize {
        self.fib.iter().map(|share| share.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Whether the FIB is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn partition(&self, hash: KeyHash) -> PartitionId {
        self.shape.partitions.of(hash)
    }

    fn share(&self, partition: PartitionId) -> MutexGuard<'_, HashMap<FlowKey, FibValue>> {
        // Each change is one call of the map: a panic leaves none half made.
        self.fib[usize::from(partition.0)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables for MemoryTables {
    fn begin(&mut self, params: Params) {
        let _is_new = self.gpt.restart(params);
    }

    fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        self.gpt.digest(partition)
    }

    fn forget(&mut self, partition: PartitionId) {
        self.gpt.forget(partition);
    }

    fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.gpt.apply(delta)
    }

    fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError> {
        let partition = self.partition(self.shape.hasher.hash(key));
        if self.capacity < usize::MAX && !self.share(partition).contains_key(key) {
            let len = self.len();
            if len >= self.capacity {
                return Err(FibError::Full { len, slots: self.capacity });
            }
        }
        self.share(partition).insert(*key, value);
        Ok(())
    }

    fn remove(&mut self, key: &FlowKey) {
        self.share(self.partition(self.shape.hasher.hash(key))).remove(key);
    }

    fn keys(&self, partition: PartitionId) -> Vec<FlowKey> {
        self.share(partition).keys().copied().collect()
    }

    fn room(&self) -> FibRoom {
        if self.capacity == usize::MAX {
            return FibRoom::UNLIMITED;
        }
        FibRoom { used: self.len() as u64, capacity: self.capacity as u64, shed: 0 }
    }

    fn fib_digests(&self) -> Vec<FibDigest> {
        let digest = |(key, value): (&FlowKey, &FibValue)| FibDigest::of(self.shape.hasher.hash(key), *value);
        let of_share = |at: u32| {
            let share = self.share(PartitionId(at as u16)); // at most 2^16
            share.iter().map(digest).fold(FibDigest::default(), |sum, digest| sum + digest)
        };
        (0..self.shape.partitions.get()).map(of_share).collect()
    }

    fn entry_digest(&self, key: &FlowKey) -> FibDigest {
        let of = |value| FibDigest::of(self.shape.hasher.hash(key), value);
        self.get(key).map(of).unwrap_or_default()
    }
}

impl Readable for MemoryTables {
    fn named(&self, keys: &[FlowKey]) -> Vec<u8> {
        Self::named(self, keys)
    }

    fn held(&self, keys: &[FlowKey]) -> Vec<Option<FibValue>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn keys_in(&self, partitions: std::ops::Range<usize>) -> Vec<FlowKey> {
        partitions.flat_map(|at| self.keys(PartitionId(at as u16))).collect() // at most 2^16
    }
}

/// The receiving end of a node. Messages arrive in the order in which they were sent, as over the mesh.
struct Receiver {
    inbox: Inbox,
    messages: mpsc::UnboundedSender<(NodeId, Vec<u8>)>,
}

impl Receiver {
    fn into(inbox: Inbox) -> Self {
        let (messages, mut sent) = mpsc::unbounded_channel();
        let open = inbox.clone();
        tokio::spawn(async move {
            while let Some((from, bytes)) = sent.recv().await {
                if !open.came(from, bytes).await {
                    return;
                }
            }
        });
        Self { inbox, messages }
    }
}

/// The receiving ends of nodes; messages to a killed node are lost.
type Receivers = Arc<RwLock<HashMap<NodeId, Receiver>>>;

/// Directed links that lose everything.
type Cuts = Arc<RwLock<BTreeSet<(NodeId, NodeId)>>>;

struct Channels {
    me: NodeId,
    ways: Receivers,
    cuts: Cuts,
    /// Most bytes of a message: longer ones are lost, as over the mesh.
    longest: usize,
    /// As over the mesh, for heartbeats while the actor is busy.
    heartbeat: Arc<BackupHeartbeat>,
    received: Arc<Beats>,
}

impl Channels {
    fn is_cut(&self, to: NodeId) -> bool {
        self.cuts.read().unwrap_or_else(PoisonError::into_inner).contains(&(self.me, to))
    }

    /// Sends a heartbeat to all others.
    fn send_beat(&self, beat: Beat) {
        let ways = self.ways.read().unwrap_or_else(PoisonError::into_inner);
        if ways.contains_key(&self.me) {
            let others = ways.iter().filter(|(node, _)| **node != self.me && !self.is_cut(**node));
            others.for_each(|(_, way)| way.inbox.beat(self.me, beat));
        }
    }
}

impl PeerLink for Channels {
    fn beat(&self, beat: Beat) {
        self.heartbeat.asked(beat, &self.received, tokio::time::Instant::now());
        self.send_beat(beat);
    }

    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        let ways = self.ways.read().unwrap_or_else(PoisonError::into_inner);
        if ways.contains_key(&self.me)
            && !self.is_cut(to)
            && let Some(way) = ways.get(&to)
        {
            if bytes.len() > self.longest {
                let (from, to) = (self.me.get(), to.get());
                tracing::error!(
                    from,
                    to,
                    bytes = bytes.len(),
                    "cannot send control message: it exceeds the frame limit"
                );
                return;
            }
            let _gone = way.messages.send((self.me, bytes));
        }
    }
}

/// One of the nodes.
#[derive(Debug)]
pub struct LocalNode {
    /// Its control plane.
    pub plane: ControlPlane,
    /// Its tables.
    pub tables: MemoryTables,
}

/// Nodes in this process. Use it on the runtime that they run on.
#[expect(missing_debug_implementations, reason = "channels cannot be shown")]
pub struct LocalCluster {
    shape: LocalConfig,
    engine: Arc<dyn Engine>,
    ways: Receivers,
    cuts: Cuts,
    nodes: BTreeMap<NodeId, LocalNode>,
}

impl LocalCluster {
    /// A cluster without nodes, over this log.
    pub fn new(shape: LocalConfig, engine: Arc<dyn Engine>) -> Self {
        Self { shape, engine, ways: Arc::default(), cuts: Arc::default(), nodes: BTreeMap::new() }
    }

    /// Starts a node with empty tables.
    ///
    /// # Errors
    /// Those of [`ControlPlane::start`].
    pub async fn start(&mut self, node: NodeId) -> Result<(), EngineError> {
        self.start_with(node, MemoryTables::new(self.shape), Version::NEWEST).await
    }

    /// Starts a node with these tables and this version of the protocol.
    ///
    /// # Errors
    /// Those of [`ControlPlane::start`].
    pub async fn start_with(
        &mut self,
        node: NodeId,
        tables: MemoryTables,
        version: Version,
    ) -> Result<(), EngineError> {
        let LocalConfig { partitions, params, hasher, grace } = self.shape;
        let config = PlaneConfig { node, partitions, params, hasher, grace, version };
        let ways = Arc::clone(&self.ways);
        let plane = ControlPlane::start(config, Arc::clone(&self.engine), tables.clone(), |inbox| {
            let received = Arc::clone(&inbox.beats);
            ways.write().unwrap_or_else(PoisonError::into_inner).insert(node, Receiver::into(inbox));
            let link = Arc::new(Channels {
                me: node,
                ways: Arc::clone(&ways),
                cuts: Arc::clone(&self.cuts),
                longest: MeshLimits::default().message_bytes,
                heartbeat: Arc::default(),
                received,
            });
            let heartbeat = Arc::clone(&link.heartbeat);
            tokio::spawn(beat_on(Arc::downgrade(&link), heartbeat, |link, beat| link.send_beat(*beat)));
            link
        });
        self.nodes.insert(node, LocalNode { plane: plane.await?, tables });
        Ok(())
    }

    /// Kills a node. Clones of its plane keep it running, but its messages are lost.
    pub fn kill(&mut self, node: NodeId) {
        self.ways.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
        self.nodes.remove(&node);
    }

    /// Cuts or repairs the link from one node to another, in this direction.
    pub fn cut(&self, from: NodeId, to: NodeId, is_cut: bool) {
        let mut cuts = self.cuts.write().unwrap_or_else(PoisonError::into_inner);
        if is_cut {
            cuts.insert((from, to))
        } else {
            cuts.remove(&(from, to))
        };
    }

    /// A node that was started and not killed.
    pub fn node(&self, node: NodeId) -> Option<&LocalNode> {
        self.nodes.get(&node)
    }

    /// All of them, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &LocalNode)> {
        self.nodes.iter().map(|(number, node)| (*number, node))
    }

    /// Whether all nodes have complete tables, and a view in which exactly these nodes are alive.
    pub fn is_whole(&self) -> bool {
        let all = || self.nodes.keys().copied();
        self.nodes.values().all(|node| node.plane.has_caught_up() && node.plane.view().alive().eq(all()))
    }

    /// Waits for a condition. Returns whether it was met in time.
    pub async fn wait(&self, patience: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > patience {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        true
    }

    /// The first difference between the tables and the wanted sessions of all keys. A key that has left a FIB is a difference until the
    /// node has removed it.
    pub fn difference<'a, I>(&self, wanted: impl Fn() -> I) -> Option<String>
    where
        I: Iterator<Item = (&'a FlowKey, &'a Session)>,
    {
        for (number, node) in &self.nodes {
            let mut own = 0;
            let named = node.tables.named(wanted().map(|(key, _)| key));
            for ((key, session), named) in wanted().zip(named) {
                let right = session.node.get();
                if named != right {
                    return Some(format!("node {}: {key:?} is at {named}, not {right}", number.get()));
                }
                if session.node == *number {
                    own += 1;
                    let held = node.tables.get(key);
                    if held != Some(session.value) {
                        return Some(format!("node {} holds {held:?} for {key:?}", number.get()));
                    }
                }
            }
            let held = node.tables.len();
            if held != own {
                return Some(format!("node {} holds {held} keys, not {own}", number.get()));
            }
        }
        None
    }
}
