//! Checks every packet of a round, on several threads: each has a ledger of its own for its share of the numbers.

use super::frame::FrameMaker;
use super::traffic::{Direction, Plan, Traffic};
use crate::ledger::{Expected, Ground, Ledger, Totals};
use rayon::prelude::*;
use scalebricks_apps::gateway::{Cluster, Dropped};
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{BaseStation, DropReason, OutputPort};
use scalebricks_io::{Packet, PacketBuf, Tag};
use scalebricks_types::{ClusterSize, NodeId};
use std::net::Ipv4Addr;

/// A frame that left the cluster, and where.
#[derive(Debug)]
pub struct Left {
    /// The node.
    pub node: NodeId,
    /// Its port.
    pub output: OutputPort,
    /// The frame.
    pub packet: Packet,
}

/// What nodes should have counted for their flows: packets and bytes of the users, per direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSums {
    /// To the UEs.
    pub downstream: [u64; 2],
    /// From the UEs.
    pub upstream: [u64; 2],
}

/// The flow counters of a node do not add up to what left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{architecture}: the flow counters of {node} sum to {counted:?}, but {left:?} packets and bytes left: \
     this is a bug, please report it with the command line"
)]
pub struct CounterMismatch {
    architecture: &'static str,
    node: NodeId,
    counted: FlowSums,
    left: FlowSums,
}

/// Every packet of a synthetic run is sound and belongs to a flow: only too little room may stop it.
const GROUNDS: [Ground; 2] = [Ground::TooBigForLink, Ground::NoRoom];

/// Follows all packets of one cluster.
#[derive(Debug)]
pub struct Audit {
    shares: Vec<Share>,
    base_stations: Vec<BaseStation>,
}

/// One thread's part.
#[derive(Debug)]
struct Share {
    ledger: Ledger,
    maker: FrameMaker,
    sums: Vec<FlowSums>,
}

impl Audit {
    /// An audit on so many threads.
    pub fn new(
        threads: usize,
        traffic: &Traffic,
        gateway: Ipv4Addr,
        size: ClusterSize,
        base_stations: Vec<BaseStation>,
    ) -> Self {
        let share = || Share {
            ledger: Ledger::new(),
            maker: FrameMaker::new(traffic.seed(), gateway),
            sums: vec![FlowSums::default(); size.get()],
        };
        Self { shares: (0..threads.max(1)).map(|_| share()).collect(), base_stations }
    }

    /// Checks a round: packets `first` and following of the traffic, tagged from 0, all of which either left or were
    /// dropped, or are lost.
    pub fn round(
        &mut self,
        traffic: &Traffic,
        first: u64,
        packets: usize,
        left: &[Left],
        dropped: &[Dropped],
    ) {
        let shares = self.shares.len() as u64;
        let base_stations = &self.base_stations;
        self.shares.par_iter_mut().enumerate().for_each(|(number, share)| {
            // This share's packets are number, number + shares, ...: its ledger has them tagged from 0.
            let number = number as u64;
            let own = |tag: Tag| (tag.id % shares == number).then(|| Tag { id: tag.id / shares, ..tag });
            let numbers = (number..packets as u64).step_by(shares as usize);
            share.ledger.begin_round(numbers.map(|at| first + at));
            for frame in left {
                if let Some(tag) = own(frame.packet.tag()) {
                    let plan = traffic.plan(first + tag.id * shares + number);
                    share.left(frame, tag, &plan, base_stations);
                }
            }
            for drop in dropped {
                if let Some(tag) = own(drop.tag) {
                    share.ledger.dropped(&Dropped { tag, ..*drop }, &GROUNDS);
                }
            }
            share.ledger.end_round();
        });
    }

    /// What became of all packets so far.
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        for totals in self.shares.iter().map(|share| share.ledger.totals()) {
            add(&mut all, totals);
        }
        all
    }

    /// Compares the nodes' per-flow counters with what left them. `flows_per_node` tells how many each node has.
    ///
    /// # Errors
    /// [`CounterMismatch`] for the first node that differs.
    pub fn compare_counters(
        &self,
        architecture: &'static str,
        cluster: &Cluster,
        flows_per_node: &[u64],
    ) -> Result<(), CounterMismatch> {
        for (node, &flows) in cluster.nodes().iter().zip(flows_per_node) {
            let mut counted = FlowSums::default();
            for flow in 0..flows as u32 {
                let count = node.counters().read(scalebricks_types::FlowIndex(flow));
                counted += FlowSums {
                    downstream: [count.downstream_packets, count.downstream_bytes],
                    upstream: [count.upstream_packets, count.upstream_bytes],
                };
            }
            let mut left = FlowSums::default();
            for share in &self.shares {
                left += share.sums[node.id().index()];
            }
            // What the last step out refused was counted, but did not leave.
            let dropped = node.stats().dropped;
            let refused = dropped.get(DropReason::PortFull) + dropped.get(DropReason::NoBuffer);
            if counted != left && refused == 0 {
                return Err(CounterMismatch { architecture, node: node.id(), counted, left });
            }
        }
        Ok(())
    }
}

impl Share {
    fn left(&mut self, frame: &Left, tag: Tag, plan: &Plan, base_stations: &[BaseStation]) {
        let flow = &plan.flow;
        let output = match plan.direction {
            Direction::Downstream => OutputPort::BaseStation,
            Direction::Upstream(_) => OutputPort::Internet,
        };
        let station = base_stations.get(usize::from(flow.base_station.0));
        let inner = self.maker.user_packet(plan);
        let expected = Expected {
            node: flow.node,
            output,
            teid: flow.downlink_teid,
            base_station: station.map_or(Ipv4Addr::UNSPECIFIED, |station| station.address),
            qfi: flow.qfi,
            inner,
        };
        self.ledger.left(frame.node, frame.output, tag, frame.packet.data(), &expected);
        // Of a fragmented packet its first piece stands for the whole.
        let counts = tag.piece <= 1 && tag.piece != ICMP_PIECE;
        if let (true, Some(sums)) = (counts, self.sums.get_mut(frame.node.index())) {
            let direction = match output {
                OutputPort::BaseStation => &mut sums.downstream,
                OutputPort::Internet => &mut sums.upstream,
            };
            direction[0] += 1;
            direction[1] += inner.len() as u64;
        }
    }
}

impl std::ops::AddAssign for FlowSums {
    fn add_assign(&mut self, other: Self) {
        for at in 0..2 {
            self.downstream[at] += other.downstream[at];
            self.upstream[at] += other.upstream[at];
        }
    }
}

fn add(all: &mut Totals, more: &Totals) {
    // Named field by field, so that a new one cannot be forgotten here.
    let Totals {
        packets_in,
        packets_out,
        dropped,
        lost,
        misdelivered,
        hops_total,
        hops_max,
        fragments_made,
        packets_fragmented,
        icmp_sent,
        problems,
    } = more;
    all.packets_in += packets_in;
    all.packets_out += packets_out;
    for (&reason, count) in dropped {
        *all.dropped.entry(reason).or_default() += count;
    }
    all.lost += lost;
    all.misdelivered += misdelivered;
    all.hops_total += hops_total;
    all.hops_max = all.hops_max.max(*hops_max);
    all.fragments_made += fragments_made;
    all.packets_fragmented += packets_fragmented;
    all.icmp_sent += icmp_sent;
    all.problems.merge(problems);
}
