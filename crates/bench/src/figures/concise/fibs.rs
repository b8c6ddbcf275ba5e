//! The structures behind one interface: batches of names in, actions out.

mod readers;
#[cfg(test)]
mod tests;

use crate::baselines::buffalo::{Buffalo, SideBySide, Sizes};
use crate::baselines::cuckoo::Cuckoo;
use crate::baselines::orthogonal::Orthogonal;
use crate::baselines::sorted::Sorted;
use crate::baselines::{BaselineError, RATE};
use crate::error::BenchError;
use crate::limit::{self, Replay};
use crate::names::population::Population;
use crate::structures::{BuildConfig, fewest_partitions, params as setsep_params};
use readers::{OthelloFib, SetSepFib};
use scalebricks_tables::filter::{BloomFilter, FilterParams};
use scalebricks_tables::othello::{Othello, OthelloBuilder, Params, ParamsError, Sizing};
use scalebricks_tables::setsep::{SetSep, SetSepBuilder};
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
        let of = |error: BaselineError| BenchError::of(self.name(), error);
        Ok(match self {
            Self::Othello(sizing, check_bits) => Box::new(OthelloFib {
                table: Arc::new(othello(names, sizing, check_bits, threads)?),
                is_checked: check_bits > 0,
                filter: None,
            }),
            Self::Filtered => {
                let params = FilterParams::for_names(names.len() as u64, 0.01);
                let filter = BloomFilter::new(params.map_err(|error| BenchError::of(self.name(), error))?);
                names.hashes.iter().for_each(|&name| filter.insert(name));
                Box::new(OthelloFib {
                    table: Arc::new(othello(names, Sizing::Sharded, 0, threads)?),
                    is_checked: false,
                    filter: Some(filter),
                })
            }
            Self::SetSep => Box::new(SetSepFib(Arc::new(setsep(names, threads)?))),
            Self::Cuckoo => Box::new(Cuckoo::build(&names.pairs()).map_err(of)?),
            Self::Buffalo => {
                let actions = 1 << names.value_bits;
                Box::new(SideBySide::build(&names.pairs(), actions, RATE, 1).map_err(of)?)
            }
            Self::BuffaloApart => {
                let mut counts = vec![0; 1 << names.value_bits];
                names.actions.iter().for_each(|&action| counts[usize::from(action)] += 1);
                let sizes = Sizes::for_rate(&counts, RATE, 1).map_err(of)?;
                Box::new(Buffalo::build(&names.pairs(), &sizes).map_err(of)?)
            }
            Self::Orthogonal => {
                Box::new(Orthogonal::build(&names.pairs(), names.value_bits, RATE, 1).map_err(of)?)
            }
            Self::Sorted => Box::new(Sorted::build(&names.pairs()).map_err(of)?),
        })
    }
}

fn othello(
    names: &Population,
    sizing: Sizing,
    check_bits: u8,
    threads: usize,
) -> Result<Othello, BenchError> {
    let params = params(names.len() as u64, sizing, (names.value_bits, check_bits))?;
    let built = OthelloBuilder::new(params).threads(threads).build_table(&names.hashes, &names.actions);
    built.map_err(|error| BenchError::of("othello", error))
}

/// The parameters of an Othello table with these value and check bits.
fn params(names: u64, sizing: Sizing, (value_bits, check_bits): (u8, u8)) -> Result<Params, BenchError> {
    fewest_partitions(|partitions| {
        let params = Params::sized(sizing, names, value_bits, partitions)?.with_check_bits(check_bits)?;
        Ok::<_, ParamsError>(params.with_seed(1))
    })
}

fn setsep(names: &Population, threads: usize) -> Result<SetSep, BenchError> {
    let Some(set) = names.narrow() else {
        return Err(BenchError::Usage(format!("setsep takes no values of {} bits", names.value_bits)));
    };
    let params = setsep_params(set.len() as u64, set.value_bits, BuildConfig::table())?;
    let built = SetSepBuilder::new(params).threads(threads).build_table(&set.hashes, &set.values);
    built.map_err(|error| BenchError::of("setsep", error))
}

/// A built structure.
pub trait NameFib: Send + Sync {
    /// Total bytes.
    fn table_bytes(&self) -> u64;

    /// Bytes of the slots alone, as papers count them, for structures with slots.
    fn slot_bytes(&self) -> Option<u64> {
        None
    }

    /// A reader for one thread.
    fn reader(&self) -> Box<dyn FibReader + '_>;

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

/// Looks up batches of names.
pub trait FibReader {
    /// Writes the action of each name.
    fn lookup(&mut self, names: &[KeyHash], actions: &mut [u16]);
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
