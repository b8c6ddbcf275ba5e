//! A node's tables, as they follow the owners of all partitions.

use super::message::{Digest, FibPiece, GptPiece, Message, Report, Rewind, Sweep, Target};
use super::overflow::Overflow;
use super::reassembly::{DeltaReassembly, FibReassembly, Piece};
use super::room::FibRoom;
use crate::partition::FibUpdate;
use scalebricks_tables::compact::Params;
use scalebricks_tables::fib::{FibDigest, FibOp};
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::{Applied, ApplyError, Delta, FlowKey, PartitionCount, PartitionId, Position};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Time between two tries to put keys into a FIB that was full.
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// Time between two sweeps of a node's FIB, each of which reads all of its entries.
pub const FIB_SWEEP_EVERY: Duration = Duration::from_secs(4);

/// A partition with more keys that have left and are still held is not swept until they are removed.
const MOST_LEAVING: usize = 1 << 14;

/// Bytes of deltas that come in pieces, of all partitions. Beyond it those of all others are dropped, and come again.
const MOST_DELTA_BYTES: usize = 128 << 20;

/// The tables of a node.
pub trait Tables {
    /// Restarts the GPT: no keys, this shape, the same partitions.
    fn begin(&mut self, params: Params);

    /// Applies a delta to the GPT.
    ///
    /// # Errors
    /// Those of the GPT; nothing is then changed.
    fn apply_gpt(&mut self, delta: &Delta) -> Result<Applied, ApplyError>;

    /// Where a partition's bits in the GPT are, and their digest; `None` if they have none now.
    fn digest(&self, partition: PartitionId) -> Option<(Position, u32)>;

    /// Restarts a partition's bits: they answer as before, and the next delta must contain all of them.
    fn forget(&mut self, partition: PartitionId);

    /// Sets a key in the FIB, new or existing.
    ///
    /// # Errors
    /// Those of the FIB; nothing is then changed.
    fn set(&mut self, key: &FlowKey, value: FibValue) -> Result<(), FibError>;

    /// Removes a key from the FIB, if it is there.
    fn remove(&mut self, key: &FlowKey);

    /// The FIB's keys of a partition.
    fn keys(&self, partition: PartitionId) -> Vec<FlowKey>;

    /// How full the FIB is; nothing counts as shed here.
    fn room(&self) -> FibRoom {
        FibRoom::UNLIMITED
    }

    /// The digests of the entries that the FIB really holds, as the log has their values, by partition. Reads all of them.
    fn fib_digests(&self) -> Vec<FibDigest>;

    /// The digest of the entry that the FIB really holds for a key; that of nothing if it holds none.
    fn entry_digest(&self, key: &FlowKey) -> FibDigest;

    /// Entries of a partition were wrong, and have all been set again or removed.
    fn mended(&mut self, _partition: PartitionId) {}
}

/// Why a message had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// Something before it is missing: the owner sends it when it sees the node's report.
    #[error("partition {} is at {}, an update begins at {}", .0.0, .1.0, .2.0)]
    Gap(PartitionId, Position, Position),
    /// The GPT refused it.
    #[error("the GPT refused a delta: {0}")]
    Gpt(ApplyError),
    /// The bits differ from the owner's at the same position. They are replaced.
    #[error("partition {}: the GPT's bits are wrong", .0.0)]
    Astray(PartitionId),
    /// The FIB's entries differ from the owner's at the position of the last sweep. They are loaded again.
    #[error("partition {}: the FIB's entries are wrong", .0.0)]
    FibAstray(PartitionId),
    /// A piece that can be of no image.
    #[error("partition {}: a piece of no image", .0.0)]
    Piece(PartitionId),
    /// The log ends before the state of these tables: they are filled again.
    #[error("partition {}: its log ends at {}, and the tables are at {}", .0.0, .1.0, .2.0)]
    Rewound(PartitionId, Position, Position),
    /// There is no such partition.
    #[error("there is no partition {}", .0.0)]
    NoPartition(PartitionId),
}

