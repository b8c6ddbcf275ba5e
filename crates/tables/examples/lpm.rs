//! Longest-prefix match on tables like those of BGP, beside a trie of another crate: lookups by batch size, load, updates, memory.
//!
//! `cargo run --release --example lpm [IPV4 [IPV6]]`. A file has a prefix at the start of each line. Without one, prefixes are
//! made: 1,000,000 of IPv4 with the lengths of the full table of 2014-05-13 (512,621 prefixes), and 200,000 of IPv6 with those of
//! the full table of 2015-11-01 (27,693 prefixes). Every answer is compared with the trie's before anything is timed.
//!
//! One line a measurement, `RESULT key=value …`: the least and the median of several runs.
//!
//! `scripts/instructions lpm` counts instructions in place of time: `lpm --count ipv4|ipv6 ROOT_BITS PREFIXES BATCH ISA` looks every
//! destination up once, in a table of made prefixes with two-byte entries if they suffice, and times nothing.

use prefix_trie::PrefixMap;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::lpm::{Address, EntryBytes, Lpm, LpmReader, NextHop, Params, Prefix};
use scalebricks_types::mix::SplitMix64;
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 7;
/// Destinations that lookups go through, in an order without pattern.
const DESTINATIONS: usize = 64 * 1024;
const LOOKUPS: usize = 4 << 20;
const NEXT_HOPS: u32 = 256;

/// Prefixes of each length in 10,000.
const LENGTHS_V4: &[(u8, u32)] = &[
    (24, 5267),
    (22, 1127),
    (23, 924),
    (21, 734),
    (20, 699),
    (19, 486),
    (16, 254),
    (18, 232),
    (17, 138),
    (15, 34),
    (26, 21),
    (14, 19),
    (25, 18),
    (27, 10),
    (13, 10),
    (30, 6),
    (29, 6),
    (12, 5),
    (32, 3),
    (28, 3),
    (11, 2),
    (8, 1),
];
const LENGTHS_V6: &[(u8, u32)] = &[
    (48, 4385),
    (32, 2622),
    (40, 441),
    (44, 406),
    (36, 363),
    (29, 310),
    (64, 279),
    (46, 137),
    (33, 113),
    (126, 97),
    (35, 91),
    (34, 77),
    (38, 73),
    (42, 72),
    (47, 69),
    (41, 68),
    (56, 65),
    (43, 54),
    (45, 43),
    (28, 25),
    (128, 15),
    (24, 7),
];

struct Random(SplitMix64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() as usize) % n
    }
}

/// What the two families differ in here.
trait Family: Address {
    /// Its bits, as the other crate wants them.
    type Key: Copy + prefix_trie::Prefix;
    const NAME: &'static str;
    const LENGTHS: &'static [(u8, u32)];
    const PREFIXES: usize;
    fn key(self, length: u8) -> Self::Key;
    fn random(random: &mut Random) -> Self;
    /// An address in a prefix.
    fn within(prefix: Prefix<Self>, random: &mut Random) -> Self;
}

impl Family for Ipv4Addr {
    type Key = (u32, u8);
    const NAME: &'static str = "ipv4";
    const LENGTHS: &'static [(u8, u32)] = LENGTHS_V4;
    const PREFIXES: usize = 1_000_000;

    fn key(self, length: u8) -> (u32, u8) {
        (self.to_bits(), length)
    }

    /// Unicast: 1.0.0.0 to 223.255.255.255.
    fn random(random: &mut Random) -> Self {
        Self::from_bits(0x0100_0000 + random.below(0xDF00_0000) as u32)
    }

    fn within(prefix: Prefix<Self>, random: &mut Random) -> Self {
        let host = (random.next() as u32).checked_shr(prefix.length().into()).unwrap_or(0);
        Self::from_bits(prefix.address().to_bits() | host)
    }
}

impl Family for Ipv6Addr {
    type Key = (u128, u8);
    const NAME: &'static str = "ipv6";
    const LENGTHS: &'static [(u8, u32)] = LENGTHS_V6;
    const PREFIXES: usize = 200_000;

    fn key(self, length: u8) -> (u128, u8) {
        (self.to_bits(), length)
    }

