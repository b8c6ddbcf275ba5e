//! The machine's own limit: the loads of a lookup and nothing else.
//!
//! A [`Replay`] holds the cache lines that the lookups of some questions read, in their order, as numbers of four bytes;
//! those of small and of large arrays apart, as these lie far apart in memory. It asks for the lines of as many keys
//! as a call has, reads a word of each, and adds them up. No line waits for
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
        Ok((passes * self.questions) as f64 / timing::together("machine limit", works)?)
    }

    /// What each thread reads.
    fn parts(&self, batch: usize, threads: usize) -> Vec<Vec<Part<'_>>> {
        let share = self.questions.div_ceil(threads).max(1);
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

    /// The limit of the round under way, of lookups in this mode on one thread, if it is measured.
    pub fn of_one(&self, mode: Mode) -> Option<f64> {
        self.rate((mode.batch()?, 1))
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
    use crate::benches::ALL;
    use crate::contestants::{Make, Structure};
    use crate::options::Options;
    use crate::row::Row;
    use crate::session::Session;
    use scalebricks_console::{Console, Interrupt};

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
        let [stretch] = &replay.stretches[..] else { panic!("one allocation after the other") };
        assert_eq!(stretch.counts, [3; 10]);
        let at = |question: usize, part: usize| (&raw const table.0[part][8 * question + 4]).addr() / LINE;
        let wanted: Vec<usize> = (0..10).flat_map(|n| (0..3).map(move |part| at(n, part))).collect();
        let told: Vec<usize> =
            stretch.places.iter().map(|&place| stretch.word(place).as_ptr().addr() / LINE).collect();
        assert_eq!(told, wanted);
        let parts = |batch, threads| -> Vec<(usize, Vec<usize>)> {
            let parts = replay.parts(batch, threads).into_iter().flatten();
            parts.map(|(_, first, ends)| (first, ends)).collect()
        };
        assert_eq!(parts(4, 1), [(0, vec![12, 24, 30])]);
        assert_eq!(parts(4, 2), [(0, vec![12, 15]), (15, vec![27, 30])]);
        assert_eq!(replay.parts(1, 10).len(), 10);
    }

    #[test]
    fn lines_far_apart_are_in_stretches_of_their_own() {
        let (memory, mut blocks) = (vec![0_u64; 1 << 10], Vec::new());
        let near = memory.as_ptr().cast::<u8>();
        // Told and never read.
        let told = [0, 640, 1 << 40, (1 << 40) + 64, 64, (1 << 40) + 128].map(|far| near.wrapping_add(far));
        let tell = |_: &[u64], tell: &mut dyn FnMut(usize, *const u8)| {
            told.iter().enumerate().for_each(|(place, &at)| tell(place / 2, at));
        };
        let replay = Replay::told(&memory[..], 3, tell).unwrap();
        for stretch in &replay.stretches {
            blocks.push((stretch.places.clone(), stretch.counts.clone()));
        }
        assert_eq!(blocks, [(vec![0, 80, 8], vec![2, 0, 1]), (vec![0, 8, 16], vec![0, 2, 1])]);
        let many = |_: &[u64], tell: &mut dyn FnMut(usize, *const u8)| {
            (0..=STRETCHES).for_each(|n| tell(0, near.wrapping_add(n << 40)));
        };
        assert!(Replay::told(&memory[..], 1, many).is_none());
        assert!(Replay::told(&memory[..], 1, |_, _| ()).is_none());
    }

    #[test]
    fn all_of_ours_tell_what_they_read() {
        let set = KeySet::new(3000, 2);
        for structure in [Structure::SetSep, Structure::Othello, Structure::FullCopy, Structure::Cuckoo] {
            let table = structure.prepare(&set, Make::table()).unwrap().build().unwrap();
            let forms = Forms::of(&set, [table.form()]);
            let replay = Replay::of(&*table, forms.questions(&set)).unwrap();
            let lines = |question: usize| replay.stretches.iter().map(|of| of.counts[question]).sum::<u8>();
            assert!((0..3000).all(|question| (2..=6).contains(&lines(question))), "{}", structure.name());
            for (batch, threads) in [(1, 1), (64, 2), (5000, 3)] {
                assert!(replay.rate(2, batch, threads).unwrap() > 0.0, "{}", structure.name());
            }
        }
        let other = Structure::HashBrown.prepare(&set, Make::table()).unwrap().build().unwrap();
        assert!(Replay::of(&*other, Forms::default().questions(&set)).is_none());
    }

    /// Runs a benchmark with few keys; its rows.
    fn rows_of(name: &str) -> Vec<Row> {
        let bench = ALL.into_iter().find(|bench| bench.name() == name).unwrap();
        let keys = 3000;
        let options = Options { keys: Some(vec![keys]), runs: Some(3), quick: true, ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new(bench.name(), &options, &console, &interrupt);
        bench.run(&mut session).unwrap();
        session.finish().0
    }

    #[test]
    fn lookups_of_ours_have_a_share_of_a_limit() {
        for (bench, ours) in [
            ("setsep-lookup", &["setsep", "othello", "full-copy", "cuckoo"][..]),
            ("fib", &["cuckoo"]),
            ("choice", &["setsep", "othello", "full-copy"]),
        ] {
            let rows = rows_of(bench);
            let is_limit = |row: &Row| row.subject.variant.as_deref().is_some_and(|v| v.ends_with(LIMIT));
            let half = |row: &Row| row.subject.variant.as_deref() == Some("half-moved");
            let lookups = rows.iter().filter(|row| {
                row.metric == Metric::LookupRate && ours.contains(&row.subject.structure.as_str())
            });
            let (limits, lookups): (Vec<&Row>, Vec<&Row>) = lookups.partition(|row| is_limit(row));
            assert!(limits.len() >= ours.len(), "{bench}");
            for row in lookups.into_iter().filter(|row| !half(row)) {
                let share = |of: &&Row| of.metric == Metric::ShareOfLimit && of.subject == row.subject;
                let share = rows.iter().find(share).unwrap();
                assert!(share.min > 0.0 && share.max.is_finite() && share.runs == row.runs);
                let same = |of: &&&Row| {
                    let as_many =
                        (of.subject.batch, of.subject.threads) == (row.subject.batch, row.subject.threads);
                    as_many
                        && of.subject.structure == row.subject.structure
                        && of.subject.format == row.subject.format
                };
                assert!(limits.iter().any(|limit| same(&limit)), "{:?}", row.subject);
            }
        }
    }
}
