//! An output for packets that most configurations drop.

use scalebricks_graph::{Binder, DropId, Out, Slot, Verdict};

/// Whether an element's output 1 leads anywhere. As in Click, what it would send there is dropped otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SideOutput {
    is_connected: bool,
}

impl SideOutput {
    /// What the graph says.
    pub(crate) const fn of(binder: &Binder<'_>) -> Self {
        Self { is_connected: binder.outputs() > 1 }
    }

    /// What becomes of a packet.
    pub(crate) const fn verdict(self, reason: DropId) -> Verdict {
        if self.is_connected { Verdict::Out(1) } else { Verdict::Drop(reason) }
    }

    /// Sends a packet there.
    pub(crate) fn send(self, slot: Slot, reason: DropId, out: &mut Out<'_>) {
        if self.is_connected { out.push(1, slot) } else { out.drop(slot, reason) }
    }
}
