//! `FabricOut`.

use super::permit::Permit;
use super::route_cache::RouteCache;
use crate::gateway::fabric::mac::FabricMac;
use crate::gateway::outside::down_links::DownLinks;
use crate::gateway::reason::DropReason;
use crate::gateway::role::PortRole;
use scalebricks_graph::{Bursts, Control, DropId, Element, Frame, Meta, Out, element};
use scalebricks_io::{Burst, PacketBuf};
use scalebricks_wire::ethernet;
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames that may wait for a congested fabric before they are dropped.
pub const FABRIC_QUEUE: usize = 4_096;

const FABRIC: usize = PortRole::Fabric as usize;

element! {
    /// Sends frames over the fabric. Frames that the fabric refuses wait in order; meanwhile the node takes no new
    /// packets from outside.
    pub struct FabricOut<P> as "FabricOut" {
        waiting: VecDeque<P>, pub(super) permit: Permit, pub(super) ways: RouteCache, pub(super) down: Arc<DownLinks>,
    }
    inputs {
        burst "in": "Frames with their addresses. If the direct path is broken, they go through a relay node.",
        burst "onward" [Optional]: "Frames that already take an indirect path. Their address is not changed.",
        burst "probes" [Optional]: "Probes and echoes. They are sent before waiting frames. If the port refuses one, it is dropped: a late probe is useless.",
    }
    drops {
        FULL = DropReason::FabricFull,
        LINK_DOWN = DropReason::LinkDown,
        NO_LEASE = DropReason::NoLease,
    }
    counters {
        SENT = "sent": "Frames sent.",
        WAITING = "waiting": "Frames that currently wait for the fabric.",
        RELAYED = "relayed": "Frames sent through a relay node because the direct path was broken.",
        PROBES_SENT = "probes_sent": "Probes and echoes sent.",
        PROBES_UNSENT = "probes_unsent": "Probes and echoes that the port refused.",
    }
    hooks { End, Pressure, }
}

const IN: usize = 0;
const PROBES: usize = 2;

impl<P> Default for FabricOut<P> {
    fn default() -> Self {
        let (permit, ways) = (Permit::default(), RouteCache::default());
        Self { waiting: VecDeque::new(), permit, ways, down: Arc::default() }
    }
}

impl<P: PacketBuf> FabricOut<P> {
    fn drop_all(packets: impl Iterator<Item = P>, reason: DropId, frame: &mut Frame<P>, out: &Out<'_>) {
        packets.for_each(|packet| out.drop_packet(packet, reason, frame));
    }

    /// Sends the waiting frames, oldest first.
    fn flush(&mut self, frame: &mut Frame<P>, out: &Out<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        if self.down.is_down(PortRole::Fabric) {
            // They would wait for a link that carries nothing, and the node would take no packets of its own flows
            // meanwhile.
            return Self::drop_all(self.waiting.drain(..), Self::LINK_DOWN, frame, out);
        }
        if !self.permit.forwards(out.now()) {
            return Self::drop_all(self.waiting.drain(..), Self::NO_LEASE, frame, out);
        }
        while let Some(packet) = self.waiting.pop_front() {
            let mut one: Burst<P> = std::iter::once(packet).collect();
            let sent = frame.transmit(FABRIC, &mut one);
            out.count(Self::SENT, sent as u64);
            if let Some(refused) = one.pop() {
                return self.waiting.push_front(refused);
            }
        }
    }

    /// Sends a burst after the waiting frames. Frames that the port refuses wait too, up to [`FABRIC_QUEUE`].
    fn send(&mut self, burst: &mut Burst<P>, frame: &mut Frame<P>, out: &Out<'_>) {
        if self.down.is_down(PortRole::Fabric) {
            return Self::drop_all(burst.drain(..), Self::LINK_DOWN, frame, out);
        }
        if self.waiting.is_empty() {
            out.count(Self::SENT, frame.transmit(FABRIC, burst) as u64);
        }
        for refused in burst.drain(..) {
            if self.waiting.len() < FABRIC_QUEUE {
                self.waiting.push_back(refused);
            } else {
                out.drop_packet(refused, Self::FULL, frame);
            }
        }
    }

    /// Rewrites frames' addresses so that they avoid broken paths.
    #[cold]
    fn go_round(&self, burst: &mut Burst<P>, out: &Out<'_>) {
        for packet in burst {
            let mac = ethernet::destination(packet.data()).and_then(FabricMac::decode);
            let Some(round) = mac.and_then(|mac| self.ways.round(mac)) else { continue };
            if ethernet::set_destination(packet.data_mut(), round.encode()) {
                out.count(Self::RELAYED, 1);
            }
        }
    }
}

impl<P: PacketBuf + 'static> Control for FabricOut<P> {}

impl<P: PacketBuf + 'static> Element<P> for FabricOut<P> {
    fn burst(&mut self, input: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if input == PROBES {
            return bursts.each(|chunk| {
                let sent = frame.transmit(FABRIC, &mut chunk.packets);
                out.count(Self::PROBES_SENT, sent as u64);
                out.count(Self::PROBES_UNSENT, chunk.packets.drain(..).len() as u64);
            });
        }
        let goes_round = input == IN && self.ways.go_round();
        self.flush(frame, out);
        bursts.each(|chunk| {
            if goes_round {
                self.go_round(&mut chunk.packets, out);
            }
            self.send(&mut chunk.packets, frame, out);
        });
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.flush(frame, out);
        out.set(Self::WAITING, self.waiting.len() as u64);
        out.set_pressure(!self.waiting.is_empty());
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.waiting.drain(..).for_each(|packet| to(packet, Meta::default()));
    }
}
