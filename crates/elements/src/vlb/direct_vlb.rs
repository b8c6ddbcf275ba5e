//! `DirectVLB`.

use crate::fabric::budget::{Budgets, share};
use crate::fabric::mesh::Mesh;
use crate::fabric::steer::{steer, steering};
use crate::shared_names::counters;
use crate::values::Bandwidth;
use scalebricks_graph::{Class, Element, Frame, Out, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_types::NodeId;
use std::time::Duration;

steering! {
    /// Direct Valiant load balancing over a full mesh (RouteBricks §3.2): up to R/N of the traffic for each output node
    /// takes the direct way, the rest a way over another node drawn uniformly. A node handles 2R of near-uniform traffic
    /// and 3R at most. Links need 3R/N: with 2R/N, as in the paper, some admissible traffic matrices do not fit. A
    /// drawn link that this node has filled is replaced by another, at last by the least loaded, or by any if all are
    /// overloaded. It reorders flows.
    pub struct DirectVLB as "DirectVLB" { mesh: Mesh, direct: Budgets, links: Budgets, }
    params DirectVLBParams {
        /// Rate R of all external ports of a node together.
        rate: Bandwidth,
        /// Rate that goes directly to each output node. R/N by default.
        direct: Option<Bandwidth> = None,
        /// Capacity of each link. 3R/N by default.
        link: Option<Bandwidth> = None,
        /// Bytes that may exceed a rate at once.
        burst: u64 = 16_384,
        /// Seed of the random choices.
        seed: u64 = 0,
    }
    example { "0", "2", "10Gbps", }
    counters {
        OVER_BUDGET = counters::OVER_BUDGET,
    }
    keeps { mesh, }
    mesh mesh
}

impl DirectVLB {
    /// The next node of a frame, and whether its link had room.
    fn choose(&mut self, output: NodeId, bytes: usize, now: Duration) -> Option<(NodeId, bool)> {
        let Self { mesh, direct, links } = self;
        let is_up = mesh.is_up(output);
        let over = mesh.intermediates(output);
        let chosen = if is_up && (direct.has_room(output, now) || over.is_empty()) {
            direct.charge(output, now, bytes);
            Some((output, true))
        } else {
            let drawn = mesh.draw(over)?;
            let has_room = |node: &NodeId| links.has_room(*node, now);
            if has_room(&drawn) {
                Some((drawn, true))
            } else {
                let with_room = over.iter().filter(has_room).collect();
                if let Some(node) = mesh.draw(with_room) {
                    Some((node, true))
                } else {
                    let least = over.iter().min_by_key(|&node| links.next(node))?;
                    let is_known = !links.is_exhausted(least, now);
                    Some((if is_known { least } else { drawn }, false))
                }
            }
        };
        if let Some((node, _)) = chosen {
            links.charge(node, now, bytes);
        }
        chosen
    }
}

impl Class for DirectVLB {
    fn make(params: DirectVLBParams) -> Result<Self, String> {
        let DirectVLBParams { node, nodes, rate: Bandwidth(rate), direct, link, burst, seed } = params;
        let mesh = Mesh::of_numbers(node, nodes, seed)?;
        let count = mesh.size().get();
        let direct = direct.map_or_else(|| share(rate, 1, count as u64), u64::from);
        let link = link.map_or_else(|| share(rate, 3, count as u64), u64::from);
        Ok(Self { mesh, direct: Budgets::new(count, direct, burst), links: Budgets::new(count, link, burst) })
    }
}

impl<P: PacketBuf> Element<P> for DirectVLB {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (place, now) = ((self.mesh.id(), self.mesh.size()), out.now());
        let (mut direct, mut spread, mut over_budget) = (0, 0, 0);
        steer(batch, frame, out, place, Self::REFUSALS, |output, bytes| {
            let (node, fits) = self.choose(output, bytes.len(), now)?;
            direct += u64::from(node == output);
            spread += u64::from(node != output);
            over_budget += u64::from(!fits);
            Some(node)
        });
        out.count(Self::DIRECT, direct);
        out.count(Self::SPREAD, spread);
        out.count(Self::OVER_BUDGET, over_budget);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::steer::rig::{self, flow};
    use std::time::Duration;

    /// Sends packets of 1,000 bytes to node 3 at a rate for a second; the bytes by output.
    fn second(args: &[&str], packets_a_ms: u16) -> ([usize; 4], u64) {
        let args = [&["0", "4", "RATE 8000000"], args].concat();
        let mut rig = rig::mesh("DirectVLB", &args, 4);
        let mut bytes = [0; 4];
        for ms in 0..1_000 {
            rig.send((0..packets_a_ms).map(|at| flow(3, at, 1_000)));
            rig.turn_at(Duration::from_millis(ms));
            (0..4).for_each(|end| bytes[end] += rig.got(end).iter().map(Vec::len).sum::<usize>());
        }
        let drops = rig.number("v", "no_neighbour");
        assert_eq!(drops, 0);
        (bytes, rig.number("v", "over_budget"))
    }

    #[test]
    fn a_share_of_the_rate_goes_directly_and_the_rest_is_spread() {
        // R is 8 MB/s, so 2 MB/s go directly.
        let (bytes, over) = second(&[], 2);
        assert_eq!((bytes, over), ([0, 0, 0, 2_000_000], 0));
        let (bytes, over) = second(&[], 8);
        assert!(bytes[3].abs_diff(2_000_000) <= 20_000, "{bytes:?}");
        assert!(
            bytes[1].abs_diff(3_000_000) < 100_000 && bytes[2].abs_diff(3_000_000) < 100_000,
            "{bytes:?}"
        );
        assert_eq!((bytes.iter().sum::<usize>(), over), (8_000_000, 0));
        let (bytes, _) = second(&["DIRECT 4000000"], 8);
        assert!(bytes[3].abs_diff(4_000_000) <= 20_000, "{bytes:?}");
    }

    #[test]
    fn a_full_link_is_replaced_and_nothing_is_dropped() {
        let (bytes, over) = second(&["LINK 2500000"], 8);
        assert_eq!(bytes.iter().sum::<usize>(), 8_000_000);
        assert!(bytes[1].abs_diff(bytes[2]) < 150_000, "{bytes:?}: they share the excess");
        assert!((900..=6_000).contains(&over), "{over} of 6,000 packets, for two links of 2.5 MB/s");
    }

    #[test]
    fn failed_links_are_avoided_and_a_node_without_a_way_is_named() {
        rig::avoids_failed_links("DirectVLB", &["1Mbps"]);
    }
}
