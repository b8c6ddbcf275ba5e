//! Running elements: which one is next, and on which packets.

use crate::bursts::Bursts;
use crate::frame::Frame;
use crate::graph::{Graph, Node};
use crate::out::{DropOrigin, Out, TurnState};
use crate::passing::LAST_BIT;
use crate::slot::SlotList;
use crate::spec::run;
use crate::trace::Trace;
use crate::upstream::Upstream;
use crate::worker::Worker;
use scalebricks_io::PacketBuf;
use std::mem::swap;

/// Builds an element's `Out` from its node and its worker.
macro_rules! out {
    ($node:ident, $turn_state:expr, $at:expr) => {
        Out {
            lists: &mut $node.outs,
            parts: &$node.parts,
            turn_state: $turn_state,
            watches: &$node.watches,
            pressure: $node.pressure,
            node: $at as u16,
            part: 0,
        }
    };
}
pub(crate) use out;

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Runs the first element in order that has input, until none has. So an element runs when all earlier ones are
    /// done, and the elements of a cycle run until the cycle is empty: later elements get whole batches. [`HOP_LIMIT`]
    /// and [`BACKS_A_TURN`] bound the work.
    pub(crate) fn run_all(&mut self) {
        let mut word = 0;
        while let Some(&ready) = self.ready.get(word) {
            if ready == 0 {
                word += 1;
                continue;
            }
            self.ready[word] = ready & (ready - 1);
            self.run_element(word * 64 + ready.trailing_zeros() as usize);
            if std::mem::take(&mut self.goes_back) {
                word = 0;
            }
        }
    }

    #[inline]
    fn run_element(&mut self, at: usize) {
        if self.begins[at / 64] & (1 << (at % 64)) != 0 {
            self.begin(at);
        }
        let waiting = std::mem::take(&mut self.waiting[at]);
        if waiting != 0 {
            self.run_inputs(at, waiting);
        }
        self.send(at);
    }

    /// Runs an element on what waits at these inputs: first what came by value. Packets that took a fast path stay in front
    /// of those behind them that took the elements beside it.
    #[inline]
    fn run_inputs(&mut self, at: usize, waiting: u64) {
        let Graph { nodes, pending, carried, homes, .. } = &mut *self.graph;
        let node = &mut nodes[at];
        if node.inputs == 1 && node.carried.is_empty() && node.senders.is_empty() {
            // Most elements: one input, and nothing by value.
            let list = &mut pending[node.first_input as usize];
            if list.is_empty() {
                return;
            }
            return run_list(node, (at, 0), list, &mut self.batch, &mut self.frame, &mut self.turn_state);
        }
        swap(&mut node.sent, &mut self.frame.outs);
        let mut by_value = waiting & node.by_value;
        let mut slots = waiting & !node.by_value;
        while by_value | slots != 0 {
            let left = if by_value != 0 { &mut by_value } else { &mut slots };
            let first = left.trailing_zeros() as usize;
            *left &= *left - 1;
            let last = if first == LAST_BIT { usize::from(nodes[at].inputs) } else { first + 1 };
            for input in first..last {
                let node = &mut nodes[at];
                if let Some(&Some(number)) = node.carried.get(input) {
                    let waiting = &mut carried[number as usize];
                    if !waiting.is_empty() {
                        // `bursts` is empty, and so are the input's bursts after this.
                        swap(waiting, &mut self.bursts);
                        run_bursts(node, at, input, &mut self.bursts, &mut self.frame, &mut self.turn_state);
                        let (home, port) = homes[number as usize];
                        // What this element sends is kept in the frame for now.
                        if usize::from(home) != at
                            && let Some(sender) = nodes.get_mut(usize::from(home))
                        {
                            swap(&mut sender.sent[usize::from(port)], &mut self.bursts);
                        }
                    }
                    continue;
                }
                let list = &mut pending[node.first_input as usize + input];
                if list.is_empty() {
                    continue;
                }
                run_list(node, (at, input), list, &mut self.batch, &mut self.frame, &mut self.turn_state);
            }
        }
        swap(&mut nodes[at].sent, &mut self.frame.outs);
    }

    #[inline(never)]
    fn begin(&mut self, at: usize) {
        let (word, bit) = (at / 64, 1 << (at % 64));
        let was_busy = self.busy[word] & bit != 0;
        self.begins[word] &= !bit;
        let used = self.frame.used();
        let node = &mut self.graph.nodes[at];
        let brings = !node.outs.is_empty();
        self.turn_state.begins_left -= usize::from(brings);
        self.turn_state.busy_left -= usize::from(brings && was_busy);
        let came = if node.pulls.is_empty() {
            let mut upstream = Upstream { nodes: &mut [], edges: &[] };
            swap(&mut node.sent, &mut self.frame.outs);
            node.element.begin(&mut upstream, &mut self.frame, &mut out!(node, &mut self.turn_state, at));
            let came = (self.frame.used() + self.frame.sent()).saturating_sub(used);
            swap(&mut node.sent, &mut self.frame.outs);
            came
        } else if self.is_idle(at) {
            0
        } else {
            self.begin_and_pull(at)
        };
        self.turn_state.moved += came;
        self.turn_state.brought += came;
        if was_busy != (came > 0) {
            self.busy[word] ^= bit;
            if brings {
                self.all_busy = if was_busy { self.all_busy - 1 } else { self.all_busy + 1 };
            }
        }
    }

    /// Whether an element has nothing to do at the beginning of a turn, since there is nothing to pull.
    fn is_idle(&self, at: usize) -> bool {
        let nodes = &self.graph.nodes;
        let mut edges = nodes[at].pulls.iter().flatten();
        nodes[at].element.only_pulls() && edges.all(|edge| nodes[usize::from(edge.node)].element.is_dry())
    }

    /// Calls `begin` of an element that may pull from others; returns how many packets came. The element is taken out
    /// meanwhile.
    fn begin_and_pull(&mut self, at: usize) -> usize {
        let used = self.frame.used();
        let mut node = std::mem::replace(&mut self.graph.nodes[at], Node::absent());
        let mut upstream = Upstream { nodes: &mut self.graph.nodes, edges: &node.pulls };
        swap(&mut node.sent, &mut self.frame.outs);
        node.element.begin(&mut upstream, &mut self.frame, &mut out!(node, &mut self.turn_state, at));
        let came = (self.frame.used() + self.frame.sent()).saturating_sub(used);
        swap(&mut node.sent, &mut self.frame.outs);
        self.graph.nodes[at] = node;
        while let Some(touched) = self.turn_state.touched.pop() {
            self.goes_back = true;
            self.send(usize::from(touched));
        }
        came
    }
}