/// A partition, as this node has it.
#[derive(Debug, Default)]
struct Share {
    fib: Position,
    whole: Position,
    gpt: Position,
    again: u32,
    /// Whole FIBs that were applied in this process.
    wholes: u32,
    /// A whole FIB that is coming.
    fib_parts: Option<FibReassembly>,
    /// A long delta that is coming.
    gpt_parts: Option<DeltaReassembly>,
    sweep: Sweep,
    /// The newest target of this life.
    target: Option<Target>,
    /// The newest bits when the owner sent its first target of this life: the node has not caught up before it has them. The bits of
    /// the target alone may be older, while other nodes lack keys that newer bits name.
    goal: Option<Position>,
    /// Whether it was there once in this life. While updates come, it always has a few before it.
    has_caught_up: bool,
    /// Whether it ever had. Before that, no node that knows the settled position sends packets here for a key that had left.
    was_there: bool,
    /// Keys that have left, with the entry that took them away. A key that comes back leaves the list.
    leaving: HashMap<FlowKey, Position>,
    /// Updates by which keys left, with the FIB's position before: entries from there on may have removed the keys.
    left_from: VecDeque<(Position, Position)>,
    /// The same in the order of entries, until all nodes have the bits.
    unsettled: VecDeque<(Position, Vec<FlowKey>)>,
    /// Keys that the FIB has no room for.
    shed: Overflow,
    /// Keys that left, with the time from which no node can send packets for them here.
    settled: VecDeque<(Duration, Position, Vec<FlowKey>)>,
}

impl Share {
    /// The position up to which the FIB holds no removed key.
    fn let_go(&self) -> Position {
        let Some(target) = self.target else { return Position(0) };
        // Removals that settled before this node joined may be in updates that it does not have.
        let settled = if self.fib >= target.fib { target.settled } else { target.settled.min(self.fib) };
        let from = self.first_held().map(|held| {
            let from = self.left_from.iter().find(|(at, _)| *at == held);
            from.map_or(Position(0), |(_, from)| *from)
        });
        from.map_or(settled, |from| settled.min(from))
    }

    /// The first update by which keys left that are still held.
    fn first_held(&self) -> Option<Position> {
        let settled = self.settled.front().map(|(_, at, _)| *at);
        settled.or_else(|| self.unsettled.front().map(|(at, _)| *at))
    }

    /// Forgets updates by which no key left that is still held.
    fn forget_left(&mut self) {
        let held = self.first_held();
        while self.left_from.front().is_some_and(|(at, _)| held.is_none_or(|held| *at < held)) {
            self.left_from.pop_front();
        }
    }
}

/// A node's tables and their positions. See the [module](super).
#[derive(Debug)]
pub struct Replica<T> {
    tables: T,
    shares: Vec<Share>,
    grace: Duration,
    life: u64,
    sweep_every: Duration,
    next_sweep: Option<Duration>,
    /// Keys that the FIB has no room for now, of all partitions.
    shedding: usize,
    /// Keys that the FIB had no room for when they came, ever.
    shed: u64,
    /// Keys that no FIB can hold.
    refused: u64,
    next_retry: Duration,
}

impl<T: Tables> Replica<T> {
    /// Empty tables of this incarnation, whose number is higher than those before. `grace` is the longest time that a packet takes
    /// from the GPT of one node to the FIB of another.
    pub fn new(tables: T, partitions: PartitionCount, grace: Duration, life: u64) -> Self {
        let shares = (0..partitions.get()).map(|_| Share::default()).collect();
        Self {
            tables,
            shares,
            grace,
            life,
            sweep_every: FIB_SWEEP_EVERY,
            next_sweep: None,
            shedding: 0,
            shed: 0,
            refused: 0,
            next_retry: Duration::ZERO,
        }
    }

    /// The same with another time between two sweeps than [`FIB_SWEEP_EVERY`].
    #[must_use]
    pub const fn sweeping_every(mut self, time: Duration) -> Self {
        self.sweep_every = time;
        self
    }

    /// The tables.
    pub const fn tables(&self) -> &T {
        &self.tables
    }

    /// The tables, for tests that change them without their owners.
    pub const fn tables_mut(&mut self) -> &mut T {
        &mut self.tables
    }

    /// The last GPT delta applied of a partition; `None` if there is no such partition.
    pub fn gpt_position(&self, partition: PartitionId) -> Option<Position> {
        Some(self.shares.get(usize::from(partition.0))?.gpt)
    }

