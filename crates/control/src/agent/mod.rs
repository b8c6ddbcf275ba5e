//! A node's part in the control plane: it says that it is alive, owns its share of the partitions, and follows the owners of
//! all.
//!
//! ```text
//!          view ─▶ ┌────────────┐ ─▶ beats, proposals
//!         beats ─▶ │ Membership │
//!                  └─────┬──────┘ who is alive, who owns what
//!                        ▼
//! log, snapshots ─▶ ┌─────────┐ ── messages ─▶ all nodes, this one too
//!       reports ─▶  │ Owner   │ × partitions   ─▶ what a death appends, snapshots
//!                   └─────────┘
//!      messages ─▶ ┌─────────┐
//!                  │ Replica │ ─▶ reports     and the node's tables
//!                  └─────────┘
//! ```
//!
//! A machine without I/O: whoever drives it hands in what came and the time, and does what it is told by [`Action`]s.

mod calls;
mod keeping;
mod lost;
mod ownership;
mod packet;
mod reports;
mod reshaping;
mod tenures;

pub use crate::distribution::Applied;
pub use keeping::{REPLAY, SNAPSHOT_AGE};
pub use packet::Packet;
pub use reports::REPORT_EVERY;

use crate::calls::{Answer, Desk};
use crate::distribution::{Message, Replica, Tables, Trouble};
use crate::engine::{Entry, Revision, Snapshot};
use crate::lease::LeaseTimes;
use crate::membership::{self, Beat, Fitness, Membership, View};
use crate::partition::{EntryError, Partition};
use crate::record::{Call, Closure, Repin, Reshape};
use crate::shape::{Known, Shape};
use crate::version::Version;
use keeping::Keeping;
use ownership::Ownership;
use reports::Early;
use scalebricks_types::{NodeId, PartitionCount, PartitionId, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenures::KnownTenures;

/// Time between two looks at all partitions that are this node's; those to which something happened are looked at every time.
const SWEEP_EVERY: Duration = Duration::from_millis(5);

/// What a node has to do.
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
    /// Ask for the last position of a partition's log, restore its newest snapshot, or begin with an empty one, and hand both to
    /// [`Agent::restored`]; then hand all entries behind it to [`Agent::entry`], until told to stop.
    Load(PartitionId),
    /// Stop that: the partition is another's.
    Unload(PartitionId),
    /// Append this to the partition's log, until it is there, and say so by [`Agent::repinned`].
    Repin(PartitionId, Repin),
    /// Append these to the partition's log, in this order, until they are there, and say so by [`Agent::closed`].
    Close(PartitionId, Vec<Closure>),
    /// Append to the partition's log that its bits get this shape, until it is there, and say so by [`Agent::reshaped`].
    Reshape(PartitionId, Reshape),
    /// Swap the record of the table's shape, if it is still at this revision, for this one.
    ProposeShape(Revision, Shape),
    /// Append these calls to the partition's log, as a batch of their own or with others, once, and say by [`Agent::not_logged`] if
    /// they are not there and never will be.
    Append(PartitionId, Vec<Call>),
    /// Tell a node, which may be this one, what became of its calls to a partition.
    Answer(NodeId, PartitionId, Vec<Answer>),
    /// Keep this snapshot, read it back, and trim the log below it; say by [`Agent::kept`] what came of it. No other is asked for
    /// before.
    Keep(PartitionId, Snapshot),
    /// A node says that it is at this position, which its partition's owner has not come to: read from the one behind it, and if the
    /// engine says that the log ends before ([`ReadError::Ahead`](crate::engine::ReadError::Ahead)), tell [`Agent::log_ends`].
    Confirm(PartitionId, Position),
}

