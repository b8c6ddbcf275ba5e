//! Packet buffers on the heap. A pool makes at most as many as it was told to and gets each back when it is dropped,
//! on whatever thread that happens.

use crate::packet::{PacketBuf, PacketSource, RoomError, Tag, reframed};
use crossbeam_queue::ArrayQueue;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes kept free in front of a new packet: Ethernet and VLAN (18), outer IPv6 (40), UDP (8), GTP-U with options
/// and a PDU session container (16), and as much again rounded up to whole cache lines.
pub const HEADROOM_BYTES: usize = 128;

/// Largest packet a pool can be made for: an IPv6 jumbo-free maximum with its Ethernet and VLAN headers.
pub const MAX_PACKET_BYTES: usize = 65_575 + 22;

/// Why a pool could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Packets are at most [`MAX_PACKET_BYTES`] long.
    #[error("packets of {0} bytes are over the limit of {MAX_PACKET_BYTES}")]
    PacketTooLarge(usize),
    /// A pool of no buffers is of no use.
    #[error("a pool needs at least one buffer")]
    Empty,
}

/// One allocation: the bookkeeping and the bytes, the bytes on a cache line of their own.
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

/// The buffers at rest.
struct FreeBuffers {
    at_rest: ArrayQueue<BoxedBuffer>,
    /// Buffers made so far, at rest or out.
    made: AtomicUsize,
    /// Set when the pool is gone: buffers that come back are freed.
    closed: AtomicBool,
}

/// A bounded pool of packet buffers of one size. Clones share it. Buffers are made when first needed.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

struct Owner {
    shelf: Arc<FreeBuffers>,
    make: fn(Arc<FreeBuffers>) -> BoxedBuffer,
    packet_bytes: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shelf = &self.owner.shelf;
        f.debug_struct("Pool")
            .field("buffers", &shelf.at_rest.capacity())
            .field("packet_bytes", &self.owner.packet_bytes)
            .field("at_rest", &shelf.at_rest.len())
            .finish()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Each resting buffer holds its shelf, and the shelf holds the buffer: empty it, or neither is ever freed.
        // A buffer pushed between the flag and the drain is drained; one pushed after sees the flag and drains itself.
        self.shelf.closed.store(true, Ordering::SeqCst);
        self.shelf.drain();
    }
}

impl FreeBuffers {
    fn drain(&self) {
        while self.at_rest.pop().is_some() {}
    }
}

fn make<const N: usize>(home: Arc<FreeBuffers>) -> BoxedBuffer {
    Box::new(Buffer { home, start: 0, end: 0, tag: Tag::default(), bytes: Bytes([0; N]) })
}

impl Pool {
    /// A pool of up to `buffers` buffers, each for a packet of up to `packet_bytes` bytes and [`HEADROOM_BYTES`] in
    /// front. Sizes are rounded up to the next of 2,176, 10,240 and 66,048 bytes a buffer.
    ///
    /// # Errors
    /// [`PoolError`] for no buffers or packets over [`MAX_PACKET_BYTES`].
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
        let at_rest = ArrayQueue::new(buffers);
        let shelf =
            Arc::new(FreeBuffers { at_rest, made: AtomicUsize::new(0), closed: AtomicBool::new(false) });
        Ok(Self { owner: Arc::new(Owner { shelf, make, packet_bytes }) })
    }

    /// Longest packet a buffer was asked to hold.
    pub fn packet_bytes(&self) -> usize {
        self.owner.packet_bytes
    }

    /// A packet of these bytes, or `None` if the pool is exhausted or the bytes are too many for its buffers.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc()?;
        packet.append(bytes).ok()?;
        Some(packet)
    }
}

impl PacketSource<Packet> for Pool {
    fn alloc(&mut self) -> Option<Packet> {
        let shelf = &self.owner.shelf;
        let mut buffer = shelf.at_rest.pop().or_else(|| {
            let one_more = |made| (made < shelf.at_rest.capacity()).then_some(made + 1);
            shelf.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
            Some((self.owner.make)(Arc::clone(shelf)))
        })?;
        buffer.start = HEADROOM_BYTES as u32;
        buffer.end = HEADROOM_BYTES as u32;
        buffer.tag = Tag::default();
        Some(Packet(Some(buffer)))
    }
}

/// A packet in a buffer of a [`Pool`]. Two words; moving it moves no bytes.
pub struct Packet(Option<BoxedBuffer>);

impl Packet {
    fn buffer(&self) -> &Buffer<[u8]> {
        // Only `drop` takes the buffer out.
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
        // The queue has room for every buffer the pool ever made, so the push cannot fail; if it did, the buffer
        // would just be freed.
        drop(home.at_rest.push(buffer));
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
    fn a_pool_makes_no_more_than_it_may_and_gets_all_back() {
        let mut pool = Pool::new(2, 100).unwrap();
        let (a, b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
        assert!(pool.alloc().is_none());
        drop(a);
        let c = pool.packet(b"again").unwrap();
        assert_eq!(c.data(), b"again");
        assert_eq!(c.tag(), Tag::default());
        assert!(pool.alloc().is_none());
        drop((b, c));
        assert_eq!(pool.owner.shelf.at_rest.len(), 2);
    }

    #[test]
    fn packets_outlive_their_pool_and_are_freed() {
        let mut pool = Pool::new(4, 100).unwrap();
        let shelf = Arc::downgrade(&pool.owner.shelf);
        let (a, b) = (pool.packet(b"a").unwrap(), pool.packet(b"b").unwrap());
        drop(a);
        drop(pool);
        assert_eq!(b.data(), b"b");
        drop(b);
        assert!(shelf.upgrade().is_none(), "the shelf and its buffers hold each other");
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
    fn a_packet_is_cut_out_and_given_another_front() {
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
