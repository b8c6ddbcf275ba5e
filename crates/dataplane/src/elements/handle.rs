//! `Handle`.

use super::asked::Asked;
use super::columns::{Found, IN_PIECES, Keyed};
use super::drops::Drops;
use crate::classify::{Classifier, Parsed};
use crate::fabric_mac::OutputPort;
use crate::flow::{FlowCounters, FlowState};
use crate::node::NodeConfig;
use crate::reason::DropReason;
use crate::tunnels::{Fate, Tunnels, prefetch_tunnel};
use scalebricks_graph::element::BindError;
use scalebricks_graph::frame::Parts;
use scalebricks_graph::{Binder, Control, Element, Frame, Lanes, Meta, Out, SLOTS, Slot, Spec, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::{Fib, FibValue};
use scalebricks_types::KeyHash;
use std::sync::Arc;

type Column<C> = scalebricks_graph::Handle<C>;

element! {
    /// Finds the state of each packet's flow in the FIB, and takes the packet into the flow's tunnel or out of it.
    #[derive(Debug)]
    pub struct Handle as "Handle" {
        fib: Arc<dyn Fib>, classifier: Classifier, tunnels: Tunnels, asked: Box<Asked>, too_big: Vec<(Slot, u16)>, drops: Drops,
        parsed: Column<Parsed>, keyed: Column<Keyed>, found: Column<Found>,
    }
    inputs {
        push "fabric" [Optional]: "Frames that an ingress node has judged.",
        push "keyed" [Optional]: "Packets whose key is known.",
        push "found" [Optional]: "Packets with what the FIB holds for their flow.",
    }
    outputs {
        push "base_station": "Packets in their tunnels.",
        push "internet": "Packets out of their tunnels, and answers of the node itself.",
        push "missed": "Packets whose flow the FIB does not hold.",
    }
    reads { Parsed on "keyed", Keyed on "keyed", Parsed on "found", Found on "found", }
    writes { Parsed on "missed", Keyed on "missed", }
    drops {
        TRUNCATED = "truncated": "The frame ends before its headers, or its IP packet before its stated length.",
        NON_IP = "non_ip": "Neither IPv4 nor IPv6: ARP, other ethertypes, 802.3 frames.",
        MALFORMED_IP = "malformed_ip": "An IP header that contradicts itself.",
        BAD_CHECKSUM = "bad_ipv4_checksum": "The IPv4 header checksum is wrong (an option ignores it).",
        FOR_THIS_NODE = "for_this_node": "For an address of the node itself, and nothing it answers.",
        LINK_LOCAL = "link_local": "From or to a link-local unicast address, which routers do not forward (RFC 4291 §2.5.6, RFC 3927 §7).",
        MULTICAST = "multicast": "Multicast or broadcast, by MAC or IP address.",
        NO_FIRST = "fragment_without_first": "A non-first fragment whose first fragment did not pass here before it.",
        UNKNOWN = "unknown_flow": "The handling node's FIB does not hold the key.",
        NOT_FOR_GATEWAY = "not_for_gateway": "Upstream, but not addressed to the gateway.",
        NOT_GTPU = "not_gtpu": "Upstream to the gateway, but not GTP-U.",
        MALFORMED_GTPU = "malformed_gtpu": "A GTP-U header that contradicts itself.",
        GTPU_SIGNALLING = "gtpu_signalling": "A GTP-U message other than G-PDU.",
        EXTENSION = "unsupported_extension": "A G-PDU with an extension header that its receiver must comprehend, and that is not known here.",
        GTPU_FRAGMENT = "gtpu_fragment": "A GTP-U packet that was itself fragmented on its way; the TEID is only in its first fragment.",
        MALFORMED_INNER = "malformed_inner": "The packet inside the tunnel is no IP packet.",
        TOO_BIG = "fragmentation_needed": "Does not fit the base-station link, and is answered by ICMP as configured.",
        TOO_LARGE = "too_large": "Larger than an IP packet can be once encapsulated.",
        NO_BUFFER = "no_buffer": "No buffer was left to make a fragment or an answer in.",
        NO_ROUTE = "no_route": "No route leads to its destination.",
        UNRESOLVED = "unresolved": "Its next hop's address on the link is not known: it was held for it in vain, or dropped at once.",
    }
    counters { ICMP_SENT = "icmp_sent": "ICMP errors sent.", }
}

const FABRIC: usize = 0;
const KEYED: usize = 1;

const BASE_STATION: usize = 0;
const INTERNET: usize = 1;
const MISSED: usize = 2;

impl Handle {
    /// The one of a node.
    pub fn new(config: &NodeConfig, fib: Arc<dyn Fib>, counters: Arc<FlowCounters>) -> Self {
        let is_strict = config.adjacencies.is_strict();
        Self {
            fib,
            classifier: Classifier::new(&config.policy, config.seed, config.own(), is_strict),
            tunnels: Tunnels::new(config, counters),
            asked: Asked::new(),
            too_big: Vec::with_capacity(SLOTS),
            drops: Drops::of(Self::SPEC),
            parsed: Column::default(),
            keyed: Column::default(),
            found: Column::default(),
        }
    }

    /// Acts on packets whose keys the FIB was asked for.
    fn act_on_asked<P: PacketBuf>(&mut self, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Parts { mut packets, meta, columns } = frame.parts();
        let (parsed, keyed) = columns.pair_mut(self.parsed, self.keyed);
        for (slot, value) in batch.iter().zip(&self.asked.values) {
            prefetch_tunnel(&packets[slot], &parsed[slot]);
            if let Some(value) = value {
                self.tunnels.prefetch_counters(&FlowState::decode(*value));
            }
        }
        let Self { tunnels, asked, drops, too_big, .. } = self;
        let mut next = 0;
        batch.sift(|slot| {
            let at = next % SLOTS;
            next += 1;
            let Some(value) = asked.values[at] else {
                keyed[&slot] = Keyed { key: asked.keys[at], hash: asked.hashes[at] };
                out.push(MISSED, slot);
                return None;
            };
            let (packet, parsed, hash) = (&mut packets[&slot], &parsed[&slot], asked.hashes[at]);
            let fate = act(tunnels, packet, parsed, hash, value);
            end(slot, fate, parsed.output, meta, drops, too_big, out)
        });
        out.all(BASE_STATION, batch);
    }

    /// Acts on packets that have what the FIB holds for them.
    fn act_on_found<P: PacketBuf>(&mut self, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Parts { mut packets, meta, columns } = frame.parts();
        let (parsed, found) = columns.pair_mut(self.parsed, self.found);
        for slot in batch.iter() {
            prefetch_tunnel(&packets[slot], &parsed[slot]);
            self.tunnels.prefetch_counters(&FlowState::decode(found[slot].value));
        }
        let Self { tunnels, drops, too_big, .. } = self;
        batch.sift(|slot| {
            let (packet, parsed) = (&mut packets[&slot], &parsed[&slot]);
            let Found { value, hash } = found[&slot];
            let fate = act(tunnels, packet, parsed, hash, value);
            end(slot, fate, parsed.output, meta, drops, too_big, out)
        });
        out.all(BASE_STATION, batch);
    }

    /// Drops packets, and tells their senders the largest that fits.
    #[cold]
    fn refuse_too_big<P: PacketBuf>(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for (slot, mtu) in self.too_big.drain(..) {
            let buffer = frame.alloc();
            let parsed = frame.column(self.parsed)[&slot];
            let answer = self.tunnels.too_big_answer(frame.packet(&slot), &parsed, mtu, || buffer);
            if let Some((answer, _)) = answer
                && let Ok(answer) = frame.put_because(answer, &slot)
            {
                out.count(Self::ICMP_SENT, 1);
                frame.meta_mut(&answer).flags |= super::columns::OTHER;
                out.push(INTERNET, answer);
            }
            out.drop(slot, self.drops.id(DropReason::FragmentationNeeded));
        }
    }
}

/// Takes a packet into its tunnel, or out of it.
#[inline(always)]
fn act<P: PacketBuf>(
    tunnels: &Tunnels,
    packet: &mut P,
    parsed: &Parsed,
    hash: KeyHash,
    value: FibValue,
) -> Fate {
    let flow = FlowState::decode(value);
    match parsed.output {
        OutputPort::BaseStation => tunnels.enter(packet, parsed, hash, &flow),
        OutputPort::Internet => tunnels.leave(packet, parsed, hash, &flow),
    }
}

/// Sends a packet where it belongs; one that goes to the base stations comes back.
#[inline(always)]
fn end(
    slot: Slot,
    fate: Fate,
    output: OutputPort,
    meta: &mut [Meta; SLOTS],
    drops: &Drops,
    too_big: &mut Vec<(Slot, u16)>,
    out: &mut Out<'_>,
) -> Option<Slot> {
    match fate {
        Fate::Leaves if output == OutputPort::BaseStation => return Some(slot),
        Fate::Leaves => out.push(INTERNET, slot),
        Fate::InPieces(_) => {
            meta[slot.index()].flags |= IN_PIECES;
            return Some(slot);
        }
        Fate::TooBig(mtu) => too_big.push((slot, mtu)),
        Fate::Unresolved(_) => out.drop(slot, Handle::UNRESOLVED),
        Fate::Dropped(reason) => out.drop(slot, drops.id(reason)),
    }
    None
}

impl Control for Handle {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }

    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.parsed = binder.column()?;
        self.keyed = binder.column()?;
        self.found = binder.column()?;
        Ok(())
    }
}

impl<P: PacketBuf> Element<P> for Handle {
    fn push(&mut self, input: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if input == FABRIC || input == KEYED {
            let len = if input == FABRIC {
                self.asked.classify(&mut self.classifier, self.parsed, &self.drops, batch, frame, out)
            } else {
                self.asked.gather(self.keyed, batch, frame)
            };
            self.asked.ask_fib(self.fib.as_ref(), len);
            self.act_on_asked(batch, frame, out);
        } else {
            self.act_on_found(batch, frame, out);
        }
        if !self.too_big.is_empty() {
            self.refuse_too_big(frame, out);
        }
    }
}
