//! What a node knows about each other one, from the probes it received. A machine without I/O or clock.

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

/// A probe whose stamp is older than the newest of its sender's by less than this was overtaken: it came late, or over another
/// worker. Beyond it the sender's process is another one, whose stamps begin anew.
const OVERTAKEN: Duration = Duration::from_secs(10);

/// The clock of stamps: nanoseconds from a random number on, modulo 2^64. So stamps of an earlier process mean nothing to this one.
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

    /// How long before `now` a stamp was made, if that is no longer than [`HEARING`].
    fn since(self, stamp: u64, now: Duration) -> Option<Duration> {
        let passed = Duration::from_nanos(self.stamp(now).wrapping_sub(stamp));
        (stamp != 0 && passed <= HEARING).then_some(passed)
    }
}

/// Below 2^64 for 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the newest probe of a node says.
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
    /// When the newest of this node's probes was sent that it has answered.
    reached: Option<Duration>,
    /// Time from its newest answered probe to the echo.
    round_trip: Option<Duration>,
    /// When it last granted this node its lease, unless it has not done so since.
    granted: Option<Duration>,
}

/// What workers put into probes: as of the last refresh.
#[derive(Debug, Default)]
pub(super) struct ProbeContents {
    /// Until when it holds. A worker whose refreshing thread stands still says no more whom it hears, and grants nothing.
    pub(super) until: Duration,
    pub(super) life: u64,
    pub(super) epoch: u64,
    pub(super) hears: NodeSet,
    pub(super) reaches: NodeSet,
    pub(super) grants: NodeSet,
    /// By node: the newest stamp it sent, and its life with it. A stamp of 0 for a node that was not heard yet.
    pub(super) newest: Box<[(u64, u64)]>,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Peers {
    me: NodeId,
    clock: StampClock,
    life: u64,
    epoch: u64,
    /// By node: the life in which it is an alive member of the newest view.
    members: Box<[Option<u64>]>,
    known: Box<[Peer]>,
    router: RouteSelector,
    /// From when on silence counts: the first refresh, or the first after a pause.
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

    /// Who the node is, and who is alive in its newest view.
    pub(super) fn set_identity(
        &mut self,
        life: u64,
        epoch: u64,
        members: impl IntoIterator<Item = (NodeId, u64)>,
    ) {
        if life != self.life {
            // Granted to an earlier life.
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

    /// Takes a probe or echo in. Cost: constant.
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

    /// The nodes whose probes arrived lately.
    pub(super) fn hears(&self, now: Duration) -> NodeSet {
        self.nodes().filter(|(_, peer)| is_recent(peer.heard, now)).map(|(node, _)| node).collect()
    }

    /// The nodes that answered a probe which was sent lately.
    pub(super) fn reaches(&self, now: Duration) -> NodeSet {
        self.nodes().filter(|(_, peer)| is_recent(peer.reached, now)).map(|(node, _)| node).collect()
    }

    /// Who grants this node its lease, and since when.
    pub(super) fn grants_to_me(&self, now: Duration) -> impl Iterator<Item = (NodeId, Duration)> {
        self.nodes().filter_map(move |(node, peer)| {
            peer.granted.filter(|_| is_recent(peer.granted, now)).map(|at| (node, at))
        })
    }

    /// To whom this node grants the lease.
    fn grants(&self, hears: &NodeSet) -> NodeSet {
        let heard = self.nodes().zip(&self.members).filter(|((node, _), _)| hears.contains(*node));
        heard
            .filter(|((_, peer), member)| **member == Some(peer.report.life))
            .map(|((node, _), _)| node)
            .collect()
    }

    /// What the workers say and which ways they use from now on.
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

    /// What is known of each other node.
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
