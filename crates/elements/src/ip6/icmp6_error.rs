//! `ICMP6Error`.

use crate::annotations::exceeded_mtu;
use crate::columns::{DstIp6, Ip6Header};
use crate::header;
use crate::icmp_errors::{Silence, replace, sends_errors};
use crate::shared_names::drops;
use crate::values::{Ip6, Ip6s};
use scalebricks_graph::args::Param;
use scalebricks_graph::{Class, Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::Bucket;
use scalebricks_wire::icmp::v6;
use scalebricks_wire::icmp_error::{MAX_V6_LEN, any_v6};
use scalebricks_wire::ipv6::{HEADER_LEN, Ipv6};
use std::net::Ipv6Addr;

element! {
    /// Turns packets into ICMPv6 errors to their senders (RFC 4443). Connect the output before the route lookup. An error
    /// quotes as much of the packet as 1,280 bytes hold. No error is sent about ICMPv6 errors, redirects, later
    /// fragments, packets from or to more than one host, and packets that arrived as link multicast; only `toobig` answers
    /// packets to groups (RFC 4443 §2.4 (e)). At most `RATE` errors per second are sent (RFC 4443 §2.4 (f)).
    pub struct ICMP6Error as "ICMP6Error" {
        src: Ipv6Addr, kind: u8, code: u8, bad: Vec<Ipv6Addr>, mtu: u32, bucket: Bucket,
        marked: bool, painted: Vec<Ipv6Addr>, dst: Handle<DstIp6>,
    }
    inputs { agnostic "in": "IPv6 packets that cause errors.", }
    outputs { agnostic "out": "IPv6 packets with ICMPv6 errors.", }
    fresh { "out", }
    params ICMP6ErrorParams {
        /// The errors' source.
        src: Ip6,
        /// Their type: a number below 128, or `unreachable`, `toobig`, `timeexceeded`, `parameterproblem`.
        r#type: Kind6,
        /// Their code.
        code: u8 = 0,
        /// Addresses of which a packet causes no error.
        badaddrs: Option<Ip6s> = None,
        /// The MTU of the next link, reported by `toobig` (RFC 8201).
        pmtu: u32 = MAX_V6_LEN as u32,
        /// Most errors per second.
        rate: u32 = 1_000,
        /// Most errors at once, after a pause.
        burst: u32 = 100,
        /// Whether the MTU in a packet's mark, if there is one, replaces PMTU: `RouterInput` notes it.
        marked: bool = false,
        /// Sources by the packets' paint, from 0 on: those of the ports where packets arrived. SRC for other paints.
        painted: Option<Ip6s> = None,
    }
    example { "2001:db8::1", "timeexceeded", }
    reads { Ip6Header, DstIp6, }
    writes { Ip6Header, DstIp6, }
    drops {
        ABOUT_ERROR = drops::ABOUT_ERROR,
        LATER_FRAGMENT = drops::LATER_FRAGMENT,
        NOT_UNICAST = drops::NOT_UNICAST,
        BAD_ADDRESS = drops::BAD_ADDRESS,
        MALFORMED = drops::MALFORMED,
        RATE_LIMITED = drops::RATE_LIMITED,
        NO_ROOM = drops::NO_ROOM,
    }
    counters { ERRORS = "errors": "Errors made.", }
    binds { dst, }
}

/// A type of ICMPv6 errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind6(u8);

impl Param for Kind6 {
    const KIND: &'static str = "a type of ICMPv6 errors";

    fn read(text: &str) -> Option<Self> {
        let named = match text {
            "unreachable" => v6::UNREACHABLE,
            "toobig" => v6::PACKET_TOO_BIG,
            "timeexceeded" => v6::TIME_EXCEEDED,
            "parameterproblem" => v6::PARAMETER_PROBLEM,
            number => u8::read(number)?,
        };
        (named < 128).then_some(Self(named))
    }
}

impl Class for ICMP6Error {
    fn make(params: ICMP6ErrorParams) -> Result<Self, String> {
        let ICMP6ErrorParams { src, r#type, code, badaddrs, pmtu, rate, burst, marked, painted } = params;
        Ok(Self {
            src: src.0,
            kind: r#type.0,
            code,
            bad: badaddrs.unwrap_or_default().0,
            mtu: pmtu,
            bucket: Bucket::new(rate.into(), burst.into()),
            marked,
            painted: painted.unwrap_or_default().0,
            dst: Handle::default(),
        })
    }
}

impl ICMP6Error {
    /// Only `toobig` answers packets to groups (RFC 4443 §2.4 (e)).
    const fn answers_groups(&self) -> bool {
        self.kind == v6::PACKET_TOO_BIG
    }

    /// Replaces a packet by an error. Returns the error's destination.
    fn apply<P: PacketBuf>(&self, packet: &mut P, meta: &mut Meta, _: Ipv6Addr) -> Result<Ipv6Addr, Silence> {
        let mut error = [0; MAX_V6_LEN];
        let original = header::bytes(packet.data(), meta);
        let marked = exceeded_mtu(meta).filter(|_| self.marked).map_or(self.mtu, u32::from);
        let rest = if self.kind == v6::PACKET_TOO_BIG { marked.to_be_bytes() } else { [0; 4] };
        let len = any_v6(original, self.src(meta), (self.kind, self.code), rest, &mut error)?;
        replace(packet, meta, &error[..len], HEADER_LEN)?;
        Ipv6::parse(packet.data()).map(|ip| ip.dst()).map_err(|_| Silence::Malformed)
    }
}

sends_errors!(ICMP6Error, Ipv6Addr, DstIp6);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::PacketType;
    use crate::rig::{Rig, ipv6, ipv6_of};
    use etherparse::{Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};
    use std::time::Duration;

    fn rig(args: &[&str]) -> Rig {
        Rig::new(1, |builder| {
            builder
                .declare("c", "CheckIP6Header", &[])
                .declare("e", "ICMP6Error", args)
                .chain(&["in", "c", "e", "out0"]);
        })
    }

    #[test]
    fn the_mark_replaces_the_mtu() {
        let mut rig = Rig::new(1, |builder| {
            let args = ["2001:db8::c", "toobig", "PMTU 1400", "MARKED true"];
            builder.declare("c", "CheckIP6Header", &[]).declare("e", "ICMP6Error", &args);
            builder.chain(&["in", "c", "e", "out0"]);
        });
        let marked = |mark| {
            let mut meta = Meta::default();
            meta.mark = mark;
            (ipv6(9, b"abc"), meta)
        };
        rig.send_noted([1_300, 0].map(marked));
        rig.turn();
        let mtus =
            rig.got(0).iter().map(|packet| u16::from_be_bytes([packet[46], packet[47]])).collect::<Vec<_>>();
        assert_eq!(mtus, [1_300, 1_400]);
    }

    #[test]
    fn the_paint_chooses_the_source() {
        let sources = ["2001:db8::a", "2001:db8::b"];
        let mut rig = Rig::new(1, |builder| {
            let painted = format!("PAINTED {}", sources.join(" "));
            let args = ["2001:db8::c", "timeexceeded", &painted];
            builder.declare("c", "CheckIP6Header", &[]).declare("e", "ICMP6Error", &args);
            builder.chain(&["in", "c", "e", "out0"]);
        });
        let painted = |paint| {
            let mut meta = Meta::default();
            meta.paint = paint;
            (ipv6(1, b"abc"), meta)
        };
        rig.send_noted([1, 0, 2].map(painted));
        rig.turn();
        let from = |packet: &Vec<u8>| Ipv6::parse(packet).unwrap().src().to_string();
        let expected = [sources[1], sources[0], "2001:db8::c"];
        assert_eq!(rig.got(0).iter().map(from).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_error_quotes_the_packet_to_its_sender() {
        let packet = ipv6(1, &[7; 1_600]);
        for (args, kind) in [
            (&["2001:db8::fe", "timeexceeded"][..], 3),
            (&["2001:db8::fe", "toobig", "PMTU 1400"], 2),
            (&["2001:db8::fe", "unreachable", "3"], 1),
        ] {
            let mut rig = rig(args);
            rig.send([packet.clone()]);
            rig.turn();
            let error = rig.got(0).remove(0);
            assert_eq!(error.len(), 1_280);
            let sliced = SlicedPacket::from_ip(&error).unwrap();
            let Some(NetSlice::Ipv6(ip)) = &sliced.net else { panic!("no IPv6") };
            let ip = ip.header().to_header();
            let src: Ipv6Addr = "2001:db8::fe".parse().unwrap();
            assert_eq!((ip.source, ip.destination[..].to_vec()), (src.octets(), packet[8..24].to_vec()));
            let Some(TransportSlice::Icmpv6(icmp)) = &sliced.transport else { panic!("no ICMPv6") };
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            assert_eq!((icmp.type_u8(), &icmp.slice()[8..]), (kind, &packet[..1_232]));
            if let Icmpv6Type::PacketTooBig { mtu } = icmp.icmp_type() {
                assert_eq!(mtu, 1_400);
            }
        }
    }

    #[test]
    fn there_are_packets_that_no_error_is_about() {
        let icmp = |kind: u8| ipv6_of(|header| header.next_header = 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        let from_to = |src: &str, dst: &str| {
            ipv6_of(|header| (header.src, header.dst) = (src.parse().unwrap(), dst.parse().unwrap()), b"abc")
        };
        let fragment = ipv6_of(|header| header.next_header = 44, &[17, 0, 0, 8, 0, 0, 0, 1, 9]);
        let mut shared = Meta::default();
        PacketType::Multicast.note(&mut shared);
        let silent = [
            icmp(1),
            icmp(3),
            icmp(137),
            ipv6_of(|header| header.next_header = 58, b""),
            fragment,
            from_to("::", "2001:db8::1"),
            from_to("::1", "2001:db8::1"),
            from_to("2001:db8::1", "ff0e::1"),
            from_to("2001:db8::bad", "2001:db8::1"),
        ];
        let mut rig = rig(&["2001:db8::fe", "timeexceeded", "BADADDRS 2001:db8::bad"]);
        rig.send(silent);
        rig.send_noted([(ipv6(9, b""), shared)]);
        rig.send([icmp(128)]);
        rig.turn();
        let reasons =
            ["about_icmp_error", "later_fragment", "not_unicast", "bad_address", "malformed", "errors"];
        assert_eq!(reasons.map(|name| rig.number("e", name)), [3, 1, 5, 1, 0, 1]);
        let mut big = self::rig(&["2001:db8::fe", "toobig"]);
        big.send([from_to("2001:db8::1", "ff0e::1")]);
        big.turn();
        assert_eq!(big.got(0).len(), 1, "about packets to groups too");
    }

    #[test]
    fn errors_are_rare() {
        let mut rig = rig(&["2001:db8::fe", "unreachable", "RATE 10", "BURST 3"]);
        rig.send((0..20).map(|n| ipv6(n, b"abc")));
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("e", "rate_limited")), (3, 17));
        rig.send((0..20).map(|n| ipv6(n, b"abc")));
        rig.turn_after(Duration::from_millis(200));
        assert_eq!(rig.got(0).len(), 2);
        assert_eq!(
            (Kind6::read("toobig"), Kind6::read("128"), Kind6::read("x")),
            (Some(Kind6(2)), None, None)
        );
    }
}
