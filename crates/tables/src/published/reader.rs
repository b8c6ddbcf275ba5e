//! Readers: one per thread, pinned while they read. They look keys up with the kernels of their structure.

use super::generation::{Generation, Generations, Pinned};
use super::split::{MOST_KEYS, Part, PutBack, in_two_shapes, room};
use super::table::Table;
use super::{Lookup, Units};
use crate::gpt::{GptReader, KeyBatch};
use crate::isa::{AvailableIsa, Isa};
use crate::reclaim::epoch;
use crate::reclaim::sync::{ArcSwap, Cache};
use crate::touched_lines::LineRecorder;
use scalebricks_types::{KeyHash, NodeHint};
use std::sync::Arc;

/// Number of keys looked up under one pin. A writer may have to wait for one pin, a few microseconds. This
/// many keys keep the pipeline of a large table full.
const PIN_KEYS: usize = MOST_KEYS;
/// Number of keys for which the cost of clearing the result array is negligible beside the lookups.
pub(crate) const FEW_KEYS: usize = 64;
/// The same for the arrays in which a batch is split by shape.
const SOME_KEYS: usize = 256;

/// One thread's reader of a table.
///
/// Each key of a batch gets its value before or after any concurrent update, never another; two keys of one
/// batch may see different updates.
#[derive(Debug)]
pub struct Reader<S: Units> {
    table: Arc<Table<S>>,
    generations: Cache<Arc<ArcSwap<Generations<S>>>, Arc<Generations<S>>>,
    cell: epoch::Reader,
    isa: AvailableIsa,
    pub(crate) lookup: S::Lookup,
    /// The kernels for the shape that the table is being reshaped to.
    next_lookup: S::Lookup,
}

/// A pinned reader: data that it can see is not overwritten until the pin is dropped. Hold it for
/// microseconds: a writer without spare slots waits for it.
#[derive(Debug)]
pub struct Pin<'a, S: Units> {
    generations: &'a Generations<S>,
    cell: &'a epoch::Reader,
}

impl<S: Units> Reader<S> {
    /// A reader for one thread, with the fastest kernel that this processor supports.
    pub fn new(table: Arc<Table<S>>) -> Self {
        Self::of(table, Isa::best())
    }

    /// A reader for one thread whose kernel uses this instruction set, or `None` if this processor lacks it.
    pub fn with_isa(table: Arc<Table<S>>, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(table, isa))
    }

    fn of(table: Arc<Table<S>>, isa: Isa) -> Self {
        let cell = table.epochs.register();
        let lookup = S::Lookup::new(&table.generations.load().now, isa);
        let generations = Cache::new(Arc::clone(&table.generations));
        Self { table, generations, cell, isa: AvailableIsa::new(isa), lookup, next_lookup: lookup }
    }

    /// A reader that does not pin. ThreadSanitizer must find its data races.
    #[cfg(all(test, tsan))]
    pub(crate) fn blind(self) -> Self {
        let cell = epoch::Epochs::new().register();
        Self { cell, ..self }
    }

    /// The instruction set of its kernel.
    pub const fn isa(&self) -> Isa {
        self.isa.isa()
    }

    /// The table it reads.
    pub const fn table(&self) -> &Arc<Table<S>> {
        &self.table
    }

    /// The current shape of the table.
    pub(crate) fn params(&mut self) -> S::Params {
        self.generations.load().now.params
    }

    /// Begins reading. Cost: one fence, paid once for all keys looked up under the pin.
    #[inline]
    pub fn pin(&mut self) -> Pin<'_, S> {
        self.table.epochs.pin(&self.cell);
        Pin { generations: self.generations.load(), cell: &self.cell }
    }

    /// The value of each key: correct for keys of the table, arbitrary for others, whether or not the table
    /// has checksums.
    ///
    /// Cost: three memory accesses per key. One is the index word (4 bytes per block or range), which is
    /// small enough to stay cached. The others are choices and group of SetSep (three lines for some groups
    /// whose size does not divide a line; a key in the fallback costs its lookup again, and one line for each
    /// six keys before it), or the two slots of Othello, which in the default sizing and with values of two
    /// bits are in two adjacent lines. There is one pin per 1024 keys: its cost is negligible for batches of
    /// 32 and more, not for those of 8. Tables of many megabytes need batches of 256 and more. While the
    /// table is being reshaped, each batch is split by shape into two lists, each of which is looked up as a
    /// batch.
    ///
    /// # Panics
    /// If `values` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], values: &mut [S::Value]) {
        let values = &mut values[..hashes.len()];
        for (hashes, values) in hashes.chunks(PIN_KEYS).zip(values.chunks_mut(PIN_KEYS)) {
            self.batch(hashes, values);
        }
    }

    #[inline]
    fn batch(&mut self, hashes: &[KeyHash], values: &mut [S::Value]) {
        self.read(hashes, values, Lookup::batch, Some(S::Value::put_back));
    }

    /// Reads at most [`PIN_KEYS`] keys under one pin. `kernel` is called with the kernels of a shape and keys
    /// that are looked up in it, and computes a result for each: once, or for each of two shapes. With `put_back`, results of two
    /// shapes are put back in the order of the keys by vectors, where the processor has them.
    ///
    /// # Panics
    /// If there are fewer results than keys, or too many keys.
    #[inline(always)]
    pub(crate) fn read<T: Copy>(
        &mut self,
        hashes: &[KeyHash],
        found: &mut [T],
        kernel: impl Fn(S::Lookup, Pinned<'_, S>, &[KeyHash], &mut [T]),
        put_back: Option<PutBack<T>>,
    ) {
        let Self { table, generations, cell, isa, lookup, next_lookup } = self;
        table.epochs.pin(cell);
        let pin = Pin { generations: generations.load(), cell };
        let kernel =
            |lookup: &mut S::Lookup, generation: &Generation<S>, hashes: &[KeyHash], found: &mut [T]| {
                if !lookup.is_for(generation) {
                    *lookup = S::Lookup::new(generation, isa.isa());
                }
                kernel(*lookup, Pinned::new(generation), hashes, found);
            };
        let by = (*isa, put_back, pin.generations);
        if pin.generations.next.is_none() {
            kernel(lookup, &pin.generations.now, hashes, found);
        } else if hashes.len() <= FEW_KEYS {
            in_two::<S, T, { room(FEW_KEYS) }>(by, [lookup, next_lookup], hashes, found, kernel);
        } else if hashes.len() <= SOME_KEYS {
            in_two::<S, T, { room(SOME_KEYS) }>(by, [lookup, next_lookup], hashes, found, kernel);
        } else {
            in_two::<S, T, { room(PIN_KEYS) }>(by, [lookup, next_lookup], hashes, found, kernel);
        }
    }

    /// The hint of each key, computed for `KEYS` keys at a time.
    #[inline]
    fn hints<const KEYS: usize>(&mut self, hashes: &[KeyHash], hints: &mut [NodeHint]) {
        let mut values = [S::Value::default(); KEYS];
        for (hashes, hints) in hashes.chunks(KEYS).zip(hints.chunks_mut(KEYS)) {
            self.batch(hashes, &mut values[..hashes.len()]);
            for (hint, &value) in hints.iter_mut().zip(&values) {
                *hint = NodeHint::new(value.into());
            }
        }
    }
}

