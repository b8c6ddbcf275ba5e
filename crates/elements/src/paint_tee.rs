//! `PaintTee`.

use crate::shared_names::{counters, handlers};
use scalebricks_graph::{Control, Element, Frame, HandlerId, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Passes every packet on, and sends a copy of packets with a given paint to output 1.
    pub struct PaintTee as "PaintTee" { pub(crate) color: u8, }
    inputs { push "in": "Packets.", }
    outputs { push "out": "All packets.", push "copy": "Copies of packets with that paint.", }
    params PaintTeeParams {
        /// The paint.
        color: u8,
    }
    example { "1", }
    counters {
        COPIES = counters::COPIES [Made],
        NOT_COPIED = counters::NOT_COPIED,
    }
    handlers { read COLOR = handlers::PAINT, }
    makes |params| Self { color: params.color },
}

impl Control for PaintTee {
    fn read(&self, _: HandlerId) -> String {
        self.color.to_string()
    }
}

impl<P: PacketBuf> Element<P> for PaintTee {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.iter() {
            if frame.meta(slot).paint != self.color {
                continue;
            }
            match frame.copy(slot) {
                Some(copy) => {
                    out.count(Self::COPIES, 1);
                    out.push(1, copy);
                }
                None => out.count(Self::NOT_COPIED, 1),
            }
        }
        out.all(0, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn packets_of_the_paint_are_copied() {
        let mut rig = Rig::with_buffers(6, 2, |builder| {
            builder.declare("t", "PaintTee", &["7"]).chain(&["in", "t", "out0"]).connect("t", 1, "out1", 0);
        })
        .unwrap();
        rig.send_painted([(1, 7), (2, 0), (3, 7), (4, 7)]);
        rig.turn();
        assert_eq!((rig.heads(0), rig.heads(1)), (vec![1, 2, 3, 4], vec![1, 3]));
        assert_eq!(
            (rig.number("t", "copies"), rig.number("t", "not_copied"), rig.number("t", "color")),
            (2, 1, 7)
        );
    }
}
