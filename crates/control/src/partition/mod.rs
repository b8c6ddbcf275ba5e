//! A partition: its part of the RIB and the GPT bits that follow from it, as a pure function of its log.
//!
//! Entries are applied in order, each exactly once, and never refused: a change that cannot be made is *void*, by rules that
//! depend only on the state. All nodes that apply the same entries have the same state and the same bits and produce the same
//! deltas, byte for byte, so several owners at once do no harm.

mod calls;
mod closing;
mod effects;
mod plan;
mod requests;
mod snapshot;
mod table;
mod verdict;
mod windows;

pub use effects::{Effects, Ended, FibUpdate, Outcome, Void};
pub use requests::MAX_REQUESTERS;
pub use snapshot::SnapshotError;
pub use verdict::{Judged, MAX_VOIDS, Verdict};
pub use windows::{MAX_WRITERS, WINDOW};

use crate::codec::{DecodeError, Encoded};
use crate::engine::Entry;
use crate::record::{CallId, Change, Closures, Payload, Reshape, Session};
use crate::shape::names;
use effects::ByNode;
use plan::{Plan, Step, gpt_ops};
use requests::{CallState, Requests};
use scalebricks_tables::compact::{Control, Params};
use scalebricks_tables::fib::FibDigest;
use scalebricks_types::{Delta, FlowKey, KeyHasher, NodeId, PartitionId, Position};
use std::collections::BTreeMap;
use table::Sessions;
use windows::Writers;

/// An entry that cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Entries before it are missing.
    #[error("partition {} is at position {} of its log and was given {}", .partition.0, .have.0, .got.0)]
    Gap {
        /// The partition.
        partition: PartitionId,
        /// Where it is.
        have: Position,
        /// The position given.
        got: Position,
    },
    /// Another version of the software wrote it. Skipping it would give another state than that of nodes that understand it.
    #[error("entry {} of partition {} has unknown version {version}", .at.0, .partition.0)]
    Version {
        /// The partition.
        partition: PartitionId,
        /// Where it is.
        at: Position,
        /// Its version.
        version: u16,
    },
}

/// A partition's state. See the [module](self).
#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    hasher: KeyHasher,
    position: Position,
    writers: Writers,
    requests: Requests,
    sessions: Sessions,
    gpt: Control,
    /// The last entry that meant something for the FIB of each node.
    fib_positions: BTreeMap<NodeId, Position>,
    /// The last change of the cluster's shape that was made here.
    shapes: u32,
    /// The tenures of nodes that the log has closed.
    closures: Closures,
}

impl Partition {
    /// An empty partition, before the first entry of its log. `params` are those of the whole table.
    pub fn new(id: PartitionId, params: Params, hasher: KeyHasher) -> Self {
        Self {
            id,
            hasher,
            position: Position(0),
            writers: Writers::default(),
            requests: Requests::default(),
            sessions: Sessions::default(),
            gpt: Control::for_partitions(params, [id]),
            fib_positions: BTreeMap::new(),
            shapes: 0,
            closures: Closures::default(),
        }
    }

    /// The partition's id.
    pub const fn id(&self) -> PartitionId {
        self.id
    }

    /// The last entry applied.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The shape of its bits.
    pub fn params(&self) -> Params {
        self.gpt.params()
    }

    /// The number of the last change of the cluster's shape that its bits went through.
    pub const fn shapes(&self) -> u32 {
        self.shapes
    }

