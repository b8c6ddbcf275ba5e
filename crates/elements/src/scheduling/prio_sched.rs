//! `PrioSched`.

use scalebricks_graph::{Control, Element, Frame, Out, SlotList, Upstream, element};
use scalebricks_io::PacketBuf;

element! {
    /// Pulls each packet from the first input that has one.
    #[derive(Default)]
    pub struct PrioSched as "PrioSched" {}
    inputs { pull "in" [OneOrMore]: "Packets; input 0 has the highest priority.", }
    outputs { pull "out": "Packets of all inputs.", }
    makes |_| Self {},
}

impl Control for PrioSched {}

impl<P: PacketBuf + 'static> Element<P> for PrioSched {
    fn pull(
        &mut self,
        _: usize,
        want: usize,
        into: &mut SlotList,
        upstream: &mut Upstream<'_, P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let mut left = want;
        for input in 0..upstream.inputs() {
            left -= upstream.pull(input, left, into, frame, out).min(left);
            if left == 0 {
                return;
            }
        }
    }
}
