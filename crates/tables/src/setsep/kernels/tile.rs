//! Groups that wait to be solved together, and the retry of groups whose first seed fails.
//!
//! Keys are stored in the layout that the [lanes](super::lanes) need: sixteen groups per batch, for each
//! batch the groups' first keys side by side, then their second keys, and so on. A key is stored there as
//! soon as its group is known, and never moved.
//!
//! A batch is solved with seed 0. The few groups without a solution are copied out and tried again with the
//! next seed, sixteen at a time from anywhere in the tile. When fewer than sixteen are left, the free lanes
//! try later seeds of the same groups at the same time. The lowest seed that works is taken, as if they had
//! been tried in order.

use super::super::layout::Packed;
use super::super::linear::{FieldLayout, Rows};
use super::super::params::Params;
use super::super::solver::{self, Fields};
use super::AvailableIsa;
use super::lanes::{BITS_AT_ONCE, Batch, LANES, Vectors, Word};
use crate::isa::Isa;

/// All fields of sixteen groups: the solution of each value bit in each lane.
type AllVectors<W> = [Vectors<W>; 8 / BITS_AT_ONCE];

/// What the equations of all groups have in common.
#[derive(Debug, Clone, Copy)]
struct Equations<W> {
    present: AvailableIsa,
    shape: FieldLayout,
    value_bits: usize,
    key: W,
    marked: Fields,
}

impl<W: Word> Equations<W> {
    /// The lanes that have a solution under their seed, and the solutions.
    fn solve(
        &self,
        hashes: &[[W; LANES]],
        values: &[[u8; LANES]],
        loads: &[u8; LANES],
        multipliers: &[W; LANES],
        vectors: &mut AllVectors<W>,
    ) -> u16 {
        let rows = loads.iter().fold(0, |most, &load| most.max(load));
        let rows = usize::from(rows).min(W::ROWS);
        let (hashes, values) = (&hashes[..rows], &values[..rows]);
        let mut solved = u16::MAX;
        // With more value bits than are eliminated at once, the same rows are solved again with the rest. A
        // seed must work for all.
        for (part, vectors) in vectors.iter_mut().take(self.value_bits.div_ceil(BITS_AT_ONCE)).enumerate() {
            let shift = (part * BITS_AT_ONCE) as u32;
            let (key, columns) = (self.key, self.shape.columns);
            let batch = Batch { hashes, values, loads, multipliers, key, columns, shift };
            solved &= W::solve(self.present, &batch, vectors);
        }
        solved
    }

    /// Writes the fields of a lane.
    fn write(&self, vectors: &AllVectors<W>, lane: usize, seed: u32, fields: &mut [W]) {
        let mut all = Fields::default();
        for (field, vector) in all.iter_mut().zip(vectors.as_flattened()).take(self.value_bits) {
            *field = vector[lane].into();
        }
        self.copy(&self.shape.fields(all, seed), fields);
    }

    fn copy(&self, from: &Fields, to: &mut [W]) {
        for (to, &from) in to.iter_mut().zip(from).take(self.value_bits) {
            *to = W::from_low(from);
        }
    }
}

/// A group to try, and the lowest seed not yet tried.
type Trial = (u32, u32);

/// Groups and their keys, of format Linear with `u32` and of Dense with `u64`.
#[derive(Debug)]
pub(in crate::setsep) struct Tile<W> {
    equations: Equations<W>,
    groups: usize,
    /// [`Word::ROWS`] rows for each batch of [`LANES`] groups.
    hashes: Vec<[W; LANES]>,
    values: Vec<[u8; LANES]>,
    /// One entry per batch. 255 also stands for larger loads.
    loads: Vec<[u8; LANES]>,
    unsolved: Vec<u32>,
    round: Vec<Trial>,
    next_round: Vec<Trial>,
    /// The keys of the groups that are tried again.
    again_hashes: Vec<[W; LANES]>,
    again_values: Vec<[u8; LANES]>,
    fields: Vec<W>,
}

