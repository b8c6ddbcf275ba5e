//! The machine's own limit: the loads of a lookup and nothing else.
//!
//! A [`Replay`] holds the cache lines that the lookups of some questions read, in their order, as numbers of four bytes.
//! It asks for the lines of as many keys as a call has, reads a word of each, and adds them up. No line waits for
//! another, no hash is computed and no answer stored: what that takes is the memory's time, of the very addresses, on the
//! same pages and as many threads. The numbers are read one after the other, as the questions are by a lookup; those
//! are not read besides.
#![allow(unsafe_code)]

use crate::contestants::{Forms, Mode, Questions, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Found, Turn};
use crate::row::{Metric, Subject};
use crate::timing;
use scalebricks_tables::prefetch_read;
use std::cell::RefCell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most questions that are replayed, the first of all: their lines take some sixteen bytes a question.
pub const MOST: usize = 1 << 23;

/// Bytes that the replay of a question takes, about.
const QUESTION_BYTES: u64 = 17;

/// What the rows of limits are called.
pub const LIMIT: &str = "machine limit";

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes that replays of so many tables of `keys` keys take, for each key.
pub fn bytes_per_key(keys: u64, tables: usize) -> u64 {
    QUESTION_BYTES * tables as u64 * keys.min(MOST as u64) / keys.max(1)
}

/// Stretches of memory that a table may lie in: allocators place small and large blocks far apart.
const STRETCHES: usize = 8;

/// Bits of a line's number in its stretch: 32 GiB.
const STRETCH_BITS: u32 = 29;

/// These bits.
const STRETCH: u32 = (1 << STRETCH_BITS) - 1;

/// The first and the last line of each stretch; of one not in use, the last is before the first.
#[derive(Clone, Copy)]
struct Stretches([(usize, usize); STRETCHES]);

impl Default for Stretches {
    fn default() -> Self {
        Self([(usize::MAX, 0); STRETCHES])
    }
}

impl Stretches {
    /// Adds a line to the first stretch that can hold it; whether there is one.
    fn add(&mut self, line: usize) -> bool {
        for (first, last) in &mut self.0 {
            let (least, most) = (line.min(*first), line.max(*last));
            if most - least <= STRETCH as usize {
                (*first, *last) = (least, most);
                return true;
            }
        }
        false
    }

    /// The number of a line that was added.
    fn number(&self, line: usize) -> Option<u32> {
        let at = self.0.iter().position(|&(first, last)| (first..=last).contains(&line))?;
        Some((at as u32) << STRETCH_BITS | (line - self.0[at].0) as u32) // eight, and at most `STRETCH`
    }
}

/// The lines that a table's lookups read. The table is borrowed: nobody takes its memory away meanwhile.
pub struct Replay<'a> {
    /// The first line of each stretch.
    firsts: [usize; STRETCHES],
    /// All lines: the number of the stretch, and that of the line in it.
    lines: Vec<u32>,
    /// How many each question reads.
    counts: Vec<u8>,
    table: PhantomData<&'a ()>,
}

