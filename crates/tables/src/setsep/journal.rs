//! What a batch did to one block: enough to undo it, and to say what changed.

use super::balance::{Choices, Loads};
use super::block::{Block, Moves, Refused};
use super::geometry::{BUCKETS, GROUPS};
use super::image::Layout;
use super::ops::Op;
use super::params::Params;
use super::payload::BlockChange;

/// One block's journal.
#[derive(Debug)]
pub(super) struct Journal {
    /// Place of the block in the control structure.
    pub(super) slot: usize,
    /// One bit a group: keys, values or members changed.
    pub(super) dirty: u64,
    /// Keys in the fallback before.
    pub(super) fallback_keys: usize,
    words: Box<[u64]>,
    choices: Choices,
    loads: Loads,
    marks: u64,
    undo: Vec<Undo>,
}

#[derive(Debug, Clone, Copy)]
enum Undo {
    Remove(u64),
    Put(u64, u8),
    Set(u64, u8),
}

impl Journal {
    /// The journal of a block as it is.
    pub(super) fn new(slot: usize, block: &Block) -> Self {
        Self {
            slot,
            dirty: 0,
            fallback_keys: block.fallback_keys(),
            words: block.words.clone(),
            choices: block.choices,
            loads: block.loads,
            marks: block.marks,
            undo: Vec::new(),
        }
    }

    /// Carries out one operation on the keys and choices of the block.
    pub(super) fn perform(
        &mut self,
        params: &Params,
        block: &mut Block,
        op: Op,
        moves: &mut Moves,
    ) -> Result<(), Refused> {
        let hash = op.hash().get();
        self.undo.push(match op {
            Op::Insert(_, value) => {
                block.insert(params, hash, value, &mut self.dirty, moves)?;
                Undo::Remove(hash)
            }
            Op::Update(_, value) => Undo::Set(hash, block.update(params, hash, value, &mut self.dirty)?),
            Op::Remove(_) => Undo::Put(hash, block.remove(params, hash, &mut self.dirty)?),
        });
        Ok(())
    }

    /// Makes the block what it was.
    pub(super) fn undo(self, params: &Params, block: &mut Block) {
        for step in self.undo.into_iter().rev() {
            let mut ignored = 0;
            let undone = match step {
                Undo::Remove(hash) => block.remove(params, hash, &mut ignored).map(drop),
                Undo::Put(hash, value) => block.put(params, hash, value).map(drop),
                Undo::Set(hash, value) => block.update(params, hash, value, &mut ignored).map(drop),
            };
            if undone.is_err() {
                unreachable!("a step that was just done can be undone");
            }
        }
        (block.words, block.choices, block.loads, block.marks) =
            (self.words, self.choices, self.loads, self.marks);
    }

    /// What changed in the block, for a delta.
    pub(super) fn change(&self, params: &Params, block: &Block) -> BlockChange {
        let layout = Layout::of(params);
        let moved = (0..BUCKETS).filter(|&bucket| block.choices[bucket] != self.choices[bucket]);
        let solved = (0..GROUPS).filter(|group| self.dirty >> group & 1 == 1);
        let fields = solved.map(|group| (group as u8, layout.group(&block.words, group)));
        let differs = |group: u8, fields| layout.group(&self.words, group.into()) != fields;
        let listed = (self.marks | block.marks) & self.dirty != 0;
        BlockChange {
            block: block.number,
            whole: false,
            choices: moved.map(|bucket| (bucket as u8, block.choices[bucket])).collect(),
            groups: fields.filter(|&(group, fields)| differs(group, fields)).collect(),
            fallback: listed.then(|| block.fallback()),
        }
    }
}
