//! What a node knows about each other node from received probes. A state machine without I/O or clock.

use super::probe::{Kind, Probe};
use super::routes::{Reports, RouteSelector, Routes};
use super::{HEARING, PAUSE, PeerView};
use scalebricks_types::{ClusterSize, NodeId, NodeSet};
use std::time::Duration;

/// A probe as a worker received it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receipt {
    /// When.
    pub(super) at: Duration,
    /// What.
    pub(super) probe: Probe,
}

/// A probe whose stamp is older than its sender's newest by less than this was overtaken: it was delayed, or another
/// worker received it. A larger difference means that the sender's process was restarted and its stamps begin anew.
const OVERTAKEN: Duration = Duration::from_secs(10);

/// The clock of stamps: nanoseconds from a random start, modulo 2^64. Stamps of an earlier process are therefore
/// invalid here.
#[derive(Debug, Clone, Copy)]
pub(super) struct StampClock(u64);

impl StampClock {
    /// A clock that begins at this number.
    pub(super) const fn new(base: u64) -> Self {
        Self(base)
    }

    /// The stamp of a moment; never 0.
    pub(super) fn stamp(self, now: Duration) -> u64 {
        self.0.wrapping_add(nanos(now)).max(1)
    }

    /// How long before `now` a stamp was made, if at most [`HEARING`].
    fn since(self, stamp: u64, now: Duration) -> Option<Duration> {
        let passed = Duration::from_nanos(self.stamp(now).wrapping_sub(stamp));
        (stamp != 0 && passed <= HEARING).then_some(passed)
    }
}

/// Below 2^64 for 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The content of a node's newest probe.
#[derive(Debug, Clone, Copy, Default)]
struct Report {
    life: u64,
    stamp: u64,
    hears: NodeSet,
    reaches: NodeSet,
}

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// When its last probe arrived.
    heard: Option<Duration>,
    report: Report,
    /// When this node sent the newest probe that the peer has answered.
    reached: Option<Duration>,
    /// Round-trip time of its newest answered probe.
    round_trip: Option<Duration>,
    /// When its newest probe granted this node its lease; `None` if that probe did not.
    granted: Option<Duration>,
}

/// The content of the next probes, as of the last refresh.
#[derive(Debug, Default)]
pub(super) struct ProbeContents {
    /// Until when this content is valid. If the refreshing thread stops, workers report no heard nodes and grant
    /// nothing.
    pub(super) until: Duration,
    pub(super) life: u64,
    pub(super) epoch: u64,
    pub(super) hears: NodeSet,
    pub(super) reaches: NodeSet,
    pub(super) grants: NodeSet,
    /// By node: the newest stamp it sent, and its life with it. The stamp is 0 if the node was not heard yet.
    pub(super) newest: Box<[(u64, u64)]>,
}

/// The state of all peers.
#[derive(Debug)]
pub(super) struct Peers {
    me: NodeId,
    clock: StampClock,
    life: u64,
    epoch: u64,
    /// By node: its life, if it is an alive member of the newest view.
    members: Box<[Option<u64>]>,
    known: Box<[Peer]>,
    router: RouteSelector,
    /// When silence starts to count: the first refresh, or the first after a pause.
    began: Option<Duration>,
    refreshed: Duration,
}

fn is_recent(time: Option<Duration>, now: Duration) -> bool {
    time.is_some_and(|time| now.saturating_sub(time) <= HEARING)
}

impl Peers {
    pub(super) fn new(me: NodeId, size: ClusterSize, clock: StampClock) -> Self {
        Self {
            me,
            clock,
            life: 0,
            epoch: 0,
            members: vec![None; size.get()].into(),
            known: vec![Peer::default(); size.get()].into(),
            router: RouteSelector::new(me, size),
            began: None,
            refreshed: Duration::ZERO,
        }
    }

    /// Sets the node's identity and the alive members of its newest view.
    pub(super) fn set_identity(
        &mut self,
        life: u64,
        epoch: u64,
        members: impl IntoIterator<Item = (NodeId, u64)>,
    ) {
        if life != self.life {
            // Those grants were for an earlier life.
            self.known.iter_mut().for_each(|peer| peer.granted = None);
        }
        (self.life, self.epoch) = (life, epoch);
        self.members.fill(None);
        for (node, life) in members {
            if let Some(member) = self.members.get_mut(node.index()) {
                *member = Some(life);
            }
        }
    }

