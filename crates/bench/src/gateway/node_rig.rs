//! One node between rings, and the bare loops it is compared with.

use super::flows::{self, HERE};
use super::packet_ring::{ROTATION, Ring};
use super::packet_slab::NoBuffers;
use super::tables::Tables;
use super::traffic::{Arrival, Direction, Exit, Traffic};
use crate::error::BenchError;
use crate::timing;
use scalebricks_apps::gateway::{Node, NodeStats};
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use scalebricks_types::ClusterSize;
use std::sync::Arc;
use std::time::Duration;

/// A node that gets one kind of traffic.
pub struct NodeRig<P: PacketBuf> {
    name: String,
    node: Node<P>,
    ring: Ring<P>,
    traffic: Arc<Traffic>,
}

impl<P: PacketBuf + 'static> NodeRig<P> {
    /// A node with these tables.
    pub fn new(size: ClusterSize, tables: &Tables, ring: &Ring<P>, traffic: &Arc<Traffic>) -> Self {
        let config = flows::node_config(HERE, size);
        let node = Node::new(config, tables.for_worker(0), ring.ports(traffic), Box::new(NoBuffers));
        Self { name: tables.name(), node, ring: ring.clone(), traffic: Arc::clone(traffic) }
    }

    /// The name of its tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends the rotation twice through the node and checks every packet.
    ///
    /// # Errors
    /// [`BenchError::Check`] for the first fault or a lost packet.
    pub fn judge(&mut self) -> Result<(), BenchError> {
        self.ring.send_of(Arc::clone(&self.traffic));
        self.ring.check(|_| ());
        let before = self.node.stats();
        let taken = self.forward(2 * ROTATION as u64);
        let checked = self.ring.checked();
        if let Some(fault) = checked.fault {
            return Err(BenchError::check(&self.name, fault));
        }
        self.is_complete(&before, taken)?;
        if checked.packets as u64 != taken {
            let problem = format!("{} of {taken} packets were received", checked.packets);
            return Err(BenchError::check(&self.name, problem));
        }
        Ok(())
    }

    /// Nanoseconds per packet, with generator and sink.
    ///
    /// # Errors
    /// [`BenchError::Check`] if a packet was lost or took another path than the checked ones.
    pub fn measure(&mut self, packets: u64) -> Result<f64, BenchError> {
        self.ring.send_of(Arc::clone(&self.traffic));
        self.forward(ROTATION as u64);
        let before = self.node.stats();
        let (taken, seconds) = timing::pinned(|| self.forward(packets))?;
        self.is_complete(&before, taken)?;
        Ok(seconds * 1e9 / taken as f64)
    }

    /// Runs the node until it has taken about this many packets; returns how many.
    #[inline(never)] // instructions are counted by its name
    pub fn forward(&mut self, packets: u64) -> u64 {
        let mut taken = 0;
        while taken < packets {
            let moved = self.node.turn(Duration::ZERO);
            if moved == 0 {
                break;
            }
            taken += moved as u64;
        }
        taken
    }

    /// Checks that all packets left exactly once.
    fn is_complete(&self, before: &NodeStats, taken: u64) -> Result<(), BenchError> {
        let out = |stats: &NodeStats| stats.internet_out + stats.base_station_out + stats.fabric_out;
        let stats = self.node.stats();
        let left = out(&stats) - out(before);
        if left != taken || taken == 0 || self.ring.len() != ROTATION {
            let drops: Vec<String> =
                stats.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let problem = format!("{left} of {taken} packets left {HERE}; dropped: {}", drops.join(", "));
            return Err(BenchError::check(&self.name, problem));
        }
        Ok(())
    }
}

/// Loops without a node between the same ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareLoop {
    /// Generator and sink only.
    Ports,
    /// Plain forwarding: reads, swaps and writes the addresses of each frame, like testpmd's `macswap`.
    Forwarding,
}

/// Nanoseconds per packet of such a loop.
///
/// # Errors
/// [`BenchError::Threads`].
pub fn bare_loop<P: PacketBuf + 'static>(
    ring: &Ring<P>,
    traffic: &Arc<Traffic>,
    what: BareLoop,
    packets: u64,
) -> Result<f64, BenchError> {
    ring.send_of(Arc::clone(traffic));
    let (mut rx, mut tx): (Box<dyn RxPort<P>>, Box<dyn TxPort<P>>) =
        (Box::new(ring.port(Exit::Fabric, true)), Box::new(ring.port(Exit::Fabric, true)));
    let mut pass = |packets: u64| {
        let mut passed = 0;
        let mut burst = Burst::new();
        while passed < packets {
            passed += rx.rx_burst(&mut burst) as u64;
            if what == BareLoop::Forwarding {
                burst.iter_mut().for_each(swap_addresses);
            }
            tx.tx_burst(&mut burst);
        }
        passed
    };
    pass(ROTATION as u64);
    let (passed, seconds) = timing::pinned(|| pass(packets))?;
    Ok(seconds * 1e9 / passed as f64)
}

/// Swaps the Ethernet addresses of a frame.
#[inline]
pub(super) fn swap_addresses<P: PacketBuf>(packet: &mut P) {
    if let Some(addresses) = packet.data_mut().first_chunk_mut::<12>() {
        let (to, from) = addresses.split_at_mut(6);
        to.swap_with_slice(from);
    }
}

/// The task of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// Its name in results.
    pub name: &'static str,
    /// The direction.
    pub way: Direction,
    /// Which flows send packets.
    pub whose: super::traffic::FlowSet,
    /// Where they arrive.
    pub arrival: Arrival,
}
