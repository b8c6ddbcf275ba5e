//! `RoundRobinSched`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;

element! {
    /// Pulls a packet from each input in turn, skipping empty ones.
    #[derive(Default)]
    pub struct RoundRobinSched as "RoundRobinSched" { next: usize, }
    inputs { pull "in" [OneOrMore]: "Packets.", }
    outputs { pull "out": "Packets of all inputs.", }
    makes |_| Self::default(),
}

impl Control for RoundRobinSched {}

impl<P: PacketBuf + 'static> Element<P> for RoundRobinSched {
    fn pull(
        &mut self,
        _: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let end = into.len() + want;
        let inputs = upstream.inputs().max(1);
        let mut empty = 0;
        while into.len() < end && empty < inputs {
            let came = upstream.pull(self.next % inputs, 1, into, frame, out);
            empty = if came == 0 { empty + 1 } else { 0 };
            self.next = (self.next + 1) % inputs;
        }
    }
}
