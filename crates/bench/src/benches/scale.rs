//! `scale`: SetSep tables of up to a billion keys. Their keys do not fit in memory, so the owner builds and changes one
//! partition at a time, and every partition arrives in one table as a delta, as it does at the nodes of a cluster.

use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::keys::{self, Order};
use crate::pin;
use crate::row::{Case, Metric};
use crate::structures::{Compact, SetSep, fewest_partitions};
use crate::timing;
use rayon::prelude::*;
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::{self, Format, Op, Params, SetSepBuilder, SetSepControl};
use scalebricks_types::{KeyHash, PartitionCount, PartitionId};
use std::ops::Range;
use std::sync::Arc;

/// Partitions of a table that is too large to be built whole.
const PARTITIONS: u32 = 64;

/// Most keys that are built whole, with the keys of all partitions in memory.
const MOST_WHOLE: u64 = 256_000_000;

/// Partitions whose keys are in memory together. All keys are made once for each group of so many partitions.
const TOGETHER: u32 = 8;

/// Bytes for each key of a partition: hash, entry, build and control structure.
const PARTITION_KEY_BYTES: u64 = 8 + 16 + 24 + 16;

/// Keys per call, as in nodes, and as many as help.
const BATCHES: [usize; 2] = [64, 1024];

/// Keys that are changed in each partition, all in one batch.
const CHANGED: usize = 1 << 16;

/// Keys that are looked up in the finished table.
const SAMPLE: u64 = 1 << 24;

/// The plan for one number of keys.
#[derive(Debug, Clone, Copy)]
struct Plan {
    keys: u64,
    partitions: PartitionCount,
    /// Partitions whose keys are in memory together.
    together: u32,
}

impl Plan {
    /// Whole if the keys fit in memory, else in partitions.
    fn of(keys: u64, format: Format, value_bits: u8) -> Result<Self, BenchError> {
        let params = |partitions| Params::for_keys_in(format, keys, value_bits, partitions);
        if keys <= MOST_WHOLE {
            let partitions = fewest_partitions(params)?.partitions();
            return Ok(Self { keys, partitions, together: partitions.get() });
        }
        Ok(Self { keys, partitions: PartitionCount::new(PARTITIONS).usage()?, together: TOGETHER })
    }

    fn is_whole(self) -> bool {
        self.together == self.partitions.get()
    }

    /// In words, for the results.
    fn text(self) -> String {
        match self.partitions.get() {
            _ if self.is_whole() => "whole".to_owned(),
            partitions => format!("{partitions} partitions, one at a time"),
        }
    }

    /// Bytes that this takes per key of the table.
    fn key_bytes(self, widths: &[u8]) -> u64 {
        let table_bits: u64 = widths.iter().map(|&bits| 1 + 2 * u64::from(bits)).sum();
        let group = 2 * 8 * u64::from(self.together) / u64::from(self.partitions.get());
        let partition = PARTITION_KEY_BYTES.div_ceil(self.partitions.get().into());
        table_bits.div_ceil(8) + group + partition
    }

    /// The keys of these partitions, for each partition in the order of their numbers.
    fn keys_of(self, group: Range<u32>) -> Vec<Vec<KeyHash>> {
        let empty = || vec![Vec::new(); group.len()];
        let add = |mut found: Vec<Vec<KeyHash>>, number: usize| {
            let hash = keys::hash(number as u64);
            let partition = u32::from(self.partitions.of(hash).0);
            if group.contains(&partition) {
                found[(partition - group.start) as usize].push(hash);
            }
            found
        };
        let join = |mut first: Vec<Vec<KeyHash>>, second: Vec<Vec<KeyHash>>| {
            first.iter_mut().zip(second).for_each(|(to, from)| to.extend(from));
            first
        };
        (0..self.keys as usize).into_par_iter().with_min_len(1 << 20).fold(empty, add).reduce(empty, join)
    }
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let widths = options.value_bits(&[2, 8], &[2, 3, 4, 5, 6, 7, 8]);
    let formats = options.formats.clone().unwrap_or_else(|| vec![Format::default()]);
    for keys in options.keys(&[1_000_000], &[MOST_WHOLE, 1_000_000_000]) {
        for &format in &formats {
            let plan = Plan::of(keys, format, widths.iter().copied().max().unwrap_or(1))?;
            if bench.fits(keys, plan.key_bytes(&widths))? {
                one(bench, plan, format, &widths)?;
            }
        }
    }
    Ok(())
}

