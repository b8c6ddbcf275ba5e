//! Elements that process single packets and use their destination annotation.

/// Implements [`Element`](scalebricks_graph::Element) for a type with a field `dst: Handle<DstIp>` and a method `fn
/// each<P: PacketBuf>(&mut self, packet: &mut P, meta: &mut Meta, dst: &mut DstIp, out: &Out<'_>) -> Verdict`, which is
/// like that of [`PerPacket`](scalebricks_graph::PerPacket).
macro_rules! per_destination {
    ($class:ident) => {
        impl $class {
            fn process<P: scalebricks_io::PacketBuf>(
                &mut self,
                batch: &mut scalebricks_graph::SlotList,
                start: usize,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                let scalebricks_graph::frame::Parts { mut packets, meta, columns } = frame.parts();
                let dst = columns.get_mut(self.dst);
                batch.filter_map_from(start, |slot| {
                    let (packet, meta) = (&mut packets[&slot], &mut meta[slot.index()]);
                    let verdict = self.each(packet, meta, &mut dst[&slot], out);
                    out.route(slot, verdict)
                });
            }
        }

        scalebricks_graph::agnostic! { $class }
    };
}

pub(crate) use per_destination;
