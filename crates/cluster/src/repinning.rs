//! The actor's part in moving a node's flows to others: logs closures and sends notices.

use super::actor::Actor;
use super::event::Event;
use super::repins::{RepinCause, RepinNotice};
use super::wire::Message;
use scalebricks_control::distribution::Tables;
use scalebricks_control::membership::View;
use scalebricks_control::record::{Change, Closure, Heirs};
use scalebricks_types::{NodeId, PartitionId};

impl<T: Tables> Actor<T> {
    /// Logs closures of the view in a partition.
    pub(super) fn close(&mut self, partition: PartitionId, closures: Vec<Closure>) {
        for closure in &closures {
            self.note_repin(partition, closure.node, &closure.heirs);
        }
        let changes = closures.into_iter().map(Change::Close).collect();
        self.write(partition, changes, Event::Closed(partition));
    }

    /// Collects a notice: merged with others of the same node and heirs.
    fn note_repin(&mut self, partition: PartitionId, from: NodeId, heirs: &Heirs) {
        let member = self.agent.membership().view().member(from);
        let view = self.agent.membership().view();
        let cause = match (view.is_alive(from), view.suspension(from)) {
            (false, _) => RepinCause::Died,
            (true, Some(_)) => RepinCause::Unfit,
            (true, None) => RepinCause::Drained,
        };
        let notice = RepinNotice {
            partitions: 1,
            keys: self.agent.partition(partition).map(|rib| rib.keys_of(from) as u64),
            heirs: heirs.nodes().iter().map(|heir| u16::from(heir.get())).collect(),
            ..RepinNotice::now(from, member.map_or(0, |member| member.life), cause)
        };
        let same = |known: &&mut RepinNotice| (known.node, &known.heirs) == (notice.node, &notice.heirs);
        if let Some(known) = self.repins.iter_mut().find(same) {
            known.merge(notice);
        } else {
            self.repins.push(notice);
        }
    }

    /// Logs which members were suspended, and which can do their work again, between two views.
    pub(super) fn tell_suspensions(&self, before: &View) {
        let view = self.agent.membership().view();
        for node in view.alive().filter(|node| view.suspension(*node) != before.suspension(*node)) {
            if let Some(reasons) = view.suspension(node) {
                tracing::warn!(node = node.get(), %reasons, "a member cannot do its work: others take its flows and addresses");
            } else {
                tracing::info!(node = node.get(), "a member can do its work again");
            }
        }
    }

    /// Logs a notice, and publishes it at this node and all others.
    pub(super) fn tell_repin(&self, notice: RepinNotice) {
        tracing::warn!(
            node = notice.node,
            cause = notice.cause.name(),
            partitions = notice.partitions,
            keys = notice.keys,
            heirs = ?notice.heirs,
            "a node's flows go to others"
        );
        let others = self.agent.membership().view().alive().filter(|node| *node != self.agent.node());
        others.for_each(|node| self.peers.send(node, Message::Repinned(notice.clone())));
        self.shared.repins.add(notice);
    }
}
