//! Parses frames at fixed offsets and compares them with the packets that were put in.

use super::Expected;
use std::net::Ipv4Addr;

/// How a frame differs from the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("the frame ends within its headers")]
    Short,
    #[error("ethertype {0:#06x}")]
    EtherType(u16),
    #[error("the outer packet is no plain IPv4 packet over UDP with a right length")]
    OuterHeader,
    #[error("the outer IPv4 header checksum is wrong")]
    OuterChecksum,
    #[error("tunnelled to {0}, not to the flow's base station")]
    BaseStation(Ipv4Addr),
    #[error("the UDP header does not carry GTP-U")]
    Udp,
    #[error("the UDP checksum is wrong")]
    UdpChecksum,
    #[error("no GTPv1-U packet of type 255 with a right length")]
    Gtpu,
    #[error("TEID {0:#010x} is not the flow's")]
    Teid(u32),
    #[error("a QFI of {0:?} is not the flow's")]
    Qfi(Option<u8>),
    #[error("the user's packet is not the one put in")]
    Inner,
    #[error("outer fragments overlap or belong to different packets")]
    Fragments,
    #[error("the answer is no ICMP error to the sender that quotes the packet")]
    Answer,
}

type Check<T = ()> = Result<T, FrameError>;

const IP: usize = 14;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const GTPU_HEADER: usize = 8;
const GTPU_PORT: u16 = 2152;
const GTPU_G_PDU: u8 = 255;
const PDU_SESSION_CONTAINER: u8 = 0x85;

/// The outer IPv4 packet of a tunnelled frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outer<'a> {
    /// Source, destination, identification: the same in all fragments of a packet.
    pub(super) identity: (u32, u32, u16),
    /// Offset of the payload in the whole payload, octets.
    pub(super) offset: usize,
    /// More fragments follow.
    pub(super) more: bool,
    pub(super) payload: &'a [u8],
}

impl Outer<'_> {
    pub(super) const fn is_fragment(&self) -> bool {
        self.more || self.offset > 0
    }

    fn pseudo_header(&self) -> u64 {
        let (source, destination, _) = self.identity;
        let halves = [source >> 16, source & 0xffff, destination >> 16, destination & 0xffff];
        halves.into_iter().map(u64::from).sum::<u64>() + 17 + self.payload.len() as u64
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Check<u16> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|&b| u16::from_be_bytes(b)).ok_or(FrameError::Short)
}

fn u32_at(bytes: &[u8], at: usize) -> Check<u32> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|&b| u32::from_be_bytes(b)).ok_or(FrameError::Short)
}

/// The ones' complement sum of RFC 1071, folded: `0xffff` for data that contains its correct checksum.
fn ones_sum(bytes: &[u8], start: u64) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let mut sum = start + pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>();
    sum += last.first().map_or(0, |&octet| u64::from(octet) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Upstream: the user's packet after an untagged Ethernet header, without padding.
pub(super) fn check_upstream(frame: &[u8], inner: &[u8]) -> Check {
    let want = if inner.first().is_some_and(|octet| octet >> 4 == 6) { 0x86dd } else { 0x0800 };
    let ethertype = u16_at(frame, 12)?;
    if ethertype != want {
        return Err(FrameError::EtherType(ethertype));
    }
    if frame.get(IP..) == Some(inner) { Ok(()) } else { Err(FrameError::Inner) }
}

/// Downstream: Ethernet and outer IPv4 header.
pub(super) fn check_outer(frame: &[u8], base_station: Ipv4Addr) -> Check<Outer<'_>> {
    let ethertype = u16_at(frame, 12)?;
    if ethertype != 0x0800 {
        return Err(FrameError::EtherType(ethertype));
    }
    let ip = &frame[IP..];
    let (header, payload) = ip.split_at_checked(IPV4_HEADER).ok_or(FrameError::Short)?;
    let is_plain = header[0] == 0x45 && header[9] == 17 && header[8] > 0;
    if !is_plain || usize::from(u16_at(header, 2)?) != ip.len() {
        return Err(FrameError::OuterHeader);
    }
    if ones_sum(header, 0) != 0xffff {
        return Err(FrameError::OuterChecksum);
    }
    let destination = Ipv4Addr::from(u32_at(header, 16)?);
    if destination != base_station {
        return Err(FrameError::BaseStation(destination));
    }
    let flags = u16_at(header, 6)?;
    Ok(Outer {
        identity: (u32_at(header, 12)?, destination.to_bits(), u16_at(header, 4)?),
        offset: usize::from(flags & 0x1fff) * 8,
        more: flags & 0x2000 != 0,
        payload,
    })
}

