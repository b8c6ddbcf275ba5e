//! One thread's view of a table: pins, and lookups by the kernels of [`super::kernels::lookup`].

use super::epoch::Reader;
use super::kernels::lookup::{Lookup, one};
use super::query::SetSep;
use crate::gpt::{GptReader, KeyBatch};
use crate::isa::Isa;
use scalebricks_types::{KeyHash, NodeHint};
use std::sync::Arc;

/// Keys looked up under one pin: what a writer may have to wait for.
const PIN_KEYS: usize = 256;

/// One thread's reader of a [`SetSep`].
///
/// Each key of a batch gets its value before or after any update running beside it, never a third; two keys of one
/// batch may see different updates.
#[derive(Debug)]
pub struct SetSepReader {
    table: Arc<SetSep>,
    cell: Reader,
    lookup: Lookup,
}

/// A reader at work: what it can see is not written over until it is dropped. Hold it for microseconds: a writer
/// out of spare slots waits for it.
#[derive(Debug)]
pub struct SetSepPin<'a> {
    table: &'a SetSep,
    cell: &'a Reader,
}

impl SetSepReader {
    /// A reader for one thread, of the fastest kernel this processor has.
    pub fn new(table: Arc<SetSep>) -> Self {
        let lookup = Lookup::best(&table);
        Self { cell: table.arena.epochs.register(), table, lookup }
    }

    /// A reader for one thread whose kernel uses these instructions, or `None` if this processor lacks them.
    pub fn with_isa(table: Arc<SetSep>, isa: Isa) -> Option<Self> {
        let lookup = Lookup::new(&table, isa)?;
        Some(Self { cell: table.arena.epochs.register(), table, lookup })
    }

    /// The instructions its kernel uses.
    pub const fn isa(&self) -> Isa {
        self.lookup.isa()
    }

    /// The table it reads.
    pub const fn table(&self) -> &Arc<SetSep> {
        &self.table
    }

    /// Begins reading. Cost: one fence, paid once for all keys looked up under the pin.
    pub fn pin(&mut self) -> SetSepPin<'_> {
        self.table.arena.epochs.pin(&self.cell);
        SetSepPin { table: &self.table, cell: &self.cell }
    }

    /// The value of each key: right for keys of the table, arbitrary for others.
    ///
    /// Cost: three lines a key (index word, choices, group; two lines for some groups whose size does not divide a
    /// line), of which the index (4 bytes a block) is small enough to stay cached. A key in the fallback costs its
    /// lookup again, and one line for each six keys before it. One pin for each 256 keys: batches of 32 and more pay
    /// it without notice, those of 8 do not.
    ///
    /// # Panics
    /// If `values` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], values: &mut [u8]) {
        let values = &mut values[..hashes.len()];
        for (hashes, values) in hashes.chunks(PIN_KEYS).zip(values.chunks_mut(PIN_KEYS)) {
            let lookup = self.lookup;
            lookup.batch(&self.pin(), hashes, values);
        }
    }
}

impl SetSepPin<'_> {
    #[inline(always)]
    pub(super) const fn table(&self) -> &SetSep {
        self.table
    }

    /// The value of one key.
    ///
    /// Cost: the same three lines as in a batch, one after the other.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> u8 {
        one(self, hash.get())
    }
}

impl Drop for SetSepPin<'_> {
    fn drop(&mut self) {
        self.cell.unpin();
    }
}

impl GptReader for SetSepReader {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        let mut values = [0; PIN_KEYS];
        for (hashes, hints) in keys.hashes().chunks(PIN_KEYS).zip(hints.chunks_mut(PIN_KEYS)) {
            Self::lookup_batch(self, hashes, &mut values);
            for (hint, &value) in hints.iter_mut().zip(&values) {
                *hint = NodeHint::new(value.into());
            }
        }
    }
}
