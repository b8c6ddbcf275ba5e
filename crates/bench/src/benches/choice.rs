//! `choice`: compares SetSep, Othello and a full copy at every node, by flows and nodes, with one key per
//! flow.

mod candidate;
mod page;

use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail};
use crate::keys::{self, KeySet};
use crate::limit::{LIMIT, Replay};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
use crate::structures::{KeyForm, KeyForms, LookupMode};
use crate::timing;
use candidate::{Candidate, Kind};
use scalebricks_types::ClusterSize;

/// Bytes per key for keys, queries, answers and flows, the largest build, all candidates together, and the
/// lines of a replay.
const KEY_BYTES: u64 = 21 + 40 + 90 + 40 + 16 + 30 + 17;

/// Minimum lookups per run; small tables are queried repeatedly.
const LEAST_LOOKUPS: usize = 1 << 22;

/// Lookups per call, as in a node.
const BATCH: usize = 64;

/// Changes per batch of a controller.
const BATCHES: [usize; 2] = [1, 1024];

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let sizes = [1_000, 32_000, 1_000_000, 16_000_000, 64_000_000];
    let nodes = bench.options.nodes(&[4], &[2, 16, 256]);
    for keys in bench.sizes(&sizes[..3], &sizes, KEY_BYTES)? {
        for (number, &nodes) in nodes.iter().enumerate() {
            // A full copy does not depend on the number of nodes.
            one(bench, keys, nodes, number == 0)?;
        }
    }
    page::show(bench);
    Ok(())
}

/// A candidate and its expected answers.
struct LiveTable {
    kind: Kind,
    /// `None` while it is rebuilt.
    candidate: Option<Candidate>,
    /// The current value of each query.
    answers: Vec<u8>,
    /// Position of the next change.
    cursor: usize,
}

/// Keys for building and queries.
struct Keys {
    set: KeySet,
    forms: KeyForms,
}

/// Measures all candidates for one number of flows and nodes.
fn one(bench: &mut BenchRun<'_>, keys: u64, nodes: usize, has_copy: bool) -> Result<(), BenchError> {
    let size = ClusterSize::new(nodes).usage()?;
    let busy = bench.busy("making keys and tables");
    let set = KeySet::new(keys, size.value_bits());
    let forms = KeyForms::of(&set, has_copy.then_some(KeyForm::Flow));
    let keys = Keys { set, forms };
    let (mut all, mut cases) = (Vec::new(), Vec::new());
    for kind in Kind::ALL.into_iter().filter(|&kind| has_copy || kind != Kind::FullCopy) {
        bench.check()?;
        let (candidate, _) = kind.build(&keys.set)?;
        let (table, control) = (candidate.table.table_bytes(), candidate.control_bytes);
        let case = bench
            .case(kind.name(), keys.set.len() as u64)
            .value_bits(size.value_bits())
            .nodes((kind != Kind::FullCopy).then_some(nodes))
            .threads(1)
            .table_bytes(table);
        let each = |bytes: u64| bytes as f64 / keys.set.len() as f64;
        bench.add_exact(case.clone(), Metric::BitsPerKey, each(table) * 8.0);
        bench.add_exact(case.clone(), Metric::ControlBytes, each(control));
        cases.push(case);
        let answers = keys.set.answers.clone();
        all.push(LiveTable { kind, candidate: Some(candidate), answers, cursor: 0 });
    }
    drop(busy);
    interleave(bench, &mut all, turns(&cases, &keys))?;
    all.iter().try_for_each(|live| live.look_up(&keys).map(drop))
}

