//! Columns: values that elements keep beside packets.

use crate::routes::Family;
use scalebricks_flows::Tracked;
use scalebricks_flows::reassembly::Gap;
use scalebricks_flows::tracker::EndCause;
use scalebricks_graph::Column;
use std::net::{Ipv4Addr, Ipv6Addr};

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

/// The same for IPv6: Click's destination IPv6 address annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DstIp6(pub Ipv6Addr);

impl Column for DstIp6 {
    const NAME: &'static str = "destination IPv6 address";
    const POISON: Self = Self(Ipv6Addr::new(0xdead, 0xbeef, 0, 0, 0, 0, 0, 0));
}

/// Marks that an element has located an IPv6 header, as [`IpHeader`] does for IPv4. `l4` is where the fixed header ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip6Header;

impl Column for Ip6Header {
    const NAME: &'static str = "IPv6 header";
    const POISON: Self = Self;
}

/// The flow of a packet: its record, direction and state. The record is the flow's until the flow ends, which another
/// packet of the batch may cause: then its number differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord(pub Option<Tracked>);

impl Column for FlowRecord {
    const NAME: &'static str = "flow";
    const POISON: Self = Self(None);
}

/// The place of a packet's data in its TCP stream. The stream is a direction of a flow: [`FlowRecord`] names both.
///
/// Of each stream, the first packet has `is_first`, and one has `end`, which is the last. Offsets increase without overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPart {
    /// Offset of the first byte of data in the stream; gaps count.
    pub offset: u64,
    /// The bytes that are missing just before.
    pub gap: Option<Gap>,
    /// Whether this is the stream's first packet: a SYN, or the first data of a connection that was picked up.
    pub is_first: bool,
    /// How the stream ends behind this packet: `Closed` by a FIN, or as the flow did.
    pub end: Option<EndCause>,
}

impl Column for StreamPart {
    const NAME: &'static str = "place in a stream";
    const POISON: Self = Self { offset: u64::MAX, gap: None, is_first: true, end: None };
}

/// A column with the address of the next hop.
pub(crate) trait NextAddress: Column {
    /// Its address family.
    type Address: Family;

    /// The address.
    fn address(self) -> Self::Address;

    /// The value with this address.
    fn of(address: Self::Address) -> Self;
}

macro_rules! next_addresses {
    ($($column:ident $address:ident)+) => {
        $(impl NextAddress for $column {
            type Address = $address;

            #[inline(always)]
            fn address(self) -> $address {
                self.0
            }

            #[inline(always)]
            fn of(address: $address) -> Self {
                Self(address)
            }
        })+
    };
}

next_addresses! { DstIp Ipv4Addr DstIp6 Ipv6Addr }