impl<W: Word> Tile<W> {
    /// An empty tile without groups. `params` must be of the format that belongs to `W`.
    pub(in crate::setsep) fn new(params: &Params, isa: Isa) -> Self {
        let equations = Equations {
            present: AvailableIsa::new(isa),
            shape: FieldLayout::of(params),
            value_bits: params.value_bits().into(),
            key: W::from_low(Rows::of(params).key()),
            marked: solver::marked(params),
        };
        Self {
            equations,
            groups: 0,
            hashes: Vec::new(),
            values: Vec::new(),
            loads: Vec::new(),
            unsolved: Vec::new(),
            round: Vec::new(),
            next_round: Vec::new(),
            again_hashes: vec![[W::default(); LANES]; W::ROWS],
            again_values: vec![[0; LANES]; W::ROWS],
            fields: Vec::new(),
        }
    }

    /// Removes all keys and makes room for this many groups, numbered from 0. Allocates memory only if the
    /// tile never had that many groups: 160 bytes per group in format Linear, 576 in Dense.
    pub(in crate::setsep) fn clear(&mut self, groups: usize) {
        self.loads.clear();
        self.unsolved.clear();
        self.grow(groups);
    }

    /// Makes room for more groups, and keeps the existing ones.
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
        let batches = groups.div_ceil(LANES);
        self.loads.resize(batches, [0; LANES]);
        if self.hashes.len() < batches * W::ROWS {
            self.hashes.resize(batches * W::ROWS, [W::default(); LANES]);
            self.values.resize(batches * W::ROWS, [0; LANES]);
        }
    }

    /// Adds a key to a group of this tile. A group with more than [`Word::ROWS`] keys will be unsolved.
    ///
    /// # Panics
    /// If there is no such group.
    #[inline(always)]
    pub(in crate::setsep) fn push(&mut self, group: usize, hash: u64, value: u8) {
        let (batch, lane) = (group / LANES, group % LANES);
        let load = &mut self.loads[batch][lane];
        let row = batch * W::ROWS + usize::from(*load) % W::ROWS; // keys too many overwrite others
        *load = load.saturating_add(1);
        self.hashes[row][lane] = W::from_low(hash);
        self.values[row][lane] = value;
    }

    /// Solves all groups. Group `g`'s fields, one per value bit, begin at `g * value_bits` of the result. Groups
    /// without a solution are marked there and listed in [`unsolved`](Self::unsolved).
    pub(in crate::setsep) fn solve(&mut self) -> &[W] {
        let (equations, bits) = (self.equations, self.equations.value_bits);
        let mut fields = std::mem::take(&mut self.fields);
        fields.resize(self.groups * bits, W::default());
        let mut vectors = [[[W::default(); LANES]; BITS_AT_ONCE]; 8 / BITS_AT_ONCE];
        self.unsolved.clear();
        self.round.clear();
        let rows = self.hashes.chunks_exact(W::ROWS).zip(self.values.chunks_exact(W::ROWS));
        let sixteens = fields.chunks_mut(LANES * bits);
        for ((first, (loads, (hashes, values))), fields) in
            (0..).step_by(LANES).zip(self.loads.iter().zip(rows)).zip(sixteens)
        {
            let multipliers = [W::multiplier(0); LANES];
            let solved = equations.solve(hashes, values, loads, &multipliers, &mut vectors);
            for (bit, vector) in vectors.as_flattened().iter().take(bits).enumerate() {
                for (field, &word) in fields[bit..].iter_mut().step_by(bits).zip(vector) {
                    *field = word; // seed 0 leaves no trace
                }
            }
            let (mut rest, here) = (!solved, fields.len() / bits);
            while rest != 0 {
                let lane = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if lane < here {
                    self.round.push((first + lane as u32, 1));
                }
            }
            for (group, _) in (first..).zip(loads).filter(|(_, load)| usize::from(**load) > W::ROWS) {
                self.round.retain(|&(other, _)| other != group); // rare
                self.unsolved.push(group);
            }
        }
        self.solve_again(&mut fields, &mut vectors);
        self.unsolved.sort_unstable();
        for &group in &self.unsolved {
            equations.copy(&equations.marked, &mut fields[group as usize * bits..]);
        }
        self.fields = fields;
        &self.fields
    }

    /// Tries later seeds until every group has a solution or no seed is left.
    fn solve_again(&mut self, fields: &mut [W], vectors: &mut AllVectors<W>) {
        let (equations, bits) = (self.equations, self.equations.value_bits);
        while !self.round.is_empty() {
            self.next_round.clear();
            for trials in self.round.chunks(LANES) {
                let spread = LANES / trials.len();
                let used = trials.len() * spread;
                let (mut loads, mut multipliers) = ([0; LANES], [W::default(); LANES]);
                for lane in 0..used {
                    let (group, seed) = trials[lane % trials.len()];
                    multipliers[lane] = W::multiplier(seed + (lane / trials.len()) as u32);
                    let (batch, from) = (group as usize / LANES, group as usize % LANES);
                    loads[lane] = self.loads[batch][from];
                    let rows = batch * W::ROWS..batch * W::ROWS + usize::from(loads[lane]);
                    let keys = self.hashes[rows.clone()].iter().zip(&self.values[rows]);
                    let places = self.again_hashes.iter_mut().zip(&mut self.again_values);
                    for ((hash, value), (hashes, values)) in places.zip(keys) {
                        (hash[lane], value[lane]) = (hashes[from], values[from]);
                    }
                }
                let solved =
                    equations.solve(&self.again_hashes, &self.again_values, &loads, &multipliers, vectors);
                for (at, &(group, seed)) in trials.iter().enumerate() {
                    let lanes = (at..used).step_by(trials.len());
                    let left = equations.shape.seeds() - seed;
                    let mut hits = (0..left).zip(lanes).filter(|(_, lane)| solved >> lane & 1 == 1);
                    if let Some((step, lane)) = hits.next() {
                        let fields = &mut fields[group as usize * bits..];
                        equations.write(vectors, lane, seed + step, fields);
                    } else if left > spread as u32 {
                        self.next_round.push((group, seed + spread as u32));
                    } else {
                        self.unsolved.push(group);
                    }
                }
            }
            std::mem::swap(&mut self.round, &mut self.next_round);
        }
    }

    /// The groups that no seed solves, ascending.
    pub(in crate::setsep) fn unsolved(&self) -> &[u32] {
        &self.unsolved
    }
}

