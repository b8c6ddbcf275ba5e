//! `RoundRobinSched`.

use scalebricks_graph::args::NoParams;
use scalebricks_graph::{Class, Control, Element, Frame, Out, Pull, SlotList, Spec, Upstream, element};
use scalebricks_io::PacketBuf;

element! {
    /// Pulls a packet from each input in turn, skipping empty ones.
    #[derive(Debug, Default)]
    pub struct RoundRobinSched as "RoundRobinSched" { next: usize, }
    inputs { pull "in" [OneOrMore]: "Packets.", }
    outputs { pull "out": "Packets of all inputs.", }
}

impl Class for RoundRobinSched {
    const SPEC: &'static Spec = Self::SPEC;
    type Params = NoParams;

    fn make(_: NoParams) -> Result<Self, String> {
        Ok(Self::default())
    }
}

impl Control for RoundRobinSched {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for RoundRobinSched {
    fn as_pull(&mut self) -> Option<&mut dyn Pull<P>> {
        Some(self)
    }
}

impl<P: PacketBuf + 'static> Pull<P> for RoundRobinSched {
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
