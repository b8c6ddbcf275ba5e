//! `FabricOut`.

use crate::node::FABRIC_QUEUE;
use scalebricks_graph::{Control, Element, Frame, Lanes, Meta, Out, Spec, element};
use scalebricks_io::{Burst, PacketBuf, TxPort};
use std::collections::VecDeque;

element! {
    /// Sends frames over the fabric. What it refuses waits, oldest first, and nothing new is taken from outside meanwhile.
    pub struct FabricOut<P> as "FabricOut" { port: Box<dyn TxPort<P>>, burst: Burst<P>, waiting: VecDeque<P>, }
    inputs { push "in": "Frames with their addresses.", }
    drops { FULL = "fabric_full": "The fabric was congested beyond the node's queue.", }
    counters { SENT = "sent": "Frames sent.", }
    hooks { End, Pressure, }
}

impl<P: PacketBuf> FabricOut<P> {
    /// One that sends to this port.
    pub fn new(port: Box<dyn TxPort<P>>) -> Self {
        Self { port, burst: Burst::new(), waiting: VecDeque::new() }
    }

    /// Sends what waits, oldest first; what the port refuses goes on waiting, up to [`FABRIC_QUEUE`].
    fn flush(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut sent = 0;
        while let Some(packet) = self.waiting.pop_front() {
            let mut one: Burst<P> = std::iter::once(packet).collect();
            sent += self.port.tx_burst(&mut one);
            if let Some(refused) = one.pop() {
                self.waiting.push_front(refused);
                break;
            }
        }
        if self.waiting.is_empty() && !self.burst.is_empty() {
            sent += self.port.tx_burst(&mut self.burst);
        }
        out.count(Self::SENT, sent as u64);
        for refused in self.burst.drain(..) {
            if self.waiting.len() < FABRIC_QUEUE {
                self.waiting.push_back(refused);
                continue;
            }
            match frame.put(refused) {
                Ok(slot) => out.drop(slot, Self::FULL),
                Err(_) => out.count_drops(Self::FULL, 1),
            }
        }
    }
}

impl<P: PacketBuf + 'static> Control for FabricOut<P> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for FabricOut<P> {
    fn push(&mut self, _: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            self.burst.push(frame.take(slot));
            if self.burst.is_full() {
                self.flush(frame, out);
            }
        }
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.flush(frame, out);
        out.set_pressure(!self.waiting.is_empty());
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.waiting.drain(..).for_each(|packet| to(packet, Meta::default()));
    }
}
