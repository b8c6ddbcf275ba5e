//! `GetIPAddress`.

use crate::columns::DstIp;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

element! {
    /// Sets the destination annotation from four bytes of each packet: offset 16 is the destination of a packet that
    /// starts with its IPv4 header.
    pub struct GetIPAddress as "GetIPAddress" { pub(crate) offset: usize, dst: Handle<DstIp>, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    params GetIPAddressParams {
        /// Offset of the address.
        offset: usize,
    }
    example { "16", }
    writes { DstIp, }
    drops { SHORT = drops::TOO_SHORT, }
    binds { dst, }
    makes |params| Self { offset: params.offset, dst: Handle::default() },
}

/// The address at an offset of a packet.
#[inline]
pub(crate) fn address(data: &[u8], offset: usize) -> Option<Ipv4Addr> {
    data.get(offset..)?.first_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets))
}

impl Control for GetIPAddress {}

impl GetIPAddress {
    fn each<P: PacketBuf>(&mut self, packet: &P, _: &mut Meta, dst: &mut DstIp, _: &Out<'_>) -> Verdict {
        let Some(address) = address(packet.data(), self.offset) else { return Verdict::Drop(Self::SHORT) };
        *dst = DstIp(address);
        Verdict::ON
    }
}

crate::agnostic::per_destination!(GetIPAddress);

#[cfg(test)]
mod tests {
    use crate::rig::Rig;

    #[test]
    fn the_address_is_where_the_packet_goes() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("g", "GetIPAddress", &["2"]).declare(
                "arp",
                "ARPQuerier",
                &["10.0.0.1", "2:0:0:0:0:1"],
            );
            builder
                .declare("idle", "Idle", &[])
                .connect("idle", 0, "arp", 1)
                .chain(&["in", "g", "arp", "out0"]);
        });
        rig.send([&[0, 0, 10, 0, 0, 7, 1][..], &[0, 0, 10, 0, 0]]);
        rig.turn();
        let query = rig.got(0).remove(0);
        assert_eq!((&query[38..42], rig.number("g", "too_short")), (&[10, 0, 0, 7][..], 1));
    }
}
