//! The elements that an element pulls from.

use crate::frame::Frame;
use crate::graph::{Node, PullEdge};
use crate::out::Out;
use crate::passing::go_back;
use crate::slot::SlotList;
use crate::spec::run;
use scalebricks_io::PacketBuf;
use std::fmt;

/// The elements behind the pull inputs of one element.
pub struct Upstream<'a, P> {
    pub(crate) nodes: &'a mut [Node<P>],
    pub(crate) edges: &'a [Option<PullEdge>],
}

impl<P> fmt::Debug for Upstream<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("edges", &self.edges).finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Upstream<'_, P> {
    /// Number of inputs, including push inputs.
    pub fn inputs(&self) -> usize {
        self.edges.len()
    }

    /// Pulls up to `want` packets from the element behind `input`, adds them to `into`, in order, and returns their
    /// number. A push input delivers nothing. `out` is the caller's own. Cost: two moves of an element's node and a
    /// virtual call.
    pub fn pull(
        &mut self,
        input: usize,
        want: usize,
        into: &mut SlotList,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> usize {
        let Some(&Some(edge)) = self.edges.get(input) else { return 0 };
        let at = usize::from(edge.node);
        // The element is taken out while it runs, so that it can pull from others itself.
        let mut node = std::mem::replace(&mut self.nodes[at], Node::absent());
        let before = into.len();
        let mut own = Out {
            lists: &mut node.outs,
            parts: &node.parts,
            turn_state: out.turn_state,
            watches: &node.watches,
            pressure: node.pressure,
            node: edge.node,
            part: 0,
        };
        let mut upstream = Upstream { nodes: self.nodes, edges: &node.pulls };
        node.element.pull(usize::from(edge.output), want, into, &mut upstream, frame, &mut own);
        if node.outs.iter().any(|list| !list.is_empty()) {
            out.turn_state.touched.push(edge.node);
        }
        let came = into.len().saturating_sub(before);
        if let (Some(part), true) = (out.parts.get(usize::from(out.part)), came > 0) {
            part.cells.add_run(run::PACKETS, came as u64);
            part.cells.add_run(run::BATCHES, 1);
        }
        out.turn_state.moved += came;
        self.nodes[at] = node;
        if edge.is_back {
            go_back(into, before, frame, out.turn_state, (edge.node, 0));
        }
        came
    }
}
