//! Drops by reason; fragments; ICMP errors.

use crate::gateway::common::{PEER_MAC, bench, downstream, g_pdu, to_gateway, tunnelled, ue, upstream_inner};
use etherparse::PacketBuilder;
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::{FabricMac, OutputPort, Policy};
use scalebricks_types::{KeyProfile, NodeId};

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;

fn scalebricks() -> crate::gateway::common::Bench {
    bench(Architecture::ScaleBricks, 4, Policy::default())
}

/// The frame with bytes changed at one offset, and the IPv4 header checksum corrected.
fn patched(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    fix_checksum(&mut frame);
    frame
}

fn fix_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let len = usize::from(frame[14] & 15) * 4;
    let mut sum: u32 =
        frame[14..14 + len].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[test]
fn every_downstream_drop_has_its_name() {
    let good = downstream(0, b"hello");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("non_ip", [&good[..12], &[0x08, 0x06], &good[14..]].concat()),
        ("non_ip", [&good[..12], &[0x00, 0x26], &good[14..]].concat()),
        ("truncated", good[..13].to_vec()),
        ("truncated", good[..30].to_vec()),
        ("truncated", good[..good.len() - 1].to_vec()),
        ("malformed_ip", patched(good.clone(), 14, &[0x44])),
        ("malformed_ip", patched(good.clone(), 14, &[0x55])),
        ("malformed_ip", patched(good.clone(), 16, &[0, 10])),
        ("bad_ipv4_checksum", [&good[..24], &[good[24] ^ 1], &good[25..]].concat()),
        ("multicast", patched(good.clone(), 30, &[224, 0, 0, 5])),
        ("multicast", patched(good.clone(), 30, &[255, 255, 255, 255])),
        ("unknown_flow", patched(good.clone(), 34, &[9, 9])),
    ];
    let mut bench = scalebricks();
    for (want, frame) in cases {
        for ingress in 0..4 {
            assert_eq!(bench.one(ingress, DOWN, &frame, false).err(), Some(want), "{frame:02x?}");
        }
    }
}

#[test]
fn every_upstream_drop_has_its_name() {
    let mut bench = scalebricks();
    let gateway = bench.policy.gateway_address;
    let inner = upstream_inner(0, b"hello");
    let teid = bench.flows[0].uplink_teid.get();
    let wrap = |message: &[u8]| to_gateway(gateway, 2152, message);
    let good = g_pdu(teid, &inner, false);
    let mut end_marker = good.clone();
    end_marker[1] = 254;
    let mut version2 = good.clone();
    version2[0] = 0x50;
    let mut too_long = good.clone();
    too_long[3] += 1;
    let mut unknown_extension = g_pdu(teid, &inner, true);
    unknown_extension[11] = 0x9f;
    let fragment = patched(wrap(&good), 20, &[0x20, 0]);
    let mut bad_inner = inner.clone();
    bad_inner[10] ^= 1;
    let mut short_inner = inner.clone();
    short_inner.pop();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("not_for_gateway", to_gateway([10, 255, 0, 2].into(), 2152, &good)),
        ("not_gtpu", to_gateway(gateway, 2153, &good)),
        ("not_gtpu", patched(wrap(&good), 23, &[6])),
        ("malformed_gtpu", wrap(&version2)),
        ("malformed_gtpu", wrap(&too_long)),
        ("malformed_gtpu", wrap(&good[..6])),
        ("gtpu_signalling", wrap(&end_marker)),
        ("unsupported_extension", wrap(&unknown_extension)),
        ("gtpu_fragment", fragment),
        ("unknown_flow", wrap(&g_pdu(0x7777_7777, &inner, false))),
        ("malformed_inner", wrap(&g_pdu(teid, &[0x15; 40], false))),
        ("malformed_inner", wrap(&g_pdu(teid, &short_inner, false))),
        ("malformed_inner", wrap(&g_pdu(teid, &[], false))),
        ("bad_ipv4_checksum", wrap(&g_pdu(teid, &bad_inner, false))),
        ("non_ip", [&wrap(&good)[..12], &[0x08, 0x06], &good].concat()),
    ];
    for (want, frame) in cases {
        for ingress in 0..4 {
            assert_eq!(bench.one(ingress, UP, &frame, false).err(), Some(want), "{frame:02x?}");
        }
    }
}

