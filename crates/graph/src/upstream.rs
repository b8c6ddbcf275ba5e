//! The elements that an element pulls from.

use crate::frame::Frame;
use crate::graph::{Node, PullEdge};
use crate::out::Out;
use crate::passing::go_back;
use crate::slot::SlotList;
use crate::spec::run;
use scalebricks_io::{Burst, PacketBuf};
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

/// The `Out` of an element that is pulled from.
macro_rules! own_out {
    ($node:ident, $out:ident, $at:expr) => {
        Out {
            lists: &mut $node.outs,
            parts: &$node.parts,
            turn_state: $out.turn_state,
            watches: &$node.watches,
            pressure: $node.pressure,
            node: $at,
            part: 0,
        }
    };
}

/// Counts packets that came.
fn count_pulled(came: usize, out: &mut Out<'_>) {
    if let (Some(part), true) = (out.parts.get(usize::from(out.part)), came > 0) {
        part.cells.add_run(run::PACKETS, came as u64);
        part.cells.add_run(run::BATCHES, 1);
    }
    out.turn_state.moved += came;
}

impl<P: PacketBuf + 'static> Upstream<'_, P> {
    /// Number of inputs, including push inputs.
    pub fn inputs(&self) -> usize {
        self.edges.len()
    }

    /// Pulls up to `want` packets from the element behind `input` into a burst with room for them, in no slot. Returns
    /// their number, or `None` if they must be pulled [into slots](Self::pull). Cost: a virtual call.
    pub fn pull_packets(
        &mut self,
        input: usize,
        want: usize,
        into: &mut Burst<P>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let edge = (*self.edges.get(input)?)?;
        if edge.is_back {
            return None;
        }
        let node = &mut self.nodes[usize::from(edge.node)];
        let mut own = own_out!(node, out, edge.node);
        let came = node.element.pull_packets(usize::from(edge.output), want, into, &mut own)?;
        count_pulled(came, out);
        Some(came)
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
        let mut own = own_out!(node, out, edge.node);
        let mut upstream = Upstream { nodes: self.nodes, edges: &node.pulls };
        node.element.pull(usize::from(edge.output), want, into, &mut upstream, frame, &mut own);
        if node.outs.iter().any(|list| !list.is_empty()) {
            out.turn_state.touched.push(edge.node);
        }
        let came = into.len().saturating_sub(before);
        count_pulled(came, out);
        self.nodes[at] = node;
        if edge.is_back {
            go_back(into, before, frame, out.turn_state, (edge.node, 0));
        }
        came
    }
}
