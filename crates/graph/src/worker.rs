//! A worker: a graph, a frame, timers and a mailbox, run in turns.

use crate::bursts::Bursts;
use crate::frame::Frame;
use crate::graph::{Graph, Node};
use crate::mailbox::{COMMANDS_A_TURN, Command, Remote};
use crate::out::{Out, TurnState};
use crate::ports::Ports;
use crate::quiescence::{Mark, Quiescence};
use crate::running::out;
use crate::slot::{SLOTS, SlotList};
use crate::tap::Taps;
use crate::timers::TIMERS_A_TURN;
use crate::trace::Trace;
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
    pub(crate) begins: Vec<u64>,
    /// Of these, the ones that brought packets last time, one bit each.
    pub(crate) busy: Vec<u64>,
    /// Number of elements that bring packets into the frame, and of those that are `busy`, when a turn begins. Elements
    /// without outputs take out what they pull, so they get no share.
    all_begins: usize,
    pub(crate) all_busy: usize,
    /// Empty between runs of elements.
    pub(crate) batch: SlotList,
    /// The same for packets by value.
    pub(crate) bursts: Bursts<P>,
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
