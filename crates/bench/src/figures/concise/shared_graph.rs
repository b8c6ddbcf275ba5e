//! Switches with the same names but their own actions: built from one shared graph, compared with one graph
//! each.

use super::{megabytes, millions, paper};
use crate::error::BenchError;
use crate::keys::mix;
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::timing;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::PageTable;
use scalebricks_tables::othello::{OthelloBuilder, OthelloControl, Params, SharedControl};
use scalebricks_types::{KeyHash, PartitionCount};

/// Bytes per name: control and query structures of the largest number of switches, and their source.
const NAME_BYTES: u64 = 40 * SWITCHES[SWITCHES.len() - 1] as u64 + 60;
/// Numbers of switches with the same names.
const SWITCHES: [usize; 3] = [1, 4, 16];
/// Names added and deleted at all switches in each run.
const CHANGES: usize = 20_000;
/// Text after the number of switches in variants.
const VARIANT: &str = "switches of ";
/// Suffixes of the variants.
const HOW: [&str; 2] = ["one graph", "a graph each"];

/// The action of a name at a switch.
fn action(name: KeyHash, switch: usize, value_bits: u8) -> u16 {
    (mix(name.get() ^ (switch as u64) << 48) & ((1 << value_bits) - 1)) as u16 // at most 16 bits
}

