//! One node's control plane: it sends heartbeats, owns its share of the partitions, and follows the owners of all partitions.
//!
//! ```text
//!          view ─▶ ┌────────────┐ ─▶ beats, proposals
//!         beats ─▶ │ Membership │
//!                  └─────┬──────┘ who is alive, who owns what
//!                        ▼
//! log, snapshots ─▶ ┌─────────┐ ── messages ─▶ all nodes, this one too
//! reports ─▶       │ Owner   │ × partitions   ─▶ closures and snapshots to store
//!                   └─────────┘
//!      messages ─▶ ┌─────────┐
//!                  │ Replica │ ─▶ reports     and the node's tables
//!                  └─────────┘
//! ```
//!
//! A state machine without I/O: its driver passes in what it received and the time, and carries out the [`Action`]s.

mod calls;
mod lost;
mod ownership;
mod packet;
mod reports;
mod reshaping;
mod snapshots;
mod tenures;

pub use crate::distribution::Applied;
pub use packet::Packet;
pub use reports::REPORT_EVERY;
pub use snapshots::{REPLAY, SNAPSHOT_AGE};

use crate::calls::{Answer, CallServer};
use crate::distribution::{Message, Replica, ReplicaError, Tables};
use crate::engine::{Entry, Revision, Snapshot};
use crate::lease::LeaseTimes;
use crate::membership::{self, Beat, Fitness, Membership, View};
use crate::partition::{EntryError, Partition};
use crate::record::{Call, Closure, Reshape};
use crate::shape::{Known, Shape};
use crate::version::Version;
use ownership::Ownership;
use reports::EarlyReports;
use scalebricks_types::{NodeId, PartitionCount, PartitionId, Position};
use snapshots::SnapshotSchedule;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenures::KnownTenures;

/// Time between two looks at all partitions that are this node's; those to which something happened are looked at every time.
const SWEEP_EVERY: Duration = Duration::from_millis(5);

/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this heartbeat to all other nodes.
    Beat(Beat),
    /// Publish a pulse of this node through the engine.
    Pulse,
    /// Hand the pulses of all nodes, this one's too, to [`Agent::pulsed`] from now on, or stop that.
    Listen(bool),
    /// Swap the record of membership, if it is still at this revision (`None`: if there is none), for this view.
    Propose(Option<Revision>, View),
    /// Send this to another node.
    Send(NodeId, Packet),
    /// Read the last position of a partition's log, restore its newest snapshot or an empty partition, and pass both to
    /// [`Agent::restored`]. Then pass all later entries to [`Agent::entry`], until [`Action::Unload`].
    Load(PartitionId),
    /// Stop that: the partition is another's.
    Unload(PartitionId),
    /// Append these closures to the partition's log, in this order, retrying until they are logged. Then call [`Agent::closed`].
    Close(PartitionId, Vec<Closure>),
    /// Append this change of shape to the partition's log, retrying until it is logged. Then call [`Agent::reshaped`].
    Reshape(PartitionId, Reshape),
    /// Swap the record of the table's shape, if it is still at this revision, for this one.
    ProposeShape(Revision, Shape),
    /// Append these calls to the partition's log once, in a batch of their own or with others. If they are not logged and never
    /// will be, call [`Agent::not_logged`].
    Append(PartitionId, Vec<Call>),
    /// Send a node, which may be this one, the answers to its calls to a partition.
    Answer(NodeId, PartitionId, Vec<Answer>),
    /// Store this snapshot, read it back, and trim the log below it. Then call [`Agent::kept`]. The agent asks for one at a time.
    Keep(PartitionId, Snapshot),
    /// A node reported this position, which the partition's owner has not reached. Read from the next position; if the engine
    /// answers that the log ends before it ([`ReadError::Ahead`](crate::engine::ReadError::Ahead)), call [`Agent::log_ends`].
    Confirm(PartitionId, Position),
}

