//! `SlowPath`.

use super::columns::PuntInfo;
use super::drop_ids::DropIds;
use crate::gateway::punt::{PUNTS, Punt};
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Control, DropId, Element, Frame, Handle, Meta, Out, SlotList, element};
use scalebricks_io::PacketBuf;

element! {
    /// Collects packets for the node's slow path until the turn ends. Without a slow path it drops them.
    pub struct SlowPath<P> as "SlowPath" { punts: Option<Vec<Punt<P>>>, drops: DropIds, punted: Handle<PuntInfo>, }
    inputs { push "in": "Packets for the node itself, of unknown flows, or whose next hop's MAC address is unknown.", }
    reads { PuntInfo, }
    drops {
        NON_IP = DropReason::NonIp,
        FOR_THIS_NODE = DropReason::ForThisNode,
        LINK_LOCAL = DropReason::LinkLocal,
        MULTICAST = DropReason::Multicast,
        NOT_FOR_GATEWAY = DropReason::NotForGateway,
        NO_PIN = DropReason::NoPin,
        NOT_GTPU = DropReason::NotGtpu,
        GTPU_SIGNALLING = DropReason::GtpuSignalling,
        EXTENSION = DropReason::UnsupportedExtension,
        UNKNOWN = DropReason::UnknownFlow,
        UNRESOLVED = DropReason::Unresolved,
        NO_ROUTE = DropReason::NoRoute,
        NO_BUFFER = DropReason::NoBuffer,
        LINK_DOWN = DropReason::LinkDown,
        NO_LEASE = DropReason::NoLease,
        SLOW_PATH_FULL = DropReason::SlowPathFull,
    }
    binds { punted, }
}

impl<P> Default for SlowPath<P> {
    fn default() -> Self {
        Self { punts: None, drops: DropIds::of(Self::SPEC), punted: Handle::default() }
    }
}

impl<P> SlowPath<P> {
    /// Keeps packets from now on. [`Self::take`] must then be called after every turn.
    pub fn keep(&mut self) {
        self.punts.get_or_insert_with(|| Vec::with_capacity(PUNTS));
    }

    /// Swaps the packets since the last call with `into`, which must be empty.
    pub fn take(&mut self, into: &mut Vec<Punt<P>>) {
        if let Some(punts) = &mut self.punts {
            std::mem::swap(punts, into);
        }
    }

    /// The number of a reason.
    pub const fn drop_id(&self, reason: DropReason) -> DropId {
        self.drops.id(reason)
    }
}

impl<P: PacketBuf + 'static> Control for SlowPath<P> {}

impl<P: PacketBuf + 'static> Element<P> for SlowPath<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            let PuntInfo { why, link } = frame.column(self.punted)[&slot];
            match &mut self.punts {
                Some(punts) if punts.len() < PUNTS => {
                    punts.push(Punt { packet: frame.take(slot), link, why });
                }
                Some(_) => out.drop(slot, Self::SLOW_PATH_FULL),
                None => out.drop(slot, self.drops.id(why.reason())),
            }
        }
    }

    fn held(&self) -> usize {
        self.punts.as_ref().map_or(0, Vec::len)
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.punts
            .iter_mut()
            .flat_map(|punts| punts.drain(..))
            .for_each(|punt| to(punt.packet, Meta::default()));
    }
}
