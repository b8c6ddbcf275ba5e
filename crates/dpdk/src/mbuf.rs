//! Packets.

use crate::error::{DpdkError, check};
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{PacketBuf, RoomError, Tag, reframed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// A packet in one buffer, which returns to its pool when dropped.
///
/// It has one segment, and does not share its buffer with other packets: queues drop packets from drivers for which this
/// is not so.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: a packet has one owner, and pools accept packets from any thread.
unsafe impl Send for Mbuf {}

/// The offset of the tag in an mbuf, and the flag in `ol_flags` of mbufs with a tag (0: not registered).
static TAG_OFFSET: AtomicUsize = AtomicUsize::new(0);
static TAG_FLAG: AtomicUsize = AtomicUsize::new(0);

/// Reserves space for tags in mbufs. A flag next to the length shows whether a packet has a tag, so that the second cache
/// line of received packets need not be read.
pub(crate) fn register_tag() -> Result<(), DpdkError> {
    let mut field = sys::rte_mbuf_dynfield {
        size: size_of::<Tag>(),
        align: align_of::<Tag>(),
        ..sys::rte_mbuf_dynfield::default()
    };
    let mut flag = sys::rte_mbuf_dynflag::default();
    let name = c"scalebricks_tag".to_bytes_with_nul();
    for (at, &byte) in name.iter().enumerate() {
        field.name[at] = byte.cast_signed();
        flag.name[at] = byte.cast_signed();
    }
    // SAFETY: DPDK runs; both are only read.
    let (offset, bit) = unsafe {
        (sys::rte_mbuf_dynfield_register(&raw const field), sys::rte_mbuf_dynflag_register(&raw const flag))
    };
    let offset = check(|| "reserving space for tags".to_owned(), offset)?;
    let bit = check(|| "reserving a flag for tags".to_owned(), bit)?;
    TAG_OFFSET.store(offset.unsigned_abs() as usize, Ordering::Relaxed);
    TAG_FLAG.store(1 << bit, Ordering::Relaxed);
    Ok(())
}

impl Mbuf {
    /// # Safety
    /// The packet must have one segment and no other owner.
    pub(crate) const unsafe fn from_raw(packet: NonNull<sys::rte_mbuf>) -> Self {
        Self(packet)
    }

    pub(crate) const fn as_ptr(&self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    #[inline(always)]
    const fn raw(&self) -> &sys::rte_mbuf {
        // SAFETY: this is the only owner of the packet.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    const fn raw_mut(&mut self) -> &mut sys::rte_mbuf {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    /// Whether the packet has one segment, no other owner, and its VLAN tag in its bytes.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        // SAFETY: reads constants.
        let unwanted = unsafe { sys::SB_VLAN_STRIPPED | sys::SB_BUFFER_ELSEWHERE };
        let packet = self.as_ptr();
        // SAFETY: the mbuf exists, and others write only the count, which is read atomically. No reference is created, as
        // the mbuf may be shared.
        let (flags, segments) = unsafe { ((*packet).ol_flags, (*packet).nb_segs) };
        segments == 1 && flags & unwanted == 0 && Self::holders(packet) == 1
    }

    /// Whether no segment has another owner or is outside of its mbuf: it is not a clone, not cloned, and not attached to
    /// memory of an application. The bytes of other packets may not be accessed.
    pub(crate) fn is_own(&self) -> bool {
        let mut segment = self.as_ptr();
        while !segment.is_null() {
            // SAFETY: as in `is_plain`; the list of segments ends with null.
            let (flags, next) = unsafe { ((*segment).ol_flags, (*segment).next) };
            // SAFETY: reads a constant.
            if flags & unsafe { sys::SB_BUFFER_ELSEWHERE } != 0 || Self::holders(segment) != 1 {
                return false;
            }
            segment = next;
        }
        true
    }

    /// The reference count of a segment.
    #[inline(always)]
    fn holders(segment: *mut sys::rte_mbuf) -> u16 {
        // SAFETY: the count is aligned, the mbuf exists, and DPDK changes the count atomically.
        unsafe { AtomicU16::from_ptr(&raw mut (*segment).refcnt) }.load(Ordering::Relaxed)
    }

    /// Makes it [plain](Self::is_plain), if there is room. For packets [without other owners](Self::is_own).
    pub(crate) fn make_plain(&mut self) -> bool {
        // SAFETY: reads a constant.
        let stripped = unsafe { sys::SB_VLAN_STRIPPED };
        if self.raw().nb_segs > 1 && !self.linearize() {
            return false;
        }
        // SAFETY: this is the only owner of the packet, which has one segment.
        self.raw().ol_flags & stripped == 0 || unsafe { sys::sb_vlan_restore(self.as_ptr()) == 0 }
    }

    /// Copies all segments into the first, if there is room.
    pub(crate) fn linearize(&mut self) -> bool {
        // SAFETY: this is the only owner of the packet.
        unsafe { sys::sb_pktmbuf_linearize(self.as_ptr()) == 0 }
    }

    /// Sets the length of the packet and of its only segment.
    #[inline(always)]
    const fn set_len(&mut self, len: u16) {
        let raw = self.raw_mut();
        raw.data_len = len;
        raw.pkt_len = len as u32;
    }
}

impl PacketBuf for Mbuf {
    #[inline]
    fn data(&self) -> &[u8] {
        let raw = self.raw();
        // SAFETY: DPDK and these methods keep `data_off + data_len` within the buffer. Its bytes are initialized: they were
        // mapped with the pool or written by an earlier packet.
        unsafe {
            let start = raw.buf_addr.cast::<u8>().add(raw.data_off.into());
            std::slice::from_raw_parts(start, raw.data_len.into())
        }
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        let raw = self.raw_mut();
        // SAFETY: as above, and this is the only owner.
        unsafe {
            let start = raw.buf_addr.cast::<u8>().add(raw.data_off.into());
            std::slice::from_raw_parts_mut(start, raw.data_len.into())
        }
    }

    #[inline]
    fn prepend(&mut self, len: usize) -> Result<(), RoomError> {
        let raw = self.raw();
        let room = usize::from(raw.data_off);
        let longer = usize::from(raw.data_len) + len;
        if len > room || longer > usize::from(u16::MAX) {
            return Err(RoomError { asked: len, room });
        }
        self.raw_mut().data_off -= len as u16; // at most `room`
        self.set_len(longer as u16);
        Ok(())
    }

    #[inline]
    fn trim_front(&mut self, len: usize) -> Result<(), RoomError> {
        let room = usize::from(self.raw().data_len);
        if len > room {
            return Err(RoomError { asked: len, room });
        }
        self.raw_mut().data_off += len as u16; // at most `room`
        self.set_len((room - len) as u16);
        Ok(())
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        if len < usize::from(self.raw().data_len) {
            self.set_len(len as u16); // less than it was
        }
    }

    #[inline]
    fn reframe(&mut self, start: usize, len: usize, front: usize) -> Result<(), RoomError> {
        let (from, there) = (usize::from(self.raw().data_off), usize::from(self.raw().data_len));
        let bytes = reframed(from..from + there, start, len, front)?;
        let longer =
            u16::try_from(bytes.len()).map_err(|_| RoomError { asked: front, room: from + start })?;
        self.raw_mut().data_off = bytes.start as u16; // at most the offset of a byte of the packet
        self.set_len(longer);
        Ok(())
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) -> Result<(), RoomError> {
        let raw = self.raw();
        let (from, end) = (usize::from(raw.data_len), usize::from(raw.data_off) + usize::from(raw.data_len));
        let room = usize::from(raw.buf_len).saturating_sub(end);
        if bytes.len() > room {
            return Err(RoomError { asked: bytes.len(), room });
        }
        self.set_len((from + bytes.len()) as u16); // within the buffer, whose length is a `u16`
        self.data_mut()[from..].copy_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn tag(&self) -> Tag {
        if self.raw().ol_flags & TAG_FLAG.load(Ordering::Relaxed) as u64 == 0 {
            return Tag::default();
        }
        // SAFETY: DPDK reserved this part of mbufs for tags; the flag shows that one was written.
        unsafe {
            self.0
                .as_ptr()
                .cast::<u8>()
                .add(TAG_OFFSET.load(Ordering::Relaxed))
                .cast::<Tag>()
                .read_unaligned()
        }
    }

    #[inline]
    fn set_tag(&mut self, tag: Tag) {
        // SAFETY: as above.
        unsafe {
            let place = self.0.as_ptr().cast::<u8>().add(TAG_OFFSET.load(Ordering::Relaxed));
            place.cast::<Tag>().write_unaligned(tag);
        }
        self.raw_mut().ol_flags |= TAG_FLAG.load(Ordering::Relaxed) as u64;
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the only owner drops the packet.
        unsafe { sys::sb_pktmbuf_free(self.as_ptr()) }
    }
}
