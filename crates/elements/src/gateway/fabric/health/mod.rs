//! Whom a node hears and reaches over the fabric, and the ways round what is broken.
//!
//! Workers send a [probe] to each other node at a fixed interval, between packets and by the same ports. Whichever worker receives
//! one echoes it. A probe also reports what its sender hears and reaches, and whom it grants the lease. So a node learns over the fabric
//! what heartbeats say over the control network, and over which third node it can send where the direct way is broken.
//!
//! ```text
//! worker ── receive ──▶ queue ──▶ peers ──▶ hears, reaches, grants_to_me      any thread
//!    ▲                              │
//!    └── next probes, routes ◀── refresh                                      one thread, every 20 to 50 ms
//! ```
//!
//! Workers take no lock: what they receive goes through a bounded queue, what they send and the ways they use are snapshots.

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

/// A node is heard if a probe of it arrived in so long a time, and reached if it answered a probe that was sent no longer ago.
pub const HEARING: Duration = Duration::from_millis(600);

/// Time between probes, unless told otherwise: six have to be lost in a row before a node is not reached.
pub const PROBE_EVERY: Duration = Duration::from_millis(100);

/// A node that did not refresh for so long was stopped itself. Silence counts from its return on.
const PAUSE: Duration = Duration::from_millis(500);

/// Probes received that may wait for the next look at them, for each node of the cluster.
const WAITING: usize = 64;

/// What is known of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView {
    /// The node.
    pub node: NodeId,
    /// Whether a probe of it arrived in the last [`HEARING`].
    pub is_heard: bool,
    /// Whether it answered a probe that was sent in the last [`HEARING`].
    pub is_reached: bool,
    /// Time from the newest echoed probe to its echo, work of the workers at both ends included.
    pub round_trip: Option<Duration>,
    /// Over whom frames for it go, if not directly.
    pub via: Option<NodeId>,
}

/// What a node knows about its fabric. Shared by its workers, which send and receive probes, and by whoever asks.
///
/// All times are since the process's start, as they are passed to [`Worker::turn`](scalebricks_graph::Worker::turn).
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
    /// Counts changes of `routes`, so that a worker sees by one load that it has the newest.
    generation: AtomicU64,
}

impl FabricHealth {
    /// The health of node `me`'s fabric, of which nothing is known yet. Probes are sent every `interval` and carry a tag under the
    /// cluster's secret. Without an interval the node sends none, hence reaches nobody and goes round nothing, but answers those of
    /// others.
    pub fn new(me: NodeId, size: ClusterSize, secret: HashSeed, interval: Option<Duration>) -> Self {
        // Random keys are all that is wanted of it.
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

    /// What is known, with all that has arrived so far.
    fn peers(&self) -> MutexGuard<'_, Peers> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner); // each receipt is taken in whole
        for _ in 0..self.received.capacity() {
            let Some(receipt) = self.received.pop() else { break };
            peers.receive(receipt);
        }
        peers
    }

    /// Says who the node is: its life, the epoch of the newest view it has read, and the members that are alive in that view with
    /// their lives. The probes from the next [`refresh`](Self::refresh) on say so. A node without a control plane never calls this: it
    /// says life 0 and epoch 0, and grants nothing.
    pub fn set_identity(&self, life: u64, epoch: u64, members: impl IntoIterator<Item = (NodeId, u64)>) {
        self.peers().set_identity(life, epoch, members);
    }

    /// Takes in what the workers received, and publishes what they send and which ways they use from now on. The newest routes. To be
    /// called every 20 to 50 ms by one thread: if it stands still for [`HEARING`], the workers' probes report nothing and grant nothing
    /// until it goes on. Cost: the number of nodes squared, 0.1 ms with 256.
    pub fn refresh(&self, now: Duration) -> std::sync::Arc<Routes> {
        let (outgoing, routes) = self.peers().refresh(now);
        self.outgoing.store(outgoing.into());
        let before = self.routes.load_full();
        if *before == routes {
            return before;
        }
        self.routes.store(routes.into());
        self.generation.fetch_add(1, Ordering::Release); // after what it stands for
        self.routes.load_full()
    }

    /// The nodes whose probes arrived in the last [`HEARING`]. Those that only send echoes are heard as well.
    pub fn hears(&self, now: Duration) -> NodeSet {
        self.peers().hears(now)
    }

    /// The nodes that answered a probe which this node sent in the last [`HEARING`]. Their and this node's workers, and the ways in both
    /// directions, work.
    pub fn reaches(&self, now: Duration) -> NodeSet {
        self.peers().reaches(now)
    }

    /// The nodes that granted this node its lease with their newest probe, and when each arrived: in this node's present life, in the last
    /// [`HEARING`], and by a probe that quotes a stamp which this process made no more than [`HEARING`] before. So a probe that was
    /// recorded, or waited somewhere, grants nothing.
    pub fn grants_to_me(&self, now: Duration) -> Vec<(NodeId, Duration)> {
        self.peers().grants_to_me(now).collect()
    }

    /// What is known of each other node, for people to read.
    pub fn view(&self, now: Duration) -> Vec<PeerView> {
        self.peers().view(now)
    }

    /// Probes received that were lost because nobody took them in for too long.
    pub fn overrun(&self) -> u64 {
        self.overrun.load(Ordering::Relaxed)
    }

    /// The ways that workers use now.
    pub fn routes(&self) -> std::sync::Arc<Routes> {
        self.routes.load_full()
    }

    /// How often the ways have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Time between probes, if it sends any.
    pub const fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// The nodes to send probes to.
    pub(crate) fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        self.size.nodes().filter(move |node| *node != me)
    }

    /// The frame of a probe for `to`. `source` is this node's address on the fabric.
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

    /// What a probe says, whatever it answers.
    fn said(&self, outgoing: &ProbeContents, kind: Kind, to: NodeId, now: Duration) -> Probe {
        let (from, stamp) = (self.me, self.clock.stamp(now));
        let ProbeContents { life, epoch, hears, reaches, grants, .. } = *outgoing;
        let holds = now <= outgoing.until;
        let [hears, reaches, grants] =
            [hears, reaches, grants].map(|set| if holds { set } else { NodeSet::EMPTY });
        Probe { kind, from, to, life, epoch, stamp, answers: 0, answers_life: 0, hears, reaches, grants }
    }

    /// The probe in a frame, if another node of this cluster made it for this one.
    pub(crate) fn open(&self, frame: &[u8]) -> Option<Probe> {
        let probe = self.key.open(frame)?;
        let is_from_another = probe.from != self.me && probe.from.index() < self.size.get();
        (is_from_another && probe.to == self.me).then_some(probe)
    }

    /// Takes a probe in. Never waits: if the queue is full, its oldest gives way.
    pub(crate) fn receive(&self, probe: Probe, at: Duration) {
        if self.received.force_push(Receipt { at, probe }).is_some() {
            self.overrun.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
