//! A hook that sees every packet move. In production it is `()` and costs nothing.

use crate::frame::Frame;
use crate::graph::EdgeInfo;
use crate::slot::SlotList;
use crate::spec::DropSpec;
use scalebricks_io::PacketBuf;

/// Observes a worker's packets. Called on the packet thread.
pub trait Trace<P: PacketBuf> {
    /// Packets pass an edge, in this order.
    fn passed(&mut self, _edge: &EdgeInfo, _list: &SlotList, _frame: &Frame<P>) {}

    /// Packets pass an edge by value, in this order.
    fn carried(&mut self, _edge: &EdgeInfo, _packets: &[P]) {}

    /// An element drops a packet.
    fn dropped(&mut self, _element: &str, _reason: &DropSpec, _packet: &P) {}
}

impl<P: PacketBuf> Trace<P> for () {}
