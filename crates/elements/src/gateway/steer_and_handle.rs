//! `Steer` and `Handle` in one.

use super::handle::{FusedPosition, Handle};
use super::steer::{self, Steer};
use scalebricks_graph::args::NoParams;
use scalebricks_graph::{Bursts, Control, Declared, Element, Frame, Out, SlotList, Spec};
use scalebricks_io::PacketBuf;

/// [`Steer`] and [`Handle`] as one element. Packets of local flows are handled where they are steered and need no slot
/// in between. Each part keeps its name, ports, counters and handlers.
#[derive(Debug)]
pub struct SteerAndHandle<P> {
    steer: Steer<P>,
    handle: Handle<P>,
    /// Whether packets that the FIB does not hold are looked up in the GPT again.
    asks_again: bool,
}

impl<P> SteerAndHandle<P> {
    /// Joins the two. If `asks_again`, [`Handle`]'s output `missed` leads to [`Steer`]'s input `missed`.
    pub fn new(steer: Steer<P>, mut handle: Handle<P>, asks_again: bool) -> Self {
        handle.place = FusedPosition { part: 1, first_output: steer::output::COUNT };
        Self { steer, handle, asks_again }
    }
}

impl<P: PacketBuf> SteerAndHandle<P> {
    /// Processes the packets that wait for the FIB, and those that it does not hold.
    #[inline(always)]
    fn finish(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Self { steer, handle, asks_again } = self;
        handle.finish(frame, out);
        if handle.missed.is_empty() {
            return;
        }
        if *asks_again {
            handle.missed.drain(..).for_each(|missed| steer.send_again(missed, frame, out));
            steer.finish(frame);
        } else {
            handle.send_missed(frame, out);
        }
    }
}

impl<P: PacketBuf + 'static> Declared for SteerAndHandle<P> {
    const SPEC: &'static Spec = Steer::<P>::SPEC;
    type Params = NoParams;
}

impl<P: PacketBuf + 'static> Control for SteerAndHandle<P> {}

impl<P: PacketBuf + 'static> Element<P> for SteerAndHandle<P> {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        match input.checked_sub(steer::input::COUNT) {
            None => self.steer.push(input, batch, frame, out),
            Some(input) => self.handle.push(input, batch, frame, out),
        }
        self.finish(frame, out);
    }

    fn burst(&mut self, input: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Self { steer, handle, .. } = self;
        match input.checked_sub(steer::input::COUNT) {
            None => steer.take(input, bursts, handle, frame, out),
            Some(input) => handle.take(input, bursts, frame, out),
        }
        self.finish(frame, out);
    }

    fn parts(&self) -> usize {
        2
    }

    fn part(&mut self, at: usize) -> Option<&mut dyn Control> {
        match at {
            0 => Some(&mut self.steer),
            1 => Some(&mut self.handle),
            _ => None,
        }
    }
}
