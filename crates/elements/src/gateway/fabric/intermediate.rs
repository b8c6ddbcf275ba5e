//! VLB: draws the random intermediate node on a packet's path to its handling node.

use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use scalebricks_types::{ClusterSize, NodeId};

/// Draws intermediate nodes for one node.
#[derive(Debug)]
pub(crate) struct IntermediatePicker {
    id: NodeId,
    size: ClusterSize,
    /// State of the random generator.
    random: u64,
}

impl IntermediatePicker {
    /// Creates the picker of a node.
    pub(crate) fn new(id: NodeId, size: ClusterSize) -> Self {
        // Any odd multiplier works. Nodes must differ, or all would draw the same intermediates.
        let random = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(u64::from(id.get()) * 2 + 1);
        Self { id, size, random }
    }

    /// The path to `node` through an intermediate node drawn uniformly from all nodes. Drawing the ingress or output
    /// node means the direct path, and so does drawing a node that would lose the packet. Fragments of a datagram share
    /// their path, so that none overtakes the first.
    #[inline]
    pub(crate) fn draw(
        &mut self,
        node: NodeId,
        output: OutputPort,
        datagram: Option<u64>,
        leads: impl FnOnce(NodeId) -> bool,
    ) -> FabricMac {
        let drawn = datagram.unwrap_or_else(|| self.next_random());
        let intermediate = ((u128::from(drawn) * self.size.get() as u128) >> 64) as u16;
        match self.size.node(intermediate) {
            Ok(intermediate) if intermediate != node && intermediate != self.id && leads(intermediate) => {
                FabricMac::indirect(intermediate, node, output)
            }
            _ => FabricMac::handling(node, output),
        }
    }

    /// The next number of a Weyl sequence, mixed (`SplitMix64`).
    const fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
