//! Checks every packet of a round on several threads. Each thread has a ledger for its share of the packets.

use super::frame::FrameMaker;
use super::synthetic::SyntheticError;
use super::traffic::{Direction, Plan, Traffic};
use crate::ledger::{DropCause, Expected, Ledger, Totals};
use crate::memory_cluster::Left;
use rayon::prelude::*;
use scalebricks_apps::gateway::{Dropped, Node};
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{BaseStation, DropReason, OutputPort};
use scalebricks_io::{Packet, PacketBuf, Tag};
use scalebricks_types::{ClusterSize, FlowIndex};
use std::net::Ipv4Addr;

/// Users' packets and bytes downstream, then packets and bytes upstream.
pub type FlowSums = [u64; 4];

/// Every packet of a synthetic run is well-formed and belongs to a flow, so only lack of room may cause drops.
const CAUSES: [DropCause; 2] = [DropCause::TooBigForLink, DropCause::NoRoom];

/// Follows all packets of one cluster.
#[derive(Debug)]
pub struct Audit {
    shares: Vec<Share>,
    base_stations: Vec<BaseStation>,
}

/// The part of one thread.
#[derive(Debug, Clone)]
struct Share {
    ledger: Ledger,
    maker: FrameMaker,
    /// The sums of each node.
    sums: Vec<FlowSums>,
}

impl Audit {
    /// An audit on so many threads.
    pub fn new(
        threads: usize,
        maker: &FrameMaker,
        size: ClusterSize,
        base_stations: Vec<BaseStation>,
    ) -> Self {
        let (maker, sums) = (maker.clone(), vec![FlowSums::default(); size.get()]);
        Self { shares: vec![Share { ledger: Ledger::new(), maker, sums }; threads.max(1)], base_stations }
    }

    /// Checks a round: packets `first` and following of the traffic, tagged from 0. A packet that neither left nor was dropped is
    /// lost.
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
            // This share has the packets number, number + shares, ...; its ledger has them tagged from 0.
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
                    share.ledger.dropped(&Dropped { tag, ..*drop }, &CAUSES);
                }
            }
            share.ledger.end_round();
        });
    }

    /// The totals of all packets so far.
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        self.shares.iter().for_each(|share| all.add(share.ledger.totals()));
        all
    }

    /// Compares the nodes' counters per flow with the packets that left them.
    ///
    /// # Errors
    /// [`SyntheticError::Counters`] for the first node that differs.
    pub fn compare_counters(
        &self,
        architecture: &'static str,
        nodes: &[Node<Packet>],
        flows_per_node: &[u64],
    ) -> Result<(), SyntheticError> {
        for (node, &flows) in nodes.iter().zip(flows_per_node) {
            let (mut counted, mut left) = (FlowSums::default(), FlowSums::default());
            for count in (0..flows as u32).map(|flow| node.counters().read(FlowIndex(flow))) {
                let down = [count.downstream_packets, count.downstream_bytes];
                add(&mut counted, [down[0], down[1], count.upstream_packets, count.upstream_bytes]);
            }
            self.shares.iter().for_each(|share| add(&mut left, share.sums[node.id().index()]));
            // Packets that the last element refused were counted, but did not leave.
            let dropped = node.stats().dropped;
            let refused = dropped.get(DropReason::PortFull) + dropped.get(DropReason::NoBuffer);
            if counted != left && refused == 0 {
                return Err(SyntheticError::Counters { architecture, node: node.id(), counted, left });
            }
        }
        Ok(())
    }
}

fn add(sums: &mut FlowSums, more: FlowSums) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
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
        // The first fragment of a packet counts for the packet.
        let counts = tag.piece <= 1 && tag.piece != ICMP_PIECE;
        if let (true, Some(sums)) = (counts, self.sums.get_mut(frame.node.index())) {
            let bytes = inner.len() as u64;
            add(sums, if output == OutputPort::BaseStation { [1, bytes, 0, 0] } else { [0, 0, 1, bytes] });
        }
    }
}
