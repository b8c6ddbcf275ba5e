//! The replay of a capture, reported as a synthetic run is.

use super::config::{CAPACITY_BUDGET_BYTES, DemoConfig};
use crate::demo::capacity;
use crate::demo::report::result::{ArchitectureResult, Footprint, Machine, Report, Speed};
use crate::replay::{self, ArchitectureRun, ReplayError, ReplayOptions, ReplayOutcome, Step};
use scalebricks_apps::gateway::Architecture;
use scalebricks_apps::gateway::FlowTablesError;
use scalebricks_console::interrupt::{Interrupt, Interrupted};
use scalebricks_console::machine;
use scalebricks_console::output::{Console, Progress};
use scalebricks_console::quantity::count;
use scalebricks_report::provenance;
use std::path::Path;

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayedError {
    /// The user wants it so.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The replay.
    #[error(transparent)]
    Replay(ReplayError),
    /// The capacity could not be measured.
    #[error("measuring how many flows fit: {0}")]
    Capacity(#[from] FlowTablesError),
}

impl From<ReplayError> for ReplayedError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Stopped => Self::Interrupted(Interrupted),
            error => Self::Replay(error),
        }
    }
}

/// Replays a capture; leaves what each node sent in `out`.
///
/// # Errors
/// [`ReplayedError`].
pub fn run(
    config: &DemoConfig,
    pcap: &Path,
    out: Option<&Path>,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Report, ReplayedError> {
    let options = ReplayOptions {
        file: pcap.to_owned(),
        out: out.map(Path::to_owned),
        size: config.size,
        architectures: config.architectures.clone(),
        gpt: config.gpt,
        policy: config.policy,
        threads: config.threads,
        seed: config.seed,
    };
    let mut teller = Teller { console, frames: 0, bar: None };
    let outcome = replay::run(&options, &mut |step| teller.tell(step), &|| interrupt.check().is_err())?;
    teller.end();
    console.note(&summary(&outcome, pcap));
    let mut architectures = Vec::new();
    for run in &outcome.runs {
        interrupt.check()?;
        run.captures.iter().for_each(|file| console.note(&format!("wrote {}", file.display())));
        let capacity = capacity::measure(config, run.architecture)?;
        architectures.push(ArchitectureResult::new(
            run.architecture,
            footprint(run),
            &run.totals,
            Speed { overall: run.mpps(), min: run.mpps(), median: run.mpps(), max: run.mpps() },
            capacity,
        ));
    }
    Ok(Report {
        nodes: config.size.get(),
        flows: outcome.flows,
        seed: config.seed,
        threads: config.threads,
        architectures,
        input: pcap.display().to_string(),
        key: config.policy.key_profile.name(),
        flows_per_node: outcome.flows_per_node,
        capacity_budget_bytes: CAPACITY_BUDGET_BYTES as u64,
        version: env!("CARGO_PKG_VERSION"),
        commit: provenance::commit(),
        date: machine::date(),
        command: provenance::command_line(std::env::args()),
        machine: Machine::here(),
    })
}

const fn footprint(run: &ArchitectureRun) -> Footprint {
    Footprint {
        fabric_bytes: run.fabric_bytes,
        gpt_bytes_per_node: run.gpt_bytes_per_node as u64,
        fib_bytes_per_node: run.fib_bytes_per_node as u64,
    }
}

fn summary(outcome: &ReplayOutcome, pcap: &Path) -> String {
    let counts = &outcome.counts;
    let mut text = format!(
        "{}: {} frames, {} conversations; {} packets downstream, {} upstream, {} of no conversation, {} fragments",
        pcap.display(),
        count(counts.frames),
        count(outcome.conversations),
        count(counts.downstream),
        count(counts.upstream),
        count(counts.unclaimed),
        count(counts.fragments),
    );
    for (number, what) in [
        (counts.not_put_in, "too large to be put in"),
        (counts.cut_frames, "cut short by the capture"),
        (counts.unsupported, "of link types that cannot be made Ethernet"),
    ] {
        if number > 0 {
            text += "; ";
            text += &count(number);
            text += " ";
            text += what;
        }
    }
    if counts.is_file_cut {
        text += "; the file ends in the middle of a record";
    }
    text
}

/// Turns the steps of a replay into progress bars.
struct Teller<'a> {
    console: &'a Console,
    frames: u64,
    bar: Option<(Architecture, Progress, u64)>,
}

impl Teller<'_> {
    fn tell(&mut self, step: Step) {
        match step {
            Step::Sorted { .. } => {}
            Step::Pinned { frames, conversations } => {
                self.frames = frames;
                let (frames, conversations) = (count(frames), count(conversations));
                self.console
                    .note(&format!("{conversations} conversations found in {frames} frames, and pinned"));
            }
            Step::Forwarded { architecture, frames } => self.forwarded(architecture, frames),
        }
    }

    fn forwarded(&mut self, architecture: Architecture, frames: u64) {
        if self.bar.as_ref().is_none_or(|(of, ..)| *of != architecture) {
            self.end();
            self.bar = Some((architecture, self.console.progress(architecture.name(), self.frames), 0));
        }
        if let Some((_, bar, told)) = &mut self.bar {
            bar.add(frames.saturating_sub(*told));
            *told = frames;
        }
    }

    fn end(&mut self) {
        if let Some((_, bar, _)) = self.bar.take() {
            bar.finish();
        }
    }
}
