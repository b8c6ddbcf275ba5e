//! `ToPort`.

use super::columns::{IN_PIECES, OTHER};
use crate::line::{self, Line};
use crate::node::NodeConfig;
use crate::oversize::cut;
use scalebricks_graph::{Control, Element, Frame, Lanes, Out, Slot, Spec, element};
use scalebricks_io::{Burst, PacketBuf, TxPort};

element! {
    /// Sends packets to an outside port, such as do not fit its link as fragments of their outer packets.
    pub struct ToPort<P> as "ToPort" { port: Box<dyn TxPort<P>>, mtu: usize, line: Line<P>, }
    inputs { push "in": "Finished frames.", }
    drops {
        PORT_FULL = "port_full": "The outgoing port took no more packets.",
        NO_BUFFER = "no_buffer": "No buffer was left to make a fragment or an answer in.",
    }
    counters {
        SENT = "sent": "Packets sent, a fragmented one counted once, and answers of the node itself apart.",
        FRAGMENTED = "packets_fragmented": "Packets that were fragmented.",
        FRAGMENTS = "fragments_made": "Outer fragments sent in place of whole packets.",
    }
}

impl<P: PacketBuf> ToPort<P> {
    /// One that sends to this port.
    pub fn new(port: Box<dyn TxPort<P>>, config: &NodeConfig) -> Self {
        Self { port, mtu: usize::from(config.policy.base_station_mtu), line: Line::default() }
    }

    fn flush(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        send(&mut self.port, &mut self.line.burst, &mut self.line.others, frame, out);
    }

    fn send(&mut self, packet: P, is_other: bool, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if is_other {
            self.line.note_other();
        }
        self.line.burst.push(packet);
        if self.line.burst.is_full() {
            self.flush(frame, out);
        }
    }

    /// Sends what is no packet that just leaves.
    #[cold]
    fn send_otherwise(&mut self, slot: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if frame.meta(&slot).flags & IN_PIECES == 0 {
            let packet = frame.take(slot);
            return self.send(packet, true, frame, out);
        }
        let whole = frame.take(slot);
        let Some(pieces) = cut(&whole, self.mtu, || frame.alloc()) else {
            match frame.put(whole) {
                Ok(slot) => out.drop(slot, Self::NO_BUFFER),
                Err(_) => out.count_drops(Self::NO_BUFFER, 1),
            }
            return;
        };
        out.count(Self::FRAGMENTED, 1);
        out.count(Self::FRAGMENTS, pieces.len() as u64);
        for (number, piece) in pieces.into_iter().enumerate() {
            self.send(piece, number > 0, frame, out);
        }
    }
}

/// Sends a burst, and drops what the port refuses.
fn send<P: PacketBuf>(
    port: &mut Box<dyn TxPort<P>>,
    burst: &mut Burst<P>,
    others: &mut u32,
    frame: &mut Frame<P>,
    out: &mut Out<'_>,
) {
    let reason = ToPort::<P>::PORT_FULL;
    let sent = line::send(burst, others, Some(&mut **port), |refused, _| match frame.put(refused) {
        Ok(slot) => out.drop(slot, reason),
        Err(_) => out.count_drops(reason, 1),
    });
    out.count(ToPort::<P>::SENT, sent as u64);
}

impl<P: PacketBuf + 'static> Control for ToPort<P> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for ToPort<P> {
    fn push(&mut self, _: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if batch.iter().all(|slot| frame.meta(slot).flags & (IN_PIECES | OTHER) == 0) {
            let Self { port, line: Line { burst, others }, .. } = self;
            frame.take_all(batch, burst, |frame, burst| send(port, burst, others, frame, out));
        } else {
            for slot in batch.drain() {
                if frame.meta(&slot).flags & (IN_PIECES | OTHER) == 0 {
                    let packet = frame.take(slot);
                    self.send(packet, false, frame, out);
                } else {
                    self.send_otherwise(slot, frame, out);
                }
            }
        }
        self.flush(frame, out);
    }
}
