//! Readers: one a thread, pinned while they read; they look names up by the kernels of [`super::kernels`].

use super::face::Face;
use super::kernels::{Lookup, one, touched};
use super::query::Othello;
use super::shapes::Shapes;
use crate::gpt::{GptReader, KeyBatch};
use crate::isa::Isa;
use crate::publish::epoch::Reader;
use crate::publish::sync::{ArcSwap, Cache};
use crate::touched::Lines;
use scalebricks_types::{KeyHash, NodeHint};
use std::sync::Arc;

/// Names looked up under one pin: what a writer may have to wait for, a few microseconds.
const PIN_KEYS: usize = 1024;
/// Names for whose values a call clears room that costs nothing beside their lookups.
const FEW_KEYS: usize = 64;

/// One thread's reader of an [`Othello`].
///
/// Each name of a batch gets its value before or after any update running beside it, never a third; two names of one
/// batch may see different updates.
#[derive(Debug)]
pub struct OthelloReader {
    table: Arc<Othello>,
    shapes: Cache<Arc<ArcSwap<Shapes>>, Arc<Shapes>>,
    cell: Reader,
    isa: Isa,
    lookup: Lookup,
}

/// A reader at work: what it can see is not written over until it is dropped. Hold it for microseconds: a writer
/// out of spare slots waits for it.
#[derive(Debug)]
pub struct OthelloPin<'a> {
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

impl OthelloReader {
    /// A reader for one thread, of the fastest kernel this processor has.
    pub fn new(table: Arc<Othello>) -> Self {
        Self::of(table, Isa::best())
    }

    /// A reader for one thread whose kernel uses these instructions, or `None` if this processor lacks them.
    pub fn with_isa(table: Arc<Othello>, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(table, isa))
    }

    fn of(table: Arc<Othello>, isa: Isa) -> Self {
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

    /// The table it reads.
    pub const fn table(&self) -> &Arc<Othello> {
        &self.table
    }

    /// Begins reading. Cost: one fence, paid once for all names looked up under the pin.
    pub fn pin(&mut self) -> OthelloPin<'_> {
        self.table.epochs.pin(&self.cell);
        OthelloPin { shapes: self.shapes.load(), cell: &self.cell }
    }

    /// The value of each name: right for names of the table, arbitrary for others, whether or not the table has
    /// checksums.
    ///
    /// Cost: three places in memory, the range's directory word (4 bytes a range, small enough to stay cached) and the
    /// two slots, in the default sizing and at values of two bits in two lines that lie side by side. One pin for each
    /// 1024 names. While the table is being reshaped, names are looked up one by one.
    ///
    /// # Panics
    /// If `values` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], values: &mut [u16]) {
        let values = &mut values[..hashes.len()];
        for (hashes, values) in hashes.chunks(PIN_KEYS).zip(values.chunks_mut(PIN_KEYS)) {
            self.pinned(hashes, values);
        }
    }

    #[inline]
    fn pinned(&mut self, hashes: &[KeyHash], values: &mut [u16]) {
        let (isa, mut lookup) = (self.isa, self.lookup);
        let pin = self.pin();
        if pin.shapes.next.is_some() {
            for (value, &hash) in values.iter_mut().zip(hashes) {
                let face = pin.shapes.of(hash);
                let mask = (1u32 << face.layout.params.value_bits()) - 1;
                *value = (one(FacePin { face }, hash) & mask) as u16; // at most 16 bits
            }
            return;
        }
        let face = &*pin.shapes.now;
        if !lookup.is_for(face) {
            lookup = Lookup::new(face, isa);
        }
        lookup.values(FacePin { face }, hashes, values);
        drop(pin);
        self.lookup = lookup;
    }

    /// The value of each name of the table; `None` for all but one in 2^r of other names in a table with checksums of r
    /// bits, which are all told in a table without.
    ///
    /// Cost: as of [`lookup_batch`](Self::lookup_batch), and a multiplication more.
    ///
    /// # Panics
    /// If `found` is shorter than `hashes`.
    pub fn check_batch(&mut self, hashes: &[KeyHash], found: &mut [Option<u16>]) {
        let found = &mut found[..hashes.len()];
        for (hashes, found) in hashes.chunks(FEW_KEYS).zip(found.chunks_mut(FEW_KEYS)) {
            self.checked(hashes, |at, value| found[at] = value);
        }
    }

    /// Tells the value of each of at most [`FEW_KEYS`] names.
    #[inline]
    fn checked(&mut self, hashes: &[KeyHash], mut tell: impl FnMut(usize, Option<u16>)) {
        let (isa, mut lookup) = (self.isa, self.lookup);
        let pin = self.pin();
        if pin.shapes.next.is_some() {
            hashes.iter().enumerate().for_each(|(at, &hash)| tell(at, pin.check(hash)));
            return;
        }
        let face = &*pin.shapes.now;
        if !lookup.is_for(face) {
            lookup = Lookup::new(face, isa);
        }
        let mut differences = [0; FEW_KEYS];
        lookup.differences(FacePin { face }, hashes, &mut differences[..hashes.len()]);
        for (at, (&hash, &difference)) in hashes.iter().zip(&differences).enumerate() {
            tell(at, face.layout.places.value(hash, difference));
        }
        drop(pin);
        self.lookup = lookup;
    }
}

impl OthelloPin<'_> {
    /// The value of one name, arbitrary if it is not in the table.
    ///
    /// Cost: the same three accesses as in a batch, two of them after the first.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> u16 {
        let face = self.shapes.of(hash);
        let mask = (1u32 << face.layout.params.value_bits()) - 1;
        (one(FacePin { face }, hash) & mask) as u16 // at most 16 bits
    }

    /// Tells the cache lines that a lookup of this name reads, in its order, each once: the range's directory word, the two
    /// slots. For benchmarks that replay lookups.
    pub fn touched(&self, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        touched(FacePin { face: self.shapes.of(hash) }, hash, &mut Lines::new(tell));
    }

    /// The value of one name, or `None` if it is not in the table and its checksum tells.
    #[inline]
    pub fn check(&self, hash: KeyHash) -> Option<u16> {
        let face = self.shapes.of(hash);
        face.layout.places.value(hash, one(FacePin { face }, hash))
    }
}

impl Drop for OthelloPin<'_> {
    fn drop(&mut self) {
        self.cell.unpin();
    }
}

impl OthelloReader {
    /// The hint of each name, `KEYS` after `KEYS`.
    #[inline]
    fn hints<const KEYS: usize>(&mut self, hashes: &[KeyHash], hints: &mut [NodeHint]) {
        let mut values = [0; KEYS];
        for (hashes, hints) in hashes.chunks(KEYS).zip(hints.chunks_mut(KEYS)) {
            self.pinned(hashes, &mut values[..hashes.len()]);
            for (hint, &value) in hints.iter_mut().zip(&values) {
                *hint = NodeHint::new(value);
            }
        }
    }
}

impl GptReader for OthelloReader {
    /// [`NodeHint::NONE`] where a checksum tells that a name is not in the table.
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        if self.shapes.load().now.layout.params.check_bits() > 0 {
            for (hashes, hints) in keys.hashes().chunks(FEW_KEYS).zip(hints.chunks_mut(FEW_KEYS)) {
                self.checked(hashes, |at, value| hints[at] = value.map_or(NodeHint::NONE, NodeHint::new));
            }
        } else if keys.len() <= FEW_KEYS {
            self.hints::<FEW_KEYS>(keys.hashes(), hints);
        } else {
            self.hints::<PIN_KEYS>(keys.hashes(), hints);
        }
    }
}
