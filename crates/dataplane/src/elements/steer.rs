//! `Steer`.

use super::asked::Asked;
use super::columns::{AGAIN, Found, Keyed};
use super::drops::Drops;
use crate::classify::{Classifier, Parsed};
use crate::fabric_mac::{FabricMac, OutputPort, Phase};
use crate::flow::FlowState;
use crate::ingress::check_address;
use crate::node::NodeConfig;
use crate::reason::DropReason;
use scalebricks_graph::element::BindError;
use scalebricks_graph::frame::{Packets, Parts};
use scalebricks_graph::{Binder, Control, Element, Frame, Handle, Lanes, Out, SLOTS, Slot, Spec, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::{Fib, GptReader};
use scalebricks_types::{ClusterSize, FlowKey, NodeHint, NodeId};
use scalebricks_wire::{MacAddr, ethernet};
use std::sync::Arc;
use std::time::Duration;

/// The table that says where a packet's flow is.
pub enum Directory {
    /// It names a node.
    Gpt(Box<dyn GptReader>),
    /// It is the FIB of all flows: it names the node, and has what handling needs.
    Fib(Arc<dyn Fib>),
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Gpt(_)) { "Gpt" } else { "Fib" })
    }
}

element! {
    /// Finds the key of each packet, asks a table where its flow is, and writes the addresses of frames for other nodes.
    #[derive(Debug)]
    pub struct Steer as "Steer" {
        directory: Directory, classifier: Classifier, id: NodeId, size: ClusterSize, phase: Phase,
        outside: [MacAddr; 2], own: [MacAddr; 2], asked: Box<Asked>, refused: Vec<(Slot, u16, NodeHint)>, drops: Drops,
        parsed: Handle<Parsed>, keyed: Handle<Keyed>, found: Handle<Found>,
    }
    inputs {
        push "internet" [Optional]: "Frames from the Internet.",
        push "base_station" [Optional]: "Frames from base stations.",
        push "fabric" [Optional]: "Frames that an ingress node has judged.",
        push "keyed" [Optional]: "Packets whose key is known.",
        push "missed" [Optional]: "The same, whose flow is not here: they may go to another node, once.",
    }
    outputs {
        push "away": "Frames for other nodes.",
        push "here" [Optional]: "Packets whose flow is here, as the GPT says.",
        push "found" [Optional]: "Packets whose flow is here, with what the FIB holds for it.",
        push "unknown" [Optional]: "Packets whose flow is nowhere.",
    }
    reads { Parsed on "keyed", Keyed on "keyed", Parsed on "missed", Keyed on "missed", }
    writes { Parsed, Keyed on "here", Found on "found", Keyed on "unknown", }
    drops {
        TRUNCATED = "truncated": "The frame ends before its headers, or its IP packet before its stated length.",
        NON_IP = "non_ip": "Neither IPv4 nor IPv6: ARP, other ethertypes, 802.3 frames.",
        MALFORMED_IP = "malformed_ip": "An IP header that contradicts itself.",
        BAD_CHECKSUM = "bad_ipv4_checksum": "The IPv4 header checksum is wrong (an option ignores it).",
        FOR_THIS_NODE = "for_this_node": "For an address of the node itself, and nothing it answers.",
        LINK_LOCAL = "link_local": "From or to a link-local unicast address, which routers do not forward (RFC 4291 §2.5.6, RFC 3927 §7).",
        MULTICAST = "multicast": "Multicast or broadcast, by MAC or IP address.",
        OTHER_MAC = "other_mac": "The frame is for another station's MAC address.",
        ENCODED_MAC = "encoded_mac_outside": "A fabric address arrived on an outside port.",
        NO_FIRST = "fragment_without_first": "A non-first fragment whose first fragment did not pass here before it.",
        NO_NODE = "no_such_node": "The hint names no node of the cluster.",
        NOT_FOR_GATEWAY = "not_for_gateway": "Upstream, but not addressed to the gateway.",
        NOT_GTPU = "not_gtpu": "Upstream to the gateway, but not GTP-U.",
        MALFORMED_GTPU = "malformed_gtpu": "A GTP-U header that contradicts itself.",
        GTPU_SIGNALLING = "gtpu_signalling": "A GTP-U message other than G-PDU.",
        EXTENSION = "unsupported_extension": "A G-PDU with an extension header that its receiver must comprehend, and that is not known here.",
        GTPU_FRAGMENT = "gtpu_fragment": "A GTP-U packet that was itself fragmented on its way; the TEID is only in its first fragment.",
    }
    counters { FORWARDED_AGAIN = "forwarded_again": "Packets forwarded once more because the FIB here did not hold them and the GPT named another node.", }
}

