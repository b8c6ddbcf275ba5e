//! `scalebricks cluster verify`: shows whether all tables agree with the log.

use super::cluster_args::ClusterVerifyArgs;
use super::{CommandError, list, right, table, trimmed};
use crate::model::NodeVerdict;
use comfy_table::Cell;
use scalebricks_cluster::verify::{Difference, Verdict};
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, status as exit};
use serde::Serialize;

/// The results of all nodes.
#[derive(Debug, Serialize)]
struct Whole {
    /// Whether every living node answered, compared all it has, and found no difference.
    is_same: bool,
    nodes: Vec<NodeVerdict>,
}

pub(super) fn run(
    args: &ClusterVerifyArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let mut nodes: Vec<NodeVerdict> = Vec::new();
    let is_whole = args.ask.node()?.verify(args.differences, args.patience, |verdict| {
        if let Some(verdict) = verdict {
            console.note(&format!("node {} {}", verdict.node, answered(&verdict)));
            nodes.push(verdict);
        }
        interrupt.check().is_ok()
    })?;
    if !is_whole {
        return Ok(exit::INTERRUPTED);
    }
    nodes.sort_by_key(|verdict| verdict.node);
    let is_same = |node: &NodeVerdict| node.verdict.as_ref().is_some_and(Verdict::is_same);
    // Without any node nothing is verified.
    let whole = Whole { is_same: !nodes.is_empty() && nodes.iter().all(is_same), nodes };
    super::show(console, args.ask.json, &whole, render)?;
    Ok(if whole.is_same { exit::SUCCESS } else { exit::FAILURE })
}

const fn answered(node: &NodeVerdict) -> &'static str {
    match &node.verdict {
        None => "did not answer in time",
        Some(verdict) if verdict.problem.is_some() => "could not compare all its tables",
        Some(_) => "has compared its tables",
    }
}

fn render(whole: &Whole) -> String {
    let mut nodes = table(["node", "partitions", "keys", "keys here", "left out", "differ"]);
    for node in &whole.nodes {
        let Some(verdict) = &node.verdict else {
            nodes.add_row(vec![right(node.node), Cell::new("did not answer in time")]);
            continue;
        };
        nodes.add_row(vec![
            right(node.node),
            right(verdict.partitions),
            right(count(verdict.keys)),
            right(count(verdict.keys_here)),
            right(count(verdict.in_flight)),
            Cell::new(differ(verdict)),
        ]);
    }
    let mut parts = vec![trimmed(&nodes)];
    for node in &whole.nodes {
        let Some(verdict) = &node.verdict else { continue };
        if let Some(problem) = &verdict.problem {
            parts.push(format!("node {} could not compare all its tables: {problem}", node.node));
        }
        if !verdict.differences.is_empty() {
            parts.push(differences(node.node, verdict));
        }
    }
    parts.push(
        match (whole.is_same, whole.nodes.is_empty()) {
            (true, _) => "all tables agree with the log",
            (false, true) => "the asked node knows no living node",
            (false, false) => "not all tables are known to agree with the log",
        }
        .to_owned(),
    );
    parts.join("\n\n")
}

/// The numbers of differences, by kind.
fn differ(verdict: &Verdict) -> String {
    let kinds = verdict.counts.iter().filter(|(_, number)| **number > 0);
    let counts: Vec<String> =
        kinds.map(|(kind, number)| format!("{} {}", count(*number), kind.name())).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

fn differences(node: u16, verdict: &Verdict) -> String {
    let all: u64 = verdict.counts.values().sum();
    let listed = verdict.differences.len();
    let first =
        if (listed as u64) < all { format!(", the first {listed} of {}", count(all)) } else { String::new() };
    let line = |difference: &Difference| {
        let Difference { kind, partition, key, expected, found } = difference;
        let what = key.as_ref().map_or_else(|| format!("partition {partition}"), Clone::clone);
        (kind.name(), format!("{what}: {expected} in the log, {found} in the table"))
    };
    let lines: Vec<(&str, String)> = verdict.differences.iter().map(line).collect();
    format!("node {node}{first}:\n{}", list(&lines))
}
