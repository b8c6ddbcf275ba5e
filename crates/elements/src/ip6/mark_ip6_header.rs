//! `MarkIP6Header`.

use crate::columns::Ip6Header;
use crate::header;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv6::HEADER_LEN;

element! {
    /// Records where packets' IPv6 headers are without checking the length. Packets without an IPv6 header are dropped;
    /// Click passes them on.
    pub struct MarkIP6Header as "MarkIP6Header" { offset: u16, }
    inputs { agnostic "in": "Packets with an IPv6 header.", }
    outputs { agnostic "out": "The same.", }
    params MarkIP6HeaderParams {
        /// Offset of the header.
        offset: u16 = 0,
    }
    writes { Ip6Header, }
    drops { NO_HEADER = drops::NO_HEADER6, }
    makes |params| Self { offset: params.offset },
}

impl Control for MarkIP6Header {}

impl<P: PacketBuf> PerPacket<P> for MarkIP6Header {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        let offset = usize::from(self.offset);
        let header: Option<&[u8; HEADER_LEN]> =
            packet.data().get(offset..).and_then(|data| data.first_chunk());
        match header {
            Some(fixed) if fixed[0] >> 4 == 6 => {
                let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
                header::note(meta, offset, HEADER_LEN, HEADER_LEN + payload);
                Verdict::ON
            }
            _ => Verdict::Drop(Self::NO_HEADER),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv6, ipv6_of};

    #[test]
    fn headers_are_noted_and_not_checked() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIP6Header", &["OFFSET 1"]).chain(&["in", "m", "out0"]);
        });
        let long = ipv6_of(|header| header.payload_len = 900, b"");
        let mut four = long.clone();
        four[0] = 0x45;
        rig.send([&ipv6(9, b"abc"), &long, &four, &long[..39]].map(|packet| [b"-", packet].concat()));
        rig.turn();
        let noted = rig.noted(0).into_iter().map(|(_, meta)| (meta.l3, meta.l4, meta.length));
        assert_eq!(noted.collect::<Vec<_>>(), [(1, 41, 43), (1, 41, 940)]);
        assert_eq!(rig.number("m", "no_ip6_header"), 2);
    }
}
