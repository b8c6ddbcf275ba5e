//! What a node counts.

use crate::reason::{DropCounts, DropReason};
use scalebricks_graph::Trace;
use scalebricks_graph::spec::DropSpec;
use scalebricks_io::{PacketBuf, Tag};
use std::fmt;

/// A node's counters. One worker owns them.
///
/// Every packet that comes in is sent by a port, dropped, taken by the slow path as a message to the node itself, or waits: for the
/// fabric, or in the slow path for its next hop. So `in = out + dropped + taken + waiting`, summed over all workers, where each sum
/// is over all ports. Beside that, `dropped` counts messages of the node itself and further fragments of a packet that a port refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeStats {
    /// Packets received from the Internet port.
    pub internet_in: u64,
    /// Packets received from the base-station port.
    pub base_station_in: u64,
    /// Frames received from the fabric.
    pub fabric_in: u64,
    /// Packets sent to the Internet, answers the node made itself apart. What the port refuses does not count.
    pub internet_out: u64,
    /// Packets sent to base stations; a fragmented one counts once.
    pub base_station_out: u64,
    /// Frames sent over the fabric.
    pub fabric_out: u64,
    /// Outer fragments sent in place of whole packets.
    pub fragments_made: u64,
    /// Packets that were fragmented.
    pub packets_fragmented: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// Packets forwarded once more because the FIB here did not hold them and the GPT named another node.
    pub forwarded_again: u64,
    /// Packets sent to another node over a third, because the direct way was broken. Counted where they go round.
    pub relayed: u64,
    /// Probes and echoes received from the fabric. They are no frames of `fabric_in`.
    pub probes_in: u64,
    /// Probes and echoes sent over the fabric. They are no frames of `fabric_out`.
    pub probes_out: u64,
    /// Probes and echoes that were not sent: no buffer, a full port, or a node that asks for too many.
    pub probes_unsent: u64,
    /// Dropped, by reason.
    pub dropped: DropCounts,
}

impl std::ops::AddAssign<&Self> for NodeStats {
    fn add_assign(&mut self, other: &Self) {
        // Named field by field, so that a new counter cannot be forgotten here.
        let Self {
            internet_in,
            base_station_in,
            fabric_in,
            internet_out,
            base_station_out,
            fabric_out,
            fragments_made,
            packets_fragmented,
            icmp_sent,
            forwarded_again,
            relayed,
            probes_in,
            probes_out,
            probes_unsent,
            dropped,
        } = other;
        self.internet_in += internet_in;
        self.base_station_in += base_station_in;
        self.fabric_in += fabric_in;
        self.internet_out += internet_out;
        self.base_station_out += base_station_out;
        self.fabric_out += fabric_out;
        self.fragments_made += fragments_made;
        self.packets_fragmented += packets_fragmented;
        self.icmp_sent += icmp_sent;
        self.forwarded_again += forwarded_again;
        self.relayed += relayed;
        self.probes_in += probes_in;
        self.probes_out += probes_out;
        self.probes_unsent += probes_unsent;
        self.dropped += dropped;
    }
}

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
