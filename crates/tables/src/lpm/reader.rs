//! Readers: one per thread.

use super::address::Address;
use super::arena::{Arena, Four, Two};
use super::entry::{EntryBytes, NextHop};
use super::kernels::{self, Kernels};
use super::table::Lpm;
use crate::isa::Isa;
use crate::reclaim::epoch::{Epochs, Reader};
use crate::reclaim::sync::{ArcSwap, Cache};
use std::sync::Arc;

/// Number of addresses looked up under one pin. A writer may have to wait for one pin, a few microseconds.
const PIN_ADDRESSES: usize = 1024;

/// One thread's reader of an [`Lpm`].
///
/// Each address gets its next hop before or after any concurrent change, never another; two addresses of one
/// batch may see different changes. Readers never wait.
pub struct LpmReader<A: Address> {
    table: Arc<Lpm<A>>,
    /// The table's memory, until the writer publishes another.
    arena: Cache<Arc<ArcSwap<Arena>>, Arc<Arena>>,
    cell: Reader,
    two: Kernels<A>,
    four: Kernels<A>,
}

impl<A: Address> std::fmt::Debug for LpmReader<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LpmReader").field("table", &self.table).finish_non_exhaustive()
    }
}

/// A reader has one pin at a time: both lookups take it by `&mut self`. It ends when dropped, also when a lookup panics.
struct Pin<'a>(&'a Reader);

impl<'a> Pin<'a> {
    #[inline(always)]
    fn new(epochs: &Epochs, cell: &'a Reader) -> Self {
        epochs.pin(cell);
        Self(cell)
    }
}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unpin();
    }
}

/// Whether most answers are in the root, which needs no pin: for IPv4, behind a root of 24 bits.
#[inline(always)]
fn is_shallow<A: Address>(arena: &Arena) -> bool {
    A::BITS == 32 && (arena.root_bits >= 24 || cfg!(loom)) // loom checks reading without a pin
}

impl<A: Address> LpmReader<A> {
    /// A reader for one thread, with the fastest instruction set that this processor supports.
    pub fn new(table: Arc<Lpm<A>>) -> Self {
        Self::of(table, Isa::best())
    }

    /// A reader with this instruction set, or `None` if this processor lacks it.
    pub fn with_isa(table: Arc<Lpm<A>>, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(table, isa))
    }

    fn of(table: Arc<Lpm<A>>, isa: Isa) -> Self {
        let cell = table.epochs.register();
        let arena = Cache::new(Arc::clone(&table.published));
        Self { table, arena, cell, two: Kernels::new::<Two>(isa), four: Kernels::new::<Four>(isa) }
    }

    /// The table.
    pub const fn table(&self) -> &Arc<Lpm<A>> {
        &self.table
    }

    /// The next hop of the longest prefix that covers an address. For many addresses use
    /// [`lookup_batch`](Self::lookup_batch).
    ///
    /// Cost: a load; if it leads to a block, a fence, and for each block on the way one line, or two if the block has
    /// over ten runs of two bytes, or five of four.
    #[inline]
    pub fn lookup(&mut self, address: A) -> Option<NextHop> {
        let arena = &**self.arena.load();
        let pin = || Pin::new(&self.table.epochs, &self.cell);
        match arena.bytes() {
            EntryBytes::Two => kernels::one::<A, Two, _>(arena, address, is_shallow::<A>(arena), pin),
            EntryBytes::Four => kernels::one::<A, Four, _>(arena, address, is_shallow::<A>(arena), pin),
        }
    }

    /// The next hop of each address. Cost: for each 1,024 addresses a fence, unless the root answers all of
    /// them in a table of IPv4 with a root of 24 bits; and the lines of each address, prefetched for 64
    /// addresses at a time.
    ///
    /// # Panics
    /// If there are fewer next hops than addresses.
    #[expect(unsafe_code, reason = "instructions that were looked for")]
    pub fn lookup_batch(&mut self, addresses: &[A], hops: &mut [Option<NextHop>]) {
        let hops = &mut hops[..addresses.len()];
        let arena = &**self.arena.load();
        let kernels = if arena.bytes() == EntryBytes::Two { &self.two } else { &self.four };
        for (addresses, hops) in addresses.chunks(PIN_ADDRESSES).zip(hops.chunks_mut(PIN_ADDRESSES)) {
            // SAFETY: the processor has the instructions: `with_isa` and `Isa::best` checked. The lengths are
            // equal.
            unsafe {
                if is_shallow::<A>(arena) {
                    if (kernels.roots)(arena, addresses, hops) {
                        let _pin = Pin::new(&self.table.epochs, &self.cell);
                        (kernels.blocks)(arena, addresses, hops);
                    }
                } else {
                    let _pin = Pin::new(&self.table.epochs, &self.cell);
                    (kernels.all)(arena, addresses, hops);
                }
            }
        }
    }
}
