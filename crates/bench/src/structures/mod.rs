//! The structures behind one interface: built from a [`KeySet`] and queried through [`Table::lookup`].
//!
//! All are queried with the same numbers of keys per call, including single keys. Within a call, each is used
//! as its authors intend for many keys: in batches or as a prefetching stream if it offers that, otherwise
//! key by key, where the processor overlaps what it can. [`queries`] has the modes.

mod checked;
mod compact;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod exact;
pub mod flows;
pub mod native;
mod packed;
#[cfg(feature = "peers")]
mod ptr_hash;
pub mod queries;
#[cfg(feature = "peers")]
mod sux;

pub use checked::{Checked, without_checks};
pub use compact::{Compact, CompactTable, Othello, SetSep, entries, turned_over};
pub use exact::{Cuckoo, FullCopyTable, Hashed};
pub use queries::{KeyForm, KeyForms, LookupMode, Queries};

use crate::error::{BenchError, OrFail};
use crate::keys::KeySet;
use scalebricks_allocator::{HugePages, warm};
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::{Format, SearchBits};
use scalebricks_types::PartitionCount;

/// Default keys per call: one, the batches of nodes, and many.
pub const BATCHES: [usize; 4] = [1, 32, 64, 1024];

/// A structure to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// `tables::setsep`.
    SetSep,
    /// `tables::othello`.
    Othello,
    /// `tables::full_copy`: 16-byte flow keys, exact.
    FullCopy,
    /// `tables::cuckoo`: 8-byte keys, exact.
    Cuckoo,
    /// The hash map of Rust's standard library, on its own.
    HashBrown,
    /// `PtrHash`, a perfect hash function with an array of packed values. Static.
    PtrHash,
    /// `VFunc` of `sux`, a static function. Static.
    Sux,
    /// DPDK's EFD with 16-byte keys; its values always have 8 bits.
    Efd,
    /// DPDK's `rte_hash` with an array of values and 16-byte keys; exact.
    RteHash,
}

impl Structure {
    /// All structures.
    pub const ALL: [Self; 9] = [
        Self::SetSep,
        Self::Othello,
        Self::FullCopy,
        Self::Cuckoo,
        Self::HashBrown,
        Self::PtrHash,
        Self::Sux,
        Self::Efd,
        Self::RteHash,
    ];

