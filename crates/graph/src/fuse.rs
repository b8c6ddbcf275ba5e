//! Fusion: several per-packet elements in one loop.

use crate::element::{Control, Element};
use crate::environment::Environment;
use crate::frame::{Frame, Parts};
use crate::graph::Part;
use crate::meta::Meta;
use crate::out::{Out, Turn};
use crate::per_packet::{PerPacket, Verdict};
use crate::slot::SlotList;
use crate::spec::run;
use scalebricks_io::PacketBuf;
use std::any::Any;

/// Most elements in a fusion.
pub const FUSED: usize = 8;

/// A chain of per-packet elements, each connected to output 0 of the previous one: a tuple of two to eight.
pub trait Chain<P: PacketBuf>: Send + Sized + 'static {
    /// Number of elements.
    const LEN: usize;

    /// Makes the chain from separately created elements.
    ///
    /// # Errors
    /// Returns the elements if one has another type.
    #[doc(hidden)]
    fn join(elements: Vec<Box<dyn Element<P>>>) -> Result<Self, Vec<Box<dyn Element<P>>>>;

    /// Passes a packet along until an element does not send it to output 0; returns that element and the verdict.
    #[doc(hidden)]
    fn each(
        &mut self,
        packet: &mut P,
        meta: &mut Meta,
        parts: &[Part; FUSED],
        turn: Turn,
        reached: &mut [u64; FUSED],
    ) -> (usize, Verdict);

    /// Opens the resources of all elements.
    ///
    /// # Errors
    /// The error of the first element that fails.
    #[doc(hidden)]
    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String>;

    /// An element of the chain.
    #[doc(hidden)]
    fn part(&mut self, at: usize) -> Option<&mut dyn Control>;
}

fn is_each<P: PacketBuf, A: Any>(element: &dyn Element<P>) -> bool {
    let any: &dyn Any = element;
    any.is::<A>()
}

fn into_each<P: PacketBuf, A: Any>(element: Box<dyn Element<P>>) -> A {
    let any: Box<dyn Any> = element;
    match any.downcast::<A>() {
        Ok(each) => *each,
        Err(_) => unreachable!("its type was checked before"),
    }
}

macro_rules! chains {
    ($($len:literal: $($member:ident $at:tt),+;)+) => {
        $(impl<P: PacketBuf + 'static, $($member: PerPacket<P>),+> Chain<P> for ($($member,)+) {
            const LEN: usize = $len;

            fn join(elements: Vec<Box<dyn Element<P>>>) -> Result<Self, Vec<Box<dyn Element<P>>>> {
                let fits = elements.len() == $len $(&& is_each::<P, $member>(&*elements[$at]))+;
                if !fits {
                    return Err(elements);
                }
                let mut elements = elements.into_iter();
                let mut next = || elements.next().unwrap_or_else(|| unreachable!("they were counted"));
                Ok(($(into_each::<P, $member>(next()),)+))
            }

            #[inline(always)]
            fn each(
                &mut self,
                packet: &mut P,
                meta: &mut Meta,
                parts: &[Part; FUSED],
                turn: Turn,
                reached: &mut [u64; FUSED],
            ) -> (usize, Verdict) {
                $(
                    reached[$at] += 1;
                    match self.$at.each(packet, meta, parts[$at].tally(turn)) {
                        Verdict::Out(0) => {}
                        verdict => return ($at, verdict),
                    }
                )+
                ($len - 1, Verdict::ON)
            }

            fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
                $(self.$at.open(world)?;)+
                Ok(())
            }

            fn part(&mut self, at: usize) -> Option<&mut dyn Control> {
                match at {
                    $($at => Some(&mut self.$at),)+
                    _ => None,
                }
            }
        })+
    };
}

chains! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

crate::element! {
    /// Several per-packet elements in one loop.
    ///
    /// A chain of per-packet elements that runs as one element, with one virtual call per batch. The builder makes it
    /// from connected elements; each keeps its name, counters and handlers. Its output 0 is that of the last element.
    /// The other outputs of all its elements follow in order.
    pub struct Fuse<C> as "Fuse" {
        chain: C,
        // The first output number of each element's outputs from 1 on.
        sides: [usize; FUSED],
        // Each element's number of outputs, including output 0.
        outputs: [usize; FUSED],
        // The elements' counters, padded with the last one's: an array of fixed length needs no bounds checks.
        parts: Option<Box<[Part; FUSED]>>,
    }
}

impl<C> Fuse<C> {
    /// Fuses a chain whose elements have these numbers of outputs.
    pub(crate) fn new(chain: C, outputs: &[usize], parts: &[Part]) -> Self {
        let mut sides = [1; FUSED];
        for at in 1..outputs.len().min(FUSED) {
            sides[at] = sides[at - 1] + outputs[at - 1].saturating_sub(1);
        }
        let mut all = [1; FUSED];
        all.iter_mut().zip(outputs).for_each(|(to, from)| *to = *from);
        let last = parts.len().saturating_sub(1);
        let parts = (!parts.is_empty())
            .then(|| Box::new(std::array::from_fn(|at: usize| parts[at.min(last)].clone())));
        Self { chain, sides, outputs: all, parts }
    }
}

impl<C: Send + 'static> Control for Fuse<C> {}

impl<P: PacketBuf + 'static, C: Chain<P>> Element<P> for Fuse<C> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(parts) = self.parts.as_deref() else { return };
        let turn = out.turn();
        let mut reached = [0; FUSED];
        let Parts { mut packets, meta, .. } = frame.parts();
        batch.filter_map(|slot| {
            let (packet, meta) = (&mut packets[&slot], &mut meta[slot.index()]);
            let (part, verdict) = self.chain.each(packet, meta, parts, turn, &mut reached);
            if verdict == Verdict::ON {
                return Some(slot);
            }
            out.part = part as u8;
            match verdict {
                Verdict::Out(output) if output < self.outputs[part % FUSED] => {
                    out.push(self.sides[part % FUSED] + output - 1, slot);
                }
                Verdict::Out(_) => out.push(usize::MAX, slot),
                Verdict::Drop(reason) => out.drop(slot, reason),
            }
            None
        });
        // The runner counts for the first element.
        for (part, &reached) in
            parts.iter().zip(&reached).take(C::LEN).skip(1).filter(|(_, reached)| **reached > 0)
        {
            part.cells.add_run(run::PACKETS, reached);
            part.cells.add_run(run::BATCHES, 1);
        }
        out.all(0, batch);
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        self.chain.open(world)
    }

    fn parts(&self) -> usize {
        C::LEN
    }

    fn part(&mut self, at: usize) -> Option<&mut dyn Control> {
        self.chain.part(at)
    }
}
