//! A SetSep table with its owner's control structure, and the expected answers.

use crate::error::BenchError;
use crate::keys::{self, KeySet};
use crate::structures::{BuildConfig, params};
use crate::timing;
use scalebricks_tables::setsep::{Op, Params, SetSep, SetSepBuilder, SetSepControl, SetSepReader};
use scalebricks_types::{Applied, Delta, KeyHash, PartitionId};
use std::ops::Range;
use std::sync::Arc;

/// Its name in errors.
pub const NAME: &str = "setsep";

/// Keys inserted into a growing table between two checks for an interrupt.
const GROWN_AT_ONCE: usize = 1 << 16;

/// Operations per batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// One; its delta is applied before the next.
    Single,
    /// This many, solved together.
    Batched(usize),
}

/// The timed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The owner's work, and that of one table that applies the deltas.
    All,
    /// The owner's work, including its own copy of the table, in batches.
    Own,
    /// The owner's work only; deltas are applied after the clock has stopped.
    Owner,
}

/// A table under changes.
pub struct LiveTable {
    control: SetSepControl,
    table: Arc<SetSep>,
    /// Current keys and answers, in query order.
    set: KeySet,
    cursor: usize,
    fresh: u64,
}

impl LiveTable {
    /// A table of the keys of `set`.
    ///
    /// # Errors
    /// [`BenchError::Usage`] and [`BenchError::Structure`].
    pub fn new(set: KeySet, make: BuildConfig) -> Result<Self, BenchError> {
        let params = params(set.len() as u64, set.value_bits, make)?;
        let builder = SetSepBuilder::new(params).threads(make.threads).isa(make.isa);
        let control = builder.build(&set.entries()).map_err(|error| BenchError::of(NAME, error))?;
        let table = Arc::new(control.export());
        let fresh = set.len() as u64;
        Ok(Self { control, table, set, cursor: 0, fresh })
    }

    /// An empty table made for `expected` keys.
    ///
    /// # Errors
    /// [`BenchError::Usage`].
    pub fn empty(value_bits: u8, make: BuildConfig, expected: u64) -> Result<Self, BenchError> {
        let control = SetSepControl::new(params(expected, value_bits, make)?).with_isa(make.isa);
        let table = Arc::new(control.export());
        Ok(Self { control, table, set: KeySet::new(0, value_bits), cursor: 0, fresh: 0 })
    }

    /// Inserts this many new keys one by one and maintains the table after each; returns inserts per second.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if a key or a delta is refused; the error of `check`, which is called from
    /// time to time.
    pub fn grow(
        &mut self,
        keys: u64,
        check: impl Fn() -> Result<(), BenchError> + Sync,
    ) -> Result<f64, BenchError> {
        self.set.queries.resize(keys as usize, KeyHash::new(0));
        self.set.answers.resize(keys as usize, 0);
        let mut seconds = 0.0;
        for from in (0..keys as usize).step_by(GROWN_AT_ONCE) {
            check()?;
            let ops = self.insertions(from..(from + GROWN_AT_ONCE).min(keys as usize));
            let (done, passed) = timing::pinned(|| {
                ops.iter().try_for_each(|&op| {
                    self.pass(op, Scope::All, &mut Vec::new())?;
                    let kept = self.control.maintain().map_err(|error| BenchError::of(NAME, error))?;
                    kept.map_or(Ok(()), |delta| self.apply(&delta))
                })
            })?;
            done?;
            seconds += passed;
        }
        Ok(keys as f64 / seconds)
    }

