//! What elements know of packets beside their bytes.

use scalebricks_graph::Column;
use std::net::Ipv4Addr;

/// Where the packet is to go next: Click's destination IP address annotation. At first it is the packet's destination; a
/// route lookup puts the gateway in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DstIp(pub Ipv4Addr);

impl Column for DstIp {
    const NAME: &'static str = "destination address";
    const POISON: Self = Self(Ipv4Addr::new(0xde, 0xad, 0xbe, 0xef));
}

/// That an element has looked for an IPv4 header: `l3`, `l4` and `length` of [`Meta`](scalebricks_graph::Meta) say where
/// it and its packet are. The column has no value. An element that reads it still proves every length, for the packet may
/// have been cut since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader;

impl Column for IpHeader {
    const NAME: &'static str = "IP header";
    const POISON: Self = Self;
}
