//! Which addresses the node answers for on its links: its own, and those of nodes that it stands in for.
//!
//! Neighbours send to whoever said last that an address is his. So an address changes hands by what is said on the link: who
//! takes it announces it (RFC 5227 §2.3, RFC 4861 §7.2.6), at once and twice more; who had it goes on answering for it until
//! he hears that, and somebody always answers. In between, packets are forwarded by whoever gets them.

use super::LocalStack;
use super::outbox::Outbox;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::local_addrs::LocalAddresses;
use std::net::IpAddr;
use std::time::Duration;

/// Times between the announcements of an address.
const ANNOUNCE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Least time between two announcements of an address that somebody else uses against the claims (RFC 5227 §1.1:
/// `DEFEND_INTERVAL`).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Announcements of a node without a lease are looked at again after this.
const POSTPONED: Duration = Duration::from_millis(50);

/// What a node answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Its own addresses, in this of its lives: each has them announced once more. `None`: another node answers for them.
    /// Then this one neither does, nor speaks as their owner when it asks for neighbours.
    pub own: Option<u64>,
    /// Those of others.
    pub others: Vec<AdoptedAddress>,
}

impl Default for Claims {
    /// Its own, and no other.
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
    /// Whether another node is to have it: it is let go as soon as that one is heard.
    pub is_due_to_another: bool,
}

/// What is claimed now, and what of it is to be announced.
#[derive(Debug)]
pub(super) struct ClaimState {
    pub(super) own: Option<u64>,
    others: Vec<HeldAddress>,
    announcements: Vec<Announcement>,
}

/// An address of another node, held or let go.
#[derive(Debug)]
struct HeldAddress {
    of: AdoptedAddress,
    is_let_go: bool,
    /// When it may be defended again.
    next_defence: Duration,
}

/// An address that is to be announced.
#[derive(Debug)]
struct Announcement {
    port: OutputPort,
    address: IpAddr,
    /// How often it was.
    done: usize,
    due: Duration,
}

impl ClaimState {
    /// Nothing yet.
    pub(super) const fn nothing() -> Self {
        Self { own: None, others: Vec::new(), announcements: Vec::new() }
    }

    /// Whether it is an address of another node that this one stands in for.
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

    /// Announces an address no more.
    fn hush(&mut self, port: OutputPort, address: IpAddr) {
        self.announcements.retain(|other| (other.port, other.address) != (port, address));
    }

    /// Announces nothing for a while.
    fn postpone(&mut self, now: Duration) {
        for announcement in &mut self.announcements {
            announcement.due = announcement.due.max(now.saturating_add(POSTPONED));
        }
    }

    /// The next address that is to be announced now, taken as done.
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
    /// Answers for these addresses from now on, and for no other; what is new among them is announced. A slow path that was
    /// just made claims [the node's own](Claims::default).
    ///
    /// Addresses of others that are the node's own, and those that are due to another already, are passed over.
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

    /// Another station says that an address is its own. Whether that was about one that this node stands in for: let go if it
    /// is due to another, announced once more if not.
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

    /// Whether the node tells who asks that this address is its own.
    pub(super) fn is_claimed(&self, port: OutputPort, address: IpAddr) -> bool {
        self.lease.may_claim(self.now)
            && (self.claims_own() && self.link(port).is_own(address) || self.claimed.holds(port, address))
    }

    /// Whether the node speaks as the owner of its addresses.
    pub(super) fn claims_own(&self) -> bool {
        self.claimed.own.is_some() && self.lease.may_claim(self.now)
    }

    /// Says which addresses are the node's, of those whose time has come.
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

    /// What is for the node itself on the Internet link.
    pub(super) fn own_addresses(&self) -> LocalAddresses {
        let port = OutputPort::Internet;
        let own = self.link(port).addresses().iter().map(|(own, _)| *own);
        let others = self.claimed.others.iter().filter(|held| held.of.port == port && !held.is_let_go);
        LocalAddresses::new(own.chain(others.map(|held| held.of.address)).collect())
    }

    /// The fast path is to learn of other addresses.
    fn own_changed(&mut self) {
        self.neighbours.is_changed = true;
        self.publish();
    }
}
