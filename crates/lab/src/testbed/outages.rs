//! Outages: lets one part after the other of a cluster fail under three loads, with flows from the control plane. Reports for each
//! outage which flows it disturbed, and for how long. Base station and router do not react: they keep sending to the same addresses,
//! and all packets of a phone to the same entry node.
//!
//! | module | content |
//! |---|---|
//! | [`list`] | the outages, with the flows that they affect and the limits |
//! | [`failure`] | causes and repairs failures |
//! | [`loads`], [`track`] | the loads, and the losses of each flow |
//! | [`cluster`], `takeover` | the cluster meanwhile: its nodes, its view, the handling nodes of flows |
//! | [`isolation`] | a node's failure compared with the same under hash partition |
//! | `stall` | stalls of the machine itself |
//! | [`results`] | rows, tables, JSON |

pub mod cluster;
pub mod failure;
pub mod isolation;
pub mod list;
pub mod loads;
pub mod results;
mod stall;
mod takeover;
pub mod track;

use super::LabError;
use super::args::OutagesArgs;
use super::base_station::counters::Counts;
use super::counters::NodeCounts;
use super::lab::Lab;
use super::probes;
use super::tools;
use crate::pages;
use cluster::FailingLab;
use list::{Check, ISOLATION, LogKind, Outage, Place};
use loads::{CALM, Loads};
use results::{Observed, Results, Row};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_types::NodeId;
use stall::StallMonitor;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;
use track::Moments;

/// Most tries of an outage while tries are void.
const TRIES: usize = 3;

/// Builds a lab, tests outages one after the other, removes it.
///
/// # Errors
/// [`LabError`] if the lab itself does not work.
pub fn run(args: &OutagesArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let wanted = list::named(&args.names).map_err(|name| {
        LabError::Usage(format!("there is no outage called {name}; docs/outages.md names all"))
    })?;
    if args.page {
        pages::ensure_reproducible()?;
    }
    tools::ensure(args.shape.install, console, interrupt)?;
    let mut plan = args.shape.plan(Architecture::ScaleBricks)?;
    plan.is_controlled = true;
    let kind = if plan.log_servers > 1 { LogKind::Several } else { LogKind::Any };
    let wanted = wanted.into_iter().filter(|outage| outage.log == LogKind::Any || outage.log == kind);
    let mut results = Results::new(&plan);
    let mut lab = Lab::build(plan, console, interrupt)?;
    lab.context().use_own_entries()?;
    let done = all(&mut lab, wanted, args, &mut results);
    let passed = done.is_ok() && results.passed();
    if !passed {
        lab.keep(&args.out)?;
    }
    args.result.write(&results, Some(Path::new("out/outages.json")), console)?;
    args.result.print(&results, Results::render, console)?;
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
) -> Result<(), LabError> {
    let mut wanted = wanted.peekable();
    if wanted.peek().is_some() {
        lab.start(Architecture::ScaleBricks)?;
    }
    // Each outage is at another node than the last: with mixed drivers, over packet sockets and XDP sockets.
    let nodes: Vec<NodeId> = lab.plan.size.nodes().collect();
    let node = |number: usize| nodes[nodes.len() - 1 - number % nodes.len()];
    let mut places = (0..).map(|number| Place { node: node(number), peer: node(number + 1) });
    for outage in wanted {
        lab.console.note(outage.title);
        let mut void = Vec::new();
        let row = loop {
            let Some(place) = places.next() else { return Ok(()) };
            let row = FailingLab { lab, place, helpers: Vec::new() }.test(outage)?;
            if !row.observed.has_recovered {
                lab.console.note("  restarting all nodes with an empty log");
                lab.restart()?;
            }
            match row.is_void() {
                Some(why) if void.len() + 1 < TRIES => {
                    lab.console.note(&format!("  once more: {why}"));
                    void.push(why);
                }
                _ => break Row { void, ..row },
            }
        };
        lab.console.note(&format!("  {}", row.summary()));
        results.rows.push(row);
    }
    if args.names.is_empty() || args.names.iter().any(|name| name == ISOLATION) {
        results.isolation = isolation::run(lab)?;
    }
    Ok(())
}

/// Counters beside those of the loads.
#[derive(Debug, Default)]
struct Counted {
    base_station: Counts,
    nodes: BTreeMap<NodeId, NodeCounts>,
    epoch: u64,
}

impl FailingLab<'_, '_> {
    fn counted(&self) -> Result<Counted, LabError> {
        let context = self.lab.context();
        let (base_station, nodes) = (context.base_station_counts()?, context.current_counts());
        Ok(Counted { base_station, nodes, epoch: self.epoch() })
    }

    /// Causes and repairs a failure, and evaluates the loads.
    ///
    /// # Errors
    /// [`LabError`] if the lab itself does not work, or the user wants to stop. Other errors are part of the row.
    fn test(&mut self, outage: &'static Outage) -> Result<Row, LabError> {
        let mut failures = Vec::new();
        if outage.restarts_before {
            let restarted = self.restart();
            self.note_failure(restarted, &mut failures)?;
        }
        let before = self.counted()?;
        let stalls = StallMonitor::start();
        let lasts = Duration::from_secs(outage.lasts_s);
        let loads = Loads::start(self.lab.context(), lasts)?;
        let at = probes::now();
        let caused = outage.failure.cause(self);
        self.note_failure(caused, &mut failures)?;
        if outage.check == Check::Takeover {
            failures.extend(self.await_takeover(self.place.node)?);
        }
        while probes::now() < at + lasts.as_secs_f64() {
            self.lab.interrupt.check()?;
            thread::sleep(Duration::from_millis(5));
        }
        let moments = Moments { from: loads.from(), at, repaired: probes::now() };
        let repaired = outage.failure.repair(self);
        self.note_failure(repaired, &mut failures)?;
        let recovered = self.await_recovery();
        let order_s = recovered.as_ref().ok().map(Duration::as_secs_f64);
        self.note_failure(recovered.map(drop), &mut failures)?;
        thread::sleep(CALM);
        let loads = loads.finish(&self.lab.plan, self.lab.interrupt)?;
        let after = self.counted()?;
        let running = self.lab.check_running();
        self.note_failure(running, &mut failures)?;
        if failures.is_empty() {
            // Flows return to the nodes of the plan.
            let imported = self.lab.context().import_at_last();
            self.note_failure(imported, &mut failures)?;
        }
        let observed = Observed {
            order_s,
            wrong_packets: wrong_tunnels(&after.base_station) - wrong_tunnels(&before.base_station),
            error_indications: after.base_station.error_indications - before.base_station.error_indications,
            view_changes: after.epoch.saturating_sub(before.epoch),
            drops: drops(&before.nodes, &after.nodes),
            longest_stall_ms: stalls.longest().as_millis() as u64, // far below 2^64
            has_recovered: failures.is_empty(),
            failures,
        };
        Ok(Row::new(outage, self.place, moments, &loads, observed))
    }

    /// Records an error, unless the user wants to stop.
    fn note_failure(&self, done: Result<(), LabError>, failures: &mut Vec<String>) -> Result<(), LabError> {
        if let Err(error) = done {
            self.lab.interrupt.check()?;
            failures.push(error.to_string());
        }
        Ok(())
    }
}

/// Packets of tunnels that do not exist, or of another phone's tunnel.
const fn wrong_tunnels(counts: &Counts) -> u64 {
    counts.bad_teid + counts.wrong_ue + counts.wrong_qfi
}

/// Packets that all nodes dropped, by reason. For a node that was restarted, all that it counts.
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
    fn drops_of_all_nodes_are_summed_by_reason() {
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
