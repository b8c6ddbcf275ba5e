//! Rates of the cuckoo table beside the standard library's map, in one run: `cargo run --release --example fib_rates
//! [thousands of keys] [runs]`. Medians, with the lowest and the highest run behind them.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints rates")]

use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibError, FibValue, KeyBatch};
use scalebricks_types::{FlowKey, HashSeed, KeyHash, KeyHasher};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The map is given the hash that the table is given: both hash at the edge.
#[derive(Default)]
struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed")
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
struct Hashed([u64; 2], KeyHash);

impl std::hash::Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1.get());
    }
}

/// Words without pattern, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Runs `work`, which says how many things it did; millions a second.
fn rate(work: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    let done = black_box(work());
    done as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn report(name: &str, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    let (median, low, high) = (rates[rates.len() / 2], rates[0], rates[rates.len() - 1]);
    println!("{name:<46} {median:8.1} M/s  ({low:.1} to {high:.1})");
}

fn main() -> Result<(), FibError> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().unwrap_or(1));
    let keys: usize = args.next().unwrap_or(1000) * 1000;
    let runs = args.next().unwrap_or(7);
    let hasher = KeyHasher::new(HashSeed::from_u64(1));
    let mut random = Random(1);
    let made: Vec<FlowKey> = (0..keys)
        .map(|_| {
            let (addresses, ports) = (random.next(), random.next());
            let (src, dst) = (addresses as u32, (addresses >> 32) as u32);
            FlowKey::five_tuple_v4(src.into(), dst.into(), 17, ports as u16, (ports >> 16) as u16)
        })
        .collect();
    let words: Vec<[u64; 2]> = made.iter().map(words).collect();
    let hashes: Vec<KeyHash> = made.iter().map(|key| hasher.hash(key)).collect();
    println!("{keys} keys of 16 bytes, values of 16, load 0.95, {runs} runs");

    insert_rates(&words, &hashes, hasher, runs);
    let slots = keys * 100 / 95;
    let table = CuckooTable::<2, 2>::new(slots, 1, hasher);
    let fib = PartialFib::new(FibConfig::new(hasher).short_keys(keys));
    let mut map = HashMap::with_capacity_and_hasher(keys, BuildHasherDefault::<Given>::default());
    for ((key, &hash), flow) in words.iter().zip(&hashes).zip(&made) {
        table.insert(key, hash, &[hash.get(), 1])?;
        fib.insert(flow, hash, [hash.get(), 1])?;
        map.insert(Hashed(*key, hash), [hash.get(), 1]);
    }
    let mut order: Vec<usize> = (0..keys).collect();
    for i in (1..keys).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let flows: Vec<FlowKey> = order.iter().map(|&i| made[i]).collect();
    let words: Vec<[u64; 2]> = order.iter().map(|&i| words[i]).collect();
    let hashes: Vec<KeyHash> = order.iter().map(|&i| hashes[i]).collect();
    println!("bytes/key: table {:.1}", table.table_bytes() as f64 / keys as f64);

    let all = |batch: usize| {
        move |table: &CuckooTable<2, 2>, words: &[[u64; 2]], hashes: &[KeyHash]| {
            let mut values = vec![None; batch];
            let mut found = 0;
            for (words, hashes) in words.chunks(batch).zip(hashes.chunks(batch)) {
                let values = &mut values[..words.len()];
                table.get_batch(words, hashes, values);
                found += values.iter().flatten().count();
            }
            found
        }
    };
    let (mut by_32, mut by_64, mut single, mut of_fib, mut of_map) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut missing, mut beside) = (vec![], vec![]);
    let absent: Vec<[u64; 2]> = words.iter().map(|key| [key[0], !key[1]]).collect();
    let absent_hashes: Vec<KeyHash> = hashes.iter().map(|hash| KeyHash::new(!hash.get())).collect();
    for _ in 0..runs {
        by_32.push(rate(|| all(32)(&table, &words, &hashes)));
        by_64.push(rate(|| all(64)(&table, &words, &hashes)));
        missing.push(rate(|| all(32)(&table, &absent, &absent_hashes) + keys));
        single.push(rate(|| {
            words.iter().zip(&hashes).filter(|(key, hash)| table.get(key, **hash).is_some()).count()
        }));
        of_fib.push(rate(|| {
            let mut values: [Option<FibValue>; 32] = [None; 32];
            let mut found = 0;
            for (flows, hashes) in flows.chunks(32).zip(hashes.chunks(32)) {
                fib.lookup_batch(KeyBatch::new(flows, hashes), &mut values);
                found += values[..flows.len()].iter().flatten().count();
            }
            found
        }));
        of_map.push(rate(|| {
            words
                .iter()
                .zip(&hashes)
                .filter(|(key, hash)| map.get(&Hashed(**key, **hash)).is_some_and(|v| v[1] == 1))
                .count()
        }));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = 0;
                while !stop.load(Ordering::Relaxed) {
                    let _ = table.update(&words[writer % keys], hashes[writer % keys], &[writer as u64, 1]);
                    writer += 1;
                }
            });
            beside.push(rate(|| all(32)(&table, &words, &hashes)));
            stop.store(true, Ordering::Relaxed);
        });
    }
    report("lookup, batches of 32", by_32);
    report("lookup, batches of 64", by_64);
    report("lookup, batches of 32, none there", missing);
    report("lookup, batches of 32, beside a busy writer", beside);
    report("lookup, one by one", single);
    report("lookup through the FIB, batches of 32", of_fib);
    report("lookup, std HashMap with the hash given", of_map);
    Ok(())
}