#[test]
fn addresses_on_outside_ports_are_checked() {
    let mut bench = scalebricks();
    let with_mac = |mac: [u8; 6]| [&mac, &downstream(0, b"x")[6..]].concat();
    let encoded = FabricMac::handling(NodeId::new(0), DOWN).encode().octets();
    let again = FabricMac { again: true, ..FabricMac::handling(NodeId::new(1), DOWN) }.encode().octets();
    for (want, mac) in [
        ("encoded_mac_outside", encoded),
        ("encoded_mac_outside", again),
        ("encoded_mac_outside", [0x02, 0x5b, 0xff, 0xff, 0xff, 0xff]),
        ("other_mac", PEER_MAC),
        ("multicast", [0xff; 6]),
        ("multicast", [0x01, 0x00, 0x5e, 0, 0, 5]),
    ] {
        assert_eq!(bench.one(0, DOWN, &with_mac(mac), true).err(), Some(want), "{mac:02x?}");
    }
    let own_other_link = bench.cluster.links_mut()[0].macs.base_station.octets();
    assert_eq!(bench.one(0, DOWN, &with_mac(own_other_link), true).err(), Some("other_mac"));
    let arp = [&[0xff; 6][..], &PEER_MAC, &[0x08, 0x06], &[0; 28]].concat();
    assert_eq!(bench.one(0, DOWN, &arp, true).err(), Some("non_ip"));
}

#[test]
fn vlan_tags_padding_and_options_are_taken_off() {
    let mut bench = scalebricks();
    let plain = downstream(4, b"tagged");
    let tagged = [&plain[..12], &[0x81, 0x00, 0x00, 0x64], &plain[12..]].concat();
    let padded = [&plain[..], &[0; 14]].concat();
    for frame in [tagged, padded] {
        let left = bench.one(1, DOWN, &frame, false).unwrap();
        assert_eq!(tunnelled(&left[0].frame).3, plain[14..]);
    }
    // Two words of IPv4 options (no-operation), ports behind them.
    let mut options = [&plain[..34], &[1; 8], &plain[34..]].concat();
    options[14] = 0x47;
    let len = (options.len() - 14) as u16;
    options[16..18].copy_from_slice(&len.to_be_bytes());
    fix_checksum(&mut options);
    let left = bench.one(2, DOWN, &options, false).unwrap();
    assert_eq!(tunnelled(&left[0].frame).3, options[14..]);
}

#[test]
fn a_bad_checksum_passes_where_the_policy_ignores_it() {
    let policy = Policy { verify_ipv4_checksum: false, ..Policy::default() };
    let mut bench = bench(Architecture::ScaleBricks, 4, policy);
    let mut frame = downstream(0, b"offloaded");
    frame[24] ^= 0x55;
    let left = bench.one(3, DOWN, &frame, false).unwrap();
    assert_eq!(tunnelled(&left[0].frame).3, frame[14..], "forwarded as it came");
    let mut inner = upstream_inner(0, b"offloaded");
    inner[10] ^= 0x55;
    let up =
        to_gateway(policy.gateway_address, 2152, &g_pdu(bench.flows[0].uplink_teid.get(), &inner, false));
    let left = bench.one(3, UP, &up, false).unwrap();
    assert_eq!(left[0].frame[14..], inner);
}

#[test]
fn dscp_is_copied_to_the_tunnel_and_ecn_is_not() {
    let mut bench = scalebricks();
    let frame = patched(downstream(0, b"x"), 15, &[0xbb]);
    let left = bench.one(0, DOWN, &frame, false).unwrap();
    assert_eq!(left[0].frame[15], 0xb8);
    assert_eq!(tunnelled(&left[0].frame).3[1], 0xbb);
}

/// The fragments of an IPv4 packet, as a router creates them.
fn fragments(frame: &[u8], id: u16, cuts: &[usize]) -> Vec<Vec<u8>> {
    let payload = &frame[34..];
    let ends = cuts.iter().copied().skip(1).chain(std::iter::once(payload.len()));
    cuts.iter()
        .zip(ends)
        .map(|(&start, end)| {
            let mut piece = [&frame[..34], &payload[start..end]].concat();
            let more = if end < payload.len() { 0x2000 } else { 0 };
            piece[16..18].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
            piece[18..20].copy_from_slice(&id.to_be_bytes());
            piece[20..22].copy_from_slice(&(more | (start / 8) as u16).to_be_bytes());
            fix_checksum(&mut piece);
            piece
        })
        .collect()
}

