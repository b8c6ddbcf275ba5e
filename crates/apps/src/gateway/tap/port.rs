//! Where captures look: around ports, and where a node drops packets.

use super::session::Watch;
use super::{Direction, Place};
use crate::gateway::drop_log::DropWatcher;
use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_elements::gateway::role::PortRole;
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};

/// A port whose frames captures see.
#[derive(Debug)]
pub struct Tapped<T> {
    port: T,
    role: PortRole,
    watch: Watch,
}

impl<T> Tapped<T> {
    pub(super) fn new(port: T, role: PortRole, watch: Watch) -> Self {
        Self { port, role, watch }
    }
}

impl<P: PacketBuf, T: RxPort<P>> RxPort<P> for Tapped<T> {
    #[inline]
    fn rx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        let before = burst.len();
        let taken = self.port.rx_burst(burst);
        if !self.watch.running().is_empty() && taken > 0 {
            let (at, place) = (self.watch.now(), Place::Port(self.role, Direction::Received));
            for session in self.watch.same() {
                let copies = burst.iter().skip(before).filter_map(|p| session.copy(at, place, p.data()));
                copies.for_each(|copy| session.push(copy));
            }
        }
        taken
    }
}

impl<P: PacketBuf, T: TxPort<P>> TxPort<P> for Tapped<T> {
    #[inline]
    fn tx_burst(&mut self, burst: &mut Burst<P>) -> usize {
        if self.watch.running().is_empty() {
            return self.port.tx_burst(burst);
        }
        // A frame that was sent is gone, so all are copied before, and the copies of those refused are thrown away.
        let (at, place) = (self.watch.now(), Place::Port(self.role, Direction::Sent));
        let mut copies = Vec::new();
        for (capture, session) in self.watch.same().iter().enumerate() {
            let wanted = burst.iter().enumerate();
            copies.extend(wanted.filter_map(|(n, p)| Some((n, capture, session.copy(at, place, p.data())?))));
        }
        let sent = self.port.tx_burst(burst);
        for (_, capture, copy) in copies.into_iter().filter(|(n, ..)| *n < sent) {
            self.watch.same()[capture].push(copy);
        }
        sent
    }
}

/// Shows captures what a node drops.
#[derive(Debug)]
pub struct DropTap(Watch);

impl DropTap {
    pub(super) fn new(watch: Watch) -> Self {
        Self(watch)
    }
}

impl DropWatcher for DropTap {
    fn dropped(&mut self, frame: &[u8], reason: DropReason) {
        if self.0.running().is_empty() {
            return;
        }
        let at = self.0.now();
        for session in self.0.same() {
            if let Some(copy) = session.copy(at, Place::Dropped(reason), frame) {
                session.push(copy);
            }
        }
    }
}
