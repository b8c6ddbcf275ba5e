//! Table III: the size of a message that changes one name, and the minimum size.
//!
//! Messages consist of a delta's payload and its envelope. A node that holds bits but no names must learn
//! which slots change and how. For a table of R ranges of S slots, that takes
//!
//! ```text
//! log2 R + H(k) + E[log2 C(S, k)] + H(difference) + P(whole)·(8 + S·w)
//! ```
//!
//! where k is the number of changed slots (all by the same difference, because one side of a tree is
//! flipped), and a range with a new seed counts as one more value of k. A node that held all names and graphs
//! would need less: log2 n bits for the name, and those of the new value.

use super::delta_decoder::{Change, DeltaDecoder};
use super::{met, paper};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::keys::mix;
use crate::names::population::{Kind, Population, action};
use crate::pin;
use crate::row::{Metric, SelectRows};
use crate::sheet::Sheet;
use scalebricks_console::quantity::short_count;
use scalebricks_tables::othello::{Op, OthelloBuilder, OthelloControl, Params};
use scalebricks_types::{Delta, PartitionCount, PartitionId};
use std::collections::BTreeMap;
use std::hash::Hash;

/// Messages per kind.
const MESSAGES: usize = 20_000;
/// Bytes per name, with copies of the table.
const NAME_BYTES: u64 = 60;
const NAME: &str = "othello";

/// Sends messages and measures their size.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let cases: Vec<(u64, u8)> = match &options.keys {
        Some(keys) => {
            let bits = options.value_bits(&[2, 8], &[1, 2, 4, 8, 16]);
            keys.iter().flat_map(|&names| bits.iter().map(move |&bits| (names, bits))).collect()
        }
        None => paper::TABLE_3.map(|(names, bits, ..)| (names / options.pick(20, 1), bits)).to_vec(),
    };
    let mut sent = Vec::new();
    for (names, value_bits) in cases {
        if bench.fits(names, NAME_BYTES)? {
            sent.extend(one(bench, names, value_bits)?);
        }
    }
    let stated = |of: &Sent| {
        let case = paper::TABLE_3.iter().find(|case| (case.0, case.1) == (of.names, of.value_bits))?;
        match of.kind {
            "add" => Some(case.2),
            "alter" => Some(case.3),
            _ => None,
        }
    };
    let sheet = Sheet::new("concise-table-3", sent)
        .column("names", |of| short_count(of.names))
        .column("value bits", |of| of.value_bits)
        .column("message", |of| of.kind)
        .column("paper, bits by entropy", |of| {
            stated(of).map_or_else(|| paper::NOT_GIVEN.to_owned(), |bits| bits.to_string())
        })
        .column("bits by entropy", |of| format!("{:.1}", of.entropy))
        .column("if names were known", |of| format!("{:.1}", of.known))
        .column("bits sent", |of| format!("{:.0}", of.stats.mean(of.stats.payload_bytes) * 8.0))
        .column("with envelope", |of| format!("{:.0}", of.stats.mean(of.stats.envelope_bytes) * 8.0))
        .column("slots changed", |of| format!("{:.2}", of.stats.mean_slots()))
        .column("ranges made anew", |of| format!("{:.2} %", 100.0 * of.stats.mean(of.stats.wholes())));
    bench.add_table(sheet);
    conclude(bench);
    Ok(())
}

/// The messages of one kind to a table.
struct Sent {
    names: u64,
    value_bits: u8,
    kind: &'static str,
    stats: MessageStats,
    /// Minimum bits per message.
    entropy: f64,
    /// The same if the receiver knew all names.
    known: f64,
}

/// Statistics of the messages of one kind.
#[derive(Debug, Default)]
struct MessageStats {
    messages: usize,
    payload_bytes: usize,
    envelope_bytes: usize,
    /// Messages by number of changed slots; `None` for a rebuilt range.
    slots: BTreeMap<Option<usize>, usize>,
    differences: BTreeMap<u32, usize>,
}

