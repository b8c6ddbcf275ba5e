//! Packets.

use super::sessions::{Context, Session};
use super::state::State;
use super::{Config, ConfigError, Endpoint, Event, Kind, Refusal};
use crate::fragments::{Defragmented, Defragmenter};
use crate::named::Tally;
use crate::tracker::{Tables, Tracked, Tracker, Untracked, tuple};
use scalebricks_tables::dhash::Column;
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::rewrite::{End, replace_end};
use scalebricks_wire::{IpPacket, ipv4_header_checksum_ok, parse_ip};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A side of a NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The subscribers'.
    Inside,
    /// The public one.
    Outside,
}

/// A packet that was translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translated {
    /// Where it goes.
    pub to: Side,
    /// Its session, in terms of the inside. `None`: a segment that the peer will challenge.
    pub tracked: Option<Tracked>,
    /// It came in fragments of at most this length, and is now [`Nat::whole`].
    pub fragment_len: Option<usize>,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was translated in place, or is whole now.
    Translated(Translated),
    /// It is a fragment that waits for others. The NAT has a copy.
    Held,
    /// It is not translated, and has not been changed.
    Refused(Refusal),
}

/// A NAT. See the [module](super). One per core: all packets of an inside address and of its public ports must come to it.
#[derive(Debug)]
pub struct Nat {
    pub(super) tracker: Tracker,
    pub(super) state: State,
    defragmenter: Defragmenter,
    column: Column<Session>,
    whole: Vec<u8>,
    /// A hairpinned packet as it was.
    saved: Vec<u8>,
    /// Source of the identification of datagrams that are fragmented again.
    identification: u16,
    pub(super) refusals: Tally<Refusal>,
}

