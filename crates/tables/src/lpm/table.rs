//! The table: one writer at a time, any number of readers.

use super::address::{Address, Prefix};
use super::arena::Arena;
use super::entry::NextHop;
use super::writer::{OutOfBlocks, Writer};
use crate::reclaim::cache_line::Line;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The layout of a table. Begin with [`Params::new`], [`Params::FAST`] or [`Params::SMALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    root_bits: u8,
    block_lines: u32,
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
    /// A root of 24 bits, 64 MiB, and up to 64 MiB of blocks: most IPv4 addresses need one line.
    pub const FAST: Self = Self { root_bits: 24, block_lines: 1 << 20 };

    /// A root of 16 bits, 256 KiB, and up to 64 MiB of blocks: a small table stays in the cache.
    pub const SMALL: Self = Self { root_bits: 16, block_lines: 1 << 20 };

    /// A root of 2 to the power of `root_bits` four-byte entries, and up to `block_bytes` bytes of blocks.
    /// Memory for blocks is allocated as needed.
    ///
    /// # Errors
    /// [`ParamsError`].
    pub fn new(root_bits: u8, block_bytes: usize) -> Result<Self, ParamsError> {
        if !(1..=24).contains(&root_bits) {
            return Err(ParamsError::RootBits(root_bits));
        }
        match u32::try_from(block_bytes / size_of::<Line>()) {
            Ok(block_lines) if block_lines < (1 << 31) - 32 => Ok(Self { root_bits, block_lines }),
            _ => Err(ParamsError::BlockBytes(block_bytes)),
        }
    }

    /// Bits of the root.
    pub const fn root_bits(self) -> u8 {
        self.root_bits
    }

    /// The maximum number of bytes of blocks.
    pub const fn block_bytes(self) -> usize {
        self.block_lines as usize * size_of::<Line>()
    }
}

/// Why a table refused a change. The table is then unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LpmError {
    /// There is no room for another block.
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
    pub(super) arena: Arena,
    params: Params,
    writer: Mutex<Writer<A::Bits>>,
}

impl<A: Address> Lpm<A> {
    /// A table without routes. Cost: none; memory is allocated when it is first touched.
    pub fn new(params: Params) -> Self {
        let arena = Arena::new(params.root_bits, params.block_lines as usize);
        Self { arena, params, writer: Mutex::new(Writer::new()) }
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer<A::Bits>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layout of the table.
    pub const fn params(&self) -> Params {
        self.params
    }

    /// Adds a prefix, or changes its next hop. Returns the previous next hop.
    ///
    /// Cost: a search; a copy of at most one block per level; and a store for each entry of the prefix that
    /// no longer prefix covers, at most 65,536 for a /8 in a root of 24 bits. Waits for readers only if all
    /// free blocks wait for them.
    ///
    /// # Errors
    /// [`LpmError::Full`].
    pub fn insert(&self, prefix: Prefix<A>, hop: NextHop) -> Result<Option<NextHop>, LpmError> {
        let mut writer = self.writer();
        writer.insert(&self.arena, prefix.key(), hop).map_err(|OutOfBlocks| LpmError::Full {
            routes: writer.rib.len(),
            block_bytes: self.params.block_bytes(),
        })
    }

    /// Removes a prefix. Returns its next hop, if it was in the table. Its addresses get the next hop of the
    /// longest remaining prefix.
    ///
    /// Cost: as [`insert`](Self::insert), and about twenty searches. It always finds room; in a full table it
    /// waits for the readers of a block.
    pub fn remove(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.writer().remove(&self.arena, prefix.key())
    }

    /// The next hop stored for exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.writer().rib.get(prefix.key())
    }

    /// The longest prefix that covers an address, and its next hop. For the control plane: it takes the
    /// writer's lock.
    pub fn longest(&self, address: A) -> Option<(Prefix<A>, NextHop)> {
        let (key, hop) = self.writer().rib.longest(address.bits(), A::BITS + 1)?;
        Some((Prefix::of_key(key), hop))
    }

    /// Calls `visit` with each prefix and its next hop, by address, shorter ones first. Blocks writers
    /// meanwhile; `visit` must not change this table.
    pub fn for_each(&self, mut visit: impl FnMut(Prefix<A>, NextHop)) {
        self.writer().rib.iter().for_each(|(key, hop)| visit(Prefix::of_key(key), hop));
    }

    /// Number of prefixes stored.
    pub fn len(&self) -> usize {
        self.writer().rib.len()
    }

    /// Whether the table has no prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sizes.
    pub fn stats(&self) -> Stats {
        let writer = self.writer();
        Stats {
            routes: writer.rib.len(),
            root_bytes: self.arena.root_bytes(),
            block_bytes: writer.spares.used() * size_of::<Line>(),
            touched_bytes: writer.spares.lines() * size_of::<Line>(),
        }
    }

    /// Bytes of memory that lookups may touch: the root, and all blocks that ever existed.
    pub fn table_bytes(&self) -> usize {
        let stats = self.stats();
        stats.root_bytes + stats.touched_bytes
    }
}
