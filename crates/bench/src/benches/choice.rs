//! `choice`: SetSep, Othello or a full copy at every node: what each costs, by flows and nodes. One key a flow.

mod candidate;
mod page;

use crate::bench::Bench;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, LIMIT, Replay};
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use candidate::{Candidate, Kind};
use scalebricks_types::{ClusterSize, FlowKey};

/// The benchmark.
#[derive(Debug)]
pub struct Choice;

/// Bytes a key of keys, questions, answers and flows, of building, of the largest candidate, and of the
/// lines that it reads.
const KEY_BYTES: u64 = 20 + 40 + 90 + 40 + 17;

/// Lookups of a run at the least: small tables are asked again and again.
const LEAST_LOOKUPS: usize = 1 << 22;

/// Changes that a controller makes at a time.
const BATCHES: [usize; 2] = [1, 1024];

impl Bench for Choice {
    fn name(&self) -> &'static str {
        "choice"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
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

    fn draws_itself(&self) -> bool {
        true
    }
}

/// One candidate at work, and what it must answer.
struct Live {
    candidate: Box<dyn Candidate>,
    set: KeySet,
    flows: Vec<FlowKey>,
    cursor: usize,
}

/// All candidates for so many flows on so many nodes. One after the other: together the largest would not fit.
fn one(session: &mut Session<'_>, keys: u64, nodes: usize) -> Result<(), BenchError> {
    let size = ClusterSize::new(nodes).map_err(|error| BenchError::Usage(error.to_string()))?;
    let first = session.options().nodes(&[4], &[2, 16, 256]).first() == Some(&nodes);
    for kind in Kind::ALL {
        // A full copy is the same for any number of nodes.
        if kind == Kind::FullCopy && !first {
            continue;
        }
        let busy = session.busy("making keys and tables");
        let set = KeySet::new(keys, size.value_bits());
        let (candidate, rate) = kind.build(&set)?;
        let flows = if kind == Kind::FullCopy { set.question_flows() } else { Vec::new() };
        let mut live = Live { candidate, set, flows, cursor: 0 };
        drop(busy);
        let (table, control) = live.candidate.bytes();
        let nodes = (kind != Kind::FullCopy).then_some(nodes);
        let subject = Subject {
            value_bits: Some(size.value_bits()),
            nodes,
            threads: Some(1),
            table_bytes: Some(table),
            ..session.subject(kind.name(), keys)
        };
        session.add(subject.clone(), Metric::BuildRate, Summary::exact(rate));
        session.add(subject.clone(), Metric::BitsPerKey, Summary::exact(table as f64 * 8.0 / keys as f64));
        session.add(subject.clone(), Metric::ControlBytes, Summary::exact(control as f64 / keys as f64));
        alternate(session, &mut live, turns(&subject))?;
        live.check()?;
    }
    Ok(())
}

fn turns<'a>(subject: &Subject) -> Vec<Turn<'a, Live>> {
    let lookups = Subject { batch: Some(candidate::BATCH), ..subject.clone() };
    let limit = Subject { variant: Some(LIMIT.to_owned()), ..lookups.clone() };
    let rows = vec![
        (limit, Metric::LookupRate),
        (lookups.clone(), Metric::LookupRate),
        (lookups, Metric::ShareOfLimit),
    ];
    let mut turns = vec![Turn::several(rows, |live: &mut Live| {
        let (limit, rate) = (live.limit()?, live.look_up()?);
        Ok(Found { figures: vec![limit, rate, rate / limit], table_bytes: None })
    })];
    for batch in BATCHES {
        let subject = Subject { batch: Some(batch), ..subject.clone() };
        let mut rows = vec![(subject.clone(), Metric::UpdateRate)];
        // A full copy has no stream of its own: whoever writes it is told keys and values.
        if subject.nodes.is_some() {
            rows.push((subject, Metric::DeltaBytes));
        }
        turns.push(Turn::several(rows, move |live: &mut Live| live.change(batch)));
    }
    turns
}

impl Live {
    /// Lookups a second; every answer is compared.
    fn look_up(&self) -> Result<f64, BenchError> {
        let passes = LEAST_LOOKUPS.div_ceil(self.set.len());
        let mut answers: Vec<u8> = self.set.answers.iter().map(|answer| !answer).collect();
        let seconds = self.candidate.look_up((&self.set.questions, &self.flows), passes, &mut answers)?;
        crate::timing::check(self.candidate.name(), &self.set, &answers)?;
        Ok((passes * self.set.len()) as f64 / seconds)
    }

    /// What the memory allows, of the first of them: changes have moved what lookups read since the last run.
    fn limit(&self) -> Result<f64, BenchError> {
        let some = self.set.len().min(limit::MOST);
        let questions = (&self.set.questions[..some], &self.flows[..some.min(self.flows.len())]);
        let replay = Replay::told(&*self.candidate, some, |table, tell| table.touched(questions, tell));
        let told = || BenchError::check(self.candidate.name(), "it does not tell what it reads");
        replay.ok_or_else(told)?.rate(LEAST_LOOKUPS.div_ceil(some), candidate::BATCH, 1)
    }

    /// Changes a second, so many at a time, and bytes of deltas a change.
    fn change(&mut self, batch: usize) -> Result<Found, BenchError> {
        let count = if batch == 1 { 1 << 15 } else { 1 << 17 };
        let mask = u8::MAX >> (8 - self.set.value_bits);
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            let place = self.cursor % self.set.len();
            self.cursor += 1;
            let value = self.set.answers[place].wrapping_add(1) & mask;
            self.set.answers[place] = value;
            changes.push((self.set.questions[place], self.flows.get(place).copied(), value));
        }
        let changed = self.candidate.change(&changes, batch)?;
        let mut figures = vec![count as f64 / changed.seconds];
        figures.extend(changed.bytes.map(|bytes| bytes as f64 / count as f64));
        Ok(Found { figures, table_bytes: None })
    }

    fn check(&self) -> Result<(), BenchError> {
        self.look_up().map(|_| ())
    }
}
