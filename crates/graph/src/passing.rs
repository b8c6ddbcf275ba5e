//! Moves packets between elements, and drops packets.

use crate::frame::Frame;
use crate::graph::{Edge, Graph};
use crate::meta::Meta;
use crate::out::{DropOrigin, TurnState};
use crate::slot::SlotList;
use crate::spec::{RUN_DROPS, run};
use crate::tap::Watch;
use crate::trace::Trace;
use crate::worker::{HOP_LIMIT, Worker};
use scalebricks_io::PacketBuf;

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Moves what an element sent to the connected inputs, and drops what it dropped. Cheap if there is nothing: most
    /// sources bring nothing in most turns.
    #[inline]
    pub(crate) fn send(&mut self, at: usize) {
        // Without slots in use, every list is empty.
        if self.frame.has_slots() {
            self.send_slots(at);
        }
        if !self.graph.nodes[at].senders.is_empty() {
            self.send_by_value(at);
        }
        if !self.turn_state.dropped.is_empty() {
            self.drop_packets();
        }
        if !self.frame.dropped.is_empty() {
            self.drop_by_value();
        }
    }

    /// Moves what an element sent in slots to the connected inputs.
    fn send_slots(&mut self, at: usize) {
        let Graph { nodes, pending, carried, edges: infos, .. } = &mut *self.graph;
        let node = &mut nodes[at];
        for (list, port) in node.outs.iter_mut().zip(&node.ports) {
            if list.is_empty() {
                continue;
            }
            let Some(edge) = port.edge else {
                let why = DropOrigin { node: at as u16, part: port.part, reason: run::UNCONNECTED as u8 };
                list.drain().for_each(|slot| self.turn_state.drop(slot, why));
                continue;
            };
            if edge.is_back {
                self.goes_back = true;
                go_back(list, 0, &mut self.frame, &mut self.turn_state, (at as u16, port.part));
                if list.is_empty() {
                    continue;
                }
            }
            let info = &infos[edge.id as usize];
            if self.frame.watch.has_edge(edge.id) {
                let packets = list.iter().map(|slot| self.frame.packet(slot).data());
                self.frame.watch.passed(edge.id, info, packets);
            }
            self.trace.passed(info, list, &self.frame);
            if let Some(number) = edge.carried {
                let bursts = &mut carried[number as usize];
                self.frame.by_value += list.len();
                list.drain().for_each(|slot| bursts.push(self.frame.take(slot)));
            } else {
                pending[edge.target as usize].append(list);
            }
            mark(&mut self.ready, &mut self.waiting, edge);
        }
    }

    #[inline(never)]
    fn drop_packets(&mut self) {
        for (slot, why) in self.turn_state.dropped.drain().zip(&self.turn_state.why[..]) {
            let packet = self.frame.take(slot);
            drop_packet(&self.graph, &mut self.trace, &self.frame.watch, &packet, *why);
        }
    }

    #[cold]
    fn drop_by_value(&mut self) {
        for (packet, why) in self.frame.dropped.drain(..) {
            drop_packet(&self.graph, &mut self.trace, &self.frame.watch, &packet, why);
        }
    }

    /// Frees slots that an element lost.
    #[cold]
    pub(crate) fn reclaim(&mut self) {
        let lost = self.frame.reclaim();
        if let Some(part) = self.graph.nodes.first().and_then(|node| node.parts.first()) {
            part.cells.drop_run(run::SLOT_LOST, lost.len() as u64);
            for packet in &lost {
                self.frame.watch.dropped(RUN_DROPS[run::SLOT_LOST].name, packet.data());
                self.trace.dropped(&part.name, &RUN_DROPS[run::SLOT_LOST], packet);
            }
        }
        debug_assert!(lost.is_empty(), "{} slots were let go in a turn", lost.len());
    }

    /// Moves what an element sent by value to the connected inputs.
    pub(crate) fn send_by_value(&mut self, at: usize) {
        let Graph { nodes, pending, carried, homes, edges: infos, .. } = &mut *self.graph;
        let node = &mut nodes[at];
        for &number in &node.senders {
            let at_port = usize::from(number);
            let bursts = &mut node.sent[at_port];
            if bursts.is_empty() {
                continue;
            }
            let (port, count) = (&node.ports[at_port], bursts.len());
            let why = |reason| DropOrigin { node: at as u16, part: port.part, reason: reason as u8 };
            let Some(edge) = port.edge else {
                let dropped = &mut self.frame.dropped;
                let why = why(run::UNCONNECTED);
                bursts.each(|chunk| dropped.extend(chunk.packets.drain(..).map(|packet| (packet, why))));
                continue;
            };
            let info = &infos[edge.id as usize];
            if self.frame.watch.has_edge(edge.id) {
                let packets = bursts.chunks().flat_map(|chunk| &chunk.packets).map(PacketBuf::data);
                self.frame.watch.passed(edge.id, info, packets);
            }
            bursts.chunks().for_each(|chunk| self.trace.carried(info, &chunk.packets));
            if let Some(target) = edge.carried {
                if edge.is_back && self.turn_state.backs_left < count {
                    let (dropped, why) = (&mut self.frame.dropped, why(run::LOOP));
                    bursts.each(|chunk| dropped.extend(chunk.packets.drain(..).map(|packet| (packet, why))));
                    continue;
                }
                // Packets by value carry no hop count, so the turn as a whole is bounded.
                self.turn_state.backs_left -= if edge.is_back { count } else { 0 };
                self.frame.by_value += count;
                carried[target as usize].append(bursts);
                homes[target as usize] = (at as u16, number);
            } else {
                // The list of this output is empty, since its port sends by value.
                let list = &mut node.outs[at_port];
                let frame = &mut self.frame;
                bursts.each(|chunk| {
                    frame.put_burst(&mut chunk.packets, list, |_| Meta::default());
                    let left = chunk.packets.drain(..);
                    frame.dropped.extend(left.map(|packet| (packet, why(run::NO_SLOT))));
                });
                if edge.is_back {
                    go_back(list, 0, &mut self.frame, &mut self.turn_state, (at as u16, port.part));
                }
                pending[edge.target as usize].append(list);
            }
            self.goes_back |= edge.is_back;
            mark(&mut self.ready, &mut self.waiting, edge);
        }
    }
}

