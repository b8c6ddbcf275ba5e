//! `ICMP6PingResponder`.

use crate::columns::{DstIp6, Ip6Header};
use crate::ping::{PingFault, answers_pings};
use crate::shared_names::{counters, drops};
use crate::side_output::SideOutput;
use scalebricks_graph::{Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Turns ICMPv6 echo requests to any address into replies (RFC 4443 §4.2). Other packets go to output 1. A request
    /// with a wrong checksum, or from or to more than one host, gets no reply. Extension headers are not returned.
    pub struct ICMP6PingResponder as "ICMP6PingResponder" { reply: Vec<u8>, dst: Handle<DstIp6>, side: SideOutput, }
    inputs { agnostic "in": "IPv6 packets.", }
    outputs { agnostic "out": "Replies.", push "other" [Optional]: "Packets that are not requests; dropped if unconnected.", }
    reads { Ip6Header, }
    writes { DstIp6 on "out", }
    drops {
        OTHER = drops::NO_ECHO_REQUEST,
        CHECKSUM = drops::BAD_ICMP_CHECKSUM,
        NOT_UNICAST = drops::NOT_UNICAST,
        NO_ROOM = drops::NO_ROOM,
    }
    counters { REPLIES = counters::REPLIES, }
    binds { dst, side, }
    makes |_| Self { reply: Vec::new(), dst: Handle::default(), side: SideOutput::default() },
}

answers_pings!(ICMP6PingResponder, V6, DstIp6);

#[cfg(test)]
mod tests {
    use crate::rig::Rig;
    use etherparse::{Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

    const ASKER: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    const OWN: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    fn request(src: [u8; 16]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(src, OWN, 9).icmpv6_echo_request(7, 9);
        builder.write(&mut packet, b"are you there?").unwrap();
        packet
    }

    #[test]
    fn requests_are_answered_and_others_are_not() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("c", "CheckIP6Header", &[]).declare("p", "ICMP6PingResponder", &[]);
            builder.chain(&["in", "c", "p", "out0"]).connect("p", 1, "out1", 0);
        });
        let (mut damaged, mut reply) = (request(ASKER), request(ASKER));
        damaged[50] ^= 1;
        reply[40] = 129;
        rig.send([request(ASKER), damaged, reply, request([0; 16])]);
        rig.turn();
        let answers = rig.got(0);
        assert_eq!((answers.len(), rig.got(1).len()), (1, 1));
        assert_eq!((rig.number("p", "bad_icmp_checksum"), rig.number("p", "not_unicast")), (1, 1));
        let packet = SlicedPacket::from_ip(&answers[0]).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6") };
        let ip = ip.header().to_header();
        assert_eq!((ip.source, ip.destination), (OWN, ASKER));
        let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!("no ICMPv6") };
        assert!(icmp.is_checksum_valid(OWN, ASKER));
        let Icmpv6Type::EchoReply(echo) = icmp.icmp_type() else { panic!("{:?}", icmp.icmp_type()) };
        assert_eq!((echo.id, echo.seq, icmp.payload()), (7, 9, &b"are you there?"[..]));
    }
}
