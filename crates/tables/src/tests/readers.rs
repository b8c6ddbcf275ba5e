//! Readers beside a writer: every answer is the key's value before or after the change under way.

use crate::isa::Isa;
use scalebricks_types::KeyHash;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Rounds through all keys that each reader makes at least.
const LEAST_ROUNDS: u64 = 3;

/// Keys that readers ask for, and the values each may have.
#[derive(Debug)]
pub(crate) struct WatchedKeys {
    hashes: Vec<KeyHash>,
    /// The value before and the value after, of 16 bits each; above them, how many steps there were.
    allowed: Vec<AtomicU64>,
}

impl WatchedKeys {
    pub(crate) fn new<V: Copy + Into<u16>>(entries: &[(KeyHash, V)]) -> Self {
        let allowed = entries.iter().map(|entry| AtomicU64::new(u64::from(entry.1.into()) * 0x1_0001));
        Self { hashes: entries.iter().map(|entry| entry.0).collect(), allowed: allowed.collect() }
    }

    /// The value of a key when no change is under way.
    pub(crate) fn value(&self, at: usize) -> u16 {
        self.allowed[at].load(Ordering::SeqCst) as u16
    }

    /// Gives a key another value by `apply`, in two steps: "old or new", and then "new".
    pub(crate) fn change(&self, at: usize, new: u16, apply: impl FnOnce()) {
        let (was, new) = (self.allowed[at].load(Ordering::SeqCst), u64::from(new));
        let (steps, old) = (was >> 32, was & 0xFFFF);
        self.allowed[at].store((steps + 1) << 32 | new << 16 | old, Ordering::SeqCst);
        apply();
        self.allowed[at].store((steps + 2) << 32 | new << 16 | new, Ordering::SeqCst);
    }

    /// Whether a key may have had this value at some time since `before` was allowed. More than two steps may have passed
    /// through values that neither end names.
    fn is_legal(&self, at: usize, before: u64, value: u16) -> bool {
        let after = self.allowed[at].load(Ordering::SeqCst);
        let legal = [before, before >> 16, after, after >> 16];
        (after >> 32) - (before >> 32) > 2 || legal.iter().any(|&legal| legal as u16 == value)
    }

    /// Looks all keys up, so many at a time, until told to stop; gives the keys that had a wrong value.
    fn read<V: Copy + Default + Into<u16>>(
        &self,
        mut lookup: impl FnMut(&[KeyHash], &mut [V]),
        together: usize,
        stop: &AtomicBool,
        rounds: &AtomicU64,
    ) -> Vec<(usize, u16)> {
        let (mut wrong, mut before) = (Vec::new(), vec![0; self.hashes.len()]);
        let mut values = vec![V::default(); self.hashes.len()];
        while !stop.load(Ordering::Relaxed) {
            before.iter_mut().zip(&self.allowed).for_each(|(b, a)| *b = a.load(Ordering::SeqCst));
            for (hashes, values) in self.hashes.chunks(together).zip(values.chunks_mut(together)) {
                lookup(hashes, values);
            }
            let asked = values.iter().zip(&before).enumerate();
            let answers = asked.map(|(at, (&value, &before))| (at, before, value.into()));
            wrong.extend(
                answers
                    .filter(|&(at, before, value)| !self.is_legal(at, before, value))
                    .map(|(at, _, v)| (at, v)),
            );
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        wrong
    }
}

/// Tells readers to stop, also when the writer has failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `write` beside two readers, one of which asks for all keys at once and the other for a few at a time. The line that
/// it prints is what a run under a sanitizer counts.
pub(crate) fn check_beside<V: Copy + Default + Into<u16>, R: FnMut(&[KeyHash], &mut [V])>(
    watched: &WatchedKeys,
    what: &str,
    isa: Isa,
    reader: impl Fn() -> R + Sync,
    write: impl FnOnce(),
) {
    println!("beside readers: {what} on {isa}");
    let (stop, rounds, wrong) =
        (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2], Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let stop_on_drop = Stop(&stop);
        let threads = rounds.each_ref().map(|counted| {
            let is_first = std::ptr::eq(counted, &raw const rounds[0]);
            let together = if is_first { watched.hashes.len() } else { 37 };
            let (reader, stop, wrong) = (&reader, &stop, &wrong);
            scope.spawn(move || {
                let found = watched.read(reader(), together, stop, counted);
                wrong.lock().unwrap().extend(found);
            })
        });
        write();
        // On few cores the readers may not have run yet.
        let is_behind = || rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) < LEAST_ROUNDS);
        while is_behind() && !threads.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::yield_now();
        }
        drop(stop_on_drop);
    });
    assert_eq!(wrong.into_inner().unwrap(), [], "{what} on {isa}");
}
