//! Readers: one per thread.

use super::address::Address;
use super::entry::NextHop;
use super::kernels::{self, Kernels};
use super::table::Lpm;
use crate::isa::Isa;
use crate::reclaim::epoch::Reader;
use std::sync::Arc;

/// Number of addresses looked up under one pin. A writer may have to wait for one pin, a few microseconds.
const PIN_ADDRESSES: usize = 1024;

/// One thread's reader of an [`Lpm`].
///
/// Each address gets its next hop before or after any concurrent change, never another; two addresses of one
/// batch may see different changes. Readers never wait.
#[derive(Debug)]
pub struct LpmReader<A: Address> {
    table: Arc<Lpm<A>>,
    cell: Reader,
    kernels: Kernels<A>,
}

/// Ends reading when dropped, also when a lookup panics.
struct Pin<'a>(&'a Reader);

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl<A: Address> LpmReader<A> {
    /// A reader for one thread, with the fastest instruction set that this processor supports.
    pub fn new(table: Arc<Lpm<A>>) -> Self {
        Self::of(table, Isa::best())
    }

    /// A reader with this instruction set, or `None` if this processor lacks it. `Avx512Gfni` is the same as
    /// `Avx512`.
    pub fn with_isa(table: Arc<Lpm<A>>, isa: Isa) -> Option<Self> {
        isa.is_available().then(|| Self::of(table, isa))
    }

    fn of(table: Arc<Lpm<A>>, isa: Isa) -> Self {
        let cell = table.arena.epochs.register();
        Self { table, cell, kernels: Kernels::new(isa) }
    }

    /// Begins reading. A reader has one pin at a time: both lookups take it by `&mut self`.
    #[inline(always)]
    fn pin(&self) -> Pin<'_> {
        self.table.arena.epochs.pin(&self.cell);
        Pin(&self.cell)
    }

    /// The table.
    pub const fn table(&self) -> &Arc<Lpm<A>> {
        &self.table
    }

    /// Whether most answers are in the root, which needs no pin: for IPv4, behind a root of 24 bits.
    #[inline(always)]
    fn is_shallow(&self) -> bool {
        A::BITS == 32 && (self.table.arena.root_bits >= 24 || cfg!(loom)) // loom checks reading without a pin
    }

    /// The next hop of the longest prefix that covers an address. For many addresses use
    /// [`lookup_batch`](Self::lookup_batch).
    ///
    /// Cost: a load; if it leads to a block, a fence, and for each block on the way one line, or two if the
    /// block has over six runs.
    #[inline]
    pub fn lookup(&mut self, address: A) -> Option<NextHop> {
        let arena = &self.table.arena;
        if self.is_shallow() {
            let entry = arena.root(address.root(arena.root_bits));
            if !entry.is_block() {
                return entry.hop();
            }
        }
        let _pin = self.pin();
        kernels::one(arena, address)
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
        let (arena, kernels) = (&self.table.arena, self.kernels);
        for (addresses, hops) in addresses.chunks(PIN_ADDRESSES).zip(hops.chunks_mut(PIN_ADDRESSES)) {
            // SAFETY: the processor has the instructions: `with_isa` and `Isa::best` checked. The lengths are
            // equal.
            unsafe {
                if self.is_shallow() {
                    if (kernels.roots)(arena, addresses, hops) {
                        let _pin = self.pin();
                        (kernels.blocks)(arena, addresses, hops);
                    }
                } else {
                    let _pin = self.pin();
                    (kernels.all)(arena, addresses, hops);
                }
            }
        }
    }
}
