//! Hellos on the links of a full mesh, and which links of the cluster work.
//!
//! Every node sends a hello over each of its links at a fixed interval. A hello is a [`Probe`] with the cluster's tag, as
//! the gateway's fabric uses: it carries the nodes that its sender hears, and the nodes that the sender reaches, which are
//! those whose links work in both directions. So each node knows its own links and those of all its neighbours, which is
//! all that a way over one intermediate node needs.
//!
//! ```text
//! LinkHello ── open ──▶ queue ──▶ LinkWatch ──▶ LinkMap ──▶ steering, MacSwitch, control
//! any worker                      one worker
//! ```
//!
//! | a link is | if |
//! |---|---|
//! | heard | as many hellos in a row arrived over it as may be missed |
//! | up | it is heard, and the neighbour's last hello says that the neighbour hears this node |
//! | down again | as many hellos in a row were missed, or the neighbour does not hear this node any more |
//!
//! A link that fails in one direction is therefore down in both.

use crate::gateway::fabric::health::probe::{FRAME_BYTES, Kind, Probe, ProbeKey};
use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use scalebricks_types::{ClusterSize, HashSeed, IdError, NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Hellos that may wait for the worker that watches the links, per node of the cluster.
const WAITING: usize = 8;

/// When hellos are sent, and when a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloTimes {
    /// Time between two hellos on a link.
    pub interval: Duration,
    /// Hellos in a row that must be missed for a link to be down, and must arrive for it to be up.
    pub missed: u32,
}

impl Default for HelloTimes {
    fn default() -> Self {
        Self { interval: Duration::from_millis(100), missed: 3 }
    }
}

impl HelloTimes {
    /// The longest silence of a link that is heard: until after the last hello that may be missed, and half an interval.
    pub fn silence(&self) -> Duration {
        self.interval * self.missed + self.interval / 2
    }
}

/// The links that work, as one node knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkMap {
    id: NodeId,
    up: NodeSet,
    /// By neighbour whose link is up: the nodes that it reaches over links of its own.
    rows: Vec<NodeSet>,
}

impl LinkMap {
    /// The map of a node that has heard nothing yet.
    fn unknown(id: NodeId, size: ClusterSize) -> Self {
        Self { id, up: NodeSet::EMPTY, rows: vec![NodeSet::EMPTY; size.get()] }
    }

    /// The neighbours whose link is up.
    pub const fn up(&self) -> NodeSet {
        self.up
    }

    /// Whether the link to a neighbour is up.
    pub const fn is_up(&self, node: NodeId) -> bool {
        self.up.contains(node)
    }

    /// The nodes that a node reaches over links of its own; empty if this node has no link to it.
    pub fn row(&self, node: NodeId) -> NodeSet {
        if node == self.id { self.up } else { self.rows.get(node.index()).copied().unwrap_or_default() }
    }

    /// The neighbours from which no link leads to an output node, as far as this node knows.
    pub(crate) fn cut_to(&self, output: NodeId) -> NodeSet {
        let reaches = |node: &NodeId| self.row(*node).contains(output);
        // If both ends report, both must hear each other.
        let both = |node: &NodeId| !self.is_up(output) || self.row(output).contains(*node);
        let over: NodeSet = self.up.iter().filter(|node| reaches(node) && both(node)).collect();
        self.up.difference(&over)
    }

    /// The nodes that packets of this node reach, directly or over one other node, and the node itself.
    pub fn reachable(&self) -> NodeSet {
        let size = self.rows.len();
        let over_one = |node: NodeId| {
            let mut over = self.up.difference(&self.cut_to(node));
            over.remove(node);
            !over.is_empty()
        };
        let all = (0..=u8::MAX).take(size).map(NodeId::new);
        all.filter(|&node| node == self.id || self.is_up(node) || over_one(node)).collect()
    }
}

/// A hello that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receipt {
    probe: Probe,
    at: Duration,
}

/// Why a frame is no hello of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelloFault {
    /// Its type, length, version or tag is not that of a hello of this cluster.
    NoHello,
    /// It is from another node than the link's, or for another than this one.
    WrongLink,
}

/// A node's links: what its workers share with each other and with control.
#[derive(Debug)]
pub struct Links {
    id: NodeId,
    size: ClusterSize,
    times: HelloTimes,
    key: ProbeKey,
    received: ArrayQueue<Receipt>,
    map: ArcSwap<LinkMap>,
    /// Counts changes of the map.
    changes: AtomicU64,
}

impl Links {
    /// The links of node `id`, of which nothing is known yet. Hellos are authenticated with a key derived from the
    /// cluster's secret, so those of another cluster do not count.
    ///
    /// # Errors
    /// [`IdError`] if the cluster has no such node.
    pub fn new(id: NodeId, size: ClusterSize, secret: HashSeed, times: HelloTimes) -> Result<Self, IdError> {
        size.node(u16::from(id.get()))?;
        Ok(Self {
            id,
            size,
            times,
            key: ProbeKey::new(secret),
            received: ArrayQueue::new(WAITING * size.get()),
            map: ArcSwap::from_pointee(LinkMap::unknown(id, size)),
            changes: AtomicU64::new(1),
        })
    }

    /// This node.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// Number of nodes.
    pub const fn size(&self) -> ClusterSize {
        self.size
    }

