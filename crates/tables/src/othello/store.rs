//! Where a control structure keeps the ranges of a partition: names, graph and bits of each, side by side.

use super::colour::Colouring;
use super::graph::{Graph, Link, Name, Refused, Wide};
use super::image::Layout;
use super::ops::Full;
use super::params::Params;
use crate::huge::{HugeSlice, Zeroable};
use crate::prefetch::{prefetch_item, prefetch_read};
use scalebricks_types::KeyHash;

/// Names from which on a range is too large to be fetched as a whole.
const LARGE: usize = 1024;

/// The ranges of one partition.
#[derive(Debug)]
pub(super) enum Store {
    /// Ranges of few enough names and slots that links have 16 bits: 16 bytes a name.
    Narrow(Ranges<u16>),
    /// Larger ones: 24 bytes a name.
    Wide(Ranges<Wide>),
}

/// What is asked for ahead of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// What says where the name's slots are.
    Head,
    /// The slots.
    Slots,
    /// The names at them.
    Names,
    /// All names of a range that is not large: what a tree leads to is not known before it is there, and waiting for one line
    /// after the other takes longer than fetching them all; unless so many other operations wait as well that what counts is
    /// lines.
    AllNames,
}

/// Runs something with the ranges, whatever their links.
macro_rules! with {
    ($store:expr, $ranges:ident => $act:expr) => {
        with!($store, $ranges => $act, $crate::othello::store::Store)
    };
    ($store:expr, $ranges:ident => $act:expr, $kind:path) => {{
        use $kind as Kind;
        match $store {
            Kind::Narrow($ranges) => $act,
            Kind::Wide($ranges) => $act,
        }
    }};
}
pub(super) use with;

/// Ranges with links of one kind.
#[derive(Debug)]
pub(super) struct Ranges<L> {
    pub(super) layout: Layout,
    capacity: usize,
    heads: HugeSlice<L>,
    names: HugeSlice<Name<L>>,
    words: HugeSlice<u64>,
    of: Vec<Head>,
}

/// What is said of a range besides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head {
    pub(super) names: u32,
    pub(super) seed: u8,
}

impl Store {
    /// Empty ranges of a partition.
    pub(super) fn new(params: &Params) -> Self {
        Self::of_ranges(params, params.ranges_per_partition() as usize)
    }

    /// So many empty ranges.
    pub(super) fn of_ranges(params: &Params, ranges: usize) -> Self {
        let largest = params.capacity().max(params.slots_per_range() as usize);
        if largest < usize::from(u16::MAX) {
            Self::Narrow(Ranges::new(params, ranges))
        } else {
            Self::Wide(Ranges::new(params, ranges))
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        with!(self, ranges => &ranges.layout)
    }

    /// The seed of a range, and how many names it has.
    pub(super) fn head(&self, range: u32) -> Head {
        with!(self, ranges => ranges.of[range as usize])
    }

    /// The same of all.
    pub(super) fn heads(&self) -> &[Head] {
        with!(self, ranges => &ranges.of)
    }

    /// The bits of a range.
    pub(super) fn words(&self, range: u32) -> &[u64] {
        with!(self, ranges => ranges.words(range))
    }

    /// The bits of all ranges, one after the other.
    pub(super) fn all_words(&self) -> &[u64] {
        with!(self, ranges => &ranges.words)
    }

    /// The names of a range with their values, in no order.
    pub(super) fn names(&self, range: u32) -> impl ExactSizeIterator<Item = (u64, u16)> + Clone + '_ {
        let (narrow, wide) = match self {
            Self::Narrow(ranges) => (ranges.names(range), &[][..]),
            Self::Wide(ranges) => (&[][..], ranges.names(range)),
        };
        let (few, all) = (narrow.len(), narrow.len() + wide.len());
        (0..all).map(move |at| if at < few { narrow[at].pair() } else { wide[at - few].pair() })
    }

    /// The value of a name, if it is there.
    pub(super) fn get(&self, range: u32, hash: u64) -> Option<u16> {
        with!(self, ranges => ranges.get(range, hash))
    }

    /// Asks for what leads to a name, and then to its neighbours: to be called three times, further ahead first.
    #[inline]
    pub(super) fn prefetch(&self, range: u32, hash: u64, step: Step) {
        with!(self, ranges => ranges.prefetch(range, hash, step));
    }

    /// Puts a name into its range, for [`settle`](Self::settle) to find it there.
    pub(super) fn add(&mut self, first: u32, hash: KeyHash, value: u16) -> Result<(), Full> {
        let local = self.layout().params.locate(hash).1;
        self.span().add(first, local, hash.get(), value)
    }

