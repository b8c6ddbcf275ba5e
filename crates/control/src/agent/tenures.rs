//! One node's part in the agreement on tenures: which nodes take flows, and which nodes inherit them.

use super::{Action, Agent};
use crate::distribution::Tables;
use crate::engine::Revision;
use crate::membership::{Placed, Placement, View};
use scalebricks_types::PartitionId;
use std::time::Duration;

/// How long a proposal may take before it is made again.
const PATIENCE: Duration = Duration::from_millis(500);

/// State of tenures beside the view.
#[derive(Debug, Default)]
pub(super) struct KnownTenures {
    pub(super) placement: Placement,
    placed: Option<Revision>,
    /// The last proposal that only tenures were the reason for: of which epoch, and when.
    proposed: Option<(u64, Duration)>,
}

impl<T: Tables> Agent<T> {
    /// The placement record was read. Older revisions are ignored.
    pub fn set_placement(&mut self, revision: Option<Revision>, placement: Placement) {
        if revision >= self.tenures.placed {
            (self.tenures.placed, self.tenures.placement) = (revision, placement);
        }
    }

    /// The next view after this one with the tenures that it should have; `None` if nothing changes.
    pub(super) fn with_tenures(&self, view: &View) -> Option<View> {
        let shape = self.shape()?;
        let placed = Placed { placement: &self.tenures.placement, revision: self.tenures.placed };
        view.with_tenures(placed, |node| shape.can_name(node))
    }

    /// Proposes that tenures are opened and closed where lives do not change: of drained nodes, and of others for whose
    /// flows there was no heir before. The owner of the first partition does so; if two believe that they are, the record knows one winner.
    pub(super) fn settle_tenures(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let view = self.membership.view();
        let (epoch, is_mine) = (view.epoch(), view.owner(PartitionId(0)) == Some(self.me));
        let is_due = self.tenures.proposed.is_none_or(|(of, at)| of != epoch || now >= at + PATIENCE);
        // Membership's proposals contain the tenures.
        let proposes = actions.iter().any(|action| matches!(action, Action::Propose(..)));
        if !is_mine || !is_due || proposes || !self.membership.is_in() {
            return;
        }
        if let Some(next) = self.with_tenures(view) {
            self.tenures.proposed = Some((epoch, now));
            actions.push(Action::Propose(self.membership.revision(), next));
        }
    }
}