    /// The digest of its bits: equal to that of every table at this position.
    pub fn digest(&self) -> Option<u32> {
        self.gpt.digest(self.id)
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys that the table's shape is made for, beyond those held. Somewhat more fit; which ones depends on their hashes.
    pub fn room(&self) -> u64 {
        self.params().keys_per_partition().saturating_sub(self.len() as u64)
    }

    /// Keys pinned to a node.
    pub fn keys_of(&self, node: NodeId) -> usize {
        self.sessions.keys_of(node)
    }

    /// The digest of the entries that a node's FIB should hold of this partition, as of the last entry. Cost: a map access; each change
    /// of a key costs two mixes.
    pub fn fib_digest(&self, node: NodeId) -> FibDigest {
        self.sessions.digest_of(node)
    }

    /// The session of a key, and the position of the entry that set it.
    pub fn session(&self, key: &FlowKey) -> Option<(Session, Position)> {
        let held = self.sessions.get(self.hasher.hash(key)).filter(|held| held.key == *key)?;
        Some((held.session, held.since))
    }

    /// All keys with their sessions, in the order of hashes. Cost: sorts them.
    pub fn sessions(&self) -> impl Iterator<Item = (FlowKey, Session)> {
        self.sessions.sorted().into_iter().map(|(_, held)| (held.key, held.session))
    }

    /// The verdict of a request; `None` if it is not in the log, as far as that was applied. Of a request that is over, or of a
    /// process that was forgotten, one that [is forgotten](Verdict::is_forgotten).
    pub fn verdict(&self, id: CallId) -> Option<Verdict> {
        match self.requests.standing(id) {
            CallState::New => None,
            CallState::Known(verdict) => Some(verdict),
            CallState::Forgotten(why) => Some(Verdict::void(self.position, why)),
        }
    }

    /// The last entry that meant something for a node's FIB; 0 if none did.
    pub fn fib_position(&self, node: NodeId) -> Position {
        self.fib_positions.get(&node).copied().unwrap_or_default()
    }

    /// The last entry that changed GPT bits; 0 if none did.
    pub fn gpt_position(&self) -> Position {
        self.gpt.position(self.id).unwrap_or_default()
    }

    /// The GPT bits of all keys, as a delta from an empty table; `None` if no entry changed any.
    pub fn gpt(&self) -> Option<Delta> {
        self.gpt.export_partition(self.id)
    }

    /// Applies the next entry of the log. One that was applied already changes nothing.
    ///
    /// Cost: a map access a change, and a group solved for each that moves a key between nodes; see
    /// [`Control::batch_to`].
    ///
    /// # Errors
    /// [`EntryError`]; nothing is then changed.
    pub fn apply(&mut self, entry: &Entry) -> Result<Effects, EntryError> {
        if entry.position <= self.position {
            return Ok(Effects::void(Void::Applied));
        }
        if entry.position.0 != self.position.0 + 1 {
            let (partition, have, got) = (self.id, self.position, entry.position);
            return Err(EntryError::Gap { partition, have, got });
        }
        let payload = Payload::decode(&entry.batch.payload);
        if let Err(DecodeError::Version { found: version, .. }) = payload {
            return Err(EntryError::Version { partition: self.id, at: entry.position, version });
        }
        self.position = entry.position;
        if let Ok(Payload::Calls(calls)) = payload {
            // Each of them is judged by its own name.
            return Ok(self.calls(calls));
        }
        let refused = match self.writers.admit(entry.batch.id) {
            windows::Verdict::New => None,
            windows::Verdict::Duplicate => Some(Void::Duplicate),
            windows::Verdict::Below => Some(Void::BelowWindow),
            windows::Verdict::Retired => Some(Void::WriterRetired),
        };
        if let Some(refused) = refused {
            return Ok(Effects::void(refused));
        }
        let Ok(Payload::Changes(changes)) = payload else {
            return Ok(Effects::void(Void::Malformed));
        };
        if let [Change::Reshape(reshape)] = changes[..] {
            return Ok(self.reshape(reshape));
        }
        let mut plan = Plan::default();
        let voids = self.plan(&mut plan, &changes);
        let Ok(gpt) = self.gpt.batch_to(entry.position, &gpt_ops(plan.steps())) else {
            // The only reason left: no room.
            return Ok(Effects::void(Void::NoRoom));
        };
        let effects = self.carry_out(plan, gpt);
        Ok(Effects { voids, ..effects })
    }

    /// Gives all bits another shape.
    fn reshape(&mut self, Reshape { number, to }: Reshape) -> Effects {
        if number <= self.shapes {
            return Effects::void(Void::Applied);
        }
        if to == self.params() {
            self.shapes = number;
            return Effects::default();
        }
        match self.gpt.reshape_to(self.id, to, self.position) {
            Ok(delta) => {
                self.shapes = number;
                Effects { gpt: Some(delta), ..Effects::default() }
            }
            Err(_) => Effects::void(Void::Shape),
        }
    }

    /// Plans the changes, after those already planned. Returns the changes that do nothing, by their number.
    fn plan(&self, plan: &mut Plan, changes: &[Change]) -> Vec<(u32, Void)> {
        let mut voids = Vec::new();
        for (number, change) in (0..).zip(changes) {
            let done = match change {
                Change::Close(closure) => self.plan_close(plan, closure),
                Change::Upsert(key, session) => self.plan_one(plan, key, Some(*session), false),
                Change::Move(key, session) => self.plan_one(plan, key, Some(*session), true),
                Change::Delete(key) => self.plan_one(plan, key, None, true),
                Change::Reshape(_) => Err(Void::NotAlone),
            };
            if let Err(void) = done {
                voids.push((number, void));
            }
        }
        voids
    }

    fn plan_one(
        &self,
        plan: &mut Plan,
        key: &FlowKey,
        after: Option<Session>,
        must_be_there: bool,
    ) -> Result<(), Void> {
        let hash = self.hasher.hash(key);
        if self.gpt.params().partitions().of(hash) != self.id {
            return Err(Void::OtherPartition);
        }
        let after = after.map(|session| self.led(plan, session));
        if after.is_some_and(|session| !self.is_node(session.node)) {
            return Err(Void::NoSuchNode);
        }
        let (held, before) = match (plan.newest(hash), self.sessions.get(hash)) {
            (Some(step), _) => (Some(&step.key), step.after),
            (None, Some(held)) => (Some(&held.key), Some(held.session)),
            (None, None) => (None, None),
        };
        if before.is_some() && held != Some(key) {
            return Err(Void::SameHash);
        }
        if before.is_none() && must_be_there {
            return Err(Void::Missing);
        }
        plan.add(Step { key: *key, hash, before, after });
        Ok(())
    }

    /// Whether the GPT can name this node.
    pub fn is_node(&self, node: NodeId) -> bool {
        names(&self.params(), node)
    }

    /// Carries out the planned steps, and returns the effects.
    fn carry_out(&mut self, plan: Plan, gpt: Option<Delta>) -> Effects {
        for step in plan.steps() {
            match step.after {
                Some(session) => self.sessions.put(step.key, step.hash, session, self.position),
                None => self.sessions.remove(step.hash),
            }
        }
        // A key that several changes of the entry touched has one outcome, at the key's first place.
        let (mut by_node, mut ended) = (ByNode::default(), Vec::new());
        for (first, newest) in plan.outcomes() {
            by_node.tell(first.key, first.before, newest.after);
            let flow = first.before.map(|before| before.flow());
            if let Some(flow) = flow.filter(|flow| newest.after.is_none_or(|after| after.flow() != *flow)) {
                ended.push(Ended { key: first.key, flow });
            }
        }
        let fib = by_node.updates(self.id, self.position, &mut self.fib_positions);
        if let Some(closures) = plan.closures {
            self.closures = closures;
        }
        Effects { outcome: Outcome::Done, gpt, fib, ended, ..Effects::default() }
    }
}

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod tests;
