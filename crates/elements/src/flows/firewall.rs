//! `Firewall`.

use super::flow_tracker::counts;
use crate::columns::FlowRecord;
use crate::filter::FilterText;
use crate::firewall::gate::{Books, Fate, Gate, InForce, Refusal, Verdicts, ip_len};
use crate::firewall::rules::{Rules, Side};
use crate::firewall::tallies::Tallies;
use crate::firewall::waiting::Waiting;
use crate::shared_names::drops;
use arrayvec::ArrayVec;
use scalebricks_flows::tracker::{Config, Packet, Tables, Tracker, Untracked};
use scalebricks_flows::{Tracked, tcp};
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{
    Binder, Class, Control, DropId, Element, Environment, Frame, Handle, HandlerId, Meta, Out, SLOTS, Slot,
    SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;
use scalebricks_wire::packet::DatagramId;
use scalebricks_wire::parse_ip;
use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Records that are looked at for expiry per packet.
const SWEEP: usize = 4;
/// Outputs of packets that do not pass.
const DENIED_OUT: usize = 2;
const REJECTED_OUT: usize = 3;

element! {
    /// A stateful firewall for IPv4 and IPv6. A packet of a known flow passes, and an ICMP error about one, with one lookup.
    /// The first packet of a flow is judged by rules: `inside` or `outside`, where the flow begins, or nothing for both;
    /// `allow`, `deny` or `reject`; and a filter as in IPFilter, which may have IPv6 addresses. The first rule that
    /// matches decides. Without one, flows from inside are allowed and flows from outside denied. Denied packets have no
    /// state. TCP segments must fit the state of their connection (RFC 9293, RFC 5961, RFC 7323). Fragments wait until
    /// their packet is complete, and pass as they came. New rules are given by a handler or a new configuration; flows
    /// that they deny end with their next packet. One firewall per worker: both directions of a flow must come to the
    /// same one.
    pub struct Firewall<P> as "Firewall" {
        tracker: Tracker, verdicts: Verdicts, force: InForce, books: Books, waiting: Waiting<P>, offset: usize,
        file: Option<String>, flow: Handle<FlowRecord>, is_denied_connected: bool, is_rejected_connected: bool,
    }
    inputs {
        push "inside": "Packets from inside, with an IP header.",
        push "outside": "Packets from outside.",
    }
    outputs {
        push "to_outside": "Packets from inside that pass.",
        push "to_inside": "Packets from outside that pass.",
        push "denied" [Optional]: "Packets that do not pass; dropped if unconnected.",
        push "rejected" [Optional]: "Packets of flows that a `reject` rule matches, for an element that answers them; dropped if unconnected.",
    }
    params FirewallParams {
        /// Offset of the IP header.
        offset: u16 = 0,
        /// A file with rules, one per line, behind those of `RULE`. `#` begins a comment.
        file: Option<String> = None,
        /// Most flows of each IP version.
        flows: u32 = 65_536,
        /// Most half-open and unanswered flows of each IP version: the oldest go first.
        young: u32 = 8_192,
        /// Most flows that a source address, or the first 64 bits of an IPv6 address, may have begun; 0 for any number.
        source_flows: u32 = 0,
        /// Whether a flow may begin with any TCP segment: after a restart, or when a node takes over another's flows.
        /// It passes if the rules allow the connection from either end.
        pickup: bool = false,
        /// Whether flows go on that new rules deny.
        keep: bool = false,
        /// Whether to refuse packets with wrong checksums.
        checksums: bool = true,
        /// Most fragments that wait for the rest of their packets.
        fragments: u32 = 256,
        /// Rules, in order: give the keyword before each.
        rule: Vec<FilterText> = Vec::new(),
    }
    example { "14", "RULE outside allow tcp dst port 443", "RULE inside deny dst net 192.0.2.0/24", }
    writes { FlowRecord, }
    drops {
        MALFORMED_IP = drops::MALFORMED_IP,
        IP_CHECKSUM = drops::IP_CHECKSUM,
        FRAGMENT_REFUSED = drops::FRAGMENT_REFUSED,
        MALFORMED_TRANSPORT = drops::MALFORMED_TRANSPORT,
        TRANSPORT_CHECKSUM = drops::TRANSPORT_CHECKSUM,
        SEGMENT = drops::SEGMENT_REFUSED,
        UNRELATED = drops::UNRELATED_ERROR,
        FULL = drops::FLOWS_FULL,
        DENIED = "rule_denied": "A `deny` rule matches the flow, or no rule allows a flow from outside.",
        REJECTED = "rule_rejected": "A `reject` rule matches the flow.",
        SOURCE_LIMIT = "source_flows_limit": "The source has begun as many flows as it may have.",
        WRONG_SIDE = "wrong_side": "The packet came from the side where the flow has its other end.",
        FRAGMENTS_LIMIT = "fragments_waiting": "A fragment waited too long, or too many wait.",
        NO_SLOT = "no_slot_for_fragment": "A fragment that was complete found no place in the frame.",
    }
    counters { BEGAN = "flows_began": "Flows that began.", }
    handlers {
        read FLOWS = "flows": "Flows now.",
        read YOUNG = "young": "Half-open and unanswered flows now.",
        read COUNTS = "counts": "Counters of untracked packets, ended flows and unusual segments that are not zero, one per line.",
        read RULES = "rules": "The rules, one per line; writing them back changes nothing.",
        read TALLIES = "rule_counts": "A line per rule and default: number, packets, bytes, flows, and the rule. Packets of flows count for the rule that allowed them.",
        read SOURCES = "sources": "Number of source addresses with flows, the one with most flows, and its number of flows.",
        read DISMISSED = "flows_dismissed": "Flows that later rules ended.",
        write SET_RULES = "rules": "Replaces all rules: one per line, or separated by `;`. If one is wrong, the old ones stay.",
    }
}

impl<P: PacketBuf> Class for Firewall<P> {
    fn make(params: FirewallParams) -> Result<Self, String> {
        if params.flows == 0 || params.young == 0 {
            return Err("FLOWS and YOUNG must be at least 1".to_owned());
        }
        let config = Config {
            tcp: tcp::Config { pick_up: params.pickup, ..tcp::Config::default() },
            reassembly: None,
            verify_checksums: params.checksums,
            flows: params.flows,
            grows: false,
            young_flows: params.young,
            ..Config::default()
        };
        let mut tables = Tables::default();
        let verdicts = Verdicts { v4: tables.v4.reserve(), v6: tables.v6.reserve() };
        let random = |number: u8| RandomState::new().hash_one(number);
        let tracker = Tracker::new(&config, HashSeed::new(random(0), random(1)), tables)
            .map_err(|error| error.to_string())?;
        let rules = Rules::of(params.rule.iter().map(|FilterText(text)| text.as_str()))
            .map_err(|error| format!("RULE {error}"))?;
        let books = Books { tallies: Tallies::new(&rules), ..Books::default() };
        let force = InForce {
            rules,
            generation: 1,
            keeps: params.keep,
            picks_up: params.pickup,
            source_flows: params.source_flows,
        };
        Ok(Self {
            tracker,
            verdicts,
            force,
            books,
            waiting: Waiting::new(params.fragments as usize),
            offset: usize::from(params.offset),
            file: params.file,
            flow: Handle::default(),
            is_denied_connected: false,
            is_rejected_connected: false,
        })
    }
}

impl<P> Firewall<P> {
    /// The drop reason of a packet that waits for no other.
    const fn reason(refusal: Refusal) -> DropId {
        match refusal {
            Refusal::Denied => Self::DENIED,
            Refusal::Rejected => Self::REJECTED,
            Refusal::SourceLimit => Self::SOURCE_LIMIT,
            Refusal::WrongSide => Self::WRONG_SIDE,
            Refusal::Repeated => Self::FRAGMENT_REFUSED,
            Refusal::Untracked(untracked) => match untracked {
                Untracked::MalformedIp => Self::MALFORMED_IP,
                Untracked::IpChecksum => Self::IP_CHECKSUM,
                Untracked::FragmentHeld | Untracked::FragmentRefused => Self::FRAGMENT_REFUSED,
                Untracked::MalformedTransport => Self::MALFORMED_TRANSPORT,
                Untracked::TransportChecksum => Self::TRANSPORT_CHECKSUM,
                Untracked::Segment => Self::SEGMENT,
                Untracked::UnrelatedError => Self::UNRELATED,
                Untracked::NotAllowed => Self::DENIED,
                Untracked::TableFull => Self::FULL,
            },
        }
    }

    /// Puts other rules in force.
    fn replace(&mut self, rules: Rules) {
        let mut tallies = Tallies::new(&rules);
        tallies.succeed(&rules, &self.books.tallies, &self.force.rules);
        self.force.rules = rules;
        self.force.generation = self.force.generation.wrapping_add(1);
        self.books.tallies = tallies;
    }
}

impl<P: PacketBuf + 'static> Control for Firewall<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.flow = binder.column()?;
        self.is_denied_connected = binder.is_connected(DENIED_OUT);
        self.is_rejected_connected = binder.is_connected(REJECTED_OUT);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::FLOWS => self.tracker.flows().to_string(),
            Self::YOUNG => self.tracker.young_flows().to_string(),
            Self::COUNTS => counts(&self.tracker),
            Self::RULES => self.force.rules.to_string().trim_end().to_owned(),
            Self::TALLIES => self.books.tallies.render(&self.force.rules),
            Self::DISMISSED => self.books.dismissed.to_string(),
            _ => {
                let (address, flows) = self.books.sources.busiest();
                format!("{} {address} {flows}", self.books.sources.len())
            }
        }
    }

    fn write(&mut self, _: HandlerId, text: &str) -> Result<(), HandlerError> {
        let rules = Rules::parse(text).map_err(|error| HandlerError::Value(error.to_string()))?;
        self.replace(rules);
        Ok(())
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        std::mem::swap(&mut self.tracker, &mut before.tracker);
        std::mem::swap(&mut self.verdicts, &mut before.verdicts);
        std::mem::swap(&mut self.waiting, &mut before.waiting);
        std::mem::swap(&mut self.books, &mut before.books);
        let rules = std::mem::replace(&mut self.force.rules, before.force.rules.clone());
        self.force.generation = before.force.generation;
        self.replace(rules);
    }
}

