//! What ESP reads of inner packets, and the octet that it changes.

use scalebricks_wire::checksum::update_u16;
use scalebricks_wire::ipv4::Ipv4;
use scalebricks_wire::ipv6::Ipv6;
use scalebricks_wire::{ParseError, esp};
use std::net::IpAddr;

/// An inner packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// DSCP and ECN.
    pub dscp_ecn: u8,
    /// Whether it must not be fragmented: DF is set, or it is IPv6.
    pub dont_fragment: bool,
    /// Its length, without what may follow it.
    pub len: usize,
}

impl Inner {
    /// Reads a packet of either version at the start of `bytes`. Bytes behind it are ignored.
    ///
    /// # Errors
    /// [`ParseError`].
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, ParseError> {
        match bytes.first().ok_or(ParseError::Truncated)? >> 4 {
            4 => {
                let packet = Ipv4::parse(bytes)?;
                Ok(Self {
                    src: packet.src().into(),
                    dst: packet.dst().into(),
                    dscp_ecn: packet.dscp_ecn(),
                    dont_fragment: packet.dont_fragment(),
                    len: packet.total_len(),
                })
            }
            6 => {
                let packet = Ipv6::parse(bytes)?;
                Ok(Self {
                    src: packet.src().into(),
                    dst: packet.dst().into(),
                    dscp_ecn: packet.traffic_class(),
                    dont_fragment: true,
                    len: scalebricks_wire::ipv6::HEADER_LEN + packet.payload_len(),
                })
            }
            _ => Err(ParseError::BadVersion),
        }
    }

    /// Its number as next header of ESP.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        if self.dst.is_ipv4() { esp::INNER_V4 } else { esp::INNER_V6 }
    }
}

/// Changes DSCP and ECN of the packet at the start of `bytes`, and the checksum of IPv4.
pub fn set_dscp_ecn(bytes: &mut [u8], dscp_ecn: u8) {
    match bytes {
        [first, old, rest @ ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *old]);
            *old = dscp_ecn;
            let after = u16::from_be_bytes([*first, dscp_ecn]);
            // The checksum is octets 10 and 11 of the header.
            if let Some(sum) = rest.get_mut(8..10).and_then(|sum| sum.first_chunk_mut::<2>()) {
                *sum = update_u16(u16::from_be_bytes(*sum), before, after).to_be_bytes();
            }
        }
        [first, second, ..] if *first >> 4 == 6 => {
            *first = 0x60 | dscp_ecn >> 4;
            *second = dscp_ecn << 4 | *second & 0xf;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::ipv4_of;
    use scalebricks_wire::ipv6::Ipv6Header;

    #[test]
    fn both_versions_are_read_and_marked() {
        let mut v4 = ipv4_of(|header| header.dscp_ecn = 0x12, b"abc");
        set_dscp_ecn(&mut v4, 0xb9);
        assert_eq!(v4, ipv4_of(|header| header.dscp_ecn = 0xb9, b"abc"));
        let header = Ipv6Header {
            traffic_class: 0x12,
            flow_label: 0xabcde,
            payload_len: 3,
            next_header: 17,
            hop_limit: 9,
            src: [1; 16].into(),
            dst: [2; 16].into(),
        };
        let mut v6 = [&header.to_bytes()[..], b"abcdef"].concat();
        set_dscp_ecn(&mut v6, 0xb9);
        let inner = Inner::read(&v6).unwrap();
        assert_eq!((inner.dscp_ecn, inner.len, inner.next_header()), (0xb9, 43, 41));
        assert_eq!(Ipv6::parse(&v6).unwrap().flow_label(), 0xabcde);
        assert_eq!((Inner::read(&v4).unwrap().len, Inner::read(&v4).unwrap().next_header()), (23, 4));
        for wrong in [&[][..], &[0x55; 40], &v4[..19], &v4[..22], &v6[..42]] {
            assert!(Inner::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
