//! Queues for tests, and elements that pull from them.

use scalebricks_graph::{Control, Element, Frame, Meta, Out, SlotList, Upstream, element};
use scalebricks_io::Packet;
use std::collections::VecDeque;

element! {
    /// Holds packets until they are pulled. If configured so, it blocks sources from half its capacity on.
    pub struct Hold as "Hold" { waiting: VecDeque<(Packet, Meta)>, pub capacity: usize, pub blocks: bool, }
    inputs { push "in": "Packets.", }
    outputs { pull "out": "The same.", }
    fresh { "out", }
    drops { FULL = "hold_full": "It held as many as it may.", }
    hooks { Pressure, }
    keeps { waiting, }
}

impl Hold {
    pub fn new(capacity: usize, blocks: bool) -> Self {
        Self { waiting: VecDeque::new(), capacity, blocks }
    }
}

impl Control for Hold {}

impl Element<Packet> for Hold {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            if self.waiting.len() < self.capacity {
                let meta = *frame.meta(&slot);
                self.waiting.push_back((frame.take(slot), meta));
            } else {
                out.drop(slot, Self::FULL);
            }
        }
        out.set_pressure(self.blocks && self.waiting.len() * 2 >= self.capacity);
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(Packet, Meta)) {
        self.waiting.drain(..).for_each(|(packet, meta)| to(packet, meta));
    }

    fn pull(
        &mut self,
        _: usize,
        want: usize,
        into: &mut SlotList,
        _: &mut Upstream<'_, Packet>,
        frame: &mut Frame<Packet>,
        out: &mut Out<'_>,
    ) {
        frame.put_waiting(&mut self.waiting, want, into);
        out.set_pressure(self.blocks && self.waiting.len() * 2 >= self.capacity);
    }
}

element! {
    /// Pulls packets and pushes them.
    pub struct Release as "Release" { pub burst: usize, pub batch: SlotList, }
    inputs { pull "in": "Packets.", }
    outputs { push "out": "The same.", }
    hooks { Begin, }
}

impl Control for Release {}

impl Element<Packet> for Release {
    fn begin(&mut self, upstream: &mut Upstream<'_, Packet>, frame: &mut Frame<Packet>, out: &mut Out<'_>) {
        let want = self.burst.min(out.intake(frame.used()));
        upstream.pull(0, want, &mut self.batch, frame, out);
        out.all(0, &mut self.batch);
    }
}

pub fn release(burst: usize) -> Release {
    Release { burst, batch: SlotList::new() }
}
