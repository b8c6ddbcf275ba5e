//! Which addresses are of one link, and to which routers forward packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is link-local unicast: `fe80::/10` (RFC 4291 §2.5.6) or `169.254.0.0/16` (RFC 3927 §2.1).
#[inline]
pub const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Whether a router forwards packets to an address: not to groups, nor to addresses of one link or host (RFC 1812
/// §4.2.2.11, §5.3.7; RFC 4291 §2.5, §2.7).
#[inline]
pub const fn is_forwarded(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(dst) => is_forwarded_v4(dst),
        IpAddr::V6(dst) => is_forwarded_v6(dst),
    }
}

/// [`is_forwarded`] of an IPv4 address.
#[inline(always)]
pub const fn is_forwarded_v4(dst: Ipv4Addr) -> bool {
    let first = dst.octets()[0];
    // 0: "this" network; 224 and up: multicast and class E.
    first.wrapping_sub(1) < 223 && first != 127 && !dst.is_link_local()
}

/// [`is_forwarded`] of an IPv6 address.
#[inline(always)]
pub const fn is_forwarded_v6(dst: Ipv6Addr) -> bool {
    let bits = dst.to_bits();
    bits > 1 && bits >> 120 != 0xff && bits >> 118 != 0x3fa // :: and ::1, ff00::/8, fe80::/10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_to_groups_and_to_one_link_are_not_forwarded() {
        for yes in [
            "1.0.0.0",
            "10.0.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.1.1",
            "223.255.255.255",
            "::2",
            "2001:db8::1",
            "fec0::1",
        ] {
            assert!(is_forwarded(yes.parse().unwrap()), "{yes}");
        }
        for no in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!is_forwarded(no.parse().unwrap()), "{no}");
        }
        let link_local = ["169.254.1.1", "fe80::1", "febf::1", "169.253.1.1", "fec0::1"];
        let expected = [true, true, true, false, false];
        assert_eq!(link_local.map(|address| is_link_local(address.parse().unwrap())), expected);
    }
}
