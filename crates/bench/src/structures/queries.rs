//! Lookup modes, and keys in the forms that structures take.

use crate::keys::{self, KeySet};
use scalebricks_tables::prefetch_read;
use scalebricks_types::{FlowKey, KeyHash};
use std::ops::Range;

/// How a structure is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupMode {
    /// A batch of this many keys per call, by the structure's own batch function.
    Batch(usize),
    /// This many keys per call, as a stream that prefetches within the call.
    Stream(usize),
    /// This many keys per call, one after the other, for structures without batches.
    Plain(usize),
    /// One key per call under a shared pin (see `SetSepReader::pin`).
    OnePin,
    /// One key per call with a pin for each.
    PinEach,
    /// One key per call.
    Loop,
}

impl LookupMode {
    /// Its name in results, without the batch size.
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

    /// Keys per call.
    pub const fn batch(self) -> Option<usize> {
        Some(self.keys())
    }

    /// Keys per call, at least 1.
    pub const fn keys(self) -> usize {
        match self {
            Self::Batch(keys) | Self::Stream(keys) | Self::Plain(keys) if keys > 1 => keys,
            _ => 1,
        }
    }
}

/// The form in which a structure takes keys, in addition to hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// Only hashes.
    Hash,
    /// Flow keys.
    Flow,
    /// Flow keys as two words each.
    Words,
}

/// Keys in the forms that structures need; unneeded forms are empty.
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
            match form {
                KeyForm::Flow if made.flows.is_empty() => made.flows = set.queried(keys::flow),
                KeyForm::Words if made.words.is_empty() => made.words = set.queried(keys::words),
                _ => {}
            }
        }
        made
    }

    /// The keys of [`KeySet::of_others`], as words.
    pub fn of_others(set: &KeySet) -> Self {
        let keys = set.len() as u64;
        Self { flows: Vec::new(), words: (keys..2 * keys).map(keys::words).collect() }
    }

    /// The queries of `set` in these forms.
    pub fn queries<'a>(&'a self, set: &'a KeySet) -> Queries<'a> {
        Queries { hashes: &set.queries, flows: &self.flows, words: &self.words }
    }

    /// The keys at these positions.
    pub fn part(&self, places: Range<usize>) -> (&[FlowKey], &[[u64; 2]]) {
        (self.flows.get(places.clone()).unwrap_or_default(), self.words.get(places).unwrap_or_default())
    }
}

/// Queries in the forms that structures take.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// The hashes.
    pub hashes: &'a [KeyHash],
    /// The flows, if requested.
    pub flows: &'a [FlowKey],
    /// The flows as words, if requested.
    pub words: &'a [[u64; 2]],
}

/// Maximum keys per call.
pub(super) const MAX_BATCH: usize = 4096;

/// Looks up keys in batches. `ask` overwrites values that start as `missing`, and `decode` turns a value into
/// an answer.
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
    let (all_keys, all_hashes) = (keys, hashes);
    for (call, ((keys, hashes), answers)) in
        keys.chunks(batch).zip(hashes.chunks(batch)).zip(answers.chunks_mut(batch)).enumerate()
    {
        if batch > 1 {
            prefetch(all_keys, call * batch, batch);
            prefetch(all_hashes, call * batch, batch);
        }
        let said = &mut said[..hashes.len()];
        ask(keys, hashes, said);
        for (answer, &mut said) in answers.iter_mut().zip(said) {
            *answer = decode(said);
        }
    }
}

/// Looks up keys one by one in an exact table.
#[inline(always)]
pub(super) fn look_up_each<K, const V: usize>(
    keys: &[K],
    hashes: &[KeyHash],
    answers: &mut [u8],
    mut get: impl FnMut(&K, KeyHash) -> Option<[u64; V]>,
) {
    for ((key, &hash), answer) in keys.iter().zip(hashes).zip(answers) {
        *answer = exact(get(key, hash));
    }
}

/// Reports the lines of each key, with its position.
pub(super) fn touch_each<K>(
    keys: &[K],
    hashes: &[KeyHash],
    visit: &mut dyn FnMut(usize, *const u8),
    touched: impl Fn(&K, KeyHash, &mut dyn FnMut(*const u8)),
) {
    for (place, (key, &hash)) in keys.iter().zip(hashes).enumerate() {
        touched(key, hash, &mut |at| visit(place, at));
    }
}

/// The answer for a value of an exact table: at most 8 bits, or all ones for a missing key.
pub(super) const fn exact<const V: usize>(value: Option<[u64; V]>) -> u8 {
    match value {
        Some(value) => value[0] as u8,
        None => u8::MAX,
    }
}

/// Splits hashes into calls by the mode. The compiler cannot merge the calls.
pub(super) fn in_calls(
    mode: LookupMode,
    hashes: &[KeyHash],
    answers: &mut [u8],
    mut ask: impl FnMut(&[KeyHash], &mut [u8]),
) {
    let (all, keys) = (hashes, mode.keys());
    for (call, (hashes, answers)) in hashes.chunks(keys).zip(answers.chunks_mut(keys)).enumerate() {
        if keys > 1 {
            prefetch(all, call * keys, keys);
        }
        ask(std::hint::black_box(hashes), answers);
    }
}

/// Number of queries between a call and those prefetched during it.
const AHEAD: usize = 1024;

/// Prefetches the queries of a later call. A node has just made its queries, so they are in a cache. Without this, rates
/// depend on whether the processor's own prefetching happens to recognise how a kernel reads them. Not for calls of one key,
/// where it would be work for each key, and only for some structures.
#[inline(always)]
fn prefetch<K>(queries: &[K], asked: usize, batch: usize) {
    let per_line = (64 / size_of::<K>().max(1)).max(1);
    let next = queries.get(asked + AHEAD..).unwrap_or_default();
    next.iter().take(batch).step_by(per_line).for_each(prefetch_read);
}