    /// Where a partition is; `None` if there is no such partition.
    pub fn report(&self, partition: PartitionId) -> Option<Report> {
        let share = self.shares.get(usize::from(partition.0))?;
        let Share { fib, whole, gpt, again, wholes, sweep, .. } = *share;
        let fib_part = share.fib_parts.as_ref().map(FibReassembly::part).unwrap_or_default();
        let gpt_part = share.gpt_parts.as_ref().map(DeltaReassembly::part).unwrap_or_default();
        let room = FibRoom { shed: self.shedding() as u64, ..self.tables.room() };
        Some(Report {
            partition,
            life: self.life,
            fib,
            whole,
            gpt,
            again,
            wholes,
            fib_part,
            gpt_part,
            sweep,
            room,
            let_go: share.let_go(),
        })
    }

    /// Keys that are this node's, and that its FIB has no room for now.
    pub const fn shedding(&self) -> usize {
        self.shedding
    }

    /// Keys that the FIB had no room for when they came, and keys that no FIB can hold; ever.
    pub const fn sheds(&self) -> (u64, u64) {
        (self.shed, self.refused)
    }

    /// Begins another life with the tables as they are, as a node does that was held for dead and was not.
    pub fn live(&mut self, life: u64) {
        if self.life != life {
            self.life = life;
            self.shares.iter_mut().for_each(|share| {
                (share.target, share.goal, share.has_caught_up) = (None, None, false);
            });
        }
    }

    /// Restarts the GPT in this shape: its bits are arbitrary until the owners have sent all of them.
    pub fn begin(&mut self, params: Params) {
        self.tables.begin(params);
        for share in &mut self.shares {
            (share.gpt, share.again, share.has_caught_up) = (Position(0), share.again + 1, false);
            share.gpt_parts = None;
        }
    }

    /// The newest target of a partition in this life.
    pub fn target(&self, partition: PartitionId) -> Option<Target> {
        self.shares.get(usize::from(partition.0))?.target
    }

    /// Whether this node reached the target of a partition in this life.
    pub fn has_caught_up(&self, partition: PartitionId) -> bool {
        self.shares.get(usize::from(partition.0)).is_some_and(|share| share.has_caught_up)
    }

    /// Keys that have left and are still held.
    pub fn leaving(&self) -> usize {
        self.shares.iter().map(|share| share.leaving.len()).sum()
    }

    /// Whether a key of this partition has left and is still held.
    pub fn is_leaving(&self, partition: PartitionId, key: &FlowKey) -> bool {
        self.shares.get(usize::from(partition.0)).is_some_and(|share| share.leaving.contains_key(key))
    }

    /// Handles an owner's message. Whether it changed anything.
    ///
    /// # Errors
    /// [`ReplicaError`], to be counted: the owner repeats the message.
    pub fn receive(&mut self, message: &Message, now: Duration) -> Result<bool, ReplicaError> {
        let outcome = self.act_on(message, now);
        if let Some(share) = message.partition().and_then(|at| self.shares.get_mut(usize::from(at.0))) {
            // Bits older than a whole FIB may name this node for keys that have left before it.
            let is_there = |target: Target| {
                let goal = share.goal.unwrap_or_default().max(target.gpt);
                share.fib >= target.fib && share.gpt >= goal && target.settled >= share.whole
            };
            share.has_caught_up = share.has_caught_up || share.target.is_some_and(is_there);
            share.was_there |= share.has_caught_up;
        }
        outcome
    }

    fn act_on(&mut self, message: &Message, now: Duration) -> Result<bool, ReplicaError> {
        match message {
            Message::Fib(update) => self.fib(update),
            Message::Gpt(deltas) => {
                deltas.iter().try_fold(false, |is_news, delta| Ok(self.gpt(delta)? || is_news))
            }
            Message::Target(target) => self.aim(target, now),
            Message::Digest(digest) => self.compare(*digest),
            Message::FibPiece(piece) => self.fib_piece(piece),
            Message::GptPiece(piece) => self.gpt_piece(piece),
            Message::Rewind(rewind) => self.rewind(*rewind),
        }
    }