    /// Gives the table these parameters, with `blocks` blocks per delta, which it applies at once; returns
    /// keys per second.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    pub fn reshape(&mut self, to: Params, blocks: u32) -> Result<f64, BenchError> {
        let (done, seconds) = timing::pinned(|| {
            self.control.reshape(to).map_err(|error| BenchError::of(NAME, error))?;
            for partition in 0..to.partitions().get() {
                let partition = PartitionId(partition as u16); // there are at most 2^16
                while self.control.reshaping().is_some() {
                    let step = self.control.reshape_step(partition, blocks);
                    let Some(delta) = step.map_err(|error| BenchError::of(NAME, error))? else { break };
                    self.apply(&delta)?;
                }
            }
            Ok::<(), BenchError>(())
        })?;
        done?;
        Ok(self.set.len() as f64 / seconds)
    }

    /// The live table.
    pub const fn table(&self) -> &Arc<SetSep> {
        &self.table
    }

    /// The current keys and answers.
    pub const fn set(&self) -> &KeySet {
        &self.set
    }

    /// The next `count` positions, wrapping around.
    pub fn window(&mut self, count: usize) -> Range<usize> {
        if self.cursor + count > self.set.len() {
            self.cursor = 0;
        }
        let from = self.cursor;
        self.cursor += count;
        from..self.cursor
    }

    /// Operations that change the values of the keys at these positions.
    pub fn changes(&mut self, places: Range<usize>) -> Vec<Op> {
        let mask = u8::MAX >> (8 - self.set.value_bits);
        let change = |place: usize| {
            let value = self.set.answers[place].wrapping_add(1) & mask;
            self.set.answers[place] = value;
            Op::Update(self.set.queries[place], value)
        };
        places.map(change).collect()
    }

    /// Operations that remove the keys at these positions.
    pub fn removals(&self, places: Range<usize>) -> Vec<Op> {
        self.set.queries[places].iter().map(|&hash| Op::Remove(hash)).collect()
    }

    /// Operations that insert new keys at these positions.
    pub fn insertions(&mut self, places: Range<usize>) -> Vec<Op> {
        let insert = |place: usize| {
            let (hash, value) = (keys::hash(self.fresh), keys::value(self.fresh, self.set.value_bits));
            self.fresh += 1;
            self.set.queries[place] = hash;
            self.set.answers[place] = value;
            Op::Insert(hash, value)
        };
        places.map(insert).collect()
    }

    /// Performs the operations on a pinned thread; returns operations per second.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if an operation or a delta is refused.
    pub fn perform(&mut self, ops: &[Op], pace: Pace, scope: Scope) -> Result<f64, BenchError> {
        let mut kept = Vec::with_capacity(if scope == Scope::Owner { ops.len() } else { 0 });
        let (done, seconds) = timing::pinned(|| match pace {
            Pace::Single => ops.iter().try_for_each(|&op| self.pass(op, scope, &mut kept)),
            Pace::Batched(batch) => {
                ops.chunks(batch.max(1)).try_for_each(|ops| self.pass_batch(ops, scope, &mut kept))
            }
        })?;
        done?;
        kept.iter().try_for_each(|delta| self.apply(delta))?;
        Ok(ops.len() as f64 / seconds)
    }

    fn pass(&mut self, op: Op, scope: Scope, kept: &mut Vec<Delta>) -> Result<(), BenchError> {
        if scope == Scope::Own {
            return self.pass_batch(&[op], scope, kept);
        }
        let delta = match op {
            Op::Insert(hash, value) => self.control.insert(hash, value),
            Op::Update(hash, value) => self.control.update(hash, value),
            Op::Remove(hash) => self.control.remove(hash),
        };
        let delta = delta.map_err(|error| BenchError::of(NAME, error))?;
        match scope {
            Scope::All | Scope::Own => self.apply(&delta),
            Scope::Owner => {
                kept.push(delta);
                Ok(())
            }
        }
    }

    fn pass_batch(&mut self, ops: &[Op], scope: Scope, kept: &mut Vec<Delta>) -> Result<(), BenchError> {
        let deltas = match scope {
            Scope::Own => self.control.batch_with(&self.table, ops),
            Scope::All | Scope::Owner => self.control.batch(ops),
        };
        let deltas = deltas.map_err(|error| BenchError::of(NAME, error))?;
        match scope {
            Scope::Own => Ok(()),
            Scope::All => deltas.iter().try_for_each(|delta| self.apply(delta)),
            Scope::Owner => {
                kept.extend(deltas);
                Ok(())
            }
        }
    }

    fn apply(&self, delta: &Delta) -> Result<(), BenchError> {
        match self.table.apply(delta) {
            Ok(Applied::Advanced) => Ok(()),
            Ok(Applied::Stale) => Err(BenchError::check(NAME, "a new delta was rejected as stale")),
            Err(error) => Err(BenchError::of(NAME, error)),
        }
    }

    /// Looks up every key in the live table.
    ///
    /// # Errors
    /// [`BenchError::Wrong`].
    pub fn check(&self) -> Result<(), BenchError> {
        let mut answers: Vec<u8> = self.set.answers.iter().map(|right| !right).collect();
        SetSepReader::new(Arc::clone(&self.table)).lookup_batch(&self.set.queries, &mut answers);
        timing::check(NAME, &self.set, &answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_and_is_reshaped_and_answers_as_before() {
        let make = BuildConfig::table();
        let mut live = LiveTable::empty(2, make, 100).unwrap();
        assert!(live.grow(5000, || Ok(())).unwrap() > 0.0);
        live.check().unwrap();
        let blocks = live.table().params().blocks();
        let params = live.control.params().with_seed(9);
        if live.control.reshaping().is_none() {
            assert!(live.reshape(params, 3).unwrap() > 0.0);
            assert_eq!(live.table().params(), params);
        }
        assert!(blocks > 1);
        live.check().unwrap();
    }

    #[test]
    fn operations_arrive_and_what_does_not_is_found() {
        let make = BuildConfig::table();
        let mut live = LiveTable::new(KeySet::new(3000, 2), make).unwrap();
        live.check().unwrap();
        for (pace, scope) in [
            (Pace::Single, Scope::All),
            (Pace::Batched(7), Scope::Owner),
            (Pace::Single, Scope::Own),
            (Pace::Batched(50), Scope::Own),
        ] {
            let places = live.window(100);
            let ops = live.changes(places.clone());
            live.perform(&ops, pace, scope).unwrap();
            live.check().unwrap();
            let ops = live.removals(places.clone());
            live.perform(&ops, pace, scope).unwrap();
            let ops = live.insertions(places);
            live.perform(&ops, pace, scope).unwrap();
            live.check().unwrap();
        }
        assert_eq!(live.window(2700), 0..2700, "begun anew");
        let _ = live.changes(0..10);
        assert!(matches!(live.check(), Err(BenchError::Wrong { key: 0, .. })));
    }
}
