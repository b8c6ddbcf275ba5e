//! The owner of a partition: applies its log, and brings every node's tables to it.

use super::message::{Digest, FibWhole, Message, Report, Rewind, Target};
use crate::engine::Entry as LogEntry;
use crate::partition::{Effects, EntryError, FibUpdate, Outcome, Partition, Void};
use scalebricks_tables::FibValue;
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{Delta, FlowKey, NodeId, Position};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// How long a node has to report an update before it is sent again.
pub const RESEND: Duration = Duration::from_millis(200);

/// Time between two comparisons of a partition's bits at all nodes.
pub const COMPARE_EVERY: Duration = Duration::from_secs(10);

/// Entries whose effects are kept for nodes that are behind. Who is further behind is sent everything.
const KEPT: usize = 4_096;

/// What one entry meant.
#[derive(Debug)]
struct Recent {
    position: Position,
    fib: Vec<(NodeId, FibUpdate)>,
    gpt: Option<Delta>,
}

/// A rewind is sent as if it led to this position, and again until its node has begun anew.
const REWIND: Position = Position(1);

/// Something that is sent in order, and again when it is not reported in time.
#[derive(Debug, Clone, Copy, Default)]
struct Sending {
    /// The last position sent.
    upto: Position,
    at: Duration,
}

impl Sending {
    /// Where to go on for a node at `have`, or `None` if all up to `target` is on its way.
    fn from(self, have: Position, target: Position, now: Duration) -> Option<Position> {
        if have >= target {
            None
        } else if now >= self.at + RESEND {
            Some(have)
        } else {
            Some(have.max(self.upto)).filter(|from| *from < target)
        }
    }
}

/// What is known of a node.
#[derive(Debug, Default)]
struct Node {
    /// Which of its lives it is in.
    life: u64,
    /// Where it said to be; `None` until it does.
    report: Option<Report>,
    fib: Sending,
    gpt: Sending,
    settled: Sending,
    /// It has what no entry of the log brought: `again` of the report that showed it. Nothing else is sent to it before it has
    /// begun anew.
    rewound: Option<u32>,
    rewind: Sending,
}

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
    recent: VecDeque<Recent>,
    settled: Position,
    /// The last entry that may have changed the shape of the bits.
    shaped: Position,
    /// The number of the last change that all nodes have come through.
    shapes: u32,
    next_digest: Duration,
    whole: Whole,
    /// Where the log was found to end when some node, or this owner, was further.
    rewound_to: Option<Position>,
}

impl Owner {
    /// The owner of a partition in the state that its log or a snapshot led to. Nothing is known of any node.
    pub const fn new(partition: Partition) -> Self {
        let shaped = partition.position();
        Self {
            partition,
            nodes: BTreeMap::new(),
            recent: VecDeque::new(),
            settled: Position(0),
            shaped,
            shapes: 0,
            next_digest: Duration::ZERO,
            whole: Whole(None),
            rewound_to: None,
        }
    }

    /// The partition.
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Entries up to here are in all tables, and no table names what they took away.
    pub const fn settled(&self) -> Position {
        self.settled
    }

    /// A node is alive, in this life: nothing counts as settled without it, and what it said in lives before is forgotten.
    pub fn joined(&mut self, node: NodeId, life: u64) {
        let known = self.nodes.entry(node).or_default();
        if known.life < life {
            *known = Node { life, ..Node::default() };
        }
    }

