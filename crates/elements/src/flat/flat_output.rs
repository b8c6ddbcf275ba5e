//! `FlatOutput`.

use crate::gateway::DropReason;
use scalebricks_graph::{Control, Element, Frame, Meta, Out, PortId, SlotList, element};
use scalebricks_io::{Burst, PacketBuf, TxPort};

/// What a port receives of frames flooded from another port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloodShare {
    /// Nothing: it is that port, or one of its group.
    Nothing,
    /// A copy.
    Copy,
    /// The frame itself, as the last port.
    Itself,
}

element! {
    /// Sends frames by a port of a switch, keeping the order of frames from the same input port. Frames that the port
    /// refuses are dropped: waiting for one port would delay all others. Flooded frames pass the outputs of all ports
    /// one after another, and each copies them outside the frame, so a flood takes no slots, however many ports there
    /// are. Only programs make it; configurations cannot name it.
    pub struct FlatOutput<P> as "FlatOutput" {
        port: Box<dyn TxPort<P>>,
        burst: Burst<P>,
        shares: Box<[FloodShare]>,
        kept: Vec<(u32, P)>,
    }
    inputs {
        push "flood" [Optional]: "Frames for all ports.",
        push "in" [Optional]: "Frames for this port.",
    }
    outputs { push "on" [Optional]: "Flooded frames for the next port.", }
    drops {
        NO_BUFFER = DropReason::NoBuffer,
        PORT_FULL = DropReason::PortFull,
    }
    counters {
        FRAMES = "tx_frames": "Frames sent.",
        BYTES = "tx_bytes": "Bytes of frames sent.",
    }
    hooks { End, }
}

impl<P> FlatOutput<P> {
    /// Sends by this port; `shares` gives its share of flooded frames by input port.
    pub fn new(port: Box<dyn TxPort<P>>, shares: Box<[FloodShare]>) -> Self {
        Self { port, burst: Burst::new(), shares, kept: Vec::new() }
    }
}

fn bytes<P: PacketBuf>(burst: &Burst<P>) -> u64 {
    burst.iter().map(|packet| packet.data().len() as u64).sum()
}

impl<P: PacketBuf> FlatOutput<P> {
    /// Sends the burst, and drops what the port refuses.
    fn flush(port: &mut Box<dyn TxPort<P>>, burst: &mut Burst<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if burst.is_empty() {
            return;
        }
        let all = bytes(burst);
        let sent = port.tx_burst(burst);
        out.count(Self::FRAMES, sent as u64);
        out.count(Self::BYTES, all - bytes(burst));
        burst.drain(..).for_each(|packet| out.drop_packet(packet, Self::PORT_FULL, frame));
    }

    /// Keeps this port's share of flooded frames, and leaves in the batch what further ports need.
    fn share(&mut self, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        batch.filter_map(|slot| {
            let Meta { port: PortId(from), mark, .. } = *frame.meta(&slot);
            match self.shares.get(usize::from(from)).copied().unwrap_or(FloodShare::Nothing) {
                FloodShare::Nothing => {}
                FloodShare::Copy => match frame.duplicate(&slot) {
                    Some(copy) => self.kept.push((mark, copy)),
                    None => out.count_drops(Self::NO_BUFFER, 1),
                },
                FloodShare::Itself => {
                    self.kept.push((mark, frame.take(slot)));
                    return None;
                }
            }
            Some(slot)
        });
    }

    /// Sends the kept frames in order of arrival.
    #[cold]
    fn send_kept(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Self { port, burst, kept, .. } = self;
        // A port gets each frame once, so marks are unique.
        kept.sort_unstable_by_key(|(mark, _)| *mark);
        for (_, packet) in kept.drain(..) {
            burst.push(packet);
            if burst.is_full() {
                Self::flush(port, burst, frame, out);
            }
        }
        Self::flush(port, burst, frame, out);
    }
}

impl<P: PacketBuf + 'static> Control for FlatOutput<P> {}

impl<P: PacketBuf + 'static> Element<P> for FlatOutput<P> {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        // The runner delivers flooded frames first.
        if input == 0 {
            self.share(batch, frame, out);
            return out.all(0, batch);
        }
        if !self.kept.is_empty() {
            let others = batch.drain().map(|slot| (frame.meta(&slot).mark, frame.take(slot)));
            self.kept.extend(others);
            return self.send_kept(frame, out);
        }
        let Self { port, burst, .. } = self;
        frame.take_all(batch, burst, |frame, burst| Self::flush(port, burst, frame, out));
        Self::flush(port, burst, frame, out);
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.kept.is_empty() {
            self.send_kept(frame, out);
        }
    }
}
