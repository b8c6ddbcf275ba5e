//! The ranges of a partition in a control structure: names, graph and bits of each range, side by side.

use super::colour::Colouring;
use super::graph::{GraphError, GraphMut, GraphRef, SlotLink, TreeLinks};
use super::layout::Layout;
use super::params::Params;
use crate::huge::{HugeSlice, Zeroable};
use crate::prefetch::prefetch_item;
use crate::published::Full;
use scalebricks_types::KeyHash;

/// The ranges of one partition.
#[derive(Debug)]
pub(super) enum Store {
    /// Ranges with few enough slots for one-byte slot numbers: 11 bytes per slot, including the name to its
    /// parent.
    Small(Ranges<u8>),
    /// Larger ranges: 20 bytes per slot.
    Large(Ranges<u32>),
}

/// What is prefetched ahead of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum PrefetchStage {
    /// The header, which determines where the name's slots are.
    RangeHeader,
    /// The names at its slots, if all slots were already prefetched.
    Names,
    /// The slots, and the names at them.
    Slots,
    /// As `Slots`, and all other slots of a small range. Which slots a tree leads to is unknown before it is
    /// loaded, and waiting for one line after the other takes longer than fetching them all. With very many
    /// other operations waiting, the number of lines matters more.
    AllSlots,
}

/// Runs an expression on the ranges, for either link type.
macro_rules! with {
    ($store:expr, $ranges:ident => $act:expr) => {
        with!($store, $ranges => $act, $crate::othello::store::Store)
    };
    ($store:expr, $ranges:ident => $act:expr, $kind:path) => {{
        use $kind as Kind;
        match $store {
            Kind::Small($ranges) => $act,
            Kind::Large($ranges) => $act,
        }
    }};
}
pub(super) use with;

/// Ranges with links of one type.
#[derive(Debug)]
pub(super) struct Ranges<L> {
    pub(super) layout: Layout,
    ties: HugeSlice<TreeLinks<L>>,
    hashes: HugeSlice<u64>,
    words: HugeSlice<u64>,
    of: Vec<RangeHeader>,
}

/// The other data of a range.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RangeHeader {
    pub(super) names: u32,
    pub(super) seed: u8,
}

impl Store {
    /// Empty ranges of a partition.
    pub(super) fn new(params: &Params) -> Self {
        Self::of_ranges(params, params.ranges_per_partition() as usize)
    }

    /// This many empty ranges.
    pub(super) fn of_ranges(params: &Params, ranges: usize) -> Self {
        if params.slots().iter().all(|&slots| slots <= <u8 as SlotLink>::SLOTS) {
            Self::Small(Ranges::new(params, ranges))
        } else {
            Self::Large(Ranges::new(params, ranges))
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        with!(self, ranges => &ranges.layout)
    }

    /// The seed of a range, and its number of names.
    pub(super) fn head(&self, range: u32) -> RangeHeader {
        with!(self, ranges => ranges.of[range as usize])
    }

    /// The headers of all ranges.
    pub(super) fn heads(&self) -> &[RangeHeader] {
        with!(self, ranges => &ranges.of)
    }

    /// The bits of a range.
    pub(super) fn words(&self, range: u32) -> &[u64] {
        with!(self, ranges => ranges.words(range))
    }

    /// The bits of all ranges, consecutively.
    pub(super) fn all_words(&self) -> &[u64] {
        with!(self, ranges => &ranges.words)
    }

    /// The names of a range with their values, in no particular order.
    pub(super) fn names(&self, range: u32) -> impl Iterator<Item = (u64, u16)> + Clone + '_ {
        let (small, large) = match self {
            Self::Small(ranges) => (Some(ranges.view(range).names()), None),
            Self::Large(ranges) => (None, Some(ranges.view(range).names())),
        };
        small.into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// The value of a name, if it is in the range.
    pub(super) fn get(&self, range: u32, hash: u64) -> Option<u16> {
        with!(self, ranges => ranges.view(range).get(hash))
    }

    /// Prefetches the path to a name, and then its neighbours. Call it for one stage after another, with
    /// earlier stages further ahead.
    #[inline]
    pub(super) fn prefetch(&self, range: u32, hash: u64, step: PrefetchStage) {
        with!(self, ranges => ranges.prefetch(range, hash, step));
    }

    /// Adds a name to its range; [`settle`](Self::settle) will find it there.
    pub(super) fn add(&mut self, first: u32, hash: KeyHash, value: u16) -> Result<(), Full> {
        let local = self.layout().params.locate(hash).1;
        self.span().add(first, local, hash.get(), value)
    }

    /// Computes graphs and bits of the added names, range by range with the lowest seed that works. `first`
    /// is the number of the first range in the table.
    pub(super) fn settle(&mut self, first: u32, colouring: &mut Colouring) -> Result<(), Full> {
        let (ranges, mut span) = (self.heads().len() as u32, self.span());
        (0..ranges).try_for_each(|range| span.settle(first, range, colouring))
    }

    fn span(&mut self) -> StoreSlice<'_> {
        match self {
            Self::Small(ranges) => StoreSlice::Small(ranges.part()),
            Self::Large(ranges) => StoreSlice::Large(ranges.part()),
        }
    }

