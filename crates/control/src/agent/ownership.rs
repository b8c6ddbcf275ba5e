//! A partition that this node owns: loads it and appends closures for nodes that died.

use super::snapshots::SNAPSHOT_AGE;
use crate::distribution::{Message, Owner};
use crate::membership::View;
use crate::partition::Partition;
use crate::record::{Closure, Epoch, Reshape};
use crate::replay::{Limits, Replay};
use scalebricks_types::{NodeId, Position};
use std::time::Duration;

/// A change of shape that did nothing is asked for again after this.
const RESHAPE_AGAIN: Duration = Duration::from_secs(30);

/// Closures of nodes that are alive and able wait this long before the owner appends them: the drain command appends them first.
const AGAIN: Duration = Duration::from_secs(1);

/// If nodes report positions beyond this owner's for this time, it asks the engine, and again after the same time. An owner
/// that only reads the log later than another catches up sooner.
const AHEAD: Duration = Duration::from_secs(2);

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
    reshaping: Option<Reshaping>,
    /// Where its log was when it was loaded.
    last: Position,
    /// What follows the newest snapshot.
    pub(super) replay: Replay,
    /// Since when something was seen behind it, and no snapshot taken.
    behind_since: Option<Duration>,
    /// Where the log ended, if that was before the applied position.
    lost: Option<Position>,
    /// Since when a node is further than this owner, and the engine was not asked.
    ahead_since: Option<Duration>,
}

/// State of the ownership.
#[derive(Debug)]
enum State {
    /// Its snapshot and its log are being read.
    Loading,
    /// It follows its log.
    Running(Box<Owner>),
}

impl Ownership {
    /// A partition that is not loaded yet. Snapshots keep its replay within these limits.
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            state: State::Loading,
            complete_in: None,
            lacks_since: None,
            closing: None,
            reshaping: None,
            last: Position(0),
            replay: Replay::new(limits, 0),
            behind_since: None,
            lost: None,
            ahead_since: None,
        }
    }

    /// Records that the partition's log ended at `last`, before the applied position.
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

    /// The messages to send now. None before the partition reaches the position that its log had when it was loaded: a starting
    /// node would take an early state for the whole.
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
        for (node, member) in view.members() {
            if member.is_alive {
                owner.joined(node, member.life);
            } else {
                owner.left(node);
            }
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
        // A change that had no effect is asked for again after a while.
        let is_due = self
            .reshaping
            .is_none_or(|last| last.number != number || last.is_in_log && now >= last.at + RESHAPE_AGAIN);
        if is_due {
            self.reshaping = Some(Reshaping { number, at: now, is_in_log: false });
        }
        is_due
    }

    /// The closures of the view that the partition lacks and that are due, in their order; the log must keep that of each node. Every
    /// partition gets every closure, whether it has keys of the node or not: some may still be on their way to the log.
    pub(super) fn closures(&mut self, view: &View, now: Duration) -> Vec<Closure> {
        let State::Running(owner) = &self.state else { return Vec::new() };
        let partition = owner.partition();
        let is_complete = self.complete_in == Some(view.epoch());
        if is_complete || partition.position() < self.last {
            return Vec::new();
        }
        let known = partition.closures();
        let lacks = |closure: &Closure| closure.epoch > known.newest_of(closure.node);
        let lacking: Vec<Closure> = view.closures().iter().filter(lacks).collect();
        let Some(newest) = lacking.last().map(|closure| closure.epoch) else {
            (self.complete_in, self.lacks_since, self.closing) = (Some(view.epoch()), None, None);
            return lacking;
        };
        // The drain command appends the node's closure at once, too.
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

    /// The position to check against the end of the log, if a node has reported one beyond this owner's for long enough.
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
