//! `ICMPPingResponder`.

use crate::columns::{DstIp, IpHeader};
use crate::ping::{PingFault, answers_pings};
use crate::shared_names::{counters, drops};
use crate::side_output::SideOutput;
use scalebricks_graph::{Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;

element! {
    /// Turns ICMP echo requests to any address into replies (RFC 792). Other packets go to output 1. A request with a
    /// wrong ICMP checksum, or from or to more than one host, gets no reply; Click replies to both. IP options are not
    /// returned.
    pub struct ICMPPingResponder as "ICMPPingResponder" { reply: Vec<u8>, dst: Handle<DstIp>, side: SideOutput, }
    inputs { agnostic "in": "IPv4 packets.", }
    outputs { agnostic "out": "Replies.", push "other" [Optional]: "Packets that are not requests; dropped if unconnected.", }
    reads { IpHeader, }
    writes { DstIp on "out", }
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

answers_pings!(ICMPPingResponder, V4, DstIp);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv4_of};
    use scalebricks_wire::checksum::checksum;

    fn echo(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut message = [&[kind, 0, 0, 0, 0, 9, 0, 1][..], data].concat();
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        message
    }

    fn request(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
        ipv4_of(
            |header| {
                (header.protocol, header.src, header.dst, header.total_len) = (1, src.into(), dst.into(), 31);
            },
            &echo(8, b"abc"),
        )
    }

    #[test]
    fn requests_come_back_as_replies() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("m", "MarkIPHeader", &["2"]).declare("p", "ICMPPingResponder", &[]);
            builder.chain(&["in", "m", "p", "out0"]).connect("p", 1, "out1", 0);
        });
        let mut painted = Meta::default();
        painted.paint = 3;
        let other = [b"xx", &crate::rig::ipv4(9, b"udp")[..]].concat();
        let padded = [b"xx", &request([10, 0, 0, 1], [10, 0, 0, 2])[..], b"padding"].concat();
        rig.send_noted([(padded, painted), (other.clone(), painted)]);
        rig.turn();
        let (reply, meta) = rig.noted(0).remove(0);
        let ip = scalebricks_wire::ipv4::Ipv4::parse(&reply[2..]).unwrap();
        assert_eq!(
            (ip.src(), ip.dst(), ip.payload()),
            ([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), &echo(0, b"abc")[..])
        );
        assert_eq!((meta.l3, meta.l4, meta.length, meta.paint, reply.len()), (2, 22, 31, 0, 33));
        assert_eq!((rig.got(1), rig.number("p", "replies")), (vec![other], 1));
    }

    #[test]
    fn some_requests_get_no_reply() {
        let mut rig = Rig::new(1, |builder| {
            builder
                .declare("m", "MarkIPHeader", &[])
                .declare("p", "ICMPPingResponder", &[])
                .chain(&["in", "m", "p", "out0"]);
        });
        let mut wrong_sum = request([10, 0, 0, 1], [10, 0, 0, 2]);
        wrong_sum[30] ^= 1;
        let mut fragment = request([10, 0, 0, 1], [10, 0, 0, 2]);
        fragment[6] = 0x20;
        rig.send([
            wrong_sum,
            fragment,
            request([10, 0, 0, 1], [255; 4]),
            request([10, 0, 0, 1], [224, 0, 0, 1]),
            request([0; 4], [10, 0, 0, 2]),
            crate::rig::ipv4(9, b""),
        ]);
        rig.turn();
        let reasons = ["bad_icmp_checksum", "no_echo_request", "not_unicast", "replies"];
        assert_eq!(reasons.map(|name| rig.number("p", name)), [1, 2, 3, 0]);
    }
}
