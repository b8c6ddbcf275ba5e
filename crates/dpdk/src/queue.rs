//! Queues of a port: each for one thread at a time.

use crate::mbuf::Mbuf;
use crate::port::Open;
use scalebricks_dpdk_sys as sys;
use scalebricks_io::{Burst, RxPort, TxPort};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A queue that packets are received from. `Send` and not `Sync`: DPDK forbids two threads at once.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<Open>,
    queue: u16,
    unusable: u64,
    one_thread: PhantomData<Cell<()>>,
}

/// A queue that packets are sent to. `Send` and not `Sync`.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<Open>,
    queue: u16,
    one_thread: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(crate) const fn new(port: Arc<Open>, queue: u16) -> Self {
        Self { port, queue, unusable: 0, one_thread: PhantomData }
    }

    /// Packets dropped because they came in several buffers and had no room in one, or none for the VLAN tag that the
    /// device took off.
    pub const fn unusable(&self) -> u64 {
        self.unusable
    }

    /// Looks at the packets from this place on, that each is in one buffer, as it was on the wire.
    #[cold]
    fn make_plain(&mut self, burst: &mut Burst<Mbuf>, from: usize) {
        for at in (from..burst.len()).rev() {
            if !burst[at].make_plain() {
                burst.remove(at);
                self.unusable += 1;
            }
        }
    }
}

impl RxPort<Mbuf> for RxQueue {
    /// Some drivers give nothing to a burst with room for less than four, or for less than 32: begin with an empty one.
    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let (from, room) = (burst.len(), burst.remaining_capacity());
        // SAFETY: an `Mbuf` is a pointer to one; there is room for so many behind the burst's end, and the burst has those
        // that came. They are ours alone: a driver hands over packets that it has no more, with a count of one. The
        // port is started as long as `self.port` is there, and this is the only thread at this queue.
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
    pub(crate) const fn new(port: Arc<Open>, queue: u16) -> Self {
        Self { port, queue, one_thread: PhantomData }
    }
}

impl TxPort<Mbuf> for TxQueue {
    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        let count = burst.len();
        // SAFETY: an `Mbuf` is a pointer to one. The first `sent` are the driver's from then on: the burst forgets them
        // without dropping them, and keeps the others. Port and thread as in `rx_burst`.
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
