//! What a run found, as it is written to JSON and drawn.

use crate::demo::report::{svg, table};
use crate::demo::stopwatch::SLICES;
use crate::ledger::Totals;
use scalebricks_apps::gateway::{Architecture, Cluster, FlowTables};
use scalebricks_console::machine::{self, Processor};
use scalebricks_report::exhibit::{Conclusion, Exhibits};
use scalebricks_report::pages::{Evidence, Picture, Text};
use scalebricks_report::stored::{self, Interned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewest flows and packets of a run that pages show: those of `scalebricks demo` without options.
const PAGE_FLOWS: u64 = 1_000_000;
const PAGE_PACKETS: u64 = 5_000_000;

/// A whole run: the conditions, then one result an architecture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Nodes in each cluster.
    pub nodes: usize,
    /// Flows pinned to them.
    pub flows: u64,
    /// What everything random was drawn from.
    pub seed: u64,
    /// Threads the nodes ran on.
    pub threads: usize,
    /// The results, in the order of the ScaleBricks paper's Figure 2.
    pub architectures: Vec<ArchitectureResult>,
    /// `synthetic`, or the capture that was replayed.
    pub input: String,
    /// What of a downstream packet is its key.
    #[serde(deserialize_with = "stored::interned")]
    pub key: Interned,
    /// Flows pinned to each node.
    pub flows_per_node: Vec<u64>,
    /// Memory the flows of `capacity_flows` had to fit in, bytes a node.
    pub capacity_budget_bytes: u64,
    /// The version that measured.
    #[serde(deserialize_with = "stored::interned")]
    pub version: Interned,
    /// The commit that measured, with `-dirty` behind it if sources were changed; `unknown` outside a checkout.
    pub commit: String,
    /// The day, in Greenwich.
    pub date: String,
    /// The command that measures this, without files of this machine.
    pub command: String,
    /// Where it was measured.
    pub machine: Machine,
}

/// Where a run was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The processor, as the system calls it.
    pub cpu: String,
    /// The number of its family.
    pub cpu_family: Option<u32>,
    /// Its number in the family.
    pub cpu_model: Option<u32>,
    /// Cores the process may use.
    pub cores: usize,
}

/// What one architecture did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArchitectureResult {
    /// The architecture.
    #[serde(deserialize_with = "stored::interned")]
    pub name: Interned,
    /// Million packets a second, all nodes together, over all timed packets.
    pub mpps: f64,
    /// Crossings of the fabric per packet that left.
    pub hops_mean: f64,
    /// Most crossings by one packet.
    pub hops_max: u8,
    /// Bytes the fabric carried, Ethernet headers included.
    pub fabric_bytes: u64,
    /// The lookup table, bytes at the node where it is largest.
    pub gpt_bytes_per_node: u64,
    /// The FIB, bytes at the node where it is largest.
    pub fib_bytes_per_node: u64,
    /// Flows that fitted when the real tables were filled.
    pub capacity_flows: u64,
    /// Packets put in: `packets_out + sum(dropped) + lost`.
    pub packets_in: u64,
    /// Packets that left; a fragmented one counts once, ICMP answers do not.
    pub packets_out: u64,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Packets never seen again.
    pub lost: u64,
    /// Packets that left elsewhere, changed, twice, or were dropped for no good reason.
    pub misdelivered: u64,
    /// Outer fragments that left in place of whole packets.
    pub fragments_made: u64,
    /// Packets that left as fragments.
    pub packets_fragmented: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// Flows that fit by the paper's formula, whose entries are 64 bits.
    pub capacity_formula_flows: u64,
    /// The slowest slice of the run, million packets a second.
    pub mpps_min: f64,
    /// The median slice.
    pub mpps_median: f64,
    /// The fastest slice.
    pub mpps_max: f64,
    /// The first problems, in words.
    pub problems: Vec<String>,
}

/// Forwarding rates, million packets a second. All zero where nothing was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Speed {
    /// Over all timed packets.
    pub overall: f64,
    /// Of the slowest slice.
    pub min: f64,
    /// Of the median slice.
    pub median: f64,
    /// Of the fastest slice.
    pub max: f64,
}

/// How many flows fit in the memory of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowCapacity {
    /// Found by filling the real tables.
    pub measured: u64,
    /// By the paper's formula.
    pub formula: u64,
}

/// What a cluster took of memory and of its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes the fabric carried, Ethernet headers included.
    pub fabric_bytes: u64,
    /// The lookup table, bytes at the node where it is largest.
    pub gpt_bytes_per_node: u64,
    /// The FIB, bytes at the node where it is largest.
    pub fib_bytes_per_node: u64,
}

impl Footprint {
    /// Of a cluster that is done.
    pub fn of(cluster: &Cluster) -> Self {
        let sizes = || cluster.tables().iter().map(FlowTables::sizes);
        Self {
            fabric_bytes: cluster.fabric_stats().bytes,
            gpt_bytes_per_node: sizes().map(|sizes| sizes.gpt_bytes as u64).max().unwrap_or(0),
            fib_bytes_per_node: sizes().map(|sizes| sizes.fib_bytes as u64).max().unwrap_or(0),
        }
    }
}

