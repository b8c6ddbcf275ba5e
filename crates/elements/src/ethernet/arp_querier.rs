//! `ARPQuerier`.

use super::ether_encap::encapsulate;
use crate::shared_names::drops;

use crate::arp_messages::{answer, group, question};
use crate::arp_table::{ArpConfig, ArpTable, Evicted, Resolution, RetryAction};
use crate::columns::DstIp;
use crate::values::{Interface, Ip, Mac, broadcast, value};
use scalebricks_graph::args::Param;
use scalebricks_graph::element::{BindError, HandlerError};
use scalebricks_graph::{
    Binder, Class, Control, DropId, Element, Frame, Handle, HandlerId, Meta, Out, Slot, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::Bucket;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{ETHERTYPE_IPV4, header};
use std::net::Ipv4Addr;
use std::time::Duration;

element! {
    /// Adds Ethernet headers to IPv4 packets, with the MAC addresses of their next hops, which it resolves by ARP (RFC
    /// 826). Packets wait during resolution. A request is repeated every second, three times in total; then the packets
    /// are dropped. Only answers from hosts that were asked count, so unsolicited messages cannot fill the table.
    /// Packets to 255.255.255.255 and to the network's broadcast address are broadcast; packets to groups are sent as
    /// in RFC 1112 §6.4.
    pub struct ARPQuerier<P> as "ARPQuerier" {
        own: OwnAddress, broadcast: Option<Ipv4Addr>, config: ArpConfig, neighbours: ArpTable<P>, dst: Handle<DstIp>,
        lost: Evicted<P>, dropped: u64, bucket: Bucket,
        // Output of requests.
        to: usize,
    }
    inputs {
        push "ip": "IPv4 packets.",
        push "arp" [Optional]: "ARP replies, with their Ethernet headers. They end here.",
    }
    outputs { push "out": "Ethernet frames.", push "queries" [Optional]: "ARP requests; if unconnected, they leave by output 0.", }
    fresh { "out", "queries", }
    params ARPQuerierParams {
        /// The router's address on this network. Its prefix, if given, determines the broadcast address.
        ip: Interface,
        /// The router's MAC address on this network.
        eth: Mac,
        /// The network's broadcast address.
        broadcast: Option<Ip> = None,
        /// Most waiting packets in total.
        capacity: usize = 2_048,
        /// Most waiting packets per host; beyond it the oldest is dropped.
        entry_packet_capacity: usize = 64,
        /// Most hosts in the table. A new host replaces one that has not answered.
        entry_capacity: usize = 4_096,
        /// How long an answer is valid; forever if 0.
        timeout: Duration = Duration::from_secs(300),
        /// A packet to a host whose answer is older than this triggers another request; never if 0.
        poll_timeout: Duration = Duration::from_secs(60),
        /// Time between two requests for a host.
        retry: Duration = Duration::from_secs(1),
        /// Requests for a host before its packets are dropped.
        tries: u32 = 3,
        /// Most requests per second for all hosts; a tenth of them may be sent at once. So packets to many addresses
        /// cause no broadcast storm.
        query_rate: u32 = 1_000,
    }
    example { "10.0.0.1/24", "2:0:0:0:0:1", "CAPACITY 9", "ENTRY_PACKET_CAPACITY 3", "ENTRY_CAPACITY 4", }
    reads { DstIp on "ip", }
    drops {
        NO_DESTINATION = "no_destination": "The packet's next hop is 0.0.0.0.",
        NO_ANSWER = "no_answer": "The host did not answer.",
        QUEUE_FULL = drops::QUEUE_FULL,
        TABLE_FULL = "table_full": "The table is full.",
        EVICTED = "evicted": "The host that it waited for was replaced by another.",
        NO_ROOM = drops::NO_HEADROOM,
        BAD_REPLY = "no_reply": "The packet at input 1 is not an ARP reply over Ethernet from a single host.",
    }
    counters {
        QUERIES = "queries" [Made]: "Questions sent.",
        NOT_SENT = "queries_not_sent": "Requests not sent: over the rate, or no buffer, slot or timer was free.",
        RESPONSES = "responses" [Ended]: "Answers received.",
        UNASKED = "unasked": "Answers from hosts that were not asked, or whose MAC address was set.",
        SENT = "sent": "Packets sent after waiting.",
        LENGTH_NOW = "length_now": "Waiting packets (a level).",
    }
    handlers {
        read TABLE = "table": "Hosts, their MAC addresses or ?, and the number of packets waiting for each, one per line.",
        read COUNT = "count": "Hosts resolved or pending.",
        read LENGTH = "length": "Waiting packets.",
        read DROPS = "drops": "Packets dropped so far.",
        read STATS = "stats": "Waiting packets, hosts and dropped packets, as text.",
        write CLEAR = "clear": "Forgets all MAC addresses except those to which waiting packets are being sent.",
        write INSERT = "insert": "Sets a host's MAC address permanently: `IP ETH`.",
        write DELETE = "delete": "Forgets a host's MAC address: `IP`.",
    }
    binds { dst, }
    keeps { neighbours, dropped, }
}

#[derive(Debug, Clone, Copy)]
struct OwnAddress {
    ip: Ipv4Addr,
    mac: MacAddr,
}

/// Token of the timer that sends packets that found no room in their turn. No host has this token: serial numbers start
/// above it.
const RELEASE: u64 = 0;

impl<P: PacketBuf> Class for ARPQuerier<P> {
    fn make(params: ARPQuerierParams) -> Result<Self, String> {
        let prefix = params.ip.prefix;
        if params.entry_capacity == 0 || params.tries == 0 || params.retry.is_zero() {
            return Err("ENTRY_CAPACITY, TRIES and RETRY must be above 0".to_owned());
        }
        Ok(Self {
            own: OwnAddress { ip: params.ip.address, mac: params.eth.0 },
            broadcast: params.broadcast.map(|ip| ip.0).or_else(|| prefix.and_then(broadcast)),
            config: ArpConfig {
                entries: params.entry_capacity,
                waiting: params.capacity,
                waiting_each: params.entry_packet_capacity,
                timeout: params.timeout,
                poll_after: params.poll_timeout,
                retry: params.retry,
                tries: params.tries,
            },
            neighbours: ArpTable::default(),
            dst: Handle::default(),
            lost: Evicted::default(),
            bucket: Bucket::new(params.query_rate.into(), u64::from(params.query_rate) / 10),
            dropped: 0,
            to: 0,
        })
    }
}

fn refuse(value: &str) -> HandlerError {
    HandlerError::Value(format!("no host: {value:?}"))
}

impl<P: PacketBuf + 'static> Control for ARPQuerier<P> {
    fn bind(&mut self, binder: &Binder<'_>) -> Result<(), BindError> {
        self.to = usize::from(binder.outputs() > 1);
        Ok(())
    }

    fn read(&self, handler: HandlerId) -> String {
        let (hosts, waiting) = (self.neighbours.len(), self.neighbours.waiting());
        match handler {
            Self::TABLE => self.neighbours.table(),
            Self::COUNT => hosts.to_string(),
            Self::LENGTH => waiting.to_string(),
            Self::DROPS => self.dropped.to_string(),
            _ => format!(
                "{waiting} packets wait for some of {hosts} hosts\n{} packets dropped\n",
                self.dropped
            ),
        }
    }

    fn write(&mut self, handler: HandlerId, text: &str) -> Result<(), HandlerError> {
        match handler {
            Self::CLEAR => self.neighbours.forget_all(),
            Self::INSERT => {
                let (ip, mac) = text.trim().split_once(char::is_whitespace).ok_or_else(|| refuse(text))?;
                let (ip, mac) =
                    (value(ip).ok_or_else(|| refuse(text))?, Mac::read(mac).ok_or_else(|| refuse(text))?);
                if !self.neighbours.insert(ip, mac.0, &self.config) {
                    return Err(HandlerError::Value("the table is full".to_owned()));
                }
            }
            _ => self.neighbours.forget(value(text).ok_or_else(|| refuse(text))?),
        }
        Ok(())
    }
}

