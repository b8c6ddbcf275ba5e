//! The GPT that holds every key: an exact copy of all flows at every node, the node in each flow's value.
//!
//! This is what a cluster has without `ScaleBricks`: 34.7 bytes a flow at every node instead of a few bits. In the full
//! duplication of the paper's Figure 2 one table is both GPT and FIB, so this one shares a [`PartialFib`] rather than
//! owning a table.

use crate::fib::PartialFib;
use crate::{Fib, FibValue, Gpt, GptReader, KeyBatch};
use scalebricks_types::{
    Applied, ApplyError, Delta, NodeHint, PartitionCount, PartitionId, Position, TableKind,
};
use std::sync::Arc;

/// Keys looked up together.
const LANES: usize = 32;

/// An exact table of all flows, read as a [`Gpt`]. A key it does not hold gets [`NodeHint::NONE`].
#[derive(Debug, Clone)]
pub struct FullCopy {
    fib: Arc<PartialFib>,
    node_of: fn(FibValue) -> NodeHint,
}

impl FullCopy {
    /// The GPT view of `fib`, whose values say by `node_of` which node handles the flow.
    ///
    /// Deltas of [`TableKind::FullCopy`] given to this view and those of [`TableKind::Fib`] given to the FIB advance the
    /// same positions: a shared table has one stream a partition; feed it through one of them.
    pub const fn new(fib: Arc<PartialFib>, node_of: fn(FibValue) -> NodeHint) -> Self {
        Self { fib, node_of }
    }

    /// The table behind it.
    pub const fn fib(&self) -> &Arc<PartialFib> {
        &self.fib
    }
}

impl Gpt for FullCopy {
    fn kind(&self) -> TableKind {
        TableKind::FullCopy
    }

    fn partitions(&self) -> PartitionCount {
        self.fib.partitions()
    }

    fn reader(self: Arc<Self>) -> Box<dyn GptReader> {
        Box::new(Self::clone(&self))
    }

    /// The payload is that of [`encode_ops`](crate::fib::encode_ops).
    fn apply(&self, delta: &Delta) -> Result<Applied, ApplyError> {
        self.fib.apply_as(TableKind::FullCopy, delta)
    }

    fn position(&self, partition: PartitionId) -> Option<Position> {
        self.fib.position(partition)
    }

    fn table_bytes(&self) -> usize {
        self.fib.table_bytes()
    }
}