    /// Processes a probe or echo. Cost: constant.
    pub(super) fn receive(&mut self, Receipt { at, probe }: Receipt) {
        let Some(peer) = self.known.get_mut(probe.from.index()) else { return };
        let is_first = peer.heard.is_none();
        peer.heard = peer.heard.max(Some(at));
        let answered = self.clock.since(probe.answers, at);
        if let Some(passed) = answered {
            let sent = at.saturating_sub(passed);
            peer.reached = peer.reached.max(Some(sent));
            if probe.kind == Kind::Echo {
                peer.round_trip = Some(passed);
            }
        }
        let behind = peer.report.stamp.wrapping_sub(probe.stamp);
        if !is_first && (1..nanos(OVERTAKEN)).contains(&behind) {
            return;
        }
        let Probe { life, stamp, hears, reaches, .. } = probe;
        peer.report = Report { life, stamp, hears, reaches };
        let is_granted =
            answered.is_some() && probe.answers_life == self.life && probe.grants.contains(self.me);
        peer.granted = is_granted.then_some(at);
    }

    fn nodes(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        (0..=u8::MAX).map(NodeId::new).zip(&self.known)
    }

    /// The nodes whose probes arrived within [`HEARING`].
    pub(super) fn hears(&self, now: Duration) -> NodeSet {
        self.nodes().filter(|(_, peer)| is_recent(peer.heard, now)).map(|(node, _)| node).collect()
    }

    /// The nodes that answered a probe sent within [`HEARING`].
    pub(super) fn reaches(&self, now: Duration) -> NodeSet {
        self.nodes().filter(|(_, peer)| is_recent(peer.reached, now)).map(|(node, _)| node).collect()
    }

    /// Which nodes grant this node its lease, and since when.
    pub(super) fn grants_to_me(&self, now: Duration) -> impl Iterator<Item = (NodeId, Duration)> {
        self.nodes().filter_map(move |(node, peer)| {
            peer.granted.filter(|_| is_recent(peer.granted, now)).map(|at| (node, at))
        })
    }

    /// To which nodes this node grants the lease.
    fn grants(&self, hears: &NodeSet) -> NodeSet {
        let heard = self.nodes().zip(&self.members).filter(|((node, _), _)| hears.contains(*node));
        heard
            .filter(|((_, peer), member)| **member == Some(peer.report.life))
            .map(|((node, _), _)| node)
            .collect()
    }

    /// Computes the next probes' content and the routes.
    pub(super) fn refresh(&mut self, now: Duration) -> (ProbeContents, Routes) {
        if self.began.is_none() || now.saturating_sub(self.refreshed) > PAUSE {
            self.began = Some(now);
        }
        self.refreshed = now;
        let (hears, reaches) = (self.hears(now), self.reaches(now));
        let newest = self.known.iter().map(|peer| (peer.report.stamp, peer.report.life)).collect();
        let grants = self.grants(&hears);
        let (life, epoch) = (self.life, self.epoch);
        let outgoing = ProbeContents { until: now + HEARING, life, epoch, hears, reaches, grants, newest };
        // Silence means nothing until probes had time to be answered.
        let is_settled = self.began.is_some_and(|began| now.saturating_sub(began) > HEARING);
        let reports: Reports = self
            .nodes()
            .filter(|(node, _)| hears.contains(*node) && reaches.contains(*node))
            .map(|(node, peer)| (node, peer.report.hears.intersection(&peer.report.reaches)))
            .collect();
        (outgoing, self.router.route(&reaches, &reports, is_settled, now))
    }

    /// The state of each other node.
    pub(super) fn view(&self, now: Duration) -> Vec<PeerView> {
        let others = self.nodes().filter(|(node, _)| *node != self.me);
        let view = |(node, peer): (NodeId, &Peer)| PeerView {
            node,
            is_heard: is_recent(peer.heard, now),
            is_reached: is_recent(peer.reached, now),
            round_trip: peer.round_trip,
            via: self.router.via(node),
        };
        others.map(view).collect()
    }
}

#[cfg(test)]
mod tests;
