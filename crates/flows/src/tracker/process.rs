//! From packets to flows.

use super::Config;
use super::family::{Flows, Shared};
use super::judge::{Arrival, take};
use super::key::{Key, quoted_tuple, tuple};
use super::outcome::{EndCause, Event, Sink, Tracked, Untracked};
use super::packet::Transport;
use super::record::Flow;
use crate::fragments::{Defragmented, Defragmenter};
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::tcp::{Anomaly, Connection};
use arrayvec::ArrayVec;
use scalebricks_tables::dhash::{ConfigError, DHash, Found, Key4, Key6, Records};
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::{IpPacket, ParseError, ipv4_header_checksum_ok, parse_ip};
use std::time::Duration;

/// Packets that are looked up together.
const BATCH: usize = 32;

/// IP version of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Arrays that the caller reserves for its own values of each flow.
#[derive(Debug, Default)]
pub struct Tables {
    /// For IPv4 flows.
    pub v4: Records,
    /// For IPv6 flows.
    pub v6: Records,
}

/// Tracks flows. See the [module](super). One per core: a flow's packets of both directions must come to the same tracker.
#[derive(Debug)]
pub struct Tracker {
    defragmenter: Defragmenter,
    inner: Inner,
}

#[derive(Debug)]
struct Inner {
    v4: Flows<Key4>,
    v6: Flows<Key6>,
    shared: Shared,
    untracked: Tally<Untracked>,
}

/// A packet of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The IP packet; padding may follow it.
    pub bytes: &'a [u8],
    /// Keeps equal addresses of different networks apart.
    pub zone: u16,
    /// When it came.
    pub now: Duration,
}

impl Tracker {
    /// No flows. Take `secret` from the system's random generator where packets come from strangers.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no address space for so many flows.
    pub fn new(config: &Config, secret: HashSeed, tables: Tables) -> Result<Self, ConfigError> {
        let v6 = Config { flows: if config.has_ipv6 { config.flows } else { 1 }, ..*config };
        Ok(Self {
            defragmenter: Defragmenter::new(config.fragments),
            inner: Inner {
                v4: Flows::new(config, secret, tables.v4)?,
                v6: Flows::new(&v6, secret, tables.v6)?,
                shared: Shared {
                    config: *config,
                    reassembler: config.reassembly.map(Reassembler::new),
                    events: Tally::default(),
                    ends: Tally::default(),
                    anomalies: Tally::default(),
                    serial: 0,
                },
                untracked: Tally::default(),
            },
        })
    }

    /// Tracks the IP packet at the start of `bytes`; padding may follow it. `zone` keeps equal addresses of different
    /// networks apart. `sink` receives stream data that is due, and flows that end because of this packet.
    ///
    /// Cost: one lookup, and the record's cache lines: one for any flow, three more for TCP.
    ///
    /// # Errors
    /// [`Untracked`]: the packet belongs to no flow, or is not believed.
    pub fn track(
        &mut self,
        bytes: &[u8],
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        self.one(parse_ip(bytes), None, (zone, now), sink)
    }

