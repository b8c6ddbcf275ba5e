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
}

/// Sends what waits, oldest first; what the port refuses goes on waiting, up to [`FABRIC_QUEUE`].
fn flush<P: PacketBuf>(
    port: &mut dyn TxPort<P>,
    waiting: &mut VecDeque<P>,
    burst: &mut Burst<P>,
    frame: &mut Frame<P>,
    out: &mut Out<'_>,
) {
    let mut sent = 0;
    while let Some(packet) = waiting.pop_front() {
        let mut one: Burst<P> = std::iter::once(packet).collect();
        sent += port.tx_burst(&mut one);
        if let Some(refused) = one.pop() {
            waiting.push_front(refused);
            break;
        }
    }
    if waiting.is_empty() && !burst.is_empty() {
        sent += port.tx_burst(burst);
    }
    out.count(FabricOut::<P>::SENT, sent as u64);
    for refused in burst.drain(..) {
        if waiting.len() < FABRIC_QUEUE {
            waiting.push_back(refused);
            continue;
        }
        match frame.put(refused) {
            Ok(slot) => out.drop(slot, FabricOut::<P>::FULL),
            Err(_) => out.count_drops(FabricOut::<P>::FULL, 1),
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
        let Self { port, burst, waiting } = self;
        frame.take_all(batch, burst, |frame, burst| flush(port.as_mut(), waiting, burst, frame, out));
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        flush(self.port.as_mut(), &mut self.waiting, &mut self.burst, frame, out);
        out.set_pressure(!self.waiting.is_empty());
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.waiting.drain(..).for_each(|packet| to(packet, Meta::default()));
    }
}
