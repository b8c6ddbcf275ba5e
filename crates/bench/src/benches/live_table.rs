//! A compact table with its owner's control structure under changes, and the expected answers.

use crate::error::{BenchError, OrFail};
use crate::keys::{self, KeySet};
use crate::rounds::Measurement;
use crate::row::{Case, Metric};
use crate::structures::{BuildConfig, Compact, SetSep, entries};
use crate::timing;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::published::Op;
use scalebricks_tables::setsep::{self, SetSepControl};
use scalebricks_types::{Delta, KeyHash, PartitionId};
use std::ops::Range;
use std::sync::Arc;

/// Keys inserted into a growing table between two checks for an interrupt.
const GROWN_AT_ONCE: usize = 1 << 16;

/// The timed part of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The owner's work, and that of one table that applies the deltas.
    All,
    /// The owner's work, including its own copy of the table.
    Own,
    /// The owner's work only; deltas are applied after the clock has stopped.
    Owner,
}

impl Scope {
    /// The suffix of its variants.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Own => ", own table",
            Self::Owner => ", owner alone",
        }
    }
}

/// A table under changes.
pub struct LiveTable<C: Compact> {
    control: C::Control,
    /// `None` for a table with a single range, which would be copied for every change.
    table: Option<Arc<C::Table>>,
    /// Current keys and answers, in query order.
    set: KeySet,
    cursor: usize,
    fresh: u64,
}

impl<C: Compact> LiveTable<C> {
    /// A table of the keys of `set`.
    ///
    /// # Errors
    /// [`BenchError::Usage`] and [`BenchError::Structure`].
    pub fn new(set: KeySet, make: BuildConfig) -> Result<Self, BenchError> {
        let builder = C::builder(C::params(set.len() as u64, set.value_bits, make)?, make);
        let control = C::build_control(&builder, &entries::<C>(&set))?;
        let table = (make.sizing == Sizing::Sharded).then(|| C::export(&control));
        let fresh = set.len() as u64;
        Ok(Self { control, table, set, cursor: 0, fresh })
    }

    /// The live table, or one made for this call.
    pub fn table(&self) -> Arc<C::Table> {
        self.table.clone().unwrap_or_else(|| C::export(&self.control))
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> u64 {
        C::table_bytes(&self.table()) as u64
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
        self.cursor += count;
        self.cursor - count..self.cursor
    }

    /// Operations that change the values of the keys at these positions.
    pub fn changes(&mut self, places: Range<usize>) -> Vec<Op<C::Value>> {
        let mask = u8::MAX >> (8 - self.set.value_bits);
        let change = |place: usize| {
            let value = self.set.answers[place].wrapping_add(1) & mask;
            self.set.answers[place] = value;
            Op::Update(self.set.queries[place], value.into())
        };
        places.map(change).collect()
    }

    /// Operations that remove the keys at these positions.
    pub fn removals(&self, places: Range<usize>) -> Vec<Op<C::Value>> {
        self.set.queries[places].iter().map(|&hash| Op::Remove(hash)).collect()
    }

    /// Operations that insert new keys at these positions.
    pub fn insertions(&mut self, places: Range<usize>) -> Vec<Op<C::Value>> {
        let insert = |place: usize| {
            let (hash, value) = (keys::hash(self.fresh), keys::value(self.fresh, self.set.value_bits));
            self.fresh += 1;
            (self.set.queries[place], self.set.answers[place]) = (hash, value);
            Op::Insert(hash, value.into())
        };
        places.map(insert).collect()
    }

    /// Performs the operations on a pinned thread, `batch` at once; returns operations per second.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if an operation or a delta is refused.
    pub fn perform(&mut self, ops: &[Op<C::Value>], batch: usize, scope: Scope) -> Result<f64, BenchError> {
        let mut kept: Vec<Delta> = Vec::with_capacity(if scope == Scope::Owner { ops.len() } else { 0 });
        let Self { control, table, .. } = self;
        let table = table.as_deref();
        let (done, seconds) = timing::pinned(|| {
            ops.chunks(batch).try_for_each(|ops| {
                let deltas = C::change(control, table.filter(|_| scope == Scope::Own), ops)?;
                match scope {
                    Scope::All => apply::<C>(table, &deltas)?,
                    Scope::Own => {}
                    Scope::Owner => kept.extend(deltas),
                }
                Ok(())
            })
        })?;
        done.and_then(|()| apply::<C>(table, &kept))?;
        Ok(ops.len() as f64 / seconds)
    }

    /// Measures changes of values, and deletes paired with inserts: `count` per run, `batch` at once.
    pub fn turns<'a>(case: Case, count: usize, batch: usize, scope: Scope) -> [Measurement<'a, Self>; 2] {
        let changes = Measurement::new(case.clone(), Metric::UpdateRate, move |live: &mut Self| {
            let places = live.window(count);
            let ops = live.changes(places);
            Ok(live.perform(&ops, batch, scope)?.into())
        });
        let rows = vec![(case.clone(), Metric::DeleteRate), (case, Metric::InsertRate)];
        let replacements = Measurement::several(rows, move |live: &mut Self| {
            let places = live.window(count);
            let ops = live.removals(places.clone());
            let deleting = live.perform(&ops, batch, scope)?;
            let ops = live.insertions(places);
            Ok(vec![deleting, live.perform(&ops, batch, scope)?].into())
        });
        [changes, replacements]
    }