impl<P: PacketBuf> ARPQuerier<P> {
    /// Sends an IPv4 packet to a known MAC address.
    fn send(&mut self, slot: Slot, to: MacAddr, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (packet, meta) = frame.both_mut(&slot);
        if encapsulate(packet, meta, &header(to, self.own.mac, ETHERTYPE_IPV4)) {
            out.push(0, slot);
        } else {
            self.drop(slot, Self::NO_ROOM, out);
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
    fn ask(&mut self, ip: Ipv4Addr, because: Option<&Slot>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if !self.bucket.take(out.now()) {
            return out.count(Self::NOT_SENT, 1);
        }
        let question = question(self.own.mac, self.own.ip, ip);
        let made = frame.alloc().and_then(|mut packet| packet.append(&question).ok().map(|()| packet));
        let slot = made.and_then(|packet| match because {
            Some(of) => frame.put_because(packet, of).ok(),
            None => frame.put(packet).ok(),
        });
        match slot {
            Some(slot) => {
                out.count(Self::QUERIES, 1);
                out.push(self.to, slot);
            }
            None => out.count(Self::NOT_SENT, 1),
        }
    }

    /// Sets the timer that repeats a request. Without a timer, the host is forgotten and its packets are dropped.
    fn repeat(&mut self, ip: Ipv4Addr, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(token) = self.neighbours.token(ip) else { return };
        let timer = out.wake_in(self.config.retry, token);
        self.neighbours.set_timer(ip, timer);
        if timer.is_none() {
            out.count(Self::NOT_SENT, 1);
            self.give_up(ip, frame, out);
        }
    }

    fn give_up(&mut self, ip: Ipv4Addr, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for waiting in self.neighbours.remove(ip) {
            self.drop_waiting(waiting, Self::NO_ANSWER, frame, out);
        }
    }

    /// Sends, holds or drops a packet. Returns the MAC address if it is known and needs no request.
    fn ip(&mut self, slot: Slot, ip: Ipv4Addr, frame: &mut Frame<P>, out: &mut Out<'_>) -> Option<MacAddr> {
        if ip.is_broadcast() || self.broadcast == Some(ip) {
            self.send(slot, MacAddr::BROADCAST, frame, out);
            return None;
        }
        if ip.is_multicast() {
            self.send(slot, group(ip), frame, out);
            return None;
        }
        if ip.is_unspecified() {
            self.drop(slot, Self::NO_DESTINATION, out);
            return None;
        }
        match self.neighbours.way(ip, out.now(), &self.config, &mut self.lost) {
            Resolution::Known { mac, asks } => {
                if asks {
                    self.ask(ip, Some(&slot), frame, out);
                }
                self.send(slot, mac, frame, out);
                return (!asks).then_some(mac);
            }
            Resolution::Full => self.drop(slot, Self::TABLE_FULL, out),
            Resolution::Wait { is_new } => {
                if is_new {
                    self.ask(ip, Some(&slot), frame, out);
                }
                let meta = *frame.meta(&slot);
                let packet = frame.take(slot);
                if let Some(oldest) = self.neighbours.wait(ip, packet, meta, &self.config) {
                    self.drop_waiting(oldest, Self::QUEUE_FULL, frame, out);
                }
                if is_new {
                    self.repeat(ip, frame, out);
                }
            }
        }
        if let Some(timer) = self.lost.timer.take() {
            out.cancel(timer);
        }
        while let Some(waiting) = self.lost.waiting.pop_front() {
            self.drop_waiting(waiting, Self::EVICTED, frame, out);
        }
        None
    }

    /// Sends packets. Those of a batch often go to one neighbour, which is looked up once.
    fn all(&mut self, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut known = None;
        for slot in batch.drain() {
            let DstIp(ip) = frame.column(self.dst)[&slot];
            match known {
                Some((last, mac)) if last == ip => self.send(slot, mac, frame, out),
                _ => known = self.ip(slot, ip, frame, out).map(|mac| (ip, mac)),
            }
        }
    }

    fn arp(&mut self, slot: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(answer) = answer(frame.packet(&slot).data()) else {
            return self.drop(slot, Self::BAD_REPLY, out);
        };
        out.count(Self::RESPONSES, 1);
        drop(frame.take(slot));
        if !self.neighbours.is_asked(answer.sender_ip) {
            out.count(Self::UNASKED, 1);
        } else if let Some(timer) = self.neighbours.learn(answer.sender_ip, answer.sender_mac, out.now()) {
            out.cancel(timer);
        }
    }

    /// Sends packets whose neighbour is resolved, as many as the frame has room for; a timer sends the rest.
    fn release(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for _ in 0..out.intake(frame.used()) {
            let Some((packet, meta, mac)) = self.neighbours.next_ready() else { return };
            if let Ok(slot) = frame.put(packet) {
                *frame.meta_mut(&slot) = meta;
                out.count(Self::SENT, 1);
                self.send(slot, mac, frame, out);
            } else {
                self.dropped += 1;
                out.count_drops(Self::QUEUE_FULL, 1);
            }
        }
        if self.neighbours.has_ready() && !self.neighbours.is_release_set {
            // Without a timer the next packet or answer sends them.
            self.neighbours.is_release_set = out.wake_in(Duration::ZERO, RELEASE).is_some();
        }
    }
}

impl<P: PacketBuf + 'static> Element<P> for ARPQuerier<P> {
    fn push(&mut self, input: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if input == 0 {
            self.all(batch, frame, out);
        } else {
            batch.drain().for_each(|slot| self.arp(slot, frame, out));
        }
        self.release(frame, out);
        out.set(Self::LENGTH_NOW, self.neighbours.waiting() as u64);
    }

    fn timer(&mut self, token: u64, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if token == RELEASE {
            self.neighbours.is_release_set = false;
        } else {
            match self.neighbours.due(token, out.now(), &self.config) {
                (ip, RetryAction::Ask) => {
                    self.ask(ip, None, frame, out);
                    self.repeat(ip, frame, out);
                }
                (ip, RetryAction::GiveUp) => self.give_up(ip, frame, out),
                (_, RetryAction::Nothing) => {}
            }
        }
        self.release(frame, out);
        out.set(Self::LENGTH_NOW, self.neighbours.waiting() as u64);
    }

    fn held(&self) -> usize {
        self.neighbours.waiting()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.neighbours.drain().for_each(|(packet, meta)| to(packet, meta));
    }
}

#[cfg(test)]
#[path = "arp_querier_tests.rs"]
mod tests;
