//! The protocol with plain memory, which tools watch: a read concurrent with a write of it is a data race.
#![allow(unsafe_code)]

use super::epoch::Epochs;
use super::retired::Retired;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const ROUNDS: u64 = if cfg!(miri) { 60 } else { 100_000 };
const SLOTS: usize = 3;

/// Slots of plain words, and the index of the slot that readers use.
struct Plain {
    index: AtomicUsize,
    slots: [UnsafeCell<[u64; 8]>; SLOTS],
    epochs: Epochs,
}

// SAFETY: a slot is written while no index leads to it and no reader is in it. This is what the test checks.
unsafe impl Sync for Plain {}

impl Plain {
    /// Reads versions until stopped; each is complete, and none is older than the previous one.
    fn read(&self, pins: bool, stop: &AtomicBool) -> u64 {
        let (cell, mut last, mut rounds) = (self.epochs.register(), 0, 0);
        while rounds < 10 || !stop.load(Ordering::Relaxed) {
            if pins {
                self.epochs.pin(&cell);
            }
            let slot = self.index.load(Ordering::Acquire);
            // SAFETY: no thread writes it while this reader is pinned.
            let words = unsafe { *self.slots[slot].get() };
            cell.unpin();
            assert!(!pins || words == [words[0]; 8] && words[0] >= last, "{words:?} after {last}");
            (last, rounds) = (words[0], rounds + 1);
        }
        rounds
    }

    fn write(&self) {
        let (mut free, mut retired) = ((1..SLOTS).collect::<Vec<_>>(), Retired::new());
        for version in 1..=ROUNDS {
            let slot = loop {
                match free.pop() {
                    Some(slot) => break slot,
                    None if retired.reclaim(&self.epochs, |slot| free.push(slot)) => {}
                    None => thread::yield_now(),
                }
            };
            // SAFETY: no reader can see it.
            unsafe { *self.slots[slot].get() = [version; 8] };
            let old = self.index.load(Ordering::Relaxed);
            self.index.store(slot, Ordering::Release);
            retired.push(self.epochs.retire(), old);
        }
    }
}

fn beside_readers(pin: bool) {
    println!("beside readers: reclaim");
    let plain = Plain {
        index: AtomicUsize::new(0),
        slots: [const { UnsafeCell::new([0; 8]) }; SLOTS],
        epochs: Epochs::new(),
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| plain.read(pin, &stop)));
        plain.write();
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

#[test]
fn readers_of_plain_memory_see_whole_versions_in_order() {
    beside_readers(true);
}

/// A deliberate data race, which ThreadSanitizer must find: scripts/test.sh runs this test by name.
#[cfg(tsan)]
#[cfg_attr(tsan, test)]
fn planted_race_of_readers_without_a_pin() {
    beside_readers(false);
}
