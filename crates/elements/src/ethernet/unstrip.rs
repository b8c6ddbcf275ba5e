//! `Unstrip`.

use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Adds bytes to the front of packets: the original ones, if `Strip` removed them and no element has written there
    /// since. Otherwise their contents are unspecified.
    pub struct Unstrip as "Unstrip" { length: u16, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same packets with the bytes in front.", }
    params UnstripParams {
        /// The number of bytes.
        length: u16,
    }
    example { "14", }
    drops { NO_ROOM = drops::NO_HEADROOM, }
    makes |params| Self { length: params.length },
}

impl Control for Unstrip {}

impl<P: PacketBuf> PerPacket<P> for Unstrip {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        if packet.prepend(usize::from(self.length)).is_err() {
            return Verdict::Drop(Self::NO_ROOM);
        }
        meta.l3 = meta.l3.saturating_add(self.length);
        meta.l4 = meta.l4.saturating_add(self.length);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn what_was_stripped_comes_back() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("s", "Strip", &["14"]).declare("u", "Unstrip", &["12"]);
            builder.chain(&["in", "s", "u", "out0"]);
        });
        rig.send(["abcdefghijklmnopq"]);
        rig.turn();
        assert_eq!(rig.got(0), [b"cdefghijklmnopq"]);
    }

    #[test]
    fn there_must_be_room() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("u", "Unstrip", &["60000"]).chain(&["in", "u", "out0"]);
        });
        rig.send(["a"]);
        rig.turn();
        assert_eq!(rig.number("u", "no_headroom"), 1);
    }
}