/// Counters of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentStats {
    /// Messages of owners that something was missing before.
    pub gaps: u64,
    /// Messages that the tables refused.
    pub refused: u64,
    /// Nodes whose keys were given to others, counted once a partition.
    pub repins: u64,
    /// Partitions whose bits here were found to be wrong, and replaced.
    pub astray: u64,
    /// Keys that are this node's, and that its FIB has no room for now.
    pub shedding: u64,
    /// Keys that its FIB had no room for when they arrived.
    pub shed: u64,
    /// Calls that were not logged, by this node as their partition's owner.
    pub calls_refused: u64,
    /// Partitions whose FIB entries here were wrong and were loaded again.
    pub fib_astray: u64,
    /// Times that the GPT was restarted because its shape was none that the cluster uses.
    pub begun_anew: u64,
    /// Partitions whose tables here had to be filled again, as their log had lost entries that were in them.
    pub rewound: u64,
    /// Times that a call had to wait, as a removed node might still forward one of its keys for another flow.
    pub calls_delayed: u64,
}

/// A node's part. See the [module](self).
#[derive(Debug)]
pub struct Agent<T> {
    me: NodeId,
    partitions: PartitionCount,
    membership: Membership,
    replica: Replica<T>,
    owned: BTreeMap<PartitionId, Ownership>,
    /// Those of them to which something happened since they were last looked at.
    touched: BTreeSet<PartitionId>,
    next_sweep: Duration,
    early: EarlyReports,
    tenures: KnownTenures,
    /// The record of the table's shape; `None` until it is known.
    shape: Option<Known>,
    /// How often the GPT refused an update, and since when that is counted.
    out_of_shape: (u32, Duration),
    /// Partitions whose owner gets a report at once, with the node whose message caused it.
    to_report: BTreeSet<(NodeId, PartitionId)>,
    next_report: Duration,
    snapshots: SnapshotSchedule,
    actions: Vec<Action>,
    /// Calls at the partitions that this node owns or owned: calls handed over then may still be logged.
    servers: BTreeMap<PartitionId, CallServer>,
    /// Answers to send.
    answers: BTreeMap<(NodeId, PartitionId), Vec<Answer>>,
    /// How long keys that a removed node may still forward are not given to other flows.
    rebind_after: Duration,
    stats: AgentStats,
}

impl<T: Tables> Agent<T> {
    /// A node that starts, with empty tables. `view` and `revision` are the record as it was read, or an empty view and
    /// `None`; `grace` is the longest time that a packet takes from the GPT of one node to the FIB of another.
    pub fn new(
        me: NodeId,
        tables: T,
        partitions: PartitionCount,
        view: View,
        revision: Option<Revision>,
        grace: Duration,
        now: Duration,
    ) -> Self {
        let membership = Membership::new(me, view, revision, now);
        let replica = Replica::new(tables, partitions, grace, membership.life());
        Self {
            me,
            partitions,
            membership,
            replica,
            owned: BTreeMap::new(),
            touched: BTreeSet::new(),
            next_sweep: now,
            early: EarlyReports::default(),
            tenures: KnownTenures::default(),
            shape: None,
            out_of_shape: (0, now),
            to_report: BTreeSet::new(),
            next_report: now,
            snapshots: SnapshotSchedule::default(),
            actions: Vec::new(),
            servers: BTreeMap::new(),
            answers: BTreeMap::new(),
            rebind_after: LeaseTimes::default().rebind_after(),
            stats: AgentStats::default(),
        }
    }

    /// The same, of a node that holds itself to a version of the protocol, as if it knew no newer.
    #[must_use]
    pub fn holding_to(mut self, version: Version) -> Self {
        self.membership = self.membership.holding_to(version);
        self
    }

    /// Which node it is.
    pub const fn node(&self) -> NodeId {
        self.me
    }

    /// The members and owners that this node knows.
    pub const fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The node's tables and their positions.
    pub const fn replica(&self) -> &Replica<T> {
        &self.replica
    }

    /// The counters.
    pub const fn stats(&self) -> AgentStats {
        self.stats
    }

    /// A partition that this node owns and has loaded.
    pub fn partition(&self, partition: PartitionId) -> Option<&Partition> {
        Some(self.owned.get(&partition)?.owner()?.partition())
    }

    /// The same, if the log was read that was there when the partition was loaded.
    pub fn open_partition(&self, partition: PartitionId) -> Option<&Partition> {
        Some(self.owned.get(&partition)?.open()?.partition())
    }

    /// Sets how long keys that a removed node may still forward are not given to other flows. See [`crate::lease`].
    pub const fn set_rebind_after(&mut self, wait: Duration) {
        self.rebind_after = wait;
    }

