//! From packets to flows.

use super::Config;
use super::batch::Need;
use super::expected::expected;
use super::family::{Flows, Shared, nanoseconds};
use super::judge::{Arrival, Arrived, judge, take};
use super::key::{Key, quoted_tuple, tuple};
use super::outcome::{EndCause, Event, Sink, Tracked, Untracked};
use super::packet::Transport;
use super::plain::Plain;

use crate::fragments::{Defragmented, Defragmenter};
use crate::named::Tally;

use arrayvec::ArrayVec;
use scalebricks_tables::dhash::{ConfigError, Found, Key4, Key6, Records};
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::{IpPacket, ParseError, ipv4_header_checksum_ok, parse_ip, protocol};
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
    pub(super) defragmenter: Defragmenter,
    pub(super) inner: Inner,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) v4: Flows<Key4>,
    pub(super) v6: Flows<Key6>,
    pub(super) shared: Shared,
    pub(super) untracked: Tally<Untracked>,
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

/// A packet of a batch whose headers were read, and its place in the lookups.
enum Read<'a> {
    Plain(Plain<'a>, usize),
    Other(Result<IpPacket<'a>, ParseError>, Option<usize>),
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
                shared: Shared::new(config),
                untracked: Tally::default(),
            },
        })
    }

    /// Tracks the IP packet at the start of `bytes`; padding may follow it. `zone` keeps equal addresses of different
    /// networks apart. `sink` receives stream data that is due, and flows that end because of this packet.
    ///
    /// Cost: one lookup, and the record's cache lines: one for any flow, two more for an expected TCP segment, three for
    /// any other.
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
        if let Some(plain) = Plain::read(bytes) {
            return self.inner.plain(&plain, None, (zone, now), sink);
        }
        self.one(&parse_ip(bytes), None, (zone, now), sink)
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
            let mut read: ArrayVec<Read<'_>, BATCH> = ArrayVec::new();
            for packet in packets {
                read.push(if let Some(plain) = Plain::read(packet.bytes) {
                    let asked = self.inner.v4.ask(plain.key(packet.zone), plain.need());
                    Read::Plain(plain, asked)
                } else {
                    let parsed = parse_ip(packet.bytes);
                    let asked = parsed.as_ref().ok().and_then(|parsed| self.inner.ask(parsed, packet.zone));
                    Read::Other(parsed, asked)
                });
            }
            self.inner.v4.look();
            self.inner.v6.look();
            for (place, (packet, read)) in packets.iter().zip(&read).enumerate() {
                let arrival = (packet.zone, packet.now);
                let tracked = match read {
                    Read::Plain(plain, asked) => {
                        self.inner.v4.keep_ahead(*asked);
                        self.inner.plain(plain, Some(*asked), arrival, sink)
                    }
                    Read::Other(parsed, asked) => {
                        if let (Some(at), Ok(packet)) = (asked, parsed) {
                            self.inner.keep_ahead(packet, *at);
                        }
                        self.one(parsed, *asked, arrival, sink)
                    }
                };
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

    /// [`Self::track`] by the general parser and the full state machine.
    #[cfg(test)]
    pub(super) fn track_slowly(
        &mut self,
        bytes: &[u8],
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        self.inner.shared.twin.0 = true;
        self.one(&parse_ip(bytes), None, (zone, now), sink)
    }

    /// Packets that were expected.
    #[cfg(test)]
    pub(super) const fn expected_packets(&self) -> u64 {
        self.inner.shared.twin.1
    }

    fn one(
        &mut self,
        parsed: &Result<IpPacket<'_>, ParseError>,
        asked: Option<usize>,
        (zone, now): (u16, Duration),
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let tracked = match parsed {
            Ok(packet) => self.any(packet, asked, (zone, now), sink),
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
        let need = if ip.protocol == protocol::TCP { Need::All } else { Need::Flow };
        match Key4::of_tuple(&tuple, zone) {
            Some(key) => Some(self.v4.ask(key, need)),
            None => Key6::of_tuple(&tuple, zone).map(|key| self.v6.ask(key, need)),
        }
    }

    /// Fetches what this packet of the batch and the next ones need.
    fn keep_ahead(&mut self, packet: &IpPacket<'_>, asked: usize) {
        if packet.summary.is_ipv4() {
            self.v4.keep_ahead(asked);
        } else {
            self.v6.keep_ahead(asked);
        }
    }

    /// A packet of the usual form.
    #[inline(always)]
    fn plain(
        &mut self,
        plain: &Plain<'_>,
        asked: Option<usize>,
        (zone, now): (u16, Duration),
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let Self { v4, shared, .. } = self;
        if shared.config.verify_checksums
            && let Err(untracked) = plain.verify()
        {
            return self.counted(Err(untracked));
        }
        let (segment, payload, bytes) = (&plain.segment(), plain.payload(), plain.len());
        let arrived = Arrived { segment, payload, bytes, now, now_ns: nanoseconds(now) };
        let found = v4.find(|| plain.key(zone), asked);
        let tracked = found.and_then(|found| expected(v4, found, Family::V4, &arrived, shared, sink));
        let tracked = match tracked {
            Some(tracked) => Ok(tracked),
            None => judge(v4, (&plain.key(zone), asked), found, Family::V4, &arrived, shared, sink),
        };
        self.counted(tracked)
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
