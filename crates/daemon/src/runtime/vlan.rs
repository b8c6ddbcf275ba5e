//! Ports that share a device by VLAN: frames get the tag when they are sent, and lose it when they are received.

use scalebricks_io::{Burst, PacketBuf, RxPort};
use scalebricks_wire::ethernet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most frames of a VLAN that wait for their worker.
const WAITING: usize = 1_024;

/// Bytes of both addresses of a frame.
const ADDRESSES: usize = 12;

/// Inserts a tag after the addresses; false, without a change, if there is no room for it.
pub fn push<P: PacketBuf>(packet: &mut P, vlan: u16) -> bool {
    if packet.data().len() < ethernet::HEADER_LEN || packet.prepend(ethernet::TAG_LEN).is_err() {
        return false;
    }
    let frame = packet.data_mut();
    frame.copy_within(ethernet::TAG_LEN..ethernet::TAG_LEN + ADDRESSES, 0);
    let [t0, t1] = ethernet::ETHERTYPE_VLAN.to_be_bytes();
    let [v0, v1] = vlan.to_be_bytes();
    frame[ADDRESSES..ADDRESSES + 4].copy_from_slice(&[t0, t1, v0, v1]);
    true
}

/// Removes the tag; returns its VLAN, if there was one.
pub fn pop<P: PacketBuf>(packet: &mut P) -> Option<u16> {
    let frame = packet.data_mut();
    let &[t0, t1, v0, v1] = frame.get(ADDRESSES..)?.first_chunk()?;
    if u16::from_be_bytes([t0, t1]) != ethernet::ETHERTYPE_VLAN {
        return None;
    }
    frame.copy_within(0..ADDRESSES, ethernet::TAG_LEN);
    packet.trim_front(ethernet::TAG_LEN).ok()?;
    Some(u16::from_be_bytes([v0, v1]) & 0x0fff)
}

/// A queue whose frames go to several ports, by VLAN. Frames with another VLAN or none are dropped and counted.
pub struct Demux<P, R> {
    queue: R,
    waiting: Vec<(u16, VecDeque<P>)>,
    dropped: Arc<AtomicU64>,
}

impl<P: PacketBuf, R: RxPort<P>> Demux<P, R> {
    /// Creates a queue that these VLANs share.
    pub fn new(queue: R, vlans: &[u16], dropped: Arc<AtomicU64>) -> Self {
        Self { queue, waiting: vlans.iter().map(|&vlan| (vlan, VecDeque::new())).collect(), dropped }
    }

    /// Moves frames of a VLAN into the burst, as far as they fit; returns their number.
    pub fn take(&mut self, vlan: u16, burst: &mut Burst<P>) -> usize {
        let mut came = Burst::new();
        self.queue.rx_burst(&mut came);
        for mut packet in came {
            let tag = pop(&mut packet);
            match self.waiting.iter_mut().find(|(vlan, _)| Some(*vlan) == tag) {
                Some((_, waiting)) if waiting.len() < WAITING => waiting.push_back(packet),
                _ => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let Some((_, waiting)) = self.waiting.iter_mut().find(|(other, _)| *other == vlan) else { return 0 };
        let moved = burst.remaining_capacity().min(waiting.len());
        burst.extend(waiting.drain(..moved));
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_io::{Packet, Pool, TxPort, memory_port_pair};

    fn frame(pool: &mut Pool, mark: u8) -> Packet {
        let mut bytes = [mark; 60];
        bytes[12..14].copy_from_slice(&[8, 0]);
        pool.packet(&bytes).unwrap()
    }

    #[test]
    fn push_and_pop_restore_the_frame() {
        let mut pool = Pool::new(4, 256).unwrap();
        let mut packet = frame(&mut pool, 7);
        let before = packet.data().to_vec();
        assert_eq!(pop(&mut packet), None);
        assert!(push(&mut packet, 0x123));
        assert_eq!(packet.data()[..12], before[..12]);
        assert_eq!(packet.data()[12..18], [0x81, 0, 0x01, 0x23, 8, 0]);
        assert_eq!(packet.data().len(), 64);
        assert_eq!(pop(&mut packet), Some(0x123));
        assert_eq!(packet.data(), before);
        packet.truncate(13);
        assert!(!push(&mut packet, 1));
        assert_eq!(pop(&mut packet), None);
    }

    #[test]
    fn frames_go_to_the_port_of_their_vlan() {
        let mut pool = Pool::new(16, 256).unwrap();
        let (near, mut far) = memory_port_pair::<Packet>(16);
        let mut sent: Burst<Packet> = (0..6).map(|n| frame(&mut pool, n)).collect();
        for (packet, vlan) in sent.iter_mut().zip([10, 20, 30, 20, 10]) {
            push(packet, vlan);
        }
        assert_eq!(far.tx_burst(&mut sent), 6);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut demux = Demux::new(near, &[10, 20], Arc::clone(&dropped));
        let mut marks = |vlan| {
            let mut burst = Burst::new();
            demux.take(vlan, &mut burst);
            burst.iter().map(|packet: &Packet| packet.data()[0]).collect::<Vec<_>>()
        };
        assert_eq!(marks(20), [1, 3]);
        assert_eq!(marks(20), [0_u8; 0]);
        assert_eq!(marks(10), [0, 4]);
        assert_eq!(dropped.load(Ordering::Relaxed), 2, "another VLAN's, and one without");
    }
}
