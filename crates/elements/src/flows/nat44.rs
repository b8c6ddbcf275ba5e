//! `Nat44`.

use crate::columns::{DstIp, FlowRecord};
use crate::refragment::Cutter;
use crate::values::{Ip, Prefixes};
use scalebricks_flows::named::Named;
use scalebricks_flows::nat::{Allocation, Event, Nat, Outcome, Refusal, Side, Translated};
use scalebricks_flows::tracker::Tables;
use scalebricks_graph::args::Param as _;
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{
    Binder, Class, Control, DropId, Element, Frame, Handle, HandlerId, Out, Slot, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;
use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Sessions, mappings and blocks that are looked at for expiry per packet.
const SWEEP: usize = 4;
/// The same per turn, so that they also end without packets.
const IDLE_SWEEP: usize = 32;
/// Most lines of a handler.
const LINES: usize = 1_000;

element! {
    /// Translates IPv4 addresses and ports between inside hosts and public addresses (NAT44): UDP (RFC 4787), TCP (RFC 5382)
    /// and ICMP (RFC 5508), with blocks of ports per inside address (RFC 6888), by demand or computed (RFC 7422).
    /// Mappings do not depend on the destination. It contains the flow tracker, whose annotation it sets: a flow is known by
    /// its inside addresses and ports. Fragments are put together, checked, translated and cut again. One per worker: all
    /// packets of an inside address and of its public ports must come to the same one. Details: docs/nat.md.
    pub struct Nat44<P> as "Nat44" {
        nat: Box<Nat>, key: Option<u64>, offset: usize, flow: Handle<FlowRecord>, dst: Handle<DstIp>, has_side: bool,
        cutter: Cutter<P>, counted: [u64; 4],
    }
    inputs {
        push "inside": "IPv4 packets from inside.",
        push "outside": "IPv4 packets from outside.",
    }
    outputs {
        push "to_outside": "Translated packets to outside.",
        push "to_inside": "Translated packets to inside, also those of other inside hosts.",
        push "refused" [Optional]: "Packets that are not translated, unchanged; dropped if unconnected.",
    }
    params Nat44Params {
        /// Inside addresses.
        inside: Prefixes,
        /// Public addresses; all addresses of the prefixes are used.
        public: Prefixes,
        /// Offset of the IPv4 header.
        offset: u16 = 0,
        /// First public port.
        first_port: u16 = 1_024,
        /// Last public port.
        last_port: u16 = 65_535,
        /// Ports of a block: a power of two. TCP, UDP and ICMP have the same numbers each.
        block: u16 = 1_024,
        /// Whether an inside address has one block, computed from the address; otherwise it gets free ones.
        deterministic: bool = false,
        /// Orders the ports that an inside port tries. With DETERMINISTIC, the same number in all NATs that continue each
        /// other's flows; by default it is 0 then, and else a random number.
        key: Option<u64> = None,
        /// Most blocks of an inside address, without DETERMINISTIC.
        subscriber_blocks: u16 = 1,
        /// Most mappings of an inside address; by default as many as its blocks have ports, of all protocols.
        subscriber_mappings: Option<u32> = None,
        /// Most flows of an inside address; half of them may begin outside.
        subscriber_flows: u32 = 8_192,
        /// Which packets from outside a mapping accepts: `endpoint-independent`, `address-dependent` or
        /// `address-and-port-dependent`.
        filter: Filter = Filter::default(),
        /// Whether even ports become even ones, and odd ports odd ones, while there are any.
        parity: bool = true,
        /// Whether to track TCP connections whose handshake was not seen; by default with DETERMINISTIC.
        pickup: Option<bool> = None,
        /// Most flows, and most mappings.
        flows: u32 = 65_536,
        /// Most half-open and unanswered flows.
        young: u32 = 32_768,
        /// Whether to refuse packets with wrong checksums.
        checksums: bool = true,
        /// Lifetime of UDP mappings without outbound packets: at least 120 seconds.
        udp_timeout: Duration = Duration::from_secs(300),
        /// Lifetime of established TCP connections without packets: at least 7440 seconds.
        tcp_timeout: Duration = Duration::from_secs(7440),
        /// Lifetime of opening and closing TCP connections: at least 240 seconds.
        transitory_timeout: Duration = Duration::from_secs(240),
        /// Lifetime of mappings of ICMP queries: at least 60 seconds.
        icmp_timeout: Duration = Duration::from_secs(60),
        /// How long a block without mappings stays with its inside address: at least 120 seconds.
        block_timeout: Duration = Duration::from_secs(120),
    }
    example { "100.64.0.0/22", "192.0.2.0/28", "OFFSET 14", "DETERMINISTIC true", "BLOCK 256", "FLOWS 1000", }
    writes { FlowRecord, DstIp, }
    drops {
        MALFORMED_IP = "cut_or_malformed_ip": "The IP header is malformed, or the packet is cut.",
        IP_CHECKSUM = "ip_checksum": "The IPv4 header's checksum is wrong.",
        FRAGMENT_REFUSED = "fragment_refused": "A fragment that overlaps others, or exceeds a limit.",
        MALFORMED_TRANSPORT = "malformed_transport": "The header behind the IP header is malformed or cut.",
        TRANSPORT_CHECKSUM = "transport_checksum": "The checksum behind the IP header is wrong.",
        SEGMENT = "segment_refused": "A TCP segment that the connection's state refuses.",
        UNRELATED = "unrelated_icmp_error": "An ICMP error about no known flow.",
        FULL = "flows_full": "All flows are established, and none more fits.",
        NOT_INSIDE = "not_inside": "A packet from inside whose source is no inside address.",
        FORGED = "forged_source": "A packet from outside whose source is an inside or public address.",
        NOT_PUBLIC = "not_public": "A packet from outside to no public address of the NAT.",
        NO_MAPPING = "no_mapping": "A packet to a public port that nobody inside has.",
        FILTERED = "filtered": "A packet from outside that the mapping's filter refuses.",
        NO_BLOCK = "no_block": "No block of ports is free for a new inside address or for one that needs another.",
        NO_PORT = "no_free_port": "The inside address uses all ports of its blocks.",
        MAPPING_LIMIT = "mapping_limit": "The inside address has as many mappings as it may have.",
        FLOW_LIMIT = "flow_limit": "The inside address has as many flows as it may have.",
        MAPPINGS_FULL = "mappings_full": "There are as many mappings as there may be.",
        ERROR_CHECKSUM = "icmp_error_checksum": "An ICMP error with a wrong checksum, its own or of the quoted IP header.",
        ERROR_QUOTE = "icmp_error_quote": "An ICMP error about a malformed packet, or to another host than the packet's sender.",
        ICMP_TYPE = "icmp_type": "An ICMP message that is not translated: redirects, queries from outside, other types.",
        SCTP = "sctp": "An SCTP packet: address translation cannot change its ports.",
        PROTOCOL = "protocol_without_ports": "A packet of another protocol than TCP, UDP and ICMP.",
        NO_BUFFER = "not_fragmented": "Not enough slots or buffers for all fragments, or a fragment does not fit its buffer.",
    }
    counters {
        BLOCKS = "blocks_assigned": "Blocks that inside addresses got.",
        RELEASED = "blocks_released": "Blocks that became free.",
        HAIRPINNED = "hairpinned": "Packets between two inside hosts.",
        DISPLACED = "ports_displaced": "Mappings whose first choice of a port was taken.",
        HELD = "fragments_held" [Ended]: "Fragments of which the element has a copy until their packet is complete.",
        FRAGMENTS = "fragments" [Made]: "Fragments made, but for the first of each packet.",
    }
    handlers {
        read MAPPINGS = "mappings": "Mappings now.",
        read FLOWS = "flows": "Flows now.",
        read SUBSCRIBERS = "subscribers": "Inside addresses that have blocks or flows.",
        read IN_USE = "blocks": "Blocks that inside addresses have now.",
        read TABLE = "table": "At most 1,000 mappings, of an inside address if one is given: protocol, inside, public, flows that keep it, seconds since the inside has sent.",
        read BLOCK_TABLE = "block_table": "At most 1,000 blocks, of an inside address if one is given: inside, public, ports, mappings, flows, packets refused by limits.",
        read REFUSED = "refused_by_subscriber": "At most 1,000 inside addresses with packets refused by limits, and how many.",
        read LOG = "block_log": "The latest 256 assigned and released blocks: time in nanoseconds, what, inside, public, ports.",
        read PLACE = "place": "The block of an inside address, or with DETERMINISTIC the inside address of a public one and a port.",
        read COUNTS = "counts": "Counters of refusals, events, flows and fragments that are not zero, one per line.",
    }
    hooks { End, }
    binds { flow, dst, }
}

mod config;
#[cfg(test)]
mod tests;

pub use config::Filter;

impl<P: PacketBuf> Class for Nat44<P> {
    fn make(params: Nat44Params) -> Result<Self, String> {
        let config = config::of(&params)?;
        let random = |number: u8| RandomState::new().hash_one(number);
        let key = params.key.or(params.deterministic.then_some(0));
        let secret = HashSeed::from_u64(key.unwrap_or_else(|| random(0)));
        let table_secret = HashSeed::new(random(1), random(2));
        let nat =
            Nat::new(config, secret, table_secret, Tables::default()).map_err(|error| error.to_string())?;
        Ok(Self {
            nat: Box::new(nat),
            key,
            offset: usize::from(params.offset),
            flow: Handle::default(),
            dst: Handle::default(),
            has_side: false,
            cutter: Cutter::default(),
            counted: [0; 4],
        })
    }
}

impl<P> Nat44<P> {
    const fn reason(refusal: Refusal) -> DropId {
        match refusal {
            Refusal::MalformedIp => Self::MALFORMED_IP,
            Refusal::IpChecksum => Self::IP_CHECKSUM,
            Refusal::FragmentRefused => Self::FRAGMENT_REFUSED,
            Refusal::MalformedTransport => Self::MALFORMED_TRANSPORT,
            Refusal::TransportChecksum => Self::TRANSPORT_CHECKSUM,
            Refusal::Segment => Self::SEGMENT,
            Refusal::SessionsFull => Self::FULL,
            Refusal::NotInside => Self::NOT_INSIDE,
            Refusal::ForgedSource => Self::FORGED,
            Refusal::NotPublic => Self::NOT_PUBLIC,
            Refusal::NoMapping => Self::NO_MAPPING,
            Refusal::Filtered => Self::FILTERED,
            Refusal::NoBlock => Self::NO_BLOCK,
            Refusal::NoPort => Self::NO_PORT,
            Refusal::MappingLimit => Self::MAPPING_LIMIT,
            Refusal::SessionLimit => Self::FLOW_LIMIT,
            Refusal::MappingsFull => Self::MAPPINGS_FULL,
            Refusal::UnrelatedError => Self::UNRELATED,
            Refusal::ErrorChecksum => Self::ERROR_CHECKSUM,
            Refusal::ErrorQuote => Self::ERROR_QUOTE,
            Refusal::IcmpType => Self::ICMP_TYPE,
            Refusal::Sctp => Self::SCTP,
            Refusal::Protocol => Self::PROTOCOL,
        }
    }

    /// Adds what happened since the last call to the element's counters.
    fn count(&mut self, out: &Out<'_>) {
        let events = [Event::BlockAssigned, Event::BlockReleased, Event::Hairpinned, Event::PortDisplaced];
        let counters = [Self::BLOCKS, Self::RELEASED, Self::HAIRPINNED, Self::DISPLACED];
        for ((event, counter), counted) in events.into_iter().zip(counters).zip(&mut self.counted) {
            let total = self.nat.events().get(event);
            out.count(counter, total - *counted);
            *counted = total;
        }
    }

    /// The block of an inside address, or the inside address of a public address and port.
    fn place(&self, asked: &str) -> Result<String, String> {
        let config = self.nat.config();
        let words: Vec<&str> = asked.split_whitespace().collect();
        let address =
            |text: &str| Ip::read(text).map(|Ip(address)| address).ok_or(format!("no address: {text:?}"));
        match *words.as_slice() {
            [inside] if config.allocation == Allocation::Deterministic => {
                let block = config.plan.deterministic_block(address(inside)?);
                let block = block.ok_or(format!("{inside} is not inside"))?;
                Ok(format!("{}\t{}-{}", block.public, block.ports.start(), block.ports.end()))
            }
            [inside] => Ok(self.nat.block_lines(Some(address(inside)?), LINES)),
            [public, port] if config.allocation == Allocation::Deterministic => {
                let port = port.parse().map_err(|_| format!("no port: {port:?}"))?;
                let inside = config.plan.deterministic_inside(address(public)?, port);
                inside.map(|inside| inside.to_string()).ok_or(format!("{public}:{port} is in no block"))
            }
            _ => Err("give an inside address, or with DETERMINISTIC a public address and a port".to_owned()),
        }
    }
}

/// Counters that are not zero, one per line.
fn lines<E: Named>(tally: &scalebricks_flows::Tally<E>) -> impl Iterator<Item = String> {
    tally.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}\t{count}"))
}

