//! The owner of a partition: applies its log, and brings every node's tables to it.

use super::bulk::{FibTransfer, GptTransfer};
use super::message::{Digest, Message, Report, Rewind, Target};
use super::node::{Node, Repeated, Sending};
use super::rebinding::Rebinding;
use super::recent::{CatchUp, NodeUpdate, Recent, bytes_of_delta};
use super::transfer::Limits;
use crate::engine::Entry as LogEntry;
use crate::partition::{Effects, EntryError, Judged, Outcome, Partition, Void};
use crate::record::Change;
use scalebricks_tables::fib::{FibDigest, FibOp};
use scalebricks_types::{Delta, NodeId, Position};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a node has to report an update before it is sent again.
pub const RESEND: Duration = Duration::from_millis(200);

/// Time between two comparisons of a partition's bits at all nodes.
pub const COMPARE_EVERY: Duration = Duration::from_secs(10);

/// The result of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// As a whole.
    pub outcome: Outcome,
    /// Changes of it that did nothing, by their number.
    pub voids: Vec<(u32, Void)>,
    /// The verdicts of its calls.
    pub calls: Vec<Judged>,
}

/// A rewind is sent as an update to this position, and repeated until the node has restarted the partition.
const REWIND: Position = Position(1);

/// All bits of a partition, for nodes that need them. They are those of the newest entry, and may go out when that may; while
/// entries come without end, that is never, so they are kept until the entry that was the newest may.
#[derive(Debug)]
struct Whole(Option<Delta>);

impl Whole {
    /// The bits, if some may go out now: behind all FIBs that were given as a whole.
    fn get(&mut self, partition: &Partition, released: Position, wholes: Position) -> Option<Delta> {
        if partition.gpt_position() <= released {
            self.0 = None;
            return partition.gpt();
        }
        match self.0.take_if(|kept| kept.position <= released || kept.position < wholes) {
            Some(kept) if kept.position >= wholes => Some(kept),
            _ => {
                self.0 = self.0.take().or_else(|| partition.gpt());
                None
            }
        }
    }
}

/// The owner of a partition. See the [module](super).
#[derive(Debug)]
pub struct Owner {
    partition: Partition,
    /// Those that are alive.
    nodes: BTreeMap<NodeId, Node>,
    recent: Recent,
    limits: Limits,
    settled: Position,
    /// The last entry that may have changed the shape of the bits.
    shaped: Position,
    /// The number of the last change of shape that all nodes have made.
    shapes: u32,
    next_digest: Duration,
    whole: Whole,
    /// Where the log was found to end when some node, or this owner, was further.
    rewound_to: Option<Position>,
    rebinding: Rebinding,
    /// Where the log was when the partition was loaded.
    loaded_to: Position,
}

impl Owner {
    /// The owner of a partition in the state that its log or a snapshot led to. Nothing is known of any node.
    pub fn new(partition: Partition) -> Self {
        Self::with_limits(partition, Limits::default())
    }

    /// The same with messages of other sizes.
    pub fn with_limits(partition: Partition, limits: Limits) -> Self {
        let shaped = partition.position();
        Self {
            partition,
            nodes: BTreeMap::new(),
            recent: Recent::new(),
            limits,
            settled: Position(0),
            shaped,
            shapes: 0,
            next_digest: Duration::ZERO,
            whole: Whole(None),
            rewound_to: None,
            rebinding: Rebinding::default(),
            loaded_to: Position(0),
        }
    }

    /// Sets the position that the log had when the partition was loaded. Call it before nodes join: a node of unknown state may
    /// forward by entries up to this position.
    pub const fn loaded_to(&mut self, last: Position) {
        self.loaded_to = last;
    }

    /// The partition.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// All tables contain the entries up to here, and no table names what they removed.
    pub const fn settled(&self) -> Position {
        self.settled
    }

    /// A node is alive in this life: nothing is settled without it. Reports of its earlier lives are forgotten.
    pub fn joined(&mut self, node: NodeId, life: u64) {
        match self.nodes.get(&node).map(|known| known.life) {
            Some(known) if known >= life => return,
            Some(_) => self.left(node),
            None => {}
        }
        self.nodes.insert(node, Node::new(life));
        let position = self.partition.position().max(self.loaded_to);
        self.rebinding.joined(node, position);
    }

    /// A node is dead, or was paused for so long that it counts as dead: nothing waits for it.
    ///
    /// It may forward by its old tables until its lease expires: see [`Owner::must_wait`].
    pub fn left(&mut self, node: NodeId) {
        let report = self.nodes.remove(&node).and_then(|known| known.report);
        let let_go = report.map_or(Position(0), |report| report.let_go);
        self.rebinding.removed(node, let_go);
    }

