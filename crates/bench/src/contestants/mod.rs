//! The structures, each behind one interface: built from a [`KeySet`], asked all its questions by [`Table::lookup`].
//!
//! All are asked in calls of the same numbers of keys, and one key a call. Within a call each is asked the way its authors
//! mean it to be asked for many keys: in batches or as a stream with prefetching where it offers that, else key after key,
//! of which the processor overlaps what it can. [`ask`] has the ways.

pub mod ask;
mod cuckoo;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod flows;
mod full_copy;
mod hash_map;
pub mod native;
mod othello;
mod packed;
#[cfg(feature = "peers")]
mod ptr_hash;
mod setsep;
#[cfg(feature = "peers")]
mod sux;

pub use ask::{Form, Forms, Mode, Questions};
pub use cuckoo::Hashed;
pub use othello::params as othello_params;
pub use setsep::params;

use crate::error::BenchError;
use crate::huge::{HugePages, warm};
use crate::keys::KeySet;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::{Format, SearchBits};

/// Keys a call where nothing is asked: one, what nodes take at once, and many.
pub const BATCHES: [usize; 4] = [1, 32, 64, 1024];

/// A structure that can be measured.
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
    /// `PtrHash`, a perfect hash function, before an array of packed values. Static.
    PtrHash,
    /// `VFunc` of `sux`, a static function. Static.
    Sux,
    /// DPDK's EFD: 16-byte keys, values of 8 bits whatever is asked.
    Efd,
    /// DPDK's `rte_hash`, and an array of values behind it: 16-byte keys, exact.
    RteHash,
}

impl Structure {
    /// All of them.
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

    /// Its name in the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SetSep => "setsep",
            Self::Othello => "othello",
            Self::FullCopy => "full-copy",
            Self::Cuckoo => "cuckoo",
            Self::HashBrown => "hashbrown",
            Self::PtrHash => "ptr_hash",
            Self::Sux => "sux",
            Self::Efd => "efd",
            Self::RteHash => "rte_hash",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|structure| structure.name() == name)
    }

    /// The feature with which it is built in, if it takes one.
    pub const fn feature(self) -> Option<&'static str> {
        match self {
            Self::PtrHash | Self::Sux => Some("peers"),
            Self::Efd | Self::RteHash => Some("dpdk"),
            _ => None,
        }
    }

    /// Whether it was built in.
    pub const fn is_built_in(self) -> bool {
        let is_left_out = match self {
            Self::PtrHash | Self::Sux => !cfg!(feature = "peers"),
            Self::Efd | Self::RteHash => !cfg!(feature = "dpdk"),
            _ => false,
        };
        !is_left_out
    }

    /// What a row of it must say, whatever is measured: on what terms it is there.
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

    /// The value bits that it holds when keys have so many.
    pub const fn value_bits(self, asked: u8) -> u8 {
        if matches!(self, Self::Efd) { 8 } else { asked }
    }

    /// Gets ready what those of these structures that need it share: DPDK, with memory for tables of the most of these keys.
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

    /// Those built in.
    pub fn built_in() -> Vec<Self> {
        Self::ALL.into_iter().filter(|structure| structure.is_built_in()).collect()
    }

    /// Whether it can be built by several threads.
    pub const fn builds_in_parallel(self) -> bool {
        matches!(self, Self::SetSep | Self::Othello | Self::PtrHash | Self::Sux)
    }

    /// Bytes a key that building it takes at the worst, about.
    pub const fn building_bytes_per_key(self) -> u64 {
        match self {
            Self::SetSep => 40,
            Self::Othello => 80,
            Self::FullCopy => 48 + 36,
            Self::Cuckoo => 28,
            Self::HashBrown => 36,
            Self::PtrHash | Self::Sux => 48,
            Self::Efd | Self::RteHash => 120,
        }
    }

    /// Sees to it that the machine has the memory that a build of so many keys takes: see [`huge::warm`](warm).
    pub fn warm(self, keys: usize) {
        warm(self.building_bytes_per_key() * keys as u64);
    }

    /// Takes what building needs from a set of keys, in the form the structure takes it.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if it is not built in.
    pub fn prepare<'a>(self, set: &'a KeySet, make: Make) -> Result<Box<dyn Build + 'a>, BenchError> {
        Ok(match self {
            Self::SetSep => Box::new(setsep::Prepared::new(set, make)?),
            Self::Othello => Box::new(othello::Prepared::new(set, make)?),
            Self::FullCopy => Box::new(full_copy::Prepared::new(set)),
            Self::Cuckoo => Box::new(cuckoo::Prepared::new(set)),
            Self::HashBrown => Box::new(hash_map::Prepared::new(set)),
            #[cfg(feature = "peers")]
            Self::PtrHash => Box::new(ptr_hash::Prepared::new(set)),
            #[cfg(feature = "peers")]
            Self::Sux => Box::new(sux::Prepared::new(set, make.threads)),
            #[cfg(feature = "dpdk")]
            Self::Efd => Box::new(dpdk::PreparedEfd::new(set)),
            #[cfg(feature = "dpdk")]
            Self::RteHash => Box::new(dpdk::PreparedHash::new(set)),
            #[cfg(not(all(feature = "peers", feature = "dpdk")))]
            _ => return Err(BenchError::Usage(self.missing())),
        })
    }

    /// That it is not built in, and what would help.
    pub fn missing(self) -> String {
        let feature = self.feature().unwrap_or_default();
        format!("{} was not built in: build with --features {feature}", self.name())
    }

    /// The ways to ask it that are measured, for these numbers of keys a call.
    pub fn modes(self, batches: &[usize]) -> Vec<Mode> {
        batches.iter().flat_map(|&batch| self.modes_of(batch)).collect()
    }

    fn modes_of(self, batch: usize) -> Vec<Mode> {
        match (self, batch) {
            (Self::SetSep | Self::Othello, ..=1) => vec![Mode::OnePin, Mode::PinEach],
            (_, ..=1) => vec![Mode::Loop],
            (Self::HashBrown | Self::Sux, _) => vec![Mode::Plain(batch)],
            (Self::PtrHash, _) => vec![Mode::Batch(batch), Mode::Stream(batch)],
            _ => vec![Mode::Batch(batch)],
        }
    }
}

