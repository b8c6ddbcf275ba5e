//! Both directions against `etherparse`, an independent implementation: what it writes we read, what we write it
//! reads, and of mutated packets both say the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IpAuthHeader, IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header as TheirV4, Ipv4HeaderSlice,
    Ipv4Options, Ipv6Extensions, Ipv6FlowLabel, Ipv6FragmentHeader, Ipv6Header as TheirV6, Ipv6RawExtHeader,
    Ipv6RoutingExtensions, Ipv6Slice, LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
    VlanId,
};
use proptest::prelude::*;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{self, MacAddr};
use scalebricks_wire::ipv4::{Ipv4, Ipv4Header};
use scalebricks_wire::ipv6::{Ipv6, Ipv6Header};
use scalebricks_wire::transport::{Tcp, TcpFlags, Udp, udp_header};
use scalebricks_wire::{ParseError, checksum, ipv4_header_checksum_ok, parse_frame, parse_ip};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn their_v4() -> impl Strategy<Value = TheirV4> {
    let options = prop::collection::vec(any::<[u8; 4]>(), 0..=10).prop_map(|o| o.concat());
    (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u8>(), any::<u16>(), any::<bool>(), any::<u8>(), options)
        .prop_map(|(src, dst, tos, id, df, ttl, options)| {
            let mut header = TheirV4::new(0, ttl, IpNumber::UDP, src, dst).unwrap();
            header.dscp = (tos >> 2).try_into().unwrap();
            header.ecn = (tos & 3).try_into().unwrap();
            header.identification = id;
            header.dont_fragment = df;
            header.options = Ipv4Options::try_from(&options[..]).unwrap();
            header
        })
}

fn raw_extension() -> impl Strategy<Value = Option<Ipv6RawExtHeader>> {
    let content = (0usize..4).prop_flat_map(|n| prop::collection::vec(any::<u8>(), 6 + 8 * n));
    prop::option::of(content.prop_map(|c| Ipv6RawExtHeader::new_raw(IpNumber::UDP, &c).unwrap()))
}

/// Every order etherparse can write: hop by hop, destination, routing, fragment, authentication, destination.
fn their_extensions() -> impl Strategy<Value = Ipv6Extensions> {
    let fragment =
        prop::option::of((any::<u32>(), 0u16..100, any::<bool>()).prop_map(|(id, units, more)| {
            Ipv6FragmentHeader::new(IpNumber::UDP, IpFragOffset::try_new(units).unwrap(), more, id)
        }));
    let auth = prop::option::of(
        prop::collection::vec(any::<[u8; 4]>(), 0..4)
            .prop_map(|icv| IpAuthHeader::new(IpNumber::UDP, 1, 2, &icv.concat()).unwrap()),
    );
    let raw = (raw_extension(), raw_extension(), raw_extension(), raw_extension());
    (raw, fragment, auth).prop_map(|((hop, destination, routing, last), fragment, auth)| Ipv6Extensions {
        hop_by_hop_options: hop,
        destination_options: destination,
        routing: routing.map(|routing| Ipv6RoutingExtensions { routing, final_destination_options: last }),
        fragment,
        auth,
    })
}

fn their_v6() -> impl Strategy<Value = IpHeaders> {
    let fixed = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u8>(), 0u32..1 << 20, any::<u8>());
    (fixed, their_extensions()).prop_map(
        |((source, destination, traffic_class, label, hop_limit), extensions)| {
            let header = TheirV6 {
                traffic_class,
                flow_label: Ipv6FlowLabel::try_new(label).unwrap(),
                payload_length: 0,
                next_header: IpNumber::UDP,
                hop_limit,
                source,
                destination,
            };
            IpHeaders::Ipv6(header, extensions)
        },
    )
}

fn their_ip() -> impl Strategy<Value = IpHeaders> {
    prop_oneof![their_v4().prop_map(|h| IpHeaders::Ipv4(h, Ipv4Extensions::default())), their_v6()]
}

#[derive(Debug, Clone, Copy)]
enum Upper {
    Udp(u16, u16),
    Tcp(u16, u16, u32),
    Icmp(u16, u16),
}

fn upper() -> impl Strategy<Value = Upper> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(s, d)| Upper::Udp(s, d)),
        any::<(u16, u16, u32)>().prop_map(|(s, d, seq)| Upper::Tcp(s, d, seq)),
        any::<(u16, u16)>().prop_map(|(id, seq)| Upper::Icmp(id, seq)),
    ]
}

