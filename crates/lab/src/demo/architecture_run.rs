//! A synthetic run of one architecture: a cluster, the packets that are sent to it, a stopwatch and an audit.

use super::audit::Audit;
use super::config::DemoConfig;
use super::frame::{FrameMaker, MAX_FRAME};
use super::population::Population;
use super::stopwatch::Stopwatch;
use super::synthetic::SyntheticError;
use super::traffic::{Direction, MAX_IP_LENGTH, Traffic};
use crate::demo::report::result::ArchitectureResult;
use crate::memory_cluster::MemoryCluster;
use rayon::prelude::*;
use scalebricks_apps::gateway::{Architecture, FlowSpec};
use scalebricks_elements::gateway::{OutputPort, OutsideMacs};
use scalebricks_io::{Packet, PacketBuf, Pool, Tag};
use scalebricks_types::NodeId;

/// Packets in a round: they are put in, forwarded while the clock runs, and taken out. At the IMIX mean of 353 bytes they are
/// larger than a last-level cache, as packets from a network would be.
pub const ROUND: usize = 32 * 1_024;

/// Frames that each pair of nodes can have in flight on the fabric.
const FABRIC_CAPACITY: usize = 1_024;

/// The outer IP header, which each fragment repeats, and most octets of all tunnel headers.
const OUTER_IP: usize = 20;
const TUNNEL: usize = 44;

/// The run of one architecture.
#[derive(Debug)]
pub struct ArchitectureRun {
    /// Which architecture.
    pub architecture: Architecture,
    cluster: MemoryCluster,
    pool: Pool,
    macs: Vec<OutsideMacs>,
    makers: Vec<FrameMaker>,
    stopwatch: Stopwatch,
    audit: Audit,
}

/// A packet that is ready to be put in.
struct Prepared {
    node: NodeId,
    from: OutputPort,
    packet: Packet,
}

impl ArchitectureRun {
    /// A cluster with its tables filled.
    ///
    /// # Errors
    /// [`SyntheticError`].
    pub fn new(
        architecture: Architecture,
        config: &DemoConfig,
        traffic: &Traffic,
        flows: &[FlowSpec],
    ) -> Result<Self, SyntheticError> {
        let pieces = pieces_at_most(usize::from(config.policy.base_station_mtu));
        // Room for the packets of a round and for all their fragments.
        let pool = Pool::new(ROUND * (1 + pieces), MAX_FRAME)?;
        let base_stations = Population::base_stations();
        let capacities = (link_capacity(traffic.population().largest_share()) * pieces, FABRIC_CAPACITY);
        let mut cluster =
            MemoryCluster::new(config, architecture, flows, base_stations.clone(), capacities, pool.clone())?;
        let maker = FrameMaker::new(traffic.seed(), config.policy.gateway_address);
        Ok(Self {
            architecture,
            macs: cluster.macs(),
            cluster,
            pool,
            makers: vec![maker.clone(); config.threads],
            stopwatch: Stopwatch::default(),
            audit: Audit::new(config.threads, &maker, config.size, base_stations),
        })
    }

    /// Million packets per second so far.
    pub fn mpps(&self) -> f64 {
        self.stopwatch.speed().mpps
    }

    /// One round: packets `first` and following. Only the forwarding is timed, and only if the round belongs to a slice.
    ///
    /// # Errors
    /// [`SyntheticError::NoRoom`] if a ring or the pool is too small, which is a bug.
    pub fn round(
        &mut self,
        traffic: &Traffic,
        first: u64,
        packets: usize,
        slice: Option<usize>,
    ) -> Result<(), SyntheticError> {
        for Prepared { node, from, packet } in self.prepare(traffic, first, packets)? {
            let sent = self.cluster.put_in(node, from, packet);
            sent.ok_or(SyntheticError::NoRoom("an outside link"))?;
        }
        let time = self.cluster.forward();
        if let Some(slice) = slice {
            self.stopwatch.add(slice, packets as u64, time);
        }
        let (left, dropped) = (self.cluster.take_left(), self.cluster.take_drops());
        self.audit.round(traffic, first, packets, &left, &dropped);
        Ok(())
    }

    /// The result, after all packets. `capacity` is the measured and the computed number of flows that fit.
    ///
    /// # Errors
    /// [`SyntheticError::Counters`] if the nodes' flow counters contradict the ledger.
    pub fn finish(
        self,
        flows_per_node: &[u64],
        capacity: (u64, u64),
    ) -> Result<ArchitectureResult, SyntheticError> {
        self.audit.compare_counters(self.architecture.name(), self.cluster.nodes(), flows_per_node)?;
        let (footprint, speed) = (self.cluster.footprint(), self.stopwatch.speed());
        Ok(ArchitectureResult::new(self.architecture, footprint, &self.audit.totals(), speed, capacity))
    }

    /// Builds the packets of a round on all threads, in order.
    fn prepare(
        &mut self,
        traffic: &Traffic,
        first: u64,
        packets: usize,
    ) -> Result<Vec<Prepared>, SyntheticError> {
        let share = packets.div_ceil(self.makers.len());
        let (pool, macs) = (&self.pool, &self.macs);
        let shares = self.makers.par_iter_mut().enumerate().map(|(number, maker)| {
            let mut pool = pool.clone();
            let numbers = (number * share).min(packets)..((number + 1) * share).min(packets);
            let prepare = |number| {
                let plan = traffic.plan(first + number as u64);
                let mut packet = pool.packet(maker.frame(&plan, &macs[plan.ingress.index()]))?;
                packet.set_tag(Tag { id: number as u64, hops: 0, piece: 0 });
                let from = match plan.direction {
                    Direction::Downstream => OutputPort::Internet,
                    Direction::Upstream(_) => OutputPort::BaseStation,
                };
                Some(Prepared { node: plan.ingress, from, packet })
            };
            numbers.map(prepare).collect()
        });
        let shares: Option<Vec<Vec<Prepared>>> = shares.collect();
        Ok(shares.ok_or(SyntheticError::NoRoom("the packet pool"))?.into_iter().flatten().collect())
    }
}

/// Most pieces of the largest packet; 1 if it fits.
fn pieces_at_most(mtu: usize) -> usize {
    let payload = (mtu.saturating_sub(OUTER_IP) / 8 * 8).max(8);
    (MAX_IP_LENGTH + TUNNEL - OUTER_IP).div_ceil(payload)
}

/// Capacity of a link if one node has this share of all flows: ten standard deviations above the mean of a round, so that it never
/// overflows by chance.
fn link_capacity(largest_share: f64) -> usize {
    let expected = ROUND as f64 * largest_share.min(1.0);
    #[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
    let capacity = (expected + 10.0 * expected.sqrt() + 64.0) as usize;
    capacity.min(ROUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_fit_are_one_piece() {
        assert_eq!(pieces_at_most(1_600), 1);
        assert_eq!(pieces_at_most(1_500), 2);
        assert_eq!(pieces_at_most(576), 3);
    }

    #[test]
    fn links_hold_more_than_the_average() {
        assert_eq!(link_capacity(1.0), ROUND);
        assert!(link_capacity(0.25) > ROUND / 4 && link_capacity(0.25) < ROUND / 3);
    }
}
