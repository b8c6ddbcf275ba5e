//! Where the owner of a partition takes calls: it decides room before anything is logged.

use super::{Refusal, Reply};
use crate::distribution::Owner;
use crate::record::{Call, CallId, Change};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;

/// Calls that wait for a partition's log or for their verdicts, at most.
pub const MAX_CALLS: usize = 8_192;

/// Changes in them, at most.
pub const MAX_CHANGES: usize = 65_536;

/// Room that a call needs.
#[derive(Debug, Default)]
struct Needs {
    /// Keys that are new to the partition.
    keys: u64,
    /// Keys that come to nodes.
    arrivals: BTreeMap<NodeId, u64>,
}

/// A call that was taken and is not judged yet.
#[derive(Debug)]
struct Taken {
    /// Nodes that wait for the verdict.
    asked_by: Vec<NodeId>,
    changes: usize,
    needs: Needs,
}

/// Calls to one partition. See the [module](super).
#[derive(Debug, Default)]
pub struct CallServer {
    taken: BTreeMap<CallId, Taken>,
    changes: usize,
    /// Room that all accepted calls need.
    keys: u64,
    arrivals: BTreeMap<NodeId, u64>,
}

impl CallServer {
    /// Takes a call that a node hands over. `Some`: to be logged. `None`: it was taken before, and is answered once.
    ///
    /// Cost: a hash and a map access a change; two more while a node is removed.
    ///
    /// # Errors
    /// The answer to the call: the verdict that it has, or why it is not logged.
    pub fn take(&mut self, owner: &Owner, from: NodeId, call: Call) -> Result<Option<Call>, Reply> {
        if let Some(taken) = self.taken.get_mut(&call.id) {
            if !taken.asked_by.contains(&from) {
                taken.asked_by.push(from);
            }
            return Ok(None);
        }
        if let Some(verdict) = owner.partition().verdict(call.id) {
            return Err(Reply::Judged(verdict));
        }
        if call.changes.iter().any(|change| owner.must_wait(change)) {
            return Err(Reply::Refused(Refusal::Delayed));
        }
        let changes = call.changes.len();
        if self.taken.len() >= MAX_CALLS || self.changes + changes > MAX_CHANGES {
            return Err(Reply::Refused(Refusal::Busy));
        }
        let needs = needs(owner, &call.changes);
        self.check(owner, &needs).map_err(Reply::Refused)?;
        self.changes += changes;
        self.keys += needs.keys;
        for (node, keys) in &needs.arrivals {
            *self.arrivals.entry(*node).or_default() += keys;
        }
        self.taken.insert(call.id, Taken { asked_by: vec![from], changes, needs });
        Ok(Some(call))
    }

    /// Whether there is room for the new keys, beside those of earlier calls.
    fn check(&self, owner: &Owner, needs: &Needs) -> Result<(), Refusal> {
        if needs.keys > 0 && self.keys + needs.keys > owner.partition().room() {
            return Err(Refusal::NoRoom);
        }
        for (&node, keys) in &needs.arrivals {
            let taken = self.arrivals.get(&node).copied().unwrap_or(0);
            if owner.fib_room(node).is_some_and(|room| taken + keys > room) {
                return Err(Refusal::NodeFull(node));
            }
        }
        Ok(())
    }

    /// A call is judged, or will not be logged. The nodes that wait for the answer; none if it was not taken here.
    pub fn over(&mut self, id: CallId) -> Vec<NodeId> {
        let Some(Taken { asked_by, changes, needs }) = self.taken.remove(&id) else { return Vec::new() };
        self.changes -= changes;
        self.keys -= needs.keys;
        for (node, keys) in needs.arrivals {
            if let Some(all) = self.arrivals.get_mut(&node) {
                *all -= keys;
            }
        }
        asked_by
    }

    /// The calls that wait.
    pub fn calls(&self) -> impl Iterator<Item = CallId> {
        self.taken.keys().copied()
    }

    /// Calls that wait.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// Room that changes need in the current partition. Deleted keys free no room before they are gone.
fn needs(owner: &Owner, changes: &[Change]) -> Needs {
    let mut needs = Needs::default();
    for change in changes {
        let (Change::Upsert(key, session) | Change::Move(key, session)) = change else { continue };
        let before = owner.partition().session(key).map(|(before, _)| before.node);
        let is_new = before.is_none() && matches!(change, Change::Upsert(..));
        needs.keys += u64::from(is_new);
        if is_new || before.is_some_and(|before| before != session.node) {
            *needs.arrivals.entry(session.node).or_default() += 1;
        }
    }
    needs
}
