//! What the graph knows of each packet beside its bytes.

/// A port of the machine, as elements that receive number it. It has no meaning to the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortId(pub u16);

/// What travels with every packet: 16 bytes, four packets a cache line.
///
/// Offsets are in bytes from the start of the packet's data. An element that moves the start of the data corrects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Meta {
    /// Where the network header starts.
    pub l3: u16,
    /// Where the transport header starts.
    pub l4: u16,
    /// Bytes of the network packet, its header included.
    pub length: u16,
    /// Where the packet came in.
    pub port: PortId,
    /// Facts about the packet, by elements' agreement.
    pub flags: u16,
    /// Click's paint annotation.
    pub paint: u8,
    /// Edges back to an earlier element that the packet has passed.
    pub(crate) hops: u8,
    /// A mark for general use, by agreement between elements.
    pub mark: u32,
}

const _: () = assert!(size_of::<Meta>() == 16);

impl Meta {
    /// What is known of a new packet: where it came in, and facts about it.
    #[inline]
    pub const fn new(port: PortId, flags: u16) -> Self {
        Self { l3: 0, l4: 0, length: 0, port, flags, paint: 0, hops: 0, mark: 0 }
    }

    /// Edges back to an earlier element that the packet has passed. At [`HOP_LIMIT`](crate::HOP_LIMIT) it is dropped.
    pub const fn hops(&self) -> u8 {
        self.hops
    }

    /// Counts one more, for an element that sends packets to another graph; `false` at [`HOP_LIMIT`](crate::HOP_LIMIT): the
    /// packet is to be dropped.
    pub const fn hop(&mut self) -> bool {
        self.hops = self.hops.saturating_add(1);
        self.hops < crate::HOP_LIMIT
    }
}
