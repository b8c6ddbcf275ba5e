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
use super::{conclusions, paper};
use crate::error::BenchError;
use crate::keys::mix;
use crate::names::population::{Kind, Population, action};
use crate::pin;
use crate::row::Metric;
use crate::session::Session;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::PageTable;
use scalebricks_report::stats::Summary;
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let mut sheet = PageTable::new(
        "concise-table-3",
        &[
            "names",
            "value bits",
            "message",
            "paper, bits by entropy",
            "bits by entropy",
            "if names were known",
            "bits sent",
            "with envelope",
            "slots changed",
            "ranges made anew",
        ],
    );
    let cases: Vec<(u64, u8)> = match &options.keys {
        Some(keys) => {
            let bits = options.value_bits(&[2, 8], &[1, 2, 4, 8, 16]);
            keys.iter().flat_map(|&names| bits.iter().map(move |&bits| (names, bits))).collect()
        }
        None => paper::TABLE_3.map(|(names, bits, ..)| (names / options.pick(20, 1), bits)).to_vec(),
    };
    for (names, value_bits) in cases {
        if session.fits(names, NAME_BYTES)? {
            one(session, &mut sheet, names, value_bits)?;
        }
    }
    session.add_table(sheet);
    conclusions::update_messages(session);
    Ok(())
}

/// Statistics of the messages of one kind.
#[derive(Debug, Default)]
pub struct MessageStats {
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

/// A control structure, and a copy that reads its messages.
struct DeltaChannel {
    control: OthelloControl,
    mirror: DeltaDecoder,
}

impl DeltaChannel {
    fn new(names: &Population) -> Result<Self, BenchError> {
        let params = Params::for_keys(names.len() as u64, names.value_bits, PartitionCount::ONE);
        let params = params.map_err(|error| BenchError::Usage(error.to_string()))?.with_seed(1);
        let builder = OthelloBuilder::new(params).threads(pin::cores());
        let control = builder.build(&names.pairs()).map_err(|error| BenchError::of(NAME, error))?;
        let mirror = mirror(&control)?;
        Ok(Self { control, mirror })
    }

    fn send(&mut self, op: Op, tally: &mut MessageStats) -> Result<(), BenchError> {
        let deltas = self.control.batch(&[op]).map_err(|error| BenchError::of(NAME, error))?;
        for delta in &deltas {
            let changes = self.mirror.apply(delta);
            let changes = changes.ok_or_else(|| BenchError::check(NAME, "a delta cannot be read"))?;
            tally.add(delta, &changes).map_err(|problem| BenchError::check(NAME, problem))?;
        }
        Ok(())
    }

    /// Compares the copy with the table.
    fn check(&self) -> Result<(), BenchError> {
        if mirror(&self.control)? == self.mirror {
            return Ok(());
        }
        Err(BenchError::check(NAME, "a copy kept by reading deltas is not the table"))
    }
}

fn mirror(control: &OthelloControl) -> Result<DeltaDecoder, BenchError> {
    let whole = control.export_partition(PartitionId(0));
    let mirror = whole.and_then(|whole| DeltaDecoder::new(control.params(), &whole));
    mirror.ok_or_else(|| BenchError::check(NAME, "a partition cannot be read"))
}

/// Sends messages of the three kinds, about names spread over the table.
fn tallies(names: &Population) -> Result<([MessageStats; 3], Params), BenchError> {
    let mut wire = DeltaChannel::new(names)?;
    let messages = MESSAGES.min(names.len() / 2);
    let [mut add, mut alter, mut delete] = [(); 3].map(|()| MessageStats::default());
    let fresh = Kind::Mac.hashes(names.len(), messages);
    let (bits, stride) = (names.value_bits, names.len() / messages.max(1));
    for (number, &new) in fresh.iter().enumerate() {
        let old = names.hashes[number * stride];
        let other = names.actions[number * stride] ^ difference(number as u64, bits);
        wire.send(Op::Update(old, other), &mut alter)?;
        wire.send(Op::Remove(old), &mut delete)?;
        wire.send(Op::Insert(new, action(number as u64, bits)), &mut add)?;
    }
    wire.check()?;
    Ok(([add, alter, delete], *wire.control.params()))
}

/// A uniformly distributed difference other than 0.
fn difference(number: u64, bits: u8) -> u16 {
    let all = (1_u64 << bits) - 1;
    (1 + mix(!number) % all) as u16 // at most `all`, of 16 bits
}

fn one(
    session: &mut Session<'_>,
    sheet: &mut PageTable,
    names: u64,
    value_bits: u8,
) -> Result<(), BenchError> {
    let busy = session.busy("sending messages");
    let names = Population::of(Kind::Mac, names, value_bits);
    let (tallies, params) = tallies(&names)?;
    drop(busy);
    let (names, [a, b]) = (names.len() as u64, params.slots());
    let (name_bits, value) = ((names as f64).log2(), f64::from(value_bits));
    // An added address must be sent in full.
    let known = [48.0 + value, name_bits + (f64::from(1_u32 << value_bits) - 1.0).log2(), name_bits];
    for ((kind, tally), known) in ["add", "alter", "delete"].into_iter().zip(&tallies).zip(known) {
        let each = |bytes: usize| bytes as f64 / tally.messages.max(1) as f64;
        let entropy = tally.entropy(params.ranges(), a + b, params.width());
        let case = session
            .case(NAME, names)
            .format("sharded")
            .variant(kind.to_owned())
            .value_bits(value_bits)
            .batch(1);
        session.add(case.clone(), Metric::DeltaBytes, Summary::exact(each(tally.envelope_bytes)));
        session.add(case, Metric::DeltaEntropy, Summary::exact(entropy));
        let theirs = paper::TABLE_3.iter().find(|case| (case.0, case.1) == (names, value_bits));
        let theirs = theirs.and_then(|case| match kind {
            "add" => Some(case.2),
            "alter" => Some(case.3),
            _ => None,
        });
        sheet.rows.push(vec![
            short_count(names),
            value_bits.to_string(),
            kind.to_owned(),
            theirs.map_or_else(|| paper::NOT_GIVEN.to_owned(), |bits| bits.to_string()),
            format!("{entropy:.1}"),
            format!("{known:.1}"),
            format!("{:.0}", each(tally.payload_bytes) * 8.0),
            format!("{:.0}", each(tally.envelope_bytes) * 8.0),
            format!("{:.2}", tally.mean_slots()),
            format!("{:.2} %", 100.0 * tally.wholes() as f64 / tally.messages.max(1) as f64),
        ]);
    }
    Ok(())
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
            let (tallies, params) = tallies(&names).unwrap();
            let [a, b] = params.slots();
            for tally in &tallies {
                let sent = tally.payload_bytes as f64 * 8.0 / tally.messages as f64;
                let least = tally.entropy(params.ranges(), a + b, params.width());
                assert!(least > 10.0 && least < sent, "{least} {sent}");
            }
            let [_, alter, delete] = &tallies;
            assert!(alter.mean_slots() >= 1.0 && alter.wholes() == 0 && delete.wholes() == 0);
        }
    }
}
