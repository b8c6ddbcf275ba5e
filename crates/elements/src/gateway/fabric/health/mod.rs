//! Which nodes this node hears and reaches over the fabric, and paths around failures.
//!
//! Workers send a [probe] to each other node at a fixed interval, between packets and on the same ports. The worker
//! that receives a probe echoes it. A probe also reports which nodes its sender hears and reaches, and to which it
//! grants the lease. So a node learns over the fabric what heartbeats report over the control network, and which relay
//! to use where the direct path is broken.
//!
//! ```text
//! worker ── receive ──▶ queue ──▶ peers ──▶ hears, reaches, grants_to_me      any thread
//!    ▲                              │
//!    └── next probes, routes ◀── refresh                                      one thread, every 20 to 50 ms
//! ```
//!
//! Workers take no lock: received probes pass through a bounded queue, and the probes to send and the routes are
//! snapshots.

mod peers;
pub mod probe;
mod routes;

pub use routes::{Routes, STEADY};

use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use peers::{Peers, ProbeContents, Receipt, StampClock};
use probe::{FRAME_BYTES, Kind, Probe, ProbeKey};
use scalebricks_types::{ClusterSize, HashSeed, NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A node is heard if a probe of it arrived within this time, and reached if it answered a probe that was sent within
/// this time.
pub const HEARING: Duration = Duration::from_millis(600);

/// Default time between probes. A node counts as not reached after six lost probes in a row.
pub const PROBE_EVERY: Duration = Duration::from_millis(100);

/// A node that did not refresh for this long was itself stopped. Silence then counts from its return.
const PAUSE: Duration = Duration::from_millis(500);

/// Probes received that may wait for the next look at them, for each node of the cluster.
const WAITING: usize = 64;

/// The state of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView {
    /// The node.
    pub node: NodeId,
    /// Whether a probe from it arrived in the last [`HEARING`].
    pub is_heard: bool,
    /// Whether it answered a probe that was sent in the last [`HEARING`].
    pub is_reached: bool,
    /// Round-trip time of the newest echoed probe, including the workers' processing at both ends.
    pub round_trip: Option<Duration>,
    /// The relay for frames to it, if they do not go directly.
    pub via: Option<NodeId>,
}

/// A node's knowledge of its fabric, shared by its workers, which send and receive probes, and by readers.
///
/// All times count from the process's start, as passed to [`Worker::turn`](scalebricks_graph::Worker::turn).
#[derive(Debug)]
pub struct FabricHealth {
    me: NodeId,
    size: ClusterSize,
    interval: Option<Duration>,
    key: ProbeKey,
    clock: StampClock,
    received: ArrayQueue<Receipt>,
    overrun: AtomicU64,
    peers: Mutex<Peers>,
    outgoing: ArcSwap<ProbeContents>,
    routes: ArcSwap<Routes>,
    /// Counts changes of `routes`, so that a worker checks with one load whether its copy is current.
    generation: AtomicU64,
}

impl FabricHealth {
    /// The fabric health of node `me`, with no knowledge yet. Probes are sent every `interval` and authenticated with a
    /// key derived from the cluster's secret. Without an interval the node sends none, so it reaches no node and never
    /// reroutes, but it answers others' probes.
    pub fn new(me: NodeId, size: ClusterSize, secret: HashSeed, interval: Option<Duration>) -> Self {
        // Only used for its random keys.
        let clock = StampClock::new(RandomState::new().hash_one(me.get()));
        Self {
            me,
            size,
            interval,
            key: ProbeKey::new(secret),
            clock,
            received: ArrayQueue::new(WAITING * size.get()),
            overrun: AtomicU64::new(0),
            peers: Mutex::new(Peers::new(me, size, clock)),
            outgoing: ArcSwap::default(),
            routes: ArcSwap::from_pointee(Routes::direct(size)),
            generation: AtomicU64::new(0),
        }
    }

