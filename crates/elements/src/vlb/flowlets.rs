//! `Flowlets`.

use crate::fabric::budget::{Budgets, share};
use crate::fabric::flow_hash::flow_hash;
use crate::fabric::flow_table::{Arrival, DELTA, FlowTable};
use crate::fabric::mesh::Mesh;
use crate::fabric::steer::{steer, steering};
use crate::shared_names::counters;
use crate::values::Bandwidth;
use scalebricks_graph::{Class, Element, Frame, Out, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_types::{HashSeed, KeyHasher, NodeId, NodeSet};
use std::time::Duration;

/// Separates flows with one hash that leave at different nodes.
const PER_NODE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Ways to output nodes, and how much each may carry.
#[derive(Debug)]
struct Ways {
    mesh: Mesh,
    /// By output node: what goes there directly.
    direct: Budgets,
    /// By intermediate node: what goes over it.
    via: Budgets,
    /// Half of what may exceed a budget at once.
    half: u64,
}

impl Ways {
    /// Whether a way is up.
    fn is_up(&self, path: NodeId, output: NodeId) -> bool {
        self.mesh.is_up(path) && (path == output || self.mesh.intermediates(output).contains(path))
    }

    fn has_room(&self, path: NodeId, output: NodeId, now: Duration) -> bool {
        if path == output { self.direct.has_room(output, now) } else { self.via.has_room(path, now) }
    }

    fn charge(&mut self, path: NodeId, output: NodeId, now: Duration, bytes: usize) {
        if path == output {
            self.direct.charge(output, now, bytes);
        } else {
            self.via.charge(path, now, bytes);
        }
    }

    /// The intermediate node with the most room, among equals one at random.
    fn roomiest(&mut self, over: NodeSet, now: Duration) -> Option<NodeId> {
        let most = over.iter().map(|node| self.via.left(node, now)).max().filter(|&most| most > 0)?;
        let best = over.iter().filter(|&node| self.via.left(node, now) == most).collect();
        self.mesh.draw(best)
    }

    /// The least loaded way when none has room; any way if all are overloaded.
    fn least_loaded(&mut self, output: NodeId, over: NodeSet, now: Duration) -> Option<NodeId> {
        let direct = self.mesh.is_up(output).then(|| (self.direct.next(output), output));
        let via = over.iter().map(|node| (self.via.next(node), node));
        let (_, least) = via.chain(direct).min()?;
        let budgets = if least == output { &self.direct } else { &self.via };
        if !budgets.is_exhausted(least, now) {
            return Some(least);
        }
        let mut all = over;
        if direct.is_some() {
            all.insert(output);
        }
        self.mesh.draw(all)
    }

    /// A way for a flowlet, and whether it has room. The direct way must have half of its room left: a flowlet that
    /// began earlier may need the other half.
    fn of_flowlet(&mut self, output: NodeId, now: Duration) -> Option<(NodeId, bool)> {
        let over = self.mesh.intermediates(output);
        let direct = if self.mesh.is_up(output) { self.direct.left(output, now) } else { 0 };
        if direct >= self.half {
            return Some((output, true));
        }
        if let Some(node) = self.roomiest(over, now) {
            return Some((node, true));
        }
        if direct > 0 {
            return Some((output, true));
        }
        self.least_loaded(output, over, now).map(|node| (node, false))
    }

    /// A way for one packet: as Direct VLB.
    fn of_packet(&mut self, output: NodeId, now: Duration) -> Option<(NodeId, bool)> {
        if self.mesh.is_up(output) && self.direct.has_room(output, now) {
            return Some((output, true));
        }
        let over = self.mesh.intermediates(output);
        let with_room = over.iter().filter(|&node| self.via.has_room(node, now)).collect();
        match self.mesh.draw(with_room) {
            Some(node) => Some((node, true)),
            None => self.least_loaded(output, over, now).map(|node| (node, false)),
        }
    }
}

/// What happened to the frames of a batch.
#[derive(Debug, Default)]
struct Tally {
    direct: u64,
    spread: u64,
    kept: u64,
    started: u64,
    sprayed: u64,
    over_budget: u64,
    evicted: u64,
}

steering! {
    /// Direct Valiant load balancing that keeps flows in order (RouteBricks §6.1): packets of a flow that follow each
    /// other within DELTA, a flowlet, take one way while its budget has room. A flowlet that does not fit its way is
    /// sprayed packet by packet until a gap longer than DELTA. If no way has room, a packet takes the least loaded:
    /// nothing is dropped. The budgets are token buckets: R/N directly to each output node, and R(N-1)/(N(N-2)) over
    /// each intermediate node, together R for one output node.
    pub struct Flowlets as "Flowlets" { ways: Ways, flows: FlowTable, hasher: KeyHasher, }
    params FlowletsParams {
        /// Rate R of all external ports of a node together.
        rate: Bandwidth,
        /// Budget of the direct way to each output node. R/N by default.
        direct: Option<Bandwidth> = None,
        /// Budget of the ways over each intermediate node. R(N-1)/(N(N-2)) by default.
        via: Option<Bandwidth> = None,
        /// Bytes that may exceed a budget at once. Those of 10 ms at the rate R by default, at least 65,536.
        burst: Option<u64> = None,
        /// The gap after which a flow may change its way.
        delta: Duration = DELTA,
        /// Flows in the table, 24 bytes each; a new flow replaces an idle one.
        flows: usize = 65_536,
        /// Seed of the random choices and of the flow hash, which should be secret.
        seed: u64 = 0,
    }
    example { "0", "2", "10Gbps", }
    counters {
        KEPT = "kept": "Frames that took the way of their flowlet.",
        STARTED = "flowlets": "Flowlets that began.",
        SPRAYED = "sprayed": "Frames of flowlets that did not fit their way.",
        OVER_BUDGET = counters::OVER_BUDGET,
        EVICTED = "evicted": "Flows that lost their entry to another before they were idle.",
    }
    keeps { flows, }
    mesh ways.mesh
}

impl Flowlets {
    /// The next node of a frame.
    fn choose(&mut self, output: NodeId, frame: &[u8], now: Duration, tally: &mut Tally) -> Option<NodeId> {
        let Self { ways, flows, hasher } = self;
        let hash = flow_hash(hasher, frame) ^ PER_NODE.wrapping_mul(u64::from(output.get()) + 1);
        let (flow, arrival) = flows.arrive(hash, now);
        let chosen = if let Arrival::First { evicts } = arrival {
            tally.started += 1;
            tally.evicted += u64::from(evicts);
            let chosen = ways.of_flowlet(output, now);
            if let Some((path, fits)) = chosen {
                (flow.path, flow.is_sprayed) = (path.get(), !fits);
            }
            tally.sprayed += u64::from(flow.is_sprayed);
            chosen
        } else {
            let path = flow.path();
            if !flow.is_sprayed && ways.is_up(path, output) && ways.has_room(path, output, now) {
                tally.kept += 1;
                Some((path, true))
            } else {
                flow.is_sprayed = true;
                tally.sprayed += 1;
                ways.of_packet(output, now)
            }
        };
        let (path, fits) = chosen?;
        ways.charge(path, output, now, frame.len());
        tally.over_budget += u64::from(!fits);
        tally.direct += u64::from(path == output);
        tally.spread += u64::from(path != output);
        Some(path)
    }
}

impl Class for Flowlets {
    fn make(params: FlowletsParams) -> Result<Self, String> {
        let FlowletsParams { node, nodes, rate: Bandwidth(rate), direct, via, burst, delta, flows, seed } =
            params;
        let mesh = Mesh::of_numbers(node, nodes, seed)?;
        let count = mesh.size().get();
        let n = count as u64;
        let direct = direct.map_or_else(|| share(rate, 1, n), u64::from);
        let via = via.map_or_else(|| share(rate, n - 1, n * n.saturating_sub(2).max(1)), u64::from);
        let burst = burst.unwrap_or_else(|| share(rate, 10, 1_000).max(65_536));
        let (direct, via) = (Budgets::new(count, direct, burst), Budgets::new(count, via, burst));
        let hasher = KeyHasher::new(HashSeed::from_u64(seed));
        Ok(Self {
            ways: Ways { mesh, direct, via, half: burst.div_ceil(2) },
            flows: FlowTable::new(flows, delta),
            hasher,
        })
    }
}

impl<P: PacketBuf> Element<P> for Flowlets {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (place, now) = ((self.ways.mesh.id(), self.ways.mesh.size()), out.now());
        let mut tally = Tally::default();
        steer(batch, frame, out, place, Self::REFUSALS, |output, bytes| {
            self.choose(output, bytes, now, &mut tally)
        });
        for (counter, n) in [
            (Self::DIRECT, tally.direct),
            (Self::SPREAD, tally.spread),
            (Self::KEPT, tally.kept),
            (Self::STARTED, tally.started),
            (Self::SPRAYED, tally.sprayed),
            (Self::OVER_BUDGET, tally.over_budget),
            (Self::EVICTED, tally.evicted),
        ] {
            out.count(counter, n);
        }
    }
}

#[cfg(test)]
#[path = "flowlets_tests.rs"]
mod tests;
