//! `RoundRobinSwitch`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends packets to its outputs in turn. It splits flows, so it may reorder them.
    pub struct RoundRobinSwitch as "RoundRobinSwitch" { next: usize, }
    inputs { push "in": "Packets.", }
    outputs { push "out" [OneOrMore]: "Every n-th packet of n outputs.", }
    makes |_| Self { next: 0 },
}

impl Control for RoundRobinSwitch {}

impl<P: PacketBuf> Element<P> for RoundRobinSwitch {
    fn push(&mut self, _: usize, batch: &mut SlotList, _: &mut Frame<P>, out: &mut Out<'_>) {
        let outputs = out.outputs();
        for slot in batch.drain() {
            out.push(self.next, slot);
            self.next = if self.next + 1 < outputs { self.next + 1 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn every_output_has_its_turn_also_over_batches() {
        let mut rig = Rig::new(3, |builder| {
            builder.declare("s", "RoundRobinSwitch", &[]).chain(&["in", "s", "out0"]);
            builder.connect("s", 1, "out1", 0).connect("s", 2, "out2", 0);
        });
        rig.send((0..4).map(|n| [n]));
        rig.turn();
        rig.send((4..8).map(|n| [n]));
        rig.turn();
        assert_eq!((rig.heads(0), rig.heads(1), rig.heads(2)), (vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]));
    }
}