fn built(ip: &IpHeaders, upper: Upper, vlans: &[u16], payload: &[u8]) -> Vec<u8> {
    let step = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let vid = |n: u16| VlanId::try_new(n).unwrap();
    let step = match *vlans {
        [] => step.ip(ip.clone()),
        [a] => step.single_vlan(vid(a)).ip(ip.clone()),
        [a, b, ..] => step.double_vlan(vid(a), vid(b)).ip(ip.clone()),
    };
    let mut out = Vec::new();
    match (upper, ip) {
        (Upper::Udp(s, d), _) => {
            step.udp(s, d).write(&mut out, payload).unwrap();
        }
        (Upper::Tcp(s, d, seq), _) => {
            step.tcp(s, d, seq, 1000).syn().write(&mut out, payload).unwrap();
        }
        (Upper::Icmp(i, s), IpHeaders::Ipv4(..)) => {
            step.icmpv4_echo_request(i, s).write(&mut out, payload).unwrap();
        }
        (Upper::Icmp(i, s), IpHeaders::Ipv6(..)) => {
            step.icmpv6_echo_request(i, s).write(&mut out, payload).unwrap();
        }
    }
    out
}

/// Compares our reading of an IP packet with theirs, for packets both accept.
fn same_headers(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = parse_ip(bytes);
    if let (Ok(ip), Ok(theirs)) = (Ipv4::parse(bytes), Ipv4HeaderSlice::from_slice(bytes)) {
        prop_assert_eq!(ip.src(), theirs.source_addr());
        prop_assert_eq!(ip.dst(), theirs.destination_addr());
        prop_assert_eq!(ip.header_len(), theirs.slice().len());
        prop_assert_eq!(ip.total_len(), usize::from(theirs.total_len()));
        prop_assert_eq!(ip.dscp_ecn(), theirs.dcp().value() << 2 | theirs.ecn().value());
        prop_assert_eq!(ip.identification(), theirs.identification());
        prop_assert_eq!(ip.dont_fragment(), theirs.dont_fragment());
        prop_assert_eq!(ip.more_fragments(), theirs.more_fragments());
        prop_assert_eq!(ip.fragment_offset(), usize::from(theirs.fragments_offset().byte_offset()));
        prop_assert_eq!(ip.ttl(), theirs.ttl());
        prop_assert_eq!(ip.protocol(), theirs.protocol().0);
        prop_assert_eq!(ip.options(), theirs.options());
        // Their sum over the octets as they are: a header they write anew would have lost the reserved flag.
        let sum = Sum16BitWords::new().add_slice(theirs.slice()).ones_complement();
        prop_assert_eq!(ipv4_header_checksum_ok(bytes), sum == 0);
        prop_assert!(ours.is_ok());
    }
    match (Ipv6::parse(bytes), Ipv6Slice::from_slice(bytes)) {
        (Ok(ip), Ok(theirs)) => {
            let header = theirs.header();
            prop_assert_eq!(ip.src(), header.source_addr());
            prop_assert_eq!(ip.dst(), header.destination_addr());
            prop_assert_eq!(ip.traffic_class(), header.traffic_class());
            prop_assert_eq!(ip.flow_label(), header.flow_label().value());
            prop_assert_eq!(ip.hop_limit(), header.hop_limit());
            prop_assert_eq!(ip.next_header(), header.next_header().0);
            // They take a payload length of 0 for "all there is" and walk on behind the header of later fragments.
            let later = ip.fragment().is_some_and(|f| f.offset > 0);
            if ip.payload_len() > 0 && !later {
                prop_assert_eq!(ip.protocol(), theirs.payload().ip_number.0);
                prop_assert_eq!(ip.payload(), theirs.payload().payload);
            }
            prop_assert!(ours.is_ok());
        }
        (Err(error), Ok(theirs)) if theirs.header().payload_length() > 0 => {
            use ParseError::{BadExtension, BadFragment, BadHeaderLength, TooManyExtensions};
            // Where we are stricter: RFC 8200 §4.5 on fragments, one fragment header, bounds, AH below 12 octets.
            let stricter = [BadExtension, BadFragment, BadHeaderLength, TooManyExtensions];
            prop_assert!(stricter.contains(&error), "we refuse with {error:?} what they accept");
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_they_write_we_read(
        ip in their_ip(), upper in upper(), vlans in prop::collection::vec(0u16..4096, 0..3),
        payload in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..20,
    ) {
        let mut bytes = built(&ip, upper, &vlans, &payload);
        let len = bytes.len();
        bytes.resize(len + padding, 0xee);
        let frame = parse_frame(&bytes).unwrap();
        prop_assert_eq!(frame.dst, MacAddr([2, 0, 0, 0, 0, 2]));
        prop_assert_eq!(frame.src, MacAddr([2, 0, 0, 0, 0, 1]));
        prop_assert_eq!(frame.vlan, vlans.first().copied());
        prop_assert_eq!(frame.inner_vlan, vlans.get(1).copied());
        prop_assert_eq!(frame.l3_offset, 14 + 4 * vlans.len());
        prop_assert!(frame.is_ip());
        let packet = match parse_ip(&bytes[frame.l3_offset..]) {
            Err(ParseError::BadFragment) => {
                let IpHeaders::Ipv6(_, Ipv6Extensions { fragment: Some(f), .. }) = ip else { panic!("not v6") };
                prop_assert!(f.more_fragments, "only uneven middle fragments are refused");
                return Ok(());
            }
            packet => packet.unwrap(),
        };
        let summary = packet.summary;
        prop_assert_eq!(packet.bytes(), &bytes[frame.l3_offset..len]);
        prop_assert_eq!(packet.l4(), &packet.bytes()[usize::from(summary.l4_offset)..]);
        match &ip {
            IpHeaders::Ipv4(h, _) => {
                prop_assert_eq!((summary.src, summary.dst), (IpAddr::from(h.source), IpAddr::from(h.destination)));
                prop_assert_eq!((summary.ttl, summary.dont_fragment), (h.time_to_live, h.dont_fragment));
                prop_assert!(ipv4_header_checksum_ok(packet.bytes()));
            }
            IpHeaders::Ipv6(h, e) => {
                prop_assert_eq!((summary.src, summary.dst), (IpAddr::from(h.source), IpAddr::from(h.destination)));
                prop_assert_eq!((summary.ttl, summary.dscp_ecn), (h.hop_limit, h.traffic_class));
                let theirs = e.fragment.as_ref().filter(|f| f.is_fragmenting_payload())
                    .map(|f| (f.identification, f.fragment_offset.byte_offset(), f.more_fragments));
                prop_assert_eq!(summary.fragment.map(|f| (f.id, f.offset, f.more)), theirs);
            }
        }
        if summary.is_later_fragment() {
            prop_assert_eq!((summary.ports, summary.icmp), (None, None));
            return Ok(());
        }
        let l4 = packet.l4();
        match upper {
            Upper::Udp(s, d) => {
                prop_assert_eq!((summary.protocol, summary.ports), (17, Some((s, d))));
                let udp = Udp::parse(l4).unwrap();
                prop_assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (s, d, &payload[..]));
            }
            Upper::Tcp(s, d, seq) => {
                prop_assert_eq!((summary.protocol, summary.ports), (6, Some((s, d))));
                let tcp = Tcp::parse(l4).unwrap();
                prop_assert_eq!((tcp.sequence(), tcp.flags()), (seq, TcpFlags::SYN));
                prop_assert_eq!(tcp.payload(), &payload[..]);
            }
            Upper::Icmp(..) => {
                prop_assert_eq!(summary.icmp, Some((if summary.is_ipv4() { 8 } else { 128 }, 0)));
                prop_assert!(!summary.is_icmp_error());
            }
        }
        // Their checksums are right by ours.
        let sum = match upper {
            Upper::Icmp(..) if summary.is_ipv4() => checksum::checksum(l4),
            _ => checksum::upper_layer(summary.src, summary.dst, summary.protocol, l4).unwrap(),
        };
        prop_assert_eq!(sum, 0);
    }

    #[test]
    fn of_mutated_packets_both_say_the_same(
        ip in their_ip(), upper in upper(), payload in prop::collection::vec(any::<u8>(), 0..32),
        changes in prop::collection::vec((0usize..120, any::<u8>()), 0..6), cut in 0usize..400,
    ) {
        let mut bytes = built(&ip, upper, &[], &payload).split_off(14);
        for (at, value) in changes {
            if let Some(octet) = bytes.get_mut(at) {
                *octet = value;
            }
        }
        same_headers(&bytes)?;
        bytes.truncate(cut);
        same_headers(&bytes)?;
    }

    #[test]
    fn what_we_write_they_read_v4(
        src: u32, dst: u32, ports: (u16, u16), tos: u8, id: u16, df: bool, ttl: u8, vid in 0u16..4096,
        tagged: bool, payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
        let len = (8 + payload.len()) as u16;
        let header = Ipv4Header {
            dscp_ecn: tos, total_len: 20 + len, identification: id, dont_fragment: df, more_fragments: false,
            fragment_units: 0, ttl, protocol: 17, src, dst,
        };
        let macs = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 8]));
        let mut bytes = ethernet::header(macs.0, macs.1, if tagged { 0x8100 } else { 0x0800 }).to_vec();
        if tagged {
            bytes.extend(ethernet::vlan_tag(vid, 0x0800));
        }
        bytes.extend(header.to_bytes());
        bytes.extend(udp_header(ports.0, ports.1, len, 0));
        bytes.extend(&payload);
        let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
        let Some(LinkSlice::Ethernet2(eth)) = &packet.link else { panic!("no Ethernet") };
        prop_assert_eq!((eth.destination(), eth.source()), (macs.0.octets(), macs.1.octets()));
        let vids: Vec<_> = packet.vlan_ids().iter().map(|v| v.value()).collect();
        prop_assert_eq!(vids, if tagged { vec![vid] } else { vec![] });
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
        let theirs = ip.header().to_header();
        prop_assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
        prop_assert_eq!(Ipv4Addr::from(theirs.source), src);
        prop_assert_eq!(Ipv4Addr::from(theirs.destination), dst);
        prop_assert_eq!(theirs.dscp.value() << 2 | theirs.ecn.value(), tos);
        prop_assert_eq!((theirs.identification, theirs.dont_fragment), (id, df));
        prop_assert_eq!((theirs.time_to_live, theirs.protocol.0), (ttl, 17));
        let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("no UDP") };
        prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
        prop_assert_eq!(udp.payload(), &payload[..]);
    }

    #[test]
    fn what_we_write_they_read_v6(
        src: u128, dst: u128, ports: (u16, u16), class: u8, label in 0u32..1 << 20, hops: u8,
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
        let len = (8 + payload.len()) as u16;
        let header = Ipv6Header {
            traffic_class: class, flow_label: label, payload_len: len, next_header: 17, hop_limit: hops, src, dst,
        };
        let mut udp = [&udp_header(ports.0, ports.1, len, 0)[..], &payload].concat();
        let sum = checksum::udp(checksum::upper_layer(src.into(), dst.into(), 17, &udp).unwrap());
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let bytes = [&header.to_bytes()[..], &udp].concat();
        let packet = SlicedPacket::from_ip(&bytes).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6") };
        let theirs = ip.header().to_header();
        prop_assert_eq!((theirs.traffic_class, theirs.flow_label.value()), (class, label));
        prop_assert_eq!((theirs.hop_limit, theirs.payload_length), (hops, len));
        prop_assert_eq!((Ipv6Addr::from(theirs.source), Ipv6Addr::from(theirs.destination)), (src, dst));
        let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("no UDP") };
        let expected = udp.to_header().calc_checksum_ipv6(&theirs, &payload).unwrap();
        prop_assert_eq!(udp.checksum(), expected);
    }

    #[test]
    fn arp_round_trips(sender: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4]), number: u16) {
        let operation = match number % 3 {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => Operation::Other(number.max(3)),
        };
        let arp = Arp {
            operation, sender_mac: MacAddr(sender.0), sender_ip: sender.1.into(),
            target_mac: MacAddr(target.0), target_ip: target.1.into(),
        };
        let bytes = arp.to_bytes();
        prop_assert_eq!(Arp::parse(&bytes), Ok(arp));
        let (mac, ip) = (MacAddr([9; 6]), arp.sender_ip);
        prop_assert_eq!((arp.reply(mac).sender_mac, arp.reply(mac).target_ip), (mac, ip));
        let theirs = etherparse::ArpPacketSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!(theirs.sender_hw_addr(), &sender.0);
        prop_assert_eq!(theirs.sender_protocol_addr(), &sender.1);
        prop_assert_eq!(theirs.target_hw_addr(), &target.0);
        prop_assert_eq!(theirs.target_protocol_addr(), &target.1);
    }
}
