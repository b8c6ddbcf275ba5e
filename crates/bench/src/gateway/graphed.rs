//! A node as a graph of elements, between the same rings.

use super::flows::{self, HERE};
use super::ring::{ROTATION, Ring};
use super::slab::NoBuffers;
use super::tables::Tables;
use super::traffic::Traffic;
use crate::error::BenchError;
use crate::timing;
use scalebricks_dataplane::elements;
use scalebricks_graph::{Ledger, Registry, Worker};
use scalebricks_io::PacketBuf;
use scalebricks_types::ClusterSize;
use std::sync::Arc;
use std::time::Duration;

/// A graph that is given one kind of traffic.
pub struct GraphRig<P: PacketBuf> {
    name: String,
    worker: Worker<P>,
    ring: Ring<P>,
    traffic: Arc<Traffic>,
}

impl<P: PacketBuf + 'static> GraphRig<P> {
    /// A node with these tables.
    ///
    /// # Errors
    /// [`BenchError::Check`] if the elements do not fit each other.
    pub fn new(
        size: ClusterSize,
        tables: &Tables,
        ring: &Ring<P>,
        traffic: &Arc<Traffic>,
    ) -> Result<Self, BenchError> {
        let name = format!("graph of {}", tables.name());
        let config = flows::node_config(HERE, size, tables.spread.architecture());
        let wiring = elements::wiring(&config, tables.for_worker(0), ring.ends(traffic));
        let graph = wiring
            .build(&Registry::new(), &mut Ledger::new())
            .map_err(|errors| BenchError::check(&name, errors.to_string()))?;
        let worker = Worker::new(graph, Box::new(NoBuffers), ());
        Ok(Self { name, worker, ring: ring.clone(), traffic: Arc::clone(traffic) })
    }

    /// What its tables are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends twice the rotation through the graph and judges every packet.
    ///
    /// # Errors
    /// [`BenchError::Check`] for the first fault or a lost packet.
    pub fn judge(&mut self) -> Result<(), BenchError> {
        self.ring.send_of(&self.traffic);
        self.ring.judge();
        let returned = self.forward(2 * ROTATION as u64);
        let (judged, fault) = self.ring.verdict();
        if let Some(fault) = fault {
            return Err(BenchError::check(&self.name, fault));
        }
        self.is_complete()?;
        if judged != returned {
            return Err(BenchError::check(&self.name, format!("{judged} of {returned} packets came back")));
        }
        Ok(())
    }

    /// Nanoseconds a packet, generator and sink included.
    ///
    /// # Errors
    /// [`BenchError::Check`] if a packet was lost.
    pub fn measure(&mut self, packets: u64) -> Result<f64, BenchError> {
        self.ring.send_of(&self.traffic);
        self.forward(ROTATION as u64);
        let (returned, seconds) = timing::pinned(|| self.forward(packets))?;
        self.is_complete()?;
        Ok(seconds * 1e9 / returned as f64)
    }

    /// Turns the worker until so many packets came back, about; how many.
    #[inline(never)] // instructions are counted by its name
    pub fn forward(&mut self, packets: u64) -> u64 {
        let before = self.ring.returned();
        loop {
            let moved = self.worker.turn(Duration::ZERO);
            let returned = self.ring.returned() - before;
            if moved == 0 || returned >= packets {
                return returned;
            }
        }
    }

    fn is_complete(&self) -> Result<(), BenchError> {
        let left = self.ring.len();
        if left == ROTATION {
            return Ok(());
        }
        Err(BenchError::check(&self.name, format!("{left} packets of {ROTATION} are left")))
    }
}