    /// Up to where a partition that this node owns is in all tables.
    pub fn settled(&self, partition: PartitionId) -> Option<Position> {
        Some(self.owned.get(&partition)?.owner()?.settled())
    }

    /// The partitions that are this node's, loaded or not.
    pub fn owned(&self) -> impl Iterator<Item = PartitionId> {
        self.owned.keys().copied()
    }

    /// Whether the tables hold everything that the owners of all partitions reported in this life. Do not send packets from outside
    /// to a node before that.
    pub fn has_caught_up(&self) -> bool {
        self.membership.is_in()
            && (0..self.partitions.get()).all(|at| self.replica.has_caught_up(PartitionId(at as u16)))
    }

    /// The record of membership is now this one.
    pub fn viewed(&mut self, revision: Revision, view: View, now: Duration) {
        let before = self.membership.view().epoch();
        self.membership.viewed(revision, view, now);
        if self.membership.view().epoch() != before {
            // Owners or this node's life may have changed: they get a report.
            self.next_report = now;
        }
        self.next_sweep = now;
        self.replica.live(self.membership.life());
        let is_in = self.membership.is_in();
        let view = self.membership.view();
        let mine: BTreeSet<PartitionId> =
            if is_in { view.partitions_of(self.me).collect() } else { BTreeSet::new() };
        let lost: Vec<PartitionId> =
            self.owned.keys().filter(|partition| !mine.contains(partition)).copied().collect();
        for partition in lost {
            self.owned.remove(&partition);
            self.actions.push(Action::Unload(partition));
        }
        for partition in mine {
            if let Some(ownership) = self.owned.get_mut(&partition) {
                ownership.follow(view);
            } else {
                self.owned.insert(partition, Ownership::new(self.snapshots.limits));
                self.actions.push(Action::Load(partition));
            }
        }
        self.hear_all_early();
    }

    /// A heartbeat was received.
    pub fn beat(&mut self, from: NodeId, beat: &Beat, now: Duration) {
        self.membership.heard(from, beat, now);
    }

    /// How fit this node is, from now on.
    pub const fn set_fitness(&mut self, fitness: Fitness) {
        self.membership.set_fitness(fitness);
    }

    /// A pulse of a node came through the engine.
    pub fn pulsed(&mut self, node: NodeId, now: Duration) {
        self.membership.pulsed(node, now);
    }

    /// A partition was loaded from a snapshot or is empty; `last` is the last position of its log. Nothing is sent for it before
    /// that position is applied. Returns whether the partition is still wanted, and so the entries of its log.
    pub fn restored(&mut self, partition: Partition, last: Position) -> bool {
        let (id, view) = (partition.id(), self.membership.view());
        let Some(ownership) = self.owned.get_mut(&id) else { return false };
        if !ownership.begin(partition, last, view) {
            return false;
        }
        self.hear_early(id);
        self.judged_meanwhile(id);
        self.touched.insert(id);
        true
    }

    /// The next entry of the log of a partition that is this node's.
    ///
    /// # Errors
    /// [`EntryError`]. If entries are missing the partition is dropped, and [`Action::Load`] asked for once more; if newer
    /// software wrote them it is dropped until another node takes it, or this one another software.
    pub fn entry(&mut self, partition: PartitionId, entry: &Entry) -> Result<Option<Applied>, EntryError> {
        let Some(owner) = self.owned.get_mut(&partition).and_then(Ownership::owner_mut) else {
            return Ok(None);
        };
        self.touched.insert(partition);
        match owner.entry(entry) {
            Ok(applied) => {
                if let Some(ownership) = self.owned.get_mut(&partition) {
                    ownership.replay.applied(entry.batch.payload.len());
                }
                self.keep_if_due(partition);
                self.judged(partition, &applied.calls);
                Ok(Some(applied))
            }
            Err(error @ EntryError::Gap { .. }) => {
                self.reload(partition);
                Err(error)
            }
            Err(error @ EntryError::Version { .. }) => {
                self.owned.insert(partition, Ownership::new(self.snapshots.limits));
                self.actions.push(Action::Unload(partition));
                Err(error)
            }
        }
    }

