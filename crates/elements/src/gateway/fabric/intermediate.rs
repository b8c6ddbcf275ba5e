//! VLB: draws the random intermediate node on a packet's path to its handling node.

use crate::fabric::picker::{Picker, scaled};
use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use scalebricks_types::{ClusterSize, NodeId};

/// Draws intermediate nodes for one node.
#[derive(Debug)]
pub(crate) struct IntermediatePicker {
    id: NodeId,
    size: ClusterSize,
    random: Picker,
}

impl IntermediatePicker {
    /// Creates the picker of a node.
    pub(crate) fn new(id: NodeId, size: ClusterSize) -> Self {
        // Nodes must differ, or all would draw the same intermediates.
        let random = Picker::of_node(id.get(), 0);
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
        let drawn = datagram.unwrap_or_else(|| self.random.next());
        let intermediate = scaled(drawn, self.size.get()) as u16;
        match self.size.node(intermediate) {
            Ok(intermediate) if intermediate != node && intermediate != self.id && leads(intermediate) => {
                FabricMac::indirect(intermediate, node, output)
            }
            _ => FabricMac::handling(node, output),
        }
    }
}
