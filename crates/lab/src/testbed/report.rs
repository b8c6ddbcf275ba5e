//! The results of the checks: one table per architecture, and all of them as JSON.

use super::ends::Verdict;
use super::plan::{Family, Plan};
use crate::pages::Source;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::machine;
use scalebricks_report::pages::{Evidence, Text};
use scalebricks_report::provenance;
use scalebricks_report::stored::{self, Interned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// Program, commit and processor.
    #[serde(flatten)]
    pub source: Source,
    /// The date in UTC.
    pub date: String,
    /// The command that repeats the run, without paths of this machine.
    pub command: String,
    /// The processor and its cores.
    pub machine: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The sockets over which nodes use their interfaces.
    pub driver: super::plan::Driver,
    /// Whether all checks passed.
    pub passed: bool,
    /// The checks.
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
    /// IPv4 or IPv6, if the check is about one of them.
    pub family: Option<Family>,
    /// Where packets entered.
    pub ingress: Ingress,
    /// The handling node of the phone; none if the check is about several.
    pub handling_node: Option<u8>,
    /// Whether it passed.
    pub passed: bool,
    /// A short explanation.
    pub says: String,
}

/// Where packets entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ingress {
    /// At the node that the check is about.
    Itself,
    /// At one node.
    Node(u8),
    /// At all nodes: the kernel spreads flows.
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
    /// A report without checks.
    pub fn new(plan: &Plan) -> Self {
        let source = Source::here();
        Self {
            date: machine::date(),
            command: provenance::command_line(std::env::args()),
            machine: format!("{}, {} cores", source.cpu, machine::cores()),
            source,
            nodes: plan.size.get(),
            driver: plan.driver,
            passed: true,
            outcomes: Vec::new(),
        }
    }

    /// Adds a check.
    pub fn add(&mut self, outcome: Outcome) {
        self.passed &= outcome.passed;
        self.outcomes.push(outcome);
    }

    /// The content of pages. No figure needs several runs: a check passes or fails.
    pub fn evidence(self) -> Evidence {
        let texts = [("output", self.arranged(&ContentArrangement::Disabled)), ("summary", self.summary())];
        let texts = texts.map(|(name, lines)| Text { name: name.to_owned(), lines });
        Evidence { texts: texts.into(), ..self.source.evidence() }
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
            let outcomes = || self.outcomes.iter().filter(|outcome| outcome.architecture == architecture);
            parts.push(format!("{architecture}\n{}", self.table(outcomes(), arrangement)));
            parts.extend(lines(outcomes()));
        }
        parts.push(self.total());
        parts.join("\n")
    }

    /// The checks of all nodes together, and the number of checks.
    fn summary(&self) -> String {
        let mut parts: Vec<String> = lines(self.outcomes.iter()).collect();
        parts.push(self.total());
        parts.join("\n")
    }

    fn total(&self) -> String {
        let all = self.outcomes.len();
        let total = match self.outcomes.iter().filter(|outcome| !outcome.passed).count() {
            0 => format!("{all} checks passed"),
            failed => format!("{failed} of {all} checks FAILED"),
        };
        format!("{total}. {}, scalebricks {}", self.machine, self.source.version)
    }

    /// A row per check and ingress, a column per handling node.
    fn table<'a>(
        &self,
        outcomes: impl Iterator<Item = &'a Outcome>,
        arrangement: &ContentArrangement,
    ) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(arrangement.clone());
        let nodes = (0..self.nodes).map(|node| format!("handled at {node}"));
        table.set_header(["check".to_owned(), "enters at".to_owned()].into_iter().chain(nodes));
        let mut rows: BTreeMap<(usize, Ingress), Vec<String>> = BTreeMap::new();
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
            let row =
                rows.entry((place, outcome.ingress)).or_insert_with(|| vec!["-".to_owned(); self.nodes]);
            if let Some(cell) = row.get_mut(usize::from(node)) {
                *cell = format!("{}{}", if outcome.passed { "" } else { "FAILED " }, outcome.says);
            }
        }
        for ((name, ingress), cells) in rows {
            let cells = cells.into_iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
            table.add_row([Cell::new(&names[name]), Cell::new(ingress)].into_iter().chain(cells));
        }
        table
    }
}

/// The common part of the checks of a round.
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

    /// A check of all nodes.
    pub fn of_all(self, check: &str, Verdict { passed, says }: Verdict) -> Outcome {
        Outcome {
            architecture: self.architecture,
            check: check.to_owned(),
            family: None,
            ingress: self.ingress,
            handling_node: None,
            passed,
            says,
        }
    }
}

/// A line for each check of all nodes together.
fn lines<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> impl Iterator<Item = String> {
    outcomes
        .filter(|outcome| outcome.handling_node.is_none())
        .map(|outcome| line(outcome.passed, &outcome.check, &outcome.says))
}

/// A check as a line.
pub fn line(passed: bool, check: &str, says: &str) -> String {
    format!("{:<6} {check}: {says}", if passed { "ok" } else { "FAILED" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::ClusterSize;

    #[test]
    fn the_table_has_a_row_per_check_and_ingress_and_marks_failures() {
        let plan = Plan { size: ClusterSize::new(2).unwrap(), ues_per_node: 1, ..Plan::sample() };
        let mut report = Report::new(&plan);
        for (ingress, node, passed) in
            [(Ingress::Any, 0, true), (Ingress::Node(1), 0, true), (Ingress::Node(1), 1, false)]
        {
            let round = Round { architecture: "scalebricks", ingress };
            report.add(round.at("ping", Some(Family::V6), node, Verdict::new(passed, "20 of 20")));
        }
        let round = Round { architecture: "scalebricks", ingress: Ingress::Any };
        report.add(round.of_all("checksums", Verdict::new(true, "none wrong")));
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
