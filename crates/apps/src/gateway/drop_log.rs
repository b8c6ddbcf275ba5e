//! The drops of a node, packet by packet.

use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_graph::Trace;
use scalebricks_graph::spec::DropSpec;
use scalebricks_io::{PacketBuf, Tag};
use std::fmt;

/// Which packet was dropped, and why: for whoever follows single packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The packet's tag.
    pub tag: Tag,
    /// Why.
    pub reason: DropReason,
}

/// Sees every packet a node drops, as it is at that moment. Called by the node's worker, so it must not wait.
pub trait DropWatcher: Send + fmt::Debug {
    /// A packet is dropped.
    fn dropped(&mut self, frame: &[u8], reason: DropReason);
}

/// The drops of a node, packet by packet: listed when asked for, shown to a watcher if there is one.
#[derive(Debug, Default)]
pub struct DropLog {
    list: Option<Vec<Dropped>>,
    watcher: Option<Box<dyn DropWatcher>>,
}

impl DropLog {
    /// Lists drops from now on. Whoever asks for the list must take it regularly: it grows with every drop.
    pub(crate) fn keep_list(&mut self) {
        self.list.get_or_insert_default();
    }

    /// Shows every packet dropped from now on to `watcher`.
    pub(crate) fn watch(&mut self, watcher: Box<dyn DropWatcher>) {
        self.watcher = Some(watcher);
    }

    /// The drops listed since the last call.
    pub(crate) fn take(&mut self) -> Vec<Dropped> {
        self.list.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<P: PacketBuf> Trace<P> for DropLog {
    fn dropped(&mut self, _: &str, reason: &DropSpec, packet: &P) {
        if self.list.is_none() && self.watcher.is_none() {
            return;
        }
        let reason = DropReason::of_name(reason.name).unwrap_or(DropReason::GraphError);
        if let Some(list) = &mut self.list {
            list.push(Dropped { tag: packet.tag(), reason });
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.dropped(packet.data(), reason);
        }
    }
}
