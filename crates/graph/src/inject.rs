//! Control operations on a worker between its turns, on the worker's own thread.

use crate::graph::Graph;
use crate::out::DropOrigin;
use crate::passing::{LAST_BIT, drop_packet};
use crate::spec::{DropId, RUN_DROPS};
use crate::timers::TimerId;
use crate::trace::Trace;
use crate::worker::Worker;
use scalebricks_io::PacketBuf;
use std::any::Any;
use std::time::Duration;

impl<P: PacketBuf + 'static> Graph<P> {
    /// An element by name, if it is of this type.
    pub fn get_mut<E: Any>(&mut self, element: &str) -> Option<&mut E> {
        let &(node, part) = self.names.get(element)?;
        let control: &mut dyn Any = self.nodes[usize::from(node)].control(usize::from(part));
        control.downcast_mut()
    }

    /// Calls `each` for every element of this type.
    pub fn each_mut<E: Any>(&mut self, mut each: impl FnMut(&mut E)) {
        for &(node, part) in self.names.values() {
            let control: &mut dyn Any = self.nodes[usize::from(node)].control(usize::from(part));
            if let Some(element) = control.downcast_mut() {
                each(element);
            }
        }
    }
}

impl<P: PacketBuf + 'static, T: Trace<P>> Worker<P, T> {
    /// Passes a packet to a `burst` input of an element, with or without its mark, and runs the graph until the frame
    /// is empty.
    ///
    /// # Errors
    /// Returns the packet if there is no such input.
    pub fn inject(&mut self, element: &str, input: usize, packet: P, is_marked: bool) -> Result<(), P> {
        let Some(&(node, _)) = self.graph.names.get(element) else { return Err(packet) };
        let at = usize::from(node);
        let Some(&Some(number)) = self.graph.nodes[at].carried.get(input) else { return Err(packet) };
        let bursts = &mut self.graph.carried[number as usize];
        if is_marked {
            bursts.push_marked(packet);
        } else {
            bursts.push(packet);
        }
        self.frame.by_value += 1;
        self.ready[at / 64] |= 1 << (at % 64);
        self.waiting[at] |= 1 << input.min(LAST_BIT);
        self.run_all();
        Ok(())
    }

    /// Sets a timer of an element, like [`Out::wake_at`](crate::Out::wake_at). `None` if there is no such element, or
    /// the worker has no timer left.
    pub fn wake_at(&mut self, element: &str, at: Duration, token: u64) -> Option<TimerId> {
        let &(node, _) = self.graph.names.get(element)?;
        self.turn_state.timers.set(at, node, token)
    }

    /// Like [`drop_packet`](Self::drop_packet), for a packet of which only the bytes are left. Without a free buffer,
    /// captures do not see it; it is only counted.
    pub fn drop_bytes(&mut self, element: &str, reason: DropId, bytes: &[u8]) {
        let packet = self.frame.alloc().and_then(|mut packet| packet.append(bytes).ok().map(|()| packet));
        if let Some(packet) = packet {
            return self.drop_packet(element, reason, &packet);
        }
        let Some(&(node, part)) = self.graph.names.get(element) else { return };
        if let Some(part) = self.graph.nodes[usize::from(node)].parts.get(usize::from(part)) {
            part.cells.count_drops(reason, 1);
        }
    }

    /// Counts the drop of a packet that was taken out of the graph, under a drop reason of this element's class.
    pub fn drop_packet(&mut self, element: &str, reason: DropId, packet: &P) {
        let Some(&(node, part)) = self.graph.names.get(element) else { return };
        let why = DropOrigin { node, part, reason: (RUN_DROPS.len() + usize::from(reason.0)) as u8 };
        drop_packet(&self.graph, &mut self.trace, &self.frame.watch, packet, why);
    }
}
