//! Queues of a port, each for one thread at a time.

use crate::mbuf::Mbuf;
use crate::port::OpenPort;
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{Burst, RxPort, TxPort};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A queue to receive from. `Send` and not `Sync`, as DPDK forbids two threads at once.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<OpenPort>,
    queue: u16,
    one_thread: PhantomData<Cell<()>>,
}

/// A queue to send to. `Send` and not `Sync`.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<OpenPort>,
    queue: u16,
    one_thread: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(crate) const fn new(port: Arc<OpenPort>, queue: u16) -> Self {
        Self { port, queue, one_thread: PhantomData }
    }

    /// Makes the packets from this index plain, and drops and counts those for which this is not possible.
    #[cold]
    fn make_plain(&self, burst: &mut Burst<Mbuf>, from: usize) {
        for at in (from..burst.len()).rev() {
            let count = if !burst[at].is_own() {
                &self.port.refused.shared
            } else if !burst[at].make_plain() {
                &self.port.refused.unusable
            } else {
                continue;
            };
            count.fetch_add(1, Ordering::Relaxed);
            burst.remove(at);
        }
    }
}

impl RxPort<Mbuf> for RxQueue {
    /// Some drivers return no packets to a burst with room for less than 4 or 32, so the burst should be empty.
    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let (from, room) = (burst.len(), burst.remaining_capacity());
        // SAFETY: an `Mbuf` is a pointer to one, there is room for `room` of them after the end of the burst, and its length
        // grows by those received. Packets with other owners are dropped below, before their bytes are accessed. The port
        // is started while `self.port` exists, and this is the only thread on the queue.
        unsafe {
            let end = burst.as_mut_ptr().add(from).cast::<*mut sys::rte_mbuf>();
            let came = sys::sb_eth_rx_burst(self.port.number(), self.queue, end, room as u16); // at most `BURST`
            burst.set_len(from + usize::from(came).min(room));
        }
        if burst[from..].iter().any(|packet| !packet.is_plain()) {
            self.make_plain(burst, from);
        }
        burst.len() - from
    }
}

impl TxQueue {
    pub(crate) const fn new(port: Arc<OpenPort>, queue: u16) -> Self {
        Self { port, queue, one_thread: PhantomData }
    }
}

impl TxPort<Mbuf> for TxQueue {
    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let count = burst.len();
        // SAFETY: an `Mbuf` is a pointer to one. The first `sent` now belong to the driver, so the burst removes them without
        // dropping them, and keeps the others. Port and thread as in `rx_burst`.
        unsafe {
            let start = burst.as_mut_ptr();
            let sent = sys::sb_eth_tx_burst(self.port.number(), self.queue, start.cast(), count as u16);
            let sent = usize::from(sent).min(count);
            burst.set_len(0);
            std::ptr::copy(start.add(sent), start, count - sent);
            burst.set_len(count - sent);
            sent
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::{Eal, EalConfig, Memory, Pool, PoolConfig, Port, PortConfig};
    use scalebricks_io::{PacketBuf, PacketSource};
    use std::ffi::c_void;
    use std::sync::atomic::AtomicUsize;

    static FREED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn freed(_: *mut c_void, _: *mut c_void) {
        FREED.fetch_add(1, Ordering::Relaxed);
    }

    /// A packet filled with this number.
    fn packet(pool: &mut Pool, number: u8) -> *mut sys::rte_mbuf {
        let mut packet = pool.alloc().unwrap();
        packet.append(&[number; 60]).unwrap();
        std::mem::ManuallyDrop::new(packet).as_ptr()
    }

    /// The ring returns packets as a driver would.
    #[test]
    fn packets_with_other_owners_are_dropped() {
        let memory = Memory::Ordinary { mib: 64 };
        let eal = Eal::start(&EalConfig { memory, ..EalConfig::default() }).unwrap();
        let config = PoolConfig { packets: 1023, cache: 0, ..PoolConfig::default() };
        let mut pool = Pool::new(eal, "refused", &config).unwrap();
        let mut ring = Port::start(eal, "net_ring0", &PortConfig::default(), pool).unwrap();
        let before = pool.in_use();

        let [own, again, cloned, head, tail, chained, shared_tail, outside] =
            std::array::from_fn(|number| packet(&mut pool, number as u8));
        let mut elsewhere = [0xEE_u8; 256];
        let mut info = sys::rte_mbuf_ext_shared_info {
            free_cb: Some(freed),
            fcb_opaque: std::ptr::null_mut(),
            refcnt: 1,
        };
        // SAFETY: packets of this test only, composed as DPDK's functions do; `elsewhere` and `info` live until all packets
        // are back in their pool.
        let mut sent = unsafe {
            let clone = sys::rte_pktmbuf_clone(cloned, pool.as_ptr());
            assert!(!clone.is_null());
            for (first, second) in [(head, tail), (chained, shared_tail)] {
                (*first).next = second;
                (*first).nb_segs = 2;
                (*first).pkt_len += (*second).pkt_len;
            }
            (*shared_tail).refcnt = 2;
            (*outside).buf_addr = elsewhere.as_mut_ptr().cast();
            (*outside).buf_len = 256;
            (*outside).data_off = 0;
            (*outside).shinfo = &raw mut info;
            (*outside).ol_flags |= sys::SB_BUFFER_ELSEWHERE & !(*clone).ol_flags;
            // The clone arrives while its origin exists, and the origin after the clone was dropped.
            [own, clone, chained, outside, head, cloned, again]
        };
        // SAFETY: the ring takes the packets, which are not used here afterwards.
        let went = unsafe {
            sys::sb_eth_tx_burst(ring.tx[0].port.number(), 0, sent.as_mut_ptr(), sent.len() as u16)
        };
        assert_eq!(usize::from(went), sent.len());

        let mut got = Burst::new();
        ring.rx[0].rx_burst(&mut got);
        let whole = |number: u8| vec![number; 60];
        let wanted = [whole(0), [whole(3), whole(4)].concat(), whole(1)];
        assert_eq!(got.iter().map(|packet| packet.data().to_vec()).collect::<Vec<_>>(), wanted);
        let stats = ring.port.stats().unwrap();
        assert_eq!((stats.rx_packets, stats.rx_shared, stats.rx_unusable), (7, 4, 0));
        assert_eq!(FREED.load(Ordering::Relaxed), 1, "the external buffer was released");
        assert_eq!(elsewhere, [0xEE; 256]);
        drop(got);
        assert_eq!(pool.in_use(), before + 1, "all but the one with another owner");
        // SAFETY: as the last owner.
        unsafe { sys::sb_pktmbuf_free(shared_tail) };
        assert_eq!(pool.in_use(), before);
    }
}