impl<'a> Replay<'a> {
    /// Of the first of these questions; `None` of a table that does not tell what it reads, or that
    /// lies in more than eight stretches of 32 GiB.
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
        let (mut stretches, mut count, mut fits) = (Stretches::default(), 0, true);
        touched(table, &mut |_, at| {
            fits &= stretches.add(at.expose_provenance() / LINE);
            count += 1;
        });
        if !fits || count == 0 {
            return None;
        }
        let (mut lines, mut counts) = (Vec::with_capacity(count), vec![0_u8; questions]);
        touched(table, &mut |question, at| {
            lines.extend(stretches.number(at.addr() / LINE));
            counts[question] = counts[question].saturating_add(1);
        });
        let firsts = stretches.0.map(|(first, _)| first);
        Some(Self { firsts, lines, counts, table: PhantomData })
    }

    /// How many questions there are.
    pub const fn questions(&self) -> usize {
        self.counts.len()
    }

    /// Questions a second, all asked so many times, so many at a time, cut into one part for each thread.
    ///
    /// # Errors
    /// [`BenchError::Threads`]; [`BenchError::Rejected`].
    pub fn rate(&self, passes: usize, batch: usize, threads: usize) -> Result<f64, BenchError> {
        let parts = self.parts(batch, threads);
        let work = |first, ends| (0..passes).for_each(|_| self.pass(first, ends));
        let works = parts.iter().map(|(first, ends)| move || work(*first, ends)).collect();
        Ok((passes * self.counts.len()) as f64 / timing::together("machine limit", works)?)
    }

    /// For each thread, where its lines begin, and where those of each call end.
    fn parts(&self, batch: usize, threads: usize) -> Vec<(usize, Vec<usize>)> {
        let share = self.counts.len().div_ceil(threads).max(1);
        let mut at = 0;
        let parts = self.counts.chunks(share).map(|counts| {
            let first = at;
            let ends = counts.chunks(batch.max(1)).map(|counts| {
                at += counts.iter().map(|&count| usize::from(count)).sum::<usize>();
                at
            });
            (first, ends.collect())
        });
        parts.collect()
    }

    /// Reads a thread's lines, those of one call after those of another.
    #[inline(never)]
    fn pass(&self, first: usize, ends: &[usize]) {
        let (mut from, mut sum) = (first, 0_u32);
        for &end in ends {
            let Range { start, end } = from..end;
            self.lines[start..end].iter().for_each(|&line| prefetch_read(self.word(line)));
            for &line in &self.lines[start..end] {
                sum = sum.wrapping_add(self.word(line).load(Ordering::Relaxed));
            }
            from = end;
        }
        black_box(sum);
    }

    /// The first word of a line.
    #[inline(always)]
    fn word(&self, line: u32) -> &AtomicU32 {
        let address = (self.firsts[(line >> STRETCH_BITS) as usize] + (line & STRETCH) as usize) * LINE;
        // SAFETY: the table told an address in this line, in memory that it keeps as long as it is borrowed. All that tables
        // tell lies in blocks that begin with a line and holds four bytes at the least, so the line's first four are there;
        // and they are atomics for whoever writes them.
        unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
    }
}

/// A table, the questions it is asked, and its limits in the round under way.
pub struct Limits<'a> {
    table: &'a dyn Table,
    set: &'a KeySet,
    forms: &'a Forms,
    replay: Option<Replay<'a>>,
    /// By keys a call and threads.
    rates: RefCell<Vec<((usize, usize), f64)>>,
}

impl<'a> Limits<'a> {
    /// Of a table that is asked these questions.
    pub fn of(table: &'a dyn Table, set: &'a KeySet, forms: &'a Forms) -> Self {
        let replay = Replay::of(table, forms.questions(set));
        Self { table, set, forms, replay, rates: RefCell::default() }
    }

