//! A partition that a node owns: loading it, and what it has to append for nodes that died.

use crate::distribution::{Message, Owner};
use crate::engine::Snapshot;
use crate::membership::{Placement, View};
use crate::partition::Partition;
use crate::record::{Repin, Reshape};
use scalebricks_types::{NodeId, Position};
use std::collections::BTreeMap;
use std::time::Duration;

/// A node that came back and died once more gives its keys to others no sooner than this after it did so before.
pub const REST: Duration = Duration::from_secs(30);

/// Keys that were pinned to a dead node after its others had been given away wait for so long, as do those of a drained node:
/// whoever drains it has given most of them away already.
const AGAIN: Duration = Duration::from_secs(1);

/// Entries between two snapshots.
pub const SNAPSHOT_EVERY: u64 = 20_000;

/// The last time that a dead node's keys were given away here.
#[derive(Debug, Clone, Copy)]
struct Repinned {
    life: u64,
    at: Duration,
    is_in_log: bool,
}

/// A shape that was asked for here.
#[derive(Debug, Clone, Copy)]
struct Reshaping {
    number: u32,
    at: Duration,
    is_in_log: bool,
}

/// A partition of this node.
#[derive(Debug)]
pub(super) struct Ownership {
    state: State,
    repinned: BTreeMap<NodeId, Repinned>,
    reshaping: Option<Reshaping>,
    /// Where its log was when it was loaded.
    last: Position,
    /// The position of the newest snapshot.
    kept: Position,
}

/// How far it is.
#[derive(Debug)]
enum State {
    /// Its snapshot and its log are being read.
    Loading,
    /// It follows its log.
    Running(Box<Owner>),
}

impl Ownership {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Loading,
            repinned: BTreeMap::new(),
            reshaping: None,
            last: Position(0),
            kept: Position(0),
        }
    }

    pub(super) fn owner(&self) -> Option<&Owner> {
        match &self.state {
            State::Running(owner) => Some(owner),
            State::Loading => None,
        }
    }

    pub(super) fn owner_mut(&mut self) -> Option<&mut Owner> {
        match &mut self.state {
            State::Running(owner) => Some(owner),
            State::Loading => None,
        }
    }

    /// Goes on from a state that was read. Whether it was waited for.
    pub(super) fn begin(&mut self, partition: Partition, last: Position, view: &View) -> bool {
        if matches!(self.state, State::Running(_)) {
            return false;
        }
        (self.last, self.kept) = (last, partition.position());
        self.state = State::Running(Box::new(Owner::new(partition)));
        self.follow(view);
        true
    }

    /// What is to be sent now; nothing while it is on its way to where its log was when it was loaded: a node that starts would
    /// take for all what is only the beginning.
    pub(super) fn messages(&mut self, now: Duration) -> Vec<(NodeId, Message)> {
        let last = self.last;
        let owner = self.owner_mut().filter(|owner| owner.partition().position() >= last);
        owner.map_or_else(Vec::new, |owner| owner.messages(now))
    }

    /// Nodes come and go.
    pub(super) fn follow(&mut self, view: &View) {
        let Some(owner) = self.owner_mut() else { return };
        owner.speak(view.spoken());
        for (node, member) in view.members() {
            if member.is_alive {
                owner.joined(node, member.life);
            } else {
                owner.left(node);
            }
        }
    }

    pub(super) fn repinned(&mut self, from: NodeId) {
        if let Some(repinned) = self.repinned.get_mut(&from) {
            repinned.is_in_log = true;
        }
    }

    pub(super) fn reshaped(&mut self) {
        if let Some(reshaping) = &mut self.reshaping {
            reshaping.is_in_log = true;
        }
    }

    /// Whether it is now to be appended that the bits get this shape.
    pub(super) fn is_to_reshape(&mut self, reshape: &Reshape, now: Duration) -> bool {
        let number = reshape.number;
        let Some(partition) = self.owner().map(Owner::partition) else { return false };
        if partition.position() < self.last || partition.shapes() >= number {
            return false;
        }
        // What was in vain is asked for again, but not all the time.
        let is_due = self
            .reshaping
            .is_none_or(|last| last.number != number || last.is_in_log && now >= last.at + REST);
        if is_due {
            self.reshaping = Some(Reshaping { number, at: now, is_in_log: false });
        }
        is_due
    }

    /// What is to be appended for nodes that are dead or drained and still have keys.
    pub(super) fn repins(&mut self, view: &View, placement: &Placement, now: Duration) -> Vec<Repin> {
        let State::Running(owner) = &self.state else { return Vec::new() };
        let partition = owner.partition();
        if partition.position() < self.last {
            return Vec::new();
        }
        let mut repins = Vec::new();
        for (node, member) in view.members() {
            let is_drained = member.is_alive && placement.is_drained(node);
            if member.is_alive && !is_drained || partition.keys_of(node) == 0 {
                continue;
            }
            if is_drained {
                let seen = Repinned { life: member.life, at: now, is_in_log: true };
                let known = self.repinned.entry(node).or_insert(seen);
                // A life that others ended before is not the one that is drained.
                known.life = member.life;
            }
            let is_due = self.repinned.get(&node).is_none_or(|last| {
                let rest = if last.life == member.life { AGAIN } else { REST };
                last.is_in_log && now >= last.at + rest
            });
            if is_due && let Some(heirs) = placement.heirs(node, view, |heir| partition.is_node(heir)) {
                self.repinned.insert(node, Repinned { life: member.life, at: now, is_in_log: false });
                repins.push(Repin { from: node, upto: partition.position(), heirs });
            }
        }
        repins
    }

    /// A snapshot, if it is time for one.
    pub(super) fn snapshot(&mut self) -> Option<Snapshot> {
        let partition = self.owner()?.partition();
        let position = partition.position();
        if position.0 < self.kept.0 + SNAPSHOT_EVERY {
            return None;
        }
        let snapshot = Snapshot { position, bytes: partition.snapshot().into() };
        self.kept = position;
        Some(snapshot)
    }
}