    /// Time passes. `wait`: how long a node that was removed may forward by the tables that it has, see
    /// [`LeaseTimes::rebind_after`](crate::lease::LeaseTimes::rebind_after).
    pub fn pass(&mut self, now: Duration, wait: Duration) {
        let let_go = |(node, known): (&NodeId, &Node)| {
            (*node, known.report.map_or(Position(0), |report| report.let_go))
        };
        self.rebinding.pass(now, wait, self.nodes.iter().map(let_go), &self.partition);
    }

    /// Whether a change has to wait: it gives a key to another flow than a removed node may forward the key for.
    ///
    /// Cost: two map accesses while a node is removed.
    pub fn must_wait(&self, change: &Change) -> bool {
        self.rebinding.waits(&self.partition, change)
    }

    /// The number of new keys of this partition that a node's FIB takes, beside logged ones; `None` if no limit is known.
    pub fn fib_room(&self, node: NodeId) -> Option<u64> {
        let known = self.nodes.get(&node)?;
        let room = known.report?.room;
        Some(room.share(self.nodes.len(), self.partition.params().partitions(), known.keys.keys()))
    }

    /// Applies the next entry of the log, and returns its result.
    ///
    /// # Errors
    /// [`EntryError`]; nothing is then changed.
    pub fn entry(&mut self, entry: &LogEntry) -> Result<Applied, EntryError> {
        let shape = self.partition.params();
        let Effects { outcome, gpt, fib, ended, voids, calls } = self.partition.apply(entry)?;
        self.rebinding.ended(entry.position, &ended);
        for (node, update) in &fib {
            if let Some(known) = self.nodes.get_mut(node) {
                let sets = update.ops.iter().filter(|op| matches!(op, FibOp::Set(..)));
                known.keys.bring(update.position, sets.count() as u64);
            }
        }
        if self.partition.params() != shape {
            self.shaped = entry.position;
        }
        let update = |(node, update)| NodeUpdate { node, update, digest: self.partition.fib_digest(node) };
        self.recent.push(entry.position, fib.into_iter().map(update).collect(), gpt);
        Ok(Applied { outcome, voids, calls })
    }

    /// Handles a node's report. Reports of nodes that are not alive, of other lives and of other partitions are ignored.
    pub fn report(&mut self, node: NodeId, report: Report) {
        if report.partition == self.partition.id()
            && let Some(known) = self.nodes.get_mut(&node).filter(|known| known.life == report.life)
        {
            // Reports overtake each other, and within a life a node never goes back.
            if known.report.is_none() && self.rewound_to.is_some_and(|last| report.furthest() > last) {
                known.rewound = Some(report.again);
            }
            known.heard(report);
            known.rewound = known.rewound.filter(|again| report.again <= *again);
        }
    }

    /// The highest reported position, if it is beyond the newest entry applied here. Another owner may be ahead of this one, or an
    /// older log may have replaced the log: the end of the log tells which.
    pub fn ahead(&self) -> Option<Position> {
        let reports = self.nodes.values().filter_map(|node| node.report);
        reports.map(|report| report.furthest()).max().filter(|furthest| *furthest > self.partition.position())
    }

    /// The log ends at `last`, before a position that a node reported or an owner applied: all later state in any table comes from
    /// lost entries. Nodes whose newest report, or first report still to come, is beyond `last` are sent a [`Rewind`].
    pub fn rewind(&mut self, last: Position) {
        self.rewound_to = Some(last);
        for node in self.nodes.values_mut() {
            let report = node.report.filter(|report| report.furthest() > last);
            node.rewound = report.map(|report| report.again).or(node.rewound);
        }
    }

    /// The messages to send now.
    pub fn messages(&mut self, now: Duration) -> Vec<(NodeId, Message)> {
        // What all nodes had is released, even if a node that is behind has come back since.
        let released = self.released().max(self.settled);
        let gpt_target = self.gpt_target(released);
        self.settle(released, gpt_target);
        if self.settled >= self.shaped {
            self.shapes = self.partition.shapes();
        }
        let shapes = self.shapes;
        let mut out = Vec::new();
        self.compare(now, &mut out);
        let wholes = self.wholes();
        let release = Release { released, wholes, gpt_target };
        let look = NodeContext {
            partition: &self.partition,
            recent: &self.recent,
            limits: &self.limits,
            shaped: self.shaped,
            now,
        };
        for (&number, node) in &mut self.nodes {
            let Some(report) = node.report else { continue };
            node.look(&report, now);
            let (partition, life) = (self.partition.id(), node.life);
            if let Some((again, last)) = node.rewound.zip(self.rewound_to) {
                if node.rewind.from(Position(0), REWIND, now).is_some() {
                    node.rewind.upto = REWIND;
                    out.push((number, Message::Rewind(Rewind { partition, life, again, last })));
                }
                continue;
            }
            // A whole FIB for a node that restarted the partition also shows which keys are absent: it covers all entries so far, not
            // only those that concern the node.
            let is_anew = report.needs_whole_fib();
            let fib_target =
                if is_anew { self.partition.position() } else { self.partition.fib_position(number) };
            let messages = look.fib(number, node, &report, fib_target);
            out.extend(messages.into_iter().map(|message| (number, message)));
            let messages = look.gpt(node, &report, &release, &mut self.whole);
            out.extend(messages.into_iter().map(|message| (number, message)));
            if node.settled.upto < self.settled || now >= node.settled.at + RESEND {
                let gpt = gpt_target.unwrap_or_else(|| self.partition.gpt_position());
                let settled = self.settled;
                let (room, keys) = (self.partition.room(), self.partition.len() as u64);
                let again = report.again;
                let (fib, newest) = (fib_target, self.partition.gpt_position());
                let target = Target { partition, life, settled, fib, gpt, room, keys, shapes, again, newest };
                out.push((number, Message::Target(target)));
                node.settled = Repeated { upto: self.settled, at: now };
            }
        }
        out
    }

