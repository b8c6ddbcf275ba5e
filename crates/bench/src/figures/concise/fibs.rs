//! The structures behind one interface: batches of names in, actions out.

#[cfg(test)]
mod tests;

use crate::baselines::buffalo::{Buffalo, SideBySide, Sizes};
use crate::baselines::orthogonal::Orthogonal;
use crate::baselines::sorted::Sorted;
use crate::baselines::{Answer, Baseline, RATE};
use crate::error::{BenchError, OrFail};
use crate::limit::{self, Replay};
use crate::names::population::Population;
use crate::structures::{self, BuildConfig, Compact, Cuckoo, Hashed, fewest_partitions};
use scalebricks_tables::filter::{BloomFilter, FilterParams};
use scalebricks_tables::othello::{Othello, OthelloBuilder, OthelloReader, Params, ParamsError, Sizing};
use scalebricks_tables::setsep::{SetSep, SetSepReader};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// The action of an unknown name. Tables that cannot detect unknown names return arbitrary actions.
pub const UNKNOWN: u16 = u16::MAX;

/// Default names per batch.
pub const BATCH: usize = 64;

/// A structure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fib {
    /// Othello of a sizing, with this many checksum bits.
    Othello(Sizing, u8),
    /// Othello behind a Bloom filter of one line per query, which passes one unknown name in a hundred.
    Filtered,
    /// `SetSep` in its default format.
    SetSep,
    /// Our exact table.
    Cuckoo,
    /// One Bloom filter per action, interleaved.
    Buffalo,
    /// One Bloom filter per action, each of its own size and queried in turn.
    BuffaloApart,
    /// Two Bloom filters per value bit, interleaved.
    Orthogonal,
    /// Sorted hashes.
    Sorted,
}

