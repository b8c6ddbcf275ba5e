//! The lines of lookups, noted before, and read again by themselves.
#![allow(unsafe_code)]

use super::{LIMIT, MOST};
use crate::error::BenchError;
use crate::structures::{Questions, Table};
use crate::timing;
use scalebricks_tables::prefetch_read;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that a place is counted in: what an address can be scaled by.
const UNIT: usize = 8;

/// Most stretches of memory that a table may lie in: allocators place small and large blocks far apart.
const STRETCHES: usize = 8;

/// The lines that were told in one stretch of memory of at most 32 GiB.
struct Stretch {
    /// The first and the last line.
    first: usize,
    last: usize,
    /// All lines that are read, in units from the first.
    places: Vec<u32>,
    /// How many each question reads.
    counts: Vec<u8>,
}

impl Stretch {
    /// The units of a line from the first.
    const fn place(&self, line: usize) -> usize {
        (line - self.first) * (LINE / UNIT)
    }

    /// Whether it holds a line, or can.
    fn takes(&mut self, line: usize) -> bool {
        let (first, last) = (self.first.min(line), self.last.max(line));
        let fits = u32::try_from((last - first) * (LINE / UNIT)).is_ok();
        if fits {
            (self.first, self.last) = (first, last);
        }
        fits
    }

    /// The first word of the line at a place.
    #[inline(always)]
    fn word(&self, place: u32) -> &AtomicU32 {
        let address = self.first * LINE + place as usize * UNIT;
        // SAFETY: the table told an address in this line, in memory that it keeps as long as it is borrowed (`Replay`). All that
        // tables tell lies in blocks that begin with a line and holds four bytes at the least, so the line's first four are
        // there; and they are atomics for whoever writes them.
        unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// For calls of so many questions, where their lines end, of the questions at these places.
    fn ends(&self, questions: Range<usize>, batch: usize) -> (usize, Vec<usize>) {
        let sum = |counts: &[u8]| counts.iter().map(|&count| usize::from(count)).sum::<usize>();
        let first = sum(&self.counts[..questions.start]);
        let mut end = first;
        let calls = self.counts[questions].chunks(batch.max(1));
        let ends = calls.map(|counts| {
            end += sum(counts);
            end
        });
        (first, ends.collect())
    }
}

/// The lines that a table's lookups read. The table is borrowed: nobody takes its memory away meanwhile.
pub struct Replay<'a> {
    stretches: Vec<Stretch>,
    questions: usize,
    table: PhantomData<&'a ()>,
}

/// What one thread reads of one stretch: where its lines begin, and where those of each call end.
type Part<'a> = (&'a Stretch, usize, Vec<usize>);

impl<'a> Replay<'a> {
    /// Of the first of these questions; `None` of a table that does not tell what it reads, or that lies in more than
    /// eight stretches of 32 GiB.
    pub fn of(table: &'a dyn Table, questions: Questions<'_>) -> Option<Self> {
        let some = |len: usize| 0..len.min(MOST);
        let questions = Questions {
            hashes: &questions.hashes[some(questions.hashes.len())],
            flows: &questions.flows[some(questions.flows.len())],
            words: &questions.words[some(questions.words.len())],
        };
        Self::told(table, questions.hashes.len(), |table, tell| table.touched(questions, tell))
    }

    /// Of so many questions, whose lines `touched` tells of this table: see [`Table::touched`].
    pub fn told<T: ?Sized>(
        table: &'a T,
        questions: usize,
        touched: impl Fn(&'a T, &mut dyn FnMut(usize, *const u8)),
    ) -> Option<Self> {
        let mut stretches: Vec<Stretch> = Vec::new();
        touched(table, &mut |_, at| {
            let line = at.expose_provenance() / LINE;
            if !stretches.iter_mut().any(|stretch| stretch.takes(line)) {
                stretches.push(Stretch {
                    first: line,
                    last: line,
                    places: Vec::new(),
                    counts: vec![0; questions],
                });
            }
        });
        if stretches.is_empty() || stretches.len() > STRETCHES {
            return None;
        }
        touched(table, &mut |question, at| {
            let line = at.addr() / LINE;
            if let Some(of) = stretches.iter_mut().find(|of| (of.first..=of.last).contains(&line)) {
                of.places.push(of.place(line) as u32); // as tried before
                of.counts[question] += 1;
            }
        });
        for stretch in &mut stretches {
            stretch.places.shrink_to_fit();
        }
        Some(Self { stretches, questions, table: PhantomData })
    }

    /// How many questions there are.
    pub const fn questions(&self) -> usize {
        self.questions
    }

    /// Questions a second, all asked so many times, so many at a time, cut into one part for each thread.
    ///
    /// # Errors
    /// [`BenchError::Threads`]; [`BenchError::Rejected`].
    pub fn rate(&self, passes: usize, batch: usize, threads: usize) -> Result<f64, BenchError> {
        let parts = self.parts(batch, threads);
        let works = parts.iter().map(|part| move || (0..passes).for_each(|_| pass(part))).collect();
        Ok((passes * self.questions) as f64 / timing::together(LIMIT, works)?)
    }

    /// What each thread reads.
    fn parts(&self, batch: usize, threads: usize) -> Vec<Vec<Part<'_>>> {
        let share = timing::share(self.questions, threads);
        let parts = (0..self.questions).step_by(share).map(|from| {
            let questions = from..self.questions.min(from + share);
            let part = |of| {
                let (first, ends) = Stretch::ends(of, questions.clone(), batch);
                (of, first, ends)
            };
            self.stretches.iter().map(part).collect()
        });
        parts.collect()
    }
}

/// Reads a thread's lines, those of one call after those of another.
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
