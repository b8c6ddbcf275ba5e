//! Received heartbeats and the reports in them.

use super::HEARING;
use super::beat::{Beat, HearingReport};
use scalebricks_types::{NodeId, NodeSet};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Reports kept per node: with at least [`super::REFUTE_EVERY`] between two, they span more than [`super::CONTEST`].
const REPORTS: usize = 12;

/// What was received from one node.
#[derive(Debug)]
struct Heard {
    /// The life of its newest heartbeat, and when the first and the newest of that life were received.
    life: u64,
    since: Duration,
    at: Duration,
    /// Its newest reports in this life, the newest last.
    reports: VecDeque<(Duration, HearingReport)>,
}

/// Receipts and reports. Memory: at most 256 nodes with [`REPORTS`] reports each.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    heard: BTreeMap<NodeId, Heard>,
    /// Members that count as heard at this time, whatever was received.
    granted: BTreeMap<NodeId, Duration>,
}

impl Hearing {
    /// A heartbeat was received. One of an older life than known is ignored while the newer life is heard.
    pub(super) fn received(&mut self, from: NodeId, beat: &Beat, now: Duration) {
        let known = self.heard.get(&from);
        if known.is_some_and(|known| beat.life < known.life && now < known.at + HEARING) {
            return;
        }
        if known.is_none_or(|known| beat.life != known.life) {
            let heard = Heard { life: beat.life, since: now, at: now, reports: VecDeque::new() };
            self.heard.insert(from, heard);
        }
        let Some(heard) = self.heard.get_mut(&from) else { return };
        heard.at = now;
        if heard.reports.len() == REPORTS {
            heard.reports.pop_front();
        }
        heard.reports.push_back((now, beat.report));
    }

    /// A member counts as heard now.
    pub(super) fn grant(&mut self, node: NodeId, now: Duration) {
        self.granted.insert(node, now);
    }

    /// Whether a node was received in this life within a time.
    pub(super) fn hears(&self, node: NodeId, life: u64, within: Duration, now: Duration) -> bool {
        self.heard.get(&node).is_some_and(|heard| heard.life == life && now < heard.at + within)
    }

    /// Whether a member of this life was neither received nor granted time within this time. A newer life than this one ended it
    /// when it was first heard.
    pub(super) fn is_silent(&self, node: NodeId, life: u64, within: Duration, now: Duration) -> bool {
        let last = self.heard.get(&node).and_then(|heard| match heard.life.cmp(&life) {
            Ordering::Less => None,
            Ordering::Equal => Some(heard.at),
            Ordering::Greater => Some(heard.since),
        });
        last.max(self.granted.get(&node).copied()).is_none_or(|last| now >= last + within)
    }

    /// Whether a node has sent heartbeats of a newer life than this one for the given time.
    pub(super) fn has_ended(&self, node: NodeId, life: u64, within: Duration, now: Duration) -> bool {
        self.heard
            .get(&node)
            .is_some_and(|heard| heard.life > life && now < heard.at + HEARING && now >= heard.since + within)
    }

    /// The nodes to report as heard: received or granted within [`HEARING`].
    pub(super) fn set(&self, now: Duration) -> NodeSet {
        let received = self.heard.iter().filter(|(_, heard)| now < heard.at + HEARING);
        let granted = self.granted.iter().filter(|(_, at)| now < **at + HEARING);
        received.map(|(node, _)| *node).chain(granted.map(|(node, _)| *node)).collect()
    }

    /// The newest report of a node.
    pub(super) fn report(&self, of: NodeId) -> Option<&HearingReport> {
        self.newest(of).map(|(_, report)| report)
    }

    /// The newest report of a node, and when it was received.
    pub(super) fn newest(&self, of: NodeId) -> Option<(Duration, &HearingReport)> {
        self.heard.get(&of)?.reports.back().map(|(at, report)| (*at, report))
    }

    /// Whether a witness confirms that it does not hear a node, by all its reports over at least this time.
    pub(super) fn denies(&self, witness: NodeId, node: NodeId, span: Duration) -> bool {
        let Some(heard) = self.heard.get(&witness) else { return false };
        let Some((newest, _)) = heard.reports.back() else { return false };
        let mut denials = heard.reports.iter().rev().take_while(|(_, report)| !report.hears.contains(node));
        denials.any(|(at, _)| *at + span <= *newest)
    }

    /// Whether a witness reports to hear a node.
    pub(super) fn vouches(&self, witness: NodeId, node: NodeId) -> bool {
        self.report(witness).is_some_and(|report| report.hears.contains(node))
    }
}
