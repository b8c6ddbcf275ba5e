//! What was found: one table an architecture, and everything as JSON.

use super::plan::{Family, Plan};
use super::traffic::Verdict;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::machine::{self, Processor};
use scalebricks_report::exhibit::Exhibits;
use scalebricks_report::pages::{Evidence, Text};
use scalebricks_report::provenance;
use scalebricks_report::stored::{self, Interned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of the program.
    #[serde(deserialize_with = "stored::interned")]
    pub version: Interned,
    /// The commit of the sources.
    pub commit: String,
    /// The day, in Greenwich.
    pub date: String,
    /// The command that checks this, without files of this machine.
    pub command: String,
    /// The processor.
    pub cpu: String,
    /// The number of its family.
    pub cpu_family: Option<u32>,
    /// Its number in the family.
    pub cpu_model: Option<u32>,
    /// Processor, and how many of its cores there are.
    pub machine: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How nodes meet their interfaces.
    pub driver: super::plan::Driver,
    /// Whether all checks passed.
    pub passed: bool,
    /// Each check.
    pub outcomes: Vec<Outcome>,
}

/// A check.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The architecture of the nodes.
    #[serde(deserialize_with = "stored::interned")]
    pub architecture: Interned,
    /// What was checked.
    pub check: String,
    /// IPv4 or IPv6, where it is about one of them.
    pub family: Option<Family>,
    /// Where packets entered: a node, or all of them.
    pub ingress: Ingress,
    /// The handling node of the phone; none if it is about more than one.
    pub handling_node: Option<u8>,
    /// Whether all is well.
    pub passed: bool,
    /// In a few words.
    pub says: String,
}

/// Where packets entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ingress {
    /// Nowhere else: it is about the node itself.
    Itself,
    /// At one node.
    Node(u8),
    /// Anywhere: the kernel spreads flows.
    Any,
}

impl fmt::Display for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself => f.write_str("-"),
            Self::Node(node) => write!(f, "{node}"),
            Self::Any => f.write_str("any"),
        }
    }
}

impl Report {
    /// A report without a check.
    pub fn new(plan: &Plan) -> Self {
        let Processor { brand: cpu, family: cpu_family, model: cpu_model } = Processor::here();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: provenance::commit(),
            date: machine::date(),
            command: provenance::command_line(std::env::args()),
            machine: format!("{cpu}, {} cores", machine::cores()),
            cpu,
            cpu_family,
            cpu_model,
            nodes: plan.size.get(),
            driver: plan.driver,
            passed: true,
            outcomes: Vec::new(),
        }
    }

    /// One more check.
    pub fn add(&mut self, outcome: Outcome) {
        self.passed &= outcome.passed;
        self.outcomes.push(outcome);
    }

    /// What pages show of it. Nothing is timed over several runs: a check passed, or not.
    pub fn evidence(self) -> Evidence {
        let output = Text { name: "output".to_owned(), lines: self.arranged(&ContentArrangement::Disabled) };
        let summary = Text { name: "summary".to_owned(), lines: self.summary() };
        Evidence {
            processor: Processor { brand: self.cpu, family: self.cpu_family, model: self.cpu_model },
            commit: self.commit,
            runs: None,
            runs_are: "runs",
            is_quick: false,
            exhibits: Exhibits::default(),
            texts: vec![output, summary],
            pictures: Vec::new(),
        }
    }

    /// As text for this terminal, without a newline at the end.
    pub fn render(&self) -> String {
        self.arranged(&ContentArrangement::Dynamic)
    }

    fn arranged(&self, arrangement: &ContentArrangement) -> String {
        let mut parts = Vec::new();
        let mut architectures: Vec<_> = self.outcomes.iter().map(|outcome| outcome.architecture).collect();
        architectures.dedup();
        for architecture in architectures {
            let of_it = || self.outcomes.iter().filter(|outcome| outcome.architecture == architecture);
            parts.push(format!("{architecture}\n{}", self.table(of_it(), arrangement)));
            parts.extend(lines(of_it()));
        }
        parts.push(self.sum());
        parts.join("\n")
    }

    /// What is not said for each node by itself.
    fn summary(&self) -> String {
        let mut parts: Vec<String> = lines(self.outcomes.iter()).collect();
        parts.push(self.sum());
        parts.join("\n")
    }

    fn sum(&self) -> String {
        let (all, failed) =
            (self.outcomes.len(), self.outcomes.iter().filter(|outcome| !outcome.passed).count());
        let sum = if failed == 0 {
            format!("{all} checks passed")
        } else {
            format!("{failed} of {all} checks FAILED")
        };
        format!("{sum}. {}, scalebricks {}", self.machine, self.version)
    }

    /// A row a check and ingress, a column a handling node.
    fn table<'a>(
        &self,
        outcomes: impl Iterator<Item = &'a Outcome>,
        arrangement: &ContentArrangement,
    ) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(arrangement.clone());
        let nodes = (0..self.nodes).map(|node| format!("handled at {node}"));
        let header = ["check".to_owned(), "enters at".to_owned()].into_iter().chain(nodes);
        table.set_header(header);
        let mut rows: BTreeMap<(usize, Ingress), Vec<Option<&Outcome>>> = BTreeMap::new();
        let mut names: Vec<String> = Vec::new();
        for outcome in outcomes {
            let Some(node) = outcome.handling_node else { continue };
            let name = match outcome.family {
                Some(family) => format!("{}, {}", outcome.check, family.name()),
                None => outcome.check.clone(),
            };
            let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let row = rows.entry((place, outcome.ingress)).or_insert_with(|| vec![None; self.nodes]);
            if let Some(cell) = row.get_mut(usize::from(node)) {
                *cell = Some(outcome);
            }
        }
        for ((name, ingress), cells) in rows {
            let cells = cells.into_iter().map(|cell| {
                Cell::new(cell.map_or_else(|| "-".to_owned(), tell)).set_alignment(CellAlignment::Right)
            });
            let head = [Cell::new(&names[name]), Cell::new(ingress)];
            table.add_row(head.into_iter().chain(cells));
        }
        table
    }
}