/// Waiting groups, each with a tag, of format Linear with `u32` and of Dense with `u64`.
#[derive(Debug)]
pub(in crate::setsep) struct TileQueue<W> {
    tile: Tile<W>,
    tags: Vec<u32>,
}

impl<W: Word> TileQueue<W> {
    /// An empty queue. `params` must be of the format that belongs to `W`.
    pub(in crate::setsep) fn new(params: &Params, isa: Isa) -> Self {
        Self { tile: Tile::new(params, isa), tags: Vec::new() }
    }

    /// Number of waiting groups. The cost per group is lowest if this is a multiple of sixteen.
    pub(in crate::setsep) fn len(&self) -> usize {
        self.tags.len()
    }

    /// Adds a group with its keys, in any order. Its solution is returned with `tag`.
    pub(in crate::setsep) fn push(&mut self, tag: u32, hashes: &[u64], values: &[u8]) {
        let (group, tile) = (self.tags.len(), &mut self.tile);
        self.tags.push(tag);
        tile.grow(group + 1);
        let (batch, lane) = (group / LANES, group % LANES);
        let rows = batch * W::ROWS..(batch + 1) * W::ROWS;
        let places = tile.hashes[rows.clone()].iter_mut().zip(&mut tile.values[rows]);
        for ((row, values_of), (&hash, &value)) in places.zip(hashes.iter().zip(values)) {
            row[lane] = W::from_low(hash);
            values_of[lane] = value;
        }
        tile.loads[batch][lane] = hashes.len().min(255) as u8;
    }

    /// Solves all groups and empties the queue. Calls `sink` for each group in the order in which they were
    /// pushed, with the canonical fields, packed, or `None` if no seed has a solution.
    pub(in crate::setsep) fn drain(&mut self, mut sink: impl FnMut(u32, Option<&[u64]>)) {
        let Self { tile, tags } = self;
        let bits = tile.equations.value_bits;
        tile.solve();
        let mut unsolved = tile.unsolved.iter().map(|&group| group as usize).peekable();
        for (group, (tag, solution)) in tags.drain(..).zip(tile.fields.chunks_exact(bits)).enumerate() {
            if unsolved.next_if_eq(&group).is_some() {
                sink(tag, None);
                continue;
            }
            let mut packed = Packed::default();
            W::pack(solution, &mut packed);
            sink(tag, Some(&packed[..bits.div_ceil(64 / W::ROWS)]));
        }
        tile.clear(0);
    }
}
