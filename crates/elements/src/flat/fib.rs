//! The FIB of a switch: workers look up names in it while a name table changes it.
//!
//! ```text
//! name ─▶ hash ─▶ [filter: known at all?] ─▶ Othello ─▶ value ─▶ actions ─▶ action
//! ```
//!
//! For a name that is in the table before and after a change, every concurrent lookup returns the action before or
//! after it, never a third: a value means one action for the life of a generation (`Actions::meaning`). When all values
//! are used up, a new generation replaces the old one by one store.

use super::action::{Action, ActionId, Actions, LiveActions, Meaning};
use arc_swap::{ArcSwap, ArcSwapOption, Cache};
use scalebricks_tables::Spread;
use scalebricks_tables::filter::BloomFilter;
use scalebricks_tables::othello::{Othello, OthelloReader};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// Names that are looked up at once.
pub const PART: usize = 64;

/// What happens to frames whose name is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnknownNamePolicy {
    /// They are dropped.
    Drop,
    /// They are flooded, as MAC bridges do.
    Flood,
    /// Use Othello's arbitrary answer: each name gets one of the actions in use, always the same while the table does
    /// not change. So a load balancer spreads new names over its servers.
    Answer,
}

/// An Othello table with the actions that its values mean.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) othello: Arc<Othello>,
    pub(super) actions: LiveActions,
    /// Checked first, if present; replaced as a whole when it grows.
    pub(super) filter: ArcSwapOption<BloomFilter>,
    /// Whether slots have checksums.
    pub(super) is_checked: bool,
    /// Spreads the values of foreign names: slots that no name needs are 0, so in a sparse table most foreign names
    /// would get value 0.
    pub(super) spread: Spread,
}

/// The FIB of a switch, shared by all its workers.
#[derive(Debug)]
pub struct FlatFib {
    pub(super) generation: Arc<ArcSwap<Generation>>,
}

impl FlatFib {
    pub(super) fn new(generation: Generation) -> Self {
        Self { generation: Arc::new(ArcSwap::from_pointee(generation)) }
    }

    /// A reader for one worker.
    pub fn reader(&self, unknown: UnknownNamePolicy) -> FibReader {
        let generation = self.generation.load_full();
        FibReader {
            generations: Cache::new(Arc::clone(&self.generation)),
            othello: OthelloReader::new(Arc::clone(&generation.othello)),
            generation,
            unknown,
        }
    }

    /// Bytes that lookups may read: Othello, filter, actions.
    pub fn table_bytes(&self) -> usize {
        let generation = self.generation.load();
        let actions = generation.actions.0.load();
        let filter = generation.filter.load().as_ref().map_or(0, |filter| filter.table_bytes());
        generation.othello.stats().table_bytes
            + filter
            + size_of_val(&*actions.numbered)
            + size_of::<ActionId>() * actions.live.len()
    }
}

/// One worker's reader of a [`FlatFib`].
#[derive(Debug)]
pub struct FibReader {
    generations: Cache<Arc<ArcSwap<Generation>>, Arc<Generation>>,
    /// The one that `othello` reads.
    generation: Arc<Generation>,
    othello: OthelloReader,
    unknown: UnknownNamePolicy,
}

/// The table's answer for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FibAnswer {
    /// The action; `None` if the name is unknown or found to be foreign, or if there is no action.
    pub action: Option<Action>,
    /// Whether the name was detected as not in the table. Not every foreign name is detected.
    pub is_alien: bool,
}

impl FibAnswer {
    const ALIEN: Self = Self { action: None, is_alien: true };
}

impl FibReader {
    /// What happens to unknown names.
    pub const fn unknown(&self) -> UnknownNamePolicy {
        self.unknown
    }

    /// Looks up names in parts of [`PART`].
    ///
    /// Cost: that of [`OthelloReader::check_batch`], plus one cache line of the filter per name if there is one, plus
    /// the action, at most 20 bytes in a table of all actions.
    ///
    /// # Panics
    /// If `answers` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], answers: &mut [FibAnswer]) {
        let answers = &mut answers[..hashes.len()];
        let newest = self.generations.load();
        if !Arc::ptr_eq(newest, &self.generation) {
            self.generation = Arc::clone(newest);
            self.othello = OthelloReader::new(Arc::clone(&self.generation.othello));
        }
        // Before the lookup: see `Actions::meaning`.
        let actions = self.generation.actions.0.load();
        for (hashes, answers) in hashes.chunks(PART).zip(answers.chunks_mut(PART)) {
            if self.unknown == UnknownNamePolicy::Answer {
                self.any_batch(&actions, hashes, answers);
            } else {
                self.known_batch(&actions, hashes, answers);
            }
        }
    }

    /// An action for every name of a part.
    fn any_batch(&mut self, actions: &Actions, hashes: &[KeyHash], answers: &mut [FibAnswer]) {
        let mut values = [0; PART];
        self.othello.lookup_batch(hashes, &mut values[..hashes.len()]);
        for ((answer, &hash), &value) in answers.iter_mut().zip(hashes).zip(&values) {
            let value = self.generation.spread.mask(hash, value);
            *answer = match actions.meaning(value, &self.generation.actions.0) {
                Meaning::Is(action) => FibAnswer { action: Some(action), is_alien: false },
                Meaning::Nothing => {
                    FibAnswer { action: actions.any(self.generation.spread.bits(hash)), is_alien: true }
                }
            };
        }
    }

    /// The actions of the names of a part that appear to be in the table.
    fn known_batch(&mut self, actions: &Actions, hashes: &[KeyHash], answers: &mut [FibAnswer]) {
        let mut found = [None; PART];
        if self.generation.is_checked {
            self.othello.check_batch(hashes, &mut found[..hashes.len()]);
        } else {
            let mut values = [0; PART];
            self.othello.lookup_batch(hashes, &mut values[..hashes.len()]);
            for (found, &value) in found.iter_mut().zip(&values).take(hashes.len()) {
                *found = Some(value);
            }
        }
        let mut is_known = [true; PART];
        if let Some(filter) = &*self.generation.filter.load() {
            filter.contains_batch(hashes, &mut is_known[..hashes.len()]);
        }
        let found = found.iter().zip(&is_known);
        for ((answer, &hash), (found, is_known)) in answers.iter_mut().zip(hashes).zip(found) {
            let meaning = found.filter(|_| *is_known).map_or(Meaning::Nothing, |value| {
                let value = self.generation.spread.mask(hash, value);
                actions.meaning(value, &self.generation.actions.0)
            });
            *answer = match meaning {
                Meaning::Is(action) => FibAnswer { action: Some(action), is_alien: false },
                Meaning::Nothing => FibAnswer::ALIEN,
            };
        }
    }

    /// The answer for one name.
    pub fn lookup(&mut self, hash: KeyHash) -> FibAnswer {
        let mut answer = [FibAnswer::ALIEN];
        self.lookup_batch(&[hash], &mut answer);
        answer[0]
    }
}

impl Default for FibAnswer {
    fn default() -> Self {
        Self::ALIEN
    }
}
