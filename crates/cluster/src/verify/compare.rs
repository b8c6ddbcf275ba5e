//! Compares the keys of one partition between RIB and tables.

use super::Readable;
use super::verdict::{Difference, DifferenceKind};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::Session;
use scalebricks_tables::FibValue;
use scalebricks_types::{FlowKey, NodeId, PartitionId};

/// Keys read from the tables at a time: an update of the tables waits for at most one such read.
const BATCH: usize = 256;

/// A key that differs from the RIB, unless an entry changed it meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) key: FlowKey,
    pub(super) kind: DifferenceKind,
    expected: KeyState,
    found: KeyState,
}

/// The state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Node(u8),
    Value(FibValue),
    Nothing,
}

impl KeyState {
    fn text(self) -> String {
        match self {
            Self::Node(node) => format!("node {node}"),
            Self::Value([low, high]) => format!("{low:016x} {high:016x}"),
            Self::Nothing => "nothing".to_owned(),
        }
    }
}

impl Suspect {
    pub(super) fn difference(&self, partition: PartitionId) -> Difference {
        Difference {
            kind: self.kind,
            partition: partition.0,
            key: Some(self.key.to_string()),
            expected: self.expected.text(),
            found: self.found.text(),
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) keys: u64,
    pub(super) keys_here: u64,
    pub(super) suspects: Vec<Suspect>,
}

/// Compares every key of the RIB, and every key that the node's FIB held recently.
pub(super) fn all(rib: &Partition, node: NodeId, held: &[FlowKey], tables: &dyn Readable) -> Compared {
    let mut compared = Compared::default();
    let mut batch = Vec::with_capacity(BATCH);
    for (key, session) in rib.sessions() {
        compared.keys += 1;
        compared.keys_here += u64::from(session.node == node);
        batch.push((key, session));
        if batch.len() == BATCH {
            look(node, &batch, tables, &mut compared.suspects);
            batch.clear();
        }
    }
    look(node, &batch, tables, &mut compared.suspects);
    look_for_surplus(rib, node, held, tables, &mut compared.suspects);
    compared
}

/// Compares these keys.
pub(super) fn some(
    rib: &Partition,
    node: NodeId,
    keys: impl IntoIterator<Item = FlowKey>,
    tables: &dyn Readable,
) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    let keys: Vec<FlowKey> = keys.into_iter().collect();
    for keys in keys.chunks(BATCH) {
        let there = keys.iter().filter_map(|key| Some((*key, rib.session(key)?.0)));
        look(node, &there.collect::<Vec<_>>(), tables, &mut suspects);
    }
    look_for_surplus(rib, node, &keys, tables, &mut suspects);
    suspects
}

/// Looks for keys in the FIB that are not pinned to the node.
fn look_for_surplus(
    rib: &Partition,
    node: NodeId,
    keys: &[FlowKey],
    tables: &dyn Readable,
    suspects: &mut Vec<Suspect>,
) {
    let is_elsewhere = |key: &&FlowKey| rib.session(key).is_none_or(|(session, _)| session.node != node);
    let elsewhere: Vec<FlowKey> = keys.iter().filter(is_elsewhere).copied().collect();
    for keys in elsewhere.chunks(BATCH) {
        let held = keys.iter().zip(tables.held(keys));
        suspects.extend(held.filter_map(|(key, held)| Some(surplus(*key, held?))));
    }
}

fn surplus(key: FlowKey, held: FibValue) -> Suspect {
    Suspect {
        key,
        kind: DifferenceKind::FibSurplus,
        expected: KeyState::Nothing,
        found: KeyState::Value(held),
    }
}

/// Compares keys of the RIB: the GPT's node, and the FIB's value of keys that are pinned here.
fn look(node: NodeId, batch: &[(FlowKey, Session)], tables: &dyn Readable, suspects: &mut Vec<Suspect>) {
    let keys: Vec<FlowKey> = batch.iter().map(|(key, _)| *key).collect();
    for ((key, session), named) in batch.iter().zip(tables.named(&keys)) {
        let right = session.node.get();
        if named != right {
            let (expected, found) = (KeyState::Node(right), KeyState::Node(named));
            suspects.push(Suspect { key: *key, kind: DifferenceKind::GptNode, expected, found });
        }
    }
    let here = || batch.iter().filter(|(_, session)| session.node == node);
    let keys: Vec<FlowKey> = here().map(|(key, _)| *key).collect();
    for ((key, session), held) in here().zip(tables.held(&keys)) {
        let (kind, found) = match held {
            Some(held) if held == session.value => continue,
            Some(held) => (DifferenceKind::FibValue, KeyState::Value(held)),
            None => (DifferenceKind::FibMissing, KeyState::Nothing),
        };
        suspects.push(Suspect { key: *key, kind, expected: KeyState::Value(session.value), found });
    }
}