impl ArchitectureResult {
    /// The result of an architecture that is done, with what the ledger says of its packets.
    pub fn new(
        architecture: Architecture,
        footprint: Footprint,
        totals: &Totals,
        speed: Speed,
        capacity: FlowCapacity,
    ) -> Self {
        Self {
            name: architecture.name(),
            mpps: speed.overall,
            hops_mean: totals.hops_mean(),
            hops_max: totals.hops_max,
            fabric_bytes: footprint.fabric_bytes,
            gpt_bytes_per_node: footprint.gpt_bytes_per_node,
            fib_bytes_per_node: footprint.fib_bytes_per_node,
            capacity_flows: capacity.measured,
            packets_in: totals.packets_in,
            packets_out: totals.packets_out,
            dropped: totals.dropped.iter().map(|(&reason, &packets)| (reason.to_owned(), packets)).collect(),
            lost: totals.lost,
            misdelivered: totals.misdelivered,
            fragments_made: totals.fragments_made,
            packets_fragmented: totals.packets_fragmented,
            icmp_sent: totals.icmp_sent,
            capacity_formula_flows: capacity.formula,
            mpps_min: speed.min,
            mpps_median: speed.median,
            mpps_max: speed.max,
            problems: totals.problems.lines(),
        }
    }

    /// Nothing lost, nothing misdelivered.
    pub const fn is_clean(&self) -> bool {
        self.lost == 0 && self.misdelivered == 0
    }
}

impl Report {
    /// Nothing lost or misdelivered by any architecture.
    pub fn is_clean(&self) -> bool {
        self.architectures.iter().all(ArchitectureResult::is_clean)
    }

    /// What pages show of it. Its slices are its runs: their spread stands beside every rate.
    ///
    /// # Errors
    /// What is wrong with it, or with its picture.
    pub fn evidence(self) -> Result<Evidence, String> {
        let is_quick =
            self.flows < PAGE_FLOWS || self.architectures.iter().any(|r| r.packets_in < PAGE_PACKETS);
        let picture = Picture {
            file: "demo.svg".to_owned(),
            title: "Forwarding rate, crossings of the switch, table bytes and capacity of the architectures"
                .to_owned(),
            svg: svg::render(&self).map_err(|error| error.to_string())?,
        };
        let text = Text { name: "output".to_owned(), lines: table::wide(&self) };
        let said = self.conclusion().map(|sentence| Conclusion { name: "said".to_owned(), sentence });
        Ok(Evidence {
            processor: Processor {
                brand: self.machine.cpu,
                family: self.machine.cpu_family,
                model: self.machine.cpu_model,
            },
            commit: self.commit,
            runs: Some(SLICES),
            runs_are: "slices of one run",
            is_quick,
            exhibits: Exhibits { conclusions: said.into_iter().collect(), ..Exhibits::default() },
            texts: vec![text],
            pictures: vec![picture],
        })
    }

    /// What ScaleBricks comes to beside full duplication, if both were run.
    fn conclusion(&self) -> Option<String> {
        let ours = self.architectures.iter().find(|result| result.name == "scalebricks")?;
        let theirs = self.architectures.iter().find(|result| result.name == table::BASELINE)?;
        let memory = table::ratio(self, ours, |result| table::table_bytes(result) as f64)?;
        let rate = table::ratio(self, ours, |result| result.mpps)?;
        Some(format!(
            "A packet crosses the switch {:.2} times on average with ScaleBricks and {:.2} times with a full copy of the \
             table at every node. The tables of a node take {memory:.2} times the memory, and packets leave at {rate:.2} \
             times the rate ({:.2} to {:.2} Mpps in ten slices of the run, beside {:.2} to {:.2}).",
            ours.hops_mean, theirs.hops_mean, ours.mpps_min, ours.mpps_max, theirs.mpps_min, theirs.mpps_max
        ))
    }
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let Processor { brand: cpu, family: cpu_family, model: cpu_model } = Processor::here();
        Self { cpu, cpu_family, cpu_model, cores: machine::cores() }
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_PACKETS, Report};
    use crate::demo::report::sample;
    use scalebricks_console::output;
    use serde_json::Value;

    #[test]
    fn the_names_are_the_documented_ones() {
        let text = output::json(&sample::report()).unwrap();
        assert!(text.ends_with("}\n"));
        let value: Value = serde_json::from_str(&text).unwrap();
        for name in ["nodes", "flows", "seed", "threads"] {
            assert!(value[name].is_u64(), "{name}");
        }
        let result = &value["architectures"][0];
        assert_eq!(result["name"], "full-duplication");
        for name in ["mpps", "hops_mean"] {
            assert!(result[name].is_f64(), "{name}");
        }
        for name in [
            "hops_max",
            "fabric_bytes",
            "gpt_bytes_per_node",
            "fib_bytes_per_node",
            "capacity_flows",
            "packets_in",
            "packets_out",
            "lost",
            "misdelivered",
        ] {
            assert!(result[name].is_u64(), "{name}");
        }
        assert_eq!(result["dropped"]["no_buffer"], 5);
    }

    #[test]
    fn pages_show_a_whole_run_as_it_was_told() {
        let mut report = sample::report();
        for result in &mut report.architectures {
            result.packets_in = PAGE_PACKETS;
        }
        let text = output::json(&report).unwrap();
        let again: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(output::json(&again).unwrap(), text);
        let evidence = again.evidence().unwrap();
        assert!(
            !evidence.is_quick && evidence.texts[0].lines.contains("3.00 (1.50×)"),
            "{:?}",
            evidence.texts
        );
        let said = &evidence.exhibits.conclusions[0].sentence;
        assert!(said.contains("0.27 times the memory") && said.contains("1.50 times the rate"), "{said}");
        report.architectures[0].packets_in -= 1;
        assert!(report.evidence().unwrap().is_quick);
    }
}
