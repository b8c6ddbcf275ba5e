//! `Unknown`.

use scalebricks_graph::{Control, Element, Frame, Lanes, Out, Spec, element};
use scalebricks_io::PacketBuf;

element! {
    /// Ends packets whose flow is unknown.
    #[derive(Debug, Default)]
    pub struct Unknown as "Unknown" {}
    inputs { push "in": "Packets of no flow.", }
    drops { UNKNOWN = "unknown_flow": "The handling node's FIB does not hold the key.", }
}

impl Control for Unknown {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf> Element<P> for Unknown {
    fn push(&mut self, _: usize, batch: &mut Lanes, _: &mut Frame<P>, out: &mut Out<'_>) {
        out.drop_all(batch, Self::UNKNOWN);
    }
}
