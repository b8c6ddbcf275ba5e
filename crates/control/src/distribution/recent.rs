//! What the newest entries of a partition's log meant, kept for nodes that are behind.

use super::message::Message;
use crate::partition::FibUpdate;
use scalebricks_tables::FibValue;
use scalebricks_tables::fib::{FibDigest, FibOp};
use scalebricks_types::{Delta, FlowKey, NodeId, Position};
use std::collections::{HashMap, VecDeque};

/// Entries whose effects are kept for nodes that are behind. Who is further behind is sent everything.
const KEPT: usize = 4_096;

/// What one entry meant for a node's FIB.
#[derive(Debug)]
pub(super) struct NodeUpdate {
    pub(super) node: NodeId,
    pub(super) update: FibUpdate,
    /// Of the node's entries behind it.
    pub(super) digest: FibDigest,
}

/// What one entry meant.
#[derive(Debug)]
struct Kept {
    position: Position,
    fib: Vec<NodeUpdate>,
    gpt: Option<Delta>,
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<Kept>);

/// How to bring a node from what it has to what it is to have.
#[derive(Debug)]
pub(super) enum Way<T> {
    /// By this.
    Next(T),
    /// What follows is too long for one message: by everything, in pieces.
    TooLong(T),
    /// What follows is no longer kept: by everything.
    Everything,
}

impl Recent {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// What the entry at a position meant.
    pub(super) fn push(&mut self, position: Position, fib: Vec<NodeUpdate>, gpt: Option<Delta>) {
        if !fib.is_empty() || gpt.is_some() {
            self.0.push_back(Kept { position, fib, gpt });
            if self.0.len() > KEPT {
                self.0.pop_front();
            }
        }
    }

    /// What is kept of the entries behind a position.
    fn behind(&self, from: Position) -> impl Iterator<Item = &Kept> {
        self.0.range(self.0.partition_point(|kept| kept.position <= from)..)
    }

    /// What is kept of the updates of a node's FIB behind a position.
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

    /// The updates of a node's FIB behind a position, as one, up to about so many bytes: it arrives as a whole, and overtakes
    /// nothing.
    pub(super) fn fib_update(&self, node: NodeId, from: Position, most_bytes: usize) -> Way<FibUpdate> {
        let mut updates = self.updates(node, from).peekable();
        let Some(first) = updates.peek().filter(|first| first.previous <= from) else {
            return Way::Everything;
        };
        let mut all = FibUpdate { ops: Vec::new(), ..**first };
        let (is_too_long, first_position) = (bytes_of(first) > most_bytes, first.position);
        let mut bytes = 0;
        // In the order in which keys first come, so that all owners say the same.
        let (mut places, mut newest) = (HashMap::new(), Vec::<(FlowKey, Option<FibValue>, bool)>::new());
        for update in updates {
            bytes += bytes_of(update);
            if bytes > most_bytes && update.position > first_position {
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
        if is_too_long { Way::TooLong(all) } else { Way::Next(all) }
    }

    /// The deltas behind one position up to another: as many as fit into about so many bytes, and at least those up to `least`,
    /// which must not go out without the others.
    pub(super) fn gpt_deltas(
        &self,
        from: Position,
        to: Position,
        least: Position,
        most_bytes: usize,
    ) -> Way<Vec<Delta>> {
        let deltas = self.behind(from).take_while(|kept| kept.position <= to);
        let mut deltas = deltas.filter_map(|kept| kept.gpt.as_ref()).peekable();
        if deltas.peek().is_none_or(|first| first.previous > from) {
            return Way::Everything;
        }
        let (mut bytes, mut fitting) = (0, Vec::new());
        for delta in deltas {
            bytes += bytes_of_delta(delta);
            let has_least = fitting.last().is_some_and(|last: &Delta| last.position >= least);
            if bytes > most_bytes && has_least {
                return Way::Next(fitting);
            }
            fitting.push(delta.clone());
        }
        if bytes > most_bytes { Way::TooLong(fitting) } else { Way::Next(fitting) }
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

impl From<FibUpdate> for Message {
    fn from(update: FibUpdate) -> Self {
        Self::Fib(update)
    }
}
