//! `DecIPTTL`.

use crate::columns::IpHeader;
use crate::header;
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use scalebricks_graph::{Control, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Decrements the TTL and updates the checksum (RFC 1624). An expired packet goes to output 1, unchanged.
    pub struct DecIPTTL as "DecIPTTL" { side: SideOutput, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs {
        agnostic "out": "Packets that have not expired.",
        push "expired" [Optional]: "Packets that arrived with a TTL of 0 or 1; dropped if unconnected.",
    }
    reads { IpHeader, }
    drops {
        EXPIRED = "ttl_expired": "The packet arrived with a TTL of 0 or 1.",
        NO_HEADER = drops::NO_HEADER,
    }
    counters { DROPS = "drops": "Expired packets.", }
    binds { side, }
    makes |_| Self { side: SideOutput::default() },
}

impl DecIPTTL {
    /// Decrements one packet's TTL; `Some(false)` if it has expired, `None` if it has no header.
    #[inline]
    pub(crate) fn apply<P: PacketBuf>(packet: &mut P, meta: &Meta) -> Option<bool> {
        let header = header::fixed_mut(packet.data_mut(), meta)?;
        if header[header::TTL] <= 1 {
            return Some(false);
        }
        header::lower_ttl(header);
        Some(true)
    }
}

impl Control for DecIPTTL {}

impl<P: PacketBuf> PerPacket<P> for DecIPTTL {
    #[inline]
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        match Self::apply(packet, meta) {
            Some(true) => Verdict::ON,
            Some(false) => {
                tally.count(Self::DROPS, 1);
                self.side.verdict(Self::EXPIRED)
            }
            None => Verdict::Drop(Self::NO_HEADER),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv4, ipv4_of};
    use proptest::prelude::*;

    #[test]
    fn expired_packets_are_dropped_or_told() {
        for ends in [1, 2] {
            let mut rig = Rig::new(ends, |builder| {
                builder.declare("m", "MarkIPHeader", &[]).declare("d", "DecIPTTL", &[]);
                builder.chain(&["in", "m", "d", "out0"]);
                if ends > 1 {
                    builder.connect("d", 1, "out1", 0);
                }
            });
            let packets = [0, 1, 2, 255].map(|ttl| ipv4(ttl, b"abc"));
            rig.send(packets.clone());
            rig.turn();
            assert_eq!(rig.got(0), [1, 254].map(|ttl| ipv4(ttl, b"abc")));
            assert_eq!((rig.number("d", "drops"), rig.number("d", "ttl_expired")), (2, [2, 0][ends - 1]));
            if ends > 1 {
                assert_eq!(rig.got(1), packets[..2]);
            }
        }
    }

    #[test]
    fn it_must_know_where_the_header_is() {
        let errors = Rig::with_buffers(5, 1, |builder| {
            builder.declare("d", "DecIPTTL", &[]).chain(&["in", "d", "out0"]);
        });
        let error = errors.err().unwrap().to_string();
        assert!(error.contains("d reads column IP header"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn the_checksum_is_the_one_computed_anew(
            ttl in 2..=255u8, protocol: u8, src: [u8; 4], dst: [u8; 4], identification: u16, dscp_ecn: u8,
        ) {
            let mut rig = Rig::new(1, |builder| {
                builder.declare("m", "MarkIPHeader", &[]).declare("d", "DecIPTTL", &[]).chain(&["in", "m", "d", "out0"]);
            });
            let with = |ttl| ipv4_of(|header| {
                (header.ttl, header.protocol, header.src, header.dst) = (ttl, protocol, src.into(), dst.into());
                (header.identification, header.dscp_ecn) = (identification, dscp_ecn);
            }, b"");
            rig.send([with(ttl)]);
            rig.turn();
            prop_assert_eq!(rig.got(0), [with(ttl - 1)]);
        }
    }
}