impl Fib {
    /// Othello with its defaults.
    pub const OTHELLO: Self = Self::Othello(Sizing::Sharded, 0);

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Othello(..) | Self::Filtered => "othello",
            Self::SetSep => "setsep",
            Self::Cuckoo => "cuckoo",
            Self::Buffalo => "buffalo",
            Self::BuffaloApart => "buffalo, apart",
            Self::Orthogonal => "orthogonal",
            Self::Sorted => "binary-search",
        }
    }

    /// Whether a lookup takes a tenth of a microsecond or more.
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::Buffalo | Self::BuffaloApart | Self::Orthogonal | Self::Sorted)
    }

    /// Its sizing, if there are several.
    pub const fn format(self) -> Option<&'static str> {
        match self {
            Self::Othello(sizing, _) => Some(sizing.name()),
            Self::Filtered => Some(Sizing::Sharded.name()),
            _ => None,
        }
    }

    /// How it detects unknown names, if there is a choice.
    pub fn checks(self) -> Option<String> {
        match self {
            Self::Othello(_, bits) if bits > 0 => Some(format!("{bits}-bit checksums")),
            Self::Filtered => Some("Bloom filter, 1 %".to_owned()),
            _ => None,
        }
    }

    /// Name, sizing and checks.
    pub fn label(self) -> String {
        let parts = [Some(self.name().to_owned()), self.format().map(str::to_owned), self.checks()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Builds it, with `threads` threads if it supports them.
    ///
    /// # Errors
    /// [`BenchError::Structure`] with the structure's error; [`BenchError::Usage`] for unsupported values.
    pub fn build(self, names: &Population, threads: usize) -> Result<Box<dyn NameFib>, BenchError> {
        let name = self.name();
        Ok(match self {
            Self::Othello(sizing, check_bits) => {
                let table = othello(names, sizing, check_bits, threads)?;
                Box::new(OthelloFib { table, is_checked: check_bits > 0, filter: None })
            }
            Self::Filtered => {
                let params = FilterParams::for_names(names.len() as u64, 0.01).of(name)?;
                let filter = BloomFilter::new(params);
                names.hashes.iter().for_each(|&name| filter.insert(name));
                let table = othello(names, Sizing::Sharded, 0, threads)?;
                Box::new(OthelloFib { table, is_checked: false, filter: Some(filter) })
            }
            Self::SetSep => {
                let Some(set) = names.narrow() else {
                    let problem = format!("setsep takes no values of {} bits", names.value_bits);
                    return Err(BenchError::Usage(problem));
                };
                let make = BuildConfig { threads, ..BuildConfig::table() };
                let params = structures::SetSep::params(set.len() as u64, set.value_bits, make)?;
                let builder = structures::SetSep::builder(params, make);
                Box::new(Arc::new(structures::SetSep::build_table(&builder, &set.hashes, &set.values)?))
            }
            Self::Cuckoo => Box::new(cuckoo(names)?),
            Self::Buffalo => {
                Box::new(SideBySide::build(&names.pairs(), 1 << names.value_bits, RATE, 1).of(name)?)
            }
            Self::BuffaloApart => {
                let sizes = Sizes::for_rate(&names.counts(), RATE, 1).of(name)?;
                Box::new(Buffalo::build(&names.pairs(), &sizes).of(name)?)
            }
            Self::Orthogonal => {
                Box::new(Orthogonal::build(&names.pairs(), names.value_bits, RATE, 1).of(name)?)
            }
            Self::Sorted => Box::new(Sorted::build(&names.pairs()).of(name)?),
        })
    }
}

fn othello(
    names: &Population,
    sizing: Sizing,
    check_bits: u8,
    threads: usize,
) -> Result<Arc<Othello>, BenchError> {
    let params = params(names.len() as u64, sizing, (names.value_bits, check_bits))?;
    let builder = OthelloBuilder::new(params).threads(threads);
    Ok(Arc::new(builder.build_table(&names.hashes, &names.actions).of("othello")?))
}

/// The parameters of an Othello table with these value and check bits.
fn params(names: u64, sizing: Sizing, (value_bits, check_bits): (u8, u8)) -> Result<Params, BenchError> {
    fewest_partitions(|partitions| {
        let params = Params::sized(sizing, names, value_bits, partitions)?.with_check_bits(check_bits)?;
        Ok::<_, ParamsError>(params.with_seed(1))
    })
}

/// Our (2,4)-cuckoo table at 95 % load, keyed by the name's hash: the cost of an exact table. The paper's table is
/// a static array of names and actions. Ours stores words for keys and values and a one-byte tag, and supports
/// concurrent reads and writes.
fn cuckoo(names: &Population) -> Result<Cuckoo, BenchError> {
    let table = Cuckoo::new(Cuckoo::slots_for(names.len()), 1, Hashed);
    let mut writer = table.write();
    for (name, action) in names.pairs() {
        writer.insert(&[name.get()], name, &[action.into()]).of("cuckoo")?;
    }
    drop(writer);
    Ok(table)
}

/// Writes the action of each name of a batch.
pub type FibReader<'a> = Box<dyn FnMut(&[KeyHash], &mut [u16]) + 'a>;

/// A built structure.
pub trait NameFib: Send + Sync {
    /// Total bytes.
    fn table_bytes(&self) -> u64;

    /// Bytes of the slots alone, as papers count them, for structures with slots.
    fn slot_bytes(&self) -> Option<u64> {
        None
    }

    /// A reader for one thread.
    fn reader(&self) -> FibReader<'_>;

    /// Reports the cache lines that a lookup of each name reads, in order, by the name's index: see
    /// [`Table::touched`](crate::structures::Table::touched). A structure that reports none has no share of
    /// the machine's limit.
    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        let _ = (names, visit);
    }

    /// Cache lines that a query reads, if they can be counted.
    fn lines(&self, name: KeyHash) -> Option<usize> {
        let _ = name;
        None
    }

    /// Whether it may return a wrong action for a known name, because several actions fit.
    fn is_ambiguous(&self, name: KeyHash) -> bool {
        let _ = name;
        false
    }
}

struct OthelloFib {
    table: Arc<Othello>,
    is_checked: bool,
    filter: Option<BloomFilter>,
}

impl NameFib for OthelloFib {
    fn table_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, BloomFilter::table_bytes);
        (self.table.stats().table_bytes + filter) as u64
    }

    fn slot_bytes(&self) -> Option<u64> {
        Some(self.table.stats().range_bytes as u64)
    }

    fn reader(&self) -> FibReader<'_> {
        let mut reader = OthelloReader::new(Arc::clone(&self.table));
        if let Some(filter) = &self.filter {
            let mut known = Vec::new();
            return Box::new(move |names, actions| {
                known.resize(names.len(), false);
                filter.contains_batch(names, &mut known);
                reader.lookup_batch(names, actions);
                for (action, &is_known) in actions.iter_mut().zip(&known) {
                    *action |= u16::from(is_known).wrapping_sub(1); // UNKNOWN is all ones
                }
            });
        }
        if self.is_checked {
            let mut found = Vec::new();
            return Box::new(move |names, actions| {
                found.resize(names.len(), None);
                reader.check_batch(names, &mut found);
                for (action, found) in actions.iter_mut().zip(&found) {
                    *action = found.unwrap_or(UNKNOWN);
                }
            });
        }
        Box::new(move |names, actions| match (names, &mut *actions) {
            ([name], [action]) => *action = reader.pin().get(*name),
            _ => reader.lookup_batch(names, actions),
        })
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        let mut reader = OthelloReader::new(Arc::clone(&self.table));
        let pin = reader.pin();
        for (place, &name) in names.iter().enumerate() {
            if let Some(filter) = &self.filter {
                filter.touched(name, &mut |at| visit(place, at));
            }
            pin.touched(name, &mut |at| visit(place, at));
        }
    }
}

