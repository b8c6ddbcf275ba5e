//! Converts frames of other link types to Ethernet.

use std::fmt;

/// Length of an Ethernet header without tags.
const ETHERNET_HEADER_BYTES: usize = 14;
/// Used for addresses that the capture does not contain: locally administered, unicast.
const SYNTHETIC_DST: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const SYNTHETIC_SRC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Below this value, the field after the addresses is a length, not a type.
const SMALLEST_ETHERTYPE: u16 = 0x0600;
/// The type for packets in a raw IP capture that are neither IPv4 nor IPv6.
const NO_ETHERTYPE: u16 = 0;

/// A link type, by its registered number, which pcap and pcapng share.
///
/// | number | frames | converted |
/// |---|---|---|
/// | 1 | Ethernet | unchanged |
/// | 12, 101 | raw IP | with a synthetic header, type by the version |
/// | 228, 229 | raw IPv4, raw IPv6 | with a synthetic header |
/// | 113, 276 | Linux cooked, v1 and v2 | with a header that has the protocol and, if recorded, the source address |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// Raw IP, by the number that some systems write.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP, either version.
    pub const RAW: Self = Self(101);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// The link type of a pcap file header, whose upper six bits are about checksums after the frames.
    pub(super) fn from_pcap_header(field: u32) -> Self {
        Self(field & 0x03ff_ffff)
    }

    /// Whether frames of this type can be converted to Ethernet.
    pub fn is_supported(self) -> bool {
        self.name().is_some()
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::ETHERNET => Some("Ethernet"),
            Self::RAW_BSD | Self::RAW => Some("raw IP"),
            Self::LINUX_SLL => Some("Linux cooked"),
            Self::IPV4 => Some("raw IPv4"),
            Self::IPV6 => Some("raw IPv6"),
            Self::LINUX_SLL2 => Some("Linux cooked v2"),
            _ => None,
        }
    }

    /// The frame as Ethernet and its original length with the new header; `None` for an unsupported type.
    ///
    /// A frame that is too short for its link header gets a header without a protocol, so that the number of frames is
    /// that of the file.
    pub(super) fn to_ethernet(self, frame: &[u8], original_len: u32) -> Option<(Vec<u8>, u32)> {
        // Some programs record an original length below the captured length.
        let original_len = original_len.max(u32::try_from(frame.len()).unwrap_or(u32::MAX));
        let (header, stripped) = match self {
            Self::ETHERNET => return Some((frame.to_vec(), original_len)),
            Self::RAW | Self::RAW_BSD => {
                (ethernet_header(SYNTHETIC_DST, SYNTHETIC_SRC, raw_ip_type(frame)), 0)
            }
            Self::IPV4 => (ethernet_header(SYNTHETIC_DST, SYNTHETIC_SRC, ETHERTYPE_IPV4), 0),
            Self::IPV6 => (ethernet_header(SYNTHETIC_DST, SYNTHETIC_SRC, ETHERTYPE_IPV6), 0),
            Self::LINUX_SLL => cooked(frame, &CookedLayout::V1),
            Self::LINUX_SLL2 => cooked(frame, &CookedLayout::V2),
            _ => return None,
        };
        let payload = frame.get(stripped..)?;
        let mut data = Vec::with_capacity(ETHERNET_HEADER_BYTES + payload.len());
        data.extend_from_slice(&header);
        data.extend_from_slice(payload);
        // `stripped` is at most 20 and the header 14 bytes.
        let original_len = original_len.saturating_sub(stripped as u32).saturating_add(header.len() as u32);
        Some((data, original_len))
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

fn ethernet_header(dst: [u8; 6], src: [u8; 6], ethertype: u16) -> [u8; ETHERNET_HEADER_BYTES] {
    let mut header = [0; ETHERNET_HEADER_BYTES];
    header[..6].copy_from_slice(&dst);
    header[6..12].copy_from_slice(&src);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    header
}

fn raw_ip_type(packet: &[u8]) -> u16 {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => ETHERTYPE_IPV4,
        Some(6) => ETHERTYPE_IPV6,
        _ => NO_ETHERTYPE,
    }
}

/// Offsets of the fields of a cooked header.
struct CookedLayout {
    header_bytes: usize,
    /// Two bytes, big-endian.
    protocol: usize,
    /// Least significant byte of the packet type.
    direction: usize,
    /// Least significant byte of the length of the sender's address.
    address_len: usize,
    address: usize,
}

impl CookedLayout {
    const V1: Self = Self { header_bytes: 16, protocol: 14, direction: 1, address_len: 5, address: 6 };
    const V2: Self = Self { header_bytes: 20, protocol: 0, direction: 10, address_len: 11, address: 12 };
}

/// The packet was broadcast.
const DIRECTION_BROADCAST: u8 = 1;

/// The Ethernet header for a cooked frame, and the number of bytes that it replaces.
fn cooked(frame: &[u8], layout: &CookedLayout) -> ([u8; ETHERNET_HEADER_BYTES], usize) {
    let Some(header) = frame.get(..layout.header_bytes) else {
        return (ethernet_header(SYNTHETIC_DST, SYNTHETIC_SRC, NO_ETHERTYPE), 0);
    };
    let dst = if header[layout.direction] == DIRECTION_BROADCAST { [0xff; 6] } else { SYNTHETIC_DST };
    let mut src = SYNTHETIC_SRC;
    if header[layout.address_len] == 6 {
        src.copy_from_slice(&header[layout.address..layout.address + 6]);
    }
    let protocol = u16::from_be_bytes([header[layout.protocol], header[layout.protocol + 1]]);
    let ethertype = if protocol < SMALLEST_ETHERTYPE {
        // 802.3 and 802.2 frames: the field is the length of the payload, which is not in the cooked header.
        (frame.len() - layout.header_bytes).min(1500) as u16
    } else {
        protocol
    };
    (ethernet_header(dst, src, ethertype), layout.header_bytes)
}
