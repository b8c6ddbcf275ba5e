//! `scalebricks engine check`.

use super::EngineError;
use scalebricks_console::{Console, quantity, status};
use scalebricks_engine::embedded::{self, CheckReport, Damage, PartitionReport};
use std::path::Path;

/// Reads the log of a directory and prints its state; changes nothing.
///
/// # Errors
/// [`EngineError::Open`]: it cannot be read, or a process has it open; [`EngineError::Output`].
pub fn check(directory: &Path, console: &Console) -> Result<u8, EngineError> {
    let report = embedded::check(directory)
        .map_err(|error| EngineError::Open { directory: directory.to_owned(), error })?;
    console.result(&describe(directory, &report))?;
    Ok(if report.damage.is_empty() { status::SUCCESS } else { status::FAILURE })
}

fn plural(n: u64, what: &str) -> String {
    let (many, end) = what.strip_suffix('y').map_or((what, "s"), |stem| (stem, "ies"));
    if n == 1 { format!("1 {what}") } else { format!("{} {many}{end}", quantity::count(n)) }
}

fn describe(directory: &Path, report: &CheckReport) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let log = &report.log;
    line(format!(
        "{}: {}, {}, {}, {}",
        directory.display(),
        plural(log.segments as u64, "segment"),
        plural(log.groups, "group"),
        plural(log.entries, "entry"),
        plural(log.records as u64, "record"),
    ));
    if let Some(torn) = &log.torn {
        line(format!(
            "torn: the last {} from offset {} of {} on ({}). A crash causes this; nothing of it was acknowledged. Opening \
             cuts it off",
            plural(torn.bytes, "byte"),
            torn.offset,
            torn.file,
            torn.what
        ));
    } else if report.damage.is_empty() && log.segments > 0 {
        line(
            if log.was_closed { "closed in order" } else { "not closed: its process was killed" }.to_owned(),
        );
    }
    for file in &log.removed {
        line(format!("unfinished: {file}. Opening removes it"));
    }
    if !report.partitions.is_empty() {
        line(format!("{:>9}  {:>12}  {:>12}  {:>12}  snapshots", "partition", "first", "last", "entries"));
    }
    for partition in &report.partitions {
        line(row(partition, report));
    }
    for damage in &report.damage {
        line(format!("DAMAGED: {damage}"));
    }
    if !report.damage.is_empty() {
        line(format!("What to do: {}", advice(report)));
    }
    text.truncate(text.trim_end().len());
    text
}

fn row(partition: &PartitionReport, report: &CheckReport) -> String {
    let PartitionReport { partition, first, last } = *partition;
    let entries = last.0 + 1 - first.0;
    let snapshots = report.snapshots.iter().filter(|snapshot| snapshot.partition == partition);
    let mark = |is_whole| if is_whole { "" } else { " (damaged)" };
    let snapshots: Vec<_> = snapshots.map(|s| format!("{}{}", s.position.0, mark(s.is_whole))).collect();
    format!("{:>9}  {:>12}  {:>12}  {entries:>12}  {}", partition.0, first.0, last.0, snapshots.join(", "))
}

/// The documented repair, see `docs/engines.md`.
fn advice(report: &CheckReport) -> &'static str {
    let is_log = |damage: &Damage| matches!(damage, Damage::Log { .. });
    let is_lost = |damage: &Damage| matches!(damage, Damage::NoSnapshot { .. });
    if report.damage.iter().any(is_log) {
        "the log cannot be opened. Keep this directory and put a whole copy in its place; without a copy, move it \
         away and start with an empty one: entries that are in no copy are lost. Check the disk first. docs/engines.md has \
         the steps"
    } else if report.damage.iter().any(is_lost) {
        "the log can be opened, but the state of a partition is in no snapshot of it. Put a whole copy of the snapshot back, \
         or let a node that has the state store a new one. docs/engines.md has the steps"
    } else {
        "the log can be opened, and all of it is there without these snapshots: remove their files; the next snapshot \
         takes their place"
    }
}