/// Measures and compares both ways.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.first_value_bits(4);
    for names in options.keys(&[65_536], &[1_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

/// The control structures of all switches.
enum Network {
    Shared(Box<SharedControl>),
    Each(Vec<OthelloControl>),
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
    fn actions(&self, name: KeyHash) -> Vec<u16> {
        (0..self.switches).map(|switch| action(name, switch, self.params.value_bits())).collect()
    }

    fn entries(&self, switch: usize) -> Vec<(KeyHash, u16)> {
        self.names.iter().map(|&name| (name, action(name, switch, self.params.value_bits()))).collect()
    }

    /// Builds the control and query structures of all switches.
    fn build(&self, is_shared: bool) -> Result<Network, BenchError> {
        let failed = |error: &dyn std::error::Error| BenchError::check("othello", error.to_string());
        let build = |switch| {
            let control = OthelloBuilder::new(self.params).build(&self.entries(switch));
            control.map_err(|error| failed(&error))
        };
        if !is_shared {
            let controls = (0..self.switches).map(build).collect::<Result<Vec<_>, _>>()?;
            for control in &controls {
                drop(control.export());
            }
            return Ok(Network::Each(controls));
        }
        let mut shared = SharedControl::new(build(0)?).map_err(|error| failed(&error))?;
        for switch in 1..self.switches {
            let told = |name| action(name, switch, self.params.value_bits());
            shared.add_switch(told).map_err(|error| failed(&error))?;
        }
        for switch in 0..self.switches {
            drop(shared.export(switch).map_err(|error| failed(&error))?);
        }
        Ok(Network::Shared(Box::new(shared)))
    }

    /// Adds and deletes all other names at every switch; returns the number of name changes.
    fn churn(&self, network: &mut Network) -> Result<usize, BenchError> {
        let failed = |error: &dyn std::error::Error| BenchError::check("othello", error.to_string());
        let actions: Vec<_> = self.others.iter().map(|&name| self.actions(name)).collect();
        for (&name, actions) in self.others.iter().zip(&actions) {
            match network {
                Network::Shared(shared) => {
                    shared.insert(name, actions).map_err(|error| failed(&error))?;
                }
                Network::Each(controls) => {
                    for (control, &action) in controls.iter_mut().zip(actions) {
                        control.insert(name, action).map_err(|error| failed(&error))?;
                    }
                }
            }
        }
        for &name in &self.others {
            match network {
                Network::Shared(shared) => {
                    shared.remove(name).map_err(|error| failed(&error))?;
                }
                Network::Each(controls) => {
                    for control in controls {
                        control.remove(name).map_err(|error| failed(&error))?;
                    }
                }
            }
        }
        Ok(2 * self.others.len())
    }

    /// Checks the action of each name at every switch.
    fn check(&self, network: &Network) -> Result<(), BenchError> {
        let Network::Shared(shared) = network else { return Ok(()) };
        for switch in 0..self.switches {
            let is_wrong = |&name: &KeyHash| {
                shared.get(switch, name) != Ok(Some(action(name, switch, self.params.value_bits())))
            };
            if let Some(name) = self.names.iter().copied().find(is_wrong) {
                return Err(BenchError::check(
                    "othello",
                    format!("wrong action of {name:?} at switch {switch}"),
                ));
            }
        }
        Ok(())
    }
}

impl Network {
    fn bytes(&self) -> u64 {
        match self {
            Self::Shared(shared) => shared.control_bytes() as u64,
            Self::Each(controls) => controls.iter().map(|control| control.control_bytes() as u64).sum(),
        }
    }
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let failed = |error: &dyn std::error::Error| BenchError::Usage(error.to_string());
    let partitions = PartitionCount::new(16).map_err(|error| failed(&error))?;
    let params = Params::for_keys(names, value_bits, partitions).map_err(|error| failed(&error))?;
    let set = Population::of(Kind::Mac, names, value_bits);
    let others = Kind::Mac.hashes(set.len(), CHANGES.min(set.len() / 8));
    let scenes = SWITCHES.map(|switches| NetworkSetup {
        names: set.hashes.clone(),
        others: others.clone(),
        params,
        switches,
    });
    let mut turns = Vec::new();
    for scene in &scenes {
        for (is_shared, how) in [true, false].into_iter().zip(HOW) {
            let case = session
                .case("othello", names)
                .variant(format!("{} {VARIANT}{how}", scene.switches))
                .value_bits(value_bits)
                .threads(1);
            let rows = [Metric::BuildRate, Metric::UpdateRate].map(|metric| (case.clone(), metric));
            let mut is_checked = false;
            turns.push(Measurement::several(rows.to_vec(), move |(): &mut ()| {
                let (network, build) = timing::pinned(|| scene.build(is_shared))?;
                let mut network = network?;
                let (changes, churn) = timing::pinned(|| scene.churn(&mut network))?;
                if !std::mem::replace(&mut is_checked, true) {
                    scene.check(&network)?;
                }
                let figures = vec![scene.names.len() as f64 / build, changes? as f64 / churn];
                Ok(RunResult { figures, table_bytes: Some(network.bytes()) })
            }));
        }
    }
    interleave(session, &mut (), turns)
}

fn show(session: &mut Session<'_>) {
    let heads = [
        "names",
        "switches",
        "how",
        "paper",
        "build, all switches, s",
        "control, MB",
        "names added or deleted, M/s",
    ];
    let mut sheet = PageTable::new("concise-switches", &heads);
    let rows: Vec<Row> = session.rows().to_vec();
    let mut most = Vec::new();
    for pair in rows.windows(2) {
        let [build, churn] = pair else { continue };
        let Some((switches, how)) =
            build.case.variant.as_deref().and_then(|variant| variant.split_once(&format!(" {VARIANT}")))
        else {
            continue;
        };
        if (build.metric, churn.metric) != (Metric::BuildRate, Metric::UpdateRate) {
            continue;
        }
        let seconds = build.case.keys as f64 / build.median;
        sheet.rows.push(vec![
            short_count(build.case.keys),
            switches.to_owned(),
            how.to_owned(),
            paper::NOT_GIVEN.to_owned(),
            format!("{seconds:.3}"),
            build.case.table_bytes.map_or_else(String::new, megabytes),
            millions(&churn.summary()),
        ]);
        most.push((build.case.keys, switches.to_owned(), seconds, build.case.table_bytes, churn.median));
    }
    if let [.., one, each] = &most[..] {
        let times = |more: f64, less: f64| format!("{:.1} times", more / less);
        let bytes = |of: &Option<u64>| of.unwrap_or(0) as f64;
        session.add_conclusion(
            "concise-switches-conclusion",
            format!(
                "For {} switches of {} names, one graph is made {} as fast as a graph each, takes {:.0} % of the memory, and adds \
                 and deletes names at {} the rate.",
                one.1,
                short_count(one.0),
                times(each.2, one.2),
                100.0 * bytes(&one.3) / bytes(&each.3).max(1.0),
                times(one.4, each.4),
            ),
        );
    }
    session.add_table(sheet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn switches_of_one_graph_are_measured_beside_a_graph_each() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        assert_eq!(session.rows().len(), SWITCHES.len() * HOW.len() * 2);
        let bytes: Vec<_> = session.rows().iter().map(|row| row.case.table_bytes.unwrap()).collect();
        let [.., shared, _, each, _] = bytes[..] else { panic!("rows are there") };
        assert!(3 * shared < each, "{shared} {each}");
        let (_, exhibits) = session.finish();
        assert_eq!(exhibits.sheets[0].rows.len(), SWITCHES.len() * HOW.len());
        assert!(exhibits.conclusions[0].sentence.contains("16 switches"));
    }
}
