//! An optional output for packets that most configurations drop.

use scalebricks_graph::element::{BindError, Bound};
use scalebricks_graph::{Binder, DropId, Out, Slot, Verdict};

/// Whether an element's output 1 is connected. As in Click, its packets are dropped otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SideOutput {
    is_connected: bool,
}

impl SideOutput {
    /// Where a packet goes.
    pub(crate) const fn verdict(self, reason: DropId) -> Verdict {
        if self.is_connected { Verdict::Out(1) } else { Verdict::Drop(reason) }
    }

    /// Sends a packet there, or drops it.
    pub(crate) fn send(self, slot: Slot, reason: DropId, out: &mut Out<'_>) {
        if self.is_connected { out.push(1, slot) } else { out.drop(slot, reason) }
    }
}

impl Bound for SideOutput {
    fn bound(binder: &Binder<'_>) -> Result<Self, BindError> {
        Ok(Self { is_connected: binder.outputs() > 1 })
    }
}
