//! Traits for packet buffers, independent of the owner of the memory.

use arrayvec::ArrayVec;
use std::ops::Range;

/// Most packets in a burst.
pub const BURST: usize = 32;

/// A burst of packets.
pub type Burst<P> = ArrayVec<P, BURST>;

/// Metadata of a packet, by which tests follow it through the cluster. The data plane ignores it, except that packets
/// made of a packet (fragments) inherit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// Number of the packet.
    pub id: u64,
    /// Number of times that it passed the fabric switch.
    pub hops: u8,
    /// 0 for the original packet; packets made of it are numbered from 1.
    pub piece: u8,
}

/// A packet buffer has too little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packet buffer needs room for {asked} bytes, but has room for {room}")]
pub struct RoomError {
    /// Number of bytes needed.
    pub asked: usize,
    /// Number of bytes available.
    pub room: usize,
}

/// The range of a packet in its buffer after [`PacketBuf::reframe`], if it was `bytes` before.
///
/// # Errors
/// As [`PacketBuf::reframe`].
#[inline(always)]
pub fn reframed(
    bytes: Range<usize>,
    start: usize,
    len: usize,
    front: usize,
) -> Result<Range<usize>, RoomError> {
    let (end, there) = (start.saturating_add(len), bytes.end - bytes.start);
    if end > there {
        return Err(RoomError { asked: end, room: there });
    }
    let room = bytes.start + start;
    if front > room {
        return Err(RoomError { asked: front, room });
    }
    Ok(room - front..bytes.start + end)
}

/// A packet in a contiguous buffer with headroom before it. Dropping it returns the memory to its owner.
pub trait PacketBuf: Send + Sized {
    /// The bytes of the packet.
    fn data(&self) -> &[u8];

    /// The bytes of the packet, mutable.
    fn data_mut(&mut self) -> &mut [u8];

    /// Adds `len` bytes with unspecified contents at the front. Copies nothing.
    ///
    /// # Errors
    /// [`RoomError`] if the headroom is smaller; the packet is unchanged.
    fn prepend(&mut self, len: usize) -> Result<(), RoomError>;

    /// Removes `len` bytes at the front.
    ///
    /// # Errors
    /// [`RoomError`] if the packet is shorter; it is unchanged.
    fn trim_front(&mut self, len: usize) -> Result<(), RoomError>;

    /// Shortens the packet to `len` bytes, if it is longer.
    fn truncate(&mut self, len: usize);

    /// Keeps the `len` bytes from `start`, and adds `front` bytes with unspecified contents before them. Copies nothing.
    ///
    /// # Errors
    /// [`RoomError`] if the packet is shorter, or the headroom is smaller; the packet is unchanged.
    fn reframe(&mut self, start: usize, len: usize, front: usize) -> Result<(), RoomError>;

    /// Appends bytes at the end.
    ///
    /// # Errors
    /// [`RoomError`] if the tailroom is smaller; the packet is unchanged.
    fn append(&mut self, bytes: &[u8]) -> Result<(), RoomError>;

    /// The tag.
    fn tag(&self) -> Tag;

    /// Sets the tag.
    fn set_tag(&mut self, tag: Tag);
}

/// A source of new packets.
pub trait PacketSource<P: PacketBuf> {
    /// An empty packet with full headroom, or `None` if the pool is exhausted.
    fn alloc(&mut self) -> Option<P>;
}
