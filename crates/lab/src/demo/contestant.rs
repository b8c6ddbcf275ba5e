//! One architecture at work: a cluster, the packets under way to it, its stopwatch and its audit.

use super::audit::{Audit, CounterMismatch, Left};
use super::config::DemoConfig;
use super::frame::{FrameMaker, MAX_FRAME};
use super::population::Population;
use super::stopwatch::Stopwatch;
use super::traffic::{Direction, MAX_IP_LENGTH, Traffic};
use crate::demo::report::result::{ArchitectureResult, FlowCapacity, Footprint};
use rayon::prelude::*;
use scalebricks_apps::gateway::{Architecture, Cluster, ClusterConfig, ClusterError, FlowSpec, OutsideLinks};
use scalebricks_elements::gateway::{OutputPort, OutsideMacs};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, Tag};
use scalebricks_types::NodeId;

/// Packets in a round: put in, forwarded while the clock runs, taken out. At the IMIX mean of 353 bytes they fill
/// more memory than a last-level cache, as packets from a network would.
pub const ROUND: usize = 32 * 1_024;

/// Frames each pair of nodes can have under way on the fabric.
const FABRIC_CAPACITY: usize = 1_024;

/// The tunnel headers a fragment repeats, and those around the whole, at most.
const OUTER_IP: usize = 20;
const TUNNEL: usize = 44;

