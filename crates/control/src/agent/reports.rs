//! Reports of positions from nodes to the owners of partitions.

use super::ownership::Ownership;
use super::{Action, Agent, Packet};
use crate::distribution::{Report, Tables};
use scalebricks_types::{NodeId, PartitionId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two reports of all partitions; changes are reported at once.
pub const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Reports that arrived before they could be handled.
#[derive(Debug, Default)]
pub(super) struct EarlyReports(BTreeMap<PartitionId, BTreeMap<NodeId, Report>>);

impl<T: Tables> Agent<T> {
    /// Handles a node's report. Before this node knows the sender's life, owns the partition and has loaded it, it keeps the newest
    /// report, since the next comes only after [`REPORT_EVERY`].
    pub(super) fn reported(&mut self, from: NodeId, report: Report) {
        let partition = report.partition;
        let member = self.membership.view().member(from);
        let is_known = member.is_some_and(|member| member.is_alive && member.life == report.life);
        let owner = self.owned.get_mut(&partition).and_then(Ownership::owner_mut);
        if let Some(owner) = owner.filter(|_| is_known) {
            owner.report(from, report);
            self.touched.insert(partition);
        } else if u32::from(partition.0) < self.partitions.get() {
            self.early.0.entry(partition).or_default().insert(from, report);
        }
    }

    /// Handles the reports that arrived too early for a partition.
    pub(super) fn hear_early(&mut self, partition: PartitionId) {
        let is_loaded = self.owned.get(&partition).is_some_and(|ownership| ownership.owner().is_some());
        if is_loaded && let Some(early) = self.early.0.remove(&partition) {
            for (node, report) in early {
                self.reported(node, report);
            }
        }
    }

    /// The same for all.
    pub(super) fn hear_all_early(&mut self) {
        let partitions: Vec<PartitionId> = self.early.0.keys().copied().collect();
        for partition in partitions {
            self.hear_early(partition);
        }
    }

    /// Reports this node's own positions to its owner of a partition.
    pub(super) fn report_to_self(&mut self, partition: PartitionId) {
        if let Some(report) = self.replica.report(partition)
            && let Some(owner) = self.owned.get_mut(&partition).and_then(Ownership::owner_mut)
        {
            owner.report(self.me, report);
        }
    }

    /// Sends reports to owners.
    pub(super) fn report(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if now >= self.next_report {
            self.next_report = now + REPORT_EVERY;
            let view = self.membership.view();
            for partition in (0..self.partitions.get()).map(|at| PartitionId(at as u16)) {
                self.to_report.extend(view.owner(partition).map(|owner| (owner, partition)));
            }
        }
        let mut by_owner: BTreeMap<NodeId, Vec<_>> = BTreeMap::new();
        for (owner, partition) in std::mem::take(&mut self.to_report) {
            if owner != self.me {
                by_owner.entry(owner).or_default().extend(self.replica.report(partition));
            }
        }
        actions.extend(by_owner.into_iter().map(|(to, reports)| Action::Send(to, Packet::Reports(reports))));
    }
}
