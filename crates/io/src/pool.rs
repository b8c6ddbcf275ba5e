//! Packet buffers on the heap. A pool makes a limited number of buffers, and each returns to it when it is dropped on any
//! thread.

use crate::packet::{PacketBuf, PacketSource, RoomError, Tag, reframed};
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes before a new packet: Ethernet and VLAN (18), outer IPv6 (40), UDP (8), GTP-U with options
/// and a PDU session container (16), and a reserve, in whole cache lines.
pub const HEADROOM_BYTES: usize = 128;

/// Largest packet of a pool: an IPv6 packet of the maximum size without jumbograms, with Ethernet and VLAN headers.
pub const MAX_PACKET_BYTES: usize = 65_575 + 22;

/// Why a pool cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Packets are at most [`MAX_PACKET_BYTES`] long.
    #[error("packets of {0} bytes are over the limit of {MAX_PACKET_BYTES}")]
    PacketTooLarge(usize),
    /// A pool without buffers.
    #[error("a pool needs at least one buffer")]
    Empty,
}

/// A packet with its metadata; the bytes start at a cache line.
#[repr(align(64))]
struct Buffer<D: ?Sized> {
    home: Arc<FreeBuffers>,
    start: u32,
    end: u32,
    tag: Tag,
    bytes: Bytes<D>,
}

#[repr(align(64))]
struct Bytes<D: ?Sized>(D);

type BoxedBuffer = Box<Buffer<[u8]>>;

/// Unused buffers.
struct FreeBuffers {
    unused: ArrayQueue<BoxedBuffer>,
    /// Number of buffers made so far, used or not.
    made: AtomicUsize,
    /// Set when the pool is dropped; returned buffers are then freed.
    closed: AtomicBool,
}

/// A bounded pool of packet buffers of one size. Clones share it. Buffers are created when first needed.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

struct Owner {
    free: Arc<FreeBuffers>,
    make: fn(Arc<FreeBuffers>) -> BoxedBuffer,
    packet_bytes: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = &self.owner.free;
        f.debug_struct("Pool")
            .field("buffers", &free.unused.capacity())
            .field("packet_bytes", &self.owner.packet_bytes)
            .field("unused", &free.unused.len())
            .finish()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Unused buffers refer to the queue that contains them, so it must be emptied, or neither is freed. A buffer pushed
        // before the drain is drained here; a thread that pushes one later sees the flag and drains the queue.
        self.free.closed.store(true, Ordering::SeqCst);
        self.free.drain();
    }
}

impl FreeBuffers {
    fn drain(&self) {
        while self.unused.pop().is_some() {}
    }
}

fn make<const N: usize>(home: Arc<FreeBuffers>) -> BoxedBuffer {
    Box::new(Buffer { home, start: 0, end: 0, tag: Tag::default(), bytes: Bytes([0; N]) })
}

impl Pool {
    /// A pool of up to `buffers` buffers, each for a packet of up to `packet_bytes` bytes and [`HEADROOM_BYTES`]. Buffers
    /// have 2,176, 10,240 or 66,048 bytes.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn new(buffers: usize, packet_bytes: usize) -> Result<Self, PoolError> {
        if buffers == 0 {
            return Err(PoolError::Empty);
        }
        let make = match packet_bytes {
            0..=2_048 => make::<2_176>,
            2_049..=10_112 => make::<10_240>,
            10_113..=MAX_PACKET_BYTES => make::<66_048>,
            _ => return Err(PoolError::PacketTooLarge(packet_bytes)),
        };
        let unused = ArrayQueue::new(buffers);
        let free =
            Arc::new(FreeBuffers { unused, made: AtomicUsize::new(0), closed: AtomicBool::new(false) });
        Ok(Self { owner: Arc::new(Owner { free, make, packet_bytes }) })
    }

    /// The length of the longest packet.
    pub fn packet_bytes(&self) -> usize {
        self.owner.packet_bytes
    }

    /// A packet with these bytes, or `None` if the pool is exhausted or they are too many.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc()?;
        packet.append(bytes).ok()?;
        Some(packet)
    }
}

impl PacketSource<Packet> for Pool {
    fn alloc(&mut self) -> Option<Packet> {
        let free = &self.owner.free;
        let mut buffer = free.unused.pop().or_else(|| {
            let one_more = |made| (made < free.unused.capacity()).then_some(made + 1);
            free.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
            Some((self.owner.make)(Arc::clone(free)))
        })?;
        buffer.start = HEADROOM_BYTES as u32;
        buffer.end = HEADROOM_BYTES as u32;
        buffer.tag = Tag::default();
        Some(Packet(Some(buffer)))
    }
}

/// A packet in a buffer of a [`Pool`]; two words.
pub struct Packet(Option<BoxedBuffer>);

impl Packet {
    fn buffer(&self) -> &Buffer<[u8]> {
        // Only `drop` removes the buffer.
        self.0.as_ref().unwrap_or_else(|| unreachable!("a live packet has its buffer"))
    }

    fn buffer_mut(&mut self) -> &mut Buffer<[u8]> {
        self.0.as_mut().unwrap_or_else(|| unreachable!("a live packet has its buffer"))
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("tag", &self.tag()).field("len", &self.data().len()).finish()
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let Some(buffer) = self.0.take() else { return };
        let home = Arc::clone(&buffer.home);
        // The queue has room for all buffers of the pool, so the push cannot fail; the buffer would then be freed.
        drop(home.unused.push(buffer));
        if home.closed.load(Ordering::SeqCst) {
            home.drain();
        }
    }
}

