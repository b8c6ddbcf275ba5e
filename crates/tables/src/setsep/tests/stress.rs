//! Readers beside a writer: every answer is the key's value before or after the update under way.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Keys that stay, with the two values each may have while an update is under way; and keys that come and go to
/// force buckets to move and groups into the fallback.
fn churn(value_bits: u8, rounds: u64) {
    let stay = 1000;
    let params = params(1024, value_bits, 1);
    let kept = entries(stay, value_bits, 0);
    let mut control = SetSepBuilder::new(params).build(&kept).unwrap();
    let table = Arc::new(control.export());
    // Low half the value before, high half after; the writer widens before an apply and narrows after it.
    let allowed: Vec<AtomicU64> =
        kept.iter().map(|e| AtomicU64::new(u64::from(e.1) << 8 | u64::from(e.1))).collect();
    let (stop, looked_up) = (AtomicBool::new(false), AtomicU64::new(0));
    let wrong = Mutex::new(Vec::new());
    let (mut fallback_seen, mut emptied) = (0, 0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = SetSepReader::new(Arc::clone(&table));
                let hashes: Vec<KeyHash> = kept.iter().map(|e| e.0).collect();
                let (mut values, mut before) = (vec![0; hashes.len()], vec![0; hashes.len()]);
                while !stop.load(Ordering::Relaxed) {
                    before.iter_mut().zip(&allowed).for_each(|(b, a)| *b = a.load(Ordering::SeqCst));
                    reader.lookup_batch(&hashes, &mut values);
                    for (at, &value) in values.iter().enumerate() {
                        let after = allowed[at].load(Ordering::SeqCst);
                        // Legal is what was legal at some time during the lookup. Values change by one step at a
                        // time, so unless more than one step happened both ends name all of them.
                        let steps = (after >> 16).wrapping_sub(before[at] >> 16);
                        let legal = [before[at], before[at] >> 8, after, after >> 8];
                        if steps <= 2 && !legal.iter().any(|&legal| legal as u8 == value) {
                            wrong.lock().unwrap().push((at, value));
                        }
                    }
                    looked_up.fetch_add(values.len() as u64, Ordering::Relaxed);
                }
            });
        }
        let mut current: Vec<u8> = kept.iter().map(|e| e.1).collect();
        let mask = u8::MAX >> (8 - value_bits);
        for round in 0..rounds {
            let at = (mix64(round) % stay) as usize;
            let (old, new) = (current[at], (current[at] ^ (mix64(!round) as u8 | 1)) & mask);
            // Two steps an update: 1 "old or new", 2 "new". The step count is in the upper bits.
            let step = allowed[at].load(Ordering::SeqCst) >> 16;
            allowed[at].store((step + 1) << 16 | u64::from(new) << 8 | u64::from(old), Ordering::SeqCst);
            let delta = control.update(kept[at].0, new).unwrap();
            let _ = table.apply(&delta).unwrap();
            allowed[at].store((step + 2) << 16 | u64::from(new) << 8 | u64::from(new), Ordering::SeqCst);
            current[at] = new;
            // 30 keys crowd into the bucket of one that stays, then leave: moves, fallback entry, fallback exit.
            let crowd = |i: u64| KeyHash::new(kept[(round / 8 * 5 % stay) as usize].0.get() ^ (i + 1) << 8);
            let value = |i: u64| mix64(i ^ (round / 8)) as u8 & mask;
            let ops: Vec<Op> = match round % 8 {
                1 => (0..6).map(|i| Op::Insert(crowd(i), value(i))).collect(),
                3 => (6..30).map(|i| Op::Insert(crowd(i), value(i))).collect(),
                5 => (0..30).map(|i| Op::Remove(crowd(i))).collect(),
                _ => continue,
            };
            for delta in control.batch(&ops).unwrap() {
                let _ = table.apply(&delta).unwrap();
            }
            let fallback = table.stats().fallback_keys;
            fallback_seen += u64::from(fallback > 0);
            emptied += u64::from(fallback == 0 && round % 8 == 5);
        }
        // On few cores the readers may not have run yet.
        while looked_up.load(Ordering::Relaxed) < 10 * stay {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.into_inner().unwrap(), []);
    let moves = control.stats().moves;
    assert!(moves.single > 0 && moves.double + moves.rebalanced > 0, "{moves:?}");
    assert!(fallback_seen > 0 && emptied > 0, "{fallback_seen} entries, {emptied} exits");
    let held: Vec<_> = control.iter().collect();
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_of_two_bit_values_see_before_or_after() {
    churn(2, 1600);
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_of_eight_bit_values_see_before_or_after() {
    churn(8, 1600);
}

/// A reader that stays pinned holds back the memory it may see, and only that: updates go on until the spare slots
/// are used up, and then wait for it.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_stalled_reader_still_sees_its_version() {
    let entries = entries(200, 4, 0);
    let mut control = SetSepBuilder::new(params(200, 4, 1)).build(&entries).unwrap();
    let table = Arc::new(control.export());
    let applied = AtomicU64::new(0);
    let mut reader = SetSepReader::new(Arc::clone(&table));
    thread::scope(|scope| {
        let pin = reader.pin();
        let before: Vec<u8> = entries.iter().map(|e| pin.get(e.0)).collect();
        scope.spawn(|| {
            for round in 0..80_u8 {
                let at = usize::from(round) * 2;
                let delta = control.update(entries[at].0, entries[at].1 ^ 1).unwrap();
                let _ = table.apply(&delta).unwrap();
                applied.fetch_add(1, Ordering::SeqCst);
            }
        });
        while applied.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        for (entry, &value) in entries.iter().zip(&before) {
            let now = pin.get(entry.0);
            assert!(now == value || now == value ^ 1);
        }
        assert!(applied.load(Ordering::SeqCst) < 80, "the writer passed a pinned reader");
        drop(pin);
    });
    assert_eq!(applied.into_inner(), 80);
}