impl MessageStats {
    /// Counts a message about one range.
    ///
    /// # Errors
    /// A description of what is wrong with the message.
    fn add(&mut self, delta: &Delta, changes: &[Change]) -> Result<(), &'static str> {
        self.messages += 1;
        self.payload_bytes += delta.payload.len();
        self.envelope_bytes += delta.encode().len();
        let key = match changes {
            [] => Some(0),
            [Change::Whole] => None,
            [Change::Slots(slots)] => {
                if let Some(first) = slots.first() {
                    if slots.iter().any(|slot| slot != first) {
                        return Err("slots of one change differ by different values");
                    }
                    *self.differences.entry(*first).or_default() += 1;
                }
                Some(slots.len())
            }
            _ => return Err("one name changed several ranges"),
        };
        *self.slots.entry(key).or_default() += 1;
        Ok(())
    }

    /// A total per message.
    fn mean(&self, total: usize) -> f64 {
        total as f64 / self.messages.max(1) as f64
    }

    fn mean_slots(&self) -> f64 {
        let slots: usize = self.slots.iter().map(|(slots, messages)| slots.unwrap_or(0) * messages).sum();
        slots as f64 / (self.messages - self.wholes()).max(1) as f64
    }

    fn wholes(&self) -> usize {
        self.slots.get(&None).copied().unwrap_or(0)
    }

    /// Minimum bits per message.
    fn entropy(&self, ranges: u32, slots: u32, width: u32) -> f64 {
        let mean = |of: f64| of / self.messages.max(1) as f64;
        let places: f64 = self
            .slots
            .iter()
            .filter_map(|(&changed, &messages)| Some(log2_choose(slots, changed? as u32) * messages as f64))
            .sum();
        let changed: usize = self.differences.values().sum();
        let whole = f64::from(8 + slots * width) * self.wholes() as f64;
        f64::from(ranges).log2()
            + entropy(&self.slots)
            + mean(places)
            + entropy(&self.differences) * mean(changed as f64)
            + mean(whole)
    }
}

/// The entropy of a distribution of counts, in bits.
fn entropy<K: Eq + Hash>(counts: &BTreeMap<K, usize>) -> f64 {
    let all: usize = counts.values().sum();
    let shares = counts.values().filter(|&&count| count > 0).map(|&count| count as f64 / all as f64);
    shares.map(|share| -share * share.log2()).sum::<f64>()
}

/// log2 of the binomial coefficient n over k.
fn log2_choose(n: u32, k: u32) -> f64 {
    (0..k.min(n)).map(|at| (f64::from(n - at) / f64::from(at + 1)).log2()).sum()
}

fn decoder(control: &OthelloControl) -> Result<DeltaDecoder, BenchError> {
    let whole = control.export_partition(PartitionId(0));
    let decoder = whole.and_then(|whole| DeltaDecoder::new(control.params(), &whole));
    decoder.ok_or_else(|| BenchError::check(NAME, "a partition cannot be read"))
}

/// Sends messages of the three kinds, about names spread over the table, to a copy that decodes them.
fn send(names: &Population) -> Result<([MessageStats; 3], Params), BenchError> {
    let params = Params::for_keys(names.len() as u64, names.value_bits, PartitionCount::ONE).usage()?;
    let builder = OthelloBuilder::new(params.with_seed(1)).threads(pin::cores());
    let mut control = builder.build(&names.pairs()).of(NAME)?;
    let mut copy = decoder(&control)?;
    let messages = MESSAGES.min(names.len() / 2);
    let [mut add, mut alter, mut delete] = [(); 3].map(|()| MessageStats::default());
    let fresh = Kind::Mac.hashes(names.len(), messages);
    let (bits, stride) = (names.value_bits, names.len() / messages.max(1));
    for (number, &new) in fresh.iter().enumerate() {
        let old = names.hashes[number * stride];
        let other = names.actions[number * stride] ^ difference(number as u64, bits);
        for (op, stats) in [
            (Op::Update(old, other), &mut alter),
            (Op::Remove(old), &mut delete),
            (Op::Insert(new, action(number as u64, bits)), &mut add),
        ] {
            for delta in &control.batch(&[op]).of(NAME)? {
                let changes = copy.apply(delta);
                let changes = changes.ok_or_else(|| BenchError::check(NAME, "a delta cannot be read"))?;
                stats.add(delta, &changes).map_err(|problem| BenchError::check(NAME, problem))?;
            }
        }
    }
    let is_same = decoder(&control)? == copy;
    ensure(is_same, NAME, || "a copy kept by reading deltas is not the table")?;
    Ok(([add, alter, delete], *control.params()))
}