/// The bit that represents all inputs from this number on.
pub(crate) const LAST_BIT: usize = 63;

/// The bit of an input.
#[inline(always)]
pub(crate) const fn waiting_bit(input: usize) -> u64 {
    1 << if input < LAST_BIT { input } else { LAST_BIT }
}

/// Records that something has reached an input.
#[inline(always)]
pub(crate) fn mark(ready: &mut [u64], waiting: &mut [u64], edge: Edge) {
    ready[usize::from(edge.node / 64)] |= 1 << (edge.node % 64);
    waiting[usize::from(edge.node)] |= waiting_bit(usize::from(edge.input));
}

/// Counts a drop, and shows the packet to captures and traces.
pub(crate) fn drop_packet<P: PacketBuf, T: Trace<P>>(
    graph: &Graph<P>,
    trace: &mut T,
    watch: &Watch,
    packet: &P,
    why: DropOrigin,
) {
    let Some(part) = graph.nodes[usize::from(why.node)].parts.get(usize::from(why.part)) else { return };
    part.cells.drop_at(why.reason);
    let Some(spec) = RUN_DROPS.iter().chain(part.spec.drops).nth(usize::from(why.reason)) else { return };
    watch.dropped(spec.name, packet.data());
    trace.dropped(&part.name, spec, packet);
}

/// Counts a hop for each packet from `start` on. Drops those over the limit, or all if the turn's limit is reached.
#[cold]
pub(crate) fn go_back<P: PacketBuf>(
    list: &mut SlotList,
    start: usize,
    frame: &mut Frame<P>,
    turn_state: &mut TurnState,
    (node, part): (u16, u8),
) {
    list.filter_map_from(start, |slot| {
        let meta = frame.meta_mut(&slot);
        meta.hops += 1;
        if meta.hops < HOP_LIMIT && turn_state.backs_left > 0 {
            turn_state.backs_left -= 1;
            return Some(slot);
        }
        turn_state.drop(slot, DropOrigin { node, part, reason: run::LOOP as u8 });
        None
    });
}