/// A packet and what becomes of it.
struct Settled {
    slot: Slot,
    fate: Fate,
    /// The packet that it is a fragment of.
    whole: Option<DatagramId>,
    /// Number of fragments of that packet, if this is the last.
    pieces: usize,
}

impl<P: PacketBuf + 'static> Firewall<P> {
    /// Sends a packet that passes.
    fn pass(
        &mut self,
        slot: Slot,
        side: Side,
        (tracked, rule): (Tracked, u16),
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let bytes = frame.packet(&slot).data().get(self.offset..).map_or(0, ip_len);
        self.books.tallies.packet(rule, bytes);
        frame.column_mut(self.flow)[&slot] = FlowRecord(Some(tracked));
        out.push(side.index(), slot);
    }

    /// Sends or drops a packet that does not pass.
    fn refuse(&self, slot: Slot, refusal: Refusal, frame: &mut Frame<P>, out: &mut Out<'_>) {
        frame.column_mut(self.flow)[&slot] = FlowRecord(None);
        if refusal == Refusal::Rejected && self.is_rejected_connected {
            out.push(REJECTED_OUT, slot);
        } else if self.is_denied_connected {
            out.push(DENIED_OUT, slot);
        } else {
            out.drop(slot, Self::reason(refusal));
        }
    }

    /// A packet, and the fragments that waited for it.
    fn deal(&mut self, settled: Settled, side: Side, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Settled { slot, mut fate, whole, pieces } = settled;
        let whole = whole.map(|whole| (side.index(), whole));
        if let (Fate::Refuse(Refusal::Untracked(Untracked::FragmentHeld)), Some(whole)) = (fate, whole) {
            let meta = *frame.meta(&slot);
            let gone = self.waiting.keep(whole, (frame.take(slot), meta), out.now());
            out.count_drops(Self::FRAGMENTS_LIMIT, gone as u64);
            return;
        }
        let whole = whole.filter(|_| fate != Fate::Refuse(Refusal::Repeated));
        let parts = whole.map(|whole| self.waiting.take(&whole)).unwrap_or_default();
        // Some had to go, or are of an earlier packet with the same identification.
        if pieces > 0 && parts.len() + 1 != pieces {
            fate = Fate::Refuse(Refusal::Untracked(Untracked::FragmentRefused));
        }
        for (packet, meta) in parts {
            match (fate, frame.put_with(packet, meta)) {
                (_, Err(_)) => out.count_drops(Self::NO_SLOT, 1),
                (Fate::Pass(tracked, rule), Ok(part)) => self.pass(part, side, (tracked, rule), frame, out),
                (Fate::Refuse(refusal), Ok(part)) => self.refuse(part, refusal, frame, out),
            }
        }
        match fate {
            Fate::Pass(tracked, rule) => self.pass(slot, side, (tracked, rule), frame, out),
            Fate::Refuse(refusal) => self.refuse(slot, refusal, frame, out),
        }
    }

    /// Judges a batch.
    fn judge(
        &mut self,
        side: Side,
        batch: &mut SlotList,
        frame: &Frame<P>,
        now: Duration,
    ) -> ArrayVec<Settled, SLOTS> {
        let none = ((Fate::Refuse(Refusal::Untracked(Untracked::MalformedIp)), 0), None);
        let mut fates = [none; SLOTS];
        let packets: ArrayVec<Packet<'_>, SLOTS> = batch
            .iter()
            .map(|slot| {
                let bytes = frame.packet(slot).data().get(self.offset..).unwrap_or_default();
                Packet { bytes, zone: 0, now }
            })
            .collect();
        for (packet, (_, whole)) in packets.iter().zip(&mut fates) {
            *whole = parse_ip(packet.bytes).ok().and_then(|parsed| DatagramId::of(&parsed.summary));
        }
        let mut gate = Gate::new(&self.force, &mut self.books, self.verdicts, side, &packets, &self.tracker);
        self.tracker.track_batch(&packets, &mut gate, |tracker, at, tracked, gate| {
            fates[at % SLOTS].0 = gate.settle(tracker, tracked);
        });
        self.tracker.sweep(now, SWEEP * packets.len(), &mut self.books);
        batch
            .drain()
            .zip(fates)
            .map(|(slot, ((fate, pieces), whole))| Settled { slot, fate, whole, pieces })
            .collect()
    }
}

impl<P: PacketBuf + 'static> Element<P> for Firewall<P> {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (side, now) = (if input == 0 { Side::Inside } else { Side::Outside }, out.now());
        let expired = self.waiting.expire(now);
        out.count_drops(Self::FRAGMENTS_LIMIT, expired as u64);
        for settled in self.judge(side, batch, frame, now) {
            let is_new = matches!(settled.fate, Fate::Pass(tracked, _) if tracked.is_new);
            out.count(Self::BEGAN, u64::from(is_new));
            self.deal(settled, side, frame, out);
        }
    }

    fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), String> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut text = String::new();
        let most = crate::firewall::rules::MOST_BYTES as u64 + 1;
        let read = world.text(Path::new(&file))?.take(most).read_to_string(&mut text);
        read.map_err(|error| format!("{file}: {error}"))?;
        let of_file = Rules::parse(&text).map_err(|error| format!("{file}:{error}"))?;
        let rules = self.force.rules.followed_by(of_file).map_err(|error| format!("{file}:{error}"))?;
        self.replace(rules);
        Ok(())
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.waiting.drain(to);
    }
}

#[cfg(test)]
#[path = "firewall_tests.rs"]
mod tests;
