//! `ICMPError`.

use crate::annotations;
use crate::columns::{DstIp, IpHeader};
use crate::filter::icmp_type;
use crate::header;
use crate::icmp_errors::{Silence, replace, sends_errors};
use crate::shared_names::drops;
use crate::values::{Ip, Ips};
use scalebricks_graph::args::Param;
use scalebricks_graph::{Class, Control, Handle, Meta, Out, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::Bucket;
use scalebricks_wire::icmp::{HEADER_LEN, is_error_v4, v4};
use scalebricks_wire::icmp_error::{MAX_V4_LEN, any_v4};
use scalebricks_wire::ipv4::{Ipv4, MIN_HEADER_LEN};
use std::net::Ipv4Addr;

element! {
    /// Turns packets into ICMP errors to their senders (RFC 792). Connect the output before the route lookup. An error
    /// quotes the packet up to `MTU` bytes. No error is sent about ICMP errors, later fragments, packets to or from
    /// more than one host and packets that arrived as link broadcast or multicast (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7).
    /// At most `RATE` errors per second are sent (RFC 1812 §4.3.2.8); Click has no such limit. A parameter problem
    /// points at the octet that `IPGWOptions` recorded; a redirect names the packet's next hop. Errors follow no source
    /// route and may be fragmented.
    pub struct ICMPError as "ICMPError" {
        src: Ipv4Addr, kind: u8, code: u8, bad: Vec<Ipv4Addr>, limit: usize, pmtu: u16, fixes: bool, id: u16, bucket: Bucket,
        marked: bool, painted: Vec<Ipv4Addr>, dst: Handle<DstIp>,
    }
    inputs { agnostic "in": "IPv4 packets that cause errors.", }
    outputs { agnostic "out": "IPv4 packets with ICMP errors.", }
    fresh { "out", }
    params ICMPErrorParams {
        /// The errors' source.
        src: Ip,
        /// Their type: a number or `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`.
        r#type: Kind,
        /// Their code: a number, or depending on the type `net`, `host`, `protocol`, `port`, `needfrag`; `net`, `host`;
        /// `transit`, `reassembly`; `erroratptr`, `missingopt`, `length`.
        code: Option<String> = None,
        /// Addresses, such as directed broadcasts. No error is sent about packets from or to them.
        badaddrs: Option<Ips> = None,
        /// Most bytes of an error, 56 to 576.
        mtu: usize = MAX_V4_LEN,
        /// The MTU of the next link, reported about packets that must not be fragmented (RFC 1191).
        pmtu: u16 = 0,
        /// Whether `FixIPSrc` sets the source to the address of the outgoing interface.
        set_fix_anno: bool = true,
        /// Most errors per second.
        rate: u32 = 1_000,
        /// Most errors at once, after a pause.
        burst: u32 = 100,
        /// Whether the MTU in a packet's mark, if there is one, replaces PMTU: `RouterInput` notes it.
        marked: bool = false,
        /// Sources by the packets' paint, from 0 on: those of the ports where packets arrived. SRC for other paints.
        painted: Option<Ips> = None,
    }
    example { "10.0.0.1", "parameterproblem", }
    reads { IpHeader, DstIp, }
    writes { IpHeader, DstIp, }
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

/// A type of ICMP errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(u8);

type Named = (&'static str, u8);

/// The codes of each type.
const CODES: [(u8, &[Named]); 4] = [
    (v4::UNREACHABLE, &[("net", 0), ("host", 1), ("protocol", 2), ("port", 3), ("needfrag", 4)]),
    (v4::REDIRECT, &[("net", 0), ("host", 1)]),
    (v4::TIME_EXCEEDED, &[("transit", 0), ("reassembly", 1)]),
    (v4::PARAMETER_PROBLEM, &[("erroratptr", 0), ("missingopt", 1), ("length", 2)]),
];

impl Param for Kind {
    const KIND: &'static str = "a type of ICMP errors";

    fn read(text: &str) -> Option<Self> {
        icmp_type(text).or_else(|| u8::read(text)).filter(|kind| is_error_v4(*kind)).map(Self)
    }
}

impl Kind {
    fn code(self, text: &str) -> Option<u8> {
        let codes = CODES.iter().find(|(kind, _)| *kind == self.0).map_or(&[][..], |(_, codes)| codes);
        codes.iter().find(|(name, _)| *name == text).map(|(_, code)| *code).or_else(|| u8::read(text))
    }
}

impl Class for ICMPError {
    fn make(params: ICMPErrorParams) -> Result<Self, String> {
        const LEAST: usize = 2 * (MIN_HEADER_LEN + HEADER_LEN);
        let ICMPErrorParams {
            src,
            r#type,
            code,
            badaddrs,
            mtu,
            pmtu,
            set_fix_anno,
            rate,
            burst,
            marked,
            painted,
        } = params;
        if !(LEAST..=MAX_V4_LEN).contains(&mtu) {
            return Err(format!("an error has {LEAST} to {MAX_V4_LEN} bytes, not {mtu}"));
        }
        let code = match code {
            Some(text) => {
                r#type.code(&text).ok_or_else(|| format!("errors of this type have no code {text:?}"))?
            }
            None => 0,
        };
        Ok(Self {
            src: src.0,
            kind: r#type.0,
            code,
            bad: badaddrs.unwrap_or_default().0,
            limit: mtu,
            pmtu,
            fixes: set_fix_anno,
            id: 0,
            bucket: Bucket::new(rate.into(), burst.into()),
            marked,
            painted: painted.unwrap_or_default().0,
            dst: Handle::default(),
        })
    }
}

impl ICMPError {
    /// Errors about packets to groups are not allowed (RFC 1122 §3.2.2).
    #[expect(clippy::unused_self, reason = "errors of the other version decide by their type")]
    const fn answers_groups(&self) -> bool {
        false
    }

    /// The second word of the ICMP header.
    fn rest(&self, meta: &Meta, next: Ipv4Addr) -> [u8; 4] {
        match self.kind {
            v4::UNREACHABLE if self.code == v4::CODE_FRAGMENTATION_NEEDED => {
                let marked = annotations::exceeded_mtu(meta).filter(|_| self.marked);
                let [high, low] = marked.unwrap_or(self.pmtu).to_be_bytes();
                [0, 0, high, low]
            }
            v4::REDIRECT => next.octets(),
            v4::PARAMETER_PROBLEM if self.code == 0 => [annotations::problem(meta), 0, 0, 0],
            _ => [0; 4],
        }
    }

    /// Replaces a packet by an error. Returns the error's destination.
    fn apply<P: PacketBuf>(
        &mut self,
        packet: &mut P,
        meta: &mut Meta,
        next: Ipv4Addr,
    ) -> Result<Ipv4Addr, Silence> {
        let mut error = [0; MAX_V4_LEN];
        let (original, rest) = (header::bytes(packet.data(), meta), self.rest(meta, next));
        let len = any_v4(original, self.src(meta), (self.kind, self.code), rest, self.limit, &mut error)?;
        replace(packet, meta, &error[..len], MIN_HEADER_LEN)?;
        // Errors need identifications: links with an MTU below 576 bytes fragment them.
        self.id = self.id.wrapping_add(1);
        if let Some(header) = header::fixed_mut(packet.data_mut(), meta) {
            header::set_word(header, 4, |_| self.id);
            header::set_word(header, 6, |_| 0);
        }
        annotations::fix_source(meta, self.fixes);
        Ipv4::parse(packet.data()).map(|ip| ip.dst()).map_err(|_| Silence::Malformed)
    }
}

sends_errors!(ICMPError, Ipv4Addr, DstIp);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::PacketType;
    use crate::rig::{Rig, ipv4, ipv4_of};
    use std::time::Duration;

    fn rig(args: &[&str]) -> Rig {
        Rig::new(1, |builder| {
            builder
                .declare("c", "CheckIPHeader", &[])
                .declare("e", "ICMPError", args)
                .chain(&["in", "c", "e", "out0"]);
        })
    }

    fn errors(args: &[&str], packets: Vec<(Vec<u8>, Meta)>) -> Vec<(Vec<u8>, Meta)> {
        let mut rig = rig(args);
        rig.send_noted(packets);
        rig.turn();
        rig.noted(0)
    }

    #[test]
    fn the_mark_replaces_the_mtu() {
        let mut rig = Rig::new(1, |builder| {
            let args = ["192.0.2.9", "unreachable", "needfrag", "PMTU 1400", "MARKED true"];
            builder.declare("c", "CheckIPHeader", &[]).declare("e", "ICMPError", &args);
            builder.chain(&["in", "c", "e", "out0"]);
        });
        let marked = |mark| {
            let mut meta = Meta::default();
            meta.mark = mark;
            (ipv4(9, b"abc"), meta)
        };
        rig.send_noted([1_300, 0].map(marked));
        rig.turn();
        let mtus =
            rig.got(0).iter().map(|packet| u16::from_be_bytes([packet[26], packet[27]])).collect::<Vec<_>>();
        assert_eq!(mtus, [1_300, 1_400]);
    }

    #[test]
    fn the_paint_chooses_the_source() {
        let sources = ["192.0.2.1", "192.0.2.2"];
        let mut rig = Rig::new(1, |builder| {
            let painted = format!("PAINTED {}", sources.join(" "));
            let args = ["192.0.2.9", "timeexceeded", &painted];
            builder.declare("c", "CheckIPHeader", &[]).declare("e", "ICMPError", &args);
            builder.chain(&["in", "c", "e", "out0"]);
        });
        let painted = |paint| {
            let mut meta = Meta::default();
            meta.paint = paint;
            (ipv4(1, b"abc"), meta)
        };
        rig.send_noted([1, 0, 2].map(painted));
        rig.turn();
        let from = |packet: &Vec<u8>| Ipv4::parse(packet).unwrap().src().to_string();
        let expected = [sources[1], sources[0], "192.0.2.9"];
        assert_eq!(rig.got(0).iter().map(from).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_error_quotes_the_packet_to_its_sender() {
        let packet = ipv4(1, &[7; 900]);
        let (error, meta) =
            errors(&["18.26.4.24", "timeexceeded"], vec![(packet.clone(), Meta::default())]).remove(0);
        let ip = Ipv4::parse(&error).unwrap();
        assert_eq!((ip.dont_fragment(), ip.identification()), (false, 1));
        assert_eq!(
            (error.len(), ip.src(), ip.dst(), ip.protocol()),
            (576, [18, 26, 4, 24].into(), [10, 0, 0, 1].into(), 1)
        );
        assert_eq!((&error[20..22], scalebricks_wire::checksum::checksum(&error[20..])), (&[11, 0][..], 0));
        assert!(scalebricks_wire::ipv4_header_checksum_ok(&error));
        assert_eq!(error[28..], packet[..548]);
        assert_eq!((meta.l3, meta.l4, meta.length, annotations::is_source_to_fix(&meta)), (0, 20, 576, true));
        let (short, _) =
            errors(&["1.2.3.4", "3", "host", "MTU 56"], vec![(packet, Meta::default())]).remove(0);
        assert_eq!((short.len(), &short[20..22]), (56, &[3, 1][..]));
    }

    #[test]
    fn the_second_word_is_the_types_own() {
        let word = |args: &[&str]| {
            let mut meta = Meta::default();
            annotations::note_problem(&mut meta, 22);
            errors(args, vec![(ipv4(9, b"abc"), meta)])[0].0[24..28].to_vec()
        };
        assert_eq!(word(&["1.2.3.4", "unreachable", "needfrag", "PMTU 1400"]), [0, 0, 5, 120]);
        assert_eq!(word(&["1.2.3.4", "redirect", "host"]), [10, 0, 9, 9]);
        assert_eq!(word(&["1.2.3.4", "parameterproblem", "erroratptr"]), [22, 0, 0, 0]);
        assert_eq!(word(&["1.2.3.4", "parameterproblem", "missingopt"]), [0; 4]);
        assert_eq!(word(&["1.2.3.4", "TYPE 4", "SET_FIX_ANNO false"]), [0; 4]);
    }

    #[test]
    fn there_are_packets_that_no_error_is_about() {
        let icmp = |kind: u8| ipv4_of(|header| header.protocol = 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        let from_to = |src: [u8; 4], dst: [u8; 4]| {
            ipv4_of(|header| (header.src, header.dst) = (src.into(), dst.into()), b"abc")
        };
        let good = [10, 0, 0, 1];
        let mut broadcast = Meta::default();
        PacketType::Broadcast.note(&mut broadcast);
        let mut rig = rig(&["1.2.3.4", "unreachable", "net", "10.0.0.255 10.9.9.9"]);
        let silent = [
            icmp(3),
            icmp(5),
            icmp(11),
            ipv4_of(|header| header.protocol = 1, b"abc"),
            ipv4_of(|header| header.fragment_units = 1, b"abc"),
            from_to([0; 4], good),
            from_to([127, 0, 0, 1], good),
            from_to([224, 0, 0, 1], good),
            from_to(good, [224, 0, 0, 1]),
            from_to(good, [255; 4]),
            from_to([10, 9, 9, 9], good),
            from_to(good, [10, 0, 0, 255]),
        ];
        rig.send_noted(
            silent
                .into_iter()
                .map(|packet| (packet, Meta::default()))
                .chain([(from_to(good, [10, 0, 0, 2]), broadcast)]),
        );
        rig.send([icmp(8), ipv4_of(|header| header.more_fragments = true, b"abc")]);
        rig.turn();
        let reasons =
            ["about_icmp_error", "later_fragment", "not_unicast", "bad_address", "malformed", "errors"];
        assert_eq!(reasons.map(|name| rig.number("e", name)), [4, 1, 6, 2, 0, 2]);
        assert_eq!(rig.got(0).len(), 2);
    }

    #[test]
    fn errors_are_rare_and_do_not_go_in_circles() {
        let mut rig = rig(&["1.2.3.4", "unreachable", "RATE 10", "BURST 3"]);
        rig.send((0..20).map(|n| ipv4(n, b"abc")));
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.number("e", "rate_limited")), (3, 17));
        rig.send((0..20).map(|n| ipv4(n, b"abc")));
        rig.turn_after(Duration::from_millis(200));
        assert_eq!(rig.got(0).len(), 2);
        // An error about an error would be made in each round.
        let mut rig = Rig::new(1, |builder| {
            builder.declare("c", "CheckIPHeader", &[]).declare("e", "ICMPError", &["1.2.3.4", "unreachable"]);
            builder.chain(&["in", "c", "e", "c"]).declare("idle", "Idle", &[]).chain(&["idle", "out0"]);
        });
        rig.send([ipv4(9, b"abc")]);
        rig.turn();
        assert_eq!((rig.number("e", "errors"), rig.number("e", "about_icmp_error")), (1, 1));
    }

    #[test]
    fn types_and_codes_have_names() {
        assert_eq!(
            (Kind::read("redirect"), Kind::read("12"), Kind::read("8"), Kind::read("x")),
            (Some(Kind(5)), Some(Kind(12)), None, None)
        );
        for wrong in [
            &["1.2.3.4"][..],
            &["1.2.3.4", "echo"],
            &["1.2.3.4", "redirect", "port"],
            &["1.2.3.4", "3", "256"],
            &["1.2.3.4", "3", "0", "MTU 55"],
            &["1.2.3.4", "3", "MTU 577"],
        ] {
            let built = Rig::with_buffers(5, 1, |builder| {
                builder
                    .declare("c", "CheckIPHeader", &[])
                    .declare("e", "ICMPError", wrong)
                    .chain(&["in", "c", "e", "out0"]);
            });
            assert!(built.is_err(), "{wrong:?}");
        }
    }
}