impl<P: PacketBuf + 'static> Control for Nat44<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.has_side = binder.is_connected(2);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        let nat = &self.nat;
        if handler == Self::MAPPINGS {
            nat.mappings().to_string()
        } else if handler == Self::FLOWS {
            nat.tracker().flows().to_string()
        } else if handler == Self::SUBSCRIBERS {
            nat.subscribers().to_string()
        } else if handler == Self::IN_USE {
            nat.blocks_in_use().to_string()
        } else if handler == Self::TABLE {
            nat.mapping_lines(None, LINES)
        } else if handler == Self::BLOCK_TABLE {
            nat.block_lines(None, LINES)
        } else if handler == Self::REFUSED {
            nat.refused_lines(LINES)
        } else if handler == Self::LOG {
            nat.event_lines()
        } else if handler == Self::COUNTS {
            let tracker = nat.tracker();
            let all = lines(nat.refusals())
                .chain(lines(nat.events()))
                .chain(lines(tracker.ends()))
                .chain(lines(tracker.anomalies()))
                .chain(lines(nat.defragmenter().refusals()));
            all.collect::<Vec<_>>().join("\n")
        } else {
            String::new()
        }
    }

    fn ask(&self, handler: HandlerId, asked: &str) -> Result<String, HandlerError> {
        if handler == Self::PLACE {
            return self.place(asked).map_err(HandlerError::Value);
        }
        if asked.trim().is_empty() || handler != Self::TABLE && handler != Self::BLOCK_TABLE {
            return Ok(self.read(handler));
        }
        let Some(Ip(inside)) = Ip::read(asked) else {
            return Err(HandlerError::Value(format!("no address: {asked:?}")));
        };
        let lines = if handler == Self::TABLE { Nat::mapping_lines } else { Nat::block_lines };
        Ok(lines(&self.nat, Some(inside), LINES))
    }

    /// Mappings go on if nothing about the translation has changed.
    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        if before.key == self.key && before.nat.config() == self.nat.config() {
            std::mem::swap(&mut self.nat, &mut before.nat);
            self.counted = before.counted;
        }
    }
}