/// Reads keys of a table that is being reshaped. The caller is pinned.
#[inline(never)]
fn in_two<S: Units, T: Copy, const ROOM: usize>(
    (isa, put_back, generations): (AvailableIsa, Option<PutBack<T>>, &Generations<S>),
    [lookup, next_lookup]: [&mut S::Lookup; 2],
    hashes: &[KeyHash],
    found: &mut [T],
    kernel: impl Fn(&mut S::Lookup, &Generation<S>, &[KeyHash], &mut [T]),
) {
    let Some(next) = &generations.next else { return };
    let boundary = next.boundary(&generations.now.params);
    in_two_shapes::<T, ROOM>((isa, put_back, &boundary), hashes, found, |is_new, hashes, found| {
        if is_new {
            kernel(next_lookup, &next.generation, hashes, found);
        } else {
            kernel(lookup, &generations.now, hashes, found);
        }
    });
}

impl<'a, S: Units> Pin<'a, S> {
    /// The generation in which a key is looked up.
    #[inline(always)]
    pub(crate) fn of(&self, hash: KeyHash) -> Pinned<'a, S> {
        Pinned::new(self.generations.of(hash))
    }

    /// The value of one key, arbitrary if it is not in the table.
    ///
    /// Cost: the same three accesses as in a batch, one after the other.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> S::Value {
        S::Lookup::one(self.of(hash), hash)
    }

    /// Calls `tell` for each cache line that a lookup of this key reads, in order, each once: the index word,
    /// and the lines of choices and group or of the two slots. For a key of the fallback, its list is left
    /// out. For benchmarks that replay lookups.
    pub fn touched(&self, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        S::Lookup::touched(self.of(hash), hash, &mut LineRecorder::new(tell));
    }
}

impl<S: Units> Drop for Pin<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.cell.unpin();
    }
}

impl<S: Units> GptReader for Reader<S> {
    /// [`NodeHint::NONE`] if a checksum shows that a key is not in the table.
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        if S::Lookup::checked_hints(self, keys.hashes(), hints) {
            return;
        }
        if keys.len() <= FEW_KEYS {
            self.hints::<FEW_KEYS>(keys.hashes(), hints);
        } else {
            self.hints::<PIN_KEYS>(keys.hashes(), hints);
        }
    }
}
