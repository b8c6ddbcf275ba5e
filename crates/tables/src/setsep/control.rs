//! The control structure: the keys of the partitions a node is responsible for, and how updates become deltas.

use super::block::{self, Moves};
use super::geometry::GROUPS;
use super::held::Held;
use super::params::Params;
use super::payload::PayloadWriter;
use super::reshape::Next;
use super::snapshot;
use super::store::Head;
use super::structure::{Op, ReshapeError, Reshaping, SetSep, SetSepStructure, SnapshotError, UpdateError};
use super::updates::Shape;
use crate::isa::Isa;
use crate::published::snapshot::Header;
use crate::published::{Control, Keys, bits_per_key};
use crate::summed::{Sink, Source};
use scalebricks_types::{Delta, KeyHash, PartitionId, Position};
use std::io::{self, Read, Write};

/// Sizes of a table as its control structure knows them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// Keys held.
    pub keys: u64,
    /// Keys of groups without a solution, which the fallback answers.
    pub fallback_keys: u64,
    /// Groups without a solution.
    pub marked_groups: u64,
    /// Keys in the fullest group.
    pub max_group_load: u16,
    /// Keys in the fullest block, of [`Format::block_capacity`](super::Format::block_capacity).
    pub max_block_keys: usize,
    /// Bytes of the query structure's blocks and fallback lists, without its spare slots.
    pub table_bytes: usize,
    /// `table_bytes` in bits, for each key held.
    pub bits_per_key: f64,
    /// How often buckets had to move.
    pub moves: Moves,
}

/// The control structure of a SetSep table.
pub type SetSepControl = Control<SetSepStructure>;

/// The keys of some partitions, in blocks.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    pub(super) now: Shape,
    /// The shape it is on its way to, if it is.
    pub(super) next: Option<Next>,
    pub(super) moves: Moves,
}

impl Keys for SetSepStructure {
    type Keys = BlockKeys;

    fn empty(params: Params, mine: &[bool]) -> BlockKeys {
        BlockKeys::new(Held::new(params, mine, true), None, Moves::default())
    }

    fn params(keys: &BlockKeys) -> &Params {
        keys.now.params()
    }

    fn holds(keys: &BlockKeys, partition: PartitionId) -> bool {
        keys.now.held.first.get(usize::from(partition.0)).is_some_and(Option::is_some)
    }

    fn change(
        control: &mut SetSepControl,
        table: Option<&SetSep>,
        ops: &[Op],
        counted: Option<Position>,
    ) -> Result<Vec<Delta>, UpdateError> {
        control.change(table, ops, counted)
    }

    fn reshaping(keys: &BlockKeys) -> Option<&Params> {
        keys.next.as_ref().map(|next| next.shape.params())
    }

    fn begin(control: &mut SetSepControl, to: Params) -> Result<(), ReshapeError> {
        control.begin(to);
        Ok(())
    }

    fn convert(
        control: &mut SetSepControl,
        partition: PartitionId,
        counted: Option<Position>,
    ) -> Result<Option<Delta>, UpdateError> {
        control.step(partition, u32::MAX, counted)
    }

    fn done(keys: &BlockKeys) -> Vec<u32> {
        keys.next.as_ref().map_or_else(Vec::new, |next| next.all().to_vec())
    }

    fn unit(
        keys: &BlockKeys,
        partition: PartitionId,
        is_new: bool,
        block: u32,
    ) -> Option<(&[u64], Vec<(u64, u8)>)> {
        let held = keys.held(is_new);
        let first = held.first.get(usize::from(partition.0)).copied().flatten()?;
        let view = held.store.view((first + block) as usize);
        Some((view.words, held.fallback(&view)))
    }

    fn count(keys: &BlockKeys) -> u64 {
        keys.heads().map(|head| u64::from(head.keys)).sum()
    }

    fn put_keys<W: Write>(
        keys: &BlockKeys,
        header: &Header<SetSepStructure>,
        sink: &mut Sink<W>,
    ) -> io::Result<()> {
        snapshot::put(keys, header, sink)
    }

    fn take_keys<R: Read>(
        header: &Header<SetSepStructure>,
        source: &mut Source<R>,
    ) -> Result<BlockKeys, SnapshotError> {
        snapshot::take(header, source)
    }

    fn abandon(keys: &mut BlockKeys) {
        keys.next = None;
    }

    fn payload(control: &SetSepControl, partition: PartitionId) -> Vec<u8> {
        let BlockKeys { now, next, .. } = &control.keys;
        let now = &now.held;
        let Some(first) = now.first[usize::from(partition.0)] else { return Vec::new() };
        let whole = Reshaping { to: now.params, done: 0 };
        let reshaping = next.as_ref().map_or(whole, |next| next.reshaping(partition));
        let mut writer = PayloadWriter::new(&now.layout, Some(reshaping), Vec::new());
        let each = now.params.blocks_per_partition();
        writer.section(&now.layout, each - reshaping.done, (each - reshaping.done) as usize * GROUPS);
        (first + reshaping.done..first + each).for_each(|slot| now.write_whole(&mut writer, slot as usize));
        if let Some(next) = next {
            let ratio = next.shape.params().blocks() / now.params.blocks();
            let blocks = reshaping.done * ratio;
            writer.section(&next.shape.held.layout, blocks, blocks as usize * GROUPS);
            let new = first * ratio..(first + reshaping.done) * ratio;
            new.for_each(|slot| next.shape.held.write_whole(&mut writer, slot as usize));
        }
        writer.finish().0
    }
}

