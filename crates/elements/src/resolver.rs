//! Resolves next hops on an Ethernet: what `ARPQuerier` and `IP6NDSolicitor` share.

use crate::arp_table::{ArpConfig, ArpTable, Evicted, Resolution, RetryAction};
use crate::columns::NextAddress;
use crate::ethernet::ether_encap::encapsulate;
use crate::routes::Family;
use crate::values::{Mac, value};
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{CounterId, DropId, Frame, Handle, Meta, Out, Slot, SlotList};
use scalebricks_io::PacketBuf;
use scalebricks_types::Bucket;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::header;
use std::time::Duration;

/// How a packet reaches an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkWay {
    /// By this MAC address: broadcast or a group.
    Mac(MacAddr),
    /// By the MAC address of the neighbour, to be resolved.
    Neighbour,
    /// Not at all: the address is unspecified.
    None,
}

/// What a neighbour announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard<A> {
    pub(crate) address: A,
    pub(crate) mac: MacAddr,
    /// Whether it replaces another MAC address.
    pub(crate) replaces: bool,
}

/// A protocol that resolves addresses, at one interface.
pub(crate) trait Discovery: Send + 'static {
    /// The addresses.
    type Address: Family;
    /// The column with a packet's next hop.
    type Column: NextAddress<Address = Self::Address>;
    /// The ethertype of packets.
    const ETHERTYPE: u16;

    /// The interface's MAC address.
    fn mac(&self) -> MacAddr;

    /// How a packet reaches an address.
    fn way(&self, ip: Self::Address) -> LinkWay;

    /// A request for a neighbour's MAC address, as an Ethernet frame.
    fn question(&self, ip: Self::Address) -> Vec<u8>;

    /// The announcement in a frame.
    fn heard(frame: &[u8]) -> Option<Heard<Self::Address>>;
}

/// The drop reasons and counters of a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolverIds {
    pub(crate) no_destination: DropId,
    pub(crate) no_answer: DropId,
    pub(crate) queue_full: DropId,
    pub(crate) table_full: DropId,
    pub(crate) evicted: DropId,
    pub(crate) no_room: DropId,
    pub(crate) bad_reply: DropId,
    pub(crate) queries: CounterId,
    pub(crate) not_sent: CounterId,
    pub(crate) responses: CounterId,
    pub(crate) unasked: CounterId,
    pub(crate) sent: CounterId,
    pub(crate) wanted: CounterId,
    pub(crate) length_now: CounterId,
}

/// The state of an element that resolves.
#[derive(Debug)]
pub(crate) struct Resolver<P, D: Discovery> {
    pub(crate) link: D,
    pub(crate) config: ArpConfig,
    pub(crate) neighbours: ArpTable<P, D::Address>,
    pub(crate) dst: Handle<D::Column>,
    pub(crate) dropped: u64,
    /// Output of requests.
    pub(crate) to: usize,
    lost: Evicted<P>,
    bucket: Bucket,
    ids: ResolverIds,
    recent: Recent<D::Address>,
}

/// Neighbours used lately, by the last bits of their addresses: a lookup is a load and two comparisons.
#[derive(Debug)]
struct Recent<A> {
    /// The changes of the table up to which the entries are right.
    seen: u64,
    /// Address, MAC address, and until when it may be used without a request.
    places: Box<[Option<(A, MacAddr, Duration)>; RECENT]>,
}

/// Number of neighbours used lately: a power of two.
const RECENT: usize = 64;

impl<A: Family> Recent<A> {
    fn new() -> Self {
        Self { seen: u64::MAX, places: Box::new([None; RECENT]) }
    }

    /// The place of an address.
    #[inline(always)]
    fn place(address: A) -> usize {
        address.octet(size_of::<A>() - 1) % RECENT
    }

    /// Forgets all if the table has changed.
    #[inline(always)]
    fn follow(&mut self, changes: u64) {
        if self.seen != changes {
            self.seen = changes;
            self.places.fill(None);
        }
    }

    #[inline(always)]
    fn get(&self, address: A, now: Duration) -> Option<MacAddr> {
        match &self.places[Self::place(address)] {
            Some((there, mac, until)) if *there == address && *until > now => Some(*mac),
            _ => None,
        }
    }
}

/// Token of the timer that sends packets that found no room in their turn. No host has this token: serial numbers start
/// above it.
const RELEASE: u64 = 0;

fn refuse(value: &str) -> HandlerError {
    HandlerError::Value(format!("no host: {value:?}"))
}

impl<P: PacketBuf, D: Discovery> Resolver<P, D> {
    /// Sends a packet to a known MAC address.
    fn send(&mut self, slot: Slot, to: MacAddr, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (packet, meta) = frame.both_mut(&slot);
        if encapsulate(packet, meta, &header(to, self.link.mac(), D::ETHERTYPE)) {
            out.push(0, slot);
        } else {
            self.drop(slot, self.ids.no_room, out);
        }
    }

    fn drop(&mut self, slot: Slot, reason: DropId, out: &mut Out<'_>) {
        self.dropped += 1;
        out.drop(slot, reason);
    }

