//! Metadata of each packet.

/// A port of the machine, as numbered by receiving elements. The graph does not interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortId(pub u16);

/// Metadata that travels with every packet: 16 bytes, four packets per cache line.
///
/// Offsets are in bytes from the start of the packet's data. An element that moves the start of the data must correct
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Meta {
    /// Where the network header starts.
    pub l3: u16,
    /// Where the transport header starts.
    pub l4: u16,
    /// Bytes of the network packet, including its header.
    pub length: u16,
    /// The port by which the packet arrived.
    pub port: PortId,
    /// Flags whose meaning elements agree on.
    pub flags: u16,
    /// Click's paint annotation.
    pub paint: u8,
    /// Number of back edges that the packet has passed.
    pub(crate) hops: u8,
    /// A mark whose meaning elements agree on.
    pub mark: u32,
}

const _: () = assert!(size_of::<Meta>() == 16);

impl Meta {
    /// The metadata of a new packet: its port and flags.
    #[inline]
    pub const fn new(port: PortId, flags: u16) -> Self {
        Self { l3: 0, l4: 0, length: 0, port, flags, paint: 0, hops: 0, mark: 0 }
    }

    /// Number of edges back to an earlier element that the packet has passed. At [`HOP_LIMIT`](crate::HOP_LIMIT) it is
    /// dropped.
    pub const fn hops(&self) -> u8 {
        self.hops
    }

    /// Counts a hop for an element that sends packets to another graph; `false` at [`HOP_LIMIT`](crate::HOP_LIMIT): the
    /// packet must be dropped.
    pub const fn hop(&mut self) -> bool {
        self.hops = self.hops.saturating_add(1);
        self.hops < crate::HOP_LIMIT
    }
}
