//! A node's counters, computed from its elements' counters.

use crate::gateway::appliance;
use crate::gateway::counters::{NodeStats, SOURCES, Source};
use crate::gateway::wiring::name;
use scalebricks_elements::gateway::reason::{DropCounts, DropReason};
use scalebricks_graph::spec::RUN_DROPS;
use scalebricks_graph::{Ledger, Reading};

/// The element counters behind each of a node's counters.
#[derive(Debug)]
pub(crate) struct Readings {
    /// By index in [`SOURCES`]: the counters to add and to subtract.
    counters: Vec<[Vec<Reading>; 2]>,
    drops: Vec<(DropReason, Reading)>,
    waiting: Vec<Reading>,
}

impl Readings {
    /// The counters of a node's elements.
    pub(crate) fn of(ledger: &Ledger) -> Self {
        let of = |sources: &[Source]| -> Vec<Reading> {
            sources.iter().filter_map(|(element, counter)| ledger.reading(element, counter)).collect()
        };
        let reason = |element, name| {
            let of_runner = || match name {
                "no_slot" => DropReason::NoSlot,
                name => of_appliance(element, name),
            };
            DropReason::of_name(name).unwrap_or_else(of_runner)
        };
        let drops = ledger.readings().filter(|(_, is_drop, ..)| *is_drop);
        Self {
            counters: SOURCES.iter().map(|(_, add, less)| [of(add), of(less)]).collect(),
            drops: drops.map(|(element, _, name, reading)| (reason(element, name), reading)).collect(),
            waiting: of(&[(name::TO_FABRIC, "waiting")]),
        }
    }

    /// The current values.
    pub(crate) fn stats(&self) -> NodeStats {
        let mut stats = NodeStats { dropped: self.dropped(), ..NodeStats::default() };
        let sum = |readings: &[Reading]| readings.iter().map(Reading::get).sum::<u64>();
        for ((field, ..), [add, less]) in SOURCES.iter().zip(&self.counters) {
            *field(&mut stats) = sum(add).saturating_sub(sum(less));
        }
        stats
    }

    fn dropped(&self) -> DropCounts {
        let mut dropped = DropCounts::default();
        self.drops.iter().for_each(|(reason, reading)| dropped.add(*reason, reading.get()));
        dropped
    }

    /// Frames that wait for the fabric.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.iter().map(Reading::get).sum()
    }
}

/// The reason of an appliance's element, or of the runner, whose own reasons are bugs.
pub(crate) fn of_appliance(element: &str, name: &str) -> DropReason {
    let is_of_runner = RUN_DROPS.iter().any(|drop| drop.name == name);
    if appliance::owns(element) && !is_of_runner { DropReason::Refused } else { DropReason::GraphError }
}

// All of the runner's own reasons except `no_slot` are bugs.
const _: () = assert!(RUN_DROPS.len() == 6, "a new reason of the runner needs a place among a node's");