    /// Tracks a batch of packets, in order: the same as [`Self::track`] of each. The table's and the records' cache lines of
    /// all packets are fetched together. `done` receives the tracker, each packet's place in the batch and its result; a
    /// record is valid until `done` returns.
    pub fn track_batch<S: Sink>(
        &mut self,
        packets: &[Packet<'_>],
        sink: &mut S,
        mut done: impl FnMut(&mut Self, usize, Result<Tracked, Untracked>, &mut S),
    ) {
        for (at, packets) in packets.chunks(BATCH).enumerate() {
            let parsed: ArrayVec<_, BATCH> = packets
                .iter()
                .map(|packet| {
                    let parsed = parse_ip(packet.bytes);
                    let asked = parsed.as_ref().ok().and_then(|parsed| self.inner.ask(parsed, packet.zone));
                    (parsed, asked)
                })
                .collect();
            self.inner.v4.look_up();
            self.inner.v6.look_up();
            for (place, (packet, (parsed, asked))) in packets.iter().zip(parsed).enumerate() {
                let tracked = self.one(parsed, asked, (packet.zone, packet.now), sink);
                done(self, at * BATCH + place, tracked, sink);
            }
            self.inner.v4.forget_batch();
            self.inner.v6.forget_batch();
        }
    }

    /// Tracks a whole packet as if it had this tuple: that of its flow in another realm, for a caller that translates
    /// addresses. Checksums are verified as the packet is. An ICMP error is not tracked: see [`Self::related`].
    ///
    /// # Errors
    /// [`Untracked`]; [`Untracked::FragmentRefused`] for a fragment.
    pub fn track_as(
        &mut self,
        packet: &IpPacket<'_>,
        tuple: &FiveTuple,
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let tracked = if packet.summary.fragment.is_some() {
            Err(Untracked::FragmentRefused)
        } else {
            self.inner
                .transport(packet)
                .and_then(|transport| self.inner.flow((packet, transport), tuple, None, zone, now, sink))
        };
        self.inner.counted(tracked)
    }

    /// The flow that an ICMP error quotes a packet of: `quoted` is that packet's tuple. The error changes nothing of the
    /// flow.
    ///
    /// # Errors
    /// [`Untracked::UnrelatedError`].
    pub fn related(&mut self, quoted: &FiveTuple, zone: u16) -> Result<Tracked, Untracked> {
        let tracked = self.inner.related(quoted, zone);
        self.inner.counted(tracked)
    }

    fn one(
        &mut self,
        parsed: Result<IpPacket<'_>, ParseError>,
        asked: Option<usize>,
        (zone, now): (u16, Duration),
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let tracked = match parsed {
            Ok(packet) => self.any(&packet, asked, (zone, now), sink),
            Err(_) => Err(Untracked::MalformedIp),
        };
        self.inner.counted(tracked)
    }

    fn any(
        &mut self,
        packet: &IpPacket<'_>,
        asked: Option<usize>,
        (zone, now): (u16, Duration),
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let verify = self.inner.shared.config.verify_checksums;
        if verify && packet.summary.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            return Err(Untracked::IpChecksum);
        }
        match self.defragmenter.add(packet.bytes(), &packet.summary, now) {
            Defragmented::NoFragment => self.inner.packet(packet, asked, zone, now, sink),
            Defragmented::Held => Err(Untracked::FragmentHeld),
            Defragmented::Refused(_) => Err(Untracked::FragmentRefused),
            Defragmented::Whole(bytes) => {
                let packet = parse_ip(bytes).map_err(|_| Untracked::MalformedIp)?;
                sink.completed(&packet);
                self.inner.packet(&packet, None, zone, now, sink)
            }
        }
    }

    /// Ends flows whose time is over, and forgets old fragments. Passes at most `budget` records of each IP version, where
    /// the last call stopped.
    pub fn sweep(&mut self, now: Duration, budget: usize, sink: &mut impl Sink) {
        let Inner { v4, v6, shared, .. } = &mut self.inner;
        v4.sweep(Some(now), budget, shared, sink);
        v6.sweep(Some(now), budget, shared, sink);
        self.defragmenter.expire(now);
    }

    /// Ends a flow because the caller wants it. Does nothing if the flow has ended already.
    pub fn dismiss(&mut self, tracked: &Tracked, sink: &mut impl Sink) {
        if self.flow(tracked).serial != tracked.serial {
            return;
        }
        let Inner { v4, v6, shared, .. } = &mut self.inner;
        match tracked.family {
            Family::V4 => v4.end(tracked.record, EndCause::Dismissed, shared, sink),
            Family::V6 => v6.end(tracked.record, EndCause::Dismissed, shared, sink),
        }
    }

    /// Ends all flows, as the input has ended.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let Inner { v4, v6, shared, .. } = &mut self.inner;
        // The first round may be a partial one.
        while !v4.table.is_empty() {
            v4.sweep(None, usize::MAX, shared, sink);
        }
        while !v6.table.is_empty() {
            v6.sweep(None, usize::MAX, shared, sink);
        }
    }

    /// Flows now.
    pub fn flows(&self) -> usize {
        self.inner.v4.table.len() + self.inner.v6.table.len()
    }

    /// Young flows now: half-open connections, and flows without an answer.
    pub const fn young_flows(&self) -> usize {
        self.inner.v4.young + self.inner.v6.young
    }

    /// Counters of packets and flows.
    pub const fn events(&self) -> &Tally<Event> {
        &self.inner.shared.events
    }

    /// Packets that belong to no flow, by reason.
    pub const fn untracked(&self) -> &Tally<Untracked> {
        &self.inner.untracked
    }

    /// Ended flows by cause.
    pub const fn ends(&self) -> &Tally<EndCause> {
        &self.inner.shared.ends
    }

    /// Unusual segments.
    pub const fn anomalies(&self) -> &Tally<Anomaly> {
        &self.inner.shared.anomalies
    }

    /// Fragments.
    pub const fn defragmenter(&self) -> &Defragmenter {
        &self.defragmenter
    }

    /// Streams, if they are reassembled.
    pub const fn reassembler(&self) -> Option<&Reassembler> {
        self.inner.shared.reassembler.as_ref()
    }

    /// The record of a flow.
    pub fn flow(&self, tracked: &Tracked) -> &Flow {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => v4.flow(tracked.record),
            Family::V6 => v6.flow(tracked.record),
        }
    }

    /// The ends of a flow, as in its first packet; `None` if it has ended.
    pub fn tuple(&self, tracked: &Tracked) -> Option<FiveTuple> {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => v4.table.key(tracked.record).map(Key::tuple),
            Family::V6 => v6.table.key(tracked.record).map(Key::tuple),
        }
    }

    /// The connection of a TCP flow; a default one of other flows.
    pub fn connection(&self, tracked: &Tracked) -> &Connection {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => &v4.tcp(tracked.record).connection,
            Family::V6 => &v6.tcp(tracked.record).connection,
        }
    }

    /// The streams of a TCP flow by direction; those of other flows are empty.
    pub fn streams(&self, tracked: &Tracked) -> &[Stream; 2] {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => &v4.tcp(tracked.record).streams,
            Family::V6 => &v6.tcp(tracked.record).streams,
        }
    }

    /// The table of IPv4 flows, for the caller's arrays.
    pub const fn table_v4(&mut self) -> &mut DHash<Key4> {
        &mut self.inner.v4.table
    }

    /// The table of IPv6 flows, for the caller's arrays.
    pub const fn table_v6(&mut self) -> &mut DHash<Key6> {
        &mut self.inner.v6.table
    }
}

