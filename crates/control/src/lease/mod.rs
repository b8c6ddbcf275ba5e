//! A node's lease: until when it may act without contact to the log and to the other members.
//!
//! A node that is cut off cannot learn that it was removed from the view. Others then answer for its addresses, take its flows,
//! and give its keys to other flows. The lease bounds how long the node can act in parallel. It is renewed when
//!
//! - at least half of the *other* members grant it, so a strict majority with the node itself, or
//! - the node reads from the engine that it is alive in its present life.
//!
//! A grant is a set bit in what another member sends, over the control network or the fabric: that member's newest view has the
//! node alive, in the life in which the member hears it ([`HearingReport::grants`](crate::membership::HearingReport::grants)).
//! A renewal counts from a time at which it was certainly still true: a read from when it was sent, a grant from the earliest
//! time at which it can have been sent.
//!
//! Two deadlines follow from the newest renewal. After [`LeaseTimes::claim`] the node claims no address and reports no error to
//! peers. After [`LeaseTimes::forward`] it forwards nothing. A node whose lease expired has tables of unknown age: it forwards
//! again when it has caught up with the owners in its present life, not as soon as the lease is renewed.
//!
//! Owners of partitions rely on this. They give keys that a removed node may still forward to another flow only after
//! [`LeaseTimes::rebind_after`]. Only delays depend on clocks, never agreement.
//!
//! `docs/adr/0032-leases.md` describes what a lease does not cover.

use crate::membership::View;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Time between two reads of the view from the engine, to renew the lease.
pub const READ_EVERY: Duration = Duration::from_secs(1);

/// How long after the removal of a node all members that can reach the engine have read the view without it.
const ADOPTION: Duration = Duration::from_secs(1);

/// How long a lease lasts without renewal. The same at all nodes: see [`LeaseTimes::rebind_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Then the node claims no address and reports no error to peers.
    pub claim: Duration,
    /// Then it forwards nothing.
    pub forward: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self { claim: Duration::from_secs(3), forward: Duration::from_secs(10) }
    }
}

impl LeaseTimes {
    /// How long an owner waits, from when it learns that a node was removed, before it gives keys that the node may still forward to
    /// other flows. It counts on the node's times being no longer than its own, on the other members having read the new view
    /// within a second, and on clocks whose rates differ from real time by at most a tenth.
    pub fn rebind_after(&self) -> Duration {
        (self.forward + ADOPTION) * 11 / 9
    }
}

/// Until when a node may act, as times since a moment that its user chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// It may claim addresses and report errors before this.
    pub claim_until: Duration,
    /// It may forward before this.
    pub forward_until: Duration,
}

/// State of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It was renewed lately.
    Held,
    /// The node forwards, and claims nothing.
    ClaimsLapsed,
    /// The node does nothing, or never had a lease.
    Expired,
}

impl LeaseState {
    /// Its name, in lower case with underscores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::ClaimsLapsed => "claims_lapsed",
            Self::Expired => "expired",
        }
    }
}

impl Deadlines {
    /// The state of the lease.
    pub fn state(&self, now: Duration) -> LeaseState {
        if now >= self.forward_until {
            LeaseState::Expired
        } else if now >= self.claim_until {
            LeaseState::ClaimsLapsed
        } else {
            LeaseState::Held
        }
    }
}

/// The lease of one node. A machine without I/O; time is that of a clock that never goes back, the same in all calls.
#[derive(Debug)]
pub struct Lease {
    me: NodeId,
    times: LeaseTimes,
    life: u64,
    /// The epoch of the first view that had this life alive; `None` while the newest known view does not.
    joined: Option<u64>,
    epoch: u64,
    /// The other members, with the time from which their newest grants count.
    others: BTreeMap<NodeId, Option<Duration>>,
    /// The time from which the newest renewal counts.
    renewed: Option<Duration>,
    /// The lease expired, and the node has not caught up since.
    has_lapsed: bool,
}

impl Lease {
    /// The lease of a node that has just started: none.
    pub const fn new(me: NodeId, times: LeaseTimes) -> Self {
        Self {
            me,
            times,
            life: 0,
            joined: None,
            epoch: 0,
            others: BTreeMap::new(),
            renewed: None,
            has_lapsed: false,
        }
    }

    /// Sets the newest view and this node's life. Older views are ignored. Grants of an earlier life are dropped; the deadlines stay.
    pub fn viewed(&mut self, view: &View, life: u64) {
        if life != self.life {
            (self.life, self.joined) = (life, None);
            self.others.values_mut().for_each(|grant| *grant = None);
        } else if view.epoch() < self.epoch {
            return;
        }
        self.epoch = self.epoch.max(view.epoch());
        if !self.is_alive_in(view) {
            self.joined = None;
            self.others.clear();
            return;
        }
        self.joined.get_or_insert(view.epoch());
        let others = view.alive().filter(|node| *node != self.me);
        self.others = others.map(|node| (node, self.others.get(&node).copied().flatten())).collect();
    }

    /// Another member grants the lease, by a view of this epoch. `since`: the earliest time at which it can have sent the grant.
    pub fn granted(&mut self, by: NodeId, epoch: u64, since: Duration) {
        let is_of_this_life = self.joined.is_some_and(|joined| epoch >= joined);
        if let Some(grant) = self.others.get_mut(&by).filter(|_| is_of_this_life) {
            *grant = (*grant).max(Some(since));
            self.count();
        }
    }

    /// The engine was asked for the view at the time `asked`, and gave this one. Whether that renewed the lease.
    pub fn read(&mut self, view: &View, asked: Duration) -> bool {
        let is_alive = self.is_alive_in(view);
        if is_alive {
            self.renew(asked);
        }
        is_alive
    }

    /// The deadlines of the node. `has_caught_up`: its tables are complete in its present life. Call it before passing in events, and
    /// after it.
    pub fn deadlines(&mut self, has_caught_up: bool, now: Duration) -> Deadlines {
        let Some(renewed) = self.renewed else { return Deadlines::default() };
        let until = renewed + self.times.forward;
        if now >= until {
            self.has_lapsed = true;
        } else if has_caught_up && self.joined.is_some() {
            self.has_lapsed = false;
        }
        let forward_until = if self.has_lapsed { Duration::ZERO } else { until };
        Deadlines { claim_until: (renewed + self.times.claim).min(forward_until), forward_until }
    }

    fn is_alive_in(&self, view: &View) -> bool {
        view.member(self.me).is_some_and(|me| me.is_alive && me.life == self.life)
    }

    /// Renews the lease from the time by which half of the others had granted it.
    fn count(&mut self) {
        let mut grants: Vec<Option<Duration>> = self.others.values().copied().collect();
        let half = grants.len().div_ceil(2);
        grants.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(since) = half.checked_sub(1).and_then(|last| *grants.get(last)?) {
            self.renew(since);
        }
    }

    fn renew(&mut self, since: Duration) {
        // The lease may have expired between two calls.
        self.has_lapsed |= self.renewed.is_some_and(|renewed| since >= renewed + self.times.forward);
        self.renewed = self.renewed.max(Some(since));
    }
}
