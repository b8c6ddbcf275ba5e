//! Ethernet II frames with up to two VLAN tags (IEEE 802.1Q, 802.1ad). Frames carry no FCS here.

use crate::ParseError;
use std::fmt;

/// Length of an untagged header, octets.
pub const HEADER_LEN: usize = 14;
/// Length of one VLAN tag, octets.
pub const TAG_LEN: usize = 4;
/// Ethertype of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Tag protocol identifier of a customer VLAN (802.1Q).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// Tag protocol identifier of a service VLAN (802.1ad).
pub const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;

/// An Ethernet address, in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

/// The bits that [`MacAddr::bits`] uses.
const MAC_BITS: u64 = (1 << 48) - 1;

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The octets, in wire order.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The octets as a number, the first in the lowest bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// Whether the group bit is set: multicast or broadcast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fields of a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// Type of the payload, behind all tags. Below 0x600 it is the length of an 802.3 frame.
    pub ethertype: u16,
    /// Offset of the payload: 14, 18 or 22.
    pub l3_offset: usize,
    /// VLAN identifier of the outermost tag, 0 to 4095 (0: priority tag).
    pub vlan: Option<u16>,
    /// VLAN identifier of the second tag.
    pub inner_vlan: Option<u16>,
}

impl Frame {
    /// Whether the type is IPv4 or IPv6.
    #[inline]
    pub const fn is_ip(&self) -> bool {
        matches!(self.ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6)
    }
}

const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN)
}

/// Reads the header of a frame. Cost: the first 14 to 22 octets.
///
/// # Errors
/// [`ParseError::Truncated`], [`ParseError::TooManyVlanTags`].
#[inline]
pub fn parse_frame(bytes: &[u8]) -> Result<Frame, ParseError> {
    let (&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1], rest) =
        bytes.split_first_chunk::<HEADER_LEN>().ok_or(ParseError::Truncated)?;
    let mut frame = Frame {
        dst: MacAddr([d0, d1, d2, d3, d4, d5]),
        src: MacAddr([s0, s1, s2, s3, s4, s5]),
        ethertype: u16::from_be_bytes([t0, t1]),
        l3_offset: HEADER_LEN,
        vlan: None,
        inner_vlan: None,
    };
    if is_tag(frame.ethertype) {
        parse_tags(&mut frame, rest)?;
    }
    Ok(frame)
}

/// IEEE 802.1Q §9.3: priority (3 bits), drop eligible (1), VLAN identifier (12); then the next type.
fn parse_tags(frame: &mut Frame, mut rest: &[u8]) -> Result<(), ParseError> {
    while is_tag(frame.ethertype) {
        let (&[i0, i1, t0, t1], behind) = rest.split_first_chunk::<TAG_LEN>().ok_or(ParseError::Truncated)?;
        let vid = Some(u16::from_be_bytes([i0, i1]) & 0x0fff);
        match (frame.vlan, frame.inner_vlan) {
            (None, _) => frame.vlan = vid,
            (Some(_), None) => frame.inner_vlan = vid,
            (Some(_), Some(_)) => return Err(ParseError::TooManyVlanTags),
        }
        frame.ethertype = u16::from_be_bytes([t0, t1]);
        frame.l3_offset += TAG_LEN;
        rest = behind;
    }
    Ok(())
}

/// The destination of a frame; `None` below 6 octets.
#[inline]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    frame.first_chunk().map(|mac| MacAddr(*mac))
}

/// The destination of a frame as [`MacAddr::bits`], by one load; `None` below 8 octets, which no frame with a packet has.
#[inline(always)]
pub fn destination_bits(frame: &[u8]) -> Option<u64> {
    frame.first_chunk().map(|octets| u64::from_le_bytes(*octets) & MAC_BITS)
}

/// Destination and source of a frame; `None` if it is shorter than a header.
#[inline]
pub fn addresses(frame: &[u8]) -> Option<(MacAddr, MacAddr)> {
    let &[a, b, c, d, e, f, g, h, i, j, k, l, _, _] = frame.first_chunk::<HEADER_LEN>()?;
    Some((MacAddr([a, b, c, d, e, f]), MacAddr([g, h, i, j, k, l])))
}

/// Overwrites the destination; `false`, and nothing written, if the frame is shorter than a header.
#[inline]
#[must_use]
pub fn set_destination(frame: &mut [u8], mac: MacAddr) -> bool {
    let Some(header) = frame.first_chunk_mut::<HEADER_LEN>() else { return false };
    header[..6].copy_from_slice(&mac.0);
    true
}

/// Overwrites both; `false`, and nothing written, if the frame is shorter than a header.
#[inline]
#[must_use]
pub fn set_addresses(frame: &mut [u8], dst: MacAddr, src: MacAddr) -> bool {
    let Some(header) = frame.first_chunk_mut::<HEADER_LEN>() else { return false };
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    true
}

/// An untagged header.
#[inline]
pub const fn header(dst: MacAddr, src: MacAddr, ethertype: u16) -> [u8; HEADER_LEN] {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (dst.0, src.0);
    let [t0, t1] = ethertype.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, t0, t1]
}

/// A VLAN tag without its own type: priority 0, the low 12 bits of `vid`, and the type of what follows.
#[inline]
pub const fn vlan_tag(vid: u16, ethertype: u16) -> [u8; TAG_LEN] {
    let ([i0, i1], [t0, t1]) = ((vid & 0x0fff).to_be_bytes(), ethertype.to_be_bytes());
    [i0, i1, t0, t1]
}
