//! The results as JSON and table.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::machine;
use scalebricks_console::quantity::count;
use serde::Serialize;

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Who sent to whom.
    pub spread: &'static str,
    /// How packets were spread.
    pub steering: &'static str,
    /// Packets that arrived.
    pub sent: u64,
    /// Packets that left.
    pub delivered: u64,
    /// Packets that elements dropped.
    pub dropped: u64,
    /// Packets that left wrongly: port, MAC addresses, TTL, checksum, contents.
    pub wrong: u64,
    /// Packets overtaken on one path.
    pub late_on_a_path: u64,
    /// Nodes per packet.
    pub nodes_mean: f64,
    /// Most nodes of a packet.
    pub nodes_max: u64,
    /// What arrived, in virtual time.
    pub offered_gbps: f64,
    /// Frames of flowlets that did not fit their way.
    pub sprayed: u64,
    /// Reordered sequences per packet (RouteBricks §6.2).
    pub sequences: f64,
    /// Late packets per packet (RFC 4737).
    pub late: f64,
    /// Share of flows with a late packet.
    pub flows_late: f64,
    /// Number of flows.
    pub flows: u64,
    /// Jain's index of the inputs' delivered shares.
    pub jain: f64,
    /// The smallest share, relative to the mean.
    pub least: f64,
    /// Processor time per packet of all its nodes and links, on one thread.
    pub ns_per_packet: f64,
    /// Some of what was wrong.
    pub problems: Vec<String>,
}

impl RunResult {
    /// Whether every packet left as it should.
    pub const fn is_clean(&self) -> bool {
        self.delivered == self.sent && self.dropped == 0 && self.wrong == 0 && self.late_on_a_path == 0
    }
}

/// All runs.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of routes.
    pub routes: usize,
    /// Where the routes are from.
    pub source: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// The processor.
    pub cpu: String,
    /// The version.
    pub version: &'static str,
    /// The runs.
    pub runs: Vec<RunResult>,
}

impl Report {
    /// A report of runs on this machine.
    pub fn new(nodes: usize, routes: usize, source: String, seed: u64, runs: Vec<RunResult>) -> Self {
        Self { nodes, routes, source, seed, cpu: machine::cpu(), version: env!("CARGO_PKG_VERSION"), runs }
    }

    /// Whether every packet of every run left as it should.
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(RunResult::is_clean)
    }

    /// What went wrong, a line each.
    pub fn problems(&self) -> Vec<String> {
        let of = |run: &RunResult| {
            let name = format!("{}, {}", run.spread, run.steering);
            let (lost, dropped, wrong, late) =
                (run.sent - run.delivered, run.dropped, run.wrong, run.late_on_a_path);
            let head = format!(
                "{name}: {lost} lost, {dropped} dropped, {wrong} wrong, {late} overtaken on their path"
            );
            std::iter::once(head)
                .chain(run.problems.iter().map(|why| format!("{name}: {why}")))
                .collect::<Vec<_>>()
        };
        self.runs.iter().filter(|run| !run.is_clean()).flat_map(of).collect()
    }

    /// The report as a table for a terminal, without a newline at the end.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let heads = self.runs.iter().map(|run| right(format!("{}\n{}", run.spread, run.steering)));
        table.set_header(std::iter::once(Cell::new("")).chain(heads));
        let mut row = |name: &str, value: &dyn Fn(&RunResult) -> String| {
            let cells = self.runs.iter().map(|run| right(value(run)));
            table.add_row(std::iter::once(Cell::new(name)).chain(cells));
        };
        row("packets in", &|run| count(run.sent));
        row("offered, Gb/s", &|run| format!("{:.2}", run.offered_gbps));
        row("delivered", &|run| format!("{:.3} %", run.delivered as f64 * 100.0 / run.sent.max(1) as f64));
        row("nodes a packet, mean", &|run| format!("{:.2}", run.nodes_mean));
        row("nodes a packet, most", &|run| run.nodes_max.to_string());
        row("sprayed packets", &|run| count(run.sprayed));
        row("reordered sequences", &|run| format!("{:.3} %", run.sequences * 100.0));
        row("late packets, RFC 4737", &|run| format!("{:.3} %", run.late * 100.0));
        row("flows with late packets", &|run| format!("{:.2} %", run.flows_late * 100.0));
        row("overtaken on one path", &|run| count(run.late_on_a_path));
        row("fairness, Jain", &|run| format!("{:.4}", run.jain));
        row("least share of an input", &|run| format!("{:.4}", run.least));
        row("ns a packet, one thread", &|run| format!("{:.0}", run.ns_per_packet));
        row("wrong port, MAC, TTL, sum", &|run| count(run.wrong));
        format!(
            "{} nodes, {} routes ({}), seed {}\n{table}\n\
             Reordered sequences are maximal runs of late packets per packet, the paper's metric. Every packet that left was\n\
             checked. Time is virtual; ns a packet is the processor time of all nodes and links that it passed.\n\
             {}, scalebricks {}",
            self.nodes,
            count(self.routes as u64),
            self.source,
            self.seed,
            self.cpu,
            self.version,
        )
    }
}
