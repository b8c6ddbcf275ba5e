//! The MTU of each external port of a cluster router.

use super::mac::{ExternalPort, PORTS, RouterMac};
use scalebricks_types::{ClusterSize, NodeId};
use std::sync::atomic::{AtomicU16, Ordering};

/// The MTU of Ethernet, bytes from the IP header on.
pub const DEFAULT_MTU: u16 = 1_500;

/// Most bytes of a packet that leaves by each port of each node. Control sets them while input nodes read them. 128
/// bytes per node.
#[derive(Debug)]
pub struct Mtus {
    /// The smallest, so that an input node seldom reads another cell.
    least: AtomicU16,
    cells: Box<[AtomicU16]>,
}

impl Mtus {
    /// [`DEFAULT_MTU`] at all ports.
    pub fn new(size: ClusterSize) -> Self {
        let cells = (0..size.get() * PORTS).map(|_| AtomicU16::new(DEFAULT_MTU)).collect();
        Self { least: AtomicU16::new(DEFAULT_MTU), cells }
    }

    fn cell(&self, node: NodeId, port: ExternalPort) -> Option<&AtomicU16> {
        self.cells.get(node.index() * PORTS + port.index())
    }

    /// Sets the MTU of a port; `false` if there is no such node. Set by one thread at a time.
    pub fn set(&self, node: NodeId, port: ExternalPort, mtu: u16) -> bool {
        let Some(cell) = self.cell(node, port) else { return false };
        cell.store(mtu, Ordering::Relaxed);
        let least = self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)).min();
        self.least.store(least.unwrap_or(DEFAULT_MTU), Ordering::Relaxed);
        true
    }

    /// The MTU of a port, if a packet of this many bytes is longer. Cost: a load, for most packets.
    #[inline(always)]
    pub(crate) fn exceeded(&self, length: u16, target: RouterMac) -> Option<u16> {
        if length > self.least.load(Ordering::Relaxed) { self.over(length, target) } else { None }
    }

    #[inline(never)]
    fn over(&self, length: u16, target: RouterMac) -> Option<u16> {
        let mtu = self.cell(target.output_node, target.port)?.load(Ordering::Relaxed);
        (length > mtu).then_some(mtu)
    }

    /// The smallest MTU of all ports.
    pub fn least(&self) -> u16 {
        self.least.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_limit() {
        let mtus = Mtus::new(ClusterSize::new(2).unwrap());
        let port = |number| ExternalPort::new(number).unwrap();
        let over = |length, node, number| {
            mtus.exceeded(length, RouterMac::new(NodeId::new(node), port(number), 0)).is_some()
        };
        assert!(mtus.set(NodeId::new(1), port(63), 1_280) && !mtus.set(NodeId::new(2), port(0), 9_000));
        assert_eq!([over(1_280, 1, 63), over(1_281, 1, 63), over(1_500, 1, 0)], [false, true, false]);
        assert_eq!([over(1_501, 0, 0), over(9_000, 2, 0), mtus.least() == 1_280], [true, false, true]);
        (0..2).for_each(|node| (0..64).for_each(|at| assert!(mtus.set(NodeId::new(node), port(at), 9_000))));
        assert_eq!([over(9_000, 1, 63), over(9_001, 1, 63)], [false, true]);
    }
}
