//! Pools of packets.

use crate::eal::{Eal, text};
use crate::error::{DpdkError, check};
use crate::mbuf::Mbuf;
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{Burst, PacketSource};
use std::ptr::NonNull;

/// The size of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of packets; a power of two minus one wastes the least memory.
    pub packets: u32,
    /// Number of packets in each registered thread's cache; at most 512, and at most two thirds of all.
    pub cache: u32,
    /// Size of a buffer without headroom.
    pub data_bytes: u16,
}

impl Default for PoolConfig {
    /// 8,191 packets of 2 KiB, 512 in each thread's cache: a thread that takes bursts from two ports before it sends them
    /// has 256 packets in flight, and beyond the cache each passes the pool's ring, which leads to all packets in turn.
    fn default() -> Self {
        Self { packets: 8191, cache: 512, data_bytes: 2048 }
    }
}

/// A pool of packets, which is never freed, as its packets may be in use anywhere. Copies refer to the same pool.
#[derive(Debug, Clone, Copy)]
pub struct Pool(NonNull<sys::rte_mempool>);

// SAFETY: calls of a pool are atomic, or concern the cache of the calling thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, config: &PoolConfig) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let room = config.data_bytes.saturating_add(sys::RTE_PKTMBUF_HEADROOM as u16); // 128
        // SAFETY: DPDK runs; the name lives until the call returns, and is copied.
        let pool = unsafe {
            let socket = sys::sb_socket_id();
            sys::rte_pktmbuf_pool_create(c_name.as_ptr(), config.packets, config.cache, 0, room, socket)
        };
        let made =
            || format!("creating pool '{name}' of {} packets of {} bytes", config.packets, config.data_bytes);
        NonNull::new(pool).map(Self).ok_or_else(|| DpdkError::last(made()))
    }

    pub(crate) const fn as_ptr(self) -> *mut sys::rte_mempool {
        self.0.as_ptr()
    }

    /// Number of free packets.
    pub fn available(self) -> u32 {
        // SAFETY: the pool is never freed.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Number of packets in use: in queues, drivers and [`Mbuf`]s.
    pub fn in_use(self) -> u32 {
        // SAFETY: as above.
        unsafe { sys::rte_mempool_in_use_count(self.as_ptr()) }
    }

    /// Fills the burst with empty packets, or leaves it if there are not enough.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there are not enough.
    pub fn fill(self, burst: &mut Burst<Mbuf>) -> Result<(), DpdkError> {
        let (from, room) = (burst.len(), burst.remaining_capacity());
        // SAFETY: an `Mbuf` is a pointer to one, and there is room for `room` of them after the end of the burst. Its length
        // is set only if all were written.
        unsafe {
            let end = burst.as_mut_ptr().add(from).cast::<*mut sys::rte_mbuf>();
            let done = sys::sb_pktmbuf_alloc_bulk(self.as_ptr(), end, room as u32); // at most `BURST`
            check(|| format!("allocating {room} packets"), done)?;
            burst.set_len(from + room);
        }
        Ok(())
    }
}

impl PacketSource<Mbuf> for Pool {
    fn alloc(&mut self) -> Option<Mbuf> {
        let mut packet = std::ptr::null_mut();
        // SAFETY: there is room for one.
        let done = unsafe { sys::sb_pktmbuf_alloc_bulk(self.as_ptr(), &raw mut packet, 1) };
        if done < 0 {
            return None;
        }
        // SAFETY: a new packet without another owner.
        NonNull::new(packet).map(|packet| unsafe { Mbuf::from_raw(packet) })
    }
}
