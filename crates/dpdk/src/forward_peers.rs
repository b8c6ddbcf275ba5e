//! DPDK's example l3fwd, for benchmarks: its inner loop over `rte_lpm` or `rte_fib`.
//!
//! Per burst of up to 32 packets, l3fwd reads the destinations, looks them up, decrements the TTL, writes two MAC addresses
//! per port, and queues each packet for its port until a burst of them can be sent. It trusts the network card for the
//! packet type and the header's checksum, and has one next hop per port.
//!
//! The loop is in C over the library's headers (`dpdk-sys/l3fwd.c`). The example itself is in no Debian package, and has room
//! for 1,024 routes.

use crate::mbuf::Mbuf;
use crate::route_peers::{RteFib, RteLpm};
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{BURST, Burst};

/// Most ports, numbered from 0. Next hops of tables are ports.
pub const PORTS: usize = sys::SB_L3FWD_PORTS as usize;

const _: () = assert!(BURST <= sys::SB_L3FWD_BURST as usize, "a burst fits");

/// Destination and source MAC address of the frames of a port.
pub type Addresses = [u8; 12];

/// The loop, with packets that wait for their ports.
#[derive(Debug)]
pub struct L3fwd(Box<sys::sb_l3fwd>);

// SAFETY: it owns its packets, and pools accept packets from any thread.
unsafe impl Send for L3fwd {}

impl L3fwd {
    /// Without packets. Further ports than [`PORTS`] are ignored.
    pub fn new(ports: &[Addresses]) -> Self {
        let mut state = Box::<sys::sb_l3fwd>::default();
        for (to, from) in state.addresses.iter_mut().zip(ports) {
            to[..from.len()].copy_from_slice(from);
        }
        Self(state)
    }

    /// Marks a packet as IPv4 over Ethernet, as a network card does.
    pub fn mark(packet: &mut Mbuf) {
        // SAFETY: a packet without another owner.
        unsafe { sys::sb_l3fwd_mark(packet.as_ptr()) }
    }

    /// Forwards a burst by `rte_lpm`; packets without a route go to port `from`.
    ///
    /// # Panics
    /// If a port has a burst of packets that was not [taken](Self::take).
    #[inline]
    pub fn lpm(&mut self, table: &RteLpm, burst: &mut Burst<Mbuf>, from: u16) {
        self.check();
        let count = burst.len() as u32;
        // SAFETY: an `Mbuf` is a pointer to one, and the burst gives up its `count` packets. A queue has room for them, as it
        // has less than a burst. Changes of the table need exclusive access.
        unsafe {
            let packets = burst.as_mut_ptr().cast();
            burst.set_len(0);
            sys::sb_l3fwd_lpm(&raw mut *self.0, table.as_ptr(), packets, count, from);
        }
    }

    /// Forwards a burst by `rte_fib`; packets without a route are dropped.
    ///
    /// # Panics
    /// As [`Self::lpm`].
    #[inline]
    pub fn fib(&mut self, table: &RteFib, burst: &mut Burst<Mbuf>) {
        self.check();
        let count = burst.len() as u32;
        // SAFETY: as in `lpm`.
        unsafe {
            let packets = burst.as_mut_ptr().cast();
            burst.set_len(0);
            sys::sb_l3fwd_fib(&raw mut *self.0, table.as_ptr(), packets, count);
        }
    }

    #[inline]
    fn check(&self) {
        let is_full = |queue: &sys::sb_l3fwd_queue| queue.count >= sys::SB_L3FWD_BURST;
        assert!(!self.0.queues.iter().any(is_full), "a port's packets were not taken");
    }

    /// Moves the packets of a port to an empty burst if there are at least `least` of them.
    ///
    /// # Panics
    /// If the burst is not empty, or there is no such port.
    #[inline]
    pub fn take(&mut self, port: usize, least: usize, burst: &mut Burst<Mbuf>) {
        assert!(burst.is_empty(), "the burst has packets");
        let queue = &mut self.0.queues[port];
        let count = queue.count as usize;
        if count < least.max(1) {
            return;
        }
        let moved = count.min(BURST);
        // SAFETY: the queue has `count` packets, which it gives up; an `Mbuf` is a pointer to one, and the burst has room.
        unsafe {
            std::ptr::copy_nonoverlapping(queue.packets.as_ptr(), burst.as_mut_ptr().cast(), moved);
            burst.set_len(moved);
        }
        queue.packets.copy_within(moved..count, 0);
        queue.count = (count - moved) as u32;
    }

    /// Packets that were dropped.
    pub const fn dropped(&self) -> u64 {
        self.0.dropped
    }
}

impl Drop for L3fwd {
    fn drop(&mut self) {
        let mut burst = Burst::new();
        for port in 0..PORTS {
            while self.0.queues[port].count > 0 {
                self.take(port, 1, &mut burst);
                burst.clear();
            }
        }
    }
}
