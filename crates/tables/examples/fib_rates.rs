//! Rates of the cuckoo table beside the standard library's map (hashbrown), in one run, the contestants taking turns:
//! `cargo run --release -p scalebricks-tables --example fib_rates -- [thousands of keys] [runs] [lookup|insert|grow]...`.
//! Medians, and behind them the lowest, the first and the last decile, and the highest. Lookups are timed in pieces of
//! 32,768 keys, everything else in runs.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints rates")]

use scalebricks_tables::cuckoo::CuckooTable;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::{Fib, FibValue, KeyBatch};
use scalebricks_types::{FlowKey, HashSeed, KeyHash, KeyHasher};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Table = CuckooTable<2, 2>;
type Map = HashMap<Hashed, FibValue, BuildHasherDefault<Given>>;
type Refused = Box<dyn std::error::Error>;

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

#[derive(Clone, Copy)]
struct Hashed([u64; 2], KeyHash);

/// Keys alone, as the table compares: the hash has chosen the place already.
impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Hashed {}

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

/// Keys with their hashes and values, in the order of insertion.
struct Keys {
    hasher: KeyHasher,
    flows: Vec<FlowKey>,
    words: Vec<[u64; 2]>,
    hashes: Vec<KeyHash>,
    values: Vec<FibValue>,
}

impl Keys {
    fn new(keys: usize) -> Self {
        let hasher = KeyHasher::new(HashSeed::from_u64(1));
        let mut random = Random(1);
        let made = (0..keys).map(|_| {
            let (addresses, ports) = (random.next(), random.next());
            let (src, dst) = (addresses as u32, (addresses >> 32) as u32);
            FlowKey::five_tuple_v4(src.into(), dst.into(), 17, ports as u16, (ports >> 16) as u16)
        });
        Self::of(hasher, made.collect())
    }

    fn of(hasher: KeyHasher, flows: Vec<FlowKey>) -> Self {
        let words = flows.iter().map(words).collect();
        let hashes: Vec<KeyHash> = flows.iter().map(|key| hasher.hash(key)).collect();
        let values = hashes.iter().map(|hash| [hash.get(), 1]).collect();
        Self { hasher, flows, words, hashes, values }
    }

    fn len(&self) -> usize {
        self.words.len()
    }

    fn shuffled(&self) -> Self {
        let mut flows = self.flows.clone();
        let mut random = Random(2);
        for i in (1..flows.len()).rev() {
            flows.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        Self::of(self.hasher, flows)
    }

    /// A table of fixed size that they fill to 95 %.
    fn table(&self) -> Table {
        Table::new(self.len() * 100 / 95, 1, self.hasher)
    }
}

fn words(key: &FlowKey) -> [u64; 2] {
    match key {
        FlowKey::Short(key) => *key.words(),
        FlowKey::Long(_) => unreachable!("all keys are made short"),
    }
}

/// Measurements by name, in the order of their first appearance.
#[derive(Default)]
struct Rates(Vec<(String, Vec<f64>)>);

impl Rates {
    fn add(&mut self, name: &str, measured: f64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, all)) => all.push(measured),
            None => self.0.push((name.to_owned(), vec![measured])),
        }
    }

    /// Millions a second of what `work` did, as it says.
    fn rate(&mut self, name: &str, work: impl FnOnce() -> usize) {
        let start = Instant::now();
        let done = black_box(work());
        self.add(name, done as f64 / start.elapsed().as_secs_f64() / 1e6);
    }

    fn report(self) {
        for (name, mut all) in self.0 {
            all.sort_by(f64::total_cmp);
            let at = |percent: usize| all[(all.len() - 1) * percent / 100];
            println!("{name:<50} {:8.1}  ({:.1} {:.1} {:.1} {:.1})", at(50), at(0), at(10), at(90), at(100));
        }
    }
}

/// Looks all keys up in batches of this many; how many were there.
fn look_up(table: &Table, words: &[[u64; 2]], hashes: &[KeyHash], batch: usize) -> usize {
    let mut values = vec![None; batch];
    let mut found = 0;
    for (words, hashes) in words.chunks(batch).zip(hashes.chunks(batch)) {
        let values = &mut values[..words.len()];
        table.get_batch(words, hashes, values);
        found += values.iter().flatten().count();
    }
    found
}

