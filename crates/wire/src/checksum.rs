//! The Internet checksum (RFC 1071): full, with pseudo headers, and incremental (RFC 1624).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A one's complement sum in progress.
///
/// Words are added in native byte order, which RFC 1071 §2 (B) allows, and the sum is swapped once at the end. 64 bits
/// hold the sum of 2^32 words of 32 bits.
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds octets. The length of every piece but the last must be even. Cost: one pass, vectorized by the compiler.
    #[inline]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_ne_bytes(*word));
        }
        let last = match *tail {
            [a] => [a, 0, 0, 0],
            [a, b] => [a, b, 0, 0],
            [a, b, c] => [a, b, c, 0],
            _ => [0; 4],
        };
        self.0 += u64::from(u32::from_ne_bytes(last));
        self
    }

    /// Adds a 16-bit field.
    #[inline]
    pub const fn u16(self, value: u16) -> Self {
        Self(self.0 + value.to_be() as u64)
    }

    /// Adds a 32-bit field.
    #[inline]
    pub const fn u32(self, value: u32) -> Self {
        Self(self.0 + value.to_be() as u64)
    }

    /// The checksum: the complement of the sum, to be stored in network order.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        let mut sum = self.0;
        // 64 → 33 → 18 → 17 → 16 bits: four folds always suffice.
        sum = (sum >> 32) + (sum & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        !u16::from_be(sum as u16) // 16 bits are left
    }
}

/// The checksum of octets; 0 if they contain their own, correct checksum.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// The sum of the IPv4 pseudo header (RFC 768, RFC 9293 §3.1); `len` is that of the upper-layer packet.
#[inline]
pub const fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    Sum::new().u32(src.to_bits()).u32(dst.to_bits()).u16(protocol as u16).u16(len)
}

/// The sum of the IPv6 pseudo header (RFC 8200 §8.1); `len` is that of the upper-layer packet.
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    Sum::new().bytes(&src.octets()).bytes(&dst.octets()).u32(len).u16(u16::from(protocol))
}

/// The checksum of an upper-layer packet, computed with a checksum field of zero; 0 if the field has the correct
/// checksum. `None` if the addresses are of two families or the packet is longer than 65,535 octets.
#[inline]
pub fn upper_layer(src: IpAddr, dst: IpAddr, protocol: u8, packet: &[u8]) -> Option<u16> {
    let len = u16::try_from(packet.len()).ok()?;
    let pseudo = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => pseudo_header_v4(src, dst, protocol, len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo_header_v6(src, dst, protocol, u32::from(len)),
        _ => return None,
    };
    Some(pseudo.bytes(packet).finish())
}

/// A UDP checksum as transmitted: 0xffff for a computed 0, as 0 means "none" (RFC 768).
#[inline]
pub const fn udp(computed: u16) -> u16 {
    if computed == 0 { 0xffff } else { computed }
}

/// The checksum after a 16-bit field changed from `old` to `new`: RFC 1624 equation 3, HC' = ~(~HC + ~m + m').
///
/// Equals a full computation unless all octets are zero.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + (sum & 0xffff)) as u16 // the second fold leaves 16 bits
}
