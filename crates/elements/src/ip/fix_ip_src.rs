//! `FixIPSrc`.

use crate::columns::IpHeader;
use crate::shared_names::drops;
use crate::values::Ip;
use crate::{annotations, header};
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use std::net::Ipv4Addr;

element! {
    /// Sets the source address of packets that request it, and updates their checksums. `ICMPError` makes such packets:
    /// an error must come from the interface by which it leaves (RFC 1812 §4.3.2.4).
    pub struct FixIPSrc as "FixIPSrc" { address: Ipv4Addr, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs { agnostic "out": "The same packets, with the request cleared.", }
    params FixIPSrcParams {
        /// The source.
        ipaddr: Ip,
    }
    example { "10.0.0.1", }
    reads { IpHeader, }
    drops { NO_HEADER = drops::NO_HEADER, }
    counters { FIXED = "fixed": "Packets whose source was set.", }
    makes |params| Self { address: params.ipaddr.0 },
}

impl FixIPSrc {
    /// Fixes one packet; returns whether it requested that, and `None` if it has no header.
    #[inline]
    pub(crate) fn apply<P: PacketBuf>(address: Ipv4Addr, packet: &mut P, meta: &mut Meta) -> Option<bool> {
        if !annotations::is_source_to_fix(meta) {
            return Some(false);
        }
        annotations::fix_source(meta, false);
        let header = header::fixed_mut(packet.data_mut(), meta)?;
        let [a, b, c, d] = address.octets();
        header::set_word(header, 12, |_| u16::from_be_bytes([a, b]));
        header::set_word(header, 14, |_| u16::from_be_bytes([c, d]));
        Some(true)
    }
}

impl Control for FixIPSrc {}

impl<P: PacketBuf> PerPacket<P> for FixIPSrc {
    #[inline]
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        match Self::apply(self.address, packet, meta) {
            Some(false) => {}
            Some(true) => tally.count(Self::FIXED, 1),
            None => return Verdict::Drop(Self::NO_HEADER),
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use crate::annotations;
    use crate::rig::{Rig, ipv4, ipv4_of};
    use scalebricks_graph::Meta;

    #[test]
    fn packets_that_ask_get_the_source() {
        let mut rig = Rig::new(1, |builder| {
            builder.declare("m", "MarkIPHeader", &[]).declare("a", "FixIPSrc", &["192.0.2.77"]);
            builder.declare("b", "FixIPSrc", &["192.0.2.78"]).chain(&["in", "m", "a", "b", "out0"]);
        });
        let mut asks = Meta::default();
        annotations::fix_source(&mut asks, true);
        rig.send_noted([(ipv4(9, b"a"), asks), (ipv4(9, b"b"), Meta::default())]);
        rig.turn();
        let fixed = ipv4_of(|header| (header.ttl, header.src) = (9, [192, 0, 2, 77].into()), b"a");
        assert_eq!(rig.got(0), [fixed, ipv4(9, b"b")]);
        assert_eq!((rig.number("a", "fixed"), rig.number("b", "fixed")), (1, 0));
    }
}
