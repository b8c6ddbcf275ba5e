//! The slow path of a node on real links: a state machine without I/O. Its inputs are frames that are not for the fast
//! path, and the time. Its outputs are frames to send, and a snapshot of next hops for the fast path.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | links, routes, limits |
//! | `neighbour`, `neighbours` | resolves and revalidates the stations on the links |
//! | `monitor` | detects links whose next hops stop answering |
//! | `arp`, `nd` | ARP and neighbour-discovery messages |
//! | `claims` | which addresses the node answers for: its own, and those taken over from failed nodes |
//! | `answers` | ICMP echo and GTP-U path management for the node's own addresses |
//! | `unknown_flow` | errors about unknown tunnels and users |
//! | `layout`, [`crate::gateway::outside::adjacency`] | networks, routes and the snapshot |
//! | `peer_buckets`, `outbox`, `stats` | limits and counters |
//!
//! No input makes it panic or grow without bound, and it reveals no more than was asked for. Left out on purpose:
//! duplicate address detection (RFC 4862 §5.4; an address that another station uses counts as `address_conflicts`),
//! router advertisements and redirects (the gateway is configured), proxy ARP, and reassembly. It does not report group
//! memberships either (RFC 3810): a snooping switch must flood the solicited-node groups.

mod answers;
mod arp;
mod claims;
pub mod config;
mod layout;
mod link;
mod monitor;
mod nd;
mod neighbour;
mod neighbours;
mod outbox;
mod peer_buckets;
mod stats;
mod unknown_flow;

pub use claims::{AdoptedAddress, Claims};
pub use config::{Interface, LocalConfig, LocalConfigError, LocalLimits, Rate, Route};
pub use monitor::LinkSilence;
pub use neighbour::{Neighbour, NeighbourState};
pub use outbox::{FrameKind, HoldOutcome, Outbox};
pub use stats::LocalStats;

use crate::gateway::fabric::lease::Lease;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::adjacency::{Adjacencies, NextHop};
use crate::gateway::reason::DropReason;
use claims::ClaimState;
use layout::Layout;
use link::OutsideLink;
use neighbours::{HoldDecision, Key, NeighbourQuery, Neighbours, SendOutcome, Waiting};
use peer_buckets::PeerBuckets;
use scalebricks_types::Bucket;
use scalebricks_wire::ethernet::{self, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use scalebricks_wire::{MacAddr, parse_frame};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// Least time between two snapshots, since each walks all neighbours. Frames for neighbours resolved in the meantime
/// reach [`LocalStack::hold`], which already knows the address.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(10);

/// Whether the slow path consumed a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Consumed {
    /// It did: the frame was answered or counted.
    Yes,
    /// It did not; the caller drops the frame for its original reason.
    No,
}

/// Memory currently in use that other stations can influence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Neighbours besides base stations and next hops; at most [`LocalLimits::neighbours`].
    pub learnt: usize,
    /// Frames held; at most [`LocalLimits::held_frames`].
    pub held_frames: usize,
    /// Their octets; at most [`LocalLimits::held_bytes`].
    pub held_bytes: usize,
}

/// The slow path of one node. `now` is the time since a fixed moment, the same for all calls.
#[derive(Debug)]
pub struct LocalStack {
    links: [OutsideLink; 2],
    gateway: Ipv4Addr,
    gateway_v6: Ipv6Addr,
    layout: Layout,
    neighbours: Neighbours,
    adjacencies: Arc<Adjacencies>,
    generation: u64,
    next_snapshot: Duration,
    claimed: ClaimState,
    lease: Arc<Lease>,
    now: Duration,
    limiters: Limiters,
    stats: LocalStats,
}

/// Rate limits of the answers, by kind.
#[derive(Debug)]
struct Limiters {
    neighbour_answers: Bucket,
    echo_replies: Bucket,
    gtpu_answers: Bucket,
    error_indications: ErrorLimit,
    unreachables: ErrorLimit,
}

/// Rate limits of errors, in total and per peer.
#[derive(Debug)]
struct ErrorLimit {
    all: Bucket,
    peers: PeerBuckets,
}

impl Limiters {
    fn new(limits: &LocalLimits) -> Self {
        let error = |all: Rate, peer| ErrorLimit { all: all.bucket(), peers: PeerBuckets::new(peer) };
        Self {
            neighbour_answers: limits.neighbour_answers.bucket(),
            echo_replies: limits.echo_replies.bucket(),
            gtpu_answers: limits.gtpu_answers.bucket(),
            error_indications: error(limits.error_indications, limits.error_indications_a_peer),
            unreachables: error(limits.unreachables, limits.unreachables_a_peer),
        }
    }
}

