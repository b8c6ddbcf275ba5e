//! Per-packet elements: they process one packet at a time, using only the packet and its [`Meta`].

use crate::count::Cells;
use crate::element::Control;
use crate::environment::Environment;
use crate::frame::{Frame, Parts};
use crate::graph::Part;
use crate::meta::Meta;
use crate::out::{Out, Turn};
use crate::slot::{Slot, SlotList};
use crate::spec::{CounterId, DropId};
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
/// [`agnostic!`](crate::agnostic!) makes it an [`Element`](crate::Element). A [`Fuse`](crate::Fuse) runs several in one
/// loop.
pub trait PerPacket<P: PacketBuf>: Control {
    /// Processes a packet.
    fn each(&mut self, packet: &mut P, meta: &mut Meta, tally: PacketContext<'_>) -> Verdict;

    /// Passes each packet of `batch` from `start` on to [`each`](Self::each); what stays in `batch` goes to output 0.
    #[inline(always)]
    fn process(&mut self, batch: &mut SlotList, start: usize, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (parts, turn) = (out.parts, out.turn());
        let Some(part) = parts.first() else { return };
        let Parts { mut packets, meta, .. } = frame.parts();
        batch.filter_map_from(start, |slot| {
            let (packet, meta) = (&mut packets[&slot], &mut meta[slot.index()]);
            out.route(slot, self.each(packet, meta, part.tally(turn)))
        });
    }

    /// Opens the files that it works with; see [`Element::open`](crate::Element::open).
    ///
    /// # Errors
    /// The reason, for the user.
    fn open(&mut self, _world: &mut dyn Environment<P>) -> Result<(), String> {
        Ok(())
    }
}

impl Out<'_> {
    /// Sends or drops a packet. Returns it if it goes to output 0, whose packets are sent together.
    #[inline(always)]
    pub fn route(&mut self, slot: Slot, verdict: Verdict) -> Option<Slot> {
        match verdict {
            Verdict::Out(0) => return Some(slot),
            Verdict::Out(output) => self.push(output, slot),
            Verdict::Drop(reason) => self.drop(slot, reason),
        }
        None
    }
}

/// Implements [`Element`](crate::Element) for a type that processes packets of one input singly: with a method
/// `process` like that of [`PerPacket`]. The element can be pushed to and pulled from. With `opens` it opens files by
/// [`PerPacket::open`].
#[macro_export]
macro_rules! agnostic {
    ($class:ty $(, $opens:ident)?) => {
        impl<P: $crate::element::PacketBuf + 'static> $crate::Element<P> for $class {
            fn push(
                &mut self,
                _: usize,
                batch: &mut $crate::SlotList,
                frame: &mut $crate::Frame<P>,
                out: &mut $crate::Out<'_>,
            ) {
                self.process(batch, 0, frame, out);
                out.all(0, batch);
            }

            fn pull(
                &mut self,
                output: usize,
                want: usize,
                into: &mut $crate::SlotList,
                upstream: &mut $crate::Upstream<'_, P>,
                frame: &mut $crate::Frame<P>,
                out: &mut $crate::Out<'_>,
            ) {
                if output == 0 {
                    let start = into.len();
                    upstream.pull(0, want, into, frame, out);
                    self.process(into, start, frame, out);
                }
            }

            $($crate::agnostic!(@$opens);)?
        }
    };
    (@opens) => {
        fn open(&mut self, world: &mut dyn $crate::Environment<P>) -> Result<(), String> {
            $crate::PerPacket::open(self, world)
        }
    };
}
