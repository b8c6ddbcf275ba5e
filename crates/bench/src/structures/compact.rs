//! SetSep and Othello behind one trait. They differ in the type of values and in a few options.

use super::queries::{LookupMode, MAX_BATCH, Queries, in_calls};
use super::{Build, BuildConfig, Fill, Product, Table, fewest_partitions};
use crate::error::{BenchError, OrFail, ensure};
use crate::keys::KeySet;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::published::Op;
use scalebricks_tables::{othello, setsep};
use scalebricks_types::{Applied, Delta, KeyHash};
use std::sync::Arc;

/// A compact table: the types of its parts, and their functions that benchmarks use.
pub trait Compact: Sized + 'static {
    /// Its name in results.
    const NAME: &'static str;
    /// The type of values.
    type Value: Copy + Default + From<u8> + Into<u16> + Send + Sync;
    /// Its parameters.
    type Params: Copy;
    /// Builds it, and reuses memory between builds.
    type Builder: Send;
    /// The structure that accepts changes.
    type Control: Send + Sync;
    /// The structure that answers queries.
    type Table: Send + Sync;
    /// A reader for one thread.
    type Reader;

    /// The parameters of a table for this many keys.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if the parameters are invalid.
    fn params(keys: u64, value_bits: u8, make: BuildConfig) -> Result<Self::Params, BenchError>;
    /// A builder.
    fn builder(params: Self::Params, make: BuildConfig) -> Self::Builder;
    /// Builds the table alone.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    fn build_table(
        builder: &Self::Builder,
        hashes: &[KeyHash],
        values: &[Self::Value],
    ) -> Result<Self::Table, BenchError>;
    /// Builds the control structure.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    fn build_control(
        builder: &Self::Builder,
        entries: &[(KeyHash, Self::Value)],
    ) -> Result<Self::Control, BenchError>;
    /// The table of a control structure.
    fn export(control: &Self::Control) -> Arc<Self::Table>;
    /// Performs operations as one batch, and applies them to the owner's table if there is one.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    fn change(
        control: &mut Self::Control,
        own: Option<&Self::Table>,
        ops: &[Op<Self::Value>],
    ) -> Result<Vec<Delta>, BenchError>;
    /// Applies a delta, which must be new.
    ///
    /// # Errors
    /// [`BenchError::Structure`], [`BenchError::Check`].
    fn apply(table: &Self::Table, delta: &Delta) -> Result<(), BenchError>;
    /// The value that the control structure holds.
    fn get(control: &Self::Control, hash: KeyHash) -> Option<Self::Value>;
    /// Bytes of the control structure.
    fn control_bytes(control: &Self::Control) -> usize;
    /// Bytes of the table.
    fn table_bytes(table: &Self::Table) -> usize;
    /// A reader; `None` if the processor lacks the instructions.
    fn reader(table: &Arc<Self::Table>, isa: Isa) -> Option<Self::Reader>;
    /// Looks up keys one by one under one pin, or with a pin for each.
    fn look_up_each(reader: &mut Self::Reader, shares_pin: bool, hashes: &[KeyHash], answers: &mut [u8]);
    /// Looks up a batch of keys. `room` is for values that are not bytes: the caller makes it once for many batches, because
    /// making it took a third of the time of a batch of 64 keys. It must not be empty.
    fn look_up_batch(
        reader: &mut Self::Reader,
        hashes: &[KeyHash],
        room: &mut [Self::Value],
        answers: &mut [u8],
    );
    /// As [`Table::touched`].
    fn touched(table: &Arc<Self::Table>, hashes: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8));
    /// As [`Table::note`].
    fn note(_: &Arc<Self::Table>, _: Isa) -> Option<&'static str> {
        None
    }
    /// As [`Table::fill`] for the table.
    fn table_fill(_: &Self::Table) -> Fill {
        Fill::default()
    }
    /// As [`Table::fill`] for the control structure.
    fn control_fill(_: &Self::Control) -> Fill {
        Fill::default()
    }
}

/// `tables::setsep`.
#[derive(Debug)]
pub struct SetSep;

/// `tables::othello`.
#[derive(Debug)]
pub struct Othello;