fn words(key: &FlowKey) -> [u64; 2] {
    match key {
        FlowKey::Short(key) => *key.words(),
        FlowKey::Long(_) => unreachable!("all keys are made short"),
    }
}

fn insert_rates(words: &[[u64; 2]], hashes: &[KeyHash], hasher: KeyHasher, runs: usize) {
    let keys = words.len();
    let slots = keys * 100 / 95;
    let cut = slots * 3 / 4;
    let (mut to_75, mut to_95, mut in_one, mut of_map) = (vec![], vec![], vec![], vec![]);
    for _ in 0..runs {
        let table = CuckooTable::<2, 2>::new(slots, 1, hasher);
        let insert = |from: usize, to: usize| {
            for (key, &hash) in words[from..to].iter().zip(&hashes[from..to]) {
                table.insert(key, hash, &[1, 2])?;
            }
            Ok::<_, FibError>(to - from)
        };
        to_75.push(rate(|| insert(0, cut).unwrap_or(0)));
        to_95.push(rate(|| insert(cut, keys).unwrap_or(0)));
        assert_eq!(table.len(), keys);
        let table = CuckooTable::<2, 2>::new(slots, 1, hasher);
        in_one.push(rate(|| {
            let mut writer = table.write();
            for (i, (key, &hash)) in words.iter().zip(hashes).enumerate() {
                if let Some(&ahead) = hashes.get(i + 8) {
                    writer.prefetch(ahead);
                }
                if writer.insert(key, hash, &[1, 2]).is_err() {
                    return i;
                }
            }
            keys
        }));
        assert_eq!(table.len(), keys);
        let mut map = HashMap::with_capacity_and_hasher(keys, BuildHasherDefault::<Given>::default());
        of_map.push(rate(|| {
            for (&key, &hash) in words.iter().zip(hashes) {
                map.insert(Hashed(key, hash), [1u64, 2]);
            }
            map.len()
        }));
        black_box(map.hasher().build_hasher().finish());
    }
    report("insert, load 0 to 0.75", to_75);
    report("insert, load 0.75 to 0.95", to_95);
    report("insert, load 0 to 0.95, asked 8 keys ahead", in_one);
    report("insert, std HashMap of known size", of_map);
}