    /// Makes graphs and bits of the names that were added, range by range under the lowest seed that suits. `first` is the
    /// number of the first range in the table.
    pub(super) fn settle(&mut self, first: u32, colouring: &mut Colouring) -> Result<(), Full> {
        let (ranges, mut span) = (self.heads().len() as u32, self.span());
        (0..ranges).try_for_each(|range| span.settle(first, range, colouring))
    }

    fn span(&mut self) -> Span<'_> {
        match self {
            Self::Narrow(ranges) => Span::Narrow(ranges.part()),
            Self::Wide(ranges) => Span::Wide(ranges.part()),
        }
    }

    /// Makes an empty range one of these names under this seed; whether their graph has no cycle.
    pub(super) fn restore(
        &mut self,
        range: u32,
        seed: u8,
        names: &[(u64, u16)],
        colouring: &mut Colouring,
    ) -> bool {
        let mut span = self.span();
        let fits = names.iter().all(|&(hash, value)| span.add(0, range, hash, value).is_ok());
        fits && with!(span, part => part.into_graph(range).colour(seed, colouring), Span)
    }

    /// The ranges, so many at a time.
    pub(super) fn spans(&mut self, ranges: usize) -> Vec<Span<'_>> {
        match self {
            Self::Narrow(all) => all.part().cut(ranges).map(Span::Narrow).collect(),
            Self::Wide(all) => all.part().cut(ranges).map(Span::Wide).collect(),
        }
    }

    /// Forgets the names, of ranges that are to be filled and made again.
    pub(super) fn forget(&mut self) {
        with!(self, ranges => ranges.of.fill(Head::default()));
    }

    /// Why a range takes no more names.
    pub(super) fn full(&self, refused: Refused, first: u32, range: u32) -> Full {
        full(refused, first + range, self.head(range), self.layout().params.capacity())
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        with!(self, ranges => ranges.bytes())
    }
}

impl<L: Link + Zeroable> Ranges<L> {
    fn new(params: &Params, ranges: usize) -> Self {
        let (layout, capacity) = (Layout::of(params), params.capacity());
        Self {
            layout,
            capacity,
            heads: HugeSlice::untouched(ranges * params.slots_per_range() as usize),
            names: HugeSlice::untouched(ranges * capacity),
            words: HugeSlice::untouched(ranges * layout.words),
            of: vec![Head::default(); ranges],
        }
    }

