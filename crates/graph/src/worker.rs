//! A worker: a graph, a frame, timers and a mailbox, run in turns.

use crate::bursts::Bursts;
use crate::frame::Frame;
use crate::graph::{Graph, Node};
use crate::mailbox::{COMMANDS_A_TURN, Command, Remote};
use crate::out::{DropOrigin, Out, TurnState};
use crate::passing::LAST_BIT;
use crate::ports::Ports;
use crate::quiescence::{Mark, Quiescence};
use crate::slot::{SLOTS, SlotList};
use crate::spec::run;
use crate::tap::Taps;
use crate::timers::TIMERS_A_TURN;
use crate::trace::Trace;
use crate::upstream::Upstream;
use scalebricks_io::{PacketBuf, PacketSource};
use std::fmt;
use std::mem::swap;
use std::time::Duration;

/// Most edges back to an earlier element that a packet may pass; at the next one it is dropped as `graph_loop`.
pub const HOP_LIMIT: u8 = 64;

/// Most packets that may pass such edges per turn. A full frame of packets that all reach [`HOP_LIMIT`] causes half of
/// this; more requires elements that create packets in a cycle and do not use [`Frame::put_because`].
pub const BACKS_A_TURN: usize = 2 * HOP_LIMIT as usize * SLOTS;

/// Most timers that a worker's elements may have set at once.
pub const TIMERS: usize = 1 << 20;

/// Runs a graph. `T` is `()` in production; another [`Trace`] sees every packet on its way.
pub struct Worker<P: PacketBuf, T = ()> {
    pub(crate) graph: Box<Graph<P>>,
    pub(crate) frame: Frame<P>,
    pub(crate) turn_state: TurnState,
    pub(crate) trace: T,
    /// Elements with work, one bit each.
    pub(crate) ready: Vec<u64>,
    /// By element: its inputs with packets, one bit each; the last bit represents all further inputs.
    pub(crate) waiting: Vec<u64>,
    /// Whether an element before the one that ran last may have work.
    pub(crate) goes_back: bool,
    /// Elements to call in this turn before their packets, one bit each.
    begins: Vec<u64>,
    /// Of these, the ones that brought packets last time, one bit each.
    busy: Vec<u64>,
    /// Number of elements that bring packets into the frame, and of those that are `busy`, when a turn begins. Elements
    /// without outputs take out what they pull, so they get no share.
    all_begins: usize,
    all_busy: usize,
    /// Empty between runs of elements.
    batch: SlotList,
    /// The same for packets by value.
    bursts: Bursts<P>,
    remote: Remote<P>,
    mark: Mark,
}

