//! The synthetic run: the same flows and the same packets through each architecture.

use super::config::{CAPACITY_BUDGET_BYTES, DemoConfig};
use super::contestant::{Contestant, ContestantError, ROUND};
use super::population::Population;
use super::stopwatch::SLICES;
use super::traffic::Traffic;
use crate::demo::capacity;
use crate::demo::report::result::{ArchitectureResult, Machine, Report};
use rayon::prelude::*;
use scalebricks_apps::gateway::FlowTablesError;
use scalebricks_apps::gateway::{Architecture, FlowSpec};
use scalebricks_console::interrupt::{Interrupt, Interrupted};
use scalebricks_console::machine;
use scalebricks_console::memory;
use scalebricks_console::output::{Console, Progress};
use scalebricks_console::quantity::{bytes, count, short_count};
use scalebricks_report::provenance;
use std::time::Instant;

/// Why a synthetic run ended early.
#[derive(Debug, thiserror::Error)]
pub enum SyntheticError {
    /// The user wants it so.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// An architecture could not go on.
    #[error(transparent)]
    Contestant(#[from] ContestantError),
    /// The tables would not fit.
    #[error(
        "the tables would take about {}, but {} are available; take fewer --flows or --nodes, or --arch scalebricks \
         alone",
        bytes(*.needed),
        bytes(*.available)
    )]
    Memory {
        /// Bytes the tables take, about.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// The capacity could not be measured.
    #[error("measuring how many flows fit: {0}")]
    Capacity(#[from] FlowTablesError),
}

/// Memory all clusters may take together, bytes, for the architectures to run side by side.
const SIDE_BY_SIDE_BYTES: u64 = 2 << 30;

/// Bytes a flow takes in one full copy of the FIB, about: two keys, their state, and some room.
const FLOW_BYTES: u64 = 96;

/// Rounds of a run below which there is no warm-up.
const WARM_UP_FROM: u64 = 4;

/// Runs the architectures one after the other, or slice by slice in turn if memory permits.
///
/// # Errors
/// [`SyntheticError`].
pub fn run(config: &DemoConfig, console: &Console, interrupt: &Interrupt) -> Result<Report, SyntheticError> {
    let side_by_side = table_bytes(config, &config.architectures) <= SIDE_BY_SIDE_BYTES;
    let at_once = if side_by_side { config.architectures.len().max(1) } else { 1 };
    for group in config.architectures.chunks(at_once) {
        check_memory(table_bytes(config, group))?;
    }
    let population =
        Population::new(config.seed, config.flows, config.policy.key_profile, config.size, config.skew);
    let flows: Vec<FlowSpec> = (0..population.flows()).into_par_iter().map(|n| population.spec(n)).collect();
    let mut flows_per_node = vec![0; config.size.get()];
    for flow in &flows {
        flows_per_node[flow.node.index()] += 1;
    }
    console.note(&introduction(config, &flows_per_node, side_by_side));
    let run = Run {
        config,
        console,
        interrupt,
        traffic: Traffic::new(config.seed, population, config.size),
        flows,
    };
    let mut results = Vec::new();
    for group in config.architectures.chunks(at_once) {
        results.extend(run.group(group, &flows_per_node)?);
    }
    Ok(Report {
        nodes: config.size.get(),
        flows: u64::from(config.flows),
        seed: config.seed,
        threads: config.threads,
        architectures: results,
        input: "synthetic".to_owned(),
        key: config.policy.key_profile.name(),
        flows_per_node,
        capacity_budget_bytes: CAPACITY_BUDGET_BYTES as u64,
        version: env!("CARGO_PKG_VERSION"),
        commit: provenance::commit(),
        date: machine::date(),
        command: provenance::command_line(std::env::args()),
        machine: Machine::here(),
    })
}

struct Run<'a> {
    config: &'a DemoConfig,
    console: &'a Console,
    interrupt: &'a Interrupt,
    traffic: Traffic,
    flows: Vec<FlowSpec>,
}

