//! Outages: breaks one part after the other of a cluster whose flows come from the control plane, under three loads at
//! once. Reports for each outage how long it disturbed which flows. Base station and router change nothing: they keep
//! sending to the same addresses, and all packets of a phone to those of one node.
//!
//! | module | what it holds |
//! |---|---|
//! | [`list`] | all outages, each with whom it concerns and what is allowed |
//! | `acts` | how they are made and undone |
//! | [`loads`], [`track`] | the loads, and what became of each flow's packets |
//! | `scene`, `heirs` | the lab meanwhile: its nodes, its view, where flows are handled |
//! | `isolation` | a node's death beside the same with hash partition |
//! | `stall` | for how long the machine itself stood still |
//! | [`results`] | rows, tables, JSON |

mod acts;
mod heirs;
mod isolation;
pub mod list;
pub mod loads;
pub mod results;
mod scene;
mod stall;
pub mod track;

use super::LabError;
use super::args::OutagesArgs;
use super::base_station;
use super::base_station::counters::Counts;
use super::counters::{NodeCounts, Observer};
use super::probes;
use super::session::Lab;
use super::tools;
use crate::pages;
use list::{ISOLATION, LogKind, LooksAt, Outage, Place};
use loads::Loads;
use results::{Cluster, Results, Row};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, output, status};
use scalebricks_types::NodeId;
use scene::Scene;
use stall::Watch;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;
use track::Moments;

/// How long loads run before anything happens, and after all is in order again.
const CALM: Duration = Duration::from_secs(1);

/// How long loads run before they count.
const WARM: Duration = Duration::from_millis(500);

/// How often an outage is tried until a try says something of it.
const TRIES: usize = 3;

/// How long transfers take beyond what they are to outlast.
const BEYOND: Duration = Duration::from_secs(3);

/// Builds a lab, breaks things in it one after the other, removes it.
///
/// # Errors
/// [`LabError`] if the lab itself does not work.
pub fn run(args: &OutagesArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let wanted = list::named(&args.names).map_err(|name| LabError::Usage {
        what: format!("there is no outage called {name}; docs/outages.md names all"),
    })?;
    if args.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(args.shape.install, console, interrupt)?;
    let plan = args.shape.plan(Architecture::ScaleBricks);
    let mut plan = plan.map_err(|error| LabError::Usage { what: error.to_string() })?;
    plan.is_controlled = true;
    let kind = if plan.log_servers > 1 { LogKind::Several } else { LogKind::Any };
    let wanted = wanted.into_iter().filter(|outage| outage.log == LogKind::Any || outage.log == kind);
    let mut results = Results::new(&plan);
    let mut lab = Lab::build(plan, console, interrupt)?;
    lab.network().steer()?;
    let done = all(&mut lab, wanted, args, &mut results, console, interrupt);
    let passed = done.is_ok() && results.passed();
    if !passed {
        lab.keep(&args.out)?;
    }
    console.keep(&args.json, &output::json(&results)?)?;
    console.result(&results.render())?;
    done?;
    if args.page {
        pages::keep(pages::OUTAGES, &results, console)?;
    }
    Ok(if passed { status::SUCCESS } else { status::FAILURE })
}

fn all(
    lab: &mut Lab<'_>,
    wanted: impl Iterator<Item = &'static Outage>,
    args: &OutagesArgs,
    results: &mut Results,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let mut wanted = wanted.peekable();
    if wanted.peek().is_some() {
        lab.start(Architecture::ScaleBricks)?;
    }
    // Each befalls another node than the last: over packet sockets and XDP sockets, if there are both.
    let nodes: Vec<NodeId> = lab.plan.size.nodes().collect();
    let node = |number: usize| nodes[nodes.len() - 1 - number % nodes.len()];
    let mut befallen = 0;
    for outage in wanted {
        console.note(outage.title);
        let mut void = Vec::new();
        let row = loop {
            let place = Place { node: node(befallen), peer: node(befallen + 1) };
            befallen += 1;
            let mut scene = Scene { lab, place, held: Vec::new(), interrupt };
            let row = scene.befall(outage)?;
            if !row.is_over {
                console.note("  all nodes are started anew");
                lab.start_anew()?;
            }
            match row.is_void() {
                Some(why) if void.len() + 1 < TRIES => {
                    console.note(&format!("  once more: {why}"));
                    void.push(why);
                }
                _ => break Row { void, ..row },
            }
        };
        console.note(&format!("  {}", row.summary()));
        results.rows.push(row);
    }
    if args.names.is_empty() || args.names.iter().any(|name| name == ISOLATION) {
        results.isolation = isolation::run(lab, console, interrupt)?;
    }
    Ok(())
}

/// What is counted beside the loads.
#[derive(Debug, Default)]
struct Counted {
    base_station: Counts,
    nodes: BTreeMap<NodeId, NodeCounts>,
    epoch: u64,
}

