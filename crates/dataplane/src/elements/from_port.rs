//! `FromPort`.

use super::columns::entry_of;
use crate::fabric_mac::OutputPort;
use crate::ingress::prefetch_heads;
use scalebricks_graph::{Control, Element, Frame, Lanes, Meta, Out, PortId, SLOTS, Spec, Upstream, element};
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort};

/// Packets taken from an outside port in a turn: what a turn costs by itself is shared by them.
const MOST: usize = 4 * BURST;

element! {
    /// Takes frames from an outside port. While the fabric is congested it takes none.
    pub struct FromPort<P> as "FromPort" { port: Box<dyn RxPort<P>>, entry: PortId, }
    outputs { push "out": "Frames.", }
    counters { RECEIVED = "received": "Frames received.", }
    hooks { Begin, }
}

impl<P> FromPort<P> {
    /// One that takes from the port whose packets leave at `output`.
    pub fn new(port: Box<dyn RxPort<P>>, output: OutputPort) -> Self {
        Self { port, entry: entry_of(output) }
    }
}

impl<P: PacketBuf + 'static> Control for FromPort<P> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for FromPort<P> {
    fn push(&mut self, _: usize, _: &mut Lanes, _: &mut Frame<P>, _: &mut Out<'_>) {}

    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if out.is_blocked() {
            return;
        }
        let most = out.intake(frame.used()).min(MOST);
        let meta = Meta::new(self.entry, 0);
        let mut burst = Burst::new();
        for _ in 0..most.div_ceil(BURST) {
            if frame.used() + BURST > SLOTS {
                break;
            }
            let taken = self.port.rx_burst(&mut burst);
            out.count(Self::RECEIVED, taken as u64);
            prefetch_heads(&burst);
            if let Some(list) = out.list(0) {
                frame.put_burst(&mut burst, list, |_| meta);
            }
            if taken < BURST {
                break;
            }
        }
    }
}
