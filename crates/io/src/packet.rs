//! What the data plane asks of a packet buffer, whoever owns the memory.

use arrayvec::ArrayVec;
use std::ops::Range;

/// Packets a port hands over at once, at the most.
pub const BURST: usize = 32;

/// A burst of packets.
pub type Burst<P> = ArrayVec<P, BURST>;

/// What travels beside a packet's bytes without being in them: lets a test bench follow a packet through the
/// cluster. The data plane never decides anything by it; what it makes of a packet (a fragment) inherits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// The injector's number for the packet.
    pub id: u64,
    /// Crossings of the fabric switch so far.
    pub hops: u8,
    /// 0 for a packet as injected; pieces made of it are numbered from 1.
    pub piece: u8,
}

/// A packet buffer has not the room asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes asked of a packet buffer that has room for {room}")]
pub struct RoomError {
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes there are.
    pub room: usize,
}

/// Where a packet that lies at `bytes` of its buffer lies after [`PacketBuf::reframe`].
///
/// # Errors
/// As there.
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

/// One packet in one contiguous buffer with headroom in front. Dropping it gives the memory back to whoever owns it.
pub trait PacketBuf: Send + Sized {
    /// The bytes of the packet.
    fn data(&self) -> &[u8];

    /// The bytes of the packet, to change.
    fn data_mut(&mut self) -> &mut [u8];

    /// Grows the packet by `len` bytes in front, whose content is unspecified. Cost: no copy.
    ///
    /// # Errors
    /// [`RoomError`] if the headroom is smaller; the packet is unchanged.
    fn prepend(&mut self, len: usize) -> Result<(), RoomError>;

    /// Cuts `len` bytes off the front.
    ///
    /// # Errors
    /// [`RoomError`] if the packet is shorter; it is unchanged.
    fn trim_front(&mut self, len: usize) -> Result<(), RoomError>;

    /// Shortens the packet to `len` bytes; longer than it is, nothing happens.
    fn truncate(&mut self, len: usize);

    /// Keeps the `len` bytes from `start` on, and grows by `front` bytes before them, whose content is unspecified. Cost:
    /// no copy.
    ///
    /// # Errors
    /// [`RoomError`] if those bytes are not there, or the headroom is smaller; the packet is unchanged.
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

/// Where new packets come from.
pub trait PacketSource<P: PacketBuf> {
    /// An empty packet with full headroom, or `None` when the pool is exhausted (which a caller counts).
    fn alloc(&mut self) -> Option<P>;
}
