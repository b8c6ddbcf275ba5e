//! `IP6NDSolicitor`.

use crate::columns::DstIp6;
use crate::resolver::{Discovery, Heard, LinkWay};
use crate::values::{Ip6, Mac};
use scalebricks_wire::ethernet::{ETHERTYPE_IPV6, HEADER_LEN, header};
use scalebricks_wire::nd::{self, Message, Solicitation};
use scalebricks_wire::{MacAddr, parse_frame};
use std::net::Ipv6Addr;

crate::resolver_class::resolver! {
    /// Adds Ethernet headers to IPv6 packets, with the MAC addresses of their next hops, which it resolves by neighbour
    /// discovery (RFC 4861 §7.2). Packets wait during resolution. A solicitation is repeated every second, three times in
    /// total; then the packets are dropped. Only advertisements of neighbours that were asked for count, so unsolicited
    /// messages cannot fill the table. Packets to groups are sent as in RFC 2464 §7.
    pub struct IP6NDSolicitor as "IP6NDSolicitor" { NdLink }
    inputs {
        "ip6": "IPv6 packets.",
        "advertisements": "Neighbour advertisements, with their Ethernet headers. They end here.",
    }
    requests "Neighbour solicitations; if unconnected, they leave by output 0.",
    params IP6NDSolicitorParams {
        /// The router's IPv6 address on this network, the source of solicitations.
        ip6: Ip6,
        /// The router's MAC address on this network.
        eth: Mac,
    }
    example { "2001:db8::1", "2:0:0:0:0:1", "CAPACITY 9", "ENTRY_PACKET_CAPACITY 3", "ENTRY_CAPACITY 4", }
    reads DstIp6,
    bad_reply crate::shared_names::drops::NO_ADVERTISEMENT,
    link |params| NdLink { ip: params.ip6.0, mac: params.eth.0 },
}

/// An interface that uses neighbour discovery.
#[derive(Debug)]
pub(crate) struct NdLink {
    ip: Ipv6Addr,
    mac: MacAddr,
}

/// The neighbour discovery message in an untagged Ethernet frame.
pub(crate) fn message(frame: &[u8]) -> Option<Message> {
    let is_ip = parse_frame(frame)
        .is_ok_and(|frame| frame.ethertype == ETHERTYPE_IPV6 && frame.l3_offset == HEADER_LEN);
    nd::parse(frame.get(HEADER_LEN..).filter(|_| is_ip)?).ok()?
}

impl Discovery for NdLink {
    type Address = Ipv6Addr;
    type Column = DstIp6;
    const ETHERTYPE: u16 = ETHERTYPE_IPV6;

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn way(&self, ip: Ipv6Addr) -> LinkWay {
        if ip.is_multicast() {
            LinkWay::Mac(nd::multicast_mac(ip))
        } else if ip.is_unspecified() {
            LinkWay::None
        } else {
            LinkWay::Neighbour
        }
    }

    fn question(&self, ip: Ipv6Addr) -> Vec<u8> {
        let group = nd::solicited_node(ip);
        let header = header(nd::multicast_mac(group), self.mac, ETHERTYPE_IPV6);
        [&header[..], &Solicitation::packet(self.ip, group, ip, self.mac)].concat()
    }

