//! Which addresses the node answers for on its links: its own, and those it took over from other nodes.
//!
//! Neighbours send to the station that last announced an address. So an address moves by announcement: the new holder
//! announces it (RFC 5227 §2.3, RFC 4861 §7.2.6), at once and twice more. The old holder answers for it until it hears
//! the announcement, so that some node always answers. Meanwhile, whichever node receives a packet forwards it.

use super::LocalStack;
use super::outbox::Outbox;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::local_addrs::LocalAddresses;
use std::net::IpAddr;
use std::time::Duration;

/// Intervals between the announcements of an address.
const ANNOUNCE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Least time between two announcements of an address that another station also uses (RFC 5227 §1.1:
/// `DEFEND_INTERVAL`).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Without a lease, announcements are retried after this time.
const POSTPONED: Duration = Duration::from_millis(50);

/// The addresses that a node answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The node's life in which it claims its own addresses; a new life announces them again. `None`: another node
    /// answers for them. Then this node neither answers for them nor uses them as sender when it asks for neighbours.
    pub own: Option<u64>,
    /// Addresses of other nodes.
    pub others: Vec<AdoptedAddress>,
}

impl Default for Claims {
    /// The node's own addresses only.
    fn default() -> Self {
        Self { own: Some(0), others: Vec::new() }
    }
}

/// An address of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedAddress {
    /// The link.
    pub port: OutputPort,
    /// The address, in a network of the link.
    pub address: IpAddr,
    /// Whether another node should take it: this node releases it as soon as it hears that node.
    pub is_due_to_another: bool,
}

/// The current claims, and which of them must still be announced.
#[derive(Debug)]
pub(super) struct ClaimState {
    pub(super) own: Option<u64>,
    others: Vec<HeldAddress>,
    announcements: Vec<Announcement>,
}

/// An address of another node, held or released.
#[derive(Debug)]
struct HeldAddress {
    of: AdoptedAddress,
    is_let_go: bool,
    /// When it may be announced again in defence.
    next_defence: Duration,
}

/// An address to announce.
#[derive(Debug)]
struct Announcement {
    port: OutputPort,
    address: IpAddr,
    /// How often it was announced.
    done: usize,
    due: Duration,
}

impl ClaimState {
    /// No claims yet.
    pub(super) const fn nothing() -> Self {
        Self { own: None, others: Vec::new(), announcements: Vec::new() }
    }

    /// Whether this node took this address over from another node.
    pub(super) fn holds(&self, port: OutputPort, address: IpAddr) -> bool {
        self.others.iter().any(|held| held.is(port, address) && !held.is_let_go)
    }

    /// When the next announcement is due.
    pub(super) fn next_deadline(&self) -> Duration {
        self.announcements.iter().map(|announcement| announcement.due).min().unwrap_or(Duration::MAX)
    }

    fn announce(&mut self, port: OutputPort, address: IpAddr, now: Duration) {
        self.hush(port, address);
        self.announcements.push(Announcement { port, address, done: 0, due: now });
    }

    /// Stops announcing an address.
    fn hush(&mut self, port: OutputPort, address: IpAddr) {
        self.announcements.retain(|other| (other.port, other.address) != (port, address));
    }

    /// Postpones all announcements.
    fn postpone(&mut self, now: Duration) {
        for announcement in &mut self.announcements {
            announcement.due = announcement.due.max(now.saturating_add(POSTPONED));
        }
    }

    /// The next address to announce now; it counts as announced.
    fn next_announcement(&mut self, now: Duration) -> Option<(OutputPort, IpAddr)> {
        let at = self.announcements.iter().position(|announcement| announcement.due <= now)?;
        let announcement = &mut self.announcements[at];
        let found = (announcement.port, announcement.address);
        match ANNOUNCE_AGAIN.get(announcement.done) {
            Some(pause) => {
                announcement.done += 1;
                announcement.due = now.saturating_add(*pause);
            }
            None => {
                self.announcements.remove(at);
            }
        }
        Some(found)
    }
}

impl HeldAddress {
    fn is(&self, port: OutputPort, address: IpAddr) -> bool {
        (self.of.port, self.of.address) == (port, address)
    }
}

