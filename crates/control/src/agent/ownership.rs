//! A partition that a node owns: loading it, and what it has to append for nodes that died.

use super::keeping::SNAPSHOT_AGE;
use crate::distribution::{Message, Owner};
use crate::membership::{Placement, View};
use crate::partition::Partition;
use crate::record::{Closure, Epoch, Repin, Reshape};
use crate::replay::{Limits, Replay};
use crate::version::Version;
use scalebricks_types::{NodeId, Position};
use std::collections::BTreeMap;
use std::time::Duration;

/// A change of shape that did nothing is asked for again after this.
const RESHAPE_AGAIN: Duration = Duration::from_secs(30);

/// Keys that were pinned to a dead node after its others had been given away wait for so long, as do those of a drained node:
/// whoever drains it has given most of them away already.
const AGAIN: Duration = Duration::from_secs(1);

/// Nodes that are further than this owner for so long are asked about at the engine, and again after the same time: an owner that
/// reads the log a little later than another catches up sooner.
const AHEAD: Duration = Duration::from_secs(2);

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

/// Closures that were asked to be appended here.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// The newest of them.
    newest: Epoch,
    at: Duration,
    is_in_log: bool,
}

/// A partition of this node.
#[derive(Debug)]
pub(super) struct Ownership {
    state: State,
    /// The epoch of the last view of which the partition had all closures.
    complete_in: Option<u64>,
    /// Since when the partition lacks a closure of the view.
    lacks_since: Option<Duration>,
    closing: Option<Closing>,
    repinned: BTreeMap<NodeId, Repinned>,
    reshaping: Option<Reshaping>,
    /// Where its log was when it was loaded.
    last: Position,
    /// What is behind the newest snapshot.
    pub(super) replay: Replay,
    /// Since when something was seen behind it, and no snapshot taken.
    behind_since: Option<Duration>,
    /// Where its log was found to end, if that was before what was applied here.
    lost: Option<Position>,
    /// Since when a node is further than this owner, and the engine was not asked.
    ahead_since: Option<Duration>,
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
    /// One that is to be loaded. What a restart would replay is held within these limits.
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            state: State::Loading,
            complete_in: None,
            lacks_since: None,
            closing: None,
            repinned: BTreeMap::new(),
            reshaping: None,
            last: Position(0),
            replay: Replay::new(limits, 0),
            behind_since: None,
            lost: None,
            ahead_since: None,
        }
    }

    /// The same of a partition whose log was found to end here, before what was applied.
    pub(super) const fn behind(mut self, last: Position) -> Self {
        self.lost = Some(last);
        self
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

    /// The owner, if calls can be judged: not before the log was read that was there when it was loaded.
    pub(super) fn open(&self) -> Option<&Owner> {
        self.owner().filter(|owner| owner.partition().position() >= self.last)
    }

    /// Goes on from a state that was read. Whether it was waited for.
    pub(super) fn begin(&mut self, partition: Partition, last: Position, view: &View) -> bool {
        if matches!(self.state, State::Running(_)) {
            return false;
        }
        self.last = last;
        let mut owner = Owner::new(partition);
        owner.loaded_to(last);
        if let Some(last) = self.lost {
            owner.rewind(last);
        }
        self.state = State::Running(Box::new(owner));
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

    /// Time passes: see [`Owner::pass`].
    pub(super) fn pass(&mut self, now: Duration, rebind_after: Duration) {
        if let Some(owner) = self.owner_mut() {
            owner.pass(now, rebind_after);
        }
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

    pub(super) fn closed(&mut self) {
        if let Some(closing) = &mut self.closing {
            closing.is_in_log = true;
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
            .is_none_or(|last| last.number != number || last.is_in_log && now >= last.at + RESHAPE_AGAIN);
        if is_due {
            self.reshaping = Some(Reshaping { number, at: now, is_in_log: false });
        }
        is_due
    }

    /// The closures of the view that are to be appended, as the partition lacks them; in their order, of which the log must keep that
    /// of each node. All partitions get all of them, whether they have keys of the node or not: some may be on their way.
    pub(super) fn closures(&mut self, view: &View, now: Duration) -> Vec<Closure> {
        let State::Running(owner) = &self.state else { return Vec::new() };
        let partition = owner.partition();
        let is_complete = self.complete_in == Some(view.epoch());
        if is_complete || partition.position() < self.last || view.spoken() < Version::TENURES {
            return Vec::new();
        }
        let known = partition.closures();
        let lacks = |closure: &Closure| closure.epoch > known.newest_of(closure.node);
        let lacking: Vec<Closure> = view.closures().iter().filter(lacks).collect();
        let Some(newest) = lacking.last().map(|closure| closure.epoch) else {
            (self.complete_in, self.lacks_since, self.closing) = (Some(view.epoch()), None, None);
            return lacking;
        };
        // Whoever drains a node appends its closure, too, at once.
        let since = *self.lacks_since.get_or_insert(now);
        let may_wait = |closure: &Closure| view.is_able(closure.node);
        if now < since + AGAIN && lacking.iter().all(may_wait) {
            return Vec::new();
        }
        let is_due = self
            .closing
            .is_none_or(|last| last.is_in_log && (now >= last.at + AGAIN || newest > last.newest));
        if !is_due {
            return Vec::new();
        }
        self.closing = Some(Closing { newest, at: now, is_in_log: false });
        lacking
    }

    /// What is to be appended for nodes that are dead or drained and still have keys, while a member does not know of tenures.
    pub(super) fn repins(&mut self, view: &View, placement: &Placement, now: Duration) -> Vec<Repin> {
        let State::Running(owner) = &self.state else { return Vec::new() };
        let partition = owner.partition();
        if partition.position() < self.last || view.spoken() >= Version::TENURES {
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
                // Another life's keys are given away at once.
                last.is_in_log && (last.life != member.life || now >= last.at + AGAIN)
            });
            if is_due && let Some(heirs) = placement.heirs(node, view, |heir| partition.is_node(heir)) {
                self.repinned.insert(node, Repinned { life: member.life, at: now, is_in_log: false });
                repins.push(Repin { from: node, upto: partition.position(), heirs });
            }
        }
        repins
    }

    /// Whether entries have been behind the newest snapshot for long.
    pub(super) fn is_old(&mut self, now: Duration) -> bool {
        if self.owner().is_none() || self.replay.behind().entries == 0 {
            self.behind_since = None;
            return false;
        }
        let is_old = now >= *self.behind_since.get_or_insert(now) + SNAPSHOT_AGE;
        if is_old {
            self.behind_since = Some(now);
        }
        is_old
    }

    /// A position of which it is now to be found out whether the log reaches so far, as a node says.
    pub(super) fn doubt(&mut self, now: Duration) -> Option<Position> {
        let last = self.last;
        let owner = self.owner().filter(|owner| owner.partition().position() >= last);
        let Some(furthest) = owner.and_then(Owner::ahead) else {
            self.ahead_since = None;
            return None;
        };
        let is_due = now >= *self.ahead_since.get_or_insert(now) + AHEAD;
        if is_due {
            self.ahead_since = Some(now);
        }
        is_due.then_some(furthest)
    }
}
