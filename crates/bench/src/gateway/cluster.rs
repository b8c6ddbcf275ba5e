//! Whole clusters in memory, with packets offered at a rate.
//!
//! All nodes of a cluster, the generator and the sink take turns on one core. So an additional hop costs
//! exactly its work, and nothing waits for the scheduler. Packets arrive on time whether the cluster keeps up
//! or not (open loop), and a packet that finds its link full is lost. A packet's time runs from when it was
//! due until it is taken from the far end, so it includes the time that a late packet waited to enter the
//! cluster.

use super::flows;
use super::tables::{ExactTable, Placement, TableFactory, Tables};
use crate::error::BenchError;
use crate::timing::Clock;
use scalebricks_apps::gateway::ClusterConfig;
use scalebricks_apps::gateway::cluster::WiredNodes;
use scalebricks_elements::gateway::Policy;
use scalebricks_io::{PacketBuf, Pool, Tag};
use scalebricks_report::stats::percentile;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, NodeId};
use std::time::Duration;

/// Packets that an outside link holds, and each pair of nodes on the fabric.
pub const LINK: usize = 4096;

/// Distinct packets, sent repeatedly.
const FRAMES: u64 = 1 << 14;

/// The result at one rate.
#[derive(Debug)]
pub struct Trial {
    /// Packets offered.
    pub offered: usize,
    /// Sorted nanoseconds of the packets that arrived.
    pub times: Vec<f64>,
}

impl Trial {
    /// Number of lost packets.
    pub const fn lost(&self) -> usize {
        self.offered - self.times.len()
    }

    /// Share of lost packets.
    pub fn lost_share(&self) -> f64 {
        self.lost() as f64 / self.offered.max(1) as f64
    }

    /// Mean time in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64
    }

    /// The time at this quantile.
    pub fn at(&self, share: f64) -> f64 {
        percentile(&self.times, share)
    }
}

/// A cluster of one architecture with one kind of exact table.
pub struct TestCluster {
    name: String,
    tables: Tables,
    wired: WiredNodes,
    pool: Pool,
    frames: Vec<Vec<u8>>,
}

impl std::fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCluster").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TestCluster {
    /// A cluster for this many flows.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a table cannot be filled.
    pub fn new(
        spread: Placement,
        exact: ExactTable,
        count: u64,
        size: ClusterSize,
    ) -> Result<Self, BenchError> {
        let made: Result<Vec<Tables>, BenchError> =
            size.nodes().map(|node| TableFactory::new(count, size, node).tables(spread, exact)).collect();
        let made = made?;
        let tables = made.first().cloned().ok_or_else(|| BenchError::check("cluster", "it has no nodes"))?;
        let name = tables.name();
        let pool = Pool::new(16 * LINK, 128).map_err(|error| BenchError::of(&name, error))?;
        let config = ClusterConfig {
            appliance: None,
            size,
            architecture: spread.architecture(),
            gpt: Structure::SetSep,
            policy: Policy::default(),
            seed: flows::SEED,
            base_stations: flows::base_stations(),
            outside_capacity: LINK,
            fabric_capacity: LINK,
            buffers: pool.clone(),
        };
        let wired = WiredNodes::new(&config, |node: NodeId| made[node.index()].for_worker(0));
        let frames =
            (0..FRAMES).map(|n| super::traffic::downstream_frame(crate::keys::mix(n) % count)).collect();
        Ok(Self { name, tables, wired, pool, frames })
    }

    /// Its name in results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tables of its first node.
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Offers `rate` packets per second for `time`, and waits until no packet moves.
    pub fn offer(&mut self, rate: f64, time: Duration) -> Trial {
        let nodes = self.wired.nodes.len();
        let total = (rate * time.as_secs_f64()).max(1.0);
        let nanoseconds = 1e9 / rate;
        let (mut sent, mut times) = (0.0_f64, Vec::new());
        let (mut number, mut idle) = (0_usize, 0);
        let clock = Clock::chosen();
        let start = clock.now();
        let since = || clock.now().saturating_sub(start).as_nanos() as f64;
        while idle < 2 {
            let now = since();
            while sent < total && sent * nanoseconds <= now {
                self.inject(number, nodes, sent * nanoseconds);
                sent += 1.0;
                number += 1;
            }
            let moved: usize = self.wired.nodes.iter_mut().map(|node| node.turn(Duration::ZERO)).sum();
            let now = since();
            for link in &mut self.wired.links {
                while let Some(packet) = link.base_station.receive() {
                    times.push((now - packet.tag().id as f64).max(0.0));
                }
            }
            idle = if moved == 0 && sent >= total { idle + 1 } else { 0 };
        }
        times.sort_unstable_by(f64::total_cmp);
        Trial { offered: number, times }
    }

    /// Sends a packet into a random node. It is lost if the link is full.
    fn inject(&mut self, number: usize, nodes: usize, due: f64) {
        let frame = &self.frames[number % self.frames.len()];
        let node = crate::keys::mix(number as u64) as usize % nodes;
        let link = &mut self.wired.links[node];
        let Some(mut packet) = self.pool.packet(frame) else { return };
        #[expect(clippy::cast_sign_loss, reason = "a time since the start")]
        packet.set_tag(Tag { id: due as u64, ..Tag::default() });
        let own = link.macs.internet.octets();
        packet.data_mut()[..6].copy_from_slice(&own);
        let _ = link.internet.send(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_slowly_arrives_in_all_architectures() {
        let size = ClusterSize::new(flows::NODES).unwrap();
        for spread in
            [Placement::FullDuplication, Placement::HashPartition, Placement::ScaleBricks, Placement::Vlb]
        {
            for exact in [ExactTable::Chained, ExactTable::Cuckoo] {
                let mut candidate = TestCluster::new(spread, exact, 1000, size).unwrap();
                let trial = candidate.offer(20_000.0, Duration::from_millis(50));
                assert_eq!((trial.lost(), trial.times.len()), (0, 1000), "{}", candidate.name());
                assert!(trial.times.is_sorted() && trial.at(0.5) <= trial.at(1.0));
            }
        }
    }

    #[test]
    fn what_finds_no_room_is_lost() {
        let size = ClusterSize::new(flows::NODES).unwrap();
        let mut candidate = TestCluster::new(Placement::ScaleBricks, ExactTable::Cuckoo, 1000, size).unwrap();
        // More packets at once than all links hold.
        let trial = candidate.offer(1e12, Duration::from_nanos(100));
        assert_eq!(trial.offered, 100_000);
        assert!(trial.lost() > 100_000 - 8 * LINK && !trial.times.is_empty(), "{} lost", trial.lost());
        assert!((trial.lost_share() - trial.lost() as f64 / 1e5).abs() < 1e-9);
    }
}
