//! Cuts a packet that came in fragments into fragments again.

use crate::header;
use scalebricks_graph::{Frame, SLOTS, Slot};
use scalebricks_io::PacketBuf;
use scalebricks_wire::fragment::{FragmentPlan, MIN_MTU};
use scalebricks_wire::ipv4::MAX_HEADER_LEN;

/// Makes fragments in the slot of the last one that arrived and in new ones.
#[derive(Debug)]
pub(crate) struct Cutter<P> {
    /// Fragments but for the first, and the lengths of their headers.
    later: Vec<(P, usize)>,
    slots: Vec<Slot>,
}

impl<P> Default for Cutter<P> {
    fn default() -> Self {
        Self { later: Vec::new(), slots: Vec::new() }
    }
}

impl<P: PacketBuf> Cutter<P> {
    /// Cuts `whole` into fragments of at most `most` octets, each behind the first `offset` octets of the packet in `slot`,
    /// which becomes the first fragment. Returns whether all fragments have a slot and a buffer; otherwise none is made.
    pub(crate) fn cut(
        &mut self,
        whole: &[u8],
        most: usize,
        (slot, offset): (&Slot, usize),
        frame: &mut Frame<P>,
    ) -> bool {
        self.later.clear();
        self.slots.clear();
        self.try_cut(whole, most, (slot, offset), frame).is_some()
    }

    fn try_cut(
        &mut self,
        whole: &[u8],
        most: usize,
        (slot, offset): (&Slot, usize),
        frame: &mut Frame<P>,
    ) -> Option<()> {
        let header_len = usize::from(whole.first()? & 0xf) * 4;
        let plan = Self::plan(whole, most)?;
        if plan.clone().count() > SLOTS - frame.used() + 1 {
            return None;
        }
        let before = frame.packet(slot).data().get(..offset)?.to_vec();
        let mut first = None;
        for piece in plan.clone() {
            let mut bytes = [0; MAX_HEADER_LEN];
            let len = plan.write_header(piece, &mut bytes).ok()?;
            let start = header_len + piece.offset;
            let (header, payload) = (bytes.get(..len)?, whole.get(start..start + piece.len)?);
            if first.is_none() {
                first = Some((bytes, len, payload));
                continue;
            }
            let mut packet = frame.alloc()?;
            for part in [&before, header, payload] {
                packet.append(part).ok()?;
            }
            self.later.push((packet, len));
        }
        let (bytes, len, payload) = first?;
        let (packet, meta) = frame.both_mut(slot);
        packet.truncate(offset);
        packet.append(bytes.get(..len)?).ok()?;
        packet.append(payload).ok()?;
        header::note(meta, offset, len, len + payload.len());
        let offset_len = |packet: &P| packet.data().len().saturating_sub(offset);
        for (packet, len) in self.later.drain(..) {
            let total = offset_len(&packet);
            let Ok(slot) = frame.put_like(packet, slot) else { continue }; // there are enough: they were counted
            header::note(frame.meta_mut(&slot), offset, len, total);
            self.slots.push(slot);
        }
        Some(())
    }

    /// The plan for fragments. A datagram whose fragments had DF set is cut all the same, as it was cut by its sender.
    fn plan(whole: &[u8], most: usize) -> Option<FragmentPlan<'_>> {
        FragmentPlan::forced(whole, most.max(MIN_MTU)).ok()
    }

    /// The slots of all fragments but the first, in order.
    pub(crate) fn rest(&mut self, _: &Frame<P>) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }
}
