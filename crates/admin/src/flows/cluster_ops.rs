//! Operations on the whole cluster through a node's control plane: list members, drain and undrain them, name standbys.

use super::{ControlledFlows, FlowsError};
use crate::model::{ClusterView, MemberView, StandbyView, suspended_for};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::plane::{Accepted, ChangeRefusal};
use scalebricks_cluster::repins::{RepinCause, RepinNotice};
use scalebricks_control::membership::{Placement, Standby, View};
use scalebricks_control::partition::Void;
use scalebricks_control::record::{Change, Closure};
use scalebricks_types::{NodeId, PartitionCount, PartitionId};
use std::sync::Arc;

fn number(node: NodeId) -> u16 {
    u16::from(node.get())
}

impl ControlledFlows {
    pub(super) fn cluster_view(&self) -> ClusterView {
        let plane = self.plane.get();
        let view = plane.map_or_else(|| Arc::new(View::empty(PartitionCount::ONE)), ControlPlane::view);
        let placement = plane.map_or_else(Placement::default, ControlPlane::placement);
        let members = view.members().map(|(node, member)| MemberView {
            node: number(node),
            life: member.life,
            is_alive: member.is_alive,
            suspended_for: suspended_for(&view, node),
            partitions: view.partitions_of(node).map(|partition| partition.0).collect(),
        });
        let all = (0..view.partitions()).map(|at| PartitionId(at as u16)); // at most 2^16
        ClusterView {
            node: number(self.node),
            has_caught_up: plane.is_some_and(ControlPlane::has_caught_up),
            epoch: view.epoch(),
            nodes: self.parser.size().get() as u16, // at most 256
            key: self.parser.profile().to_string(),
            base_stations: self.parser.base_stations().to_vec(),
            members: members.collect(),
            unowned_partitions: all
                .filter(|partition| view.owner(*partition).is_none())
                .map(|partition| partition.0)
                .collect(),
            flows: plane.map_or(0, ControlPlane::keys) / 2,
            drained: placement.drained().map(number).collect(),
            standbys: placement
                .standbys()
                .map(|(node, to)| StandbyView { node: number(node), to: Some(number(to)) })
                .collect(),
            repins: plane.map_or_else(Vec::new, ControlPlane::repins),
            positions: plane.map_or_else(Vec::new, ControlPlane::positions),
        }
    }

    /// First marks the node as drained, so that no flow is pinned to it, then moves its flows. Flows that others pin to
    /// it before they learn of the mark are moved later by the owners of the partitions.
    pub(super) async fn drain_node(&self, node: NodeId) -> Result<(Accepted, Vec<NodeId>), FlowsError> {
        let plane = self.plane()?;
        let view = plane.view();
        let member = view.member(node).ok_or(FlowsError::NoSuchNode(node))?;
        let (mut then, shape) = (plane.placement(), plane.shape());
        then.set_drained(node, true);
        let no_heir =
            || FlowsError::Conflict(format!("cannot drain {node}: no other node is alive and not drained"));
        then.heirs(node, &view, |heir| shape.can_name(heir)).ok_or_else(no_heir)?;
        plane.place(move |placement| placement.set_drained(node, true)).await?;
        let view = plane.view();
        // All closures of the node, because a log accepts only those newer than its own.
        let closures = view.closures().iter().filter(|closure| closure.node == node);
        let closures: Vec<Closure> = closures.collect();
        let closure = closures.last().filter(|_| !view.is_open(node)).ok_or_else(no_heir)?;
        let nodes = closure.heirs.nodes().to_vec();
        let changes: Vec<Change> = closures.into_iter().map(Change::Close).collect();
        let accepted = plane.accept_in_all(&changes).await?;
        // The owners may have been faster.
        let mut refused =
            accepted.refused().iter().filter(|(_, why)| *why != ChangeRefusal::Void(Void::Applied));
        if let Some((_, why)) = refused.next() {
            // They complete it.
            tracing::warn!(node = number(node), %why, "not all partitions accepted the drain at once");
        }
        let notice = RepinNotice {
            partitions: view.partitions() as u64,
            heirs: nodes.iter().copied().map(number).collect(),
            ..RepinNotice::now(node, member.life, RepinCause::Drained)
        };
        plane.tell_repin(notice).await;
        Ok((accepted, nodes))
    }

    pub(super) async fn undrain_node(&self, node: NodeId) -> Result<(), FlowsError> {
        self.check(node)?;
        self.plane()?.place(move |placement| placement.set_drained(node, false)).await?;
        Ok(())
    }

    pub(super) async fn forget_node(&self, node: NodeId) -> Result<(), FlowsError> {
        if node == self.node {
            return Err(FlowsError::Invalid(format!("{node} cannot forget itself: ask another node")));
        }
        let plane = self.plane()?;
        if plane.view().member(node).is_none() {
            return Err(FlowsError::Invalid(format!("{node} was never in the cluster")));
        }
        Ok(plane.forget(node).await?)
    }

    pub(super) async fn set_standby_of(&self, node: NodeId, standby: Standby) -> Result<(), FlowsError> {
        self.check(node)?;
        if let Standby::One(one) = standby {
            self.check(one)?;
            if one == node {
                return Err(FlowsError::Invalid(format!("{node} cannot take its own flows when it dies")));
            }
        }
        self.plane()?.place(move |placement| placement.set_standby(node, standby)).await?;
        Ok(())
    }

    /// Checks that the cluster can have this node.
    fn check(&self, node: NodeId) -> Result<(), FlowsError> {
        let size = self.parser.size().get();
        if usize::from(node.get()) < size {
            return Ok(());
        }
        Err(FlowsError::Invalid(format!("{node} of a cluster of {size} (numbered from 0)")))
    }
}