/// Runs an element, at its place, on the packets of a list. `batch` is empty, and so is the list after this.
#[inline]
fn run_list<P: PacketBuf + 'static>(
    node: &mut Node<P>,
    (at, input): (usize, usize),
    list: &mut SlotList,
    batch: &mut SlotList,
    frame: &mut Frame<P>,
    turn_state: &mut TurnState,
) {
    swap(list, batch);
    turn_state.moved += batch.len();
    if let Some(part) = node.parts.first() {
        part.cells.add_run(run::PACKETS, batch.len() as u64);
        part.cells.add_run(run::BATCHES, 1);
    }
    node.element.push(input, batch, frame, &mut out!(node, turn_state, at));
    if !batch.is_empty() {
        let why = DropOrigin { node: at as u16, part: 0, reason: run::UNWORKED as u8 };
        batch.drain().for_each(|slot| turn_state.drop(slot, why));
    }
}

/// Runs an element on packets that came by value.
#[inline]
fn run_bursts<P: PacketBuf + 'static>(
    node: &mut Node<P>,
    at: usize,
    input: usize,
    bursts: &mut Bursts<P>,
    frame: &mut Frame<P>,
    turn_state: &mut TurnState,
) {
    let len = bursts.len();
    frame.by_value -= len;
    turn_state.moved += len;
    if let Some(part) = node.parts.first() {
        part.cells.add_run(run::PACKETS, len as u64);
        part.cells.add_run(run::BATCHES, 1);
    }
    node.element.burst(input, bursts, frame, &mut out!(node, turn_state, at));
    if !bursts.is_empty() {
        let why = DropOrigin { node: at as u16, part: 0, reason: run::UNWORKED as u8 };
        bursts.each(|chunk| frame.dropped.extend(chunk.packets.drain(..).map(|packet| (packet, why))));
    }
}