    /// Forgets the position of a partition. The FIB keeps its entries, and the bits answer as before, until the whole of both has
    /// arrived: correct entries stay in use.
    fn rewind(&mut self, Rewind { partition, life, again, last }: Rewind) -> Result<bool, ReplicaError> {
        let is_mine = self.life == life;
        let here = self.report(partition).ok_or(ReplicaError::NoPartition(partition))?;
        if !is_mine || here.again != again || here.furthest() <= last {
            return Ok(false);
        }
        self.tables.forget(partition);
        let share = self.share(partition)?;
        // Which keys have left is decided by the whole FIB: the entries that took them away may be void.
        let shed = share.shed.len();
        let (wholes, sweep, was_there) = (share.wholes, share.sweep, share.was_there);
        *share = Share { again: again.saturating_add(1), wholes, sweep, was_there, ..Share::default() };
        self.shedding -= shed;
        Err(ReplicaError::Rewound(partition, last, here.furthest()))
    }

    fn share(&mut self, partition: PartitionId) -> Result<&mut Share, ReplicaError> {
        self.shares.get_mut(usize::from(partition.0)).ok_or(ReplicaError::NoPartition(partition))
    }

    fn fib(&mut self, update: &FibUpdate) -> Result<bool, ReplicaError> {
        let share = self.share(update.partition)?;
        let have = share.fib;
        // While an image arrives, some keys are newer than others: updates continue when it is complete.
        if update.position <= have || share.fib_parts.is_some() {
            return Ok(false);
        }
        if update.previous > have {
            return Err(ReplicaError::Gap(update.partition, have, update.previous));
        }
        let sets = update.ops.iter().filter_map(|op| match op {
            FibOp::Set(key, value) => Some((key, *value)),
            FibOp::Delete(_) => None,
        });
        self.set_all(update.partition, sets)?;
        let deleted = update.ops.iter().filter_map(|op| match op {
            FibOp::Set(..) => None,
            FibOp::Delete(key) => Some(*key),
        });
        let deleted = deleted.collect();
        self.leave(update.partition, update.position, deleted)
    }

    /// Handles a piece of a whole FIB. Sets its keys at once; the keys to remove are known when all pieces have arrived.
    fn fib_piece(&mut self, piece: &FibPiece) -> Result<bool, ReplicaError> {
        let partition = piece.partition;
        let share = self.share(partition)?;
        let mends = piece.wrong > 0 && piece.wrong == share.sweep.number;
        let was_coming = share.fib_parts.as_ref().map(|reassembly| reassembly.mends);
        let sorted = FibReassembly::sort(share.fib_parts.as_ref(), piece, share.fib, mends);
        match sorted {
            Piece::Stale => return Ok(false),
            Piece::Malformed => return Err(ReplicaError::Piece(partition)),
            Piece::Gap => {
                let have = share.fib_parts.as_ref().map_or(share.fib, |reassembly| reassembly.part().at);
                return Err(ReplicaError::Gap(partition, have, piece.position));
            }
            Piece::First => {
                let held = self.known(partition)?;
                let reassembly = FibReassembly::begin(piece, mends || was_coming == Some(true), held);
                self.share(partition)?.fib_parts = Some(reassembly);
            }
            Piece::Next => {}
        }
        let sets = piece.entries.iter().map(|(key, value)| (key, *value));
        self.set_all(partition, sets)?;
        let share = self.share(partition)?;
        let Some(reassembly) = &mut share.fib_parts else { return Ok(false) };
        for (key, _) in &piece.entries {
            reassembly.unconfirmed.remove(key);
        }
        if reassembly.advance(piece.entries.len()) {
            let mends = reassembly.mends;
            let gone =
                share.fib_parts.take().into_iter().flat_map(|reassembly| reassembly.unconfirmed).collect();
            self.has_all(partition, piece.position, gone)?;
            if mends {
                self.tables.mended(partition);
            }
        }
        let is_found = sorted == Piece::First && mends && was_coming.is_none();
        if is_found { Err(ReplicaError::FibAstray(partition)) } else { Ok(true) }
    }

    /// A whole FIB has arrived, and these keys are not in it.
    fn has_all(
        &mut self,
        partition: PartitionId,
        at: Position,
        gone: Vec<FlowKey>,
    ) -> Result<bool, ReplicaError> {
        let share = self.share(partition)?;
        share.whole = at;
        share.wholes += 1;
        share.fib_parts = None;
        // A sweep from before asks for no second image.
        share.sweep.number += 1;
        share.sweep.at = Position(u64::MAX);
        self.leave(partition, at, gone)
    }

