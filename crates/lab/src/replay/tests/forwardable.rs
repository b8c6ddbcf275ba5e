//! Counts the packets of a capture that a gateway must forward, and compares with what left. The count shares no code
//! with the project: the file is read at fixed offsets, headers by `etherparse`.

use super::{capture, options, replay, sample};
use etherparse::{Ethernet2HeaderSlice, IpSlice, Ipv6ExtensionSlice, LaxIpSlice, SingleVlanHeaderSlice};
use flate2::read::MultiGzDecoder;
use scalebricks_types::KeyProfile;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;

/// Outer IPv4, UDP and GTP-U headers.
const TUNNEL: usize = 36;
/// The largest IPv4 packet.
const MAX_IP_LEN: usize = 65_535;

/// Source, destination, source port, destination port, protocol.
type Tuple = (IpAddr, IpAddr, u16, u16, u8);
/// Source, destination, protocol (of IPv4), identification: the same for all fragments of a datagram.
type Datagram = (IpAddr, IpAddr, u8, u32);

fn reversed((src, dst, src_port, dst_port, protocol): Tuple) -> Tuple {
    (dst, src, dst_port, src_port, protocol)
}

/// What counting needs of a whole unicast packet.
struct Packet {
    /// Of the direction it flows in: an ICMP error flows where answers to the packet it quotes would.
    tuple: Tuple,
    /// What the mobile would have sent, if this packet shows who the mobile is.
    from_mobile: Tuple,
    is_syn: bool,
    dst: IpAddr,
    datagram: Option<Datagram>,
    is_later_fragment: bool,
    is_checksum_good: bool,
    len: usize,
}

/// The frames of a pcap file in little-endian byte order, gzipped or not.
fn frames(file: &Path) -> Vec<Vec<u8>> {
    let mut bytes = std::fs::read(file).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let zipped = std::mem::take(&mut bytes);
        MultiGzDecoder::new(&zipped[..]).read_to_end(&mut bytes).unwrap();
    }
    let magic = [[0xd4, 0xc3, 0xb2, 0xa1], [0x4d, 0x3c, 0xb2, 0xa1]];
    assert!(magic.iter().any(|magic| bytes.starts_with(magic)), "a little-endian pcap file");
    assert_eq!(bytes[20..24], [1, 0, 0, 0], "of Ethernet frames");
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// What an IP header and the ports behind it say. What follows may be cut off.
fn tuple(ip: &LaxIpSlice<'_>, is_later_fragment: bool) -> Tuple {
    let (protocol, payload) = (ip.payload_ip_number().0, ip.payload().payload);
    let has_ports = matches!(protocol, 6 | 17 | 132 | 136) && payload.len() >= 4 && !is_later_fragment;
    let port = |at: usize| if has_ports { u16::from_be_bytes([payload[at], payload[at + 1]]) } else { 0 };
    (ip.source_addr(), ip.destination_addr(), port(0), port(2), protocol)
}

/// Identification, and whether the fragment is not the first; `None` of a whole packet.
fn fragment(ip: &LaxIpSlice<'_>) -> Option<(u32, bool)> {
    match ip {
        LaxIpSlice::Ipv4(ip) => {
            let header = ip.header();
            let is_later = header.fragments_offset().value() > 0;
            (is_later || header.more_fragments()).then(|| (u32::from(header.identification()), is_later))
        }
        LaxIpSlice::Ipv6(ip) => ip.extensions().clone().into_iter().find_map(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(header) => {
                let is_later = header.fragment_offset().value() > 0;
                (is_later || header.more_fragments()).then(|| (header.identification(), is_later))
            }
            _ => None,
        }),
    }
}

/// The IP packet of a frame for one station.
fn ip(frame: &[u8]) -> Option<&[u8]> {
    let link = Ethernet2HeaderSlice::from_slice(frame).ok()?;
    let (mut kind, mut rest) = (link.ether_type().0, &frame[14..]);
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8) {
            kind = SingleVlanHeaderSlice::from_slice(rest).ok()?.ether_type().0;
            rest = &rest[4..];
        }
    }
    let version = match kind {
        0x0800 => 4,
        0x86dd => 6,
        _ => return None,
    };
    (link.destination()[0] & 1 == 0 && rest.first()? >> 4 == version).then_some(rest)
}

/// The packet in a frame, if it is whole, sound and for one station.
fn read(frame: &[u8]) -> Option<Packet> {
    let bytes = ip(frame)?;
    let (len, is_checksum_good) = match IpSlice::from_slice(bytes).ok()? {
        IpSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            (usize::from(header.total_len), header.header_checksum == header.calc_header_checksum())
        }
        IpSlice::Ipv6(ip) => (40 + usize::from(ip.header().payload_length()), true),
    };
    let (ip, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let dst = ip.destination_addr();
    if dst.is_multicast() || dst == IpAddr::from([255; 4]) {
        return None;
    }
    let fragment = fragment(&ip);
    let is_later_fragment = matches!(fragment, Some((_, true)));
    let own = tuple(&ip, is_later_fragment);
    let (protocol, l4) = (own.4, ip.payload().payload);
    let kind = *l4.first().unwrap_or(&0);
    let is_error = !is_later_fragment
        && l4.len() >= 4
        && match dst {
            IpAddr::V4(_) => protocol == 1 && matches!(kind, 3 | 4 | 5 | 11 | 12),
            IpAddr::V6(_) => protocol == 58 && kind < 128,
        };
    let quoted = l4.get(8..).filter(|_| is_error).and_then(|quoted| LaxIpSlice::from_slice(quoted).ok());
    let quoted = quoted.map(|(ip, _)| tuple(&ip, matches!(self::fragment(&ip), Some((_, true)))));
    let datagram_protocol = if dst.is_ipv4() { protocol } else { 0 };
    Some(Packet {
        tuple: quoted.map_or(own, reversed),
        from_mobile: quoted.unwrap_or(own),
        is_syn: protocol == 6 && !is_later_fragment && l4.get(13).is_some_and(|flags| flags & 0x12 == 0x02),
        dst,
        datagram: fragment.map(|(id, _)| (own.0, own.1, datagram_protocol, id)),
        is_later_fragment,
        is_checksum_good,
        len,
    })
}

