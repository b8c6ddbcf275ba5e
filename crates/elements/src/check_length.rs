//! `CheckLength`.

use crate::shared_names::drops;
use crate::side_output::SideOutput;
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sends packets longer than a limit to output 1.
    pub struct CheckLength as "CheckLength" { length: usize, side: SideOutput, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "Packets within the limit.", push "long" [Optional]: "Longer packets; dropped if unconnected.", }
    params CheckLengthParams {
        /// Maximum length in bytes.
        length: usize,
    }
    example { "100", }
    drops { LONG = drops::OVER_LENGTH, }
    handlers { read LENGTH = "length": "Maximum length in bytes.", }
    binds { side, }
    makes |params| Self { length: params.length, side: SideOutput::default() },
}

impl Control for CheckLength {
    fn read(&self, _: HandlerId) -> String {
        self.length.to_string()
    }
}

impl<P: PacketBuf> PerPacket<P> for CheckLength {
    fn each(&mut self, packet: &mut P, _: &mut Meta, _: PacketContext<'_>) -> Verdict {
        if packet.data().len() > self.length { self.side.verdict(Self::LONG) } else { Verdict::ON }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn longer_packets_are_told_or_dropped() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("a", "CheckLength", &["3"]).declare("b", "CheckLength", &["1"]);
            builder.chain(&["in", "a", "b", "out0"]).connect("a", 1, "out1", 0);
        });
        rig.send(["", "a", "ab", "abc", "abcd"]);
        rig.turn();
        assert_eq!(
            (rig.got(0).len(), rig.got(1), rig.number("b", "over_length")),
            (2, vec![b"abcd".to_vec()], 2)
        );
        assert_eq!(rig.read("a", "length"), "3");
    }
}
