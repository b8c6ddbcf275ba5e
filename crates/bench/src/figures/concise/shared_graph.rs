//! Switches with the same names but their own actions: built from one shared graph, compared with one graph
//! each.

use super::{megabytes, millions, names, paper};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::keys::mix;
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::Sheet;
use crate::timing;
use scalebricks_tables::othello::{OthelloBuilder, OthelloControl, Params, SharedControl};
use scalebricks_types::{KeyHash, PartitionCount};

/// Bytes per name: control and query structures of the largest number of switches, and their source.
const NAME_BYTES: u64 = 40 * SWITCHES[SWITCHES.len() - 1] as u64 + 60;
/// Numbers of switches with the same names.
const SWITCHES: [usize; 3] = [1, 4, 16];
/// Names added and deleted at all switches in each run.
const CHANGES: usize = 20_000;
/// Text after the number of switches in variants.
const VARIANT: &str = " switches of ";
/// Suffixes of the variants.
const HOW: [&str; 2] = ["one graph", "a graph each"];
const NAME: &str = "othello";

/// The action of a name at a switch.
fn action(name: KeyHash, switch: usize, value_bits: u8) -> u16 {
    (mix(name.get() ^ (switch as u64) << 48) & ((1 << value_bits) - 1)) as u16 // at most 16 bits
}

/// Measures and compares both ways.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    for names in bench.sizes(&[65_536], &[1_000_000], NAME_BYTES)? {
        one(bench, names, bench.options.first_value_bits(4))?;
    }
    show(bench);
    Ok(())
}

/// The control structures of all switches.
enum Network {
    Shared(Box<SharedControl>),
    Each(Vec<OthelloControl>),
}

impl Network {
    fn bytes(&self) -> u64 {
        match self {
            Self::Shared(shared) => shared.control_bytes() as u64,
            Self::Each(controls) => controls.iter().map(|control| control.control_bytes() as u64).sum(),
        }
    }

    /// Adds a name with its action at each switch.
    fn insert(&mut self, name: KeyHash, actions: &[u16]) -> Result<(), BenchError> {
        match self {
            Self::Shared(shared) => shared.insert(name, actions).map(drop).of(NAME),
            Self::Each(controls) => controls
                .iter_mut()
                .zip(actions)
                .try_for_each(|(control, &action)| control.insert(name, action).map(drop).of(NAME)),
        }
    }

    /// Deletes a name at each switch.
    fn remove(&mut self, name: KeyHash) -> Result<(), BenchError> {
        match self {
            Self::Shared(shared) => shared.remove(name).map(drop).of(NAME),
            Self::Each(controls) => {
                controls.iter_mut().try_for_each(|control| control.remove(name).map(drop).of(NAME))
            }
        }
    }
}

/// What networks are built from.
struct NetworkSetup {
    names: Vec<KeyHash>,
    /// Names that are added and deleted.
    others: Vec<KeyHash>,
    params: Params,
    switches: usize,
}

impl NetworkSetup {
    fn action(&self, name: KeyHash, switch: usize) -> u16 {
        action(name, switch, self.params.value_bits())
    }

    /// Builds the control and query structures of all switches.
    fn build(&self, is_shared: bool) -> Result<Network, BenchError> {
        let build = |switch| {
            let entries = self.names.iter().map(|&name| (name, self.action(name, switch)));
            OthelloBuilder::new(self.params).build(&entries.collect::<Vec<_>>()).of(NAME)
        };
        if !is_shared {
            let controls = (0..self.switches).map(build).collect::<Result<Vec<_>, _>>()?;
            for control in &controls {
                drop(control.export());
            }
            return Ok(Network::Each(controls));
        }
        let mut shared = SharedControl::new(build(0)?).of(NAME)?;
        for switch in 1..self.switches {
            shared.add_switch(|name| self.action(name, switch)).of(NAME)?;
        }
        for switch in 0..self.switches {
            drop(shared.export(switch).of(NAME)?);
        }
        Ok(Network::Shared(Box::new(shared)))
    }

    /// Adds and deletes all other names at every switch; returns the number of name changes.
    fn churn(&self, network: &mut Network) -> Result<usize, BenchError> {
        let actions = |&name: &KeyHash| (0..self.switches).map(|switch| self.action(name, switch)).collect();
        let actions: Vec<Vec<u16>> = self.others.iter().map(actions).collect();
        for (&name, actions) in self.others.iter().zip(&actions) {
            network.insert(name, actions)?;
        }
        self.others.iter().try_for_each(|&name| network.remove(name))?;
        Ok(2 * self.others.len())
    }

