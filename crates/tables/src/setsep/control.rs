//! The control structure: the keys of the partitions a node is responsible for, and how updates become deltas.

use super::arena::Line;
use super::block::{Block, Moves, Refused};
use super::geometry::{GROUPS, bucket_of};
use super::image::Layout;
use super::journal::Journal;
use super::ops::{Full, Op, UpdateError};
use super::params::Params;
use super::payload::{BlockChange, PayloadWriter};
use super::query::{SetSep, bits_per_key, lines_for};
use super::solver::GroupKeys;
use scalebricks_types::{Delta, KeyHash, PartitionId, Position, TableKind};

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

/// The control structure of a SetSep table: keys (as hashes) with their values, and the bits they lead to. About
/// 11 bytes a key.
///
/// Bits are a function of parameters, keys and bucket choices; choices follow from the counts of keys in each
/// bucket, message by message. So equal histories give equal bits, however they were batched.
#[derive(Debug)]
pub struct SetSepControl {
    pub(super) params: Params,
    /// For each partition, where its blocks begin in `blocks`; `None` if it is held elsewhere.
    pub(super) first: Vec<Option<u32>>,
    pub(super) blocks: Vec<Block>,
    pub(super) positions: Vec<Position>,
    pub(super) lines_used: Vec<u32>,
    pub(super) moves: Moves,
    scratch: GroupKeys,
}

impl SetSepControl {
    /// An empty control structure for all partitions, each at position 0.
    pub fn new(params: Params) -> Self {
        Self::for_partitions(params, (0..params.partitions().get()).map(|p| PartitionId(p as u16)))
    }

    /// An empty control structure for these partitions, each at position 0. Numbers that name no partition are
    /// ignored.
    pub fn for_partitions(params: Params, partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        let mut mine = vec![false; params.partitions().get() as usize];
        for partition in partitions {
            if let Some(mine) = mine.get_mut(usize::from(partition.0)) {
                *mine = true;
            }
        }
        let each = params.blocks_per_partition();
        let numbers = (0..params.blocks()).filter(|number| mine[(number / each) as usize]);
        let blocks = numbers.map(|number| Block::empty(&params, number)).collect();
        Self::with_blocks(params, &mine, blocks, vec![Position(0); mine.len()], Moves::default())
    }

    pub(super) fn with_blocks(
        params: Params,
        mine: &[bool],
        blocks: Vec<Block>,
        positions: Vec<Position>,
        moves: Moves,
    ) -> Self {
        let mut next = 0;
        let first = mine.iter().map(|&mine| {
            let here = mine.then_some(next);
            next += u32::from(mine) * params.blocks_per_partition();
            here
        });
        let first = first.collect();
        let mut lines_used = vec![0; mine.len()];
        for block in &blocks {
            let partition = params.partition_of_block(block.number);
            lines_used[usize::from(partition.0)] += lines_for(block.fallback_keys());
        }
        Self { params, first, blocks, positions, lines_used, moves, scratch: GroupKeys::default() }
    }

    /// What the table was made with.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Whether this structure is responsible for a partition.
    pub fn holds(&self, partition: PartitionId) -> bool {
        self.first.get(usize::from(partition.0)).is_some_and(Option::is_some)
    }

    /// Where a partition's stream stands, if it is held here.
    pub fn position(&self, partition: PartitionId) -> Option<Position> {
        self.holds(partition).then(|| self.positions[usize::from(partition.0)])
    }

    /// Where in `blocks` the block of a hash is, or whose it is.
    fn slot_of(&self, hash: u64) -> Result<usize, PartitionId> {
        let (block, _) = bucket_of(hash, self.params.blocks());
        let partition = self.params.partition_of_block(block);
        let first = self.first[usize::from(partition.0)].ok_or(partition)?;
        Ok((first + block % self.params.blocks_per_partition()) as usize)
    }

    /// The value of a key: exact. `None` if it is not held here.
    pub fn get(&self, hash: KeyHash) -> Option<u8> {
        let slot = self.slot_of(hash.get()).ok()?;
        self.blocks[slot].get(&self.params, hash.get())
    }