impl<P: PacketBuf, T: fmt::Debug> fmt::Debug for Worker<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("graph", &self.graph)
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

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

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// A worker that allocates new packets from `buffers`.
    pub fn new(graph: Graph<P>, buffers: Box<dyn PacketSource<P> + Send>, trace: T) -> Self {
        let mut worker = Self {
            graph: Box::new(graph),
            frame: Frame::new(buffers),
            turn_state: TurnState::new(TIMERS),
            trace,
            ready: Vec::new(),
            waiting: Vec::new(),
            goes_back: false,
            begins: Vec::new(),
            busy: Vec::new(),
            all_begins: 0,
            all_busy: 0,
            batch: SlotList::new(),
            bursts: Bursts::default(),
            remote: Remote::new(),
            mark: Mark::new(),
        };
        worker.fit();
        worker
    }

    /// Assigns its ports; elements refer to them by index.
    #[must_use]
    pub fn with_ports(mut self, ports: Ports<P>) -> Self {
        self.frame.ports = ports;
        self
    }

    /// Lets captures of `taps` see its packets. Several workers may share taps.
    pub fn set_taps(&mut self, taps: &Taps) {
        self.frame.watch = taps.watch();
    }

    /// Resizes the worker's tables for the graph.
    pub(crate) fn fit(&mut self) {
        let graph = &mut self.graph;
        swap(&mut self.frame.columns, &mut graph.columns);
        self.ready.resize(graph.begins.len(), 0);
        self.waiting.resize(graph.nodes.len(), 0);
        self.begins.resize(graph.begins.len(), 0);
        self.busy.clone_from(&graph.begins);
        let begins = |at: usize| graph.begins[at / 64] & (1 << (at % 64)) != 0;
        let brings = |&(at, node): &(usize, &Node<P>)| begins(at) && !node.outs.is_empty();
        self.all_begins = graph.nodes.iter().enumerate().filter(brings).count();
        self.all_busy = self.all_begins;
        self.turn_state.raised.resize(graph.pressures.div_ceil(64), 0);
        self.turn_state.kept.resize(graph.pressures, 0);
        self.turn_state.touched.reserve(graph.nodes.len());
    }

    /// A handle for sending it commands.
    pub fn remote(&self) -> Remote<P> {
        self.remote.clone()
    }

    /// For waiting until it no longer reads unlinked objects.
    pub fn quiescence(&self) -> Quiescence {
        self.mark.view()
    }

    /// Its current graph.
    pub const fn graph(&self) -> &Graph<P> {
        &self.graph
    }

    /// Its current graph, mutable; only between turns.
    pub const fn graph_mut(&mut self) -> &mut Graph<P> {
        &mut self.graph
    }

    /// The hook that sees its packets.
    pub const fn trace_mut(&mut self) -> &mut T {
        &mut self.trace
    }

    /// Packets that sources brought in during the last turn.
    pub const fn brought(&self) -> usize {
        self.turn_state.brought
    }

    /// Number of timers set.
    pub fn timers(&self) -> usize {
        self.turn_state.timers.len()
    }

    /// Runs one turn and returns how often a packet reached an element, 0 if there was nothing to do. `now` is the time
    /// since a fixed moment, the same for all turns, and never decreases.
    ///
    /// First the worker declares that it is quiescent. Then timers expire, sources bring packets in, and elements run
    /// in order, each on everything that has reached it, until the frame is empty. Finally sinks end and commands are
    /// processed.
    pub fn turn(&mut self, now: Duration) -> usize {
        (self.turn_state.moved, self.turn_state.brought) = (0, 0);
        self.mark.pass();
        self.turn_state.turn.now = now;
        self.frame.watch.renew(&self.graph.edges);
        self.turn_state.backs_left = BACKS_A_TURN;
        self.expire(now);
        self.begins.copy_from_slice(&self.graph.begins);
        self.ready.iter_mut().zip(&self.graph.begins).for_each(|(ready, begins)| *ready |= begins);
        (self.turn_state.begins_left, self.turn_state.busy_left) = (self.all_begins, self.all_busy);
        self.run_all();
        for at in 0..self.graph.ends.len() {
            let at = usize::from(self.graph.ends[at]);
            let node = &mut self.graph.nodes[at];
            swap(&mut node.sent, &mut self.frame.outs);
            node.element.end(&mut self.frame, &mut out!(node, &mut self.turn_state, at));
            swap(&mut node.sent, &mut self.frame.outs);
            self.send(at);
        }
        self.run_all();
        if self.frame.has_slots() {
            self.reclaim();
        }
        self.graph.between(now);
        self.commands();
        self.turn_state.turn.number += 1;
        self.turn_state.moved
    }

    /// Call it before a worker pauses: it is quiescent until its next turn.
    pub fn leave(&mut self) {
        self.mark.leave();
    }

    fn expire(&mut self, now: Duration) {
        for _ in 0..TIMERS_A_TURN {
            let Some(timer) = self.turn_state.timers.expired(now) else { return };
            let at = usize::from(timer.node);
            let node = &mut self.graph.nodes[at];
            swap(&mut node.sent, &mut self.frame.outs);
            node.element.timer(timer.token, &mut self.frame, &mut out!(node, &mut self.turn_state, at));
            swap(&mut node.sent, &mut self.frame.outs);
            self.send(at);
            self.turn_state.moved += 1;
        }
    }

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

    /// Runs an element on what waits at these inputs.
    #[inline]
    fn run_inputs(&mut self, at: usize, mut waiting: u64) {
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
        while waiting != 0 {
            let first = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
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

    fn commands(&mut self) {
        // Two loads. Taking a command from an empty queue would cost a fence.
        if self.remote.0.is_empty() {
            return;
        }
        for _ in 0..COMMANDS_A_TURN {
            match self.remote.0.pop() {
                Some(Command::Replace(graph, give_back)) => give_back(self.replace(graph)),
                Some(Command::Call(call)) => call(&mut self.graph),
                None => return,
            }
        }
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