impl GptReader for FullCopy {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        let lanes = keys.keys().chunks(LANES).zip(keys.hashes().chunks(LANES)).zip(hints.chunks_mut(LANES));
        for ((keys, hashes), hints) in lanes {
            let mut values = [None; LANES];
            self.fib.lookup_batch(KeyBatch::new(keys, hashes), &mut values);
            for (hint, value) in hints.iter_mut().zip(values) {
                *hint = value.map_or(NodeHint::NONE, self.node_of);
            }
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fib::{FibConfig, FibOp, encode_ops};
    use crate::isa::Isa;
    use crate::tests::readers::{WatchedKeys, check_beside};
    use scalebricks_types::{FlowKey, HashSeed, KeyHash, KeyHasher, Teid};

    fn node_of(value: FibValue) -> NodeHint {
        NodeHint::new((value[0] >> 8) as u16)
    }

    #[test]
    fn one_table_is_gpt_and_fib() {
        let hasher = KeyHasher::new(HashSeed::from_u64(1));
        let fib = Arc::new(PartialFib::new(FibConfig::new(hasher).short_keys(100)));
        let gpt = Arc::new(FullCopy::new(Arc::clone(&fib), node_of));
        let keys: Vec<FlowKey> = (0..70).map(|n| FlowKey::teid(Teid::new(n))).collect();
        let hashes: Vec<_> = keys.iter().map(|key| hasher.hash(key)).collect();
        let ops = keys.iter().take(50).zip(0..).map(|(&key, n)| FibOp::Set(key, [(n % 4) << 8, n]));
        let delta = |kind, payload| Delta {
            kind,
            partition: PartitionId(0),
            position: Position(4),
            previous: Position(0),
            payload,
        };
        let payload = encode_ops(ops).unwrap();
        let wrong = gpt.apply(&delta(TableKind::SetSep, payload.clone()));
        assert_eq!(wrong, Err(ApplyError::Kind { want: TableKind::FullCopy, got: TableKind::SetSep }));
        let delta = delta(TableKind::FullCopy, payload);
        assert_eq!(gpt.apply(&delta), Ok(Applied::Advanced));
        assert_eq!(gpt.apply(&delta), Ok(Applied::Stale));
        assert_eq!(gpt.position(PartitionId(0)), Some(Position(4)));
        assert_eq!(gpt.position(PartitionId(1)), None);
        assert_eq!(gpt.table_bytes(), fib.table_bytes());
        assert_eq!(gpt.kind(), TableKind::FullCopy);

        let mut hints = vec![NodeHint::new(9); keys.len() + 1];
        gpt.reader().lookup_batch(KeyBatch::new(&keys, &hashes), &mut hints);
        for (n, hint) in hints.iter().enumerate() {
            let want = match n {
                0..50 => NodeHint::new(n as u16 % 4),
                50..70 => NodeHint::NONE,
                _ => NodeHint::new(9),
            };
            assert_eq!(*hint, want, "key {n}");
        }
        assert_eq!(fib.get(&keys[49], hashes[49]), Some([1 << 8, 49]), "the FIB sees the same flows");
    }

    /// A dozen keys of both lengths that stay and change, beside one that comes and goes: for the interpreter.
    #[test]
    fn a_reader_beside_a_writer() {
        let hasher = KeyHasher::new(HashSeed::from_u64(1));
        let table = FullCopy::new(
            Arc::new(PartialFib::new(FibConfig::new(hasher).short_keys(16).long_keys(16))),
            node_of,
        );
        let long = |n: u16| FlowKey::five_tuple_v6(1_u128.into(), 2_u128.into(), 17, 53, n);
        let short = |n: u16| FlowKey::teid(Teid::new(n.into()));
        let keys: Vec<FlowKey> = (0..6).map(short).chain((6..12).map(long)).collect();
        let kept: Vec<(KeyHash, u16)> = keys.iter().map(|key| hasher.hash(key)).zip(0..).collect();
        let set = |at: usize, node: u16| FibOp::Set(keys[at], [u64::from(node) << 8, 0]);
        let apply = |position, ops: Vec<FibOp>| {
            let delta = Delta {
                kind: TableKind::FullCopy,
                partition: PartitionId(0),
                position: Position(position),
                previous: Position(position - 1),
                payload: encode_ops(ops).unwrap(),
            };
            assert_eq!(table.apply(&delta), Ok(Applied::Advanced));
        };
        apply(1, kept.iter().enumerate().map(|(at, &(_, node))| set(at, node)).collect());
        let watched = WatchedKeys::new(&kept);
        let reader = || {
            let mut reader = Arc::new(table.clone()).reader();
            let (keys, mut hints) = (&keys, [NodeHint::NONE; 12]);
            move |hashes: &[KeyHash], nodes: &mut [u16]| {
                reader.lookup_batch(KeyBatch::new(keys, hashes), &mut hints);
                nodes.iter_mut().zip(hints).for_each(|(node, hint)| *node = hint.get());
            }
        };
        check_beside(&watched, "full copy", Isa::best(), reader, || {
            for (at, position) in (3..9).zip(2..) {
                let guest =
                    if position % 2 == 0 { FibOp::Set(short(99), [0; 2]) } else { FibOp::Delete(short(99)) };
                watched.change(at, 20 + at as u16, || apply(position, vec![guest, set(at, 20 + at as u16)]));
            }
        });
    }
}