    /// All keys held, ascending, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, u8)> + '_ {
        self.blocks.iter().flat_map(move |block| {
            block.keys.iter().zip(&block.values).map(|(&hash, &value)| (KeyHash::new(hash), value))
        })
    }

    /// Adds a key. Cost: one group solved (2 to 20 µs), two or three if buckets move.
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

    /// Applies a batch, with the outcome of its operations one after another: all, or none. Returns one delta for
    /// each partition touched, ascending; each of them advances by one position. The limit on fallback lines
    /// is that of the state after the batch; all other checks are made operation by operation.
    ///
    /// Cost: each group that the batch touches is solved once.
    ///
    /// # Errors
    /// [`UpdateError`] of the first operation that cannot be done; nothing is then changed.
    pub fn batch(&mut self, ops: &[Op]) -> Result<Vec<Delta>, UpdateError> {
        let before = self.moves;
        let mut journals = Vec::new();
        match self.perform(ops, &mut journals).and_then(|()| self.settle(&mut journals)) {
            Ok(()) => Ok(self.deltas(&journals)),
            Err(error) => {
                for journal in journals {
                    let block = &mut self.blocks[journal.slot];
                    journal.undo(&self.params, block);
                }
                self.moves = before;
                Err(error)
            }
        }
    }

    /// Changes keys and choices, leaving a journal for each block touched, in ascending order.
    fn perform(&mut self, ops: &[Op], journals: &mut Vec<Journal>) -> Result<(), UpdateError> {
        let mut order = Vec::with_capacity(ops.len());
        let mut first_error: Option<(usize, UpdateError)> = None;
        for (op, change) in ops.iter().enumerate() {
            let slot = self.slot_of(change.hash().get());
            let value = change.value().filter(|&value| !self.params.is_value(value));
            first_error = match (slot, value) {
                (Err(partition), _) => Some((op, UpdateError::NotMine { op, partition })),
                (_, Some(value)) => {
                    Some((op, UpdateError::Value { op, value, bits: self.params.value_bits() }))
                }
                (Ok(slot), None) => {
                    order.push((slot, op));
                    continue;
                }
            };
            break;
        }
        order.sort_unstable();
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            let slot = run[0].0;
            let block = &mut self.blocks[slot];
            let mut journal = Journal::new(slot, block);
            for &(_, op) in run {
                if first_error.as_ref().is_some_and(|&(first, _)| first < op) {
                    break;
                }
                let done = journal.perform(&self.params, block, ops[op], &mut self.moves);
                let error = match done {
                    Ok(()) => continue,
                    Err(Refused::Exists) => UpdateError::Exists { op },
                    Err(Refused::Missing) => UpdateError::Missing { op },
                    Err(Refused::Full) => UpdateError::Full(Full::Block {
                        block: block.number,
                        need: block.keys.len() + 1,
                        limit: self.params.format().block_capacity(),
                    }),
                };
                first_error = Some((op, error));
                break;
            }
            journals.push(journal);
        }
        first_error.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Solves what the journals say has changed, and checks the room for the fallback.
    fn settle(&mut self, journals: &mut [Journal]) -> Result<(), UpdateError> {
        for journal in &mut *journals {
            self.blocks[journal.slot].solve(&self.params, journal.dirty, &mut self.scratch);
        }
        let partition_of =
            |journal: &Journal| self.params.partition_of_block(self.blocks[journal.slot].number);
        let mut totals = Vec::new();
        for run in journals.chunk_by(|a, b| partition_of(a) == partition_of(b)) {
            let partition = partition_of(&run[0]);
            let before = run.iter().map(|journal| lines_for(journal.fallback_keys)).sum::<u32>();
            let now = |journal: &Journal| lines_for(self.blocks[journal.slot].fallback_keys());
            let others = self.lines_used[usize::from(partition.0)] - before;
            let need = others + run.iter().map(now).sum::<u32>();
            let limit = self.params.fallback_lines();
            if need > limit {
                return Err(Full::Fallback { partition, need, limit }.into());
            }
            totals.push((partition, need));
        }
        for (partition, need) in totals {
            self.lines_used[usize::from(partition.0)] = need;
        }
        Ok(())
    }

    /// The deltas of what the journals say has changed.
    fn deltas(&mut self, journals: &[Journal]) -> Vec<Delta> {
        let partition_of =
            |journal: &Journal| self.params.partition_of_block(self.blocks[journal.slot].number);
        let mut deltas = Vec::new();
        for run in journals.chunk_by(|a, b| partition_of(a) == partition_of(b)) {
            let mut writer = PayloadWriter::new(&self.params, run.len() as u32); // at most all blocks
            for journal in run {
                writer.block(&journal.change(&self.params, &self.blocks[journal.slot]));
            }
            let partition = partition_of(&run[0]);
            let previous = self.positions[usize::from(partition.0)];
            let position = Position(previous.0 + 1);
            self.positions[usize::from(partition.0)] = position;
            deltas.push(Delta {
                kind: TableKind::SetSep,
                partition,
                position,
                previous,
                payload: writer.finish(),
            });
        }
        deltas
    }

    /// The blocks of a partition, if it is held here.
    fn partition_blocks(&self, partition: PartitionId) -> Option<&[Block]> {
        let first = (*self.first.get(usize::from(partition.0))?)? as usize;
        Some(&self.blocks[first..first + self.params.blocks_per_partition() as usize])
    }

    /// The absolute state of a partition as a delta from position 0. `None` if the partition is not held here, or
    /// is at position 0 itself, where an empty table already equals it.
    pub fn export_partition(&self, partition: PartitionId) -> Option<Delta> {
        let blocks = self.partition_blocks(partition)?;
        let position = self.positions[usize::from(partition.0)];
        if position == Position(0) {
            return None;
        }
        let layout = Layout::of(&self.params);
        let mut writer = PayloadWriter::new(&self.params, self.params.blocks_per_partition());
        for block in blocks {
            let choices = block.choices.iter().enumerate().map(|(bucket, &choice)| (bucket as u8, choice));
            let groups = (0..GROUPS).map(|group| (group as u8, layout.group(&block.words, group)));
            writer.block(&BlockChange {
                block: block.number,
                whole: true,
                choices: choices.collect(),
                groups: groups.collect(),
                fallback: Some(block.fallback()),
            });
        }
        let payload = writer.finish();
        Some(Delta { kind: TableKind::SetSep, partition, position, previous: Position(0), payload })
    }

    /// The query structure of what is held here; partitions held elsewhere are empty in it, at position 0.
    pub fn export(&self) -> SetSep {
        let mut lines = Vec::with_capacity(self.params.blocks() as usize * self.params.slot_words() / 8);
        let mut lists = Vec::new();
        let zeros = vec![0; self.params.slot_words()];
        for partition in 0..self.params.partitions().get() {
            let blocks = self.partition_blocks(PartitionId(partition as u16));
            for at in 0..self.params.blocks_per_partition() as usize {
                let block = blocks.map(|blocks| &blocks[at]);
                let words = block.map_or(&zeros[..], |block| &block.words);
                lines.extend(words.chunks_exact(8).map(|line| Line::new(std::array::from_fn(|i| line[i]))));
                if let Some(block) = block.filter(|block| block.marks != 0) {
                    lists.push((block.number, block.fallback()));
                }
            }
        }
        let held = self.first.iter().zip(&self.positions);
        let positions = held.map(|(first, &at)| if first.is_some() { at } else { Position(0) }).collect();
        SetSep::with_lines(self.params, positions, lines, lists)
    }

    /// Keys held. Cost: a pass over the blocks.
    pub fn len(&self) -> u64 {
        self.blocks.iter().map(|block| block.keys.len() as u64).sum()
    }

    /// Whether none are held.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(|block| block.keys.is_empty())
    }

    /// Sizes and counters. Cost: a pass over the blocks.
    pub fn stats(&self) -> Stats {
        let keys = self.len();
        let lines: u32 = self.lines_used.iter().sum();
        let table_bytes = self.blocks.len() * (self.params.slot_words() * 8 + 8) + lines as usize * 64;
        Stats {
            keys,
            fallback_keys: self.blocks.iter().map(|block| block.fallback_keys() as u64).sum(),
            marked_groups: self.blocks.iter().map(|block| u64::from(block.marks.count_ones())).sum(),
            max_group_load: self.blocks.iter().flat_map(|block| block.loads).max().unwrap_or(0),
            max_block_keys: self.blocks.iter().map(|block| block.keys.len()).max().unwrap_or(0),
            table_bytes,
            bits_per_key: bits_per_key(table_bytes, keys),
            moves: self.moves,
        }
    }
}