/// How it went so far.
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
    /// Keys that its FIB had no room for when they came.
    pub shed: u64,
    /// Calls that were not logged, by this node as their partition's owner.
    pub calls_refused: u64,
    /// Partitions whose entries in the FIB here were found to be wrong, and loaded anew.
    pub fib_astray: u64,
    /// Times that the GPT had to begin anew, as its shape was none that the cluster is in.
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
    early: Early,
    tenures: KnownTenures,
    /// The record of the table's shape; `None` until it is known.
    shape: Option<Known>,
    /// How often the GPT refused what it should take, since when.
    out_of_shape: (u32, Duration),
    /// Partitions whose owner is to hear at once where this node is, and who said what led there.
    to_report: BTreeSet<(NodeId, PartitionId)>,
    next_report: Duration,
    keeping: Keeping,
    actions: Vec<Action>,
    /// Where calls come in, for partitions that are this node's, or were: what was handed over to be logged then may be so yet.
    desks: BTreeMap<PartitionId, Desk>,
    /// What callers are to be told.
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
            early: Early::default(),
            tenures: KnownTenures::default(),
            shape: None,
            out_of_shape: (0, now),
            to_report: BTreeSet::new(),
            next_report: now,
            keeping: Keeping::default(),
            actions: Vec::new(),
            desks: BTreeMap::new(),
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

    /// The version that packets are to be encoded in: see [`View::spoken`].
    pub fn spoken(&self) -> Version {
        self.membership.view().spoken().min(Version::NEWEST)
    }

    /// Which node it is.
    pub const fn node(&self) -> NodeId {
        self.me
    }

    /// Who is alive and owns what, as this node knows it.
    pub const fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Its tables, and how far they are.
    pub const fn replica(&self) -> &Replica<T> {
        &self.replica
    }

    /// How it went so far.
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

    /// Waits so long, when a node was removed, before keys that it may still forward go to other flows. See [`crate::lease`].
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

    /// Whether the tables hold all that they are to hold, as the owners of all partitions told it in this life: a node that is
    /// not there yet should not be sent packets from outside.
    pub fn has_caught_up(&self) -> bool {
        self.membership.is_in()
            && (0..self.partitions.get()).all(|at| self.replica.has_caught_up(PartitionId(at as u16)))
    }

    /// The record of membership is now this one.
    pub fn viewed(&mut self, revision: Revision, view: View, now: Duration) {
        let before = self.membership.view().epoch();
        self.membership.viewed(revision, view, now);
        if self.membership.view().epoch() != before {
            // Owners may have changed, and this node's life: they wait for a word.
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
                self.owned.insert(partition, Ownership::new(self.keeping.limits));
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

    /// A partition that was to be loaded, in the state of a snapshot or of no entry, and the last position of its log: nobody
    /// hears anything of it before it is there. Whether it is still wanted: its log then.
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
            Err(error @ EntryError::Newer { .. }) => {
                self.owned.insert(partition, Ownership::new(self.keeping.limits));
                self.actions.push(Action::Unload(partition));
                Err(error)
            }
        }
    }

    /// The log or the snapshot of a partition could not be read, or was trimmed away: to be loaded anew.
    pub fn reload(&mut self, partition: PartitionId) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            *ownership = Ownership::new(self.keeping.limits);
            self.actions.push(Action::Load(partition));
        }
    }

    /// An [`Action::Repin`] is in the log.
    pub fn repinned(&mut self, partition: PartitionId, from: NodeId) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            ownership.repinned(from);
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

    /// An owner speaks. It hears at once what came of it, and so does who owns the partition by the view, if that is another.
    fn message(&mut self, from: NodeId, message: &Message, now: Duration) {
        let partition = message.partition();
        match self.replica.receive(message, now) {
            Ok(false) => return,
            Ok(true) => {}
            Err(Trouble::Gap(..)) => self.stats.gaps += 1,
            Err(Trouble::Astray(_)) => self.stats.astray += 1,
            Err(Trouble::FibAstray(_)) => self.stats.fib_astray += 1,
            Err(Trouble::Rewound(..)) => self.stats.rewound += 1,
            Err(Trouble::Gpt(_)) => {
                self.stats.refused += 1;
                self.refused_by_gpt(now);
            }
            Err(Trouble::Piece(_) | Trouble::NoPartition(_)) => self.stats.refused += 1,
        }
        let Some(partition) = partition else { return };
        self.to_report.insert((from, partition));
        if let Some(owner) = self.membership.view().owner(partition) {
            self.to_report.insert((owner, partition));
        }
    }

    /// What is to be done now. To be called every few milliseconds, and after everything that came.
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
        if self.spoken() >= Version::PIECES && self.replica.sweep(now) {
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

    /// Works on the partitions that are this node's. What is for the node itself arrives at once, and so does its answer: FIB,
    /// bits and the word that all have them may be three rounds.
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
            for repin in ownership.repins(view, &self.tenures.placement, now) {
                self.stats.repins += 1;
                actions.push(Action::Repin(partition, repin));
            }
            let closures = ownership.closures(view, now);
            if !closures.is_empty() {
                self.stats.repins += closures.len() as u64;
                actions.push(Action::Close(partition, closures));
            }
        }
        self.keep_old(&looked_at, now);
    }
}