/// How SetSep and Othello are made; other structures know nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Make {
    /// The group format of SetSep.
    pub format: Format,
    /// The sizing of Othello.
    pub sizing: Sizing,
    /// The instructions it may use.
    pub isa: Isa,
    /// The value bits that SetSep searches for at once.
    pub bits: SearchBits,
    /// Threads that build.
    pub threads: usize,
    /// What is built.
    pub product: Product,
}

/// What a build makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// The structure that answers questions.
    Table,
    /// The structure that can be changed, where the two differ.
    Control,
}

impl Make {
    /// The default format, best instructions, one thread, a table.
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

/// What a structure is built from, in its own form.
pub trait Build: Send {
    /// Builds it. This is what is timed.
    ///
    /// # Errors
    /// [`BenchError::Structure`] with what the structure says.
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError>;
}

/// A structure that is there.
pub trait Table: Send + Sync {
    /// Bytes of memory it holds, all included.
    fn table_bytes(&self) -> u64;

    /// The form in which it takes keys.
    fn form(&self) -> Form {
        Form::Hash
    }

    /// Answers all questions.
    fn lookup(&self, mode: Mode, questions: Questions<'_>, answers: &mut [u8]);

    /// Tells the cache lines that a lookup of each question reads, in its order, by the place of the question. They lie in
    /// memory that the table keeps as long as it is borrowed, in blocks that begin with a line. One that tells none is not
    /// compared with the machine's limit.
    fn touched(&self, _: Questions<'_>, _: &mut dyn FnMut(usize, *const u8)) {}

    /// What else is known of it.
    fn fill(&self) -> Fill {
        Fill::default()
    }

    /// What a row of its lookups must say: that its batches are not what others' are.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Whether it lies on huge pages, where it is not the process's own memory and who made it knows.
    fn on_huge_pages(&self) -> Option<bool> {
        None
    }
}

/// A table, and the share of it that lies on huge pages, if the system tells: `make` leaves nothing else large behind.
///
/// # Errors
/// That of `make`.
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

/// A variant of several parts.
pub fn noted(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How a SetSep table is filled: each product knows its part.
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
            let table = structure.prepare(&set, Make::table()).unwrap().build().unwrap();
            assert!(table.table_bytes() > 4_000, "{}", structure.name());
            let forms = Forms::of(&set, [table.form()]);
            for mode in structure.modes(&[1, 17, 32, 64, 1024]) {
                let mut answers = vec![0xFF; set.len()];
                timing::lookup(&*table, mode, &set, &forms, 1, &mut answers).unwrap();
                timing::check(structure.name(), &set, &answers).unwrap();
            }
        }
    }
}
