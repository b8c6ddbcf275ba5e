//! `ClassicVLB`.

use crate::fabric::mesh::Mesh;
use crate::fabric::steer::{steer, steering};
use scalebricks_graph::{Class, Element, Frame, Out, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_types::NodeId;

steering! {
    /// Phase 1 of Valiant load balancing over a full mesh (RouteBricks §3.2): sends each frame to a node drawn uniformly
    /// from all, which sends it to its output node (`MacSwitch`). Drawing this node or the output node means the direct
    /// way. Links of 2R/N carry every admissible traffic matrix; a node handles up to 3R. It reorders flows.
    pub struct ClassicVLB as "ClassicVLB" { mesh: Mesh, }
    params ClassicVLBParams {
        /// Seed of the random choices.
        seed: u64 = 0,
    }
    example { "0", "2", }
    counters {}
    keeps { mesh, }
    mesh mesh
}

/// Chooses the next node of a frame to another node.
fn choose(mesh: &mut Mesh, output: NodeId) -> Option<NodeId> {
    let over = mesh.intermediates(output);
    let drawn = NodeId::new(mesh.below(mesh.size().get()) as u8); // at most 256 nodes
    let is_direct = drawn == mesh.id() || drawn == output;
    if is_direct && mesh.is_up(output) {
        return Some(output);
    }
    if over.contains(drawn) {
        return Some(drawn);
    }
    mesh.draw(over).or_else(|| mesh.is_up(output).then_some(output))
}

impl Class for ClassicVLB {
    fn make(params: ClassicVLBParams) -> Result<Self, String> {
        let ClassicVLBParams { node, nodes, seed } = params;
        Ok(Self { mesh: Mesh::of_numbers(node, nodes, seed)? })
    }
}

impl<P: PacketBuf> Element<P> for ClassicVLB {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mesh = &mut self.mesh;
        let (mut direct, mut spread) = (0, 0);
        steer(batch, frame, out, (mesh.id(), mesh.size()), Self::REFUSALS, |output, _| {
            let next = choose(mesh, output);
            direct += u64::from(next == Some(output));
            spread += u64::from(next.is_some_and(|next| next != output));
            next
        });
        out.count(Self::DIRECT, direct);
        out.count(Self::SPREAD, spread);
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::steer::rig::{self, frame};

    #[test]
    fn frames_spread_evenly_over_all_nodes() {
        let mut rig = rig::mesh("ClassicVLB", &["1", "5"], 5);
        for _ in 0..100 {
            rig.send((0..100).map(|_| frame(3)));
            rig.turn();
        }
        let counts: [usize; 5] = std::array::from_fn(|end| rig.got(end).len());
        assert_eq!((counts.iter().sum::<usize>(), counts[1]), (10_000, 0));
        for (node, expected) in [(0, 2_000), (2, 2_000), (4, 2_000), (3, 4_000)] {
            assert!(counts[node].abs_diff(expected) < 200, "{counts:?}");
        }
        assert_eq!(rig.number("v", "direct"), counts[3] as u64);
        assert_eq!(rig.number("v", "spread"), 10_000 - counts[3] as u64);
        rig.send([frame(1)]);
        rig.turn();
        assert_eq!(rig.got(1), [frame(1)], "it leaves here");
    }

    #[test]
    fn failed_links_are_avoided_and_a_node_without_a_way_is_named() {
        rig::avoids_failed_links("ClassicVLB", &[]);
    }
}
