//! Delays giving a key to another flow while a removed node may still forward the key for its previous flow.
//!
//! A node that is cut off forwards by its old tables until its lease expires ([`crate::lease`]). Until then the owner of a
//! partition gives no key to another session that the node may hold. The node may hold a key
//!
//! - if the key is pinned there, or last changed after the position up to which the node reported to have removed keys, or
//! - if the key was deleted, or belonged to another flow, in an entry after that position.
//!
//! A flow's TEID names its session, except that a deleted key begins another session even with the same TEID. Other changes are
//! not delayed: a flow moves to its heir, and other keys get flows.

use crate::partition::{Ended, Partition};
use crate::record::{Change, FlowId};
use scalebricks_types::{FlowKey, NodeId, Position};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Keys that are remembered with the flows that they were of, at most. If there are more, all changes wait that the oldest may
/// concern.
pub(super) const REMEMBERED: usize = 65_536;

/// A node that was removed from the view, as far as this owner knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Removal {
    /// It holds no key that entries up to here removed.
    let_go: Position,
    /// When its lease has expired for certain; `None` until the time is known.
    until: Option<Duration>,
    /// Where the partition was when the node came back.
    back: Option<Position>,
    is_over: bool,
}

/// Previous flows of keys, and the nodes that may still forward them.
#[derive(Debug, Default)]
pub(super) struct Rebinding {
    removals: BTreeMap<NodeId, Removal>,
    /// By key, flows that it is not of any more, with the entries that ended that; ascending.
    ended: HashMap<FlowKey, Vec<(Position, FlowId)>>,
    /// The same keys in the order of entries.
    order: VecDeque<(Position, FlowKey)>,
    /// Ended flows up to here are forgotten, though a node may hold them.
    forgotten: Position,
    /// The first entry that gave a key to another session while a removed node may forward it for the one before.
    held: Option<Position>,
    /// Something happened that may change that.
    is_new: bool,
}

impl Rebinding {
    /// A node is not alive any more. It reported that it holds no key that entries up to `let_go` removed.
    pub(super) fn removed(&mut self, node: NodeId, let_go: Position) {
        let removal = Removal { let_go, until: None, back: None, is_over: false };
        let known = self.removals.entry(node).or_insert(removal);
        if known.back.is_some() {
            // Removed again before it had dropped what it held the first time.
            *known = Removal { let_go: known.let_go.min(let_go), ..removal };
        }
        self.is_new = true;
    }

    /// A node is alive in a new life, or is seen for the first time. It may have been removed before. Until it reports that it holds
    /// no key that entries up to `back` removed, it counts as removed.
    pub(super) fn joined(&mut self, node: NodeId, back: Position) {
        let unknown = Removal { let_go: Position(0), until: None, back: None, is_over: false };
        let removal = self.removals.entry(node).or_insert(unknown);
        removal.back = Some(back);
        if removal.is_over {
            // It had no lease any more, and catches up before it forwards.
            self.removals.remove(&node);
        }
        self.is_new = true;
    }

    /// Time passes. `wait`: how long a removed node may forward, by this clock. `let_go`: up to where each living node has removed
    /// keys in its present life.
    pub(super) fn pass(
        &mut self,
        now: Duration,
        wait: Duration,
        let_go: impl Iterator<Item = (NodeId, Position)>,
        partition: &Partition,
    ) {
        let mut floor = partition.position();
        for (node, let_go) in let_go {
            floor = floor.min(let_go);
            if let Some(removal) = self.removals.get_mut(&node)
                && removal.back.is_some_and(|back| let_go >= back)
            {
                removal.is_over = true;
            }
        }
        let before = self.active().count();
        for removal in self.removals.values_mut().filter(|removal| !removal.is_over) {
            let until = *removal.until.get_or_insert(now + wait);
            removal.is_over = removal.back.is_none() && now >= until;
        }
        self.is_new |= self.active().count() < before;
        self.removals.retain(|_, removal| !(removal.is_over && removal.back.is_some()));
        let held = self.active().map(|removal| removal.let_go).min();
        self.forget(held.map_or(floor, |held| held.min(floor)));
        if std::mem::take(&mut self.is_new) {
            self.held = self.first_held(partition);
        }
    }

    fn active(&self) -> impl Iterator<Item = &Removal> {
        self.removals.values().filter(|removal| !removal.is_over)
    }

    fn forget(&mut self, upto: Position) {
        while self.order.front().is_some_and(|(at, _)| *at <= upto)
            && let Some((at, key)) = self.order.pop_front()
        {
            self.forget_one(at, &key);
        }
    }

    fn forget_one(&mut self, at: Position, key: &FlowKey) {
        if let Some(flows) = self.ended.get_mut(key) {
            flows.retain(|(ended, _)| *ended > at);
            if flows.is_empty() {
                self.ended.remove(key);
            }
        }
    }

    /// The entry at `position` ended these keys' flows.
    pub(super) fn ended(&mut self, position: Position, ended: &[Ended]) {
        for Ended { key, flow } in ended {
            self.ended.entry(*key).or_default().push((position, *flow));
            self.order.push_back((position, *key));
        }
        while self.order.len() > REMEMBERED
            && let Some((at, key)) = self.order.pop_front()
        {
            self.forgotten = at;
            self.forget_one(at, &key);
        }
        // A key that had ended before may be of another flow now.
        self.is_new = true;
    }

    /// The first entry that was logged too early: it was on its way to the log when a node was removed that has not returned. If
    /// the node has returned, nothing is settled without it anyway.
    fn first_held(&self, partition: &Partition) -> Option<Position> {
        let away = self.active().filter(|removal| removal.back.is_none());
        let let_go = away.map(|removal| removal.let_go).min()?;
        let ended_early = |(key, flows): (&FlowKey, &Vec<(Position, FlowId)>)| {
            let mut later = flows.iter().filter(|(at, _)| *at > let_go);
            let (at, _) = later.next()?;
            // A key that is set after it ended belongs to another session, even if it has the TEID of the previous one.
            (later.next().is_some() || partition.session(key).is_some()).then_some(*at)
        };
        self.ended.iter().filter_map(ended_early).min()
    }

    /// The position of an entry that gave a key to another flow while a removed node may forward the key for its previous flow: the
    /// partition must not be settled up to it.
    pub(super) const fn held(&self) -> Option<Position> {
        self.held
    }

    /// Whether a change has to wait, as it gives a key to another flow than a removed node may forward it for.
    pub(super) fn waits(&self, partition: &Partition, change: &Change) -> bool {
        let (Change::Upsert(key, session) | Change::Move(key, session)) = change else { return false };
        let flow = session.flow();
        self.active().any(|removal| self.may_be_held(partition, key, flow, removal.let_go))
    }

    fn may_be_held(&self, partition: &Partition, key: &FlowKey, flow: FlowId, let_go: Position) -> bool {
        let now = partition.session(key);
        // It was pinned to the removed node until the tenure's closure, which is later than the node's position; or it still is.
        let is_of_another = now.is_some_and(|(session, since)| {
            let is_there = self.removals.get(&session.node).is_some_and(|removal| !removal.is_over);
            session.flow() != flow && (since > let_go || is_there)
        });
        // A key that was deleted begins another session, even if it gets the TEID of the one before.
        let ended = || self.ended.get(key).into_iter().flatten().filter(|(at, _)| *at > let_go);
        let was_of_another =
            ended().any(|(_, was)| *was != flow) || now.is_none() && ended().next().is_some();
        let is_unknown = self.forgotten > let_go && now.is_none_or(|(session, _)| session.flow() != flow);
        is_of_another || was_of_another || is_unknown
    }
}