/// Measures tables of all widths for the same keys.
fn one(bench: &mut BenchRun<'_>, plan: Plan, format: Format, widths: &[u8]) -> Result<(), BenchError> {
    let make = |&bits| GrowingTable::new(plan, format, bits);
    let mut tables: Vec<GrowingTable> = widths.iter().map(make).collect::<Result<_, _>>()?;
    let partitions = plan.partitions.get();
    let bar = bench.progress(partitions as usize * widths.len());
    for from in (0..partitions).step_by(plan.together as usize) {
        let group = from..from + plan.together;
        bench.check()?;
        for (partition, hashes) in group.clone().zip(plan.keys_of(group)) {
            for table in &mut tables {
                bench.check()?;
                table.add_partition(PartitionId(partition as u16), &hashes)?; // fewer than 2^16
                bar.add(1);
            }
        }
    }
    bar.finish();
    for table in tables {
        table.look_up_all(bench)?.show(bench, plan, format);
    }
    Ok(())
}

/// A table that gets one partition after another, and what was measured so far.
struct GrowingTable {
    keys: u64,
    params: Params,
    table: Arc<setsep::SetSep>,
    rates: Vec<(Option<usize>, Metric, Vec<f64>)>,
    control_bytes: usize,
}

impl GrowingTable {
    /// A table of this plan, without keys.
    fn new(plan: Plan, format: Format, value_bits: u8) -> Result<Self, BenchError> {
        let params = Params::for_keys_in(format, plan.keys, value_bits, plan.partitions).usage()?;
        let table = Arc::new(setsep::SetSep::new(params));
        Ok(Self { keys: plan.keys, params, table, rates: Vec::new(), control_bytes: 0 })
    }

    fn value(&self, hash: KeyHash) -> u8 {
        keys::value(hash.get(), self.params.value_bits())
    }

    fn add_rate(&mut self, batch: Option<usize>, metric: Metric, rate: f64) {
        match self.rates.iter_mut().find(|known| (known.0, known.1) == (batch, metric)) {
            Some((.., rates)) => rates.push(rate),
            None => self.rates.push((batch, metric, vec![rate])),
        }
    }

    /// Builds a partition with its control structure, looks up all of its keys in the table, changes some, and compares
    /// the table's digest with the control structure's before that is dropped.
    fn add_partition(&mut self, partition: PartitionId, hashes: &[KeyHash]) -> Result<(), BenchError> {
        let entries: Vec<(KeyHash, u8)> = hashes.iter().map(|&hash| (hash, self.value(hash))).collect();
        let builder = SetSepBuilder::new(self.params).threads(pin::cores()).partitions([partition]);
        let (control, seconds) = timing::timed(|| builder.build(&entries));
        let mut control = control.of(SetSep::NAME)?;
        self.add_rate(None, Metric::BuildRate, entries.len() as f64 / seconds);
        drop(entries);
        self.control_bytes += control.control_bytes();
        let image = control.export_partition(partition);
        let image =
            image.ok_or_else(|| BenchError::check(SetSep::NAME, "a partition that was built is not held"))?;
        SetSep::apply(&self.table, &image)?;
        drop(image);

        self.look_up(None, hashes)?;
        self.change(&mut control, hashes)?;
        let digest = self.table.digest(partition).map(|(_, digest)| digest);
        ensure(digest == control.digest(partition), SetSep::NAME, || {
            format!("partition {} of the table is not that of its owner", partition.0)
        })?;
        self.look_up(None, hashes)
    }

    /// Looks up keys, checks all answers, and notes the rate for calls that are measured.
    fn look_up(&mut self, batch: Option<usize>, hashes: &[KeyHash]) -> Result<(), BenchError> {
        let mut answers: Vec<u8> = hashes.par_iter().map(|&hash| !self.value(hash)).collect();
        let table = Arc::clone(&self.table);
        let size = batch.unwrap_or(BATCHES[1]);
        let (answers, seconds) = timing::pinned(move || {
            let mut reader = setsep::SetSepReader::new(table);
            for (hashes, answers) in hashes.chunks(size).zip(answers.chunks_mut(size)) {
                reader.lookup_batch(hashes, answers);
            }
            answers
        })?;
        let wrong =
            hashes.par_iter().zip(&answers).filter(|&(&hash, &found)| found != self.value(hash)).count();
        ensure(wrong == 0, SetSep::NAME, || format!("{wrong} of {} keys have wrong values", hashes.len()))?;
        if batch.is_some() {
            self.add_rate(batch, Metric::LookupRate, hashes.len() as f64 / seconds);
        }
        Ok(())
    }

