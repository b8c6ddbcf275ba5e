//! Pools of packets.

use crate::eal::{Eal, text};
use crate::error::{DpdkError, check};
use crate::mbuf::Mbuf;
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{Burst, PacketSource};
use std::ptr::NonNull;

/// How large a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Packets. A power of two less one wastes least.
    pub packets: u32,
    /// Packets that each registered thread keeps at hand; at most 512, and at most two thirds of all.
    pub cache: u32,
    /// Bytes of a buffer behind the headroom.
    pub data_bytes: u16,
}

impl Default for PoolConfig {
    /// 8,191 packets of 2 KiB, 256 in each thread's cache.
    fn default() -> Self {
        Self { packets: 8191, cache: 256, data_bytes: 2048 }
    }
}

/// A pool of packets, which lives as long as the process: packets that may be anywhere lie in it. A copy is the same
/// pool.
#[derive(Debug, Clone, Copy)]
pub struct Pool(NonNull<sys::rte_mempool>);

// SAFETY: a pool is made for many threads: its calls are atomic, or on the calling thread's own cache.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of this name, of which there is one in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, config: &PoolConfig) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let room = config.data_bytes.saturating_add(sys::RTE_PKTMBUF_HEADROOM as u16); // 128
        // SAFETY: DPDK runs; the name lives through the call, and is copied.
        let pool = unsafe {
            let socket = sys::sb_socket_id();
            sys::rte_pktmbuf_pool_create(c_name.as_ptr(), config.packets, config.cache, 0, room, socket)
        };
        let made =
            || format!("making pool '{name}' of {} packets of {} bytes", config.packets, config.data_bytes);
        NonNull::new(pool).map(Self).ok_or_else(|| DpdkError::last(made()))
    }

    pub(crate) const fn as_ptr(self) -> *mut sys::rte_mempool {
        self.0.as_ptr()
    }

    /// Packets that nobody has.
    pub fn available(self) -> u32 {
        // SAFETY: the pool lives as long as the process.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Packets that somebody has: queues, drivers, holders of [`Mbuf`]s.
    pub fn in_use(self) -> u32 {
        // SAFETY: as above.
        unsafe { sys::rte_mempool_in_use_count(self.as_ptr()) }
    }

    /// Fills the burst with empty packets, or adds none if there are not enough.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there are not enough.
    pub fn fill(self, burst: &mut Burst<Mbuf>) -> Result<(), DpdkError> {
        let (from, room) = (burst.len(), burst.remaining_capacity());
        // SAFETY: an `Mbuf` is a pointer to one, and there is room for so many behind the burst's end. Only if all were
        // written does the burst have them.
        unsafe {
            let end = burst.as_mut_ptr().add(from).cast::<*mut sys::rte_mbuf>();
            let done = sys::sb_pktmbuf_alloc_bulk(self.as_ptr(), end, room as u32); // at most `BURST`
            check(|| format!("taking {room} packets from a pool"), done)?;
            burst.set_len(from + room);
        }
        Ok(())
    }
}

impl PacketSource<Mbuf> for Pool {
    fn alloc(&mut self) -> Option<Mbuf> {
        let mut packet = std::ptr::null_mut();
        // SAFETY: room for one.
        let done = unsafe { sys::sb_pktmbuf_alloc_bulk(self.as_ptr(), &raw mut packet, 1) };
        if done < 0 {
            return None;
        }
        // SAFETY: a fresh packet that nobody else has.
        NonNull::new(packet).map(|packet| unsafe { Mbuf::from_raw(packet) })
    }
}