    /// Its name, approximate maximum bytes per key while building, and the feature that enables it.
    const fn properties(self) -> (&'static str, u64, Option<&'static str>) {
        match self {
            Self::SetSep => ("setsep", 40, None),
            Self::Othello => ("othello", 80, None),
            Self::FullCopy => ("full-copy", 48 + 36, None),
            Self::Cuckoo => ("cuckoo", 28, None),
            Self::HashBrown => ("hashbrown", 36, None),
            Self::PtrHash => ("ptr_hash", 48, Some("peers")),
            Self::Sux => ("sux", 48, Some("peers")),
            Self::Efd => ("efd", 120, Some("dpdk")),
            Self::RteHash => ("rte_hash", 120, Some("dpdk")),
        }
    }

    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        self.properties().0
    }

    /// Whether it is available in this binary.
    pub fn is_built_in(self) -> bool {
        let enabled = [("peers", cfg!(feature = "peers")), ("dpdk", cfg!(feature = "dpdk"))];
        self.properties().2.is_none_or(|feature| enabled.contains(&(feature, true)))
    }

    /// A note for its rows on the conditions of the comparison.
    pub fn note(self) -> Option<String> {
        match self {
            Self::HashBrown | Self::PtrHash | Self::Sux => native::handicap().map(str::to_owned),
            #[cfg(feature = "dpdk")]
            Self::Efd => Some(format!("8 value bits, {}", dpdk::pages())),
            #[cfg(feature = "dpdk")]
            Self::RteHash => Some(dpdk::pages().to_owned()),
            _ => None,
        }
    }

    /// The value bits it stores for keys with `asked` value bits.
    pub const fn value_bits(self, asked: u8) -> u8 {
        if matches!(self, Self::Efd) { 8 } else { asked }
    }

    /// Starts DPDK if a structure needs it, with memory for tables of the largest size.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if it does not start.
    pub fn start(structures: &[Self], sizes: &[u64]) -> Result<(), BenchError> {
        let most = sizes.iter().copied().max();
        #[cfg(feature = "dpdk")]
        if let Some(most) = most
            && structures.iter().any(|structure| matches!(structure, Self::Efd | Self::RteHash))
        {
            crate::gateway::dpdk::start(most)?;
        }
        let _ = (structures, most);
        Ok(())
    }

    /// The available structures.
    pub fn built_in() -> Vec<Self> {
        Self::ALL.into_iter().filter(|structure| structure.is_built_in()).collect()
    }

    /// Whether several threads can build it.
    pub const fn builds_in_parallel(self) -> bool {
        matches!(self, Self::SetSep | Self::Othello | Self::PtrHash | Self::Sux)
    }

    /// Approximate maximum bytes per key while building.
    pub const fn building_bytes_per_key(self) -> u64 {
        self.properties().1
    }

    /// Makes sure that the machine has the memory for a build: see [`huge::warm`](warm).
    pub fn warm(self, keys: usize) {
        warm(self.building_bytes_per_key() * keys as u64);
    }

    /// Converts a key set into the structure's own form, and returns the function that builds from it.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if it is not available.
    pub fn prepare(self, set: &KeySet, make: BuildConfig) -> Result<Build<'_>, BenchError> {
        Ok(match self {
            Self::SetSep => compact::prepare::<SetSep>(set, make)?,
            Self::Othello => compact::prepare::<Othello>(set, make)?,
            Self::FullCopy => exact::full_copy(set),
            Self::Cuckoo => exact::cuckoo(set),
            Self::HashBrown => exact::hash_map(set),
            #[cfg(feature = "peers")]
            Self::PtrHash => ptr_hash::prepare(set),
            #[cfg(feature = "peers")]
            Self::Sux => sux::prepare(set, make.threads),
            #[cfg(feature = "dpdk")]
            Self::Efd => dpdk::prepare_efd(set),
            #[cfg(feature = "dpdk")]
            Self::RteHash => dpdk::prepare_hash(set),
            #[cfg(not(all(feature = "peers", feature = "dpdk")))]
            _ => return Err(BenchError::Usage(self.missing())),
        })
    }

    /// A message that it is not available, with the remedy.
    pub fn missing(self) -> String {
        let feature = self.properties().2.unwrap_or_default();
        format!("{} was not built in: build with --features {feature}", self.name())
    }

    /// The lookup modes to measure for these numbers of keys per call.
    pub fn modes(self, batches: &[usize]) -> Vec<LookupMode> {
        let modes = |&batch: &usize| match (self, batch) {
            (Self::SetSep | Self::Othello, ..=1) => vec![LookupMode::OnePin, LookupMode::PinEach],
            (_, ..=1) => vec![LookupMode::Loop],
            (Self::HashBrown | Self::Sux, _) => vec![LookupMode::Plain(batch)],
            (Self::PtrHash, _) => vec![LookupMode::Batch(batch), LookupMode::Stream(batch)],
            _ => vec![LookupMode::Batch(batch)],
        };
        batches.iter().flat_map(modes).collect()
    }
}

/// Parameters with the fewest possible partitions. A partition must fit into one delta, so large tables need
/// several.
///
/// # Errors
/// [`BenchError::Usage`] if no number of partitions works.
pub fn fewest_partitions<P, E: std::error::Error + Send + Sync + 'static>(
    params: impl Fn(PartitionCount) -> Result<P, E>,
) -> Result<P, BenchError> {
    let of = |shift: u32| params(PartitionCount::new(1 << shift).usage()?).usage();
    (1..=8).fold(of(0), |found, shift| found.or_else(|_| of(shift)))
}