    /// Changes values and changes them back, removes keys and inserts them again: each by the owner, and in the table.
    fn change(&mut self, control: &mut SetSepControl, hashes: &[KeyHash]) -> Result<(), BenchError> {
        let hashes = &hashes[..hashes.len().min(CHANGED)];
        let ops = |op: &dyn Fn(KeyHash, u8) -> Op| -> Vec<Op> {
            hashes.iter().map(|&hash| op(hash, self.value(hash))).collect()
        };
        let steps = [
            (Metric::UpdateRate, ops(&|hash, value| Op::Update(hash, value ^ 1))),
            (Metric::UpdateRate, ops(&Op::Update)),
            (Metric::DeleteRate, ops(&|hash, _| Op::Remove(hash))),
            (Metric::InsertRate, ops(&Op::Insert)),
        ];
        for (metric, ops) in steps {
            let table = &self.table;
            let (done, seconds) = timing::pinned(|| {
                SetSep::change(control, None, &ops)?.iter().try_for_each(|delta| SetSep::apply(table, delta))
            })?;
            done?;
            self.add_rate(Some(CHANGED), metric, ops.len() as f64 / seconds);
        }
        Ok(())
    }

    /// Looks up keys of all partitions in the finished table.
    fn look_up_all(mut self, bench: &BenchRun<'_>) -> Result<Self, BenchError> {
        let order = Order::of(self.keys);
        let sample: Vec<KeyHash> =
            (0..self.keys.min(SAMPLE)).into_par_iter().map(|place| keys::hash(order.number(place))).collect();
        for _ in 0..bench.options.runs() {
            for batch in BATCHES {
                bench.check()?;
                self.look_up(Some(batch), &sample)?;
            }
        }
        Ok(self)
    }

    /// Adds the rows.
    fn show(self, bench: &mut BenchRun<'_>, plan: Plan, format: Format) {
        let stats = self.table.stats();
        let case: Case = bench
            .case(SetSep::NAME, self.keys)
            .format(format.name())
            .variant(plan.text())
            .value_bits(self.params.value_bits())
            .table_bytes(stats.table_bytes as u64);
        bench.add_exact(case.clone(), Metric::BitsPerKey, stats.bits_per_key(self.keys));
        bench.add_exact(case.clone(), Metric::FallbackKeys, stats.fallback_keys as f64);
        bench.add_exact(case.clone(), Metric::ControlBytes, self.control_bytes as f64 / self.keys as f64);
        for (batch, metric, rates) in self.rates {
            let threads = if metric == Metric::BuildRate { pin::cores() } else { 1 };
            let case = case.clone().batch(batch).threads(threads);
            bench.add(case, metric, Summary::of(&rates));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn partitions_have_all_keys_and_each_is_in_one() {
        let partitions = PartitionCount::new(4).unwrap();
        let plan = Plan { keys: 5000, partitions, together: 2 };
        let mut found: Vec<KeyHash> =
            [0..2, 2..4].into_iter().flat_map(|group| plan.keys_of(group)).flatten().collect();
        let mut all: Vec<KeyHash> = (0..5000).map(keys::hash).collect();
        found.sort_unstable();
        all.sort_unstable();
        assert_eq!(found, all);
    }

    #[test]
    fn tables_are_built_in_partitions_and_a_wrong_answer_is_found() {
        let plan = Plan { keys: 40_000, partitions: PartitionCount::new(4).unwrap(), together: 2 };
        let mut bench = BenchRun::for_test("scale", Options { quick: true, ..Options::default() });
        one(&mut bench, plan, Format::default(), &[2, 5]).unwrap();
        let of = |metric| bench.rows().iter().filter(|row| row.metric == metric).count();
        assert_eq!((of(Metric::LookupRate), of(Metric::InsertRate), of(Metric::BitsPerKey)), (4, 2, 2));

        let mut table = GrowingTable::new(plan, Format::default(), 8).unwrap();
        let hashes = plan.keys_of(0..1).remove(0);
        table.add_partition(PartitionId(0), &hashes).unwrap();
        let of_others = plan.keys_of(1..2).remove(0);
        assert!(matches!(table.look_up(None, &of_others), Err(BenchError::Check { .. })));
    }
}
