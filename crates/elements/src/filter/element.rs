//! Code that the filter elements share.

use super::program::{Packet, Program};
use crate::split::{Destination, split};
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::{Frame, Meta, Out, SLOTS, SlotList};
use scalebricks_io::PacketBuf;

/// The text of a filter, with an optional action before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterText(pub String);

impl Param for FilterText {
    const KIND: &'static str = "a filter of IP packets";

    fn read(text: &str) -> Option<Self> {
        String::read(text).map(Self)
    }
}

impl ListItem for FilterText {
    const KINDS: &'static str = "filters of IP packets, …";
}

/// A filter's view of a packet whose header was located. Missing parts are empty.
#[inline(always)]
fn seen<'a>(data: &'a [u8], meta: &Meta) -> Packet<'a> {
    let end = data.len().min(usize::from(meta.l3) + usize::from(meta.length));
    let from = |offset: u16| data.get(usize::from(offset)..end).unwrap_or_default();
    Packet { header: from(meta.l3), transport: from(meta.l4) }
}

/// Sends each packet to the destination of the first filter that matches it.
#[inline(always)]
pub(crate) fn classify<P: PacketBuf>(
    program: &Program,
    batch: &mut SlotList,
    frame: &mut Frame<P>,
    out: &mut Out<'_>,
    way: impl Fn(Option<usize>) -> Destination,
) {
    let mut ways = [Destination::Out(0); SLOTS];
    for (place, slot) in ways.iter_mut().zip(batch.iter()) {
        *place = way(program.first(seen(frame.packet(slot).data(), frame.meta(slot))));
    }
    let count = batch.len();
    split(batch, &ways[..count], out);
}
