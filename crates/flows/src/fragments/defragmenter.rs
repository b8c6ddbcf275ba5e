//! All incomplete packets.

use super::datagram::Datagram;
use super::{Config, Event, FRAGMENT_COST, PACKET_COST, Refusal};
use crate::named::Tally;
use scalebricks_wire::IpSummary;
use scalebricks_wire::packet::DatagramId;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Defragmented<'a> {
    /// The packet was not fragmented.
    NoFragment,
    /// It waits for others.
    Held,
    /// It was the last that was missing: the whole packet, until the next call.
    Whole(&'a [u8]),
    /// It is not used.
    Refused(Refusal),
}

#[derive(Debug)]
struct Incomplete<N> {
    datagram: Datagram,
    arrived: Duration,
    serial: u64,
    /// The note of its first fragment, or of the fragment that came first.
    note: N,
}

/// Completes packets from their fragments. See the [module](super). The caller may keep a note with each packet, of type `N`.
#[derive(Debug)]
pub struct Defragmenter<N = ()> {
    config: Config,
    /// The hash has a random key, as attackers choose the fragments.
    incomplete: HashMap<DatagramId, Incomplete<N>>,
    sources: HashMap<IpAddr, u32>,
    /// In order of arrival, by family, as their lifetimes differ. A completed packet's entry stays until its turn or a
    /// compaction.
    arrivals: [VecDeque<(DatagramId, u64)>; 2],
    serial: u64,
    bytes: u64,
    whole: Vec<u8>,
    longest: usize,
    pieces: usize,
    refusals: Tally<Refusal>,
    events: Tally<Event>,
}

impl Defragmenter {
    /// No fragments.
    pub fn new(config: Config) -> Self {
        Self::with_notes(config)
    }

    /// Adds a fragment: the packet `bytes` whose summary is `ip`, that is, `parse_ip(bytes)` without padding.
    ///
    /// Cost: a hash lookup, a copy of the data, and a search among the packet's fragments; the last fragment's call copies the
    /// packet.
    pub fn add(&mut self, bytes: &[u8], ip: &IpSummary, now: Duration) -> Defragmented<'_> {
        self.add_noted(bytes, ip, (), now)
    }
}

/// The number of a packet's family.
const fn family(id: &DatagramId) -> usize {
    id.src.is_ipv6() as usize
}

impl<N: Copy> Defragmenter<N> {
    /// No fragments; a note will be kept with each packet.
    pub fn with_notes(config: Config) -> Self {
        Self {
            config,
            incomplete: HashMap::new(),
            sources: HashMap::new(),
            arrivals: Default::default(),
            serial: 0,
            bytes: 0,
            whole: Vec::new(),
            longest: 0,
            pieces: 0,
            refusals: Tally::default(),
            events: Tally::default(),
        }
    }

    /// Sets other bounds. Packets that exceed them go with the next fragment, or when their new time is over.
    pub const fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Refused fragments.
    pub const fn refusals(&self) -> &Tally<Refusal> {
        &self.refusals
    }

    /// What else was counted.
    pub const fn events(&self) -> &Tally<Event> {
        &self.events
    }

    /// Octets of the longest fragment of the packet that was completed last: who sends the packet on in fragments no longer
    /// than this does not exceed the path's MTU.
    pub const fn longest_fragment(&self) -> usize {
        self.longest
    }

    /// Number of fragments of the packet that was completed last.
    pub const fn pieces(&self) -> usize {
        self.pieces
    }

    /// Incomplete packets, refused ones included.
    pub fn packets(&self) -> usize {
        self.incomplete.len()
    }