impl Scene<'_, '_> {
    fn counted(&self) -> Result<Counted, LabError> {
        let processes = self.lab.processes();
        let observer = Observer { plan: &self.lab.plan, processes, interrupt: self.interrupt };
        let base_station = base_station::counts(&processes.base_station_socket())?;
        Ok(Counted { base_station, nodes: observer.now(), epoch: self.epoch(None) })
    }

    /// Lets an outage befall the lab, and says what became of the loads.
    ///
    /// # Errors
    /// [`LabError`] if the lab itself does not work, or the user wants to stop; what else goes wrong is in the row.
    fn befall(&mut self, outage: &'static Outage) -> Result<Row, LabError> {
        let mut wrong = Vec::new();
        let prepared = (outage.prepare)(self);
        self.note_failure(prepared, &mut wrong)?;
        let before = self.counted()?;
        let watch = Watch::start();
        let lasts = Duration::from_secs(outage.lasts_s);
        let loads = Loads::start(self.lab.processes(), CALM + lasts + BEYOND)?;
        thread::sleep(WARM);
        let from = probes::now();
        thread::sleep(CALM);
        let at = probes::now();
        let made = (outage.make)(self);
        self.note_failure(made, &mut wrong)?;
        if outage.looks_at == LooksAt::Heirs {
            match self.one_heir_each(self.place.node) {
                Ok(found) => wrong.extend(found),
                Err(error) => self.note_failure(Err(error), &mut wrong)?,
            }
        }
        while probes::now() < at + lasts.as_secs_f64() {
            self.interrupt.check()?;
            thread::sleep(Duration::from_millis(5));
        }
        let undone = probes::now();
        let healed = (outage.undo)(self);
        self.note_failure(healed, &mut wrong)?;
        let order = self.await_order();
        let order_s = order.as_ref().ok().map(Duration::as_secs_f64);
        self.note_failure(order.map(drop), &mut wrong)?;
        thread::sleep(CALM);
        let loads = loads.finish(&self.lab.plan, self.interrupt)?;
        let after = self.counted()?;
        let alive = self.lab.check_alive();
        self.note_failure(alive, &mut wrong)?;
        // Flows go back to where the plan has them.
        let is_over = wrong.is_empty();
        if is_over {
            let imported = self.lab.processes().import_at_last();
            self.note_failure(imported, &mut wrong)?;
        }
        let is_over = wrong.is_empty();
        let cluster = Cluster {
            view_changes: after.epoch.saturating_sub(before.epoch),
            error_indications: after.base_station.error_indications - before.base_station.error_indications,
            wrong_tunnels: wrong_tunnels(&after.base_station) - wrong_tunnels(&before.base_station),
            drops: drops(&before.nodes, &after.nodes),
            order_s,
            longest_stall: watch.longest(),
            wrong,
            is_over,
        };
        Ok(Row::new(outage, self.place, Moments { from, at, undone }, &loads, cluster))
    }

    /// Keeps what did not succeed; the user's wish to stop is not among that.
    fn note_failure(&self, done: Result<(), LabError>, wrong: &mut Vec<String>) -> Result<(), LabError> {
        match done {
            Ok(()) => Ok(()),
            Err(LabError::Interrupted(interrupted)) => Err(interrupted.into()),
            Err(error) => {
                self.interrupt.check()?;
                wrong.push(error.to_string());
                Ok(())
            }
        }
    }
}

/// Packets that came out of a tunnel that is not there, or of another phone's.
const fn wrong_tunnels(counts: &Counts) -> u64 {
    counts.bad_teid + counts.wrong_ue + counts.wrong_qfi
}

/// What all nodes dropped, by reason. Of a node that was started anew all that it counts.
fn drops(
    before: &BTreeMap<NodeId, NodeCounts>,
    after: &BTreeMap<NodeId, NodeCounts>,
) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for (node, counts) in after {
        let earlier = before.get(node).cloned().unwrap_or_default();
        for (reason, count) in counts.since(&earlier).dropped {
            *all.entry(reason).or_default() += count;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_nodes_are_added_up_by_reason() {
        let counts = |missing, full| NodeCounts {
            dropped: [("no_neighbour", missing), ("port_full", full)]
                .map(|(reason, count)| (reason.to_owned(), count))
                .into(),
            ..NodeCounts::default()
        };
        let [a, b, c] = [0, 1, 2].map(NodeId::new);
        let before = BTreeMap::from([(a, counts(3, 0)), (b, counts(9, 9))]);
        let after = BTreeMap::from([(a, counts(5, 0)), (b, counts(1, 9)), (c, counts(4, 0))]);
        assert_eq!(drops(&before, &after), BTreeMap::from([("no_neighbour".to_owned(), 6)]));
    }
}
