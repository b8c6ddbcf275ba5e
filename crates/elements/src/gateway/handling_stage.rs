//! Where packets go whose flow is here.

use super::batch::BatchEntry;
use super::columns::{FibHit, HashedKey};
use super::steer::output;
use crate::gateway::flow::FlowState;
use crate::gateway::packet::classify::Parsed;
use scalebricks_graph::{Frame, Handle, Out};
use scalebricks_io::PacketBuf;
use scalebricks_tables::FibValue;

/// What comes after [`Steer`](super::Steer) for packets whose flow is here: the edge to another element, or that element itself.
pub(super) trait HandlingStage<P: PacketBuf> {
    /// A packet will be found, with this state: its memory may be asked for.
    fn expect(&self, packet: &P, parsed: &Parsed, flow: &FlowState);

    /// A packet that the GPT says is here.
    fn here(&mut self, work: BatchEntry<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>);

    /// A packet that is here, and what the FIB holds for its flow.
    fn found(&mut self, work: BatchEntry<'_, P>, value: FibValue, frame: &mut Frame<P>, out: &mut Out<'_>);
}

/// By slots, to whatever is connected.
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
