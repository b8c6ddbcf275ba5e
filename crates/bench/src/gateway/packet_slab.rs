//! Packets in one block of memory, as a network card's are: what a packet is, a line; its octets behind it. No pool is
//! asked and nothing is given back, so that only forwarding is measured. The block is for as long as the process lives.

use scalebricks_io::{PacketBuf, PacketSource, RoomError, Tag, reframed};

/// Octets in front of a new packet, as DPDK has them.
const HEADROOM: usize = 128;

/// Octets of a buffer: with the line in front of it, neither of two neighbours falls on the same lines of a cache.
const BYTES: usize = HEADROOM + 2048;

/// A buffer.
#[repr(C, align(64))]
struct Buffer {
    start: u32,
    end: u32,
    tag: Tag,
    bytes: Aligned,
}

#[repr(align(64))]
struct Aligned([u8; BYTES]);

/// Some packets, empty.
pub struct Slab {
    /// They.
    pub packets: Vec<SlabPacket>,
}

impl Slab {
    /// So many.
    pub fn new(packets: usize) -> Self {
        let start = HEADROOM as u32;
        let make = || Buffer { start, end: start, tag: Tag::default(), bytes: Aligned([0; BYTES]) };
        let block: Vec<Buffer> = std::iter::repeat_with(make).take(packets).collect();
        Self { packets: block.leak().iter_mut().map(SlabPacket).collect() }
    }
}

/// A packet: one word.
pub struct SlabPacket(&'static mut Buffer);

impl PacketBuf for SlabPacket {
    #[inline]
    fn data(&self) -> &[u8] {
        &self.0.bytes.0[self.0.start as usize..self.0.end as usize]
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.0.bytes.0[self.0.start as usize..self.0.end as usize]
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Result<(), RoomError> {
        let room = self.0.start as usize;
        if len > room {
            return Err(RoomError { asked: len, room });
        }
        self.0.start -= len as u32; // at most `room`
        Ok(())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> Result<(), RoomError> {
        let room = (self.0.end - self.0.start) as usize;
        if len > room {
            return Err(RoomError { asked: len, room });
        }
        self.0.start += len as u32; // at most `room`
        Ok(())
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        if len < (self.0.end - self.0.start) as usize {
            self.0.end = self.0.start + len as u32; // less than it was
        }
    }

    #[inline]
    fn reframe(&mut self, start: usize, len: usize, front: usize) -> Result<(), RoomError> {
        let bytes = reframed(self.0.start as usize..self.0.end as usize, start, len, front)?;
        (self.0.start, self.0.end) = (bytes.start as u32, bytes.end as u32); // within the buffer
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RoomError> {
        let end = self.0.end as usize;
        let room = BYTES - end;
        if bytes.len() > room {
            return Err(RoomError { asked: bytes.len(), room });
        }
        self.0.bytes.0[end..end + bytes.len()].copy_from_slice(bytes);
        self.0.end += bytes.len() as u32; // within the buffer
        Ok(())
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.0.tag
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.0.tag = tag;
    }
}

/// A source of no packets: no measured packet needs a second buffer.
pub struct NoBuffers;

impl<P: PacketBuf> PacketSource<P> for NoBuffers {
    fn alloc(&mut self) -> Option<P> {
        None
    }
}