    /// When hellos are sent.
    pub const fn times(&self) -> HelloTimes {
        self.times
    }

    /// The links that work.
    pub fn map(&self) -> Arc<LinkMap> {
        self.map.load_full()
    }

    /// The nodes that packets of this node reach, directly or over one other node, and the node itself. For control.
    pub fn reachable(&self) -> NodeSet {
        self.map.load().reachable()
    }

    /// Increased with each change of the map.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The frame of a hello.
    pub(crate) fn frame(&self, hello: &Probe, source: MacAddr) -> [u8; FRAME_BYTES] {
        self.key.frame(hello, source)
    }

    /// Checks a frame that arrived over the link to a node, and leaves its hello to the worker that watches the links.
    pub(crate) fn receive(&self, frame: &[u8], link: NodeId, now: Duration) -> Result<(), HelloFault> {
        let probe =
            self.key.open(frame).filter(|probe| probe.kind == Kind::Probe).ok_or(HelloFault::NoHello)?;
        if probe.from != link || probe.to != self.id || link == self.id || link.index() >= self.size.get() {
            return Err(HelloFault::WrongLink);
        }
        // The newest count most.
        let _oldest = self.received.force_push(Receipt { probe, at: now });
        Ok(())
    }

    fn publish(&self, map: LinkMap) {
        self.map.store(Arc::new(map));
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// What a node knows of a neighbour.
#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// When its last hello arrived.
    heard: Option<Duration>,
    /// Hellos in a row.
    run: u32,
    /// The last hello's stamp.
    stamp: u64,
    hears_me: bool,
    reaches: NodeSet,
}

/// The state of a node's links, at the worker that sends hellos. It has no clock: every call gets the time.
#[derive(Debug)]
pub(crate) struct LinkWatch {
    links: Arc<Links>,
    peers: Vec<Peer>,
    seen: Duration,
}

/// What [`LinkWatch::refresh`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Refreshed {
    /// Hellos that are not newer than the last.
    pub(crate) replayed: u64,
    pub(crate) has_changed: bool,
}

impl LinkWatch {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        let peers = vec![Peer::default(); links.size.get()];
        Self { links, peers, seen: Duration::ZERO }
    }

    fn is_heard(&self, peer: &Peer, now: Duration) -> bool {
        peer.heard.is_some_and(|heard| now.saturating_sub(heard) < self.links.times.silence())
    }

    fn hears(&self, now: Duration) -> NodeSet {
        let least = self.links.times.missed;
        let is_heard = |node: &NodeId| {
            self.peers.get(node.index()).is_some_and(|peer| peer.run >= least && self.is_heard(peer, now))
        };
        self.links.size.nodes().filter(is_heard).collect()
    }

    /// Takes the hellos that arrived, and publishes the map if it changed.
    pub(crate) fn refresh(&mut self, now: Duration) -> Refreshed {
        // Time in which this worker did not run is no silence of the others.
        let pause = now.saturating_sub(self.seen);
        if pause > self.links.times.interval {
            self.peers.iter_mut().filter_map(|peer| peer.heard.as_mut()).for_each(|heard| *heard += pause);
        }
        self.seen = now;
        let mut refreshed = Refreshed::default();
        for _ in 0..self.links.received.capacity() {
            let Some(receipt) = self.links.received.pop() else { break };
            refreshed.replayed += u64::from(!self.take(&receipt));
        }
        let hears = self.hears(now);
        let reaches = |node: &NodeId| self.peers.get(node.index()).is_some_and(|peer| peer.hears_me);
        let up: NodeSet = hears.iter().filter(reaches).collect();
        let row = |(at, peer): (u8, &Peer)| {
            if up.contains(NodeId::new(at)) { peer.reaches } else { NodeSet::EMPTY }
        };
        let rows = (0..=u8::MAX).zip(&self.peers).map(row).collect();
        let map = LinkMap { id: self.links.id, up, rows };
        if map != **self.links.map.load() {
            self.links.publish(map);
            refreshed.has_changed = true;
        }
        refreshed
    }

    /// Whether the hello is newer than the last, or the link was silent.
    fn take(&mut self, receipt: &Receipt) -> bool {
        let Receipt { probe, at } = *receipt;
        let Some(peer) = self.peers.get(probe.from.index()) else { return false };
        let was_heard = self.is_heard(peer, at);
        if was_heard && probe.stamp <= peer.stamp {
            return false;
        }
        let run = if was_heard { peer.run.saturating_add(1) } else { 1 };
        let hears_me = probe.hears.contains(self.links.id);
        if let Some(peer) = self.peers.get_mut(probe.from.index()) {
            *peer = Peer { heard: Some(at), run, stamp: probe.stamp, hears_me, reaches: probe.reaches };
        }
        true
    }

    /// The hello to a neighbour.
    pub(crate) fn hello(&self, to: NodeId, now: Duration) -> Probe {
        Probe {
            kind: Kind::Probe,
            from: self.links.id,
            to,
            life: 0,
            epoch: 0,
            stamp: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_add(1),
            answers: 0,
            answers_life: 0,
            hears: self.hears(now),
            reaches: self.links.map.load().up,
            grants: NodeSet::EMPTY,
        }
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