/// A contestant could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ContestantError {
    /// No cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No packet buffers.
    #[error("packet buffers: {0}")]
    Pool(#[from] scalebricks_io::PoolError),
    /// A round's packets do not fit.
    #[error(
        "{0} does not take the packets of one round: this is a bug, please report it with the command line"
    )]
    NoRoom(&'static str),
    /// Counters that do not add up.
    #[error(transparent)]
    Counters(#[from] CounterMismatch),
}

/// One architecture at work.
#[derive(Debug)]
pub struct Contestant {
    architecture: Architecture,
    cluster: Cluster,
    pool: Pool,
    macs: Vec<OutsideMacs>,
    makers: Vec<FrameMaker>,
    threads: usize,
    stopwatch: Stopwatch,
    audit: Audit,
}

/// A packet ready to be put in.
struct Prepared {
    node: NodeId,
    from_base_station: bool,
    packet: Packet,
}

impl Contestant {
    /// A cluster with its tables filled.
    ///
    /// # Errors
    /// [`ContestantError`].
    pub fn new(
        architecture: Architecture,
        config: &DemoConfig,
        traffic: &Traffic,
        flows: &[FlowSpec],
    ) -> Result<Self, ContestantError> {
        let pieces = pieces_at_most(usize::from(config.policy.base_station_mtu));
        // The packets themselves, and the fragments of all: more than any mix needs.
        let pool = Pool::new(ROUND * (1 + pieces), MAX_FRAME)?;
        let base_stations = Population::base_stations();
        let cluster_config = ClusterConfig {
            size: config.size,
            architecture,
            gpt: config.gpt,
            policy: config.policy,
            seed: config.hash_seed(),
            base_stations: base_stations.clone(),
            outside_capacity: link_capacity(traffic.population().largest_share()) * pieces,
            fabric_capacity: FABRIC_CAPACITY,
            buffers: pool.clone(),
        };
        let mut cluster = Cluster::new(&cluster_config, flows)?;
        cluster.nodes_mut().iter_mut().for_each(scalebricks_apps::gateway::Node::list_drops);
        let macs = cluster.links_mut().iter().map(|link| link.macs).collect();
        let gateway = config.policy.gateway_address;
        let makers = (0..config.threads).map(|_| FrameMaker::new(traffic.seed(), gateway)).collect();
        let audit = Audit::new(config.threads, traffic, gateway, config.size, base_stations);
        Ok(Self {
            architecture,
            cluster,
            pool,
            macs,
            makers,
            threads: config.threads,
            stopwatch: Stopwatch::default(),
            audit,
        })
    }

    /// Which architecture.
    pub const fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Million packets a second so far.
    pub fn mpps(&self) -> f64 {
        self.stopwatch.speed().overall
    }

    /// One round: packets `first` and following. Only the forwarding is timed, and that not in a warm-up.
    ///
    /// # Errors
    /// [`ContestantError::NoRoom`] if a ring or the pool is too small, which is a bug.
    pub fn round(
        &mut self,
        traffic: &Traffic,
        first: u64,
        packets: usize,
        slice: Option<usize>,
    ) -> Result<(), ContestantError> {
        let prepared = self.prepare(traffic, first, packets)?;
        let links = self.cluster.links_mut();
        for Prepared { node, from_base_station, packet } in prepared {
            let link = &mut links[node.index()];
            let port = if from_base_station { &mut link.base_station } else { &mut link.internet };
            port.send(packet).map_err(|_| ContestantError::NoRoom("an outside link"))?;
        }
        let time = self.cluster.run_until_idle(self.threads);
        if let Some(slice) = slice {
            self.stopwatch.add(slice, packets as u64, time);
        }
        let left = drain(self.cluster.links_mut());
        let nodes = self.cluster.nodes_mut().iter_mut();
        let dropped: Vec<_> = nodes.flat_map(scalebricks_apps::gateway::Node::take_drops).collect();
        self.audit.round(traffic, first, packets, &left, &dropped);
        Ok(())
    }

    /// Everything that was found, once all packets are through.
    ///
    /// # Errors
    /// [`ContestantError::Counters`] if the nodes' flow counters contradict the ledger.
    pub fn finish(
        self,
        flows_per_node: &[u64],
        capacity: FlowCapacity,
    ) -> Result<ArchitectureResult, ContestantError> {
        self.audit.compare_counters(self.architecture.name(), &self.cluster, flows_per_node)?;
        let (totals, speed) = (self.audit.totals(), self.stopwatch.speed());
        Ok(ArchitectureResult::new(self.architecture, Footprint::of(&self.cluster), &totals, speed, capacity))
    }

    /// Makes the packets of a round, on all threads, in order.
    fn prepare(
        &mut self,
        traffic: &Traffic,
        first: u64,
        packets: usize,
    ) -> Result<Vec<Prepared>, ContestantError> {
        let share = packets.div_ceil(self.makers.len());
        let (pool, macs) = (&self.pool, &self.macs);
        let shares: Vec<Option<Vec<Prepared>>> = self
            .makers
            .par_iter_mut()
            .enumerate()
            .map(|(number, maker)| {
                let mut pool = pool.clone();
                let numbers = (number * share).min(packets)..((number + 1) * share).min(packets);
                numbers.map(|number| prepare_one(traffic, first, number, maker, macs, &mut pool)).collect()
            })
            .collect();
        let shares: Option<Vec<_>> = shares.into_iter().collect();
        Ok(shares.ok_or(ContestantError::NoRoom("the packet pool"))?.into_iter().flatten().collect())
    }
}

fn prepare_one(
    traffic: &Traffic,
    first: u64,
    number: usize,
    maker: &mut FrameMaker,
    macs: &[OutsideMacs],
    pool: &mut Pool,
) -> Option<Prepared> {
    let plan = traffic.plan(first + number as u64);
    let mut packet = pool.packet(maker.frame(&plan, &macs[plan.ingress.index()]))?;
    packet.set_tag(Tag { id: number as u64, hops: 0, piece: 0 });
    let from_base_station = plan.direction != Direction::Downstream;
    Some(Prepared { node: plan.ingress, from_base_station, packet })
}

/// Everything that waits at the far ends of all links.
fn drain(links: &mut [OutsideLinks]) -> Vec<Left> {
    let mut left = Vec::with_capacity(ROUND);
    for (number, link) in links.iter_mut().enumerate() {
        let node = NodeId::new(number as u8); // a cluster has at most 256 nodes
        drain_port(&mut link.internet, &mut left, node, OutputPort::Internet);
        drain_port(&mut link.base_station, &mut left, node, OutputPort::BaseStation);
    }
    left
}

fn drain_port(port: &mut MemoryPort<Packet>, left: &mut Vec<Left>, node: NodeId, output: OutputPort) {
    while let Some(packet) = port.receive() {
        left.push(Left { node, output, packet });
    }
}

/// Pieces the largest packet is cut into at most; 1 if it fits.
fn pieces_at_most(mtu: usize) -> usize {
    let payload = (mtu.saturating_sub(OUTER_IP) / 8 * 8).max(8);
    (MAX_IP_LENGTH + TUNNEL - OUTER_IP).div_ceil(payload)
}

/// Packets one link must hold in a round if a node has this share of all flows: ten standard deviations more than
/// it will have on average, so that it never overflows by chance.
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
