//! Ports that receive and send bursts.

use crate::packet::{Burst, PacketBuf};
use rtrb::{Consumer, Producer, RingBuffer};

/// A port to receive from.
pub trait RxPort<P: PacketBuf>: Send {
    /// Adds received packets to the burst until it is full; returns their number. Never blocks.
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize;
}

/// A port to send to.
pub trait TxPort<P: PacketBuf>: Send {
    /// Sends packets from the start of the burst; the others stay in it, in order. Returns the number sent. Never blocks.
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize;
}

/// A port to receive from and send to.
pub trait Port<P: PacketBuf>: RxPort<P> + TxPort<P> {}
impl<P: PacketBuf, T: RxPort<P> + TxPort<P> + ?Sized> Port<P> for T {}

/// An end of a link in memory: two rings, one per direction, each with one producer and one consumer.
#[derive(Debug)]
pub struct MemoryPort<P> {
    rx: Consumer<P>,
    tx: Producer<P>,
}

/// The two ends of a link in memory that holds up to `capacity` packets per direction.
pub fn memory_port_pair<P>(capacity: usize) -> (MemoryPort<P>, MemoryPort<P>) {
    let (a_tx, b_rx) = RingBuffer::new(capacity);
    let (b_tx, a_rx) = RingBuffer::new(capacity);
    (MemoryPort { rx: a_rx, tx: a_tx }, MemoryPort { rx: b_rx, tx: b_tx })
}

impl<P> MemoryPort<P> {
    /// Sends one packet.
    ///
    /// # Errors
    /// Returns the packet if the ring is full.
    pub fn send(&mut self, packet: P) -> Result<(), P> {
        self.tx.push(packet).map_err(|rtrb::PushError::Full(packet)| packet)
    }

    /// Receives one packet, if there is one.
    pub fn receive(&mut self) -> Option<P> {
        self.rx.pop().ok()
    }
}

impl<P: PacketBuf> RxPort<P> for MemoryPort<P> {
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        receive_into(&mut self.rx, burst)
    }
}

impl<P: PacketBuf> TxPort<P> for MemoryPort<P> {
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let wanted = burst.len().min(self.tx.slots());
        match self.tx.write_chunk_uninit(wanted) {
            Ok(chunk) => chunk.fill_from_iter(burst.drain(..wanted)),
            Err(_) => 0, // unreachable: slots() never shrinks under its only producer
        }
    }
}

/// Moves packets from a ring into a burst until it is full.
pub(crate) fn receive_into<P>(ring: &mut Consumer<P>, burst: &mut Burst<P>) -> usize {
    let wanted = burst.remaining_capacity().min(ring.slots());
    match ring.read_chunk(wanted) {
        Ok(chunk) => {
            burst.extend(chunk);
            wanted
        }
        Err(_) => 0, // unreachable: slots() never shrinks under its only consumer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::BURST;
    use crate::pool::{Packet, Pool};

    #[test]
    fn what_does_not_fit_stays_in_order() {
        let mut pool = Pool::new(100, 100).unwrap();
        let (mut near, mut far) = memory_port_pair::<Packet>(20);
        let mut burst: Burst<Packet> = (0..BURST as u8).map(|n| pool.packet(&[n]).unwrap()).collect();
        assert_eq!(near.tx_burst(&mut burst), 20);
        assert_eq!(near.tx_burst(&mut burst), 0);
        assert_eq!(burst.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), (20..32).collect::<Vec<u8>>());
        let mut got = Burst::new();
        assert_eq!(far.rx_burst(&mut got), 20);
        assert_eq!(near.tx_burst(&mut burst), 12);
        assert_eq!(far.rx_burst(&mut got), 12);
        assert_eq!(got.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), (0..32).collect::<Vec<u8>>());
        assert_eq!(far.rx_burst(&mut got), 0, "no room left in the burst");
    }
}
