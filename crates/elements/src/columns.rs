//! Columns: values that elements keep beside packets.

use scalebricks_graph::Column;
use std::net::Ipv4Addr;

/// Where the packet goes next: Click's destination IP address annotation. It starts as the packet's destination; a
/// route lookup replaces it by the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DstIp(pub Ipv4Addr);

impl Column for DstIp {
    const NAME: &'static str = "destination address";
    const POISON: Self = Self(Ipv4Addr::new(0xde, 0xad, 0xbe, 0xef));
}

/// Marks that an element has located an IPv4 header: `l3`, `l4` and `length` of [`Meta`](scalebricks_graph::Meta) give
/// its position. The column has no value. An element that reads it still checks every length, since the packet may have
/// been cut since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader;

impl Column for IpHeader {
    const NAME: &'static str = "IP header";
    const POISON: Self = Self;
}