    /// Drops a packet that waited, through a slot if one is free, so that captures see it.
    fn drop_waiting(
        &mut self,
        (packet, meta): (P, Meta),
        reason: DropId,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if let Ok(slot) = frame.put(packet) {
            *frame.meta_mut(&slot) = meta;
            self.drop(slot, reason, out);
        } else {
            self.dropped += 1;
            out.count_drops(reason, 1);
        }
    }

    /// Sends a request, possibly caused by a packet.
    fn ask(&mut self, ip: D::Address, because: Option<&Slot>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.bucket.take(out.now()) {
            return out.count(self.ids.not_sent, 1);
        }
        let question = self.link.question(ip);
        let made = frame.alloc().and_then(|mut packet| packet.append(&question).ok().map(|()| packet));
        let slot = made.and_then(|packet| match because {
            Some(of) => frame.put_because(packet, of).ok(),
            None => frame.put(packet).ok(),
        });
        match slot {
            Some(slot) => {
                out.count(self.ids.queries, 1);
                out.push(self.to, slot);
            }
            None => out.count(self.ids.not_sent, 1),
        }
    }

    /// Sets the timer that repeats a request. Without a timer, the host is forgotten and its packets are dropped.
    fn repeat(&mut self, ip: D::Address, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(token) = self.neighbours.token(ip) else { return };
        let timer = out.wake_in(self.config.retry, token);
        self.neighbours.set_timer(ip, timer);
        if timer.is_none() {
            out.count(self.ids.not_sent, 1);
            self.give_up(ip, frame, out);
        }
    }

    fn give_up(&mut self, ip: D::Address, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for waiting in self.neighbours.remove(ip) {
            self.drop_waiting(waiting, self.ids.no_answer, frame, out);
        }
    }

    /// Sends, holds or drops a packet. Returns the MAC address if it is known and needs no request.
    fn ip(&mut self, slot: Slot, ip: D::Address, frame: &mut Frame<P>, out: &mut Out<'_>) -> Option<MacAddr> {
        match self.link.way(ip) {
            LinkWay::Neighbour => {}
            LinkWay::Mac(mac) => {
                self.send(slot, mac, frame, out);
                return None;
            }
            LinkWay::None => {
                self.drop(slot, self.ids.no_destination, out);
                return None;
            }
        }
        match self.neighbours.way(ip, out.now(), &self.config, &mut self.lost) {
            Resolution::Known { mac, asks } => {
                if asks {
                    self.ask(ip, Some(&slot), frame, out);
                }
                self.send(slot, mac, frame, out);
                return (!asks).then_some(mac);
            }
            Resolution::Full => self.drop(slot, self.ids.table_full, out),
            Resolution::Wait { is_new } => {
                if is_new {
                    self.ask(ip, Some(&slot), frame, out);
                }
                let meta = *frame.meta(&slot);
                let packet = frame.take(slot);
                if let Some(oldest) = self.neighbours.wait(ip, packet, meta, &self.config) {
                    self.drop_waiting(oldest, self.ids.queue_full, frame, out);
                }
                if is_new {
                    self.repeat(ip, frame, out);
                }
            }
        }
        self.forget_evicted(frame, out);
        None
    }

    /// Asks for a packet's next hop, unless its MAC address is known and not old.
    fn want(&mut self, slot: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let ip = frame.column(self.dst)[&slot].address();
        out.count(self.ids.wanted, 1);
        drop(frame.take(slot));
        if self.link.way(ip) != LinkWay::Neighbour {
            return;
        }
        match self.neighbours.way(ip, out.now(), &self.config, &mut self.lost) {
            Resolution::Known { asks: true, .. } => self.ask(ip, None, frame, out),
            Resolution::Wait { is_new: true } => {
                self.ask(ip, None, frame, out);
                self.repeat(ip, frame, out);
            }
            Resolution::Known { .. } | Resolution::Wait { .. } | Resolution::Full => {}
        }
        self.forget_evicted(frame, out);
    }

    /// Ends what remains of evicted neighbours.
    fn forget_evicted(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if let Some(timer) = self.lost.timer.take() {
            out.cancel(timer);
        }
        while let Some(waiting) = self.lost.waiting.pop_front() {
            self.drop_waiting(waiting, self.ids.evicted, frame, out);
        }
    }

    /// Sends packets. Most go to neighbours used lately.
    fn all(&mut self, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (now, own) = (out.now(), self.link.mac());
        self.recent.follow(self.neighbours.change());
        for slot in batch.drain() {
            let ip = frame.column(self.dst)[&slot].address();
            let Some(mac) = self.recent.get(ip, now) else {
                self.unknown(slot, ip, frame, out);
                continue;
            };
            let (packet, meta) = frame.both_mut(&slot);
            if encapsulate(packet, meta, &header(mac, own, D::ETHERTYPE)) {
                out.push(0, slot);
            } else {
                self.drop(slot, self.ids.no_room, out);
            }
        }
    }