    /// The keys of a partition that the FIB holds, or should hold and has no room for.
    fn known(&mut self, partition: PartitionId) -> Result<Vec<FlowKey>, ReplicaError> {
        let mut keys = self.tables.keys(partition);
        keys.extend(self.share(partition)?.shed.keys());
        Ok(keys)
    }

    /// Puts keys into the FIB. Those that find no room are kept for later, and nothing else waits for them.
    fn set_all<'a>(
        &mut self,
        partition: PartitionId,
        sets: impl IntoIterator<Item = (&'a FlowKey, FibValue)>,
    ) -> Result<(), ReplicaError> {
        let at = usize::from(partition.0);
        let share = self.shares.get_mut(at).ok_or(ReplicaError::NoPartition(partition))?;
        self.shedding -= share.shed.len();
        for (key, value) in sets {
            match share.shed.set(&mut self.tables, key, value) {
                Some(true) => {}
                Some(false) => self.shed += 1,
                None => self.refused += 1,
            }
            share.leaving.remove(key);
        }
        self.shedding += share.shed.len();
        Ok(())
    }

    /// Ends a FIB update: these keys are not this node's any longer.
    fn leave(
        &mut self,
        partition: PartitionId,
        position: Position,
        gone: Vec<FlowKey>,
    ) -> Result<bool, ReplicaError> {
        let at = usize::from(partition.0);
        let share = self.shares.get_mut(at).ok_or(ReplicaError::NoPartition(partition))?;
        let from = std::mem::replace(&mut share.fib, position);
        self.shedding -= share.shed.len();
        for key in &gone {
            share.shed.forget(key);
        }
        self.shedding += share.shed.len();
        if !share.was_there && share.target.is_some_and(|target| position <= target.settled) {
            // The log is read again: these keys left before this node joined.
            for key in &gone {
                share.leaving.remove(key);
                self.tables.remove(key);
            }
        } else if !gone.is_empty() {
            share.leaving.extend(gone.iter().map(|key| (*key, position)));
            share.left_from.push_back((position, from));
            share.unsettled.push_back((position, gone));
        }
        Ok(true)
    }

    fn gpt(&mut self, delta: &Delta) -> Result<bool, ReplicaError> {
        let have = self.share(delta.partition)?.gpt;
        match self.tables.apply_gpt(delta) {
            Ok(Applied::Advanced) => {
                self.share(delta.partition)?.gpt = delta.position;
                Ok(true)
            }
            Ok(Applied::Stale) => Ok(false),
            Err(ApplyError::Gap { .. }) => Err(ReplicaError::Gap(delta.partition, have, delta.previous)),
            Err(error) => Err(ReplicaError::Gpt(error)),
        }
    }

    /// Handles a piece of a delta, which is applied when it is complete.
    fn gpt_piece(&mut self, piece: &GptPiece) -> Result<bool, ReplicaError> {
        let partition = piece.partition;
        let share = self.share(partition)?;
        match DeltaReassembly::sort(share.gpt_parts.as_ref(), piece, share.gpt) {
            Piece::Stale => return Ok(false),
            Piece::Malformed => return Err(ReplicaError::Piece(partition)),
            Piece::Gap => return Err(ReplicaError::Gap(partition, share.gpt, piece.previous)),
            Piece::First => share.gpt_parts = Some(DeltaReassembly::begin(piece)),
            Piece::Next => {}
        }
        let Some(reassembly) = &mut share.gpt_parts else { return Ok(false) };
        if reassembly.advance(&piece.part) {
            let delta = Delta::decode(reassembly.have());
            share.gpt_parts = None;
            let delta = delta.ok().filter(|delta| {
                (delta.partition, delta.position, delta.previous)
                    == (partition, piece.position, piece.previous)
            });
            self.gpt(&delta.ok_or(ReplicaError::Piece(partition))?)?;
        } else {
            self.bound_deltas(partition);
        }
        Ok(true)
    }

    /// Deltas in pieces take only so much memory.
    fn bound_deltas(&mut self, newest: PartitionId) {
        let bytes = |share: &Share| share.gpt_parts.as_ref().map_or(0, |reassembly| reassembly.have().len());
        if self.shares.iter().map(bytes).sum::<usize>() > MOST_DELTA_BYTES {
            let others = self.shares.iter_mut().enumerate().filter(|(at, _)| *at != usize::from(newest.0));
            others.for_each(|(_, share)| share.gpt_parts = None);
        }
    }