impl LocalStack {
    /// An idle slow path. The first [`LocalStack::poll`] announces its addresses and asks for its neighbours.
    pub fn new(config: LocalConfig, now: Duration) -> Self {
        let links = [
            OutsideLink::new(OutputPort::Internet, config.internet),
            OutsideLink::new(OutputPort::BaseStation, config.base_station),
        ];
        let layout = Layout::new(&config.routes, &config.base_stations, &links);
        let limits = config.limits;
        let mut neighbours = Neighbours::new(limits);
        neighbours.pin(&layout.wanted(), now);
        let mut made = Self {
            adjacencies: Arc::new(layout.snapshot(&neighbours)),
            links,
            gateway: config.gateway,
            gateway_v6: config.gateway_v6,
            layout,
            neighbours,
            generation: 0,
            next_snapshot: now,
            claimed: ClaimState::nothing(),
            lease: Arc::new(Lease::unlimited()),
            now,
            limiters: Limiters::new(&limits),
            stats: LocalStats::default(),
        };
        made.claim(&Claims::default(), now);
        made.next_snapshot = now; // no snapshot was read yet
        made
    }

    /// Uses this lease from now on. Without the right to claim addresses, the node neither answers for its addresses
    /// nor announces them. Without the right to forward, it sends no IP packet: neither held ones nor answers to echo
    /// requests and GTP-U signalling, which would make peers believe that the path works.
    pub fn set_lease(&mut self, lease: Arc<Lease>) {
        self.lease = lease;
    }

    /// The newest snapshot of next hops.
    pub fn adjacencies(&self) -> Arc<Adjacencies> {
        Arc::clone(&self.adjacencies)
    }

    /// A number that changes with every snapshot. New information about a link is in the snapshot at once, or within 10
    /// ms by [`LocalStack::next_deadline`].
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Processes a frame from a link that is not for the fast path: ARP, neighbour discovery, ICMP echo to local
    /// addresses, GTP-U path management.
    ///
    /// ARP and neighbour discovery concern the link itself, so they are accepted untagged or priority-tagged only. IP
    /// packets may have up to two VLAN tags, as on the fast path; answers are untagged.
    pub fn receive(&mut self, port: OutputPort, frame: &[u8], now: Duration, out: &mut Outbox) -> Consumed {
        self.now = now;
        let Ok(header) = parse_frame(frame) else { return Consumed::No };
        let payload = frame.get(header.l3_offset..).unwrap_or_default();
        let own = self.link(port).mac;
        if header.dst != own && !header.dst.is_multicast() {
            return Consumed::No;
        }
        if header.src.is_multicast() || header.src == own {
            self.stats.dropped_bad_source += 1;
            return Consumed::Yes;
        }
        let is_tagged = header.vlan.unwrap_or(0) != 0 || header.inner_vlan.is_some();
        let taken = match header.ethertype {
            ETHERTYPE_ARP if !is_tagged => self.receive_arp(port, &header, payload, out),
            ETHERTYPE_IPV6 if !is_tagged => match self.receive_nd(port, &header, payload, out) {
                Consumed::Yes => Consumed::Yes,
                Consumed::No => self.receive_ip(port, &header, payload, out),
            },
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => self.receive_ip(port, &header, payload, out),
            _ => Consumed::No,
        };
        self.publish();
        taken
    }

    /// Takes a complete frame whose next hop is not resolved; its destination MAC address is still missing. Holds the
    /// frame, asks for the neighbour, and sends the frame once it answers. If it does not, the frame is
    /// [lost](Outbox::drain_lost).
    pub fn hold(
        &mut self,
        port: OutputPort,
        next_hop: IpAddr,
        frame: &[u8],
        kind: FrameKind,
        now: Duration,
        out: &mut Outbox,
    ) -> HoldOutcome {
        self.now = now;
        let held = self.send_to(port, next_hop, frame, kind, out);
        self.publish();
        held
    }