#[test]
fn fragments_follow_their_first_in_every_architecture() {
    for architecture in Architecture::ALL {
        let mut bench = bench(architecture, 5, Policy::default());
        for n in (0..40).step_by(2) {
            let pieces = fragments(&downstream(n, &[n as u8; 200]), n as u16, &[0, 64, 128]);
            for piece in &pieces {
                bench.inject(1, DOWN, piece, false);
            }
            let (left, dropped) = bench.run(2);
            assert_eq!(dropped, [], "{architecture}");
            assert_eq!(left.len(), 3);
            for (got, piece) in left.iter().zip(&pieces) {
                assert_eq!(got.node, bench.flows[n as usize].node.index());
                let (_, teid, _, inner) = tunnelled(&got.frame);
                assert_eq!(teid, bench.flows[n as usize].downlink_teid.get());
                assert_eq!(inner, piece[14..], "in order, {architecture}");
            }
        }
    }
}

#[test]
fn a_fragment_that_comes_first_or_elsewhere_is_dropped_by_name() {
    let mut bench = scalebricks();
    let pieces = fragments(&downstream(0, &[1; 100]), 77, &[0, 64]);
    assert_eq!(bench.one(0, DOWN, &pieces[1], false).err(), Some("fragment_without_first"));
    bench.one(0, DOWN, &pieces[0], false).unwrap();
    bench.one(0, DOWN, &pieces[1], false).unwrap();
    assert_eq!(bench.one(1, DOWN, &pieces[1], false).err(), Some("fragment_without_first"));
}

#[test]
fn by_ue_fragments_need_no_first() {
    let policy = Policy { key_profile: KeyProfile::Ue, ..Policy::default() };
    let mut bench = bench(Architecture::ScaleBricks, 4, policy);
    let pieces = fragments(&downstream(0, &[1; 100]), 77, &[0, 64]);
    for node in [3, 0, 2] {
        bench.one(node, DOWN, &pieces[1], false).unwrap();
    }
}

#[test]
fn icmp_errors_follow_the_flow_they_are_about() {
    let mut bench = scalebricks();
    let router = [203, 0, 113, 1];
    let about = upstream_inner(8, b"lost on the way"); // from the UE to the server
    for quote in [&about[..], &about[..28]] {
        let mut frame = Vec::new();
        let unreachable =
            etherparse::Icmpv4Type::DestinationUnreachable(etherparse::icmpv4::DestUnreachableHeader::Host);
        PacketBuilder::ethernet2(PEER_MAC, [0; 6])
            .ipv4(router, ue(8).octets(), 60)
            .icmpv4(unreachable)
            .write(&mut frame, quote)
            .unwrap();
        let left = bench.one(2, DOWN, &frame, false).unwrap();
        assert_eq!(left[0].node, bench.flows[8].node.index());
        assert_eq!(tunnelled(&left[0].frame).1, bench.flows[8].downlink_teid.get());
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER_MAC, [0; 6])
        .ipv6([1; 16], crate::gateway::common::ue6(9).octets(), 60)
        .icmpv6(etherparse::Icmpv6Type::DestinationUnreachable(etherparse::icmpv6::DestUnreachableCode::Port))
        .write(&mut frame, &upstream_inner(9, b"six"))
        .unwrap();
    let left = bench.one(0, DOWN, &frame, false).unwrap();
    assert_eq!(tunnelled(&left[0].frame).1, bench.flows[9].downlink_teid.get());
    // An echo is not an error: it has its own flow key, which is unknown.
    let mut echo = Vec::new();
    let request = PacketBuilder::ethernet2(PEER_MAC, [0; 6]).ipv4(router, ue(8).octets(), 60);
    request.icmpv4_echo_request(1, 2).write(&mut echo, b"ping").unwrap();
    assert_eq!(bench.one(0, DOWN, &echo, false).err(), Some("unknown_flow"));
}

#[test]
fn a_packet_too_large_for_any_tunnel_is_dropped() {
    let mut bench = scalebricks();
    let udp_payload = |ip_len: usize| vec![0; ip_len - 28];
    let largest = downstream(0, &udp_payload(65_535 - 44));
    assert!(bench.one(0, DOWN, &largest, false).is_ok());
    let larger = downstream(0, &udp_payload(65_535 - 43));
    assert_eq!(bench.one(0, DOWN, &larger, false).err(), Some("too_large"));
}

#[test]
fn hints_that_name_no_node_are_dropped_by_name() {
    // Three nodes need two bits, and in a full table an unknown key may well be answered with the fourth value.
    let mut bench =
        crate::gateway::common::bench_with(30_000, Architecture::ScaleBricks, 3, Policy::default());
    let mut reasons = std::collections::BTreeMap::new();
    for port in 0..400u16 {
        let frame = patched(downstream(0, b"?"), 34, &(10_000 + port).to_be_bytes());
        *reasons.entry(bench.one(1, DOWN, &frame, false).err().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(reasons.keys().copied().collect::<Vec<_>>(), ["no_such_node", "unknown_flow"]);
}