    /// Checks the action of each name at every switch of a shared graph.
    fn check(&self, network: &Network) -> Result<(), BenchError> {
        let Network::Shared(shared) = network else { return Ok(()) };
        for switch in 0..self.switches {
            for &name in &self.names {
                let is_right = shared.get(switch, name) == Ok(Some(self.action(name, switch)));
                ensure(is_right, NAME, || format!("wrong action of {name:?} at switch {switch}"))?;
            }
        }
        Ok(())
    }
}

fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let partitions = PartitionCount::new(16).usage()?;
    let params = Params::for_keys(names, value_bits, partitions).usage()?;
    let set = Population::of(Kind::Mac, names, value_bits);
    let others = Kind::Mac.hashes(set.len(), CHANGES.min(set.len() / 8));
    let setups = SWITCHES.map(|switches| NetworkSetup {
        names: set.hashes.clone(),
        others: others.clone(),
        params,
        switches,
    });
    let mut turns = Vec::new();
    for setup in &setups {
        for (is_shared, how) in [true, false].into_iter().zip(HOW) {
            let case = bench
                .case(NAME, names)
                .variant(format!("{}{VARIANT}{how}", setup.switches))
                .value_bits(value_bits)
                .threads(1);
            let rows = [Metric::BuildRate, Metric::UpdateRate].map(|metric| (case.clone(), metric));
            let mut is_checked = false;
            turns.push(Measurement::several(rows.to_vec(), move |(): &mut ()| {
                let (network, build) = timing::pinned(|| setup.build(is_shared))?;
                let mut network = network?;
                let (changes, churn) = timing::pinned(|| setup.churn(&mut network))?;
                if !std::mem::replace(&mut is_checked, true) {
                    setup.check(&network)?;
                }
                let figures = vec![setup.names.len() as f64 / build, changes? as f64 / churn];
                Ok(RunResult { figures, table_bytes: Some(network.bytes()) })
            }));
        }
    }
    interleave(bench, &mut (), turns)
}

fn show(bench: &mut BenchRun<'_>) {
    let rows = bench.rows().to_vec();
    let seconds = |build: &Row| build.case.keys as f64 / build.median;
    let builds = rows.iter().metric(Metric::BuildRate).filter_map(|build| {
        let (switches, how) = build.case.variant_text().split_once(VARIANT)?;
        Some((switches, how, build, build.beside(&rows, Metric::UpdateRate)?))
    });
    let builds: Vec<(&str, &str, &Row, &Row)> = builds.collect();
    let sheet = Sheet::new("concise-switches", &builds)
        .column("names", |(_, _, build, _)| names(build))
        .column("switches", |(switches, ..)| *switches)
        .column("how", |(_, how, ..)| *how)
        .column("paper", |_| paper::NOT_GIVEN)
        .column("build, all switches, s", |(_, _, build, _)| format!("{:.3}", seconds(build)))
        .column("control, MB", |(_, _, build, _)| build.case.table_bytes.map(megabytes).unwrap_or_default())
        .column("names added or deleted, M/s", |(.., churn)| millions(churn));
    if let [.., (switches, _, one, churn), (_, _, each, churn_each)] = builds[..] {
        let times = |more: f64, less: f64| format!("{:.1} times", more / less);
        let bytes = |of: &Row| of.case.table_bytes.unwrap_or(0) as f64;
        let sentence = format!(
            "For {switches} switches of {} names, one graph is made {} as fast as a graph each, takes {:.0} % of the memory, and adds \
             and deletes names at {} the rate.",
            names(&one),
            times(seconds(each), seconds(one)),
            100.0 * bytes(one) / bytes(each).max(1.0),
            times(churn.median, churn_each.median),
        );
        bench.add_conclusion("concise-switches-conclusion", sentence);
    }
    bench.add_table(sheet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn switches_of_one_graph_are_measured_beside_a_graph_each() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        assert_eq!(bench.rows().len(), SWITCHES.len() * HOW.len() * 2);
        let bytes: Vec<_> = bench.rows().iter().map(|row| row.case.table_bytes.unwrap()).collect();
        let [.., shared, _, each, _] = bytes[..] else { panic!("rows are there") };
        assert!(3 * shared < each, "{shared} {each}");
        let (_, exhibits) = bench.finish();
        assert_eq!(exhibits.sheets[0].rows.len(), SWITCHES.len() * HOW.len());
        assert!(exhibits.conclusions[0].sentence.contains("16 switches"));
    }
}