/// A uniformly distributed difference other than 0.
fn difference(number: u64, bits: u8) -> u16 {
    let all = (1_u64 << bits) - 1;
    (1 + mix(!number) % all) as u16 // at most `all`, of 16 bits
}

fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8) -> Result<[Sent; 3], BenchError> {
    let busy = bench.busy("sending messages");
    let set = Population::of(Kind::Mac, names, value_bits);
    let ([add, alter, delete], params) = send(&set)?;
    drop(busy);
    let ([a, b], name_bits, value) = (params.slots(), (names as f64).log2(), f64::from(value_bits));
    let other_values = (f64::from(1_u32 << value_bits) - 1.0).log2();
    // An added address must be sent in full.
    let kinds = [
        ("add", add, 48.0 + value),
        ("alter", alter, name_bits + other_values),
        ("delete", delete, name_bits),
    ];
    Ok(kinds.map(|(kind, stats, known)| {
        let entropy = stats.entropy(params.ranges(), a + b, params.width());
        let case = bench
            .case(NAME, names)
            .format("sharded")
            .variant(kind.to_owned())
            .value_bits(value_bits)
            .batch(1);
        bench.add_exact(case.clone(), Metric::DeltaBytes, stats.mean(stats.envelope_bytes));
        bench.add_exact(case, Metric::DeltaEntropy, entropy);
        Sent { names, value_bits, kind, stats, entropy, known }
    }))
}

/// Compares the paper's two cases.
fn conclude(bench: &mut BenchRun<'_>) {
    let parts = paper::TABLE_3.into_iter().filter_map(|(names, bits, add, alter)| {
        let of = |kind| {
            let rows = bench.rows().iter().metric(Metric::DeltaEntropy).keys(names).variant(kind);
            rows.filter(|row| row.case.value_bits == Some(bits)).map(|row| row.median).next()
        };
        let (our_add, our_alter) = (of("add")?, of("alter")?);
        Some(format!(
            "of {} names and {bits} bits an addition needs {our_add:.1} bits (paper {add}: {}) and a change of action \
             {our_alter:.1} (paper {alter}: {})",
            short_count(names),
            met(our_add <= add),
            met(our_alter <= alter),
        ))
    });
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        let sentence = format!(
            "By entropy, in a table {}; what is sent is whole bytes with the table's shape, and more.",
            parts.join(", ")
        );
        bench.add_conclusion("concise-table-3-conclusion", sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies_are_those_of_the_textbook() {
        let of = |counts: &[usize]| entropy(&counts.iter().copied().enumerate().collect());
        assert!((of(&[5, 5, 5, 5]) - 2.0).abs() < 1e-12);
        assert!((of(&[3, 1]) - (2.0 - 0.75 * 3.0_f64.log2())).abs() < 1e-12);
        assert!(of(&[9]).abs() < 1e-12 && of(&[]).abs() < 1e-12);
        for (n, k, ways) in [(512, 0, 1_u128), (512, 1, 512), (512, 2, 130_816), (10, 5, 252), (7, 7, 1)] {
            assert!((log2_choose(n, k) - (ways as f64).log2()).abs() < 1e-9, "{n} {k}");
        }
    }

    #[test]
    fn no_message_is_shorter_than_its_entropy() {
        for bits in [1, 3] {
            let names = Population::of(Kind::Mac, 20_000, bits);
            let (kinds, params) = send(&names).unwrap();
            let [a, b] = params.slots();
            for stats in &kinds {
                let sent = stats.mean(stats.payload_bytes) * 8.0;
                let least = stats.entropy(params.ranges(), a + b, params.width());
                assert!(least > 10.0 && least < sent, "{least} {sent}");
            }
            let [_, alter, delete] = &kinds;
            assert!(alter.mean_slots() >= 1.0 && alter.wholes() == 0 && delete.wholes() == 0);
        }
    }
}
