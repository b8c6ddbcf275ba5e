//! `MarkIPHeader`.

use crate::columns::IpHeader;
use crate::header;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv4::Ipv4;

element! {
    /// Records where packets' IPv4 headers are without checking total length or checksum. Packets without an IPv4
    /// header are dropped; Click passes them on.
    pub struct MarkIPHeader as "MarkIPHeader" { offset: u16, }
    inputs { agnostic "in": "Packets with an IPv4 header.", }
    outputs { agnostic "out": "The same.", }
    params MarkIPHeaderParams {
        /// Offset of the header.
        offset: u16 = 0,
    }
    writes { IpHeader, }
    drops { NO_HEADER = drops::NO_HEADER, }
    makes |params| Self { offset: params.offset },
}

impl Control for MarkIPHeader {}

impl<P: PacketBuf> PerPacket<P> for MarkIPHeader {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, _: PacketContext<'_>) -> Verdict {
        let offset = usize::from(self.offset);
        match Ipv4::parse_header(packet.data().get(offset..).unwrap_or_default()) {
            Ok(ip) => header::note(meta, offset, ip.header_len(), ip.total_len()),
            Err(_) => return Verdict::Drop(Self::NO_HEADER),
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4_of, ipv4_with_options};

    #[test]
    fn headers_are_noted_and_not_checked() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIPHeader", &["OFFSET 1"]).chain(&["in", "m", "out0"]);
        });
        let long = ipv4_of(|header| header.total_len = 900, b"");
        let mut broken = long.clone();
        broken[0] = 0x46;
        rig.send(
            [&ipv4_with_options(&[0; 8], b"abc"), &long, &broken, &long[..19]]
                .map(|packet| [b"-", packet].concat()),
        );
        rig.turn();
        let noted = rig.noted(0).into_iter().map(|(_, meta)| (meta.l3, meta.l4, meta.length));
        assert_eq!(noted.collect::<Vec<_>>(), [(1, 29, 31), (1, 21, 900)]);
        assert_eq!(rig.number("m", "no_ip_header"), 2);
    }
}