    /// Octets of all incomplete packets. At most [`Config::bytes`].
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a fragment, as [`Defragmenter::add`] does. Of the notes of a packet's fragments, that of its first one is kept, or
    /// until it comes, that of the earliest.
    pub fn add_noted(&mut self, bytes: &[u8], ip: &IpSummary, note: N, now: Duration) -> Defragmented<'_> {
        let (Some(id), Some(fragment)) = (DatagramId::of(ip), ip.fragment) else {
            return Defragmented::NoFragment;
        };
        self.expire(now);
        let most = PACKET_COST + FRAGMENT_COST + bytes.len() as u64;
        if most > self.config.bytes || self.config.packets == 0 {
            return self.refused(Refusal::NoRoom);
        }
        if !self.incomplete.contains_key(&id) {
            let from_source = self.sources.entry(id.src).or_insert(0);
            if *from_source >= self.config.source_packets {
                return self.refused(Refusal::SourceLimit);
            }
            *from_source += 1;
            self.serial += 1;
            self.bytes += PACKET_COST;
            let serial = self.serial;
            self.incomplete
                .insert(id, Incomplete { datagram: Datagram::default(), arrived: now, serial, note });
            self.arrivals[family(&id)].push_back((id, serial));
        }
        let Some(entry) = self.incomplete.get_mut(&id) else { return self.refused(Refusal::Malformed) };
        let before = entry.datagram.cost();
        let added = entry.datagram.add(bytes, ip, fragment, self.config.packet_fragments);
        self.bytes = self.bytes - before + entry.datagram.cost();
        if let Err(refusal) = added {
            self.limit(&id);
            return self.refused(refusal);
        }
        if fragment.is_first() {
            entry.note = note;
        }
        self.events.count(Event::Held);
        if entry.datagram.is_complete() {
            entry.datagram.write(&mut self.whole);
            self.longest = entry.datagram.longest;
            self.pieces = entry.datagram.pieces();
            self.forget(&id);
            self.events.count(Event::Completed);
            return Defragmented::Whole(&self.whole);
        }
        self.limit(&id);
        Defragmented::Held
    }

    fn refused(&mut self, refusal: Refusal) -> Defragmented<'static> {
        self.refusals.count(refusal);
        Defragmented::Refused(refusal)
    }

    /// Forgets packets whose time is over. [`Self::add_noted`] does it as well.
    pub fn expire(&mut self, now: Duration) {
        self.expire_each(now, |_, _| ());
    }

    /// Forgets packets whose time is over. `gone` receives the first fragment of each, as it came, and its note, unless the
    /// first fragment is missing or the packet was refused: then no error may be sent about it (RFC 792, RFC 8200 §4.5).
    pub fn expire_each(&mut self, now: Duration, mut gone: impl FnMut(&[u8], N)) {
        for family in 0..self.arrivals.len() {
            let lifetime = if family == 0 { self.config.ipv4_lifetime } else { self.config.ipv6_lifetime };
            while let Some((id, serial)) = self.arrivals[family].front().copied() {
                if let Some(entry) = self.incomplete.get(&id).filter(|entry| entry.serial == serial) {
                    if now.saturating_sub(entry.arrived) < lifetime {
                        break;
                    }
                    if entry.datagram.write_first(&mut self.whole) {
                        gone(&self.whole, entry.note);
                    }
                    self.forget(&id);
                    self.events.count(Event::TimedOut);
                }
                self.arrivals[family].pop_front();
            }
        }
    }

    /// Takes the entry of the packet that arrived first, of both families.
    fn pop_oldest(&mut self) -> Option<(DatagramId, u64)> {
        let serial = |family: usize| self.arrivals[family].front().map_or(u64::MAX, |(_, serial)| *serial);
        let oldest = usize::from(serial(1) < serial(0));
        self.arrivals[oldest].pop_front()
    }

    /// The oldest packets but `latest` go until the limits hold.
    fn limit(&mut self, latest: &DatagramId) {
        let mut kept = None;
        while self.bytes > self.config.bytes || self.incomplete.len() > self.config.packets {
            let Some((id, serial)) = self.pop_oldest() else { break };
            if id == *latest {
                kept = Some((id, serial));
            } else if self.incomplete.get(&id).is_some_and(|entry| entry.serial == serial) {
                self.forget(&id);
                self.events.count(Event::Evicted);
            }
        }
        if let Some(kept) = kept {
            self.arrivals[family(&kept.0)].push_front(kept);
        }
        if self.bytes > self.config.bytes {
            self.forget(latest);
            self.events.count(Event::Evicted);
        }
        if self.arrivals.iter().map(VecDeque::len).sum::<usize>() > 2 * self.config.packets + 16 {
            let incomplete = &self.incomplete;
            let is_current = |(id, serial): &(DatagramId, u64)| {
                incomplete.get(id).is_some_and(|entry| entry.serial == *serial)
            };
            self.arrivals.iter_mut().for_each(|arrivals| arrivals.retain(is_current));
        }
    }

    fn forget(&mut self, id: &DatagramId) {
        let Some(entry) = self.incomplete.remove(id) else { return };
        self.bytes -= entry.datagram.cost();
        if let Some(from_source) = self.sources.get_mut(&id.src) {
            *from_source -= 1;
            if *from_source == 0 {
                self.sources.remove(&id.src);
            }
        }
    }
}