impl LocalStack {
    /// Answers for exactly these addresses from now on, and announces the new ones. A new slow path claims [the node's
    /// own](Claims::default).
    ///
    /// Skips adopted addresses that are the node's own, and new ones that are already due to another node.
    pub fn claim(&mut self, claims: &Claims, now: Duration) {
        self.now = now;
        if self.claimed.own != claims.own {
            self.claimed.own = claims.own;
            for port in OutputPort::ALL {
                for (address, _) in self.link(port).addresses().to_vec() {
                    match claims.own {
                        Some(_) => self.claimed.announce(port, address, now),
                        None => self.claimed.hush(port, address),
                    }
                }
            }
        }
        for held in std::mem::take(&mut self.claimed.others) {
            if claims.others.iter().any(|other| held.is(other.port, other.address)) {
                self.claimed.others.push(held);
            } else {
                self.claimed.hush(held.of.port, held.of.address);
                self.stats.addresses_let_go += u64::from(!held.is_let_go);
            }
        }
        for other in &claims.others {
            self.stand_in(*other);
        }
        self.own_changed();
    }

    fn stand_in(&mut self, other: AdoptedAddress) {
        let AdoptedAddress { port, address, is_due_to_another } = other;
        let is_own = self.link(port).is_own(address);
        let known = self.claimed.others.iter_mut().find(|held| held.is(port, address));
        let is_new = match known {
            Some(held) => {
                let is_back = held.is_let_go && !is_due_to_another;
                held.is_let_go &= is_due_to_another;
                held.of = other;
                is_back
            }
            None if is_due_to_another || is_own => return,
            None => {
                self.claimed.others.push(HeldAddress { of: other, is_let_go: false, next_defence: self.now });
                true
            }
        };
        if is_new {
            self.stats.addresses_taken_over += 1;
            self.claimed.announce(port, address, self.now);
        } else if is_due_to_another {
            self.claimed.hush(port, address);
        }
    }

    /// Another station claims an address. Returns whether this node had taken that address over. If it is due to
    /// another node, it is released; otherwise it is announced once more.
    pub(super) fn is_contested(&mut self, port: OutputPort, address: IpAddr) -> bool {
        let held = self.claimed.others.iter_mut().find(|held| held.is(port, address) && !held.is_let_go);
        let Some(held) = held else { return false };
        if held.of.is_due_to_another {
            held.is_let_go = true;
            self.stats.addresses_let_go += 1;
            self.own_changed();
            return true;
        }
        self.stats.address_conflicts += 1;
        if held.next_defence <= self.now {
            held.next_defence = self.now.saturating_add(DEFEND_INTERVAL);
            self.claimed.announce(port, address, self.now);
        }
        true
    }

    /// Whether the node answers requests for this address.
    pub(super) fn is_claimed(&self, port: OutputPort, address: IpAddr) -> bool {
        self.lease.may_claim(self.now)
            && (self.claims_own() && self.link(port).is_own(address) || self.claimed.holds(port, address))
    }

    /// Whether the node acts as the owner of its addresses.
    pub(super) fn claims_own(&self) -> bool {
        self.claimed.own.is_some() && self.lease.may_claim(self.now)
    }

    /// Announces the addresses that are due.
    pub(super) fn announce(&mut self, out: &mut Outbox) {
        if !self.lease.may_claim(self.now) {
            return self.claimed.postpone(self.now);
        }
        while !out.is_full()
            && let Some((port, address)) = self.claimed.next_announcement(self.now)
        {
            match address {
                IpAddr::V4(own) => self.announce_by_arp(port, own, out),
                IpAddr::V6(own) => self.announce_by_nd(port, own, out),
            }
        }
    }

    /// The node's addresses on the Internet link.
    pub(super) fn own_addresses(&self) -> LocalAddresses {
        let port = OutputPort::Internet;
        let own = self.link(port).addresses().iter().map(|(own, _)| *own);
        let others = self.claimed.others.iter().filter(|held| held.of.port == port && !held.is_let_go);
        LocalAddresses::new(own.chain(others.map(|held| held.of.address)).collect())
    }

    /// Makes a new snapshot, so that the fast path learns the new addresses.
    fn own_changed(&mut self) {
        self.neighbours.is_changed = true;
        self.publish();
    }
}