/// The functions of [`Compact`] that are the same calls of both tables' types, which have no public trait.
macro_rules! compact {
    ($kind:ident, $name:literal, $value:ty, $tables:ident, $table:ident, $control:ident, $reader:ident, $builder:ty,
     { $($own:tt)* }) => {
        impl Compact for $kind {
            const NAME: &'static str = $name;
            type Value = $value;
            type Params = $tables::Params;
            type Builder = $builder;
            type Control = $tables::$control;
            type Table = $tables::$table;
            type Reader = $tables::$reader;

            fn build_table(
                builder: &$builder,
                hashes: &[KeyHash],
                values: &[$value],
            ) -> Result<Self::Table, BenchError> {
                builder.build_table(hashes, values).of($name)
            }

            fn build_control(
                builder: &$builder,
                entries: &[(KeyHash, $value)],
            ) -> Result<Self::Control, BenchError> {
                builder.build(entries).of($name)
            }

            fn export(control: &Self::Control) -> Arc<Self::Table> {
                Arc::new(control.export())
            }

            fn change(
                control: &mut Self::Control,
                own: Option<&Self::Table>,
                ops: &[Op<$value>],
            ) -> Result<Vec<Delta>, BenchError> {
                match own {
                    Some(table) => control.batch_with(table, ops).of($name),
                    None => control.batch(ops).of($name),
                }
            }

            fn apply(table: &Self::Table, delta: &Delta) -> Result<(), BenchError> {
                let is_new = table.apply(delta).of($name)? == Applied::Advanced;
                ensure(is_new, $name, || "a new delta was rejected as stale")
            }

            fn get(control: &Self::Control, hash: KeyHash) -> Option<$value> {
                control.get(hash)
            }

            fn control_bytes(control: &Self::Control) -> usize {
                control.control_bytes()
            }

            fn table_bytes(table: &Self::Table) -> usize {
                table.stats().table_bytes
            }

            fn reader(table: &Arc<Self::Table>, isa: Isa) -> Option<Self::Reader> {
                $tables::$reader::with_isa(Arc::clone(table), isa)
            }

            fn look_up_each(
                reader: &mut Self::Reader,
                shares_pin: bool,
                hashes: &[KeyHash],
                answers: &mut [u8],
            ) {
                let answers = hashes.iter().zip(answers);
                if shares_pin {
                    let pin = reader.pin();
                    answers.for_each(|(&hash, answer)| *answer = narrow(pin.get(hash)));
                } else {
                    answers.for_each(|(&hash, answer)| *answer = narrow(reader.pin().get(hash)));
                }
            }

            fn touched(
                table: &Arc<Self::Table>,
                hashes: &[KeyHash],
                visit: &mut dyn FnMut(usize, *const u8),
            ) {
                let mut reader = $tables::$reader::new(Arc::clone(table));
                let pin = reader.pin();
                for (place, &hash) in hashes.iter().enumerate() {
                    pin.touched(hash, &mut |at| visit(place, at));
                }
            }

            $($own)*
        }
    };
}

/// A value of at most 8 bits, as in all benchmarks of [`KeySet`]s.
#[inline(always)]
fn narrow(value: impl Into<u16>) -> u8 {
    value.into() as u8
}

compact!(SetSep, "setsep", u8, setsep, SetSep, SetSepControl, SetSepReader, setsep::SetSepBuilder, {
    fn params(keys: u64, value_bits: u8, make: BuildConfig) -> Result<setsep::Params, BenchError> {
        fewest_partitions(|partitions| {
            let params = setsep::Params::for_keys_in(make.format, keys, value_bits, partitions)?;
            Ok::<_, setsep::ParamsError>(params.with_seed(1))
        })
    }

    fn builder(params: setsep::Params, make: BuildConfig) -> Self::Builder {
        setsep::SetSepBuilder::new(params).threads(make.threads).isa(make.isa).bits_at_once(make.bits)
    }

    fn look_up_batch(reader: &mut Self::Reader, hashes: &[KeyHash], _: &mut [u8], answers: &mut [u8]) {
        reader.lookup_batch(hashes, answers);
    }

    fn note(table: &Arc<Self::Table>, isa: Isa) -> Option<&'static str> {
        let reader = Self::reader(table, isa)?;
        (isa > Isa::Portable && !reader.has_vector_lookup()).then_some("no vector lookup")
    }

    fn table_fill(table: &Self::Table) -> Fill {
        Fill { fallback_keys: Some(table.stats().fallback_keys), max_group_load: None }
    }

    fn control_fill(control: &Self::Control) -> Fill {
        Fill { fallback_keys: None, max_group_load: Some(control.stats().max_group_load) }
    }
});

compact!(
    Othello,
    "othello",
    u16,
    othello,
    Othello,
    OthelloControl,
    OthelloReader,
    othello::OthelloBuilder,
    {
        fn params(keys: u64, value_bits: u8, make: BuildConfig) -> Result<othello::Params, BenchError> {
            fewest_partitions(|partitions| {
                let params = othello::Params::sized(make.sizing, keys, value_bits, partitions)?;
                Ok::<_, othello::ParamsError>(params.with_seed(1))
            })
        }

        fn builder(params: othello::Params, make: BuildConfig) -> Self::Builder {
            othello::OthelloBuilder::new(params).threads(make.threads)
        }

        fn look_up_batch(
            reader: &mut Self::Reader,
            hashes: &[KeyHash],
            room: &mut [u16],
            answers: &mut [u8],
        ) {
            let most = room.len();
            for (hashes, answers) in hashes.chunks(most).zip(answers.chunks_mut(most)) {
                let values = &mut room[..hashes.len()];
                reader.lookup_batch(hashes, values);
                answers.iter_mut().zip(values).for_each(|(answer, value)| *answer = narrow(*value));
            }
        }
    }
);

