//! The replay of a capture, reported like a synthetic run.

use super::config::DemoConfig;
use crate::demo::report::result::{ArchitectureResult, Report, Speed};
use crate::replay::{self, ReplayError, ReplayOutcome, Step};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::interrupt::Interrupt;
use scalebricks_console::output::{Console, Progress};
use scalebricks_console::quantity::count;
use std::fmt::Write as _;
use std::path::Path;

/// Replays a capture, and writes the frames that each node sent to `out`.
///
/// # Errors
/// [`ReplayError`].
pub fn run(
    config: &DemoConfig,
    pcap: &Path,
    out: Option<&Path>,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Report, ReplayError> {
    let mut all_frames = 0;
    let mut bar: Option<(Architecture, Progress, u64)> = None;
    let mut progress = |step| match step {
        Step::Pinned { frames, conversations } => {
            all_frames = frames;
            let (frames, conversations) = (count(frames), count(conversations));
            console.note(&format!("{conversations} conversations found in {frames} frames, and pinned"));
        }
        Step::Forwarded { architecture, frames } => {
            let (_, progress, shown) = match bar.take_if(|(of, ..)| *of == architecture) {
                Some(same) => bar.insert(same),
                None => bar.insert((architecture, console.progress(architecture.name(), all_frames), 0)),
            };
            progress.add(frames.saturating_sub(*shown));
            *shown = frames;
            if frames == all_frames {
                progress.finish();
            }
        }
    };
    let outcome = replay::run(config, pcap, out, &mut progress, interrupt)?;
    console.note(&summary(&outcome, pcap));
    let mut architectures = Vec::new();
    for run in &outcome.runs {
        interrupt.check()?;
        run.captures.iter().for_each(|file| console.note(&format!("wrote {}", file.display())));
        let mpps = run.mpps.unwrap_or(0.0);
        let speed = Speed { mpps, mpps_min: mpps, mpps_median: mpps, mpps_max: mpps };
        let capacity = config.capacity(run.architecture)?;
        architectures.push(ArchitectureResult::new(
            run.architecture,
            run.footprint,
            &run.totals,
            speed,
            capacity,
        ));
    }
    Ok(Report::new(config, pcap.display().to_string(), outcome.flows_per_node, architectures))
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
            let _ = write!(text, "; {} {what}", count(number));
        }
    }
    if counts.is_file_cut {
        text += "; the file ends in the middle of a record";
    }
    text
}