impl<P: PacketBuf> Nat44<P> {
    /// Notes a packet's flow and destination.
    fn note(&self, slot: &Slot, frame: &mut Frame<P>, flow: FlowRecord) {
        let data = frame.packet(slot).data();
        let octets = data.get(self.offset + 16..).and_then(|rest| rest.first_chunk::<4>());
        let dst = octets.map_or(Ipv4Addr::UNSPECIFIED, |octets| (*octets).into());
        frame.column_mut(self.dst)[slot] = DstIp(dst);
        frame.column_mut(self.flow)[slot] = flow;
    }

    fn send(&mut self, slot: Slot, translated: Translated, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let output = usize::from(translated.to == Side::Inside);
        let flow = FlowRecord(translated.tracked);
        let Some(most) = translated.fragment_len else {
            self.note(&slot, frame, flow);
            return out.push(output, slot);
        };
        if !self.cutter.cut(self.nat.whole(), most, (&slot, self.offset), frame) {
            return out.drop(slot, Self::NO_BUFFER);
        }
        self.note(&slot, frame, flow);
        out.push(output, slot);
        for slot in self.cutter.rest(frame) {
            self.note(&slot, frame, flow);
            out.count(Self::FRAGMENTS, 1);
            out.push(output, slot);
        }
    }
}

impl<P: PacketBuf> Element<P> for Nat44<P>
where
    Self: Control,
{
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let now = out.now();
        let from = if input == 0 { Side::Inside } else { Side::Outside };
        for slot in batch.drain() {
            let bytes = frame.packet_mut(&slot).data_mut().get_mut(self.offset..).unwrap_or_default();
            match self.nat.translate(from, bytes, now) {
                Outcome::Translated(translated) => self.send(slot, translated, frame, out),
                Outcome::Held => {
                    out.count(Self::HELD, 1);
                    drop(frame.take(slot));
                }
                Outcome::Refused(_) if self.has_side => {
                    self.note(&slot, frame, FlowRecord(None));
                    out.push(2, slot);
                }
                Outcome::Refused(refusal) => out.drop(slot, Self::reason(refusal)),
            }
            self.nat.sweep(now, SWEEP);
        }
        self.count(out);
    }

    fn end(&mut self, _: &mut Frame<P>, out: &mut Out<'_>) {
        self.nat.sweep(out.now(), IDLE_SWEEP);
        self.count(out);
    }
}
