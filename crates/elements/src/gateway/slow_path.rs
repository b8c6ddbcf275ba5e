//! `SlowPath`.

use super::columns::Punted;
use super::drops::Drops;
use crate::gateway::punt::{PUNTS, Punt};
use crate::gateway::reason::DropReason;
use scalebricks_graph::element::BindError;
use scalebricks_graph::{Binder, Control, DropId, Element, Frame, Handle, Lanes, Meta, Out, Spec, element};
use scalebricks_io::PacketBuf;

element! {
    /// Keeps packets for the node's slow path until the turn ends. Without a slow path it drops them.
    #[derive(Debug)]
    pub struct SlowPath<P> as "SlowPath" { punts: Option<Vec<Punt<P>>>, drops: Drops, punted: Handle<Punted>, }
    inputs { push "in": "Packets for the node itself, of unknown flows, or whose next hop's address is not known.", }
    reads { Punted, }
    drops {
        NON_IP = "non_ip": "Neither IPv4 nor IPv6: ARP, other ethertypes, 802.3 frames.",
        FOR_THIS_NODE = "for_this_node": "For an address of the node itself, and nothing it answers.",
        LINK_LOCAL = "link_local": "From or to a link-local unicast address, which routers do not forward (RFC 4291 §2.5.6, RFC 3927 §7).",
        MULTICAST = "multicast": "Multicast or broadcast, by MAC or IP address.",
        NOT_FOR_GATEWAY = "not_for_gateway": "Upstream, but not addressed to the gateway.",
        NOT_GTPU = "not_gtpu": "Upstream to the gateway, but not GTP-U.",
        GTPU_SIGNALLING = "gtpu_signalling": "A GTP-U message other than G-PDU.",
        EXTENSION = "unsupported_extension": "A G-PDU with an extension header that its receiver must comprehend, and that is not known here.",
        UNKNOWN = "unknown_flow": "The handling node's FIB does not hold the key.",
        UNRESOLVED = "unresolved": "Its next hop's address on the link is not known: it was held for it in vain, or dropped at once.",
        NO_ROUTE = "no_route": "No route leads to its destination.",
        NO_BUFFER = "no_buffer": "No buffer was left to make a fragment or an answer in.",
        LINK_DOWN = "link_down": "The outgoing port's link is down.",
        NO_LEASE = "no_lease": "The node's lease had expired, as it had no contact with the log and half of the other members; or its tables were never filled yet.",
        SLOW_PATH_FULL = "slow_path_full": "More packets for the node itself than it deals with in a turn.",
    }
}

impl<P> Default for SlowPath<P> {
    fn default() -> Self {
        Self { punts: None, drops: Drops::of(Self::SPEC), punted: Handle::default() }
    }
}

impl<P> SlowPath<P> {
    /// From now on, packets wait for [`Self::take`], which must be called after every turn.
    pub fn keep(&mut self) {
        self.punts.get_or_insert_with(|| Vec::with_capacity(PUNTS));
    }

    /// The packets since the last call, into an empty list that takes the place of this one.
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

impl<P: PacketBuf + 'static> Control for SlowPath<P> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }

    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.punted = binder.column()?;
        Ok(())
    }
}

impl<P: PacketBuf + 'static> Element<P> for SlowPath<P> {
    fn push(&mut self, _: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            let Punted { why, link } = frame.column(self.punted)[&slot];
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
