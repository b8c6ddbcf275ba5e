//! Finds a group's bits, and computes the value of a key from them, for all formats.
//!
//! A group's bits are a function of its keys and their values alone (and of the table's parameters): of all
//! solutions, the canonical one is stored. `linear::solve`, `paper::solve` and `brute` define it; every
//! kernel equals them bit for bit.

use super::brute;
use super::format::Format;
use super::kernels::search::SearchSolver;
use super::kernels::{Single, TileQueue};
use super::layout::{Layout, Packed};
use super::params::Params;
use super::{linear, paper};
use crate::isa::Isa;

/// The bits of one group: one field per value bit; unused fields are 0.
pub(super) type Fields = [u64; 8];

/// The keys of one group and their values, in any order.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct GroupKeys {
    pub(super) hashes: Vec<u64>,
    pub(super) values: Vec<u8>,
}

#[cfg(test)]
impl GroupKeys {
    /// Adds a key.
    pub(super) fn push(&mut self, hash: u64, value: u8) {
        self.hashes.push(hash);
        self.values.push(value);
    }
}

/// The fields of a group that has no solution.
pub(super) const fn marked(params: &Params) -> Fields {
    match params.format() {
        Format::Linear | Format::Dense => linear::FieldLayout::of(params).marked(),
        format => [paper::marker(format), 0, 0, 0, 0, 0, 0, 0],
    }
}

/// Whether these fields mark their group as unsolved.
pub(super) const fn is_marked(fields: &Fields, params: &Params) -> bool {
    match params.format() {
        Format::Linear | Format::Dense => linear::FieldLayout::of(params).is_marked(fields),
        format => fields[0] & paper::marker(format) == paper::marker(format),
    }
}

/// Whether these fields are a valid encoding.
pub(super) fn is_clean(fields: &Fields, params: &Params) -> bool {
    if is_marked(fields, params) {
        return *fields == marked(params);
    }
    match params.format() {
        Format::Linear | Format::Dense => linear::FieldLayout::of(params).is_clean(fields),
        format => fields.iter().all(|field| field & paper::marker(format) != paper::marker(format)),
    }
}

/// The value that these fields return for a key. This is the definition that every lookup must equal.
pub(super) fn evaluate(fields: &Fields, hash: u64, params: &Params) -> u8 {
    match params.format() {
        Format::Linear | Format::Dense => linear::evaluate(fields, hash, params),
        Format::Brute => brute::evaluate(fields, hash, params),
        _ => paper::evaluate(fields, hash, params),
    }
}

/// Solves many groups at a time, with the kernels of one instruction set.
#[derive(Debug)]
pub(super) struct Solver {
    kind: Kind,
    single: Option<Single>,
    layout: Layout,
    isa: Isa,
}

#[derive(Debug)]
enum Kind {
    /// Linear equations, solved side by side.
    Linear(TileQueue<u32>),
    Dense(TileQueue<u64>),
    /// Searched immediately; the solutions wait for [`Solver::drain`].
    Search(SearchSolver, Vec<(u32, Option<Packed>)>),
}

impl Solver {
    /// A solver with the kernels of `isa`, or of the best instruction set below it that is available.
    pub(super) fn new(params: &Params, isa: Isa) -> Self {
        let kind = match params.format() {
            Format::Linear => Kind::Linear(TileQueue::new(params, isa)),
            Format::Dense => Kind::Dense(TileQueue::new(params, isa)),
            _ => Kind::Search(SearchSolver::new(params, isa), Vec::new()),
        };
        Self { kind, single: Single::new(params, isa), layout: Layout::of(params), isa }
    }

    /// The requested instruction set.
    pub(super) const fn isa(&self) -> Isa {
        self.isa
    }

    /// Adds a group of at most [`Format::group_slots`] keys. [`Self::drain`] returns its solution with this
    /// tag.
    pub(super) fn push(&mut self, tag: u32, hashes: &[u64], values: &[u8]) {
        match &mut self.kind {
            Kind::Linear(queue) => queue.push(tag, hashes, values),
            Kind::Dense(queue) => queue.push(tag, hashes, values),
            Kind::Search(search, solved) => {
                solved.push((tag, search.solve(hashes, values).map(|fields| self.layout.pack(&fields))));
            }
        }
    }

    /// The fast kernel for a single group, if there is one; [`push`](Self::push) returns the same result more
    /// slowly.
    pub(super) const fn single(&self) -> Option<Single> {
        self.single
    }

    /// Number of waiting groups. A few hundred still fit the caches.
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Linear(queue) => queue.len(),
            Kind::Dense(queue) => queue.len(),
            Kind::Search(_, solved) => solved.len(),
        }
    }

    /// Calls `sink` with the tag and the packed solution of each pushed group, in any order.
    pub(super) fn drain(&mut self, mut sink: impl FnMut(u32, Option<&[u64]>)) {
        let words = self.layout.group_words;
        match &mut self.kind {
            Kind::Linear(queue) => queue.drain(sink),
            Kind::Dense(queue) => queue.drain(sink),
            Kind::Search(_, solved) => {
                let sink = |(tag, packed): (u32, Option<Packed>)| {
                    sink(tag, packed.as_ref().map(|packed| &packed[..words]));
                };
                solved.drain(..).for_each(sink);
            }
        }
    }
}
