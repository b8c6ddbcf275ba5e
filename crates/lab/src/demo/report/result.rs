//! The result of a run, as written to JSON and drawn.

use crate::demo::config::{CAPACITY_BUDGET_BYTES, DemoConfig};
use crate::demo::report::{svg, table};
use crate::demo::stopwatch::SLICES;
use crate::ledger::Totals;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::machine::{self, Processor};
use scalebricks_report::exhibit::{Conclusion, Exhibits};
use scalebricks_report::pages::{Evidence, Picture, Text};
use scalebricks_report::provenance;
use scalebricks_report::stored::{self, Interned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewest flows and packets of a run that pages show: those of `scalebricks demo` without options.
const PAGE_FLOWS: u64 = 1_000_000;
const PAGE_PACKETS: u64 = 5_000_000;

/// A run: its conditions, and one result per architecture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Nodes in each cluster.
    pub nodes: usize,
    /// Flows pinned to them.
    pub flows: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads of the nodes.
    pub threads: usize,
    /// The results, in the order of the ScaleBricks paper's Figure 2.
    pub architectures: Vec<ArchitectureResult>,
    /// `synthetic`, or the capture that was replayed.
    pub input: String,
    /// The key profile.
    #[serde(deserialize_with = "stored::interned")]
    pub key: Interned,
    /// Flows pinned to each node.
    pub flows_per_node: Vec<u64>,
    /// Memory per node for `capacity_flows`, bytes.
    pub capacity_budget_bytes: u64,
    /// The version of the program.
    #[serde(deserialize_with = "stored::interned")]
    pub version: Interned,
    /// The commit, followed by `-dirty` if sources had uncommitted changes; `unknown` outside a checkout.
    pub commit: String,
    /// The date in UTC.
    pub date: String,
    /// The command that repeats the run, without paths of this machine.
    pub command: String,
    /// The machine.
    pub machine: Machine,
}

/// A machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's brand.
    pub cpu: String,
    /// Its family number.
    pub cpu_family: Option<u32>,
    /// Its model number.
    pub cpu_model: Option<u32>,
    /// Cores available to the process.
    pub cores: usize,
}

/// The result of one architecture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArchitectureResult {
    /// The architecture.
    #[serde(deserialize_with = "stored::interned")]
    pub name: Interned,
    /// Forwarding rates.
    #[serde(flatten)]
    pub speed: Speed,
    /// Crossings of the fabric per packet that left.
    pub hops_mean: f64,
    /// Most crossings by one packet.
    pub hops_max: u8,
    /// Table sizes and fabric bytes.
    #[serde(flatten)]
    pub footprint: Footprint,
    /// Flows that fitted when the tables were filled.
    pub capacity_flows: u64,
    /// Packets put in: `packets_out + sum(dropped) + lost`.
    pub packets_in: u64,
    /// Packets that left. A fragmented packet counts once, ICMP errors do not count.
    pub packets_out: u64,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that neither left nor were dropped.
    pub lost: u64,
    /// Packets that left at the wrong place, changed, or twice, or were dropped without cause.
    pub misdelivered: u64,
    /// Outer fragments that left in place of whole packets.
    pub fragments_made: u64,
    /// Packets that left as fragments.
    pub packets_fragmented: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// Flows that fit by the paper's formula, whose entries have 64 bits.
    pub capacity_formula_flows: u64,
    /// The first problems, in words.
    pub problems: Vec<String>,
}

/// Forwarding rates of all nodes together, million packets per second. All zero if less than 50 ms were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Over all timed packets.
    pub mpps: f64,
    /// The slowest slice.
    pub mpps_min: f64,
    /// The median slice.
    pub mpps_median: f64,
    /// The fastest slice.
    pub mpps_max: f64,
}

/// The memory and fabric bytes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Bytes on the fabric, with Ethernet headers.
    pub fabric_bytes: u64,
    /// The GPT, bytes at the node where it is largest.
    pub gpt_bytes_per_node: u64,
    /// The FIB, bytes at the node where it is largest.
    pub fib_bytes_per_node: u64,
}

impl ArchitectureResult {
    /// The result of an architecture, with the totals of its ledger and the measured and computed capacity.
    pub fn new(
        architecture: Architecture,
        footprint: Footprint,
        totals: &Totals,
        speed: Speed,
        (capacity_flows, capacity_formula_flows): (u64, u64),
    ) -> Self {
        Self {
            name: architecture.name(),
            speed,
            hops_mean: totals.hops_mean(),
            hops_max: totals.hops_max,
            footprint,
            capacity_flows,
            packets_in: totals.packets_in,
            packets_out: totals.packets_out,
            dropped: totals.dropped.iter().map(|(&reason, &packets)| (reason.to_owned(), packets)).collect(),
            lost: totals.lost,
            misdelivered: totals.misdelivered,
            fragments_made: totals.fragments_made,
            packets_fragmented: totals.packets_fragmented,
            icmp_sent: totals.icmp_sent,
            capacity_formula_flows,
            problems: totals.problems.lines(),
        }
    }

    /// Whether no packet was lost or misdelivered.
    pub const fn is_clean(&self) -> bool {
        self.lost == 0 && self.misdelivered == 0
    }
}

impl Report {
    /// The report of a run of this program.
    pub fn new(
        config: &DemoConfig,
        input: String,
        flows_per_node: Vec<u64>,
        architectures: Vec<ArchitectureResult>,
    ) -> Self {
        let Processor { brand: cpu, family: cpu_family, model: cpu_model } = Processor::here();
        Self {
            nodes: config.size.get(),
            flows: flows_per_node.iter().sum(),
            seed: config.seed,
            threads: config.threads,
            architectures,
            input,
            key: config.policy.key_profile.name(),
            flows_per_node,
            capacity_budget_bytes: CAPACITY_BUDGET_BYTES as u64,
            version: env!("CARGO_PKG_VERSION"),
            commit: provenance::commit(),
            date: machine::date(),
            command: provenance::command_line(std::env::args()),
            machine: Machine { cpu, cpu_family, cpu_model, cores: machine::cores() },
        }
    }

    /// Whether no architecture lost or misdelivered a packet.
    pub fn is_clean(&self) -> bool {
        self.architectures.iter().all(ArchitectureResult::is_clean)
    }

    /// The content of pages. Its slices count as runs: every rate has their range beside it.
    ///
    /// # Errors
    /// The error of drawing its picture.
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

    /// ScaleBricks compared with full duplication, if both were run.
    fn conclusion(&self) -> Option<String> {
        let ours = self.architectures.iter().find(|result| result.name == "scalebricks")?;
        let theirs = self.architectures.iter().find(|result| result.name == table::BASELINE)?;
        let memory = table::ratio(self, ours, |result| table::table_bytes(result) as f64)?;
        let rate = table::ratio(self, ours, |result| result.speed.mpps)?;
        let ((ours, our_speed), (theirs, their_speed)) = ((ours, ours.speed), (theirs, theirs.speed));
        Some(format!(
            "A packet crosses the switch {:.2} times on average with ScaleBricks and {:.2} times with a full copy of the \
             table at every node. The tables of a node take {memory:.2} times the memory, and packets leave at {rate:.2} \
             times the rate ({:.2} to {:.2} Mpps in ten slices of the run, beside {:.2} to {:.2}).",
            ours.hops_mean,
            theirs.hops_mean,
            our_speed.mpps_min,
            our_speed.mpps_max,
            their_speed.mpps_min,
            their_speed.mpps_max
        ))
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
    fn pages_show_a_complete_run_as_it_was_stored() {
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