    /// In one of 16 blocks of 12 bits of `2000::/3`, and there in one of 4,096 networks of 29 bits, as providers are.
    fn random(random: &mut Random) -> Self {
        let provider = 0x2000_0000 | (random.below(16) as u128) << 20 | (random.below(4096) as u128) << 3;
        let rest = u128::from(random.next()) << 32 | u128::from(random.next() as u32);
        Self::from_bits(provider << 96 | rest)
    }

    fn within(prefix: Prefix<Self>, random: &mut Random) -> Self {
        let host = u128::from(random.next()) << 64 | u128::from(random.next());
        Self::from_bits(prefix.address().to_bits() | host.checked_shr(prefix.length().into()).unwrap_or(0))
    }
}

fn made<A: Family>(random: &mut Random, wanted: usize) -> Result<Vec<Prefix<A>>, Box<dyn Error>> {
    let total: u32 = A::LENGTHS.iter().map(|(_, share)| share).sum();
    let mut prefixes = Vec::with_capacity(wanted * 2);
    while prefixes.len() < wanted {
        for _ in prefixes.len()..wanted {
            let mut at = random.below(total as usize) as u32;
            let chosen = A::LENGTHS.iter().find(|(_, share)| {
                let is_here = at < *share;
                at = at.wrapping_sub(*share);
                is_here
            });
            let length = chosen.map_or(A::BITS, |(length, _)| *length);
            prefixes.push(Prefix::of(A::random(random), length)?);
        }
        prefixes.sort_unstable();
        prefixes.dedup();
    }
    Ok(prefixes)
}

fn read<A: Family>(path: &str) -> Result<Vec<Prefix<A>>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let first = |line: &str| line.split_whitespace().next().map(str::parse);
    Ok(text.lines().filter_map(first).collect::<Result<_, _>>()?)
}

fn least_and_median(mut runs: Vec<f64>) -> (f64, f64) {
    runs.sort_unstable_by(f64::total_cmp);
    (runs[0], runs[runs.len() / 2])
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn hop(at: usize) -> Result<NextHop, &'static str> {
    NextHop::new(at as u32 % NEXT_HOPS).ok_or("an index out of range")
}

fn table<A: Family>(
    prefixes: &[Prefix<A>],
    root_bits: u8,
    entries: EntryBytes,
) -> Result<Arc<Lpm<A>>, Box<dyn Error>> {
    let lpm = Arc::new(Lpm::<A>::new(Params::new(root_bits, 256 << 20)?.with_entries(entries)));
    for (at, &prefix) in prefixes.iter().enumerate() {
        lpm.insert(prefix, hop(at)?)?;
    }
    Ok(lpm)
}

fn destinations<A: Family>(prefixes: &[Prefix<A>], random: &mut Random) -> Vec<A> {
    (0..DESTINATIONS).map(|_| A::within(prefixes[random.below(prefixes.len())], random)).collect()
}

#[inline(never)] // instructions are counted by its name
fn counted<A: Family>(
    reader: &mut LpmReader<A>,
    addresses: &[A],
    hops: &mut [Option<NextHop>],
    batch: usize,
) {
    for (addresses, hops) in addresses.chunks(batch).zip(hops.chunks_mut(batch)) {
        reader.lookup_batch(addresses, hops);
    }
}

/// Looks every destination up once.
fn count<A: Family>(root_bits: u8, prefixes: usize, batch: usize, isa: &str) -> Result<(), Box<dyn Error>> {
    let mut random = Random(SplitMix64(1));
    let prefixes = made::<A>(&mut random, prefixes)?;
    let isa = Isa::from_name(isa).ok_or("no such instructions")?;
    let reader = LpmReader::with_isa(table(&prefixes, root_bits, EntryBytes::Two)?, isa);
    let mut reader = reader.ok_or("this processor has no such instructions")?;
    let addresses = destinations(&prefixes, &mut random);
    counted(&mut reader, &addresses, &mut vec![None; DESTINATIONS], batch);
    Ok(())
}

