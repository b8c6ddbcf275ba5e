//! A node's counters, as its elements count.

use crate::elements::name;
use crate::reason::{DropCounts, DropReason};
use crate::stats::NodeStats;
use scalebricks_graph::spec::RUN_DROPS;
use scalebricks_graph::{Ledger, Reading};

/// Where each of a node's counters is.
#[derive(Debug)]
pub(crate) struct Readings {
    /// By place in [`SOURCES`].
    counters: Vec<Vec<Reading>>,
    drops: Vec<(DropReason, Reading)>,
    waiting: Vec<Reading>,
}

type Field = fn(&mut NodeStats) -> &mut u64;

/// A node's counters: the sum of these counters of its elements.
const SOURCES: &[(Field, &[(&str, &str)])] = &[
    (|stats| &mut stats.internet_in, &[(name::FROM_INTERNET, "received")]),
    (|stats| &mut stats.base_station_in, &[(name::FROM_BASE_STATION, "received")]),
    (|stats| &mut stats.fabric_in, &[(name::FROM_FABRIC, "received")]),
    (|stats| &mut stats.internet_out, &[(name::TO_INTERNET, "sent")]),
    (|stats| &mut stats.base_station_out, &[(name::TO_BASE_STATION, "sent")]),
    (|stats| &mut stats.fabric_out, &[(name::TO_FABRIC, "sent")]),
    (|stats| &mut stats.fragments_made, &[(name::HANDLE, "fragments_made")]),
    (|stats| &mut stats.packets_fragmented, &[(name::HANDLE, "packets_fragmented")]),
    (|stats| &mut stats.icmp_sent, &[(name::HANDLE, "icmp_sent")]),
    (|stats| &mut stats.forwarded_again, &[(name::STEER, "forwarded_again")]),
    (|stats| &mut stats.relayed, &[(name::TO_FABRIC, "relayed")]),
    (|stats| &mut stats.probes_in, &[(name::PROBES, "probes_received")]),
    (|stats| &mut stats.probes_out, &[(name::TO_FABRIC, "probes_sent")]),
    (
        |stats| &mut stats.probes_unsent,
        &[(name::PROBES, "probes_unsent"), (name::TO_FABRIC, "probes_unsent")],
    ),
];

impl Readings {
    /// Those of a node's elements.
    pub(crate) fn of(ledger: &Ledger) -> Self {
        let of = |sources: &[(&str, &str)]| -> Vec<Reading> {
            sources.iter().filter_map(|(element, counter)| ledger.reading(element, counter)).collect()
        };
        let reason = |name| {
            let of_runner = || if name == "no_slot" { DropReason::NoSlot } else { DropReason::GraphError };
            DropReason::of_name(name).unwrap_or_else(of_runner)
        };
        let drops = ledger.readings().filter(|(_, is_drop, ..)| *is_drop);
        Self {
            counters: SOURCES.iter().map(|(_, sources)| of(sources)).collect(),
            drops: drops.map(|(_, _, name, reading)| (reason(name), reading)).collect(),
            waiting: of(&[(name::TO_FABRIC, "waiting")]),
        }
    }

    /// The values now.
    pub(crate) fn stats(&self) -> NodeStats {
        let mut stats = NodeStats { dropped: self.dropped(), ..NodeStats::default() };
        for ((field, _), readings) in SOURCES.iter().zip(&self.counters) {
            *field(&mut stats) = readings.iter().map(Reading::get).sum();
        }
        stats.fabric_in -= stats.probes_in.min(stats.fabric_in);
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

/// The runner's own reasons that are an error in the program.
const _: () = assert!(RUN_DROPS.len() == 6, "a new reason of the runner needs a place among a node's");
