//! The synthetic run: the same flows and packets through each architecture.

use super::architecture_run::{ArchitectureRun, ROUND};
use super::audit::FlowSums;
use super::config::DemoConfig;
use super::population::Population;
use super::stopwatch::SLICES;
use super::traffic::Traffic;
use crate::demo::report::result::{ArchitectureResult, Report};
use rayon::prelude::*;
use scalebricks_apps::gateway::{Architecture, ClusterError, FlowSpec, FlowTablesError};
use scalebricks_console::interrupt::{Interrupt, Interrupted};
use scalebricks_console::memory;
use scalebricks_console::output::{Console, Progress};
use scalebricks_console::quantity::{bytes, count, short_count};
use scalebricks_io::PoolError;
use scalebricks_types::NodeId;
use std::time::Instant;

/// Why a synthetic run did not complete.
#[derive(Debug, thiserror::Error)]
pub enum SyntheticError {
    /// The user interrupted it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The cluster could not be created.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Packet buffers could not be created.
    #[error("packet buffers: {0}")]
    Pool(#[from] PoolError),
    /// The packets of a round do not fit.
    #[error(
        "{0} has no room for the packets of a round: this is a bug, please report it with the command line"
    )]
    NoRoom(&'static str),
    /// The flow counters of a node contradict the packets that left it.
    #[error(
        "{architecture}: the flow counters of {node} sum to {counted:?}, but {left:?} left (downstream packets and \
         bytes, upstream packets and bytes): this is a bug, please report it with the command line"
    )]
    Counters {
        /// The architecture.
        architecture: &'static str,
        /// The node.
        node: NodeId,
        /// What the node counted.
        counted: FlowSums,
        /// What left it.
        left: FlowSums,
    },
    /// The tables would not fit in memory.
    #[error(
        "the tables would take about {}, but {} are available; take fewer --flows or --nodes, or --arch scalebricks \
         alone",
        bytes(*.needed),
        bytes(*.available)
    )]
    Memory {
        /// Estimated bytes of the tables.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// The capacity could not be measured.
    #[error("measuring how many flows fit: {0}")]
    Capacity(#[from] FlowTablesError),
}

/// Most bytes of all clusters together if the architectures run in turn.
const IN_TURN_BYTES: u64 = 2 << 30;

/// Estimated bytes per flow in a full copy of the FIB: two keys, their state, and free slots.
const FLOW_BYTES: u64 = 96;

/// Shorter runs have no warm-up round.
const WARM_UP_FROM: u64 = 4;

/// Runs the architectures slice by slice in turn, or one after the other if memory is short.
///
/// # Errors
/// [`SyntheticError`].
pub fn run(config: &DemoConfig, console: &Console, interrupt: &Interrupt) -> Result<Report, SyntheticError> {
    let in_turn = table_bytes(config, &config.architectures) <= IN_TURN_BYTES;
    let at_once = if in_turn { config.architectures.len().max(1) } else { 1 };
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
    console.note(&introduction(config, &flows_per_node, in_turn));
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
    Ok(Report::new(config, "synthetic".to_owned(), flows_per_node, results))
}

struct Run<'a> {
    config: &'a DemoConfig,
    console: &'a Console,
    interrupt: &'a Interrupt,
    traffic: Traffic,
    flows: Vec<FlowSpec>,
}

impl Run<'_> {
    /// Runs these architectures slice by slice in turn, so that a disturbance of the machine affects all of them.
    fn group(
        &self,
        group: &[Architecture],
        flows_per_node: &[u64],
    ) -> Result<Vec<ArchitectureResult>, SyntheticError> {
        let runs = group.iter().map(|architecture| self.build(*architecture));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        let bars: Vec<Progress> =
            group.iter().map(|a| self.console.progress(a.name(), self.config.packets)).collect();
        for slice in 0..SLICES {
            for (run, bar) in runs.iter_mut().zip(&bars) {
                self.slice(run, slice, bar)?;
            }
        }
        bars.iter().for_each(Progress::finish);
        let finish = |run: ArchitectureRun| {
            self.interrupt.check()?;
            let busy = self.console.busy(run.architecture.name(), "filling 16 MiB a node");
            let capacity = self.config.capacity(run.architecture)?;
            drop(busy);
            run.finish(flows_per_node, capacity)
        };
        runs.into_iter().map(finish).collect()
    }

    fn build(&self, architecture: Architecture) -> Result<ArchitectureRun, SyntheticError> {
        self.interrupt.check()?;
        let busy = self.console.busy(architecture.name(), "filling tables");
        let start = Instant::now();
        let run = ArchitectureRun::new(architecture, self.config, &self.traffic, &self.flows)?;
        let seconds = start.elapsed().as_secs_f64();
        drop(busy);
        self.console.note(&format!("{:<18} tables filled in {seconds:.1} s", architecture.name()));
        Ok(run)
    }

    /// One slice of one architecture's packets.
    fn slice(&self, run: &mut ArchitectureRun, slice: usize, bar: &Progress) -> Result<(), SyntheticError> {
        let rounds = self.config.packets.div_ceil(ROUND as u64);
        let bound = |slice: usize| rounds * slice as u64 / SLICES as u64;
        for round in bound(slice)..bound(slice + 1) {
            self.interrupt.check()?;
            let first = round * ROUND as u64;
            let packets = (self.config.packets - first).min(ROUND as u64);
            // The first round is checked but not timed: caches are cold, and memory pages are not mapped yet.
            let is_warm_up = round == 0 && rounds >= WARM_UP_FROM;
            run.round(&self.traffic, first, packets as usize, (!is_warm_up).then_some(slice))?;
            bar.add(packets);
        }
        if run.mpps() > 0.0 {
            bar.message(format!("{:.2} Mpps", run.mpps()));
        }
        Ok(())
    }
}

/// Refuses tables that do not fit in memory, before the system kills the process.
fn check_memory(needed: u64) -> Result<(), SyntheticError> {
    match memory::available_bytes() {
        Some(available) if needed > available => Err(SyntheticError::Memory { needed, available }),
        _ => Ok(()),
    }
}

/// Estimated bytes of the tables of these architectures.
fn table_bytes(config: &DemoConfig, architectures: &[Architecture]) -> u64 {
    let copies = |architecture: &Architecture| match architecture {
        Architecture::FullDuplication | Architecture::Vlb => config.size.get() as u64,
        Architecture::HashPartition => 2,
        Architecture::ScaleBricks => 1 + config.size.get() as u64 / 8,
    };
    architectures.iter().map(copies).sum::<u64>() * u64::from(config.flows) * FLOW_BYTES
}

fn introduction(config: &DemoConfig, flows_per_node: &[u64], in_turn: bool) -> String {
    let share: Vec<String> = flows_per_node.iter().map(|&flows| short_count(flows)).collect();
    let order = if in_turn { "in turn, a tenth at a time" } else { "one after the other" };
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
