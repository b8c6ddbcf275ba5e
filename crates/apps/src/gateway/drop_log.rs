//! Lists single dropped packets of a node.

use crate::gateway::readings::of_appliance;
use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_graph::Trace;
use scalebricks_graph::spec::DropSpec;
use scalebricks_io::{PacketBuf, Tag};

/// A dropped packet and the reason, for following single packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The packet's tag.
    pub tag: Tag,
    /// The reason.
    pub reason: DropReason,
}

/// The list of a node's drops, kept on request.
#[derive(Debug, Default)]
pub struct DropLog {
    list: Option<Vec<Dropped>>,
}

impl DropLog {
    /// Lists drops from now on. The list grows with every drop, so it must be taken regularly.
    pub(crate) fn keep_list(&mut self) {
        self.list.get_or_insert_default();
    }

    /// The drops listed since the last call.
    pub(crate) fn take(&mut self) -> Vec<Dropped> {
        self.list.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<P: PacketBuf> Trace<P> for DropLog {
    fn dropped(&mut self, element: &str, reason: &DropSpec, packet: &P) {
        let Some(list) = &mut self.list else { return };
        let reason = DropReason::of_name(reason.name).unwrap_or_else(|| of_appliance(element, reason.name));
        list.push(Dropped { tag: packet.tag(), reason });
    }
}