fn tell(outcome: &Outcome) -> String {
    if outcome.passed { outcome.says.clone() } else { format!("FAILED {}", outcome.says) }
}

/// What the outcomes of a round have in common.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// The architecture of the nodes.
    pub architecture: &'static str,
    /// Where packets enter.
    pub ingress: Ingress,
}

impl Round {
    /// A check of one phone's packets.
    pub fn at(self, check: &str, family: Option<Family>, node: u8, verdict: Verdict) -> Outcome {
        Outcome { family, handling_node: Some(node), ..self.of_all(check, verdict) }
    }

    /// A check of everything.
    pub fn of_all(self, check: &str, verdict: Verdict) -> Outcome {
        Outcome {
            architecture: self.architecture,
            check: check.to_owned(),
            family: None,
            ingress: self.ingress,
            handling_node: None,
            passed: verdict.passed,
            says: verdict.says,
        }
    }
}

/// A line for each check of all nodes together.
fn lines<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> impl Iterator<Item = String> {
    outcomes.filter(|outcome| outcome.handling_node.is_none()).map(|outcome| {
        let Outcome { check, says, passed, .. } = outcome;
        format!("{:<6} {check}: {says}", if *passed { "ok" } else { "FAILED" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::plan::Driver;
    use scalebricks_apps::gateway::Architecture;
    use scalebricks_types::ClusterSize;

    #[test]
    fn the_table_has_a_row_a_check_and_ingress_and_failures_stand_out() {
        let size = ClusterSize::new(2).unwrap();
        let architecture = Architecture::ScaleBricks;
        let plan = Plan {
            name: "sb".to_owned(),
            size,
            ues_per_node: 1,
            driver: Driver::Mixed,
            architecture,
            is_controlled: false,
            gpt: scalebricks_tables::compact::Structure::default(),
            nats: "nats-server".into(),
            log_servers: 1,
            flows: 0,
        };
        let mut report = Report::new(&plan);
        let verdict = |passed, says: &str| Verdict { passed, says: says.to_owned() };
        for (ingress, node, passed) in
            [(Ingress::Any, 0, true), (Ingress::Node(1), 0, true), (Ingress::Node(1), 1, false)]
        {
            let round = Round { architecture: "scalebricks", ingress };
            report.add(round.at("ping", Some(Family::V6), node, verdict(passed, "20 of 20")));
        }
        let round = Round { architecture: "scalebricks", ingress: Ingress::Any };
        report.add(round.of_all("checksums", verdict(true, "none wrong")));
        let text = report.render();
        assert_eq!(text.matches("ping, IPv6").count(), 2);
        assert!(text.contains("FAILED 20 of 20") && text.contains("ok     checksums: none wrong"), "{text}");
        assert!(text.contains("1 of 4 checks FAILED") && !report.passed);
        let json = serde_json::to_string(&report).unwrap();
        let evidence = serde_json::from_str::<Report>(&json).unwrap().evidence();
        let [output, summary] = [0, 1].map(|at| evidence.texts[at].lines.as_str());
        assert!(output.contains("ok     checksums: none wrong") && output.contains('│'), "{output}");
        assert!(summary.contains("ok     checksums: none wrong") && !summary.contains('│'), "{summary}");
    }
}