/// The measurements, each for all candidates: builds, lookups, single changes and batches. A build replaces
/// the candidate.
fn turns<'a>(cases: &[Case], keys: &'a Keys) -> Vec<Measurement<'a, Vec<LiveTable>>> {
    let mut turns = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        turns.push(Measurement::new(case.clone(), Metric::BuildRate, move |all: &mut Vec<LiveTable>| {
            Ok(all[number].rebuild(keys)?.into())
        }));
    }
    for (number, case) in cases.iter().enumerate() {
        let lookups = case.clone().batch(BATCH);
        let rows = vec![
            (lookups.clone().variant(LIMIT.to_owned()), Metric::LookupRate),
            (lookups.clone(), Metric::LookupRate),
            (lookups, Metric::ShareOfLimit),
        ];
        turns.push(Measurement::several(rows, move |all: &mut Vec<LiveTable>| {
            let (limit, rate) = (all[number].limit(keys)?, all[number].look_up(keys)?);
            Ok(vec![limit, rate, rate / limit].into())
        }));
    }
    for batch in BATCHES {
        for (number, case) in cases.iter().enumerate() {
            let case = case.clone().batch(batch);
            let mut rows = vec![(case.clone(), Metric::UpdateRate)];
            // A full copy has no delta stream; its writer gets keys and values.
            if case.nodes.is_some() {
                rows.push((case, Metric::DeltaBytes));
            }
            turns.push(Measurement::several(rows, move |all: &mut Vec<LiveTable>| {
                all[number].change(keys, batch)
            }));
        }
    }
    turns
}

impl LiveTable {
    fn candidate(&self) -> Result<&Candidate, BenchError> {
        self.candidate.as_ref().ok_or_else(|| BenchError::check(self.kind.name(), "it was not built"))
    }

    /// Checks the changed candidate, and rebuilds it with the initial values; returns keys per second.
    fn rebuild(&mut self, keys: &Keys) -> Result<f64, BenchError> {
        self.look_up(keys)?;
        self.candidate = None;
        let (candidate, rate) = self.kind.build(&keys.set)?;
        self.candidate = Some(candidate);
        self.answers.copy_from_slice(&keys.set.answers);
        Ok(rate)
    }

    /// Lookups per second; checks every answer.
    fn look_up(&self, Keys { set, forms }: &Keys) -> Result<f64, BenchError> {
        let (passes, table) = (LEAST_LOOKUPS.div_ceil(set.len()), &self.candidate()?.table);
        let mut answers: Vec<u8> = self.answers.iter().map(|answer| !answer).collect();
        let seconds = timing::shared(self.kind.name(), &mut answers, 1, |_, answers| {
            (0..passes).for_each(|_| table.lookup(LookupMode::Batch(BATCH), forms.queries(set), answers));
        })?;
        timing::compare(self.kind.name(), &self.answers, &answers)?;
        Ok((passes * set.len()) as f64 / seconds)
    }

    /// The lookup rate that the memory allows. Replays the first queries anew, because changes have moved
    /// what lookups read.
    fn limit(&self, Keys { set, forms }: &Keys) -> Result<f64, BenchError> {
        let replay = Replay::of(self.candidate()?.table.as_ref(), forms.queries(set));
        let unknown = || BenchError::check(self.kind.name(), "it does not report which memory it reads");
        let replay = replay.ok_or_else(unknown)?;
        replay.rate(LEAST_LOOKUPS.div_ceil(replay.queries()), BATCH, 1)
    }

    /// Performs changes in batches; returns changes per second and delta bytes per change.
    fn change(&mut self, Keys { set, .. }: &Keys, batch: usize) -> Result<RunResult, BenchError> {
        let count = if batch == 1 { 1 << 15 } else { 1 << 17 };
        let mask = u8::MAX >> (8 - set.value_bits);
        let (order, mut changes) = (keys::Order::of(set.len() as u64), Vec::with_capacity(count));
        for _ in 0..count {
            let place = self.cursor % set.len();
            self.cursor += 1;
            let value = self.answers[place].wrapping_add(1) & mask;
            self.answers[place] = value;
            changes.push((set.queries[place], order.number(place as u64), value));
        }
        let Some(candidate) = &mut self.candidate else {
            return Err(BenchError::check(self.kind.name(), "it was not built"));
        };
        let (seconds, bytes) = (candidate.change)(&changes, batch)?;
        let mut figures = vec![count as f64 / seconds];
        figures.extend(bytes.map(|bytes| bytes as f64 / count as f64));
        Ok(figures.into())
    }
}