    /// A turn of lookups, with their share of the limit if the table tells what it reads, and before it one of that limit
    /// where no turn has measured it yet. `variant` stands in place of the mode's name.
    pub fn turns(&'a self, subject: &Subject, variant: Option<&str>, mode: Mode) -> Vec<Turn<'a, Vec<u8>>> {
        let named = |name: &str| {
            let variant =
                subject.variant.as_ref().map_or_else(|| name.to_owned(), |v| format!("{v}, {name}"));
            Subject { variant: Some(variant), batch: mode.batch(), ..subject.clone() }
        };
        let threads = subject.threads.unwrap_or(1);
        let way = mode.batch().filter(|_| self.replay.is_some()).map(|batch| (batch, threads));
        let mut turns: Vec<Turn<'a, Vec<u8>>> = Vec::new();
        if let Some((replay, way)) = self.replay.as_ref().zip(way.filter(|way| !self.is_planned(*way))) {
            self.rates.borrow_mut().push((way, f64::NAN));
            let name = variant.map_or_else(|| LIMIT.to_owned(), |variant| format!("{variant}, {LIMIT}"));
            turns.push(Turn::new(named(&name), Metric::LookupRate, move |_: &mut Vec<u8>| {
                let rate = replay.rate(1, way.0, way.1)?;
                self.rates.borrow_mut().iter_mut().filter(|of| of.0 == way).for_each(|of| of.1 = rate);
                Ok(rate.into())
            }));
        }
        let subject = named(variant.unwrap_or(mode.name()));
        let structure = subject.structure.clone();
        let mut rows = vec![(subject.clone(), Metric::LookupRate)];
        rows.extend(way.map(|_| (subject, Metric::ShareOfLimit)));
        turns.push(Turn::several(rows, move |answers: &mut Vec<u8>| {
            let rate = timing::lookup(self.table, mode, self.set, self.forms, threads, answers)?;
            timing::check(&structure, self.set, answers)?;
            let mut figures = vec![rate];
            figures.extend(way.and_then(|way| self.rate(way)).map(|limit| rate / limit));
            Ok(Found { figures, table_bytes: None })
        }));
        turns
    }

    fn rate(&self, way: (usize, usize)) -> Option<f64> {
        self.rates.borrow().iter().find(|of| of.0 == way).map(|of| of.1)
    }

    fn is_planned(&self, way: (usize, usize)) -> bool {
        self.rate(way).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::{Make, Structure};

    /// Reads three lines for every question, in the order of the questions.
    struct Told([Vec<u64>; 3]);

    impl Table for Told {
        fn table_bytes(&self) -> u64 {
            0
        }

        fn lookup(&self, _: Mode, _: Questions<'_>, _: &mut [u8]) {}

        fn touched(&self, questions: Questions<'_>, tell: &mut dyn FnMut(usize, *const u8)) {
            for question in 0..questions.hashes.len() {
                self.0.iter().for_each(|words| tell(question, (&raw const words[8 * question + 4]).cast()));
            }
        }
    }

    #[test]
    fn lines_are_replayed_in_their_order_call_by_call() {
        let hashes = vec![scalebricks_types::KeyHash::default(); 10];
        let questions = Questions { hashes: &hashes, flows: &[], words: &[] };
        let table = Told(std::array::from_fn(|_| vec![0; 8 * 12]));
        let replay = Replay::of(&table, questions).unwrap();
        assert_eq!(replay.counts, [3; 10]);
        let at = |question: usize, part: usize| (&raw const table.0[part][8 * question + 4]).addr() / LINE;
        let wanted: Vec<usize> =
            (0..10).flat_map(|n| (0..3).map(move |part| (n, part))).map(|(n, part)| at(n, part)).collect();
        let told: Vec<usize> =
            replay.lines.iter().map(|&line| replay.word(line).as_ptr().addr() / LINE).collect();
        assert_eq!(told, wanted);
        assert_eq!(replay.parts(4, 1), [(0, vec![12, 24, 30])]);
        assert_eq!(replay.parts(4, 2), [(0, vec![12, 15]), (15, vec![27, 30])]);
        assert_eq!(replay.parts(1, 10).len(), 10);
    }

    #[test]
    fn lines_far_apart_are_numbered() {
        let mut stretches = Stretches::default();
        let lines: Vec<usize> =
            (0..STRETCHES).flat_map(|n| [(n << 40) + 7, (n << 40) + 5, n << 40]).collect();
        assert!(lines.iter().all(|&line| stretches.add(line)) && !stretches.add(1 << 50));
        for line in lines {
            let number = stretches.number(line).unwrap();
            let first = stretches.0[(number >> STRETCH_BITS) as usize].0;
            assert_eq!(first + (number & STRETCH) as usize, line);
        }
        assert_eq!(stretches.number(8), None);
    }

    #[test]
    fn all_of_ours_tell_what_they_read() {
        let set = KeySet::new(3000, 2);
        for structure in [Structure::SetSep, Structure::Othello, Structure::FullCopy, Structure::Cuckoo] {
            let table = structure.prepare(&set, Make::table()).unwrap().build().unwrap();
            let forms = Forms::of(&set, [table.form()]);
            let replay = Replay::of(&*table, forms.questions(&set)).unwrap();
            assert!(replay.counts.iter().all(|count| (2..=6).contains(count)), "{}", structure.name());
            for (batch, threads) in [(1, 1), (64, 2), (5000, 3)] {
                assert!(replay.rate(2, batch, threads).unwrap() > 0.0, "{}", structure.name());
            }
        }
        let other = Structure::HashBrown.prepare(&set, Make::table()).unwrap().build().unwrap();
        assert!(Replay::of(&*other, Forms::default().questions(&set)).is_none());
    }
}
