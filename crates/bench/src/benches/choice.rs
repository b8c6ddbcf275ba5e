//! `choice`: compares SetSep, Othello and a full copy at every node, by flows and nodes, with one key per
//! flow.

mod candidate;
mod page;

use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, LIMIT, Replay};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
use crate::session::Session;
use candidate::{Candidate, Kind};
use scalebricks_report::stats::Summary;
use scalebricks_types::{ClusterSize, FlowKey};

/// Bytes per key for keys, queries, answers and flows, the largest build, all candidates together, and the
/// lines of a replay.
const KEY_BYTES: u64 = 21 + 40 + 90 + 40 + 16 + 30 + 17;

/// Minimum lookups per run; small tables are queried repeatedly.
const LEAST_LOOKUPS: usize = 1 << 22;

/// Changes per batch of a controller.
const BATCHES: [usize; 2] = [1, 1024];

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let sizes = [1_000, 32_000, 1_000_000, 16_000_000, 64_000_000];
    for keys in options.keys(&sizes[..3], &sizes) {
        if !session.fits(keys, KEY_BYTES)? {
            continue;
        }
        for nodes in options.nodes(&[4], &[2, 16, 256]) {
            one(session, keys, nodes)?;
        }
    }
    page::show(session);
    Ok(())
}

/// A candidate and its expected answers.
struct LiveTable {
    kind: Kind,
    /// `None` while it is rebuilt.
    candidate: Option<Box<dyn Candidate>>,
    /// The current value of each query.
    answers: Vec<u8>,
    /// Position of the next change.
    cursor: usize,
}

/// Keys for building and queries.
struct Keys {
    set: KeySet,
    /// The flows of the queries, for the full copy.
    flows: Vec<FlowKey>,
}

/// Measures all candidates for one number of flows and nodes.
fn one(session: &mut Session<'_>, keys: u64, nodes: usize) -> Result<(), BenchError> {
    let size = ClusterSize::new(nodes).map_err(|error| BenchError::Usage(error.to_string()))?;
    // A full copy does not depend on the number of nodes.
    let has_copy = session.options().nodes(&[4], &[2, 16, 256]).first() == Some(&nodes);
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, size.value_bits());
    let flows = if has_copy { set.query_flows() } else { Vec::new() };
    let keys = Keys { set, flows };
    let mut all = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|&kind| has_copy || kind != Kind::FullCopy) {
        session.check()?;
        let (candidate, _) = kind.build(&keys.set)?;
        all.push(LiveTable {
            kind,
            candidate: Some(candidate),
            answers: keys.set.answers.clone(),
            cursor: 0,
        });
    }
    drop(busy);
    let mut cases = Vec::new();
    for live in &all {
        let (table, control) = live.candidate()?.bytes();
        let case = session
            .case(live.kind.name(), keys.set.len() as u64)
            .value_bits(size.value_bits())
            .nodes((live.kind != Kind::FullCopy).then_some(nodes))
            .threads(1)
            .table_bytes(table);
        let each = |bytes: u64| bytes as f64 / keys.set.len() as f64;
        session.add(case.clone(), Metric::BitsPerKey, Summary::exact(each(table) * 8.0));
        session.add(case.clone(), Metric::ControlBytes, Summary::exact(each(control)));
        cases.push(case);
    }
    interleave(session, &mut all, turns(&cases, &keys))?;
    all.iter().try_for_each(|live| live.look_up(&keys).map(|_| ()))
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
        let lookups = case.clone().batch(candidate::BATCH);
        let limit = lookups.clone().variant(LIMIT.to_owned());
        let rows = vec![
            (limit, Metric::LookupRate),
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
    fn candidate(&self) -> Result<&dyn Candidate, BenchError> {
        self.candidate.as_deref().ok_or_else(|| BenchError::check(self.kind.name(), "it was not built"))
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
    fn look_up(&self, Keys { set, flows }: &Keys) -> Result<f64, BenchError> {
        let passes = LEAST_LOOKUPS.div_ceil(set.len());
        let mut answers: Vec<u8> = self.answers.iter().map(|answer| !answer).collect();
        let seconds = self.candidate()?.look_up((&set.queries, flows), passes, &mut answers)?;
        crate::timing::compare(self.kind.name(), &self.answers, &answers)?;
        Ok((passes * set.len()) as f64 / seconds)
    }

    /// The lookup rate that the memory allows. Replays the first queries anew, because changes have moved
    /// what lookups read.
    fn limit(&self, Keys { set, flows }: &Keys) -> Result<f64, BenchError> {
        let some = set.len().min(limit::MAX_QUERIES);
        let queries = (&set.queries[..some], &flows[..some.min(flows.len())]);
        let replay = Replay::record(self.candidate()?, some, |table, visit| table.touched(queries, visit));
        let told = || BenchError::check(self.kind.name(), "it does not report which memory it reads");
        replay.ok_or_else(told)?.rate(LEAST_LOOKUPS.div_ceil(some), candidate::BATCH, 1)
    }

    /// Performs changes in batches; returns changes per second and delta bytes per change.
    fn change(&mut self, Keys { set, flows }: &Keys, batch: usize) -> Result<RunResult, BenchError> {
        let count = if batch == 1 { 1 << 15 } else { 1 << 17 };
        let mask = u8::MAX >> (8 - set.value_bits);
        let takes_flows = self.kind == Kind::FullCopy;
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.cursor % set.len();
            self.cursor += 1;
            let value = self.answers[place].wrapping_add(1) & mask;
            self.answers[place] = value;
            let flow = if takes_flows { flows.get(place).copied() } else { None };
            changes.push((set.queries[place], flow, value));
        }
        let Some(candidate) = &mut self.candidate else {
            return Err(BenchError::check(self.kind.name(), "it was not built"));
        };
        let changed = candidate.change(&changes, batch)?;
        let mut figures = vec![count as f64 / changed.seconds];
        figures.extend(changed.bytes.map(|bytes| bytes as f64 / count as f64));
        Ok(figures.into())
    }
}
