//! Ways to ask: how many keys a call, and keys in the forms that structures take.

use crate::keys::{self, KeySet};
use scalebricks_types::{FlowKey, KeyHash};
use std::ops::Range;

/// How a structure is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupMode {
    /// So many keys a call, as a batch of the structure's own.
    Batch(usize),
    /// So many keys a call, as a stream that asks ahead within the call.
    Stream(usize),
    /// So many keys a call, one after the other: the structure has no batches.
    Plain(usize),
    /// One key a call, all under one pin (see `SetSepReader::pin`).
    OnePin,
    /// One key a call, each under a pin of its own.
    PinEach,
    /// One key a call.
    Loop,
}

impl LookupMode {
    /// Its name in results, besides the batch size.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch(_) => "batched",
            Self::OnePin => "one-pin",
            Self::PinEach => "pin-each",
            Self::Loop => "loop",
            Self::Stream(_) => "stream",
            Self::Plain(_) => "plain",
        }
    }

    /// Keys a call.
    pub const fn batch(self) -> Option<usize> {
        Some(self.keys())
    }

    /// Keys a call, 1 at the least.
    pub const fn keys(self) -> usize {
        match self {
            Self::Batch(keys) | Self::Stream(keys) | Self::Plain(keys) if keys > 1 => keys,
            _ => 1,
        }
    }
}

/// The form in which a structure takes keys, besides their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// The hash is the key.
    Hash,
    /// Flow keys.
    Flow,
    /// Flow keys as two words each.
    Words,
}

/// Keys in the forms that structures take; empty where none of them does.
#[derive(Debug, Clone, Default)]
pub struct KeyForms {
    flows: Vec<FlowKey>,
    words: Vec<[u64; 2]>,
}

impl KeyForms {
    /// The queries of `set` in these forms.
    pub fn of(set: &KeySet, forms: impl IntoIterator<Item = KeyForm>) -> Self {
        let mut made = Self::default();
        for form in forms {
            if form == KeyForm::Flow && made.flows.is_empty() {
                made.flows = set.query_flows();
            }
            if form == KeyForm::Words && made.words.is_empty() {
                made.words = set.query_words();
            }
        }
        made
    }

    /// The keys of [`KeySet::of_others`], as words.
    pub fn of_others(set: &KeySet) -> Self {
        let keys = set.len() as u64;
        Self { flows: Vec::new(), words: (keys..2 * keys).map(keys::words).collect() }
    }

    /// The queries of `set`, in these forms.
    pub fn queries<'a>(&'a self, set: &'a KeySet) -> Queries<'a> {
        Queries { hashes: &set.queries, flows: &self.flows, words: &self.words }
    }

    /// Those at these places.
    pub fn part(&self, places: Range<usize>) -> (&[FlowKey], &[[u64; 2]]) {
        (self.flows.get(places.clone()).unwrap_or_default(), self.words.get(places).unwrap_or_default())
    }
}

/// Queries, in the forms that structures take.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// The hashes.
    pub hashes: &'a [KeyHash],
    /// The flows, if asked for.
    pub flows: &'a [FlowKey],
    /// Their words, if asked for.
    pub words: &'a [[u64; 2]],
}

/// Most keys a call.
pub(super) const MAX_BATCH: usize = 4096;

/// Asks for keys in batches. `ask` puts what the table says in place of as many `missing`, and `told` reads the answer
/// from it.
pub(super) fn in_batches<K, V: Copy>(
    mode: LookupMode,
    (keys, hashes): (&[K], &[KeyHash]),
    answers: &mut [u8],
    missing: V,
    mut ask: impl FnMut(&[K], &[KeyHash], &mut [V]),
    decode: impl Fn(V) -> u8,
) {
    let batch = mode.keys().min(MAX_BATCH);
    let mut said = vec![missing; batch];
    for ((keys, hashes), answers) in
        keys.chunks(batch).zip(hashes.chunks(batch)).zip(answers.chunks_mut(batch))
    {
        let said = &mut said[..hashes.len()];
        ask(keys, hashes, said);
        for (answer, &mut said) in answers.iter_mut().zip(said) {
            *answer = decode(said);
        }
    }
}

/// The answer in the value of an exact table: a value of at most 8 bits, or none.
pub(super) const fn exact<const V: usize>(value: Option<[u64; V]>) -> u8 {
    match value {
        Some(value) => value[0] as u8,
        None => u8::MAX,
    }
}

/// Asks in calls of as many hashes as the mode says, which the compiler cannot make one of.
pub(super) fn in_calls(
    mode: LookupMode,
    hashes: &[KeyHash],
    answers: &mut [u8],
    mut ask: impl FnMut(&[KeyHash], &mut [u8]),
) {
    for (hashes, answers) in hashes.chunks(mode.keys()).zip(answers.chunks_mut(mode.keys())) {
        ask(std::hint::black_box(hashes), answers);
    }
}
