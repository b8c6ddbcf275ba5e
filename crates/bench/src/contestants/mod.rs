//! The structures, each behind one interface: built from a [`KeySet`], asked all its questions in one call.
//!
//! Each is asked the way its authors mean it to be asked for many keys: in batches or as a stream with prefetching
//! where it offers that, else in a plain loop, in which the processor overlaps what it can.

mod cuckoo;
pub mod flows;
mod full_copy;
mod hash_map;
mod othello;
mod packed;
#[cfg(feature = "peers")]
mod ptr_hash;
mod setsep;
#[cfg(feature = "peers")]
mod sux;

pub use cuckoo::Hashed;
pub use othello::params as othello_params;
pub use setsep::params;

use crate::error::BenchError;
use crate::huge::warm;
use crate::keys::{self, KeySet};
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::Format;
use scalebricks_types::{FlowKey, KeyHash};
use std::ops::Range;

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
}

impl Structure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::SetSep,
        Self::Othello,
        Self::FullCopy,
        Self::Cuckoo,
        Self::HashBrown,
        Self::PtrHash,
        Self::Sux,
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
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|structure| structure.name() == name)
    }

    /// Whether it was built in: the static ones of other authors come with the feature `peers`.
    pub const fn is_built_in(self) -> bool {
        cfg!(feature = "peers") || !matches!(self, Self::PtrHash | Self::Sux)
    }

    /// Those built in.
    pub fn built_in() -> Vec<Self> {
        Self::ALL.into_iter().filter(|structure| structure.is_built_in()).collect()
    }

    /// Whether it can be built by several threads.
    pub const fn builds_in_parallel(self) -> bool {
        matches!(self, Self::SetSep | Self::Othello | Self::Sux)
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
            #[cfg(not(feature = "peers"))]
            Self::PtrHash | Self::Sux => {
                return Err(BenchError::Usage(format!(
                    "{} was not built in: build with --features peers",
                    self.name()
                )));
            }
        })
    }

    /// The ways to ask it that are measured, for these batch sizes.
    pub fn modes(self, batches: &[usize]) -> Vec<Mode> {
        match self {
            Self::SetSep | Self::Othello => batches.iter().flat_map(|&batch| setsep::modes(batch)).collect(),
            Self::FullCopy | Self::Cuckoo => {
                let batches = batches.iter().filter(|&&batch| batch > 1);
                batches.map(|&batch| Mode::Batch(batch)).collect()
            }
            Self::HashBrown | Self::Sux => vec![Mode::Loop],
            Self::PtrHash => vec![Mode::Stream, Mode::Batch(32)],
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
            threads: 1,
            product: Product::Table,
        }
    }
}

/// How a structure is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// So many keys a call.
    Batch(usize),
    /// One key a call, all under one pin (see `SetSepReader::pin`).
    OnePin,
    /// One key a call, each under a pin of its own.
    PinEach,
    /// One key a call.
    Loop,
    /// One call for all keys, prefetching 32 keys ahead.
    Stream,
}

impl Mode {
    /// Its name in results, besides the batch size.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch(_) => "batched",
            Self::OnePin => "one-pin",
            Self::PinEach => "pin-each",
            Self::Loop => "loop",
            Self::Stream => "stream",
        }
    }

    /// Keys a call, where that means something.
    pub const fn batch(self) -> Option<usize> {
        match self {
            Self::Batch(batch) => Some(batch),
            Self::OnePin | Self::PinEach | Self::Loop => Some(1),
            Self::Stream => None,
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

/// The form in which a structure takes keys, besides their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The hash is the key.
    Hash,
    /// Flow keys.
    Flow,
    /// Flow keys as two words each.
    Words,
}

/// Keys in the forms that structures take; empty where none of them does.
#[derive(Debug, Clone, Default)]
pub struct Forms {
    flows: Vec<FlowKey>,
    words: Vec<[u64; 2]>,
}

impl Forms {
    /// The questions of `set` in these forms.
    pub fn of(set: &KeySet, forms: impl IntoIterator<Item = Form>) -> Self {
        let mut made = Self::default();
        for form in forms {
            if form == Form::Flow && made.flows.is_empty() {
                made.flows = set.question_flows();
            }
            if form == Form::Words && made.words.is_empty() {
                made.words = set.question_words();
            }
        }
        made
    }

    /// The keys of [`KeySet::of_others`], as words.
    pub fn of_others(set: &KeySet) -> Self {
        let keys = set.len() as u64;
        Self { flows: Vec::new(), words: (keys..2 * keys).map(keys::words).collect() }
    }

    /// The questions of `set`, in these forms.
    pub fn questions<'a>(&'a self, set: &'a KeySet) -> Questions<'a> {
        Questions { hashes: &set.questions, flows: &self.flows, words: &self.words }
    }

    /// Those at these places.
    pub fn part(&self, places: Range<usize>) -> (&[FlowKey], &[[u64; 2]]) {
        (self.flows.get(places.clone()).unwrap_or_default(), self.words.get(places).unwrap_or_default())
    }
}

/// Questions, in the forms that structures take.
#[derive(Debug, Clone, Copy)]
pub struct Questions<'a> {
    /// The hashes.
    pub hashes: &'a [KeyHash],
    /// The flows, if asked for.
    pub flows: &'a [FlowKey],
    /// Their words, if asked for.
    pub words: &'a [[u64; 2]],
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
}

/// Most keys a call.
const MAX_BATCH: usize = 4096;

/// Asks for keys in batches. `ask` puts what the table says in place of as many `missing`, and `told` reads the answer
/// from it.
fn in_batches<K, V: Copy>(
    mode: Mode,
    (keys, hashes): (&[K], &[KeyHash]),
    answers: &mut [u8],
    missing: V,
    mut ask: impl FnMut(&[K], &[KeyHash], &mut [V]),
    told: impl Fn(V) -> u8,
) {
    let batch = mode.batch().unwrap_or(MAX_BATCH).clamp(1, MAX_BATCH);
    let mut said = vec![missing; batch];
    for ((keys, hashes), answers) in
        keys.chunks(batch).zip(hashes.chunks(batch)).zip(answers.chunks_mut(batch))
    {
        let said = &mut said[..hashes.len()];
        ask(keys, hashes, said);
        for (answer, &mut said) in answers.iter_mut().zip(said) {
            *answer = told(said);
        }
    }
}

/// The answer in the value of an exact table: a value of at most 8 bits, or none.
fn exact<const V: usize>(value: Option<[u64; V]>) -> u8 {
    value.map_or(u8::MAX, |value| value[0] as u8)
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
        for structure in Structure::built_in() {
            let table = structure.prepare(&set, Make::table()).unwrap().build().unwrap();
            assert!(table.table_bytes() > 4_000, "{}", structure.name());
            let forms = Forms::of(&set, [table.form()]);
            for mode in structure.modes(&[1, 17, 64]) {
                let mut answers = vec![0xFF; set.len()];
                timing::lookup(&*table, mode, &set, &forms, 1, &mut answers).unwrap();
                timing::check(structure.name(), &set, &answers).unwrap();
            }
        }
    }
}
