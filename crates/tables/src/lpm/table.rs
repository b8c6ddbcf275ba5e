//! The table: one writer at a time, any number of readers.
//!
//! A table begins with entries of two bytes. When a next hop or a block does not fit them, the writer builds the same
//! table with entries of four bytes beside it, and publishes it. Readers change over at their next call. The writer frees
//! the old table at a later change, when no reader has it any more, so that no lookup has to.

use super::address::{Address, Prefix};
use super::arena::Arena;
use super::entry::{EntryBytes, NextHop};
use super::rib::Key;
use super::writer::{OutOfBlocks, Writer};
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::sync::ArcSwap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The layout of a table. Begin with [`Params::new`], [`Params::FAST`] or [`Params::SMALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    root_bits: u8,
    block_lines: u32,
    entry_bytes: EntryBytes,
}

/// Why [`Params`] are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// The root's bits are out of range.
    #[error("a root of {0} bits: from 1 to 24 can be had")]
    RootBits(u8),
    /// More bytes than entries can address.
    #[error("{0} bytes for blocks: 2^37 less 2 KiB are too many")]
    BlockBytes(usize),
}

impl Params {
    /// A root of 24 bits, 32 MiB (64 MiB with entries of four bytes), and up to 64 MiB of blocks: most IPv4 addresses
    /// need one line.
    pub const FAST: Self = Self { root_bits: 24, ..Self::SMALL };

    /// A root of 16 bits, 128 KiB (256 KiB with entries of four bytes), and up to 64 MiB of blocks: a small table stays
    /// in the cache.
    pub const SMALL: Self = Self { root_bits: 16, block_lines: 1 << 20, entry_bytes: EntryBytes::Two };

    /// A root of 2 to the power of `root_bits` entries, and up to `block_bytes` bytes of blocks. Memory is allocated as
    /// needed. Entries have two bytes until a next hop or a block does not fit; see [`with_entries`](Self::with_entries).
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn new(root_bits: u8, block_bytes: usize) -> Result<Self, ParamsError> {
        if !(1..=24).contains(&root_bits) {
            return Err(ParamsError::RootBits(root_bits));
        }
        match u32::try_from(block_bytes / size_of::<Line>()) {
            Ok(block_lines) if block_lines < (1 << 31) - 32 => {
                Ok(Self { root_bits, block_lines, entry_bytes: EntryBytes::Two })
            }
            _ => Err(ParamsError::BlockBytes(block_bytes)),
        }
    }

    /// The size of entries at first. A table with entries of two bytes changes to four when a next hop is above
    /// [`EntryBytes::max_next_hop`], or when its blocks need more than 2 MiB and may have them. A table that will need
    /// four bytes can begin with them, and is then never rebuilt.
    #[must_use]
    pub const fn with_entries(self, entry_bytes: EntryBytes) -> Self {
        Self { entry_bytes, ..self }
    }

    /// Bits of the root.
    pub const fn root_bits(self) -> u8 {
        self.root_bits
    }

    /// The size of entries at first.
    pub const fn entry_bytes(self) -> EntryBytes {
        self.entry_bytes
    }

    /// The maximum number of bytes of blocks.
    pub const fn block_bytes(self) -> usize {
        self.block_lines as usize * size_of::<Line>()
    }
}

/// Why a table refused a change. The table is then unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// There is no room for another block, or for the blocks of a table with entries of four bytes, which a large next hop
    /// needs.
    #[error("no room for a block among {routes} routes: {block_bytes} bytes are all in use")]
    Full {
        /// Number of prefixes stored.
        routes: usize,
        /// The maximum number of bytes of blocks.
        block_bytes: usize,
    },
}

/// Sizes of an [`Lpm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Number of prefixes stored.
    pub routes: usize,
    /// The size of entries.
    pub entry_bytes: EntryBytes,
    /// Bytes of the root.
    pub root_bytes: usize,
    /// Bytes of blocks that lookups read, or that wait for readers.
    pub block_bytes: usize,
    /// Bytes that blocks have ever used: the part of their room that is allocated.
    pub touched_bytes: usize,
}

/// A table of prefixes. See the [module](super).
#[derive(Debug)]
pub struct Lpm<A: Address> {
    /// The memory that readers use.
    pub(super) published: Arc<ArcSwap<Arena>>,
    pub(super) epochs: Arc<Epochs>,
    params: Params,
    control: Mutex<Control<A::Bits>>,
}

/// What the writer uses.
#[derive(Debug)]
pub(super) struct Control<B> {
    pub(super) writer: Writer<B>,
    /// The published memory.
    pub(super) arena: Arc<Arena>,
    /// The memory before it, while readers may have it.
    replaced: Option<Arc<Arena>>,
}

impl<B> Control<B> {
    /// Frees the memory that was replaced, if no reader has it any more.
    fn free_replaced(&mut self) {
        if self.replaced.as_ref().is_some_and(|arena| Arc::strong_count(arena) == 1) {
            self.replaced = None;
        }
    }
}

