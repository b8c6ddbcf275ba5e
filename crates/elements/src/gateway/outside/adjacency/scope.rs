//! Which addresses have more than link scope and may be forwarded to.

use std::net::IpAddr;

/// Whether an address is link-local unicast: `fe80::/10` (RFC 4291 §2.5.6) or `169.254.0.0/16` (RFC 3927 §2.1).
#[inline]
pub(crate) const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Whether a router may forward packets to this address.
#[inline]
pub(super) fn is_forwarded(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(dst) => {
            let first = dst.to_bits() >> 24;
            // 0: "this" network; 224 and up: multicast and class E
            first.wrapping_sub(1) < 223 && first != 127 && !is_link_local(IpAddr::V4(dst))
        }
        IpAddr::V6(dst) => {
            let bits = dst.to_bits();
            let multicast = bits >> 120 == 0xff;
            let unspecified_or_loopback = bits < 2;
            !multicast && !is_link_local(IpAddr::V6(dst)) && !unspecified_or_loopback
        }
    }
}
