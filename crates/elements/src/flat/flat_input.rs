//! `FlatInput`.

use super::action::PortNo;
use scalebricks_graph::{Control, Element, Frame, Meta, Out, PortId, Upstream, element};
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort};

element! {
    /// Receives the frames of a switch port and marks them with their order in the turn. Only programs make it;
    /// configurations cannot name it.
    pub struct FlatInput<P> as "FlatInput" { port: Box<dyn RxPort<P>>, number: PortNo, waiting: Burst<P>, }
    outputs { push "out": "Frames.", }
    counters {
        FRAMES = "rx_frames": "Frames received.",
        BYTES = "rx_bytes": "Bytes of frames received.",
    }
    hooks { Begin, }
}

impl<P> FlatInput<P> {
    /// For the port of this number.
    pub fn new(port: Box<dyn RxPort<P>>, number: PortNo) -> Self {
        Self { port, number, waiting: Burst::new() }
    }
}

impl<P: PacketBuf> FlatInput<P> {
    /// Receives a burst if none waits; returns whether frames wait.
    fn receive(&mut self, out: &Out<'_>) -> bool {
        let came = self.port.rx_burst(&mut self.waiting);
        let bytes: usize = self.waiting.iter().map(|packet| packet.data().len()).sum();
        out.count(Self::FRAMES, came as u64);
        out.count(Self::BYTES, bytes as u64);
        came > 0
    }
}

impl<P: PacketBuf + 'static> Control for FlatInput<P> {}

impl<P: PacketBuf + 'static> Element<P> for FlatInput<P> {
    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let number = self.number.get();
        // A turn takes fewer frames than 16 bits can count.
        let mut mark = u32::from(number) << 16;
        let mut meta = |_: &P| {
            mark += 1;
            let mut meta = Meta::new(PortId(number), 0);
            meta.mark = mark;
            meta
        };
        let mut room = out.intake(frame.used());
        while room > 0 && (!self.waiting.is_empty() || self.receive(out)) {
            let is_last = self.waiting.len() < BURST;
            let Some(list) = out.list(0) else { return };
            let mut burst: Burst<P>;
            let burst = if self.waiting.len() <= room {
                &mut self.waiting
            } else {
                burst = self.waiting.drain(..room).collect();
                &mut burst
            };
            room -= burst.len();
            frame.put_burst(burst, list, &mut meta);
            if is_last {
                return;
            }
        }
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.waiting.drain(..).for_each(|packet| to(packet, Meta::default()));
    }
}
