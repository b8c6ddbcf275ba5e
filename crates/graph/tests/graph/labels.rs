//! Elements that write and read a column.

use crate::elements::sequence;
use scalebricks_graph::{Column, Control, Element, Frame, Handle, Out, SlotList, element};
use scalebricks_io::{Packet, PacketBuf};

/// A packet's own sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(pub u32);

impl Column for Label {
    const NAME: &'static str = "label";
    const POISON: Self = Self(0xdead_beef);
}

element! {
    /// Writes each packet's label.
    #[derive(Default)]
    pub struct Stamp as "Stamp" { label: Handle<Label>, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "Packets with a label.", push "bare" [Optional]: "Unused.", }
    writes { Label on "out", }
    binds { label, }
}

impl Control for Stamp {}

impl Element<Packet> for Stamp {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let parts = frame.parts();
        let labels = parts.columns.get_mut(self.label);
        for slot in batch.iter() {
            labels[slot] = Label(sequence(parts.packets[slot].data()));
        }
        out.all(0, batch);
    }
}

element! {
    /// Compares each packet's label with the packet.
    #[derive(Default)]
    pub struct Check as "Check" { label: Handle<Label>, }
    inputs { push "in": "Packets with a label.", }
    outputs { push "out": "The same.", }
    reads { Label, }
    counters { WRONG = "wrong": "Labels of other packets.", }
    binds { label, }
}

impl Control for Check {}

impl Element<Packet> for Check {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let labels = frame.column(self.label);
        let is_wrong = |slot: &&_| labels[slot] != Label(sequence(frame.packet(slot).data()));
        out.count(Self::WRONG, batch.iter().filter(is_wrong).count() as u64);
        out.all(0, batch);
    }
}