impl PacketBuf for Packet {
    #[inline]
    fn data(&self) -> &[u8] {
        let b = self.buffer();
        &b.bytes.0[b.start as usize..b.end as usize]
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        let b = self.buffer_mut();
        &mut b.bytes.0[b.start as usize..b.end as usize]
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Result<(), RoomError> {
        let b = self.buffer_mut();
        let room = b.start as usize;
        if len > room {
            return Err(RoomError { asked: len, room });
        }
        b.start -= len as u32;
        Ok(())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> Result<(), RoomError> {
        let b = self.buffer_mut();
        let room = (b.end - b.start) as usize;
        if len > room {
            return Err(RoomError { asked: len, room });
        }
        b.start += len as u32;
        Ok(())
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        let b = self.buffer_mut();
        if len < (b.end - b.start) as usize {
            b.end = b.start + len as u32;
        }
    }

    #[inline]
    fn reframe(&mut self, start: usize, len: usize, front: usize) -> Result<(), RoomError> {
        let b = self.buffer_mut();
        let bytes = reframed(b.start as usize..b.end as usize, start, len, front)?;
        (b.start, b.end) = (bytes.start as u32, bytes.end as u32); // within the buffer
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RoomError> {
        let b = self.buffer_mut();
        let end = b.end as usize;
        let room = b.bytes.0.len() - end;
        if bytes.len() > room {
            return Err(RoomError { asked: bytes.len(), room });
        }
        b.bytes.0[end..end + bytes.len()].copy_from_slice(bytes);
        b.end += bytes.len() as u32;
        Ok(())
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.buffer().tag
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        self.buffer_mut().tag = tag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_bounded_and_gets_its_buffers_back() {
        let mut pool = Pool::new(2, 100).unwrap();
        let (a, b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
        assert!(pool.alloc().is_none());
        drop(a);
        let c = pool.packet(b"again").unwrap();
        assert_eq!(c.data(), b"again");
        assert_eq!(c.tag(), Tag::default());
        assert!(pool.alloc().is_none());
        drop((b, c));
        assert_eq!(pool.owner.free.unused.len(), 2);
    }

    #[test]
    fn packets_outlive_their_pool_and_are_freed() {
        let mut pool = Pool::new(4, 100).unwrap();
        let free = Arc::downgrade(&pool.owner.free);
        let (a, b) = (pool.packet(b"a").unwrap(), pool.packet(b"b").unwrap());
        drop(a);
        drop(pool);
        assert_eq!(b.data(), b"b");
        drop(b);
        assert!(free.upgrade().is_none(), "the queue and its buffers refer to each other");
    }

    #[test]
    fn room_is_checked_at_both_ends() {
        let mut pool = Pool::new(1, 100).unwrap();
        let mut p = pool.packet(&[7; 10]).unwrap();
        assert_eq!(
            p.prepend(HEADROOM_BYTES + 1),
            Err(RoomError { asked: HEADROOM_BYTES + 1, room: HEADROOM_BYTES })
        );
        p.prepend(HEADROOM_BYTES).unwrap();
        assert_eq!(p.data().len(), HEADROOM_BYTES + 10);
        p.trim_front(HEADROOM_BYTES + 4).unwrap();
        assert_eq!(p.data(), &[7; 6]);
        assert_eq!(p.trim_front(7), Err(RoomError { asked: 7, room: 6 }));
        p.truncate(99);
        p.truncate(2);
        p.append(&[1, 2]).unwrap();
        assert_eq!(p.data(), &[7, 7, 1, 2]);
        assert!(p.append(&[0; 4_000]).is_err());
    }

    #[test]
    fn reframing_keeps_a_range_and_adds_a_front() {
        let mut pool = Pool::new(1, 100).unwrap();
        let mut p = pool.packet(&[1, 2, 3, 4, 5, 6]).unwrap();
        p.reframe(2, 3, 1).unwrap();
        assert_eq!(p.data()[1..], [3, 4, 5]);
        for (start, len) in [(0, 5), (4, 1), (5, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(p.reframe(start, len, 0).is_err(), "{start} {len}");
            assert_eq!(p.data()[1..], [3, 4, 5]);
        }
        assert_eq!(
            p.reframe(1, 3, HEADROOM_BYTES + 3),
            Err(RoomError { asked: HEADROOM_BYTES + 3, room: HEADROOM_BYTES + 2 })
        );
        p.reframe(4, 0, HEADROOM_BYTES + 5).unwrap();
        assert_eq!(p.data().len(), HEADROOM_BYTES + 5);
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(Pool::new(0, 1).unwrap_err(), PoolError::Empty);
        let too_large = MAX_PACKET_BYTES + 1;
        assert_eq!(Pool::new(1, too_large).unwrap_err(), PoolError::PacketTooLarge(too_large));
        for len in [0, 2_048, 2_049, 10_112, 10_113, MAX_PACKET_BYTES] {
            let mut pool = Pool::new(1, len).unwrap();
            assert_eq!(pool.packet(&vec![1; len]).unwrap().data().len(), len);
        }
    }
}