/// Downstream: the content of the whole outer IPv4 packet.
pub(super) fn check_tunnel(outer: &Outer, expected: &Expected) -> Check {
    let udp = outer.payload;
    if udp.len() < UDP_HEADER + GTPU_HEADER {
        return Err(FrameError::Short);
    }
    if u16_at(udp, 2)? != GTPU_PORT || usize::from(u16_at(udp, 4)?) != udp.len() {
        return Err(FrameError::Udp);
    }
    // Zero means that there is no checksum (RFC 768).
    if u16_at(udp, 6)? != 0 && ones_sum(udp, outer.pseudo_header()) != 0xffff {
        return Err(FrameError::UdpChecksum);
    }
    let gtpu = &udp[UDP_HEADER..];
    let (flags, kind) = (gtpu[0], gtpu[1]);
    // Version 1, protocol type GTP; of the optional parts only extension headers.
    let is_ours = flags & 0xf3 == 0x30 && kind == GTPU_G_PDU;
    if !is_ours || usize::from(u16_at(gtpu, 2)?) != gtpu.len() - GTPU_HEADER {
        return Err(FrameError::Gtpu);
    }
    let teid = u32_at(gtpu, 4)?;
    if teid != expected.teid.get() {
        return Err(FrameError::Teid(teid));
    }
    let (qfi, inner_at) = if flags & 0x04 == 0 { (None, GTPU_HEADER) } else { container(gtpu)? };
    if qfi != expected.qfi.map(scalebricks_types::Qfi::get) {
        return Err(FrameError::Qfi(qfi));
    }
    if gtpu.get(inner_at..) == Some(expected.inner) { Ok(()) } else { Err(FrameError::Inner) }
}

/// The QFI of the only extension header, a downlink PDU session container (TS 38.415 §5.5.2.1), and the offset of the user's
/// packet after it.
fn container(gtpu: &[u8]) -> Check<(Option<u8>, usize)> {
    let extension = gtpu.get(GTPU_HEADER + 3..).ok_or(FrameError::Short)?;
    let &[kind, units, pdu_type, qfi, ..] = extension else { return Err(FrameError::Short) };
    let end = GTPU_HEADER + 4 + usize::from(units) * 4;
    let next = end.checked_sub(1).and_then(|at| gtpu.get(at));
    if kind != PDU_SESSION_CONTAINER || units == 0 || pdu_type >> 4 != 0 || next != Some(&0) {
        return Err(FrameError::Gtpu);
    }
    Ok((Some(qfi & 0x3f), end))
}

/// An ICMP error "too big": to the packet's sender, with the start of the packet and a correct checksum.
pub(super) fn check_answer(frame: &[u8], about: &[u8]) -> Check {
    let is_v6 = about.first().is_some_and(|octet| octet >> 4 == 6);
    let (ethertype, header_len, kind, addresses) =
        if is_v6 { (0x86dd, IPV6_HEADER, [2, 0], 8..24) } else { (0x0800, IPV4_HEADER, [3, 4], 12..16) };
    if u16_at(frame, 12)? != ethertype {
        return Err(FrameError::EtherType(u16_at(frame, 12)?));
    }
    let ip = &frame[IP..];
    let (header, icmp) = ip.split_at_checked(header_len).ok_or(FrameError::Short)?;
    let sender = about.get(addresses.clone()).ok_or(FrameError::Short)?;
    let receiver = &header[addresses.end..addresses.end + addresses.len()];
    let quoted = icmp.get(8..).ok_or(FrameError::Short)?;
    let is_whole = if is_v6 {
        let pseudo = ones_sum(&header[8..40], icmp.len() as u64 + 58);
        header[6] == 58
            && usize::from(u16_at(header, 4)?) == icmp.len()
            && ones_sum(icmp, u64::from(pseudo)) == 0xffff
    } else {
        let is_sound = ones_sum(header, 0) == 0xffff && ones_sum(icmp, 0) == 0xffff;
        header[0] == 0x45 && header[9] == 1 && usize::from(u16_at(header, 2)?) == ip.len() && is_sound
    };
    let quotes = quoted.len() >= header_len + 8 && about.starts_with(quoted);
    if is_whole && icmp[..2] == kind && receiver == sender && quotes {
        Ok(())
    } else {
        Err(FrameError::Answer)
    }
}
