//! Replaces a worker's graph between two turns.

use crate::graph::Graph;
use crate::spec::{RUN_DROPS, run};
use crate::trace::Trace;
use crate::worker::Worker;
use scalebricks_io::PacketBuf;
use std::mem::swap;

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Runs `graph` from the next turn on and returns the old one. An element takes over the state of the previous
    /// element with its name and class, with the packets it keeps, its timers and its back-pressure. Packets of an
    /// element without a successor are dropped as `graph_replaced`. Cost: a move per element, and a walk over the
    /// timers.
    pub fn replace(&mut self, graph: Box<Graph<P>>) -> Box<Graph<P>> {
        let mut graph = graph;
        self.hand_over(&mut graph);
        let old = &*self.graph;
        self.turn_state.timers.renumber(|node| successor(old, &graph, usize::from(node)));
        let (mut raised, mut kept) = (vec![0u64; graph.pressures.div_ceil(64)], vec![0; graph.pressures]);
        for (at, node) in old.nodes.iter().enumerate() {
            let Some(before) = node.pressure.map(usize::from) else { continue };
            let after = successor(old, &graph, at).and_then(|after| graph.nodes[usize::from(after)].pressure);
            let Some(after) = after.map(usize::from) else { continue };
            kept[after] = self.turn_state.kept[before];
            raised[after / 64] |= (self.turn_state.raised[before / 64] >> (before % 64) & 1) << (after % 64);
        }
        (self.turn_state.raised, self.turn_state.kept) = (raised, kept);
        swap(&mut self.frame.columns, &mut self.graph.columns);
        swap(&mut self.graph, &mut graph);
        self.frame.watch.forget();
        self.fit();
        graph
    }

    /// Moves state from the old graph to `new`, and drops packets that no element takes over.
    fn hand_over(&mut self, new: &mut Graph<P>) {
        for at in 0..self.graph.nodes.len() {
            for part in 0..self.graph.nodes[at].parts.len() {
                let Some((to, to_part)) = counterpart(&self.graph, new, at, part) else { continue };
                new.nodes[to].control(to_part).take_over(self.graph.nodes[at].control(part));
            }
            let node = &mut self.graph.nodes[at];
            let Some(part) = node.parts.first() else { continue };
            let (trace, watch) = (&mut self.trace, &self.frame.watch);
            node.element.drain(&mut |packet, _| {
                part.cells.drop_run(run::REPLACED, 1);
                watch.dropped(RUN_DROPS[run::REPLACED].name, packet.data());
                trace.dropped(&part.name, &RUN_DROPS[run::REPLACED], &packet);
            });
            node.element.retire();
        }
    }
}

/// The position of an element's part in another graph, by name and class.
fn counterpart<P>(old: &Graph<P>, new: &Graph<P>, node: usize, part: usize) -> Option<(usize, usize)> {
    let part = &old.nodes[node].parts[part];
    let &(to, to_part) = new.names.get(&part.name)?;
    let (to, to_part) = (usize::from(to), usize::from(to_part));
    (new.nodes[to].parts[to_part].spec.class == part.spec.class).then_some((to, to_part))
}

/// The element of another graph with the same name and class, neither being a fusion.
fn successor<P>(old: &Graph<P>, new: &Graph<P>, node: usize) -> Option<u16> {
    let (to, _) = (old.nodes[node].parts.len() == 1).then(|| counterpart(old, new, node, 0)).flatten()?;
    (new.nodes[to].parts.len() == 1).then_some(to as u16)
}