impl<A: Address> Lpm<A> {
    /// A table without routes. Cost: none; memory is allocated when it is first touched.
    pub fn new(params: Params) -> Self {
        let epochs = Arc::new(Epochs::new());
        let arena = Arc::new(Self::arena(params, params.entry_bytes, &epochs));
        let control = Control { writer: Writer::new(), arena: Arc::clone(&arena), replaced: None };
        Self { published: Arc::new(ArcSwap::new(arena)), epochs, params, control: Mutex::new(control) }
    }

    fn arena(params: Params, bytes: EntryBytes, epochs: &Arc<Epochs>) -> Arena {
        Arena::new(params.root_bits, params.block_lines as usize, bytes, Arc::clone(epochs))
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control<A::Bits>> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rebuilds the table with entries of four bytes and publishes it. If there is no room, nothing is changed.
    #[cold]
    fn widen(&self, control: &mut Control<A::Bits>) -> Result<(), OutOfBlocks> {
        let arena = Arc::new(Self::arena(self.params, EntryBytes::Four, &self.epochs));
        control.writer.rebuild(&arena)?;
        control.replaced = Some(std::mem::replace(&mut control.arena, Arc::clone(&arena)));
        self.published.store(arena);
        Ok(())
    }

    /// Whether entries of four bytes can name more blocks than the table's own.
    fn has_room_if_widened(&self, arena: &Arena) -> bool {
        arena.bytes() == EntryBytes::Two && arena.room() < self.params.block_lines as usize
    }

    /// The layout of the table.
    pub const fn params(&self) -> Params {
        self.params
    }

    /// Adds a prefix, or changes its next hop. Returns the previous next hop.
    ///
    /// Cost: a search; a copy of at most one block per level; and a store for each entry of the prefix that
    /// no longer prefix covers, at most 65,536 for a /8 in a root of 24 bits. Waits for readers only if all
    /// free blocks wait for them. Once in the life of a table with entries of two bytes, the time of inserting all its
    /// prefixes, when the first next hop or block does not fit them; readers go on meanwhile.
    ///
    /// # Errors
    /// [`LpmError::Full`].
    pub fn insert(&self, prefix: Prefix<A>, hop: NextHop) -> Result<Option<NextHop>, LpmError> {
        let mut control = self.control();
        self.change(&mut control, prefix.key(), hop).map_err(|OutOfBlocks| LpmError::Full {
            routes: control.writer.rib.len(),
            block_bytes: self.params.block_bytes(),
        })
    }

    fn change(
        &self,
        control: &mut Control<A::Bits>,
        key: Key<A::Bits>,
        hop: NextHop,
    ) -> Result<Option<NextHop>, OutOfBlocks> {
        control.free_replaced();
        if hop.index() > control.arena.bytes().max_next_hop() {
            self.widen(control)?;
        }
        let Control { writer, arena, .. } = control;
        match writer.insert(arena, key, hop) {
            Err(OutOfBlocks) if self.has_room_if_widened(arena) => {
                self.widen(control)?;
                control.writer.insert(&control.arena, key, hop)
            }
            done => done,
        }
    }

    /// Removes a prefix. Returns its next hop, if it was in the table. Its addresses get the next hop of the
    /// longest remaining prefix.
    ///
    /// Cost: as [`insert`](Self::insert), and about twenty searches. It always finds room; in a full table it
    /// waits for the readers of a block.
    pub fn remove(&self, prefix: Prefix<A>) -> Option<NextHop> {
        let mut control = self.control();
        control.free_replaced();
        let Control { writer, arena, .. } = &mut *control;
        writer.remove(arena, prefix.key())
    }

    /// The next hop stored for exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.control().writer.rib.get(prefix.key())
    }

    /// The longest prefix that covers an address, and its next hop. For the control plane: it takes the
    /// writer's lock.
    pub fn longest(&self, address: A) -> Option<(Prefix<A>, NextHop)> {
        let (key, hop) = self.control().writer.rib.longest(address.bits(), A::BITS + 1)?;
        Some((Prefix::of_key(key), hop))
    }

    /// Calls `visit` with each prefix and its next hop, by address, shorter ones first. Blocks writers
    /// meanwhile; `visit` must not change this table.
    pub fn for_each(&self, mut visit: impl FnMut(Prefix<A>, NextHop)) {
        self.control().writer.rib.iter().for_each(|(key, hop)| visit(Prefix::of_key(key), hop));
    }

    /// Number of prefixes stored.
    pub fn len(&self) -> usize {
        self.control().writer.rib.len()
    }

    /// Whether the table has no prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sizes.
    pub fn stats(&self) -> Stats {
        let control = self.control();
        let (arena, spares) = (&control.arena, &control.writer.spares);
        Stats {
            routes: control.writer.rib.len(),
            entry_bytes: arena.bytes(),
            root_bytes: arena.root_bytes(),
            block_bytes: spares.used() * size_of::<Line>(),
            touched_bytes: spares.lines() * size_of::<Line>(),
        }
    }

    /// Bytes of memory that lookups may touch: the root, and all blocks that ever existed.
    pub fn table_bytes(&self) -> usize {
        let stats = self.stats();
        stats.root_bytes + stats.touched_bytes
    }
}