    /// All of them, to be changed.
    #[inline(always)]
    fn part(&mut self) -> Part<'_, L> {
        Part {
            layout: &self.layout,
            capacity: self.capacity,
            heads: &mut self.heads,
            names: &mut self.names,
            words: &mut self.words,
            of: &mut self.of,
        }
    }

    /// A range to be changed.
    #[inline(always)]
    pub(super) fn graph(&mut self, range: u32) -> Graph<'_, L> {
        self.part().into_graph(range)
    }

    pub(super) fn words(&self, range: u32) -> &[u64] {
        &self.words[range as usize * self.layout.words..][..self.layout.words]
    }

    fn names(&self, range: u32) -> &[Name<L>] {
        let names = self.of[range as usize].names as usize;
        &self.names[range as usize * self.capacity..][..names]
    }

    fn get(&self, range: u32, hash: u64) -> Option<u16> {
        let [a, _] = self.layout.places.pair(hash, self.of[range as usize].seed);
        let names = self.names(range);
        let first = self.heads[range as usize * self.layout.params.slots_per_range() as usize + a as usize];
        let mut at = first.index();
        while let Some(name) = at {
            if names[name].hash() == hash {
                return Some(names[name].pair().1);
            }
            at = names[name].next(0);
        }
        None
    }

    #[inline]
    fn prefetch(&self, range: u32, hash: u64, step: Step) {
        let at = range as usize;
        let slots = self.layout.params.slots_per_range() as usize;
        let is_large = self.capacity > LARGE;
        let all = |lines: usize, of: usize| (0..lines).map(move |line| line * 64 / of);
        match step {
            Step::Head => prefetch_item(&self.of, at),
            Step::Slots if !is_large => {
                for item in all((slots * size_of::<L>()).div_ceil(64), size_of::<L>()) {
                    prefetch_item(&self.heads, at * slots + item);
                }
                for item in all(self.layout.words / 8, 8) {
                    prefetch_item(&self.words, at * self.layout.words + item);
                }
            }
            Step::AllNames if !is_large => {
                let names = self.of[at].names as usize + 1;
                for item in all((names * size_of::<Name<L>>()).div_ceil(64), size_of::<Name<L>>()) {
                    prefetch_item(&self.names, at * self.capacity + item);
                }
            }
            Step::Slots | Step::Names | Step::AllNames => {
                for slot in self.layout.places.pair(hash, self.of[at].seed) {
                    let first = &self.heads[at * slots + slot as usize];
                    if let Step::Slots = step {
                        prefetch_read(first);
                        let bit = slot as usize * self.layout.width as usize;
                        prefetch_item(&self.words, at * self.layout.words + bit / 64);
                    } else if let Some(name) = first.index() {
                        prefetch_item(&self.names, at * self.capacity + name);
                    }
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.heads.len() * size_of::<L>()
            + self.names.len() * size_of::<Name<L>>()
            + self.words.len() * 8
            + self.of.len() * size_of::<Head>()
    }
}

/// Some ranges of a partition, to be changed.
#[derive(Debug)]
pub(super) enum Span<'a> {
    Narrow(Part<'a, u16>),
    Wide(Part<'a, Wide>),
}

/// Ranges that follow each other, with links of one kind.
#[derive(Debug)]
pub(super) struct Part<'a, L> {
    layout: &'a Layout,
    capacity: usize,
    heads: &'a mut [L],
    names: &'a mut [Name<L>],
    words: &'a mut [u64],
    of: &'a mut [Head],
}

impl<'a, L: Link> Part<'a, L> {
    /// One of the ranges.
    #[inline(always)]
    fn into_graph(self, range: u32) -> Graph<'a, L> {
        let (at, slots) = (range as usize, self.layout.params.slots_per_range() as usize);
        Graph {
            layout: self.layout,
            head: &mut self.of[at],
            firsts: &mut self.heads[at * slots..(at + 1) * slots],
            names: &mut self.names[at * self.capacity..(at + 1) * self.capacity],
            words: &mut self.words[at * self.layout.words..(at + 1) * self.layout.words],
        }
    }

    #[inline(always)]
    fn graph(&mut self, range: u32) -> Graph<'_, L> {
        let Part { layout, capacity, heads, names, words, of } = self;
        Part { layout, capacity: *capacity, heads, names, words, of }.into_graph(range)
    }

    /// So many ranges at a time.
    fn cut(self, ranges: usize) -> impl Iterator<Item = Self> {
        let Part { layout, capacity, heads, names, words, of } = self;
        let slots = layout.params.slots_per_range() as usize;
        let heads = heads.chunks_mut(ranges * slots).zip(names.chunks_mut(ranges * capacity));
        let others = words.chunks_mut(ranges * layout.words).zip(of.chunks_mut(ranges));
        heads.zip(others).map(move |((heads, names), (words, of))| Part {
            layout,
            capacity,
            heads,
            names,
            words,
            of,
        })
    }
}

impl Span<'_> {
    /// Puts a name into a range, for [`settle`](Self::settle) to find it there. `first` is the number in the table of the
    /// first of these ranges.
    #[inline(always)]
    pub(super) fn add(&mut self, first: u32, range: u32, hash: u64, value: u16) -> Result<(), Full> {
        let added = with!(self, part => part.graph(range).add(hash, value), Span);
        added.map_err(|refused| self.full(refused, first, range))
    }

    /// Makes graph and bits of a range of the names that were added, under the lowest seed that suits.
    #[inline]
    pub(super) fn settle(&mut self, first: u32, range: u32, colouring: &mut Colouring) -> Result<(), Full> {
        let settled = with!(self, part => part.graph(range).settle(colouring), Span);
        settled.map_err(|refused| self.full(refused, first, range))
    }

    /// A name that a range has twice.
    pub(super) fn twice(&mut self, range: u32) -> Option<KeyHash> {
        let mut hashes: Vec<u64> =
            with!(self, part => part.graph(range).held().iter().map(Name::hash).collect(), Span);
        hashes.sort_unstable();
        hashes.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| KeyHash::new(pair[0]))
    }

    fn full(&self, refused: Refused, first: u32, range: u32) -> Full {
        let (head, capacity) = with!(self, part => (part.of[range as usize], part.capacity), Span);
        full(refused, first + range, head, capacity)
    }
}

/// Why a range takes no more names.
fn full(refused: Refused, range: u32, head: Head, limit: usize) -> Full {
    let names = head.names as usize;
    match refused {
        Refused::Names => Full::Names { range, names: names + 1, limit },
        _ => Full::Seeds { range, names },
    }
}
