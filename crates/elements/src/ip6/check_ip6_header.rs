//! `CheckIP6Header`.

use crate::columns::{DstIp6, Ip6Header};
use crate::header;
use crate::header6::{self, HeaderFault6};
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use crate::values::Ip6s;
use scalebricks_graph::{Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ipv6::HEADER_LEN;
use std::net::Ipv6Addr;

element! {
    /// Checks IPv6 headers: version, length and source. Removes what follows the packet, such as Ethernet padding.
    /// Records where the header is, and sets the destination annotation. As a router must (RFC 8200 §4), it does not read
    /// extension headers; jumbograms (RFC 2675) are not supported.
    pub struct CheckIP6Header as "CheckIP6Header" {
        offset: usize, bad: Vec<Ipv6Addr>, dst: Handle<DstIp6>, side: SideOutput,
    }
    inputs { agnostic "in": "Packets with an IPv6 header.", }
    outputs { agnostic "out": "Valid packets.", push "bad" [Optional]: "Invalid packets; dropped if unconnected.", }
    params CheckIP6HeaderParams {
        /// Offset of the header.
        offset: u16 = 0,
        /// Source addresses of which a packet is invalid, besides groups.
        badaddrs: Option<Ip6s> = None,
    }
    writes { DstIp6 on "out", Ip6Header on "out", }
    drops {
        SHORT = drops::TOO_SHORT,
        VERSION = drops::BAD_VERSION6,
        LENGTH = drops::BAD_LENGTH6,
        SOURCE = drops::BAD_SOURCE,
    }
    counters { DROPS = "drops": "Invalid packets.", }
    binds { dst, side, }
    makes |params| Self {
        offset: usize::from(params.offset),
        bad: params.badaddrs.unwrap_or_default().0,
        dst: Handle::default(),
        side: SideOutput::default(),
    },
}

impl Control for CheckIP6Header {}

impl CheckIP6Header {
    fn each<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        meta: &mut Meta,
        dst: &mut DstIp6,
        out: &Out<'_>,
    ) -> Verdict {
        let fault = match header6::check(packet.data().get(self.offset..).unwrap_or_default()) {
            Ok((fixed, total)) => {
                let src = header6::src(fixed);
                if src.is_multicast() || self.bad.contains(&src) {
                    Self::SOURCE
                } else {
                    *dst = DstIp6(header6::dst(fixed));
                    header::note(meta, self.offset, HEADER_LEN, total);
                    packet.truncate(self.offset + total);
                    return Verdict::ON;
                }
            }
            Err(HeaderFault6::Short) => Self::SHORT,
            Err(HeaderFault6::Version) => Self::VERSION,
            Err(HeaderFault6::Length) => Self::LENGTH,
        };
        out.count(Self::DROPS, 1);
        self.side.verdict(fault)
    }
}

crate::agnostic::per_destination!(CheckIP6Header);

#[cfg(test)]
mod tests {
    use crate::rig::{Rig, ipv6, ipv6_of};
    use etherparse::Ipv6HeaderSlice;
    use proptest::prelude::*;

    fn rig(args: &'static [&'static str]) -> Rig {
        Rig::new(2, |builder| {
            builder.declare("c", "CheckIP6Header", args);
            builder.chain(&["in", "c", "out0"]).connect("c", 1, "out1", 0);
        })
    }

    #[test]
    fn valid_packets_pass_without_padding() {
        let mut rig = rig(&["14"]);
        let packet = ipv6(9, b"abc");
        rig.send([[&[7; 14], &packet[..], &[0; 20]].concat()]);
        rig.turn();
        let (bytes, meta) = rig.noted(0).remove(0);
        assert_eq!(bytes[14..], packet);
        assert_eq!((meta.l3, meta.l4, meta.length), (14, 54, 43));
    }

    #[test]
    fn every_fault_has_its_reason() {
        let mut rig = Rig::new(1, |builder| {
            builder
                .declare("c", "CheckIP6Header", &["BADADDRS ::1 2001:db8::bad"])
                .chain(&["in", "c", "out0"]);
        });
        let from = |src: &str| ipv6_of(|header| header.src = src.parse().unwrap(), b"");
        let mut version = ipv6(9, b"");
        version[0] = 0x45;
        let long = ipv6_of(|header| header.payload_len = 1, b"");
        rig.send([
            ipv6(9, b"")[..39].to_vec(),
            version,
            long,
            from("ff02::1"),
            from("::1"),
            from("2001:db8::bad"),
        ]);
        rig.turn();
        let reasons = ["too_short", "bad_ip6_version", "bad_ip6_length", "bad_source", "drops"];
        assert_eq!(reasons.map(|reason| rig.number("c", reason)), [1, 1, 1, 3, 6]);
        rig.send([from("::"), ipv6(0, b"x")]);
        rig.turn();
        assert_eq!(rig.got(0).len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// What passes is what another parser accepts, with the same length.
        #[test]
        fn another_parser_accepts_the_same(
            packets in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..60), any::<bool>(), 0..60u8), 1..20,
            )
        ) {
            let packets: Vec<Vec<u8>> = packets.into_iter().map(|(mut bytes, is_six, len)| {
                if is_six && bytes.len() > 6 {
                    bytes[0] = 0x60 | bytes[0] & 0xf;
                    (bytes[4], bytes[5]) = (0, len);
                }
                bytes
            }).collect();
            let expected: Vec<Vec<u8>> = packets.iter().filter_map(|bytes| {
                let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
                let total = 40 + usize::from(header.payload_length());
                (total <= bytes.len() && header.source()[0] != 0xff).then(|| bytes[..total].to_vec())
            }).collect();
            let mut rig = rig(&[]);
            rig.send(packets.clone());
            rig.turn();
            prop_assert_eq!(rig.got(1).len(), packets.len() - expected.len());
            prop_assert_eq!(rig.got(0), expected);
        }
    }
}