    /// Replaces all keys once, `batch` at once; returns operations per second.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    pub fn replace_all(&mut self, batch: usize) -> Result<f64, BenchError> {
        let keys = self.set.len();
        let mut seconds = 0.0;
        for from in (0..keys).step_by(batch) {
            let places = from..(from + batch).min(keys);
            let count = places.len() as f64;
            let ops = self.removals(places.clone());
            seconds += count / self.perform(&ops, batch, Scope::All)?;
            let ops = self.insertions(places);
            seconds += count / self.perform(&ops, batch, Scope::All)?;
        }
        Ok(2.0 * keys as f64 / seconds)
    }

    /// Looks up every key in the live table.
    ///
    /// # Errors
    /// [`BenchError::Wrong`].
    pub fn check(&self) -> Result<(), BenchError> {
        let mut answers: Vec<u8> = self.set.answers.iter().map(|right| !right).collect();
        if let Some(mut reader) = C::reader(&self.table(), Isa::best()) {
            let mut room = vec![C::Value::default(); self.set.len().max(1)];
            C::look_up_batch(&mut reader, &self.set.queries, &mut room, &mut answers);
        }
        timing::check(C::NAME, &self.set, &answers)
    }
}

fn apply<C: Compact>(table: Option<&C::Table>, deltas: &[Delta]) -> Result<(), BenchError> {
    table.map_or(Ok(()), |table| deltas.iter().try_for_each(|delta| C::apply(table, delta)))
}

impl LiveTable<SetSep> {
    /// An empty table made for `expected` keys.
    ///
    /// # Errors
    /// [`BenchError::Usage`].
    pub fn empty(value_bits: u8, make: BuildConfig, expected: u64) -> Result<Self, BenchError> {
        let control = SetSepControl::new(SetSep::params(expected, value_bits, make)?).with_isa(make.isa);
        let table = Some(SetSep::export(&control));
        Ok(Self { control, table, set: KeySet::new(0, value_bits), cursor: 0, fresh: 0 })
    }

    /// The parameters of the table.
    pub fn params(&self) -> setsep::Params {
        self.table().params()
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
            let Self { control, table, .. } = self;
            let (done, passed) = timing::pinned(|| {
                ops.iter().try_for_each(|&op| {
                    apply::<SetSep>(table.as_deref(), &SetSep::change(control, None, &[op])?)?;
                    let kept = control.maintain().of(SetSep::NAME)?;
                    apply::<SetSep>(table.as_deref(), kept.as_slice())
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
    pub fn reshape(&mut self, to: setsep::Params, blocks: u32) -> Result<f64, BenchError> {
        let Self { control, table, .. } = self;
        let (done, seconds) = timing::pinned(|| {
            control.reshape(to).of(SetSep::NAME)?;
            for partition in 0..to.partitions().get() {
                let partition = PartitionId(partition as u16); // there are at most 2^16
                while control.reshaping().is_some() {
                    let step = control.reshape_step(partition, blocks).of(SetSep::NAME)?;
                    let Some(delta) = step else { break };
                    apply::<SetSep>(table.as_deref(), &[delta])?;
                }
            }
            Ok::<(), BenchError>(())
        })?;
        done?;
        Ok(self.set.len() as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::Othello;

    #[test]
    fn a_table_grows_and_is_reshaped_and_answers_as_before() {
        let make = BuildConfig::table();
        let mut live = LiveTable::empty(2, make, 100).unwrap();
        assert!(live.grow(5000, || Ok(())).unwrap() > 0.0);
        live.check().unwrap();
        let blocks = live.params().blocks();
        let params = live.control.params().with_seed(9);
        if live.control.reshaping().is_none() {
            assert!(live.reshape(params, 3).unwrap() > 0.0);
            assert_eq!(live.params(), params);
        }
        assert!(blocks > 1);
        live.check().unwrap();
    }

    /// Changes, removes and inserts keys, and checks all answers.
    fn assert_arrives<C: Compact>(live: &mut LiveTable<C>, batch: usize, scope: Scope) {
        let places = live.window(100);
        let ops = live.changes(places.clone());
        live.perform(&ops, batch, scope).unwrap();
        live.check().unwrap();
        let ops = live.removals(places.clone());
        live.perform(&ops, batch, scope).unwrap();
        let ops = live.insertions(places);
        live.perform(&ops, batch, scope).unwrap();
        live.check().unwrap();
    }

    #[test]
    fn operations_arrive_and_a_lost_one_is_found() {
        let mut live = LiveTable::<SetSep>::new(KeySet::new(3000, 2), BuildConfig::table()).unwrap();
        live.check().unwrap();
        for (batch, scope) in [(1, Scope::All), (7, Scope::Owner), (1, Scope::Own), (50, Scope::Own)] {
            assert_arrives(&mut live, batch, scope);
        }
        assert_eq!(live.window(2700), 0..2700, "wrapped around");
        let _ = live.changes(0..10);
        assert!(matches!(live.check(), Err(BenchError::Wrong { key: 0, .. })));
    }

    #[test]
    fn operations_arrive_in_all_sizings() {
        for sizing in Sizing::ALL {
            let make = BuildConfig { sizing, ..BuildConfig::table() };
            let mut live = LiveTable::<Othello>::new(KeySet::new(3000, 2), make).unwrap();
            live.check().unwrap();
            for batch in [1, 7, 50] {
                assert_arrives(&mut live, batch, Scope::All);
            }
        }
    }
}