impl NameFib for Arc<SetSep> {
    fn table_bytes(&self) -> u64 {
        self.stats().table_bytes as u64
    }

    fn reader(&self) -> FibReader<'_> {
        let (mut reader, mut values) = (SetSepReader::new(Self::clone(self)), Vec::new());
        Box::new(move |names, actions| {
            if let ([name], [action]) = (names, &mut *actions) {
                *action = reader.pin().get(*name).into();
                return;
            }
            values.resize(names.len(), 0);
            reader.lookup_batch(names, &mut values);
            actions.iter_mut().zip(&values).for_each(|(action, &value)| *action = value.into());
        })
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        structures::SetSep::touched(self, names, visit);
    }
}

impl NameFib for Cuckoo {
    fn table_bytes(&self) -> u64 {
        self.table_bytes() as u64
    }

    fn reader(&self) -> FibReader<'_> {
        Box::new(|names, actions| {
            for (names, actions) in names.chunks(BATCH).zip(actions.chunks_mut(BATCH)) {
                let (mut keys, mut found) = ([[0]; BATCH], [None; BATCH]);
                keys.iter_mut().zip(names).for_each(|(key, name)| *key = [name.get()]);
                self.get_batch(&keys[..names.len()], names, &mut found[..names.len()]);
                for (action, found) in actions.iter_mut().zip(&found) {
                    *action = found.map_or(UNKNOWN, |[action]| action as u16); // as they were put in
                }
            }
        })
    }

    fn touched(&self, names: &[KeyHash], visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, &name) in names.iter().enumerate() {
            self.touched(&[name.get()], name, &mut |at| visit(place, at));
        }
    }
}

/// Names whose lines are prefetched before the first is read.
const AHEAD: usize = 16;

impl<B: Baseline> NameFib for B {
    fn table_bytes(&self) -> u64 {
        Baseline::table_bytes(self)
    }

    /// Looks up names one by one, with prefetching.
    fn reader(&self) -> FibReader<'_> {
        Box::new(|names, actions| {
            for (actions, names) in actions.chunks_mut(AHEAD).zip(names.chunks(AHEAD)) {
                if names.len() > 1 {
                    for &name in names {
                        self.prefetch(name);
                    }
                }
                for (action, &name) in actions.iter_mut().zip(names) {
                    *action = self.look_up(name).action().unwrap_or(UNKNOWN);
                }
            }
        })
    }

    fn lines(&self, name: KeyHash) -> Option<usize> {
        Some(Baseline::lines(self, name))
    }

    fn is_ambiguous(&self, name: KeyHash) -> bool {
        matches!(self.look_up(name), Answer::Picked(_))
    }
}

/// Records the lines that lookups of the first names read, if the structure reports them.
pub fn replay<'a>(fib: &'a dyn NameFib, names: &[KeyHash]) -> Option<Replay<'a>> {
    let some = &names[..names.len().min(limit::MAX_QUERIES)];
    Replay::record(fib, some.len(), |fib, visit| fib.touched(some, visit))
}

/// Compares answers with the right ones. Returns the number of names with wrong answers because several
/// actions fit.
///
/// # Errors
/// [`BenchError::Check`] for the first wrong answer.
pub fn check(
    structure: &str,
    fib: &dyn NameFib,
    names: &[KeyHash],
    (right, answers): (&[u16], &[u16]),
) -> Result<usize, BenchError> {
    let mut ambiguous = 0;
    for ((&name, right), answer) in names.iter().zip(right).zip(answers) {
        if right != answer {
            if !fib.is_ambiguous(name) {
                let problem = format!("{answer} for {name:?}, whose action is {right}");
                return Err(BenchError::check(structure, problem));
            }
            ambiguous += 1;
        }
    }
    Ok(ambiguous)
}
