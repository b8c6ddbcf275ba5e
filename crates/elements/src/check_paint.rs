//! `CheckPaint`.

use crate::shared_names::handlers;
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends packets with a given paint to output 0 and others to output 1. If output 1 is unconnected, they are
    /// dropped.
    pub struct CheckPaint as "CheckPaint" { color: u8, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "same": "Packets with that paint.", push "other" [Optional]: "All others.", }
    params CheckPaintParams {
        /// The paint.
        color: u8,
    }
    example { "1", }
    handlers { read COLOR = handlers::PAINT, }
    makes |params| Self { color: params.color },
}

impl Control for CheckPaint {
    fn read(&self, _: HandlerId) -> String {
        self.color.to_string()
    }
}

impl<P: PacketBuf> PerPacket<P> for CheckPaint {
    fn each(&mut self, _: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        if meta.paint == self.color { Verdict::ON } else { Verdict::Out(1) }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn other_paints_go_by_the_second_output_or_are_dropped() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("a", "CheckPaint", &["1"]).declare("b", "CheckPaint", &["2"]);
            builder.chain(&["in", "a", "out0"]).connect("a", 1, "b", 0).connect("b", 0, "out1", 0);
        });
        rig.send_painted([(10, 1), (20, 2), (30, 3), (11, 1)]);
        rig.turn();
        assert_eq!((rig.heads(0), rig.heads(1), rig.number("b", "unconnected")), (vec![10, 11], vec![20], 1));
    }

    #[test]
    fn pulled_through_it_pushes_the_others() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("q", "Queue", &[]).declare("a", "CheckPaint", &["1"]).declare(
                "u",
                "Unqueue",
                &[],
            );
            builder.chain(&["in", "q", "a", "u", "out0"]).connect("a", 1, "out1", 0);
        });
        rig.send_painted([(10, 1), (20, 2), (11, 1)]);
        rig.turn();
        assert_eq!(
            (rig.heads(0), rig.heads(1), rig.read("a", "color")),
            (vec![10, 11], vec![20], "1".into())
        );
    }
}
