//! Readers: one a thread, pinned while they read; they look keys up by the kernels of [`super::kernels::lookup`].

use super::face::Face;
use super::kernels::lookup::{Lookup, one};
use super::query::SetSep;
use super::shapes::Shapes;
use crate::gpt::{GptReader, KeyBatch};
use crate::isa::Isa;
use crate::publish::epoch::Reader;
use crate::publish::sync::{ArcSwap, Cache};
use crate::touched::Lines;
use scalebricks_types::{KeyHash, NodeHint};
use std::sync::Arc;

/// Keys looked up under one pin: what a writer may have to wait for, a few microseconds. So many keep the pipeline of a
/// large table full.
const PIN_KEYS: usize = 1024;
/// Keys for whose values a call clears room that costs nothing beside their lookups.
const FEW_KEYS: usize = 64;

/// One thread's reader of a [`SetSep`].
///
/// Each key of a batch gets its value before or after any update running beside it, never a third; two keys of one
/// batch may see different updates.
#[derive(Debug)]
pub struct SetSepReader {
    table: Arc<SetSep>,
    shapes: Cache<Arc<ArcSwap<Shapes>>, Arc<Shapes>>,
    cell: Reader,
    isa: Isa,
    lookup: Lookup,
}

/// A reader at work: what it can see is not written over until it is dropped. Hold it for microseconds: a writer
/// out of spare slots waits for it.
#[derive(Debug)]
pub struct SetSepPin<'a> {
    shapes: &'a Shapes,
    cell: &'a Reader,
}

/// One shape of a pinned reader's table.
#[derive(Debug, Clone, Copy)]
pub(super) struct FacePin<'a> {
    face: &'a Face,
}

impl<'a> FacePin<'a> {
    #[inline(always)]
    pub(super) const fn face(self) -> &'a Face {
        self.face
    }
}

impl SetSepReader {
    /// A reader for one thread, of the fastest kernel this processor has.
    pub fn new(table: Arc<SetSep>) -> Self {
        Self::of(table, Isa::best())
    }

    /// A reader for one thread whose kernel uses these instructions, or `None` if this processor lacks them.
    pub fn with_isa(table: Arc<SetSep>, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(table, isa))
    }

    fn of(table: Arc<SetSep>, isa: Isa) -> Self {
        let cell = table.epochs.register();
        let lookup = Lookup::new(&table.shapes.load().now, isa);
        let shapes = Cache::new(Arc::clone(&table.shapes));
        Self { table, shapes, cell, isa, lookup }
    }

    /// One that pins nothing, whose races ThreadSanitizer has to find.
    #[cfg(all(test, tsan))]
    pub(super) fn blind(self) -> Self {
        let cell = crate::publish::epoch::Epochs::new().register();
        Self { cell, ..self }
    }

    /// The instructions its kernel uses.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether its batches take several keys to a register. The formats of searched functions have no such kernel.
    pub const fn has_vector_lookup(&self) -> bool {
        self.lookup.has_vectors()
    }

    /// The table it reads.
    pub const fn table(&self) -> &Arc<SetSep> {
        &self.table
    }

    /// Begins reading. Cost: one fence, paid once for all keys looked up under the pin.
    pub fn pin(&mut self) -> SetSepPin<'_> {
        self.table.epochs.pin(&self.cell);
        SetSepPin { shapes: self.shapes.load(), cell: &self.cell }
    }

    /// The value of each key: right for keys of the table, arbitrary for others.
    ///
    /// Cost: three lines a key (index word, choices, group; two lines for some groups whose size does not divide a
    /// line), of which the index (4 bytes a block) is small enough to stay cached. A key in the fallback costs its
    /// lookup again, and one line for each six keys before it. One pin for each 1024 keys: batches of 32 and more
    /// pay it without notice, those of 8 do not. Tables of many megabytes want batches of 256 and more. While the table is being reshaped, keys are looked up one by one.
    ///
    /// # Panics
    /// If `values` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], values: &mut [u8]) {
        let values = &mut values[..hashes.len()];
        for (hashes, values) in hashes.chunks(PIN_KEYS).zip(values.chunks_mut(PIN_KEYS)) {
            self.pinned(hashes, values);
        }
    }

    #[inline]
    fn pinned(&mut self, hashes: &[KeyHash], values: &mut [u8]) {
        let (isa, mut lookup) = (self.isa, self.lookup);
        let pin = self.pin();
        if pin.shapes.next.is_some() {
            values.iter_mut().zip(hashes).for_each(|(value, &hash)| *value = pin.get(hash));
            return;
        }
        let face = &*pin.shapes.now;
        if !lookup.is_for(face) {
            lookup = Lookup::new(face, isa);
        }
        lookup.batch(FacePin { face }, hashes, values);
        drop(pin);
        self.lookup = lookup;
    }
}

impl SetSepPin<'_> {
    /// The value of one key.
    ///
    /// Cost: the same three accesses as in a batch, one after the other.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> u8 {
        one(FacePin { face: self.shapes.of(hash.get()) }, hash.get())
    }

    /// Tells the cache lines that a lookup of this key reads, in its order, each once: the block's index word, its
    /// choices, the group. Of a key of the fallback its list is left out. For benchmarks that replay lookups.
    pub fn touched(&self, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        self.shapes.of(hash.get()).touched(hash.get(), &mut Lines::new(tell));
    }
}

impl Drop for SetSepPin<'_> {
    fn drop(&mut self) {
        self.cell.unpin();
    }
}

impl SetSepReader {
    /// The hint of each key, `KEYS` after `KEYS`.
    #[inline]
    fn hints<const KEYS: usize>(&mut self, hashes: &[KeyHash], hints: &mut [NodeHint]) {
        let mut values = [0; KEYS];
        for (hashes, hints) in hashes.chunks(KEYS).zip(hints.chunks_mut(KEYS)) {
            self.pinned(hashes, &mut values[..hashes.len()]);
            for (hint, &value) in hints.iter_mut().zip(&values) {
                *hint = NodeHint::new(value.into());
            }
        }
    }
}

impl GptReader for SetSepReader {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        if keys.len() <= FEW_KEYS {
            self.hints::<FEW_KEYS>(keys.hashes(), hints);
        } else {
            self.hints::<PIN_KEYS>(keys.hashes(), hints);
        }
    }
}