impl Run<'_> {
    /// Runs these architectures in turn, slice by slice, so that a disturbance of the machine meets all of them.
    fn group(
        &self,
        group: &[Architecture],
        flows_per_node: &[u64],
    ) -> Result<Vec<ArchitectureResult>, SyntheticError> {
        let mut contestants = Vec::new();
        for &architecture in group {
            contestants.push(self.build(architecture)?);
        }
        let bars: Vec<Progress> =
            group.iter().map(|a| self.console.progress(a.name(), self.config.packets)).collect();
        for slice in 0..SLICES {
            for (contestant, bar) in contestants.iter_mut().zip(&bars) {
                self.slice(contestant, slice, bar)?;
            }
        }
        bars.iter().for_each(Progress::finish);
        let mut results = Vec::new();
        for contestant in contestants {
            self.interrupt.check()?;
            let architecture = contestant.architecture();
            let busy = self.console.busy(architecture.name(), "filling 16 MiB a node");
            let capacity = capacity::measure(self.config, architecture)?;
            drop(busy);
            results.push(contestant.finish(flows_per_node, capacity)?);
        }
        Ok(results)
    }

    fn build(&self, architecture: Architecture) -> Result<Contestant, SyntheticError> {
        self.interrupt.check()?;
        let busy = self.console.busy(architecture.name(), "filling tables");
        let start = Instant::now();
        let contestant = Contestant::new(architecture, self.config, &self.traffic, &self.flows)?;
        let seconds = start.elapsed().as_secs_f64();
        drop(busy);
        self.console.note(&format!("{:<18} tables filled in {seconds:.1} s", architecture.name()));
        Ok(contestant)
    }

    /// One slice of one architecture's packets.
    fn slice(&self, contestant: &mut Contestant, slice: usize, bar: &Progress) -> Result<(), SyntheticError> {
        let rounds = self.config.packets.div_ceil(ROUND as u64);
        let bound = |slice: usize| rounds * slice as u64 / SLICES as u64;
        for round in bound(slice)..bound(slice + 1) {
            self.interrupt.check()?;
            let first = round * ROUND as u64;
            let packets = (self.config.packets - first).min(ROUND as u64);
            // The first round meets cold caches and memory that was never touched: checked, but not timed.
            let is_warm_up = round == 0 && rounds >= WARM_UP_FROM;
            contestant.round(&self.traffic, first, packets as usize, (!is_warm_up).then_some(slice))?;
            bar.add(packets);
        }
        if contestant.mpps() > 0.0 {
            bar.message(format!("{:.2} Mpps", contestant.mpps()));
        }
        Ok(())
    }
}

/// Refuses tables that do not fit the memory, before the system ends the process.
fn check_memory(needed: u64) -> Result<(), SyntheticError> {
    match memory::available_bytes() {
        Some(available) if needed > available => Err(SyntheticError::Memory { needed, available }),
        _ => Ok(()),
    }
}

/// What the tables of these architectures take together, about.
fn table_bytes(config: &DemoConfig, architectures: &[Architecture]) -> u64 {
    let copies = |architecture: &Architecture| match architecture {
        Architecture::FullDuplication | Architecture::Vlb => config.size.get() as u64,
        Architecture::HashPartition => 2,
        Architecture::ScaleBricks => 1 + config.size.get() as u64 / 8,
    };
    architectures.iter().map(copies).sum::<u64>() * u64::from(config.flows) * FLOW_BYTES
}

fn introduction(config: &DemoConfig, flows_per_node: &[u64], side_by_side: bool) -> String {
    let share: Vec<String> = flows_per_node.iter().map(|&flows| short_count(flows)).collect();
    let order = if side_by_side { "in turn, a tenth at a time" } else { "one after the other" };
    format!(
        "{} flows on {} nodes, pinned by region{}: {}\n\
         {} packets an architecture: IMIX 7:4:1 (64, 594, 1518-byte frames), 3 of 4 downstream, random ingress node\n\
         architectures run {order}, on {} thread{}; making and checking packets is not timed",
        count(u64::from(config.flows)),
        config.size.get(),
        if config.skew { ", skewed" } else { "" },
        share.join(", "),
        count(config.packets),
        config.threads,
        if config.threads == 1 { "" } else { "s" },
    )
}