/// Keys looked up between two looks at the clock: a millisecond, so that on a shared machine the median piece is one that
/// nobody interrupted.
const PIECE: usize = 1 << 15;

impl Rates {
    /// Millions a second of each piece of all keys, by `work` on its range, which says how many keys it found.
    fn pieces(&mut self, name: &str, keys: usize, mut work: impl FnMut(std::ops::Range<usize>) -> usize) {
        for piece in (0..keys / PIECE).map(|i| i * PIECE..(i + 1) * PIECE) {
            self.rate(name, || work(piece));
        }
    }
}

fn lookups(keys: &Keys, runs: usize) -> Result<(), Refused> {
    let table = keys.table();
    table.write().insert_all(&keys.words, &keys.hashes, &keys.values)?;
    let mut map = Map::with_capacity_and_hasher(keys.len(), BuildHasherDefault::default());
    map.extend(keys.words.iter().zip(&keys.hashes).map(|(&key, &hash)| (Hashed(key, hash), [hash.get(), 1])));
    println!("bytes a key: {:.1}", table.table_bytes() as f64 / keys.len() as f64);
    let fib = PartialFib::new(FibConfig::new(keys.hasher).short_keys(keys.len()));
    for (flow, &hash) in keys.flows.iter().zip(&keys.hashes) {
        fib.insert(flow, hash, [hash.get(), 1])?;
    }
    let keys = keys.shuffled();
    let n = keys.len();
    let absent: Vec<[u64; 2]> = keys.words.iter().map(|key| [key[0], !key[1]]).collect();
    let absent_hashes: Vec<KeyHash> = keys.hashes.iter().map(|hash| KeyHash::new(!hash.get())).collect();
    let mut rates = Rates::default();
    for _ in 0..runs {
        for batch in [32, 64, 256] {
            rates.pieces(&format!("lookup, batches of {batch}"), n, |piece| {
                look_up(&table, &keys.words[piece.clone()], &keys.hashes[piece], batch)
            });
        }
        rates.pieces("lookup, std HashMap, the hash given", n, |piece| {
            let all = keys.words[piece.clone()].iter().zip(&keys.hashes[piece]);
            all.filter(|(key, hash)| map.get(&Hashed(**key, **hash)).is_some_and(|v| v[1] == 1)).count()
        });
        rates.pieces("lookup, batches of 32, none there", n, |piece| {
            let n = piece.len();
            look_up(&table, &absent[piece.clone()], &absent_hashes[piece], 32) + n
        });
        rates.pieces("lookup through the FIB, batches of 32", n, |piece| {
            let mut values: [Option<FibValue>; 32] = [None; 32];
            let mut found = 0;
            for (flows, hashes) in keys.flows[piece.clone()].chunks(32).zip(keys.hashes[piece].chunks(32)) {
                fib.lookup_batch(KeyBatch::new(flows, hashes), &mut values);
                found += values[..flows.len()].iter().flatten().count();
            }
            found
        });
        rates.pieces("lookup, one by one", n.min(PIECE * 8), |piece| {
            let all = keys.words[piece.clone()].iter().zip(&keys.hashes[piece]);
            all.filter(|(key, hash)| table.get(key, **hash).is_some()).count()
        });
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let all = keys.words.iter().zip(&keys.hashes).cycle();
                for (key, &hash) in all.take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let _ = table.update(key, hash, &[hash.get(), 1]);
                }
            });
            rates.pieces("lookup, batches of 32, beside a busy writer", n, |piece| {
                look_up(&table, &keys.words[piece.clone()], &keys.hashes[piece], 32)
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    rates.report();
    Ok(())
}

fn inserts(keys: &Keys, runs: usize) -> Result<(), Refused> {
    let mut rates = Rates::default();
    let cut = keys.len() * 75 / 95;
    for _ in 0..runs {
        let table = keys.table();
        for (name, range) in
            [("insert_all, load 0 to 0.75", 0..cut), ("insert_all, load 0.75 to 0.95", cut..keys.len())]
        {
            let start = Instant::now();
            let (words, hashes) = (&keys.words[range.clone()], &keys.hashes[range.clone()]);
            table.write().insert_all(words, hashes, &keys.values[range.clone()])?;
            rates.add(name, range.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
        drop(table);
        let mut map = Map::with_capacity_and_hasher(keys.len(), BuildHasherDefault::default());
        rates.rate("insert, std HashMap of known size", || {
            for ((&key, &hash), &value) in keys.words.iter().zip(&keys.hashes).zip(&keys.values) {
                map.insert(Hashed(key, hash), value);
            }
            map.len()
        });
        drop(map);
        let table = keys.table();
        let start = Instant::now();
        for ((key, &hash), value) in keys.words.iter().zip(&keys.hashes).zip(&keys.values) {
            table.insert(key, hash, value)?;
        }
        rates.add(
            "insert, one call each, load 0 to 0.95",
            keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6,
        );
    }
    rates.report();
    Ok(())
}

/// From empty to all keys, one at a time, and then by half again in steps with lookups between.
fn growth(keys: &Keys, runs: usize) -> Result<(), Refused> {
    let mut rates = Rates::default();
    let shuffled = keys.shuffled();
    for _ in 0..runs {
        let table = Table::new(0, 1, keys.hasher);
        let (mut slowest, mut slowest_begin) = (Duration::ZERO, Duration::ZERO);
        let start = Instant::now();
        for ((key, &hash), value) in keys.words.iter().zip(&keys.hashes).zip(&keys.values) {
            let mut writer = table.write();
            let growing = writer.is_growing();
            let at = Instant::now();
            writer.insert_growing(key, hash, value)?;
            let took = at.elapsed();
            let begun = !growing && writer.is_growing();
            let most = if begun { &mut slowest_begin } else { &mut slowest };
            *most = took.max(*most);
        }
        rates.add(
            "from empty, growing, one by one, each one timed",
            keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6,
        );
        rates.add("slowest insert, us", slowest.as_secs_f64() * 1e6);
        rates.add("slowest insert that allocates, us", slowest_begin.as_secs_f64() * 1e6);
        drop(table);
        let table = Table::new(0, 1, keys.hasher);
        let start = Instant::now();
        table.write().insert_all_growing(&keys.words, &keys.hashes, &keys.values)?;
        rates.add(
            "from empty, growing, insert_all_growing",
            keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6,
        );
        drop(table);

        let table = keys.table();
        let start = Instant::now();
        table.write().insert_all(&keys.words, &keys.hashes, &keys.values)?;
        rates.add(
            "fresh, insert_all, load 0 to 0.95",
            keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6,
        );
        let mut writer = table.write();
        let half = table.slots() / 8;
        let start = Instant::now();
        writer.grow_begin(table.slots() * 3 / 2)?;
        rates.add("grow_begin, us", start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        writer.grow_step(half)?;
        rates.add("keys moved by growth", keys.len() as f64 / 2.0 / start.elapsed().as_secs_f64() / 1e6);
        rates.rate("lookup while it grows, half moved, batches of 32", || {
            look_up(&table, &shuffled.words, &shuffled.hashes, 32)
        });
        writer.grow_step(half + 1)?;
        rates.rate("lookup after growth, batches of 32", || {
            look_up(&table, &shuffled.words, &shuffled.hashes, 32)
        });
    }
    rates.report();
    Ok(())
}

fn main() -> Result<(), Refused> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let keys = Keys::new(numbers.first().unwrap_or(&1000) * 1000);
    let runs = *numbers.get(1).unwrap_or(&5);
    let asked = |what: &str| args.len() <= numbers.len() || args.iter().any(|arg| arg == what);
    println!(
        "{} keys of 16 bytes, values of 16, load 0.95, {runs} runs; M/s unless said otherwise",
        keys.len()
    );
    if asked("lookup") {
        lookups(&keys, runs)?;
    }
    if asked("insert") {
        inserts(&keys, runs)?;
    }
    if asked("grow") {
        growth(&keys, runs)?;
    }
    Ok(())
}