/// Converts a key set for a build.
///
/// # Errors
/// As [`Compact::params`].
pub fn prepare<C: Compact>(set: &KeySet, make: BuildConfig) -> Result<Build<'_>, BenchError> {
    let builder = C::builder(C::params(set.len() as u64, set.value_bits, make)?, make);
    if make.product == Product::Control {
        let entries = entries::<C>(set);
        return Ok(Box::new(move || Ok(Box::new(ControlTable::<C>(C::build_control(&builder, &entries)?)))));
    }
    let values: Vec<C::Value> = set.values.iter().map(|&value| value.into()).collect();
    Ok(Box::new(move || {
        let table = Arc::new(C::build_table(&builder, &set.hashes, &values)?);
        Ok(Box::new(CompactTable::<C> { table, isa: make.isa }))
    }))
}

/// Keys with values.
pub fn entries<C: Compact>(set: &KeySet) -> Vec<(KeyHash, C::Value)> {
    set.hashes.iter().zip(&set.values).map(|(&hash, &value)| (hash, value.into())).collect()
}

/// Changes per batch when a table is turned over.
const TURNED_AT_ONCE: usize = 64;

/// Batches of these changes between two checks for an interrupt.
const BATCHES_PER_CHECK: usize = 1024;

/// A table with the values of `set`, each of which was another one and was changed, in the order of the queries. Each
/// block or range was replaced many times, so they no longer lie in order.
///
/// # Errors
/// As [`Compact::params`] and [`Compact::change`]; those of `check`.
pub fn turned_over<C: Compact>(
    set: &KeySet,
    make: BuildConfig,
    check: impl Fn() -> Result<(), BenchError>,
) -> Result<CompactTable<C>, BenchError> {
    let builder = C::builder(C::params(set.len() as u64, set.value_bits, make)?, make);
    let others = set.hashes.iter().zip(&set.values).map(|(&hash, &value)| (hash, (value ^ 1).into()));
    let mut control = C::build_control(&builder, &others.collect::<Vec<_>>())?;
    let table = C::export(&control);
    let changes = set.queries.iter().zip(&set.answers).map(|(&hash, &value)| Op::Update(hash, value.into()));
    let changes: Vec<Op<C::Value>> = changes.collect();
    for batches in changes.chunks(TURNED_AT_ONCE * BATCHES_PER_CHECK) {
        check()?;
        for batch in batches.chunks(TURNED_AT_ONCE) {
            C::change(&mut control, Some(&table), batch)?;
        }
    }
    Ok(CompactTable { table, isa: make.isa })
}

/// The query structure, with the instructions that readers may use.
pub struct CompactTable<C: Compact> {
    /// The table.
    pub table: Arc<C::Table>,
    /// The instructions.
    pub isa: Isa,
}

impl<C: Compact> Table for CompactTable<C> {
    fn table_bytes(&self) -> u64 {
        C::table_bytes(&self.table) as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        // Without these instructions the answers remain wrong, which the caller detects.
        let Some(mut reader) = C::reader(&self.table, self.isa) else { return };
        match mode {
            LookupMode::OnePin => C::look_up_each(&mut reader, true, queries.hashes, answers),
            LookupMode::PinEach | LookupMode::Loop => {
                C::look_up_each(&mut reader, false, queries.hashes, answers);
            }
            _ => {
                let mut room = vec![C::Value::default(); mode.keys().min(MAX_BATCH)];
                in_calls(mode, queries.hashes, answers, |hashes, answers| {
                    C::look_up_batch(&mut reader, hashes, &mut room, answers);
                });
            }
        }
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        C::touched(&self.table, queries.hashes, visit);
    }

    fn note(&self) -> Option<&'static str> {
        C::note(&self.table, self.isa)
    }

    fn fill(&self) -> Fill {
        C::table_fill(&self.table)
    }
}

/// The control structure, queried only to check it.
struct ControlTable<C: Compact>(C::Control);

impl<C: Compact> Table for ControlTable<C> {
    fn table_bytes(&self) -> u64 {
        C::control_bytes(&self.0) as u64
    }

    fn lookup(&self, _: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        for (&hash, answer) in queries.hashes.iter().zip(answers) {
            if let Some(value) = C::get(&self.0, hash) {
                *answer = narrow(value);
            }
        }
    }

    fn fill(&self) -> Fill {
        C::control_fill(&self.0)
    }
}