    /// Periodically sends all nodes the digest of the bits, while all nodes are at this owner's position.
    fn compare(&mut self, now: Duration, out: &mut Vec<(NodeId, Message)>) {
        let (partition, gpt) = (self.partition.id(), self.partition.gpt_position());
        if now < self.next_digest || self.settled < gpt {
            return;
        }
        // Not all partitions at the same time, and none as soon as it is loaded.
        let offset = COMPARE_EVERY * u32::from(partition.0 % 64) / 64;
        let is_first = self.next_digest == Duration::ZERO;
        self.next_digest = now + if is_first { offset } else { COMPARE_EVERY };
        if is_first {
            return;
        }
        let Some(digest) = self.partition.digest() else { return };
        let digest = Digest { partition, gpt, digest };
        out.extend(self.nodes.keys().map(|&node| (node, Message::Digest(digest))));
    }

    /// The last entry whose bits may be sent: the FIBs of all living nodes contain the entries up to it.
    fn released(&self) -> Position {
        let reports = || self.nodes.values().filter_map(|node| node.report);
        if reports().any(|report| report.fib > self.partition.position()) {
            // Another owner is ahead of this one, and this one does not know what that owner sent.
            return self.settled;
        }
        let limit = |(&number, node): (&NodeId, &Node)| {
            let Some(report) = node.report else { return self.settled };
            if report.fib >= self.partition.fib_position(number) {
                return self.partition.position();
            }
            let missing = self.recent.updates(number, report.fib).next();
            // Unless one before it is missing, too, that is no longer kept.
            let missing = missing.filter(|update| update.previous <= report.fib);
            missing.map_or(report.fib, |update| Position(update.position.0 - 1))
        };
        self.nodes.iter().map(limit).min().unwrap_or_else(|| self.partition.position())
    }

    /// The newest of the FIBs that were given as a whole.
    fn wholes(&self) -> Position {
        let reports = self.nodes.values().filter_map(|node| node.report);
        reports.map(|report| report.whole).max().unwrap_or_default()
    }

    /// The position of the last delta that may go out; `None` if it is older than all that are kept.
    fn gpt_target(&self, released: Position) -> Option<Position> {
        // A FIB that was given as a whole lacks keys that came and left before. Bits in between, which would name its node for
        // them, must not be sent alone.
        if self.wholes() > released {
            return None;
        }
        let newest = self.partition.gpt_position();
        if newest <= released {
            return Some(newest);
        }
        // The oldest kept delta names its predecessor.
        let oldest = self.recent.oldest_delta().map(|delta| delta.previous);
        let kept = self.recent.deltas_back().find(|delta| delta.position <= released);
        let kept = kept.map(|delta| delta.position);
        kept.or(oldest.filter(|oldest| *oldest <= released))
    }

    /// Finds out up to where all living nodes have the bits.
    fn settle(&mut self, released: Position, gpt_target: Option<Position>) {
        let of = |node: &Node| match node.report {
            Some(report) if gpt_target.is_some_and(|target| report.gpt >= target) => released,
            Some(report) => report.gpt,
            None => Position(0),
        };
        let all = self.nodes.values().map(of).min().unwrap_or_default();
        let before = self.rebinding.held().map(|held| Position(held.0.saturating_sub(1)));
        self.settled = self.settled.max(before.map_or(all, |before| all.min(before)));
    }
}

/// Which bits may go out.
struct Release {
    released: Position,
    /// The newest of the FIBs that were given as a whole.
    wholes: Position,
    gpt_target: Option<Position>,
}

/// The inputs that decide what a node needs.
struct NodeContext<'a> {
    partition: &'a Partition,
    recent: &'a Recent,
    limits: &'a Limits,
    shaped: Position,
    now: Duration,
}