    /// RFC 4861 §7.2.5: an advertisement without the override flag does not replace a known address.
    fn heard(frame: &[u8]) -> Option<Heard<Ipv6Addr>> {
        let Some(Message::Advertisement(said)) = message(frame) else { return None };
        let mac = said.target_mac.filter(|mac| !mac.is_multicast())?;
        Some(Heard { address: said.target, mac, replaces: said.is_override })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, ipv6_of};
    use etherparse::{Icmpv6Type, NetSlice, SlicedPacket, TransportSlice};
    use scalebricks_graph::Builder;
    use scalebricks_io::Packet;
    use scalebricks_wire::nd::Advertisement;
    use std::time::Duration;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn host(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x1234, n)
    }

    fn own() -> Ipv6Addr {
        "2001:db8::1".parse().unwrap()
    }

    fn fill(builder: &mut Builder<Packet>) {
        builder
            .declare("split", "Classifier", &["12/86dd 20/3a 54/88", "-"])
            .declare("get", "GetIP6Address", &["24"])
            .declare("nd", "IP6NDSolicitor", &["2001:db8::1", "2:0:0:0:0:1", "ENTRY_PACKET_CAPACITY 2"])
            .chain(&["in", "split"])
            .connect("split", 0, "nd", 1)
            .connect("split", 1, "get", 0)
            .chain(&["get", "nd", "out0"])
            .connect("nd", 1, "out1", 0);
    }

    fn to(dst: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
        ipv6_of(|header| header.dst = dst, payload)
    }

    fn answer(target: Ipv6Addr, mac: MacAddr) -> Vec<u8> {
        let packet = Advertisement::packet(target, own(), target, true, mac);
        [&header(OWN, mac, ETHERTYPE_IPV6)[..], &packet].concat()
    }

    #[test]
    fn packets_wait_for_the_advertisement_and_then_go_at_once() {
        let mut rig = Rig::new(2, fill);
        rig.send([to(host(9), b"a"), to(host(9), b"b"), to(host(9), b"c")]);
        rig.turn();
        let asked = rig.got(1);
        assert_eq!(asked.len(), 1);
        // Another parser reads the solicitation.
        let packet = SlicedPacket::from_ethernet(&asked[0]).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6") };
        let header = ip.header().to_header();
        assert_eq!((header.source, header.hop_limit), (own().octets(), 255));
        assert_eq!(Ipv6Addr::from(header.destination), "ff02::1:ff34:9".parse::<Ipv6Addr>().unwrap());
        assert_eq!(asked[0][..6], [0x33, 0x33, 0xff, 0x34, 0, 9]);
        let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!("no ICMPv6") };
        assert!(icmp.is_checksum_valid(header.source, header.destination));
        assert_eq!((icmp.type_u8(), &icmp.slice()[8..24]), (135, &host(9).octets()[..]));
        assert!(!matches!(icmp.icmp_type(), Icmpv6Type::EchoRequest(_)));
        assert_eq!(rig.number("nd", "queue_full"), 1, "the oldest");
        rig.send([answer(host(9), HOST)]);
        rig.turn();
        let sent = rig.got(0);
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0][..14], header_of(HOST));
        assert_eq!((&sent[0][14..], &sent[1][14..]), (&to(host(9), b"b")[..], &to(host(9), b"c")[..]));
        rig.send([to(host(9), b"d")]);
        rig.turn();
        assert_eq!((rig.got(0).len(), rig.got(1).len()), (1, 0));
    }

    fn header_of(to: MacAddr) -> [u8; 14] {
        header(to, OWN, ETHERTYPE_IPV6)
    }

    #[test]
    fn silent_hosts_are_asked_three_times_and_strangers_do_not_count() {
        let mut rig = Rig::new(2, fill);
        rig.send([to(host(9), b"a"), answer(host(8), HOST)]);
        rig.turn();
        let mut damaged = answer(host(9), HOST);
        damaged[57] ^= 1;
        rig.send([damaged, answer(host(9), MacAddr([0x33; 6]))]);
        rig.turn();
        let counts = ["unasked", "no_advertisement", "responses"].map(|name| rig.number("nd", name));
        assert_eq!(counts, [1, 2, 1]);
        (0..4).for_each(|_| {
            rig.turn_after(Duration::from_secs(1));
        });
        assert_eq!((rig.got(1).len(), rig.number("nd", "no_answer"), rig.got(0).len()), (3, 1, 0));
        assert_eq!(rig.read("nd", "count"), "0");
    }

    #[test]
    fn groups_have_their_mac_and_hints_do_not_replace() {
        let mut rig = Rig::new(2, fill);
        rig.send([to("ff02::fb".parse().unwrap(), b""), to(Ipv6Addr::UNSPECIFIED, b"")]);
        rig.turn();
        assert_eq!(rig.got(0)[0][..6], [0x33, 0x33, 0, 0, 0, 0xfb]);
        assert_eq!(rig.number("nd", "no_destination"), 1);
        rig.send([to(host(9), b"")]);
        rig.turn();
        rig.send([answer(host(9), HOST)]);
        rig.turn();
        let mut hint = answer(host(9), MacAddr([2, 9, 9, 9, 9, 9]));
        hint[58] &= !0x20; // without the override flag
        let sum = u16::from_be_bytes([hint[56], hint[57]]);
        hint[56..58].copy_from_slice(&scalebricks_wire::checksum::update_u16(sum, 0x2000, 0).to_be_bytes());
        rig.send([hint]);
        rig.turn();
        assert_eq!((rig.number("nd", "unasked"), rig.number("nd", "no_advertisement")), (1, 0));
        assert_eq!(rig.read("nd", "table"), format!("{}\t{HOST}\t0", host(9)));
    }
}