impl BlockKeys {
    /// Blocks in one shape, or in two.
    pub(super) fn new(now: Held, next: Option<(Held, Vec<u32>)>, moves: Moves) -> Self {
        let next = next.map(|(held, done)| Next::new(Shape::new(held, Isa::best()), done));
        Self { now: Shape::new(now, Isa::best()), next, moves }
    }

    /// The blocks in the old or the new shape.
    pub(super) fn held(&self, is_new: bool) -> &Held {
        self.next.as_ref().filter(|_| is_new).map_or(&self.now.held, |next| &next.shape.held)
    }

    /// The blocks held, ascending by the hashes in them: shape and place.
    fn blocks(&self) -> impl Iterator<Item = (&Held, usize)> {
        let now = &self.now.held;
        (0..now.store.len()).flat_map(move |slot| {
            let next = self.next.as_ref().filter(|next| next.is_done(now, slot));
            let (held, ratio) = next.map_or((now, 1), |next| {
                (&next.shape.held, (next.shape.params().blocks() / now.params.blocks()) as usize)
            });
            (slot * ratio..(slot + 1) * ratio).map(move |slot| (held, slot))
        })
    }

    fn heads(&self) -> impl Iterator<Item = &Head> {
        self.blocks().map(|(held, slot)| held.store.view(slot).head)
    }
}

impl SetSepControl {
    /// The same with kernels of these instructions, or the best below them that this processor has. The bits it makes
    /// do not depend on them.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.keys.now.use_isa(isa);
        if let Some(next) = &mut self.keys.next {
            next.shape.use_isa(isa);
        }
        self
    }

    /// The value of a key: exact. `None` if it is not held here.
    pub fn get(&self, hash: KeyHash) -> Option<u8> {
        let (held, slot) = self.locate(hash.get())?;
        block::get(&held.store.view(slot), &held.params, held.finder, hash.get())
    }

    /// The shape and place of a hash's block, if it is held here.
    fn locate(&self, hash: u64) -> Option<(&Held, usize)> {
        let slot = self.keys.now.held.slot_of(hash).ok()?;
        match self.keys.next.as_ref().filter(|next| next.is_done(&self.keys.now.held, slot)) {
            Some(next) => Some((&next.shape.held, next.shape.held.slot_of(hash).ok()?)),
            None => Some((&self.keys.now.held, slot)),
        }
    }

    /// All keys held, ascending, with their values. Cost: sorts block by block.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, u8)> + '_ {
        self.keys.blocks().flat_map(|(held, slot)| {
            let keys = block::sorted_keys(&held.store.view(slot), held.store.slots());
            keys.into_iter().map(|(hash, value)| (KeyHash::new(hash), value))
        })
    }

    /// Adds a key. Cost: one group solved, two or three if buckets move.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn insert(&mut self, hash: KeyHash, value: u8) -> Result<Delta, UpdateError> {
        self.one(Op::Insert(hash, value))
    }

    /// Changes a key's value. Cost: one group solved.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn update(&mut self, hash: KeyHash, value: u8) -> Result<Delta, UpdateError> {
        self.one(Op::Update(hash, value))
    }

    /// Takes a key out. Cost: one group solved.
    ///
    /// # Errors
    /// [`UpdateError`]; nothing is then changed.
    pub fn remove(&mut self, hash: KeyHash) -> Result<Delta, UpdateError> {
        self.one(Op::Remove(hash))
    }

    fn one(&mut self, op: Op) -> Result<Delta, UpdateError> {
        let mut deltas = self.batch(&[op])?;
        let Some(delta) = deltas.pop() else { unreachable!("an operation touches one partition") };
        Ok(delta)
    }

    /// Bytes of memory held for keys, values and bits.
    pub fn control_bytes(&self) -> usize {
        self.keys.now.held.store.bytes()
            + self.keys.next.as_ref().map_or(0, |next| next.shape.held.store.bytes())
    }

    /// Sizes and counters. Cost: a pass over the blocks.
    pub fn stats(&self) -> Stats {
        let keys = self.len();
        let lines = |held: &Held| held.lines_used.iter().sum::<u32>() as usize * 64;
        let blocks: usize = self.keys.blocks().map(|(held, _)| held.params.slot_words() * 8 + 8).sum();
        let next = self.keys.next.as_ref().map_or(0, |next| lines(&next.shape.held));
        let table_bytes = blocks + lines(&self.keys.now.held) + next;
        Stats {
            keys,
            fallback_keys: self.keys.heads().map(|head| block::fallback_keys(head) as u64).sum(),
            marked_groups: self.keys.heads().map(|head| u64::from(head.marks.count_ones())).sum(),
            max_group_load: self.keys.heads().flat_map(|head| head.loads).max().unwrap_or(0),
            max_block_keys: self.keys.heads().map(|head| head.keys as usize).max().unwrap_or(0),
            table_bytes,
            bits_per_key: bits_per_key(table_bytes, keys),
            moves: self.keys.moves,
        }
    }
}
