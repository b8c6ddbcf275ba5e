//! `PrioSched`.

use scalebricks_graph::args::NoParams;
use scalebricks_graph::{Class, Control, Element, Frame, Out, Pull, SlotList, Spec, Upstream, element};
use scalebricks_io::PacketBuf;

element! {
    /// Pulls each packet from the first input that has one.
    #[derive(Debug, Default)]
    pub struct PrioSched as "PrioSched" {}
    inputs { pull "in" [OneOrMore]: "Packets; input 0 has the highest priority.", }
    outputs { pull "out": "Packets of all inputs.", }
}

impl Class for PrioSched {
    const SPEC: &'static Spec = Self::SPEC;
    type Params = NoParams;

    fn make(_: NoParams) -> Result<Self, String> {
        Ok(Self {})
    }
}

impl Control for PrioSched {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for PrioSched {
    fn as_pull(&mut self) -> Option<&mut dyn Pull<P>> {
        Some(self)
    }
}

impl<P: PacketBuf + 'static> Pull<P> for PrioSched {
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
