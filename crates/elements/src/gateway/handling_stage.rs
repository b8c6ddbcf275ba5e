//! The stage after steering, for packets that this node handles.

use super::batch::BatchEntry;
use super::columns::{FibHit, HashedKey};
use super::steer::output;
use crate::gateway::flow::FlowState;
use crate::gateway::packet::classify::Parsed;
use scalebricks_graph::{Frame, Handle, Out};
use scalebricks_io::PacketBuf;
use scalebricks_tables::FibValue;

/// What follows [`Steer`](super::Steer) for packets of this node's flows: an edge to another element, or the fused
/// element itself.
pub(super) trait HandlingStage<P: PacketBuf> {
    /// Announces a packet that will be found, with its state, so that its memory can be prefetched.
    fn expect(&self, packet: &P, parsed: &Parsed, flow: &FlowState);

    /// A packet that the GPT places here.
    fn here(&mut self, work: BatchEntry<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>);

    /// A packet of a local flow, with the FIB's value for it.
    fn found(&mut self, work: BatchEntry<'_, P>, value: FibValue, frame: &mut Frame<P>, out: &mut Out<'_>);
}

/// Puts packets into slots and sends them to the connected element.
#[derive(Debug)]
pub(super) struct ToSlots {
    pub(super) parsed: Handle<Parsed>,
    pub(super) keyed: Handle<HashedKey>,
    pub(super) found: Handle<FibHit>,
}

impl<P: PacketBuf> HandlingStage<P> for ToSlots {
    fn expect(&self, _: &P, _: &Parsed, _: &FlowState) {}

    #[inline(always)]
    fn here(&mut self, work: BatchEntry<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(slot) = out.put(work.packet, frame) else { return };
        let (parsed, keyed) = frame.parts().columns.pair_mut(self.parsed, self.keyed);
        parsed[&slot] = *work.parsed;
        keyed[&slot] = HashedKey { key: *work.key, hash: work.hash };
        out.push(output::HERE, slot);
    }

    #[inline(always)]
    fn found(&mut self, work: BatchEntry<'_, P>, value: FibValue, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(slot) = out.put(work.packet, frame) else { return };
        let (parsed, found) = frame.parts().columns.pair_mut(self.parsed, self.found);
        parsed[&slot] = *work.parsed;
        found[&slot] = FibHit { value, hash: work.hash };
        out.push(output::FOUND, slot);
    }
}
