//! Sends the packets of a batch to different outputs.

use scalebricks_graph::{DropId, Out, SlotList};

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To an output.
    Out(u16),
    /// Dropped, for a reason.
    Drop(DropId),
}

/// Sends each packet to its destination; `ways` has one entry per packet. If all go to one output, the batch is passed
/// on as a whole.
#[inline]
pub(crate) fn split(batch: &mut SlotList, ways: &[Destination], out: &mut Out<'_>) {
    match ways.first() {
        Some(&Destination::Out(first)) if ways.iter().all(|way| *way == Destination::Out(first)) => {
            out.all(usize::from(first), batch);
        }
        _ => {
            for (slot, way) in batch.drain().zip(ways) {
                match *way {
                    Destination::Out(output) => out.push(usize::from(output), slot),
                    Destination::Drop(reason) => out.drop(slot, reason),
                }
            }
        }
    }
}