impl Nat {
    /// No mappings. `secret` orders the ports of each inside endpoint: with deterministic allocation, NATs that continue each
    /// other's flows need the same. `table_secret` is for this NAT only, from the system's random generator. `tables` may
    /// have arrays of the caller's own.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(
        config: Config,
        secret: HashSeed,
        table_secret: HashSeed,
        mut tables: Tables,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let column = tables.v4.reserve();
        let tracker = Tracker::new(&config.tracker(), table_secret, tables).map_err(ConfigError::Table)?;
        Ok(Self {
            tracker,
            defragmenter: Defragmenter::new(config.fragments),
            state: State::new(config, column, secret),
            column,
            whole: Vec::new(),
            saved: Vec::new(),
            identification: 0,
            refusals: Tally::default(),
        })
    }

    /// Translates the IPv4 packet at the start of `bytes`, which came from this side; padding may follow it.
    ///
    /// Cost of a packet of a session: one lookup in the session table; from outside, an index before it. The first packet of a
    /// session looks for the endpoint's mapping besides. Checksums are verified over the packet, and updated from the change.
    pub fn translate(&mut self, from: Side, bytes: &mut [u8], now: Duration) -> Outcome {
        let outcome = match self.any(from, bytes, now) {
            Ok(outcome) => outcome,
            Err(refusal) => Outcome::Refused(refusal),
        };
        if let Outcome::Refused(refusal) = outcome {
            self.refusals.count(refusal);
        }
        outcome
    }

    fn any(&mut self, from: Side, bytes: &mut [u8], now: Duration) -> Result<Outcome, Refusal> {
        self.state.now = now;
        let packet = parse_ip(bytes).map_err(|_| Refusal::MalformedIp)?;
        self.check(from, &packet)?;
        match self.defragmenter.add(packet.bytes(), &packet.summary, now) {
            Defragmented::NoFragment => {
                let (to, tracked) = self.whole_packet(from, bytes)?;
                Ok(Outcome::Translated(Translated { to, tracked, fragment_len: None }))
            }
            Defragmented::Held => Ok(Outcome::Held),
            Defragmented::Refused(_) => Err(Refusal::FragmentRefused),
            Defragmented::Whole(datagram) => {
                let mut whole = std::mem::take(&mut self.whole);
                whole.clear();
                whole.extend_from_slice(datagram);
                let translated = self.whole_packet(from, &mut whole);
                if let Ok((Side::Outside, _)) = translated {
                    self.identify(&mut whole);
                }
                self.whole = whole;
                let (to, tracked) = translated?;
                let fragment_len = Some(self.defragmenter.longest_fragment());
                Ok(Outcome::Translated(Translated { to, tracked, fragment_len }))
            }
        }
    }

    /// What a packet must be on either side.
    fn check(&self, from: Side, packet: &IpPacket<'_>) -> Result<(), Refusal> {
        let ip = &packet.summary;
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip.src, ip.dst) else { return Err(Refusal::MalformedIp) };
        let Config { plan, verify_checksums, .. } = &self.state.config;
        if *verify_checksums && !ipv4_header_checksum_ok(packet.bytes()) {
            return Err(Refusal::IpChecksum);
        }
        match from {
            // Errors may come from routers inside; they must be about a session.
            Side::Inside if !plan.is_inside(src) && !ip.is_icmp_error() => Err(Refusal::NotInside),
            Side::Outside if plan.is_inside(src) || plan.is_public(src) => Err(Refusal::ForgedSource),
            Side::Outside if !plan.is_public(dst) => Err(Refusal::NotPublic),
            _ => Ok(()),
        }
    }

    /// Translates a packet that is no fragment.
    fn whole_packet(&mut self, from: Side, bytes: &mut [u8]) -> Result<(Side, Option<Tracked>), Refusal> {
        if from == Side::Outside {
            return Ok((Side::Inside, self.inbound(bytes)?));
        }
        let hairpin = bytes.first_chunk::<20>().is_some_and(|header| {
            self.state.config.plan.is_public(Ipv4Addr::new(header[16], header[17], header[18], header[19]))
        });
        if !hairpin {
            return Ok((Side::Outside, self.outbound(bytes)?));
        }
        // RFC 4787 REQ-9 (a): the other inside host sees the public address and port.
        self.saved.clear();
        self.saved.extend_from_slice(bytes);
        self.outbound(bytes)?;
        match self.inbound(bytes) {
            Ok(tracked) => {
                self.state.events.count(Event::Hairpinned);
                Ok((Side::Inside, tracked))
            }
            Err(refusal) => {
                bytes.copy_from_slice(&self.saved);
                Err(refusal)
            }
        }
    }

    fn outbound(&mut self, bytes: &mut [u8]) -> Result<Option<Tracked>, Refusal> {
        let packet = parse_ip(bytes).map_err(|_| Refusal::MalformedIp)?;
        if packet.summary.is_icmp_error() {
            return self.outbound_error(bytes).map(Some);
        }
        let tuple = query_tuple(&packet, &[8, 13])?;
        let IpAddr::V4(address) = tuple.src else { return Err(Refusal::MalformedIp) };
        let inside = Endpoint { address, port: tuple.src_port, kind: Kind::of(tuple.protocol)? };
        let (tracked, context) = self.track(&packet, &tuple, Context::new(inside, None));
        let (mapping, tracked) = match tracked {
            Ok(tracked) => {
                let sessions = self.tracker.table_v4().column_mut(self.column);
                let session = &mut sessions[tracked.record];
                if tracked.is_new {
                    self.state.begin_session(&context, session);
                }
                (self.state.outbound(&context, session, tuple.dst)?, Some(tracked))
            }
            // The peer answers with a challenge, which leads both ends out of a half-open connection.
            Err(Untracked::Segment) if context.is_challenge => {
                let (_, mapping) = self.state.of_inside(inside).ok_or(Refusal::Segment)?;
                self.state.events.count(Event::Challenged);
                (mapping, None)
            }
            Err(untracked) => return Err(context.refusal.unwrap_or_else(|| untracked.into())),
        };
        replace_end(bytes, End::Source, mapping.public, mapping.port);
        Ok(tracked)
    }

    fn inbound(&mut self, bytes: &mut [u8]) -> Result<Option<Tracked>, Refusal> {
        let packet = parse_ip(bytes).map_err(|_| Refusal::MalformedIp)?;
        if packet.summary.is_icmp_error() {
            return self.inbound_error(bytes).map(Some);
        }
        let mut tuple = query_tuple(&packet, &[0, 14])?;
        let kind = Kind::of(tuple.protocol)?;
        let IpAddr::V4(public) = tuple.dst else { return Err(Refusal::MalformedIp) };
        let (number, mapping) =
            self.state.of_public(public, tuple.dst_port, kind).ok_or(Refusal::NoMapping)?;
        let inside = mapping.inside;
        (tuple.dst, tuple.dst_port) = (IpAddr::V4(inside.address), inside.port);
        if kind == Kind::Icmp {
            tuple.src_port = inside.port;
        }
        let (tracked, context) = self.track(&packet, &tuple, Context::new(inside, Some(number)));
        let tracked = tracked.map_err(|untracked| context.refusal.unwrap_or_else(|| untracked.into()))?;
        if tracked.is_new {
            let sessions = self.tracker.table_v4().column_mut(self.column);
            self.state.begin_session(&context, &mut sessions[tracked.record]);
        }
        replace_end(bytes, End::Destination, inside.address, inside.port);
        Ok(Some(tracked))
    }

    fn track(
        &mut self,
        packet: &IpPacket<'_>,
        tuple: &FiveTuple,
        context: Context,
    ) -> (Result<Tracked, Untracked>, Context) {
        self.state.context = Some(context);
        let now = self.state.now;
        let tracked = self.tracker.track_as(packet, tuple, 0, now, &mut self.state);
        let context = self.state.context.take().unwrap_or(context);
        if tracked.is_err() {
            self.state.give_up(&context);
        }
        (tracked, context)
    }

    /// Datagrams of several inside hosts have one source now, so their identification may collide (RFC 6864 §5.3.1).
    fn identify(&mut self, packet: &mut [u8]) {
        self.identification = self.identification.wrapping_add(1);
        let [high, low] = self.identification.to_be_bytes();
        let header_len = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
        if let Some(header) = packet.get_mut(..header_len)
            && header.len() >= 20
        {
            (header[4], header[5]) = (high, low);
            (header[10], header[11]) = (0, 0);
            let sum = scalebricks_wire::checksum::checksum(header).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
        }
    }

    /// The packet that was completed from fragments and translated last, until the next call.
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// Ends sessions and mappings whose time is over, frees blocks, and forgets old fragments. Looks at no more than `budget`
    /// of each, where the last call stopped.
    pub fn sweep(&mut self, now: Duration, budget: usize) {
        self.state.now = now;
        self.tracker.sweep(now, budget, &mut self.state);
        self.state.sweep(budget);
        self.defragmenter.expire(now);
    }

    /// The sessions.
    pub const fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// The sessions, for the caller's arrays.
    pub const fn tracker_mut(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    /// Fragments.
    pub const fn defragmenter(&self) -> &Defragmenter {
        &self.defragmenter
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.state.config
    }

    /// Packets that were not translated, by reason.
    pub const fn refusals(&self) -> &Tally<Refusal> {
        &self.refusals
    }

    /// What else was counted.
    pub const fn events(&self) -> &Tally<Event> {
        &self.state.events
    }
}

/// The tuple of a packet that is no ICMP error. Of ICMP, only these types are translated.
fn query_tuple(packet: &IpPacket<'_>, types: &[u8]) -> Result<FiveTuple, Refusal> {
    let ip = &packet.summary;
    match Kind::of(ip.protocol)? {
        Kind::Icmp => match ip.icmp {
            _ if packet.l4().len() < scalebricks_wire::icmp::HEADER_LEN => {
                return Err(Refusal::MalformedTransport);
            }
            Some((kind, _)) if types.contains(&kind) => {}
            _ => return Err(Refusal::IcmpType),
        },
        _ if ip.ports.is_none() => return Err(Refusal::MalformedTransport),
        _ => {}
    }
    Ok(tuple(ip, packet.l4()))
}