const FROM_INTERNET: usize = 0;
const FROM_BASE_STATION: usize = 1;
const FABRIC: usize = 2;
const MISSED: usize = 4;

const AWAY: usize = 0;
const HERE: usize = 1;
const FOUND: usize = 2;
const UNKNOWN: usize = 3;

impl Steer {
    /// One that sends what belongs to another node there in this phase.
    pub fn new(config: &NodeConfig, directory: Directory, phase: Phase) -> Self {
        let is_strict = config.adjacencies.is_strict();
        Self {
            directory,
            classifier: Classifier::new(&config.policy, config.seed, config.own(), is_strict),
            id: config.id,
            size: config.size,
            phase,
            // By output: what leaves there came by the other port.
            outside: [config.macs.base_station, config.macs.internet],
            own: OutputPort::ALL.map(|port| FabricMac::handling(config.id, port).encode()),
            asked: Asked::new(),
            refused: Vec::with_capacity(SLOTS),
            drops: Drops::of(Self::SPEC),
            parsed: Handle::default(),
            keyed: Handle::default(),
            found: Handle::default(),
        }
    }

    /// Finds the keys of frames from outside, whose packets leave at `output`; how many there are. What has none is dropped.
    #[inline(always)]
    fn classify<P: PacketBuf>(
        &mut self,
        output: OutputPort,
        batch: &mut Lanes,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> usize {
        let now = out.now();
        let own = self.outside[output as usize];
        let Parts { packets, columns, .. } = frame.parts();
        let parsed = columns.get_mut(self.parsed);
        let mut len = 0;
        batch.sift(|slot| {
            let (bytes, at) = (packets[&slot].data(), len % SLOTS);
            let plain = match ethernet::destination(bytes) {
                Some(mac) if mac == own => self.classifier.plain_ingress(bytes, output),
                _ => None,
            };
            if let Some((found, key)) = plain {
                parsed[&slot] = found;
                self.asked.keys[at] = key;
            } else {
                match self.judge(bytes, output, now) {
                    Ok((found, key)) => {
                        parsed[&slot] = found;
                        self.asked.keys[at] = key;
                    }
                    Err(reason) => {
                        out.drop(slot, self.drops.id(reason));
                        return None;
                    }
                }
            }
            len += 1;
            Some(slot)
        });
        self.classifier.hasher().hash(&self.asked.keys[..len], &mut self.asked.hashes[..len]);
        len
    }

    /// A frame from outside that is not plain.
    #[inline(never)]
    fn judge(
        &mut self,
        bytes: &[u8],
        output: OutputPort,
        now: Duration,
    ) -> Result<(Parsed, FlowKey), DropReason> {
        check_address(bytes, self.outside[output as usize])?;
        self.classifier.ingress(bytes, output, now)
    }

    /// Addresses a frame to where its flow is; or it is dropped.
    #[inline(always)]
    fn address<P: PacketBuf>(
        &self,
        mac: FabricMac,
        slot: Slot,
        packets: &mut Packets<'_, P>,
        out: &mut Out<'_>,
    ) -> Option<Slot> {
        let own = self.own[mac.port as usize];
        if ethernet::set_addresses(packets[&slot].data_mut(), mac.encode(), own) {
            return Some(slot);
        }
        out.drop(slot, Self::TRUNCATED);
        None
    }

    /// A key that leads nowhere. An exact table knows that there is no such flow; a number that names no node is another drop.
    #[cold]
    fn refuse<P: PacketBuf>(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let keyed = frame.column_mut(self.keyed);
        for (slot, at, hint) in self.refused.drain(..) {
            if hint == NodeHint::NONE {
                let at = usize::from(at);
                keyed[&slot] = Keyed { key: self.asked.keys[at], hash: self.asked.hashes[at] };
                out.push(UNKNOWN, slot);
            } else {
                out.drop(slot, Self::NO_NODE);
            }
        }
    }

    /// Sends packets where the GPT says. What goes one of two ways stays in the list, and is passed on whole: `AWAY_STAYS` says which.
    #[inline(always)]
    fn by_gpt<P: PacketBuf, const AWAY_STAYS: bool>(
        &mut self,
        batch: &mut Lanes,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let Parts { mut packets, columns, .. } = frame.parts();
        let (parsed, keyed) = columns.pair_mut(self.parsed, self.keyed);
        let mut next = 0;
        batch.sift(|slot| {
            let at = next % SLOTS;
            next += 1;
            let hint = self.asked.hints[at];
            match self.size.resolve(hint) {
                Some(node) if node == self.id => {
                    keyed[&slot] = Keyed { key: self.asked.keys[at], hash: self.asked.hashes[at] };
                    stay_or_go(slot, !AWAY_STAYS, HERE, out)
                }
                Some(node) => {
                    let mac =
                        FabricMac { phase: self.phase, ..FabricMac::handling(node, parsed[&slot].output) };
                    let slot = self.address(mac, slot, &mut packets, out)?;
                    stay_or_go(slot, AWAY_STAYS, AWAY, out)
                }
                None => {
                    self.refused.push((slot, at as u16, hint));
                    None
                }
            }
        });
        out.all(if AWAY_STAYS { AWAY } else { HERE }, batch);
    }

    /// Sends packets where the FIB of all flows says. Otherwise as [`Self::by_gpt`].
    #[inline(always)]
    fn by_fib<P: PacketBuf, const AWAY_STAYS: bool>(
        &mut self,
        batch: &mut Lanes,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let Parts { mut packets, columns, .. } = frame.parts();
        let (parsed, found) = columns.pair_mut(self.parsed, self.found);
        let mut next = 0;
        batch.sift(|slot| {
            let at = next % SLOTS;
            next += 1;
            let Some(value) = self.asked.values[at] else {
                self.refused.push((slot, at as u16, NodeHint::NONE));
                return None;
            };
            match self.size.resolve(FlowState::node_of(value)) {
                Some(node) if node == self.id => {
                    found[&slot] = Found { value, hash: self.asked.hashes[at] };
                    stay_or_go(slot, !AWAY_STAYS, FOUND, out)
                }
                Some(node) => {
                    let mac =
                        FabricMac { phase: self.phase, ..FabricMac::handling(node, parsed[&slot].output) };
                    let slot = self.address(mac, slot, &mut packets, out)?;
                    stay_or_go(slot, AWAY_STAYS, AWAY, out)
                }
                None => {
                    self.refused.push((slot, at as u16, FlowState::node_of(value)));
                    None
                }
            }
        });
        out.all(if AWAY_STAYS { AWAY } else { FOUND }, batch);
    }

    /// Sends packets that are not here on, if they were not sent on before and the table names another node.
    #[cold]
    fn send_on<P: PacketBuf>(&mut self, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Parts { mut packets, meta, columns } = frame.parts();
        let parsed = columns.get(self.parsed);
        for (slot, hint) in batch.drain().zip(self.asked.hints.iter()) {
            let was_sent_on = meta[slot.index()].flags & AGAIN != 0;
            match self.size.resolve(*hint).filter(|&node| node != self.id && !was_sent_on) {
                Some(node) => {
                    out.count(Self::FORWARDED_AGAIN, 1);
                    let mac = FabricMac { again: true, ..FabricMac::handling(node, parsed[&slot].output) };
                    if let Some(slot) = self.address(mac, slot, &mut packets, out) {
                        out.push(AWAY, slot);
                    }
                }
                None => out.push(UNKNOWN, slot),
            }
        }
    }
}

/// A packet that stays in the list, or goes to an output.
#[inline(always)]
fn stay_or_go(slot: Slot, stays: bool, output: usize, out: &mut Out<'_>) -> Option<Slot> {
    if stays {
        return Some(slot);
    }
    out.push(output, slot);
    None
}

impl Control for Steer {
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

impl<P: PacketBuf> Element<P> for Steer {
    fn push(&mut self, input: usize, batch: &mut Lanes, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let len = match input {
            FROM_INTERNET => self.classify(OutputPort::BaseStation, batch, frame, out),
            FROM_BASE_STATION => self.classify(OutputPort::Internet, batch, frame, out),
            FABRIC => self.asked.classify(&mut self.classifier, self.parsed, &self.drops, batch, frame, out),
            _ => self.asked.gather(self.keyed, batch, frame),
        };
        match &mut self.directory {
            Directory::Gpt(gpt) => self.asked.ask_gpt(gpt.as_mut(), len),
            Directory::Fib(fib) => self.asked.ask_fib(fib.as_ref(), len),
        }
        // Most go the way of the first.
        let first = match &self.directory {
            Directory::Gpt(_) => self.asked.hints[0],
            Directory::Fib(_) => self.asked.values[0].map_or(NodeHint::NONE, FlowState::node_of),
        };
        let goes_away = self.size.resolve(first).is_some_and(|node| node != self.id);
        match &self.directory {
            Directory::Gpt(_) if input == MISSED => self.send_on(batch, frame, out),
            Directory::Gpt(_) if goes_away => self.by_gpt::<P, true>(batch, frame, out),
            Directory::Gpt(_) => self.by_gpt::<P, false>(batch, frame, out),
            Directory::Fib(_) if goes_away => self.by_fib::<P, true>(batch, frame, out),
            Directory::Fib(_) => self.by_fib::<P, false>(batch, frame, out),
        }
        if !self.refused.is_empty() {
            self.refuse(frame, out);
        }
    }
}
