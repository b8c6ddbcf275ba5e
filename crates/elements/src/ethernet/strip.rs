//! `Strip`.

use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Removes bytes from the front of packets, such as an Ethernet header. Shorter packets are dropped; Click keeps
    /// them empty.
    pub struct Strip as "Strip" { pub(crate) length: u16, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same packets without those bytes.", }
    params StripParams {
        /// The number of bytes.
        length: u16,
    }
    example { "14", }
    drops { SHORT = drops::TOO_SHORT, }
    makes |params| Self { length: params.length },
}

impl Strip {
    /// Strips one packet; `false` if it is too short.
    #[inline]
    pub(crate) fn apply<P: PacketBuf>(length: u16, packet: &mut P, meta: &mut Meta) -> bool {
        meta.l3 = meta.l3.saturating_sub(length);
        meta.l4 = meta.l4.saturating_sub(length);
        packet.trim_front(usize::from(length)).is_ok()
    }
}

impl Control for Strip {}

impl<P: PacketBuf> PerPacket<P> for Strip {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        if Self::apply(self.length, packet, meta) { Verdict::ON } else { Verdict::Drop(Self::SHORT) }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn bytes_go_and_the_header_stays_where_it_is() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("mark", "MarkIPHeader", &["14"]).declare("s", "Strip", &["14"]);
            builder.declare("check", "DecIPTTL", &[]).chain(&["in", "mark", "s", "check", "out0"]);
        });
        let packet = crate::rig::ipv4(64, b"abc");
        rig.send([[&[7; 14][..], &packet].concat()]);
        rig.turn();
        let got = rig.got(0).remove(0);
        assert_eq!((got.len(), got[8], &got[20..]), (packet.len(), 63, &b"abc"[..]));
    }

    #[test]
    fn packets_that_are_shorter_are_dropped() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("s", "Strip", &["LENGTH 3"]).chain(&["in", "s", "out0"]);
        });
        rig.send(["", "ab", "abc", "abcd"]);
        rig.turn();
        assert_eq!((rig.got(0), rig.number("s", "too_short")), (vec![vec![], vec![b'd']], 2));
    }
}
