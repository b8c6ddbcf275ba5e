//! Per-packet elements: they process one packet at a time, using only the packet and its [`Meta`].

use crate::count::Cells;
use crate::element::{BindError, Binder, Control, Element, HandlerError, Pull, State};
use crate::environment::Environment;
use crate::frame::{Frame, Parts};
use crate::graph::Part;
use crate::meta::Meta;
use crate::out::{Out, Turn};
use crate::slot::SlotList;
use crate::spec::{CounterId, DropId, HandlerId, Spec};
use crate::upstream::Upstream;
use scalebricks_io::PacketBuf;

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to this output.
    Out(usize),
    /// It is dropped.
    Drop(DropId),
}

impl Verdict {
    /// It continues by output 0.
    pub const ON: Self = Self::Out(0);
}

/// The counters of a per-packet element, and the turn.
#[derive(Debug, Clone, Copy)]
pub struct PacketContext<'a> {
    cells: &'a Cells,
    turn: Turn,
}

impl PacketContext<'_> {
    /// Adds to a counter.
    #[inline(always)]
    pub fn count(&self, counter: CounterId, n: u64) {
        self.cells.count(counter, n);
    }

    /// The turn.
    #[inline(always)]
    pub const fn turn(&self) -> Turn {
        self.turn
    }
}

impl Part {
    #[inline(always)]
    pub(crate) fn tally(&self, turn: Turn) -> PacketContext<'_> {
        PacketContext { cells: &self.cells, turn }
    }
}

/// An element that processes one packet at a time. It has one input; most packets leave by output 0.
///
/// In a graph it is wrapped in [`PerPacketElement`]. A [`Fuse`](crate::Fuse) runs several in one loop.
pub trait PerPacket<P: PacketBuf>: Control {
    /// Processes a packet.
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict;

    /// Opens the files that it works with; see [`Element::open`].
    ///
    /// # Errors
    /// The reason, for the user.
    fn open(&mut self, _world: &mut dyn Environment<P>) -> Result<(), String> {
        Ok(())
    }
}

/// Wraps a per-packet element as an element that can be pushed to and pulled from.
#[derive(Debug)]
pub struct PerPacketElement<A>(pub(crate) A);

impl<A> PerPacketElement<A> {
    /// Wraps an element.
    pub const fn new(small: A) -> Self {
        Self(small)
    }

    /// Passes each packet of `batch` from `start` on to the element; what stays in `batch` goes to output 0.
    #[inline(always)]
    fn process<P: PacketBuf>(
        &mut self,
        batch: &mut SlotList,
        start: usize,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) where
        A: PerPacket<P>,
    {
        let (parts, turn) = (out.parts, out.turn());
        let Some(part) = parts.first() else { return };
        let Parts { mut packets, meta, .. } = frame.parts();
        batch.filter_map_from(start, |slot| {
            let (packet, meta) = (&mut packets[&slot], &mut meta[slot.index()]);
            match self.0.each(packet, meta, part.tally(turn)) {
                Verdict::Out(0) => return Some(slot),
                Verdict::Out(output) => out.push(output, slot),
                Verdict::Drop(reason) => out.drop(slot, reason),
            }
            None
        });
    }
}

impl<A: Control> Control for PerPacketElement<A> {
    fn spec(&self) -> &'static Spec {
        self.0.spec()
    }

    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.0.bind(binder)
    }

    fn read(&self, handler: HandlerId) -> String {
        self.0.read(handler)
    }

    fn ask(&self, handler: HandlerId, parameter: &str) -> Result<String, HandlerError> {
        self.0.ask(handler, parameter)
    }

    fn write(&mut self, handler: HandlerId, value: &str) -> Result<(), HandlerError> {
        self.0.write(handler, value)
    }

    fn hand_over(&mut self) -> Option<State> {
        self.0.hand_over()
    }

    fn take_over(&mut self, state: State) -> Result<(), State> {
        self.0.take_over(state)
    }
}

impl<P: PacketBuf + 'static, A: PerPacket<P>> Element<P> for PerPacketElement<A> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.process(batch, 0, frame, out);
        out.all(0, batch);
    }

    fn as_pull(&mut self) -> Option<&mut dyn Pull<P>> {
        Some(self)
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.0.open(world)
    }
}

impl<P: PacketBuf + 'static, A: PerPacket<P>> Pull<P> for PerPacketElement<A> {
    fn pull(
        &mut self,
        output: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if output > 0 {
            return;
        }
        let start = into.len();
        upstream.pull(0, want, into, frame, out);
        self.process(into, start, frame, out);
    }
}