    /// Fills an empty range with these names under this seed. Returns whether their graph has no cycle.
    pub(super) fn restore(
        &mut self,
        range: u32,
        seed: u8,
        names: &[(u64, u16)],
        colouring: &mut Colouring,
    ) -> bool {
        colouring.take(names.iter().copied());
        names.len() <= self.layout().capacity
            && with!(self, ranges => ranges.graph(range).colour(seed, colouring))
    }

    /// Splits the ranges into slices of `ranges` ranges.
    pub(super) fn spans(&mut self, ranges: usize) -> Vec<StoreSlice<'_>> {
        match self {
            Self::Small(all) => all.part().cut(ranges).map(StoreSlice::Small).collect(),
            Self::Large(all) => all.part().cut(ranges).map(StoreSlice::Large).collect(),
        }
    }

    /// Removes the names of ranges that will be filled again.
    pub(super) fn forget(&mut self) {
        with!(self, ranges => ranges.of.fill(RangeHeader::default()));
    }

    /// The error of a range that cannot take more names.
    pub(super) fn full(&self, refused: GraphError, first: u32, range: u32) -> Full {
        full(refused, first + range, self.head(range), self.layout().capacity)
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        with!(self, ranges => ranges.bytes())
    }
}

impl<L: SlotLink + Zeroable> Ranges<L> {
    fn new(params: &Params, ranges: usize) -> Self {
        let (layout, slots) = (Layout::of(params), params.slots_per_range() as usize);
        Self {
            layout,
            ties: HugeSlice::untouched(ranges * slots),
            hashes: HugeSlice::untouched(ranges * slots),
            words: HugeSlice::untouched(ranges * layout.words),
            of: vec![RangeHeader::default(); ranges],
        }
    }

