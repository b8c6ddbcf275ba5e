//! `ToPort`.

use crate::gateway::outside::down_links::DownLinks;
use crate::gateway::reason::DropReason;
use crate::gateway::role::PortRole;
use scalebricks_graph::{Bursts, Control, Element, Frame, Out, element};
use scalebricks_io::PacketBuf;
use std::sync::Arc;

element! {
    /// Sends frames on an outside port.
    pub struct ToPort as "ToPort" { role: PortRole, pub(super) down: Arc<DownLinks>, }
    inputs {
        burst "in": "Finished frames. A marked frame does not count as a packet: it is a further fragment, or an answer of the node itself.",
    }
    drops {
        PORT_FULL = DropReason::PortFull,
        LINK_DOWN = DropReason::LinkDown,
        NO_LEASE = DropReason::NoLease,
    }
    counters { SENT = "sent": "Packets sent. A fragmented packet counts once; the node's own answers do not count.", }
}

impl ToPort {
    /// Sends on this port of the worker.
    pub fn new(role: PortRole) -> Self {
        Self { role, down: Arc::default() }
    }
}

impl Control for ToPort {}

impl<P: PacketBuf> Element<P> for ToPort {
    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let is_down = self.down.is_down(self.role);
        let mut packets = 0;
        bursts.each(|chunk| {
            let in_line = chunk.packets.len();
            if !is_down {
                frame.transmit(self.role as usize, &mut chunk.packets);
            }
            let sent = in_line - chunk.packets.len(); // the first ones
            let marked = u64::from(chunk.marks) & ((1 << sent) - 1); // at most 32 places
            packets += sent - marked.count_ones() as usize;
            let reason = if is_down { Self::LINK_DOWN } else { Self::PORT_FULL };
            chunk.packets.drain(..).for_each(|refused| out.drop_packet(refused, reason, frame));
        });
        out.count(Self::SENT, packets as u64);
    }
}