    /// Loads a partition again: its log or snapshot could not be read, or the log was trimmed.
    pub fn reload(&mut self, partition: PartitionId) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            *ownership = Ownership::new(self.snapshots.limits);
            self.actions.push(Action::Load(partition));
        }
    }

    /// An [`Action::Close`] is in the log.
    pub fn closed(&mut self, partition: PartitionId) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            ownership.closed();
        }
    }

    /// Something came from another node.
    pub fn packet(&mut self, from: NodeId, packet: Packet, now: Duration) {
        match packet {
            Packet::Message(message) => self.message(from, &message, now),
            Packet::Reports(reports) => {
                for report in reports {
                    self.reported(from, report);
                }
            }
        }
    }

    /// Handles a message of an owner. Reports the result at once to its sender, and to the owner in the view if that is another node.
    fn message(&mut self, from: NodeId, message: &Message, now: Duration) {
        let partition = message.partition();
        match self.replica.receive(message, now) {
            Ok(false) => return,
            Ok(true) => {}
            Err(ReplicaError::Gap(..)) => self.stats.gaps += 1,
            Err(ReplicaError::Astray(_)) => self.stats.astray += 1,
            Err(ReplicaError::FibAstray(_)) => self.stats.fib_astray += 1,
            Err(ReplicaError::Rewound(..)) => self.stats.rewound += 1,
            Err(ReplicaError::Gpt(_)) => {
                self.stats.refused += 1;
                self.refused_by_gpt(now);
            }
            Err(ReplicaError::Piece(_) | ReplicaError::NoPartition(_)) => self.stats.refused += 1,
        }
        let Some(partition) = partition else { return };
        self.to_report.insert((from, partition));
        if let Some(owner) = self.membership.view().owner(partition) {
            self.to_report.insert((owner, partition));
        }
    }

    /// Returns the actions that are due. Call it every few milliseconds and after every event.
    pub fn poll(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.actions);
        for action in self.membership.poll(now) {
            actions.push(match action {
                membership::Action::Beat(beat) => Action::Beat(beat),
                membership::Action::Pulse => Action::Pulse,
                membership::Action::Listen(listens) => Action::Listen(listens),
                membership::Action::Propose(revision, view) => {
                    let view = self.with_tenures(&view).unwrap_or(view);
                    Action::Propose(revision, view)
                }
            });
        }
        self.settle_tenures(now, &mut actions);
        if self.replica.sweep(now) {
            // The owners compare it with their own, which know the newest positions best.
            self.next_report = now;
        }
        self.own(now, &mut actions);
        self.reshape(now, &mut actions);
        self.report(now, &mut actions);
        let _dropped = self.replica.poll(now);
        let (shed, refused) = self.replica.sheds();
        (self.stats.shedding, self.stats.shed) = (self.replica.shedding() as u64, shed + refused);
        self.answer(&mut actions);
        actions
    }

    /// Handles the partitions of this node. Messages to the node itself arrive at once, and so do their answers: FIB, bits and the
    /// target may be three rounds.
    fn own(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let mut partitions = std::mem::take(&mut self.touched);
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            partitions = self.owned.keys().copied().collect();
        }
        let looked_at = partitions.clone();
        for partition in &looked_at {
            if let Some(ownership) = self.owned.get_mut(partition) {
                ownership.pass(now, self.rebind_after);
            }
        }
        while !partitions.is_empty() {
            let mut again = BTreeSet::new();
            for partition in partitions {
                self.report_to_self(partition);
                let messages = self.owned.get_mut(&partition).map(|ownership| ownership.messages(now));
                for (to, message) in messages.into_iter().flatten() {
                    if to != self.me {
                        actions.push(Action::Send(to, Packet::Message(message)));
                        continue;
                    }
                    self.message(to, &message, now);
                    if self.to_report.remove(&(self.me, partition)) {
                        again.insert(partition);
                    }
                }
            }
            partitions = again;
        }
        let view = self.membership.view();
        for partition in &looked_at {
            let partition = *partition;
            let Some(ownership) = self.owned.get_mut(&partition) else { continue };
            actions.extend(ownership.doubt(now).map(|reported| Action::Confirm(partition, reported)));
            let closures = ownership.closures(view, now);
            if !closures.is_empty() {
                self.stats.repins += closures.len() as u64;
                actions.push(Action::Close(partition, closures));
            }
        }
        self.keep_old(&looked_at, now);
    }
}
