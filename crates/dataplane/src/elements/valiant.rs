//! `Valiant`.

use crate::classify::Parsed;
use crate::detour::Detours;
use crate::fabric_mac::FabricMac;
use crate::node::NodeConfig;
use scalebricks_graph::element::BindError;
use scalebricks_graph::frame::Parts;
use scalebricks_graph::{Binder, Control, Element, Frame, Handle, Lanes, Out, Spec, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet;

element! {
    /// VLB: sends each frame to its handling node over an intermediate node drawn at random, all fragments of one datagram over the
    /// same.
    #[derive(Debug)]
    pub struct Valiant as "Valiant" { detours: Detours, parsed: Handle<Parsed>, }
    inputs { push "in": "Frames addressed to their handling nodes.", }
    outputs { push "out": "The same, addressed to intermediate nodes.", }
    reads { Parsed, }
}

impl Valiant {
    /// The one of a node.
    pub fn new(config: &NodeConfig) -> Self {
        Self { detours: Detours::new(config.id, config.size), parsed: Handle::default() }
    }
}

impl Control for Valiant {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }

    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.parsed = binder.column()?;
        Ok(())
    }
}

impl<P: PacketBuf> Element<P> for Valiant {
    fn push(&mut self, _: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Parts { mut packets, columns, .. } = frame.parts();
        let parsed = columns.get(self.parsed);
        for slot in batch.iter() {
            let bytes = packets[slot].data_mut();
            // What Steer wrote: the address of the handling node.
            let Some(mac) = ethernet::destination(bytes).and_then(FabricMac::decode) else { continue };
            let way = self.detours.draw(mac.node, mac.port, parsed[slot].datagram, |_| true);
            let _is_long_enough = ethernet::set_destination(bytes, way.encode());
        }
        out.all(0, batch);
    }
}