/// How SetSep and Othello are built; other structures ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildConfig {
    /// The group format of SetSep.
    pub format: Format,
    /// The sizing of Othello.
    pub sizing: Sizing,
    /// The instructions it may use.
    pub isa: Isa,
    /// The value bits that SetSep searches together.
    pub bits: SearchBits,
    /// Threads for building.
    pub threads: usize,
    /// The product of the build.
    pub product: Product,
}

/// The product of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// The structure that answers queries.
    Table,
    /// The structure that accepts changes, if it is a different one.
    Control,
}

impl BuildConfig {
    /// The default format, the best instructions, one thread, and the table as product.
    pub fn table() -> Self {
        Self {
            format: Format::default(),
            sizing: Sizing::default(),
            isa: Isa::best(),
            bits: SearchBits::default(),
            threads: 1,
            product: Product::Table,
        }
    }
}

/// Builds a structure from input in its own form. This is the timed part.
pub type Build<'a> = Box<dyn FnMut() -> Result<Box<dyn Table>, BenchError> + Send + 'a>;

/// A built structure.
pub trait Table: Send + Sync {
    /// Total bytes.
    fn table_bytes(&self) -> u64;

    /// The form of its keys.
    fn form(&self) -> KeyForm {
        KeyForm::Hash
    }

    /// Answers all queries.
    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]);

    /// Reports the cache lines that a lookup of each query reads, in order, by the query's index. They are in
    /// memory that the table keeps while it is borrowed, in blocks that start on a cache line. A table that
    /// reports none is not compared with the machine's limit.
    fn touched(&self, _: Queries<'_>, _: &mut dyn FnMut(usize, *const u8)) {}

    /// Further facts about the table.
    fn fill(&self) -> Fill {
        Fill::default()
    }

    /// A note for lookup rows if its batches are not comparable with others.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Whether it is on huge pages, if that is not the process's own memory and its allocator knows.
    fn on_huge_pages(&self) -> Option<bool> {
        None
    }
}

/// Makes a table and returns the share of it on huge pages, if the system reports it. `make` must leave no
/// other large block.
///
/// # Errors
/// The error of `make`.
pub fn with_pages(
    make: impl FnOnce() -> Result<Box<dyn Table>, BenchError>,
) -> Result<(Box<dyn Table>, Option<f64>), BenchError> {
    let before = HugePages::held_bytes();
    let table = make()?;
    let grown = HugePages::held_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
    let share = match table.on_huge_pages() {
        Some(all) => Some(f64::from(u8::from(all))),
        None => grown.map(|bytes| (bytes as f64 / table.table_bytes().max(1) as f64).min(1.0)),
    };
    Ok((table, share))
}

/// Joins the parts of a variant.
pub fn noted(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How a SetSep table is filled. Each product knows a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fill {
    /// Keys the fallback answers.
    pub fallback_keys: Option<u64>,
    /// Keys in the fullest group.
    pub max_group_load: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing;

    #[test]
    fn all_that_are_built_in_answer_rightly_in_every_mode() {
        let set = KeySet::new(20_000, 2);
        Structure::start(&Structure::built_in(), &[20_000]).unwrap();
        for structure in Structure::built_in() {
            let table = structure.prepare(&set, BuildConfig::table()).unwrap()().unwrap();
            assert!(table.table_bytes() > 4_000, "{}", structure.name());
            let forms = KeyForms::of(&set, [table.form()]);
            for mode in structure.modes(&[1, 17, 32, 64, 1024]) {
                let mut answers = vec![0xFF; set.len()];
                timing::lookup(&*table, mode, &set, &forms, 1, &mut answers).unwrap();
                timing::check(structure.name(), &set, &answers).unwrap();
            }
        }
    }
}
