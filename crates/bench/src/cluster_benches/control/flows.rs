//! Flows made from their number, and what each is to lead to: the plain list that all answers are compared with.

use scalebricks_control::record::{Change, Session};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, Teid};

/// The hash of all keys.
pub(super) const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(0x5CA1_EB21));

/// A flow.
pub(super) type Flow = (FlowKey, Session);

/// A node by its number, which is below 256.
pub(super) fn node(number: usize) -> NodeId {
    NodeId::new((number & 0xFF) as u8) // masked
}

/// The key of a number: a TEID, of which there are 2^32 - 1.
pub(super) fn key(number: u64) -> FlowKey {
    FlowKey::teid(Teid::new((number & 0xFFFF_FFFE) as u32 + 1)) // masked
}

/// So many flows, in turn at all nodes. The upper half of the first word is the flow's identifier, by which a dead node's flows spread
/// over its heirs.
pub(super) fn flows(count: u64, nodes: usize) -> Vec<Flow> {
    let session = |number: u64| Session::new(node(number as usize % nodes), [number << 32, 0]);
    (0..count).map(|number| (key(number * 2), session(number))).collect()
}

/// Moves a flow to the next node, with a new value.
pub(super) fn moved(flow: &mut Flow, nodes: usize) -> Change {
    let (key, session) = flow;
    session.node = node((session.node.index() + 1) % nodes);
    session.value[1] += 1;
    Change::Move(*key, *session)
}

/// Gives a flow a new value where it is.
pub(super) fn changed(flow: &mut Flow) -> Change {
    let (key, session) = flow;
    session.value[1] += 1;
    Change::Move(*key, *session)
}

/// What brings a flow.
pub(super) const fn brought((key, session): &Flow) -> Change {
    Change::Upsert(*key, *session)
}
