//! What is known of an endpoint and seldom needed: at the beginning and the end of a connection.

/// Places in the stream of an endpoint, and a count. Apart from its [`Side`](super::Side), so that an expected segment does
/// not touch it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Sequence number of its first octet of data: its initial sequence number + 1, or the first seen.
    pub(super) first: u32,
    /// The sequence number after its FIN; valid with [`FIN`](super::side::FIN).
    pub(super) end: u32,
    /// Segments that carried nothing new.
    pub(super) repeated: u32,
}
