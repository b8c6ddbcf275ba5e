//! Maps the gateway's drop reasons to an element's drop numbers.

use crate::gateway::reason::DropReason;
use scalebricks_graph::spec::drop_id;
use scalebricks_graph::{DropId, Spec};

/// The element's number for each reason. The names are the same.
#[derive(Debug)]
pub(super) struct DropIds([DropId; DropReason::ALL.len()]);

impl DropIds {
    /// The numbers of a class, which must declare each reason that it drops for. A reason that it does not declare
    /// counts as its first.
    pub(super) fn of(spec: &Spec) -> Self {
        let mut ids = [drop_id(spec.drops, spec.drops[0].name); DropReason::ALL.len()];
        for &reason in DropReason::ALL {
            if spec.drops.iter().any(|drop| drop.name == reason.name()) {
                ids[reason as usize] = drop_id(spec.drops, reason.name());
            }
        }
        Self(ids)
    }

    /// The number of a reason.
    #[inline]
    pub(super) const fn id(&self, reason: DropReason) -> DropId {
        self.0[reason as usize]
    }
}