    /// If a sweep is due, reads all entries of the FIB and notes their digests for the owners to compare. Whether it did.
    ///
    /// Cost: about 0.1 µs per entry, and a lookup for each key that has left and is still held.
    pub fn sweep(&mut self, now: Duration) -> bool {
        if self.next_sweep.is_none_or(|next| now < next) {
            self.next_sweep.get_or_insert(now + self.sweep_every);
            return false;
        }
        self.next_sweep = Some(now + self.sweep_every);
        for (share, mut digest) in self.shares.iter_mut().zip(self.tables.fib_digests()) {
            // Keys without room are known to be missing.
            let is_at_rest = share.fib_parts.is_none() && share.shed.len() == 0;
            if !is_at_rest || share.leaving.len() > MOST_LEAVING {
                continue;
            }
            for key in share.leaving.keys() {
                digest -= self.tables.entry_digest(key);
            }
            share.sweep = Sweep { number: share.sweep.number + 1, at: share.fib, digest };
        }
        true
    }

    /// Finds out whether the bits are those of the owner.
    fn compare(&mut self, theirs: Digest) -> Result<bool, ReplicaError> {
        let partition = theirs.partition;
        let here = self.share(partition)?.gpt;
        let is_astray = here == theirs.gpt
            && self
                .tables
                .digest(partition)
                .is_some_and(|(at, digest)| at == theirs.gpt && digest != theirs.digest);
        if !is_astray {
            return Ok(false);
        }
        self.tables.forget(partition);
        let share = self.share(partition)?;
        (share.gpt, share.again) = (Position(0), share.again + 1);
        share.gpt_parts = None;
        Err(ReplicaError::Astray(partition))
    }

    fn aim(&mut self, target: &Target, now: Duration) -> Result<bool, ReplicaError> {
        let (grace, life) = (self.grace, self.life);
        let share = self.share(target.partition)?;
        let due = if share.was_there { now + grace } else { now };
        if target.again != share.again {
            return Ok(false);
        }
        if target.life == life {
            // Another owner's target may be older.
            share.goal.get_or_insert(target.newest);
            let before = share.target.unwrap_or(*target);
            share.target = Some(Target {
                settled: target.settled.max(before.settled),
                fib: target.fib.max(before.fib),
                gpt: target.gpt.max(before.gpt),
                ..*target
            });
        }
        // All nodes that count as alive have the bits. A node that was removed may be none of them.
        let has_bits = share.gpt >= target.gpt;
        let gpt = share.gpt;
        let is_settled = |at: Position| at <= target.settled && (has_bits || at <= gpt);
        let mut is_news = false;
        while share.unsettled.front().is_some_and(|(at, _)| is_settled(*at)) {
            let settled = share.unsettled.pop_front().map(|(at, keys)| (due, at, keys));
            share.settled.extend(settled);
            is_news = true;
        }
        Ok(is_news)
    }

    /// Removes keys that left and that no node asks for any longer, and returns their number. Retries keys that found no room.
    pub fn poll(&mut self, now: Duration) -> usize {
        let mut dropped = 0;
        if self.shedding > 0 && now >= self.next_retry {
            self.next_retry = now + RETRY_EVERY;
            let (tables, shares) = (&mut self.tables, &mut self.shares);
            // Until the FIB is full again.
            let _all_are_in = shares.iter_mut().all(|share| share.shed.retry(tables));
            self.shedding = shares.iter().map(|share| share.shed.len()).sum();
        }
        for share in &mut self.shares {
            while share.settled.front().is_some_and(|(due, ..)| *due <= now) {
                let Some((_, at, keys)) = share.settled.pop_front() else { break };
                for key in keys {
                    // It may have come back, or left again.
                    if share.leaving.get(&key) == Some(&at) {
                        share.leaving.remove(&key);
                        self.tables.remove(&key);
                        dropped += 1;
                    }
                }
            }
            share.forget_left();
        }
        dropped
    }

    /// When [`Self::poll`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.shares.iter().filter_map(|share| share.settled.front().map(|(due, ..)| *due)).min()
    }
}