/// Who is the mobile: for each conversation, by the lower of its two tuples, what the mobile sends. It is the sender of
/// the first SYN, else of the first packet.
fn mobiles(packets: &[Packet]) -> HashMap<Tuple, Tuple> {
    let mut mobiles: HashMap<Tuple, (Tuple, bool)> = HashMap::new();
    for packet in packets.iter().filter(|packet| !packet.is_later_fragment) {
        let name = packet.tuple.min(reversed(packet.tuple));
        let known = mobiles.entry(name).or_insert((packet.from_mobile, false));
        if packet.is_syn && !known.1 {
            *known = (packet.from_mobile, true);
        }
    }
    mobiles.into_iter().map(|(name, (from_mobile, _))| (name, from_mobile)).collect()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..2] == [169, 254],
        IpAddr::V6(address) => address.octets()[0] == 0xfe && address.octets()[1] & 0xc0 == 0x80,
    }
}

/// By what of its address a mobile is known to a gateway whose keys are mobiles.
fn ue(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

/// Packets that must leave: all but multicast, non-IP, malformed and truncated ones, those to a mobile at a link-local
/// address, those with a wrong checksum if checksums are verified, later fragments whose first did not come before
/// them (with mobiles as keys: to no mobile), and those too large for a tunnel.
fn forwardable(file: &Path, key: KeyProfile, verifies_checksums: bool) -> u64 {
    let packets: Vec<Packet> = frames(file).iter().filter_map(|frame| read(frame)).collect();
    let from_mobiles = mobiles(&packets);
    let ues: HashSet<IpAddr> = from_mobiles.values().map(|from_mobile| ue(from_mobile.0)).collect();
    let mut upstream_of_first: HashMap<Datagram, bool> = HashMap::new();
    let mut count = 0;
    for packet in &packets {
        let is_upstream = match packet.datagram {
            Some(datagram) if packet.is_later_fragment => upstream_of_first.get(&datagram).copied(),
            _ => Some(from_mobiles[&packet.tuple.min(reversed(packet.tuple))] == packet.tuple),
        };
        let is_refused = !packet.is_checksum_good && verifies_checksums
            || is_upstream != Some(true) && is_link_local(packet.dst);
        if let (Some(datagram), Some(is_upstream), false) = (packet.datagram, is_upstream, packet.is_later_fragment)
            // The first fragment of a mobile's datagram comes in its tunnel, and its later ones do too.
            && (is_upstream || !is_refused)
        {
            upstream_of_first.insert(datagram, is_upstream);
        }
        let has_flow = match (is_upstream, key) {
            (_, KeyProfile::Inside | KeyProfile::Nat44(_)) => unreachable!("not compared"),
            (Some(true), _) => true,
            (is_upstream, KeyProfile::Flow5) => is_upstream.is_some(),
            (_, KeyProfile::Ue) => ues.contains(&ue(packet.dst)),
        };
        let fits = packet.len + TUNNEL <= MAX_IP_LEN;
        count += u64::from(has_flow && fits && !is_refused);
    }
    count
}

/// What leaves the cluster in each architecture, beside the count.
fn compare(file: &Path) -> Vec<u64> {
    let mut counts = Vec::new();
    for key in [KeyProfile::Flow5, KeyProfile::Ue] {
        for verifies_checksums in [true, false] {
            let count = forwardable(file, key, verifies_checksums);
            let mut options = options(file);
            options.config.policy.key_profile = key;
            options.config.policy.verify_ipv4_checksum = verifies_checksums;
            let outcome = replay(&options);
            assert_eq!(outcome.runs.len(), 4);
            for run in &outcome.runs {
                let what = format!("{}, {key:?}, checksums verified: {verifies_checksums}", run.architecture);
                assert_eq!(run.totals.packets_out, count, "{what}");
            }
            counts.push(count);
        }
    }
    counts
}

#[test]
fn what_leaves_is_what_another_parser_counts() {
    let (_directory, file) = capture(&sample::frames());
    // Counted by hand too: see the functions of the sample.
    assert_eq!(compare(&file), [41, 45, 44, 47]);
}

/// A capture of real traffic, which is no part of the repository.
#[test]
fn what_leaves_of_real_traffic_is_what_another_parser_counts() {
    // Beside the repository; tests run in the folder of their package.
    let file = Path::new("../../../shared/data/traffic.pcap.gz");
    if !file.exists() {
        // Past the runner, which keeps what tests print to itself.
        let _ = writeln!(std::io::stderr(), "skipped: no captures of real traffic: no {}", file.display());
        return;
    }
    println!("packets that must leave, with flow5 and ue, checksums verified and not: {:?}", compare(file));
}
