//! `IP6NDAdvertiser`.

use super::ip6_nd_solicitor::message;
use crate::shared_names::counters;
use crate::side_output::SideOutput;
use crate::values::Mac;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::{Control, HandlerId, Meta, PacketContext, PerPacket, Verdict, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::lpm::Prefix;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV6, header};
use scalebricks_wire::nd::{ALL_NODES, Advertisement, Message, Solicitation, multicast_mac};
use scalebricks_wire::{MacAddr, parse_frame};
use std::net::Ipv6Addr;

element! {
    /// Turns neighbour solicitations for configured addresses into advertisements (RFC 4861 §7.2.4). Solicitations for
    /// other addresses, and packets that are not solicitations, go to output 1.
    pub struct IP6NDAdvertiser as "IP6NDAdvertiser" { entries: Vec<Entry6>, side: SideOutput, }
    inputs { agnostic "in": "Neighbour solicitations, with their Ethernet headers.", }
    outputs {
        agnostic "out": "Advertisements.",
        push "other" [Optional]: "Packets without an advertisement; dropped if unconnected.",
    }
    params IP6NDAdvertiserParams {
        /// Addresses and networks, each with the MAC address to announce. The first that matches counts.
        entries: Vec<Entry6> = Vec::new(),
    }
    example { "2001:db8::/32 fe80::1 2:0:0:0:0:1", }
    drops {
        NOT_KNOWN = "unknown_address": "The requested address is not configured.",
        NO_REQUEST = "no_solicitation": "The packet is not a neighbour solicitation over Ethernet from a single host.",
        NO_ROOM = crate::shared_names::drops::NO_ROOM,
    }
    counters { REPLIES = counters::REPLIES, }
    handlers { read TABLE = "table": "Networks and their MAC addresses, one per line.", }
    binds { side, }
    makes |params| Self { entries: params.entries, side: SideOutput::default() },
}

/// Networks, and the MAC address of all hosts in them.
#[derive(Debug, Clone)]
pub struct Entry6 {
    prefixes: Vec<Prefix<Ipv6Addr>>,
    mac: MacAddr,
}

impl Param for Entry6 {
    const KIND: &'static str = "networks or addresses of IPv6, then a station's address";

    fn read(text: &str) -> Option<Self> {
        let (prefixes, mac) = text.trim().rsplit_once(char::is_whitespace)?;
        let prefixes = prefixes.split_whitespace().map(crate::routes::Family::network);
        Some(Self { prefixes: prefixes.collect::<Option<_>>()?, mac: Mac::read(mac)?.0 })
    }
}

impl ListItem for Entry6 {
    const KINDS: &'static str = "networks or addresses of IPv6, then a station's address, …";
}

/// The solicitation in an untagged Ethernet frame from a single host, and whom to answer.
fn request(frame: &[u8]) -> Option<(Solicitation, MacAddr)> {
    let Some(Message::Solicitation(asked)) = message(frame) else { return None };
    let asker = asked.source_mac.or_else(|| Some(parse_frame(frame).ok()?.src))?;
    (!asker.is_multicast()).then_some((asked, asker))
}

impl Control for IP6NDAdvertiser {
    fn read(&self, _: HandlerId) -> String {
        let line = |entry: &Entry6| {
            let networks = entry.prefixes.iter().map(|prefix| format!("{prefix} {}", entry.mac));
            networks.collect::<Vec<_>>().join("\n")
        };
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl<P: PacketBuf> PerPacket<P> for IP6NDAdvertiser {
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict {
        let Some((asked, asker)) = request(packet.data()) else { return self.side.verdict(Self::NO_REQUEST) };
        let is_known = |entry: &&Entry6| entry.prefixes.iter().any(|prefix| prefix.contains(asked.target));
        let Some(&Entry6 { mac, .. }) = self.entries.iter().find(is_known) else {
            return self.side.verdict(Self::NOT_KNOWN);
        };
        // A sender without an address is answered by multicast to all nodes.
        let (to, dst, is_solicited) = if asked.src.is_unspecified() {
            (multicast_mac(ALL_NODES), ALL_NODES, false)
        } else {
            (asker, asked.src, true)
        };
        let answer = Advertisement::packet(asked.target, dst, asked.target, is_solicited, mac);
        packet.truncate(0);
        let written = packet.append(&header(to, mac, ETHERTYPE_IPV6)).and_then(|()| packet.append(&answer));
        if written.is_err() {
            return Verdict::Drop(Self::NO_ROOM);
        }
        meta.flags = 0;
        tally.count(Self::REPLIES, 1);
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use scalebricks_wire::nd::solicited_node;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    fn asks(src: &str, target: &str) -> Vec<u8> {
        let (src, target) = (src.parse().unwrap(), target.parse().unwrap());
        let group = solicited_node(target);
        let packet = Solicitation::packet(src, group, target, ASKER);
        [&header(multicast_mac(group), ASKER, ETHERTYPE_IPV6)[..], &packet].concat()
    }

    /// A solicitation from nowhere, which has no option (RFC 4861 §7.1.1).
    fn probes(target: &str) -> Vec<u8> {
        use scalebricks_wire::checksum::pseudo_header_v6;
        let mut frame = asks("::", target);
        frame.truncate(frame.len() - 8);
        frame[18..20].copy_from_slice(&24u16.to_be_bytes());
        frame[56..58].fill(0);
        let (src, dst) = (Ipv6Addr::UNSPECIFIED, solicited_node(target.parse().unwrap()));
        let sum = pseudo_header_v6(src, dst, 58, 24).bytes(&frame[54..]).finish();
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn solicitations_are_answered_to_the_asker_or_to_all() {
        let mut rig = Rig::new(2, |builder| {
            builder.declare("a", "IP6NDAdvertiser", &["2001:db8::1 fe80::/64 2:0:0:0:0:1"]);
            builder.chain(&["in", "a", "out0"]).connect("a", 1, "out1", 0);
        });
        let mut damaged = asks("2001:db8::7", "2001:db8::1");
        damaged[57] ^= 1;
        rig.send([
            asks("2001:db8::7", "2001:db8::1"),
            probes("fe80::1"),
            asks("2001:db8::7", "2001:db8::2"),
            damaged,
            b"short".to_vec(),
        ]);
        rig.turn();
        let answers = rig.got(0);
        assert_eq!((answers.len(), rig.got(1).len(), rig.number("a", "replies")), (2, 3, 2));
        let expected = [
            ("2001:db8::1", "2001:db8::7", ASKER, 0xe0),
            ("fe80::1", "ff02::1", multicast_mac(ALL_NODES), 0xa0),
        ];
        for (frame, (own, dst, mac, flags)) in answers.iter().zip(expected) {
            assert_eq!(frame[..14], header(mac, OWN, ETHERTYPE_IPV6));
            let packet = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6") };
            let ip = ip.header().to_header();
            let [own, dst]: [Ipv6Addr; 2] = [own, dst].map(|text| text.parse().unwrap());
            assert_eq!((ip.source, ip.destination, ip.hop_limit), (own.octets(), dst.octets(), 255));
            let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!("no ICMPv6") };
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            assert_eq!(
                (icmp.type_u8(), icmp.slice()[4], &icmp.slice()[8..24]),
                (136, flags, &own.octets()[..])
            );
            assert_eq!(icmp.slice()[24..], [&[2, 1][..], &OWN.0].concat());
        }
    }
}