impl NodeContext<'_> {
    /// The messages for a node's FIB.
    fn fib(&self, number: NodeId, node: &mut Node, report: &Report, target: Position) -> Vec<Message> {
        let now = self.now;
        if let Some(image) = node.image.take_if(|image| image.is_over(report)) {
            node.fib = Sending::default();
            if image.has_mended(report) {
                node.mended(now);
            }
        }
        if node.image.is_none() {
            let wrong = self.wrong(number, node, report);
            let from = node.fib.from(report.fib, target, now);
            // Another owner has begun an image: the node takes nothing else until it has that, or a newer one.
            let is_begun = report.fib_part.at > Position(0);
            if is_begun && (node.image_seen.is_served(now) || report.fib_part.at > target) {
                return Vec::new();
            }
            if wrong == 0 && !is_begun && report.needs_whole_fib() && from.is_none() {
                return Vec::new();
            }
            if wrong == 0 && !is_begun && !report.needs_whole_fib() {
                let Some(from) = from else { return Vec::new() };
                if let Some(update) = self.recent.fib_update(number, from, self.limits.message_bytes) {
                    node.fib.upto = update.position;
                    return vec![Message::Fib(update)];
                }
            }
            node.compared = node.compared.max(wrong);
            node.image =
                Some(FibTransfer::new(self.partition, number, target.max(report.fib), wrong, report, now));
        }
        let pieces = |image: &mut FibTransfer| image.pieces(self.partition.id(), report, self.limits, now);
        node.image.as_mut().map(pieces).unwrap_or_default()
    }

    /// The number of the node's newest sweep, if it shows that the node's FIB was wrong at the sweep's position; else 0.
    fn wrong(&self, number: NodeId, node: &mut Node, report: &Report) -> u32 {
        let sweep = report.sweep;
        let newest = self.partition.position();
        if sweep.number <= node.compared || sweep.at > newest || report.fib > newest {
            return 0;
        }
        match self.digest_at(number, sweep.at) {
            Some(digest) if digest == sweep.digest => node.is_right(),
            Some(_) if self.now >= node.rests_until => return sweep.number,
            // It was loaded again not long ago, or is further behind than the kept entries.
            Some(_) | None => {}
        }
        node.compared = sweep.number;
        0
    }

    /// The digest that a node's FIB should have had at a position; `None` if it is not known any more.
    fn digest_at(&self, number: NodeId, position: Position) -> Option<FibDigest> {
        if position >= self.partition.fib_position(number) {
            Some(self.partition.fib_digest(number))
        } else {
            self.recent.digest_at(number, position)
        }
    }

    /// The messages for a node's bits.
    fn gpt(&self, node: &mut Node, report: &Report, release: &Release, whole: &mut Whole) -> Vec<Message> {
        let now = self.now;
        let is_over = |bits: &mut GptTransfer| bits.is_over(report, release.wholes);
        if node.bits.take_if(is_over).is_some() {
            node.gpt = Sending::default();
        }
        if node.bits.is_none() {
            let Some(target) = release.gpt_target else { return Vec::new() };
            let Some(from) = node.gpt.from(report.gpt, target, now) else { return Vec::new() };
            // A node with wrong bits, or with bits of an older shape, needs all bits, not the changes.
            let needs_all = from == Position(0) && (report.again > 0 || self.shaped > Position(0));
            let way = if needs_all {
                CatchUp::Everything
            } else {
                // Bits older than a whole FIB must not be visible alone.
                self.recent.gpt_deltas(from, target, release.wholes, self.limits.message_bytes)
            };
            let deltas = match way {
                CatchUp::Next(deltas) => deltas,
                // A single long one goes in pieces. Of several nothing is seen before all are there, so all bits are sent.
                CatchUp::TooLong(deltas) if deltas.len() == 1 => deltas,
                CatchUp::TooLong(_) | CatchUp::Everything => {
                    let whole = whole.get(self.partition, release.released, release.wholes);
                    whole.into_iter().collect()
                }
            };
            let Some(last) = deltas.last() else { return Vec::new() };
            if deltas.len() > 1 || bytes_of_delta(last) <= self.limits.message_bytes {
                node.gpt.upto = last.position;
                return vec![Message::Gpt(deltas)];
            }
            let is_served = node.bits_seen.is_served(now) && report.gpt_part.at >= last.position;
            // The delta before it is on its way and may be lost: this one waits until the node has that.
            if is_served || last.previous > report.gpt {
                return Vec::new();
            }
            node.bits = Some(GptTransfer::new(last, now));
        }
        let pieces = |bits: &mut GptTransfer| bits.pieces(self.partition.id(), report, self.limits, now);
        node.bits.as_mut().map(pieces).unwrap_or_default()
    }
}