    /// The peers' state, including all probes received so far.
    fn peers(&self) -> MutexGuard<'_, Peers> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner); // each receipt is taken in whole
        for _ in 0..self.received.capacity() {
            let Some(receipt) = self.received.pop() else { break };
            peers.receive(receipt);
        }
        peers
    }

    /// Sets the node's identity: its incarnation (life), the epoch of the newest view it has read, and the alive
    /// members of that view with their lives. Takes effect with the next [`refresh`](Self::refresh). A node without a
    /// control plane never calls this: it reports life 0 and epoch 0, and grants nothing.
    pub fn set_identity(&self, life: u64, epoch: u64, members: impl IntoIterator<Item = (NodeId, u64)>) {
        self.peers().set_identity(life, epoch, members);
    }

    /// Processes the received probes, publishes the next probes and routes, and returns the newest routes. One thread
    /// calls it every 20 to 50 ms: if that thread stops for [`HEARING`], the workers' probes report and grant nothing
    /// until it resumes. Cost: quadratic in the number of nodes, 0.1 ms with 256.
    pub fn refresh(&self, now: Duration) -> std::sync::Arc<Routes> {
        let (outgoing, routes) = self.peers().refresh(now);
        self.outgoing.store(outgoing.into());
        let before = self.routes.load_full();
        if *before == routes {
            return before;
        }
        self.routes.store(routes.into());
        self.generation.fetch_add(1, Ordering::Release); // after the routes
        self.routes.load_full()
    }

    /// The nodes whose probes arrived in the last [`HEARING`]. Nodes that only send echoes count as heard too.
    pub fn hears(&self, now: Duration) -> NodeSet {
        self.peers().hears(now)
    }

    /// The nodes that answered a probe which this node sent in the last [`HEARING`]. Workers at both ends and the paths
    /// in both directions work.
    pub fn reaches(&self, now: Duration) -> NodeSet {
        self.peers().reaches(now)
    }

    /// The nodes whose newest probe granted this node its lease, with the arrival time of each probe. A grant counts
    /// for this node's current life, for the last [`HEARING`], and only if the probe quotes a stamp that this process
    /// made at most [`HEARING`] earlier. So a recorded or delayed probe grants nothing.
    pub fn grants_to_me(&self, now: Duration) -> Vec<(NodeId, Duration)> {
        self.peers().grants_to_me(now).collect()
    }

    /// The state of each other node, for display.
    pub fn view(&self, now: Duration) -> Vec<PeerView> {
        self.peers().view(now)
    }

    /// Received probes that were lost because they were not processed in time.
    pub fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    /// The routes that workers use now.
    pub fn routes(&self) -> std::sync::Arc<Routes> {
        self.routes.load_full()
    }

    /// How often the routes have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Time between probes, if this node sends any.
    pub const fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// The nodes to send probes to.
    pub(crate) fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        self.size.nodes().filter(move |node| *node != me)
    }

    /// The frame of a probe to `to`. `source` is this node's address on the fabric.
    pub(crate) fn probe_for(&self, to: NodeId, source: MacAddr, now: Duration) -> [u8; FRAME_BYTES] {
        let outgoing = self.outgoing.load();
        let (answers, answers_life) = outgoing.newest.get(to.index()).copied().unwrap_or_default();
        let probe = Probe { answers, answers_life, ..self.said(&outgoing, Kind::Probe, to, now) };
        self.key.frame(&probe, source)
    }

    /// The frame of the echo of a probe.
    pub(crate) fn echo_of(&self, probe: &Probe, source: MacAddr, now: Duration) -> [u8; FRAME_BYTES] {
        let said = self.said(&self.outgoing.load(), Kind::Echo, probe.from, now);
        let echo = Probe { answers: probe.stamp, answers_life: probe.life, ..said };
        self.key.frame(&echo, source)
    }

    /// The content that probes and echoes share.
    fn said(&self, outgoing: &ProbeContents, kind: Kind, to: NodeId, now: Duration) -> Probe {
        let (from, stamp) = (self.me, self.clock.stamp(now));
        let ProbeContents { life, epoch, hears, reaches, grants, .. } = *outgoing;
        let holds = now <= outgoing.until;
        let [hears, reaches, grants] =
            [hears, reaches, grants].map(|set| if holds { set } else { NodeSet::EMPTY });
        Probe { kind, from, to, life, epoch, stamp, answers: 0, answers_life: 0, hears, reaches, grants }
    }

    /// Decodes the probe in a frame, if another node of this cluster made it for this node.
    pub(crate) fn open(&self, frame: &[u8]) -> Option<Probe> {
        let probe = self.key.open(frame)?;
        let is_from_another = probe.from != self.me && probe.from.index() < self.size.get();
        (is_from_another && probe.to == self.me).then_some(probe)
    }

    /// Queues a received probe. Never waits: a full queue drops its oldest entry.
    pub(crate) fn receive(&self, probe: Probe, at: Duration) {
        if self.received.force_push(Receipt { at, probe }).is_some() {
            self.overrun.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