impl Inner {
    fn counted(&mut self, tracked: Result<Tracked, Untracked>) -> Result<Tracked, Untracked> {
        self.shared.events.count(Event::Packets);
        match &tracked {
            Ok(_) => self.shared.events.count(Event::Tracked),
            Err(untracked) => self.untracked.count(*untracked),
        }
        tracked
    }

    fn transport<'a>(&self, packet: &IpPacket<'a>) -> Result<Transport<'a>, Untracked> {
        Transport::parse(&packet.summary, packet.l4(), self.shared.config.verify_checksums)
    }

    /// Adds a packet of a batch to the lookups, if it has a key of its own: neither fragments nor ICMP errors have.
    fn ask(&mut self, parsed: &IpPacket<'_>, zone: u16) -> Option<usize> {
        let ip = &parsed.summary;
        if ip.fragment.is_some() || ip.is_icmp_error() {
            return None;
        }
        let tuple = tuple(ip, parsed.l4());
        match Key4::of_tuple(&tuple, zone) {
            Some(key) => Some(self.v4.ask(key)),
            None => Key6::of_tuple(&tuple, zone).map(|key| self.v6.ask(key)),
        }
    }

    fn packet(
        &mut self,
        packet: &IpPacket<'_>,
        asked: Option<usize>,
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let transport = self.transport(packet)?;
        if let Some(quoted) = quoted_tuple(packet) {
            // The quoted packet went the other way; it may be cut, but has ports.
            return self.related(&quoted.map_err(|_| Untracked::MalformedTransport)?, zone);
        }
        let tuple = tuple(&packet.summary, packet.l4());
        self.flow((packet, transport), &tuple, asked, zone, now, sink)
    }

    /// A packet of the flow with this tuple.
    fn flow(
        &mut self,
        (packet, transport): (&IpPacket<'_>, Transport<'_>),
        tuple: &FiveTuple,
        asked: Option<usize>,
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let (l4, bytes) = (packet.l4(), packet.bytes().len());
        let Self { v4, v6, shared, .. } = self;
        if let Some(key) = Key4::of_tuple(tuple, zone) {
            let arrival = Arrival { key, asked, transport, l4, bytes, now, family: Family::V4 };
            take(v4, &arrival, shared, sink)
        } else if let Some(key) = Key6::of_tuple(tuple, zone) {
            let arrival = Arrival { key, asked, transport, l4, bytes, now, family: Family::V6 };
            take(v6, &arrival, shared, sink)
        } else {
            Err(Untracked::MalformedIp) // not reached: both addresses of a packet are of one family
        }
    }

    /// An ICMP error about a packet with this tuple.
    fn related(&mut self, quoted: &FiveTuple, zone: u16) -> Result<Tracked, Untracked> {
        let v4 = Key4::of_tuple(quoted, zone).and_then(|key| self.v4.table.find(&key));
        let v6 = Key6::of_tuple(quoted, zone).and_then(|key| self.v6.table.find(&key));
        let (family, Found { record, direction }, flow) = match (v4, v6) {
            (Some(found), _) => (Family::V4, found, self.v4.flow(found.record)),
            (None, Some(found)) => (Family::V6, found, self.v6.flow(found.record)),
            (None, None) => return Err(Untracked::UnrelatedError),
        };
        let (serial, state, direction) = (flow.serial, flow.state(), direction.reversed());
        self.shared.events.count(Event::RelatedError);
        Ok(Tracked { family, record, serial, direction, state, is_new: false, is_related: true })
    }
}
