//! `PaintSwitch`.

use crate::shared_names::counters;
use scalebricks_graph::{Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;

/// A packet with this paint goes to all outputs.
const ALL: u8 = 255;

element! {
    /// Sends each packet to the output with the number of its paint annotation; paint 255 sends it to all outputs.
    pub struct PaintSwitch as "PaintSwitch" {}
    inputs { push "in": "Painted packets.", }
    outputs { push "out" [OneOrMore]: "Packets whose paint is the output's number.", }
    drops { NO_OUTPUT = "no_output_for_paint": "The switch has no output of this number.", }
    counters { NOT_COPIED = counters::NOT_COPIED, }
    makes |_| Self {},
}

impl Control for PaintSwitch {}

impl<P: PacketBuf> Element<P> for PaintSwitch {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let outputs = out.outputs();
        for slot in batch.drain() {
            match frame.meta(&slot).paint {
                ALL => {
                    for output in 1..outputs {
                        match frame.copy(&slot) {
                            Some(copy) => out.push(output, copy),
                            None => out.count(Self::NOT_COPIED, 1),
                        }
                    }
                    out.push(0, slot);
                }
                paint if usize::from(paint) < outputs => out.push(usize::from(paint), slot),
                _ => out.drop(slot, Self::NO_OUTPUT),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn the_paint_names_the_output() {
        let mut rig = Rig::new(3, |builder| {
            builder.declare("s", "PaintSwitch", &[]).chain(&["in", "s", "out0"]);
            builder.connect("s", 1, "out1", 0).connect("s", 2, "out2", 0);
        });
        rig.send_painted([(1, 0), (2, 2), (3, 3), (4, 255), (5, 1), (6, 254)]);
        rig.turn();
        assert_eq!((rig.heads(0), rig.heads(1), rig.heads(2)), (vec![1, 4], vec![4, 5], vec![2, 4]));
        assert_eq!((rig.number("s", "no_output_for_paint"), rig.number("s", "not_copied")), (2, 0));
    }
}
