//! Packets by value from where they were sent to where they go.

use crate::graph::Graph;
use crate::out::Why;
use crate::spec::run;
use crate::tap::Seen;
use crate::trace::Trace;
use crate::worker::{Worker, go_back, mark};
use scalebricks_io::PacketBuf;

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Moves what an element sent by value to where its outputs lead.
    pub(crate) fn send_by_value(&mut self, at: usize) {
        let Graph { nodes, pending, carried, taps, edges: infos, .. } = &mut *self.graph;
        let node = &mut nodes[at];
        for &number in &node.senders {
            let at_port = usize::from(number);
            let (bursts, port) = (&mut node.sent[at_port], &node.ports[at_port]);
            if bursts.is_empty() {
                continue;
            }
            let why = |reason| Why { node: at as u16, part: port.part, reason: reason as u8 };
            let Some(edge) = port.edge else {
                let dropped = &mut self.frame.dropped;
                let why = why(run::UNCONNECTED);
                bursts.each(|chunk| dropped.extend(chunk.packets.drain(..).map(|packet| (packet, why))));
                continue;
            };
            if taps.has_edge(edge.id) {
                for packet in bursts.chunks().flat_map(|chunk| &chunk.packets) {
                    taps.capture(Seen::Edge(edge.id), self.desk.turn.now, packet.data());
                }
            }
            let info = &infos[edge.id as usize];
            bursts.chunks().for_each(|chunk| self.trace.carried(info, &chunk.packets));
            if let Some(target) = edge.carried {
                if edge.is_back && self.desk.backs_left < bursts.len() {
                    let (dropped, why) = (&mut self.frame.dropped, why(run::LOOP));
                    bursts.each(|chunk| dropped.extend(chunk.packets.drain(..).map(|packet| (packet, why))));
                    continue;
                }
                // Packets by value carry no hops: the turn as a whole is bounded.
                self.desk.backs_left -= if edge.is_back { bursts.len() } else { 0 };
                self.frame.by_value += bursts.len();
                carried[target as usize].append(bursts);
            } else {
                // The list of the same output is empty: its port sends by value.
                let list = &mut node.outs[at_port];
                let frame = &mut self.frame;
                bursts.each(|chunk| {
                    for packet in chunk.packets.drain(..) {
                        match frame.put(packet) {
                            Ok(slot) => list.push(slot),
                            Err(packet) => frame.dropped.push((packet, why(run::NO_SLOT))),
                        }
                    }
                });
                if edge.is_back {
                    go_back(list, 0, &mut self.frame, &mut self.desk, (at as u16, port.part));
                }
                pending[edge.target as usize].append(list);
            }
            self.goes_back |= edge.is_back;
            mark(&mut self.ready, &mut self.waiting, edge);
        }
    }
}
