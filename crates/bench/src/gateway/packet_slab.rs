//! Packets in one block of memory, as a network card's are: a line of metadata followed by the bytes. No pool
//! is involved and nothing is freed, so that only forwarding is measured. The block lives as long as the
//! process.

use scalebricks_io::{PacketBuf, PacketSource, RoomError, Tag, reframed};

/// Bytes in front of a new packet, as in DPDK.
const HEADROOM: usize = 128;

/// Bytes of a buffer. With its metadata line, neighbours do not map to the same cache lines.
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

/// Empty packets.
pub struct Slab {
    /// The packets.
    pub packets: Vec<SlabPacket>,
}

impl Slab {
    /// Allocates `packets` packets.
    pub fn new(packets: usize) -> Self {
        let start = HEADROOM as u32;
        let make = || Buffer { start, end: start, tag: Tag::default(), bytes: Aligned([0; BYTES]) };
        let block: Vec<Buffer> = std::iter::repeat_with(make).take(packets).collect();
        Self { packets: block.leak().iter_mut().map(SlabPacket).collect() }
    }
}

/// A packet, one word in size.
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

/// A source without packets; no measured packet needs a second buffer.
pub struct NoBuffers;

impl<P: PacketBuf> PacketSource<P> for NoBuffers {
    fn alloc(&mut self) -> Option<P> {
        None
    }
}