    /// Sends, holds or drops a packet whose neighbour was not used lately.
    #[inline(never)]
    fn unknown(&mut self, slot: Slot, ip: D::Address, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mac = self.ip(slot, ip, frame, out);
        self.recent.follow(self.neighbours.change());
        if let Some((mac, until)) = mac.zip(self.neighbours.usable_until(ip, &self.config)) {
            self.recent.places[Recent::place(ip)] = Some((ip, mac, until));
        }
    }

    /// Processes the announcement of a neighbour's MAC address in a packet that ends here.
    fn hear(
        &mut self,
        slot: Slot,
        heard: Option<Heard<D::Address>>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let Some(heard) = heard else { return self.drop(slot, self.ids.bad_reply, out) };
        out.count(self.ids.responses, 1);
        drop(frame.take(slot));
        let differs = |mac: MacAddr| !heard.replaces && mac != heard.mac;
        let is_doubtful = self.neighbours.mac(heard.address).is_some_and(differs);
        if is_doubtful || !self.neighbours.is_asked(heard.address) {
            out.count(self.ids.unasked, 1);
        } else if let Some(timer) = self.neighbours.learn(heard.address, heard.mac, out.now()) {
            out.cancel(timer);
        }
    }

    /// Sends packets whose neighbour is resolved, as many as the frame has room for; a timer sends the rest.
    fn release(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for _ in 0..out.intake(frame.used()) {
            let Some((packet, meta, mac)) = self.neighbours.next_ready() else { return };
            if let Ok(slot) = frame.put(packet) {
                *frame.meta_mut(&slot) = meta;
                out.count(self.ids.sent, 1);
                self.send(slot, mac, frame, out);
            } else {
                self.dropped += 1;
                out.count_drops(self.ids.queue_full, 1);
            }
        }
        if self.neighbours.has_ready() && !self.neighbours.is_release_set {
            // Without a timer the next packet or answer sends them.
            self.neighbours.is_release_set = out.wake_in(Duration::ZERO, RELEASE).is_some();
        }
    }

    /// Creates the state, unless the limits are invalid. At most `query_rate` requests per second are sent.
    pub(crate) fn new(link: D, config: ArpConfig, query_rate: u32, ids: ResolverIds) -> Result<Self, String> {
        if config.entries == 0 || config.tries == 0 || config.retry.is_zero() {
            return Err("ENTRY_CAPACITY, TRIES and RETRY must be above 0".to_owned());
        }
        Ok(Self {
            link,
            config,
            neighbours: ArpTable::default(),
            dst: Handle::default(),
            dropped: 0,
            to: 0,
            lost: Evicted::default(),
            bucket: Bucket::new(query_rate.into(), u64::from(query_rate) / 10),
            ids,
            recent: Recent::new(),
        })
    }

    /// Waiting packets, hosts and dropped packets, as text.
    pub(crate) fn stats(&self) -> String {
        let (hosts, waiting) = (self.neighbours.len(), self.neighbours.waiting());
        format!("{waiting} packets wait for some of {hosts} hosts\n{} packets dropped\n", self.dropped)
    }

    /// Sets a host's MAC address permanently: `IP ETH`.
    pub(crate) fn insert(&mut self, text: &str) -> Result<(), HandlerError> {
        let (ip, mac) = text.trim().split_once(char::is_whitespace).ok_or_else(|| refuse(text))?;
        let (ip, mac) = (value(ip).ok_or_else(|| refuse(text))?, Mac::read(mac).ok_or_else(|| refuse(text))?);
        if self.neighbours.insert(ip, mac.0, &self.config) {
            Ok(())
        } else {
            Err(HandlerError::Value("the table is full".to_owned()))
        }
    }

    /// Forgets a host's MAC address.
    pub(crate) fn delete(&mut self, text: &str) -> Result<(), HandlerError> {
        self.neighbours.forget(value(text).ok_or_else(|| refuse(text))?);
        Ok(())
    }

    /// Processes packets to send (input 0), announcements (1), or packets that want a MAC address (2).
    pub(crate) fn push(
        &mut self,
        input: usize,
        batch: &mut SlotList,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if input == 0 {
            self.all(batch, frame, out);
        } else if input == 2 {
            batch.drain().for_each(|slot| self.want(slot, frame, out));
        } else {
            batch.drain().for_each(|slot| {
                let heard = D::heard(frame.packet(&slot).data());
                self.hear(slot, heard, frame, out);
            });
        }
        self.release(frame, out);
        out.set(self.ids.length_now, self.neighbours.waiting() as u64);
    }

    /// Handles an expired timer.
    pub(crate) fn timer(&mut self, token: u64, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if token == RELEASE {
            self.neighbours.is_release_set = false;
        } else {
            match self.neighbours.due(token, out.now(), &self.config) {
                Some((ip, RetryAction::Ask)) => {
                    self.ask(ip, None, frame, out);
                    self.repeat(ip, frame, out);
                }
                Some((ip, RetryAction::GiveUp)) => self.give_up(ip, frame, out),
                None => {}
            }
        }
        self.release(frame, out);
        out.set(self.ids.length_now, self.neighbours.waiting() as u64);
    }
}