    /// A mutable view of all ranges.
    #[inline(always)]
    fn part(&mut self) -> RangeSlice<'_, L> {
        RangeSlice {
            layout: &self.layout,
            ties: &mut self.ties,
            hashes: &mut self.hashes,
            words: &mut self.words,
            of: &mut self.of,
        }
    }

    /// A mutable view of a range.
    #[inline(always)]
    pub(super) fn graph(&mut self, range: u32) -> GraphMut<'_, L> {
        self.part().into_graph(range)
    }

    /// A read-only view of a range.
    pub(super) fn view(&self, range: u32) -> GraphRef<'_, L> {
        let (at, slots) = (range as usize, self.layout.params.slots_per_range() as usize);
        GraphRef {
            layout: &self.layout,
            seed: self.of[at].seed,
            ties: &self.ties[at * slots..][..slots],
            hashes: &self.hashes[at * slots..][..slots],
            words: self.words(range),
        }
    }

    pub(super) fn words(&self, range: u32) -> &[u64] {
        &self.words[range as usize * self.layout.words..][..self.layout.words]
    }

    #[inline]
    fn prefetch(&self, range: u32, hash: u64, step: PrefetchStage) {
        let at = range as usize;
        if let PrefetchStage::RangeHeader = step {
            return prefetch_item(&self.of, at);
        }
        let slots = self.layout.params.slots_per_range() as usize;
        let is_small = size_of::<L>() == 1;
        if let (PrefetchStage::AllSlots, true) = (step, is_small) {
            for tie in (0..slots).step_by(64 / size_of::<TreeLinks<L>>()) {
                prefetch_item(&self.ties, at * slots + tie);
            }
            for word in (0..self.layout.words).step_by(8) {
                prefetch_item(&self.words, at * self.layout.words + word);
            }
        }
        for slot in self.layout.places.pair(hash, self.of[at].seed) {
            let slot = slot as usize;
            prefetch_item(&self.hashes, at * slots + slot);
            if !is_small || matches!(step, PrefetchStage::Slots) {
                prefetch_item(&self.ties, at * slots + slot);
                let bit = slot * self.layout.width as usize;
                prefetch_item(&self.words, at * self.layout.words + bit / 64);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.ties.len() * size_of::<TreeLinks<L>>()
            + (self.hashes.len() + self.words.len()) * 8
            + self.of.len() * size_of::<RangeHeader>()
    }
}

/// A mutable slice of the ranges of a partition.
#[derive(Debug)]
pub(super) enum StoreSlice<'a> {
    Small(RangeSlice<'a, u8>),
    Large(RangeSlice<'a, u32>),
}

/// Consecutive ranges with links of one type.
#[derive(Debug)]
pub(super) struct RangeSlice<'a, L> {
    layout: &'a Layout,
    ties: &'a mut [TreeLinks<L>],
    hashes: &'a mut [u64],
    words: &'a mut [u64],
    of: &'a mut [RangeHeader],
}

impl<'a, L: SlotLink> RangeSlice<'a, L> {
    /// One of the ranges.
    #[inline(always)]
    fn into_graph(self, range: u32) -> GraphMut<'a, L> {
        let (at, slots) = (range as usize, self.layout.params.slots_per_range() as usize);
        GraphMut {
            layout: self.layout,
            head: &mut self.of[at],
            ties: &mut self.ties[at * slots..(at + 1) * slots],
            hashes: &mut self.hashes[at * slots..(at + 1) * slots],
            words: &mut self.words[at * self.layout.words..(at + 1) * self.layout.words],
        }
    }

    #[inline(always)]
    fn graph(&mut self, range: u32) -> GraphMut<'_, L> {
        let RangeSlice { layout, ties, hashes, words, of } = self;
        RangeSlice { layout, ties, hashes, words, of }.into_graph(range)
    }

    /// Splits it into slices of `ranges` ranges.
    fn cut(self, ranges: usize) -> impl Iterator<Item = Self> {
        let RangeSlice { layout, ties, hashes, words, of } = self;
        let slots = layout.params.slots_per_range() as usize;
        let names = ties.chunks_mut(ranges * slots).zip(hashes.chunks_mut(ranges * slots));
        let others = words.chunks_mut(ranges * layout.words).zip(of.chunks_mut(ranges));
        names.zip(others).map(move |((ties, hashes), (words, of))| RangeSlice {
            layout,
            ties,
            hashes,
            words,
            of,
        })
    }
}

impl StoreSlice<'_> {
    /// Adds a name to a range; [`settle`](Self::settle) will find it there. `first` is the number in the
    /// table of the first of these ranges.
    #[inline(always)]
    pub(super) fn add(&mut self, first: u32, range: u32, hash: u64, value: u16) -> Result<(), Full> {
        let added = with!(self, part => part.graph(range).add(hash, value), StoreSlice);
        added.map_err(|refused| self.full(refused, first, range))
    }

    /// Computes graph and bits of a range from the added names, with the lowest seed that works.
    #[inline]
    pub(super) fn settle(&mut self, first: u32, range: u32, colouring: &mut Colouring) -> Result<(), Full> {
        let settled = with!(self, part => part.graph(range).settle(colouring), StoreSlice);
        settled.map_err(|refused| self.full(refused, first, range))
    }

    fn full(&self, refused: GraphError, first: u32, range: u32) -> Full {
        let (head, capacity) =
            with!(self, part => (part.of[range as usize], part.layout.capacity), StoreSlice);
        full(refused, first + range, head, capacity)
    }
}

/// The error of a range that cannot take more names.
fn full(refused: GraphError, range: u32, head: RangeHeader, limit: usize) -> Full {
    let names = head.names as usize;
    match refused {
        GraphError::Names => Full::Names { range, names: names + 1, limit },
        _ => Full::Seeds { range, names },
    }
}
