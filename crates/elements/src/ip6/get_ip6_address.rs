//! `GetIP6Address`.

use crate::columns::DstIp6;
use crate::shared_names::drops;
use scalebricks_graph::{Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Sets the IPv6 destination annotation from sixteen bytes of each packet: offset 24 is the destination of a packet
    /// that starts with its IPv6 header.
    pub struct GetIP6Address as "GetIP6Address" { offset: usize, dst: Handle<DstIp6>, }
    inputs { agnostic "in": "Packets.", }
    outputs { agnostic "out": "The same.", }
    params GetIP6AddressParams {
        /// Offset of the address.
        offset: usize,
    }
    example { "24", }
    writes { DstIp6, }
    drops { SHORT = drops::TOO_SHORT, }
    binds { dst, }
    makes |params| Self { offset: params.offset, dst: Handle::default() },
}

impl Control for GetIP6Address {}

impl GetIP6Address {
    fn each<P: PacketBuf>(&mut self, packet: &P, _: &mut Meta, dst: &mut DstIp6, _: &Out<'_>) -> Verdict {
        let octets = packet.data().get(self.offset..).and_then(|data| data.first_chunk::<16>());
        let Some(octets) = octets else { return Verdict::Drop(Self::SHORT) };
        *dst = DstIp6((*octets).into());
        Verdict::ON
    }
}

crate::agnostic::per_destination!(GetIP6Address);

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv6};

    #[test]
    fn the_address_is_where_the_packet_goes() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("g", "GetIP6Address", &["24"]);
            builder.declare("r", "LookupIP6Route", &["2001:db8::9:9/128 1", "::/0 0"]);
            builder.chain(&["in", "g", "r", "out0"]).connect("r", 1, "out1", 0);
        });
        rig.send([ipv6(9, b""), ipv6(9, b"")[..39].to_vec()]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.got(1).len(), rig.number("g", "too_short")), (0, 1, 1));
    }
}