    /// Performs what is due: announces local addresses, asks for neighbours, gives up on silent ones, makes a new
    /// snapshot.
    pub fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.now = now;
        self.announce(out);
        // First, since neighbours that do not answer these are asked again next.
        if !out.is_full() {
            for question in self.neighbours.checks(now, &mut self.stats) {
                self.ask(question, out);
            }
        }
        while !out.is_full()
            && let Some(question) = self.neighbours.next_question(now, &mut self.stats)
        {
            self.ask(question, out);
        }
        self.neighbours.tell_lost(out);
        self.publish();
    }

    /// Reports when all next hops of an outside link are silent. A link whose next hops never answered does not count
    /// as silent.
    pub const fn silence(&self, port: OutputPort) -> Option<&LinkSilence> {
        self.neighbours.silence(port)
    }

    /// When [`LocalStack::poll`] has work; in the past if it has work now.
    pub fn next_deadline(&self) -> Duration {
        let announcement = self.claimed.next_deadline();
        let snapshot = if self.neighbours.is_changed { self.next_snapshot } else { Duration::MAX };
        self.neighbours.next_deadline().min(announcement).min(snapshot)
    }

    /// All neighbours, ordered by link and address.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> {
        self.neighbours.iter().filter_map(|(&(link, address), entry)| {
            Some(Neighbour {
                port: self.links.get(usize::from(link))?.port,
                address,
                mac: entry.mac,
                state: entry.state,
                age: self.now.saturating_sub(entry.since),
                is_pinned: entry.is_pinned,
            })
        })
    }

    /// The counters.
    pub const fn stats(&self) -> LocalStats {
        self.stats
    }

    /// The memory in use that other stations can influence.
    pub const fn occupancy(&self) -> Occupancy {
        self.neighbours.occupancy()
    }

    fn link(&self, port: OutputPort) -> &OutsideLink {
        &self.links[port as usize]
    }

    /// Routes and sends an IP packet made by the node. Returns `false`, and counts it, if it cannot be sent.
    fn send_ip(&mut self, port: OutputPort, dst: IpAddr, packet: &[u8], out: &mut Outbox) -> bool {
        let link = self.link(port);
        if packet.len() > link.mtu {
            self.stats.dropped_answer_too_big += 1;
            return false;
        }
        let next_hop = self.adjacencies.next_hop(port, dst, 0);
        let ethertype = if dst.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let frame = [&ethernet::header(next_hop.mac(), link.mac, ethertype), packet].concat();
        match next_hop {
            NextHop::Via(_) => self.push(port, frame, out),
            NextHop::Ask(neighbour) => {
                self.send_to(port, neighbour, &frame, FrameKind::Other, out) == HoldOutcome::Accepted
            }
            NextHop::NoRoute => {
                self.stats.dropped_no_route += 1;
                false
            }
        }
    }

    /// Sends a frame to a neighbour, or holds it.
    fn send_to(
        &mut self,
        port: OutputPort,
        neighbour: IpAddr,
        frame: &[u8],
        kind: FrameKind,
        out: &mut Outbox,
    ) -> HoldOutcome {
        if frame.len() < ethernet::HEADER_LEN {
            self.stats.dropped_malformed += 1;
            return HoldOutcome::Dropped(DropReason::Truncated);
        }
        let (link, key) = (self.link(port), (port as u8, neighbour));
        let is_on_link = link.source(neighbour).is_some();
        let is_own = self.claimed.holds(port, neighbour);
        if !is_on_link || is_own || !config::is_host(neighbour) || !self.layout.may_be_neighbour(key) {
            self.stats.dropped_no_route += 1;
            return HoldOutcome::Dropped(DropReason::NoRoute);
        }
        let HoldDecision { fate, asks } = self.neighbours.hold(key, frame, kind, self.now, &mut self.stats);
        if asks {
            self.ask(NeighbourQuery { key, mac: None }, out);
        }
        self.neighbours.tell_lost(out);
        match fate {
            SendOutcome::Send(mac) => {
                self.stats.sent_at_once += 1;
                self.push_to(port, mac, (frame.to_vec(), kind), out);
                HoldOutcome::Accepted
            }
            SendOutcome::Waits => HoldOutcome::Accepted,
            SendOutcome::Lost => HoldOutcome::Dropped(DropReason::Unresolved),
        }
    }

    /// Sends frames that were held for a neighbour.
    fn send_held(&mut self, key: Key, frames: VecDeque<Waiting>, out: &mut Outbox) {
        let (Some(mac), Some(link)) = (self.neighbours.mac(&key), self.links.get(usize::from(key.0))) else {
            return;
        };
        let port = link.port;
        if !self.lease.may_forward(self.now) {
            self.stats.dropped_no_lease += frames.len() as u64;
            return;
        }
        for frame in frames {
            if self.push_to(port, mac, frame, out) {
                self.stats.held_sent += 1;
            }
        }
    }

    fn push_to(&mut self, port: OutputPort, mac: MacAddr, frame: Waiting, out: &mut Outbox) -> bool {
        let (mut frame, kind) = frame;
        if out.is_full() {
            self.stats.dropped_outbox_full += 1;
            out.lose(frame, kind, DropReason::SlowPathFull);
            return false;
        }
        // Held frames have an Ethernet header.
        ethernet::set_destination(&mut frame, mac) && out.push(port, frame, kind)
    }

    /// Sends a message of the node itself.
    fn push(&mut self, port: OutputPort, frame: Vec<u8>, out: &mut Outbox) -> bool {
        let fits = out.push(port, frame, FrameKind::Other);
        self.stats.dropped_outbox_full += u64::from(!fits);
        fits
    }

    fn ask(&mut self, question: NeighbourQuery, out: &mut Outbox) {
        let (link, address) = question.key;
        let Some(port) = self.links.get(usize::from(link)).map(|link| link.port) else { return };
        match address {
            IpAddr::V4(address) => self.ask_by_arp(port, address, question.mac, out),
            IpAddr::V6(address) => self.ask_by_nd(port, address, question.mac, out),
        }
    }

    fn publish(&mut self) {
        if self.neighbours.is_changed && self.next_snapshot <= self.now {
            self.neighbours.is_changed = false;
            self.next_snapshot = self.now.saturating_add(SNAPSHOT_INTERVAL);
            let snapshot = self.layout.snapshot(&self.neighbours).with_own(self.own_addresses());
            self.adjacencies = Arc::new(snapshot);
            self.generation += 1;
        }
    }
}