fn measure<A: Family>(
    path: Option<String>,
    root_bits: u8,
    entries: EntryBytes,
) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    let (mut random, name) = (Random(SplitMix64(1)), A::NAME);
    let prefixes = path.map_or_else(|| made::<A>(&mut random, A::PREFIXES), |path| read(&path))?;
    let start = Instant::now();
    let lpm = table(&prefixes, root_bits, entries)?;
    let loaded_s = start.elapsed().as_secs_f64();
    let mut trie = PrefixMap::<A::Key, NextHop>::new();
    for (at, &prefix) in prefixes.iter().enumerate() {
        trie.insert(prefix.address().key(prefix.length()), hop(at)?);
    }
    let addresses = destinations(&prefixes, &mut random);
    let (mut reader, mut hops) = (LpmReader::new(Arc::clone(&lpm)), vec![None; DESTINATIONS]);
    reader.lookup_batch(&addresses, &mut hops);
    for (address, &hop) in addresses.iter().zip(&hops) {
        let expected = trie.get_lpm(&address.key(A::BITS)).map(|(_, hop)| *hop);
        if expected != hop {
            return Err(format!("{address}: {hop:?}, but the trie says {expected:?}").into());
        }
    }
    let stats = lpm.stats();
    let entry_bytes = stats.entry_bytes.get();
    writeln!(
        out,
        "RESULT family={name} root_bits={root_bits} entry_bytes={entry_bytes} prefixes={} load_s={loaded_s:.3} root_bytes={} block_bytes={}",
        stats.routes, stats.root_bytes, stats.block_bytes
    )?;
    for batch in [32, 64, 1024] {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let start = Instant::now();
            for _ in 0..LOOKUPS / DESTINATIONS {
                counted(&mut reader, &addresses, &mut hops, batch);
                std::hint::black_box(&hops);
            }
            runs.push(start.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64);
        }
        let (least, median) = least_and_median(runs);
        writeln!(
            out,
            "RESULT family={name} root_bits={root_bits} entry_bytes={entry_bytes} batch={batch} least_ns={least:.2} median_ns={median:.2}"
        )?;
    }
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        for (address, hop) in addresses.iter().zip(&mut hops) {
            *hop = trie.get_lpm(&address.key(A::BITS)).map(|(_, hop)| *hop);
        }
        std::hint::black_box(&hops);
        runs.push(start.elapsed().as_secs_f64() * 1e9 / DESTINATIONS as f64);
    }
    let (least, median) = least_and_median(runs);
    writeln!(out, "RESULT family={name} peer=prefix-trie batch=1 least_ns={least:.2} median_ns={median:.2}")?;
    let changed = prefixes.len().min(100_000);
    let chosen: Vec<_> = (0..changed).map(|_| random.below(prefixes.len())).collect();
    let start = Instant::now();
    for &at in &chosen {
        lpm.remove(prefixes[at]);
        lpm.insert(prefixes[at], hop(at)?)?;
    }
    let update_ns = start.elapsed().as_secs_f64() * 1e9 / (2 * changed) as f64;
    writeln!(
        out,
        "RESULT family={name} root_bits={root_bits} entry_bytes={entry_bytes} updates={} update_ns={update_ns:.0}",
        2 * changed
    )?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, family, root_bits, prefixes, batch, isa] = &arguments[..]
        && option == "--count"
    {
        let count = if family == Ipv4Addr::NAME { count::<Ipv4Addr> } else { count::<Ipv6Addr> };
        return count(root_bits.parse()?, prefixes.parse()?, batch.parse()?, isa);
    }
    writeln!(
        std::io::stdout(),
        "RESULT cpu=\"{}\" destinations={DESTINATIONS} next_hops={NEXT_HOPS} runs={RUNS}",
        cpu()
    )?;
    let (v4, v6) = (arguments.first().cloned(), arguments.get(1).cloned());
    for (root_bits, entries) in
        [24, 16].into_iter().flat_map(|bits| [(bits, EntryBytes::Two), (bits, EntryBytes::Four)])
    {
        measure::<Ipv4Addr>(v4.clone(), root_bits, entries)?;
        measure::<Ipv6Addr>(v6.clone(), root_bits, entries)?;
    }
    Ok(())
}