    /// A node is dead, or paused for so long that it counts as dead: nothing waits for it.
    pub fn left(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Applies the next entry of the log, and tells what became of it and which of its changes did nothing.
    ///
    /// # Errors
    /// [`EntryError`]; nothing is then changed.
    pub fn entry(&mut self, entry: &LogEntry) -> Result<(Outcome, Vec<(u32, Void)>), EntryError> {
        let shape = self.partition.params();
        let Effects { outcome, gpt, fib, voids } = self.partition.apply(entry)?;
        if self.partition.params() != shape {
            self.shaped = entry.position;
        }
        if !fib.is_empty() || gpt.is_some() {
            self.recent.push_back(Recent { position: entry.position, fib, gpt });
            if self.recent.len() > KEPT {
                self.recent.pop_front();
            }
        }
        Ok((outcome, voids))
    }

    /// A node says where it is. Reports of nodes that are not alive, of other lives and of other partitions say nothing.
    pub fn report(&mut self, node: NodeId, report: Report) {
        if report.partition == self.partition.id()
            && let Some(known) = self.nodes.get_mut(&node).filter(|known| known.life == report.life)
        {
            // Reports overtake each other, and within a life a node never goes back.
            if known.report.is_none() && self.rewound_to.is_some_and(|last| report.furthest() > last) {
                known.rewound = Some(report.again);
            }
            let before = known.report.unwrap_or(report);
            // But for one that began anew.
            known.report = Some(match report.again.cmp(&before.again) {
                Ordering::Less => before,
                Ordering::Equal => Report {
                    fib: report.fib.max(before.fib),
                    whole: report.whole.max(before.whole),
                    gpt: report.gpt.max(before.gpt),
                    ..report
                },
                Ordering::Greater => {
                    known.gpt = Sending::default();
                    if report.fib < before.fib {
                        known.fib = Sending::default();
                    }
                    report
                }
            });
            known.rewound = known.rewound.filter(|again| report.again <= *again);
        }
    }

    /// The furthest position that a node reported, if it is behind the newest entry applied here. Another owner may be ahead of this
    /// one, or the log may have been replaced by an older one: the end of the log tells which.
    pub fn ahead(&self) -> Option<Position> {
        let reports = self.nodes.values().filter_map(|node| node.report);
        reports.map(|report| report.furthest()).max().filter(|furthest| *furthest > self.partition.position())
    }

    /// The log was found to end here, before a position that a node had reported or an owner had come to: whatever is behind it in
    /// any table comes from entries that are lost. Nodes whose last report, or first report yet to come, is from behind it are told
    /// to begin anew.
    pub fn rewind(&mut self, last: Position) {
        self.rewound_to = Some(last);
        for node in self.nodes.values_mut() {
            let report = node.report.filter(|report| report.furthest() > last);
            node.rewound = report.map(|report| report.again).or(node.rewound);
        }
    }

    /// What is to be sent now.
    pub fn messages(&mut self, now: Duration) -> Vec<(NodeId, Message)> {
        // What all had is out, even if somebody came back since who is behind.
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
        for (&number, node) in &mut self.nodes {
            let Some(report) = node.report else { continue };
            let (partition, life) = (self.partition.id(), node.life);
            if let Some((again, last)) = node.rewound.zip(self.rewound_to) {
                if node.rewind.from(Position(0), REWIND, now).is_some() {
                    node.rewind = Sending { upto: REWIND, at: now };
                    out.push((number, Message::Rewind(Rewind { partition, life, again, last })));
                }
                continue;
            }
            // What is sent to who began anew also says which keys are not there: it stands for all entries so far, not only for those
            // that concern the node.
            let is_anew = report.needs_whole_fib();
            let fib_target =
                if is_anew { self.partition.position() } else { self.partition.fib_position(number) };
            if let Some(from) = node.fib.from(report.fib, fib_target, now) {
                let updates = if is_anew { None } else { fib_updates(&self.recent, number, from) };
                let whole = || fib_whole(&self.partition, number, fib_target);
                out.push((number, updates.unwrap_or_else(whole)));
                node.fib = Sending { upto: fib_target, at: now };
            }
            if let Some(gpt_target) = gpt_target
                && let Some(from) = node.gpt.from(report.gpt, gpt_target, now)
            {
                // Whose bits are wrong, or of a shape of no account any more, needs all of them, not what has changed.
                let needs_all = from == Position(0) && (report.again > 0 || self.shaped > Position(0));
                let deltas = if needs_all { None } else { gpt_deltas(&self.recent, from, gpt_target) };
                let whole = || self.whole.get(&self.partition, released, wholes).map(|whole| vec![whole]);
                if let Some(deltas) = deltas.or_else(whole)
                    && let Some(last) = deltas.last()
                {
                    node.gpt = Sending { upto: last.position, at: now };
                    out.push((number, Message::Gpt(deltas)));
                }
            }
            if node.settled.upto < self.settled || now >= node.settled.at + RESEND {
                let gpt = gpt_target.unwrap_or_else(|| self.partition.gpt_position());
                let settled = self.settled;
                let (room, keys) = (self.partition.room(), self.partition.len() as u64);
                let target = Target { partition, life, settled, fib: fib_target, gpt, room, keys, shapes };
                out.push((number, Message::Target(target)));
                node.settled = Sending { upto: self.settled, at: now };
            }
        }
        out
    }

    /// Tells all nodes what their bits are to be, now and then, if all are where this owner is.
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

    /// The last entry whose bits may go out: the FIBs of all living nodes hold what it and those before it brought.
    fn released(&self) -> Position {
        let reports = || self.nodes.values().filter_map(|node| node.report);
        if reports().any(|report| report.fib > self.partition.position()) {
            // Somebody else is ahead of this owner, and what he made of the FIBs this one cannot know.
            return self.settled;
        }
        let limit = |(&number, node): (&NodeId, &Node)| {
            let Some(report) = node.report else { return self.settled };
            if report.fib >= self.partition.fib_position(number) {
                return self.partition.position();
            }
            let missing = updates(&self.recent, number, report.fib).next();
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
        // them, must not go out alone.
        if self.wholes() > released {
            return None;
        }
        let newest = self.partition.gpt_position();
        if newest <= released {
            return Some(newest);
        }
        let mut deltas = self.recent.iter().rev().filter_map(|recent| recent.gpt.as_ref());
        // The oldest one kept tells of the one before it.
        let oldest = self.recent.iter().find_map(|recent| recent.gpt.as_ref()).map(|delta| delta.previous);
        let kept = deltas.find(|delta| delta.position <= released).map(|delta| delta.position);
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
        self.settled = self.settled.max(all);
    }
}

/// What is kept of the entries behind a position.
fn behind(recent: &VecDeque<Recent>, from: Position) -> impl Iterator<Item = &Recent> {
    recent.range(recent.partition_point(|recent| recent.position <= from)..)
}

/// What is kept of the updates of a node's FIB behind a position.
fn updates(recent: &VecDeque<Recent>, node: NodeId, from: Position) -> impl Iterator<Item = &FibUpdate> {
    behind(recent, from)
        .flat_map(move |recent| recent.fib.iter().filter(move |(number, _)| *number == node))
        .map(|(_, update)| update)
}

/// The updates of a node's FIB behind a position, as one: it arrives as a whole, and overtakes nothing. `None` if the first
/// of them is no longer there.
fn fib_updates(recent: &VecDeque<Recent>, node: NodeId, from: Position) -> Option<Message> {
    let mut updates = updates(recent, node, from);
    let first = updates.next().filter(|first| first.previous <= from)?;
    let mut all = FibUpdate { ops: Vec::new(), ..*first };
    // In the order in which keys first come, so that all owners say the same.
    let (mut places, mut newest) = (HashMap::new(), Vec::<(FlowKey, Option<FibValue>, bool)>::new());
    for update in std::iter::once(first).chain(updates) {
        all.position = update.position;
        for op in &update.ops {
            let place = *places.entry(*op.key()).or_insert_with(|| {
                newest.push((*op.key(), None, false));
                newest.len() - 1
            });
            let (_, value, is_gone) = &mut newest[place];
            match op {
                FibOp::Set(_, set) => (*value, *is_gone) = (Some(*set), false),
                FibOp::Delete(_) => *is_gone = true,
            }
        }
    }
    // A key that came and left is both: bits that name this node for it may be on their way to some.
    for (key, value, is_gone) in newest {
        all.ops.extend(value.map(|value| FibOp::Set(key, value)));
        all.ops.extend(is_gone.then_some(FibOp::Delete(key)));
    }
    Some(Message::Fib(all))
}

/// All that a node's FIB holds.
fn fib_whole(partition: &Partition, node: NodeId, position: Position) -> Message {
    let own = partition.sessions().filter(|(_, session)| session.node == node);
    let entries = own.map(|(key, session)| (key, session.value)).collect();
    Message::FibWhole(FibWhole { partition: partition.id(), position, entries })
}

/// The deltas behind one position up to another; `None` if the first of them is no longer there.
fn gpt_deltas(recent: &VecDeque<Recent>, from: Position, to: Position) -> Option<Vec<Delta>> {
    let deltas = behind(recent, from).take_while(|recent| recent.position <= to);
    let deltas: Vec<&Delta> = deltas.filter_map(|recent| recent.gpt.as_ref()).collect();
    let is_whole = deltas.first().is_some_and(|first| first.previous <= from);
    is_whole.then(|| deltas.into_iter().cloned().collect())
}
