//! Records the lines that lookups read, and reads them again.
#![allow(unsafe_code)]

use super::{LIMIT, MAX_QUERIES};
use crate::error::BenchError;
use crate::structures::{Queries, Table};
use crate::timing;
use scalebricks_tables::prefetch_read;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes per cache line.
const LINE: usize = 64;

/// Unit of positions in bytes: the largest scale factor of an x86 address.
const UNIT: usize = 8;

/// Maximum memory regions of a table. Allocators place small and large blocks far apart.
const MAX_REGIONS: usize = 8;

/// The recorded lines in one memory region of at most 32 GiB.
struct Region {
    /// The first line.
    first: usize,
    last: usize,
    /// All lines read, in units from the first line.
    places: Vec<u32>,
    /// Lines per query.
    counts: Vec<u8>,
}

impl Region {
    /// Position of a line in units.
    const fn place(&self, line: usize) -> usize {
        (line - self.first) * (LINE / UNIT)
    }

    /// Whether the region contains a line or can be extended to it.
    fn takes(&mut self, line: usize) -> bool {
        let (first, last) = (self.first.min(line), self.last.max(line));
        let fits = u32::try_from((last - first) * (LINE / UNIT)).is_ok();
        if fits {
            (self.first, self.last) = (first, last);
        }
        fits
    }

    /// The first word of the line at a position.
    #[inline(always)]
    fn word(&self, place: u32) -> &AtomicU32 {
        let address = self.first * LINE + place as usize * UNIT;
        // SAFETY: the table reported an address in this line, in memory that it keeps while it is borrowed
        // (`Replay`). Reported addresses are in blocks that start on a cache line and hold at least four
        // bytes, so the first four bytes of the line exist. Writers access them as atomics.
        unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// For calls of `batch` queries: where the lines of the range begin, and where those of each call end.
    fn ends(&self, queries: Range<usize>, batch: usize) -> (usize, Vec<usize>) {
        let sum = |counts: &[u8]| counts.iter().map(|&count| usize::from(count)).sum::<usize>();
        let first = sum(&self.counts[..queries.start]);
        let mut end = first;
        let calls = self.counts[queries].chunks(batch.max(1));
        let ends = calls.map(|counts| {
            end += sum(counts);
            end
        });
        (first, ends.collect())
    }
}

/// The lines that a table's lookups read. Borrows the table, so its memory stays valid.
pub struct Replay<'a> {
    regions: Vec<Region>,
    queries: usize,
    table: PhantomData<&'a ()>,
}

/// What one thread reads in one region: where its lines begin, and where those of each call end.
type Part<'a> = (&'a Region, usize, Vec<usize>);

impl<'a> Replay<'a> {
    /// Records the first queries; `None` for a table that does not report what it reads, or that spans more
    /// than eight regions of 32 GiB.
    pub fn of(table: &'a dyn Table, queries: Queries<'_>) -> Option<Self> {
        let some = |len: usize| 0..len.min(MAX_QUERIES);
        let queries = Queries {
            hashes: &queries.hashes[some(queries.hashes.len())],
            flows: &queries.flows[some(queries.flows.len())],
            words: &queries.words[some(queries.words.len())],
        };
        Self::record(table, queries.hashes.len(), |table, visit| table.touched(queries, visit))
    }

    /// Records the lines of `queries` queries that `touched` reports: see [`Table::touched`].
    pub fn record<T: ?Sized>(
        table: &'a T,
        queries: usize,
        touched: impl Fn(&'a T, &mut dyn FnMut(usize, *const u8)),
    ) -> Option<Self> {
        let mut regions: Vec<Region> = Vec::new();
        touched(table, &mut |_, at| {
            let line = at.expose_provenance() / LINE;
            if !regions.iter_mut().any(|region| region.takes(line)) {
                regions.push(Region {
                    first: line,
                    last: line,
                    places: Vec::new(),
                    counts: vec![0; queries],
                });
            }
        });
        if regions.is_empty() || regions.len() > MAX_REGIONS {
            return None;
        }
        touched(table, &mut |query, at| {
            let line = at.addr() / LINE;
            if let Some(of) = regions.iter_mut().find(|of| (of.first..=of.last).contains(&line)) {
                of.places.push(of.place(line) as u32); // as tried before
                of.counts[query] += 1;
            }
        });
        for region in &mut regions {
            region.places.shrink_to_fit();
        }
        Some(Self { regions, queries, table: PhantomData })
    }

    /// Number of queries.
    pub const fn queries(&self) -> usize {
        self.queries
    }

    /// Queries per second when all are replayed `passes` times in calls of `batch`, split among the threads.
    ///
    /// # Errors
    /// [`BenchError::Threads`]; [`BenchError::Rejected`].
    pub fn rate(&self, passes: usize, batch: usize, threads: usize) -> Result<f64, BenchError> {
        let parts = self.parts(batch, threads);
        let works = parts.iter().map(|part| move || (0..passes).for_each(|_| pass(part))).collect();
        Ok((passes * self.queries) as f64 / timing::together(LIMIT, works)?)
    }

    /// The lines of each thread.
    fn parts(&self, batch: usize, threads: usize) -> Vec<Vec<Part<'_>>> {
        let share = timing::share(self.queries, threads);
        let parts = (0..self.queries).step_by(share).map(|from| {
            let queries = from..self.queries.min(from + share);
            let part = |of| {
                let (first, ends) = Region::ends(of, queries.clone(), batch);
                (of, first, ends)
            };
            self.regions.iter().map(part).collect()
        });
        parts.collect()
    }
}

/// Reads the lines of one thread, call by call.
#[inline(never)]
fn pass(part: &[Part<'_>]) {
    let mut sum = 0_u32;
    let calls = part.first().map_or(0, |(_, _, ends)| ends.len());
    for call in 0..calls {
        let places = |(of, first, ends): &Part<'_>| {
            let from = if call == 0 { *first } else { ends[call - 1] };
            from..ends[call].min(of.places.len())
        };
        for of in part {
            of.0.places[places(of)].iter().for_each(|&place| prefetch_read(of.0.word(place)));
        }
        for of in part {
            for &place in &of.0.places[places(of)] {
                sum = sum.wrapping_add(of.0.word(place).load(Ordering::Relaxed));
            }
        }
    }
    black_box(sum);
}

#[cfg(test)]
mod tests;
