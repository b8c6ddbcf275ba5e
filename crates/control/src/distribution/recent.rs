//! The effects of a log's newest entries, kept for nodes that are behind.

use crate::partition::FibUpdate;
use scalebricks_tables::FibValue;
use scalebricks_tables::fib::{FibDigest, FibOp};
use scalebricks_types::{Delta, FlowKey, NodeId, Position};
use std::collections::{HashMap, VecDeque};

/// Number of entries whose effects are kept. A node that is further behind is sent everything.
const KEPT: usize = 4_096;

/// The effect of one entry on a node's FIB.
#[derive(Debug)]
pub(super) struct NodeUpdate {
    pub(super) node: NodeId,
    pub(super) update: FibUpdate,
    /// Of the node's entries behind it.
    pub(super) digest: FibDigest,
}

/// The effects of one entry.
#[derive(Debug)]
struct Kept {
    position: Position,
    fib: Vec<NodeUpdate>,
    gpt: Option<Delta>,
}

/// The kept entries.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Kept>);

/// How to bring a node up to date.
#[derive(Debug)]
pub(super) enum CatchUp {
    /// By this.
    Next(Vec<Delta>),
    /// The next updates are too long for one message: send everything, in pieces.
    TooLong(Vec<Delta>),
    /// The next updates are no longer kept: send everything.
    Everything,
}

impl Recent {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds the effects of the entry at a position.
    pub(super) fn push(&mut self, position: Position, fib: Vec<NodeUpdate>, gpt: Option<Delta>) {
        if !fib.is_empty() || gpt.is_some() {
            self.0.push_back(Kept { position, fib, gpt });
            if self.0.len() > KEPT {
                self.0.pop_front();
            }
        }
    }

    /// The kept entries after a position.
    fn behind(&self, from: Position) -> impl Iterator<Item = &Kept> {
        self.0.range(self.0.partition_point(|kept| kept.position <= from)..)
    }

    /// The kept updates of a node's FIB after a position.
    pub(super) fn updates(&self, node: NodeId, from: Position) -> impl Iterator<Item = &FibUpdate> {
        let of_node = move |kept: &'_ &NodeUpdate| kept.node == node;
        self.behind(from).flat_map(move |kept| kept.fib.iter().filter(of_node)).map(|kept| &kept.update)
    }

    /// The digest of a node's entries behind the update at this position; `None` if that is not kept.
    pub(super) fn digest_at(&self, node: NodeId, position: Position) -> Option<FibDigest> {
        let kept = self.0.get(self.0.partition_point(|kept| kept.position < position))?;
        let update = kept.fib.iter().find(|kept| kept.node == node)?;
        (kept.position == position).then_some(update.digest)
    }

    /// The deltas, newest first.
    pub(super) fn deltas_back(&self) -> impl Iterator<Item = &Delta> {
        self.0.iter().rev().filter_map(|kept| kept.gpt.as_ref())
    }

    /// The oldest delta.
    pub(super) fn oldest_delta(&self) -> Option<&Delta> {
        self.0.iter().find_map(|kept| kept.gpt.as_ref())
    }

    /// Merges the updates of a node's FIB after a position into one of up to about `most_bytes`, which is applied as a whole. `None`
    /// if the next one is not kept or is too long for one message.
    pub(super) fn fib_update(&self, node: NodeId, from: Position, most_bytes: usize) -> Option<FibUpdate> {
        let mut updates = self.updates(node, from).peekable();
        let first = updates.peek().filter(|first| first.previous <= from)?;
        if bytes_of(first) > most_bytes {
            return None;
        }
        let mut all = FibUpdate { ops: Vec::new(), ..**first };
        let mut bytes = 0;
        // In the order in which keys first occur, so that all owners send the same.
        let (mut places, mut newest) = (HashMap::new(), Vec::<(FlowKey, Option<FibValue>, bool)>::new());
        for update in updates {
            bytes += bytes_of(update);
            if bytes > most_bytes {
                break;
            }
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
        Some(all)
    }

    /// The deltas after one position up to another: as many as fit into about `most_bytes`, and at least those up to `least`, which
    /// must not be sent without the others.
    pub(super) fn gpt_deltas(
        &self,
        from: Position,
        to: Position,
        least: Position,
        most_bytes: usize,
    ) -> CatchUp {
        let deltas = self.behind(from).take_while(|kept| kept.position <= to);
        let mut deltas = deltas.filter_map(|kept| kept.gpt.as_ref()).peekable();
        if deltas.peek().is_none_or(|first| first.previous > from) {
            return CatchUp::Everything;
        }
        let (mut bytes, mut fitting) = (0, Vec::new());
        for delta in deltas {
            bytes += bytes_of_delta(delta);
            let has_least = fitting.last().is_some_and(|last: &Delta| last.position >= least);
            if bytes > most_bytes && has_least {
                return CatchUp::Next(fitting);
            }
            fitting.push(delta.clone());
        }
        if bytes > most_bytes { CatchUp::TooLong(fitting) } else { CatchUp::Next(fitting) }
    }
}

/// Bytes of an update in a message, about.
fn bytes_of(update: &FibUpdate) -> usize {
    let of = |op: &FibOp| match op {
        FibOp::Set(key, _) => 18 + bytes_of_key(key),
        FibOp::Delete(key) => 2 + bytes_of_key(key),
    };
    update.ops.iter().map(of).sum()
}

const fn bytes_of_key(key: &FlowKey) -> usize {
    match key {
        FlowKey::Short(_) => 16,
        FlowKey::Long(_) => 40,
    }
}

/// Bytes of a delta in a message.
pub(super) const fn bytes_of_delta(delta: &Delta) -> usize {
    32 + delta.payload.len()
}
