//! The drops of a node, packet by packet.

use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_graph::Trace;
use scalebricks_graph::spec::DropSpec;
use scalebricks_io::{PacketBuf, Tag};

/// Which packet was dropped, and why: for whoever follows single packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The packet's tag.
    pub tag: Tag,
    /// Why.
    pub reason: DropReason,
}

/// The drops of a node, packet by packet, when they are asked for.
#[derive(Debug, Default)]
pub struct DropLog {
    list: Option<Vec<Dropped>>,
}

impl DropLog {
    /// Lists drops from now on. Whoever asks for the list must take it regularly: it grows with every drop.
    pub(crate) fn keep_list(&mut self) {
        self.list.get_or_insert_default();
    }

    /// The drops listed since the last call.
    pub(crate) fn take(&mut self) -> Vec<Dropped> {
        self.list.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<P: PacketBuf> Trace<P> for DropLog {
    fn dropped(&mut self, _: &str, reason: &DropSpec, packet: &P) {
        let Some(list) = &mut self.list else { return };
        let reason = DropReason::of_name(reason.name).unwrap_or(DropReason::GraphError);
        list.push(Dropped { tag: packet.tag(), reason });
    }
}
