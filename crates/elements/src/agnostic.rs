//! Elements that process single packets and use columns.

/// Implements [`Element`](scalebricks_graph::Element) for a type with a method `fn process<P: PacketBuf>(&mut self,
/// batch: &mut SlotList, start: usize, frame: &mut Frame<P>, out: &mut Out<'_>)`. The method processes the packets of
/// `batch` from `start` on; what it leaves there goes to output 0. The element can be pushed to and pulled from, like
/// an element of [`PerPacket`](scalebricks_graph::PerPacket), which has no access to columns.
macro_rules! agnostic {
    ($class:ident) => {
        impl<P: scalebricks_io::PacketBuf + 'static> scalebricks_graph::Element<P> for $class {
            fn push(
                &mut self,
                _: usize,
                batch: &mut scalebricks_graph::SlotList,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                self.process(batch, 0, frame, out);
                out.all(0, batch);
            }

            fn as_pull(&mut self) -> Option<&mut dyn scalebricks_graph::Pull<P>> {
                Some(self)
            }
        }

        impl<P: scalebricks_io::PacketBuf + 'static> scalebricks_graph::Pull<P> for $class {
            fn pull(
                &mut self,
                output: usize,
                want: usize,
                into: &mut scalebricks_graph::SlotList,
                upstream: &mut scalebricks_graph::Upstream<'_, P>,
                frame: &mut scalebricks_graph::Frame<P>,
                out: &mut scalebricks_graph::Out<'_>,
            ) {
                if output == 0 {
                    let start = into.len();
                    upstream.pull(0, want, into, frame, out);
                    self.process(into, start, frame, out);
                }
            }
        }
    };
}

pub(crate) use agnostic;
