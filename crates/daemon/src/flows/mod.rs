//! `scalebricks flows`: a log of the flows of a capture, or of ports.
//!
//! ```text
//! capture, ports ─▶ input ─▶ tracker ─┬─▶ output: log, one JSON object per flow; IPFIX; streams, one file per direction
//!                                     ├─▶ view: of ports, a table on the terminal or lines
//!                                     └─▶ summary
//! ```
//!
//! `pipelines` does the same with a tracker on each of several cores.

pub mod args;
mod input;
mod ipfix;
mod live;
mod output;
mod pipelines;
mod record;
mod streams;
mod summary;

use crate::error::ProcessError;
use args::FlowsArgs;
use input::{Arrival, Bounds, Input, Stopped};
use live::{Live, Ranking, Style, Talkers, View};
use output::Output;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_flows::tracker::{Config, Sink, Tables, Tracker};
use scalebricks_flows::{Named, Tally};
use scalebricks_types::HashSeed;
use signal_hook::consts::SIGTERM;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use summary::{Frames, Summary, Totals};

/// Records that are looked at for expiry per packet. The table has ten flows in sixteen records, so that the hand passes each
/// flow once while the table's number of packets arrives.
const SWEEP: usize = 4;

/// Time between two pictures of the table.
const TABLE_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// A run.
struct Job<'a> {
    input: Input,
    bounds: Bounds,
    config: Config,
    output: &'a mut Output,
    frames: &'a mut Frames,
    view: Option<View<'a>>,
    interrupt: &'a Interrupt,
}

/// What trackers counted, and why the input ended before its end.
type Tracked = (Totals, Result<(), Stopped>);

/// Runs the command.
///
/// # Errors
/// [`ProcessError`]. If the capture is cut or damaged, or a port fails, the flows before are logged and summarised first.
pub fn run(args: &FlowsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    // Before files are created.
    let (input, view) = match &args.pcap {
        Some(path) => (Input::capture(path)?, None),
        None => live_input(args, console, interrupt)?,
    };
    let mut output = Output::create(args)?;
    let mut frames = Frames::default();
    let busy = args.pcap.as_ref().map(|_| console.busy("flows", "reading the capture"));
    let job = Job {
        input,
        bounds: Bounds { duration: args.duration, count: args.count },
        config: args.config(),
        output: &mut output,
        frames: &mut frames,
        view,
        interrupt,
    };
    let (totals, ended) = match args.cores {
        None => alone(job)?,
        Some(cores) => pipelines::track(job, secret(), cores)?,
    };
    drop(busy);
    output.complete()?;
    let summary = Summary { frames: &frames, totals: &totals, top: &output.top }.render();
    if output.is_standard() {
        console.note(&summary);
    } else if !args.quiet {
        console.result(&summary)?;
    }
    match ended {
        // An error of writing has been returned above.
        Ok(()) | Err(Stopped::Written) => Ok(status::SUCCESS),
        Err(Stopped::Interrupted) => Ok(status::INTERRUPTED),
        Err(Stopped::Failed(error)) => Err(error),
    }
}

/// Opens ports, and what shows their packets. SIGTERM is handled as Ctrl-C from now on.
fn live_input<'a>(
    args: &FlowsArgs,
    console: &'a Console,
    interrupt: &Interrupt,
) -> Result<(Input, Option<View<'a>>), ProcessError> {
    let table = match (args.interval, args.log_is_terminal()) {
        (None, false) => console.live(),
        _ => None,
    };
    let usual = if table.is_some() { TABLE_INTERVAL } else { LINE_INTERVAL };
    let live = Live::open(&args.port, args.interval.unwrap_or(usual))?;
    if args.verify_checksums && live.has_offloads() {
        return Err(ProcessError::Usage(
            "--verify-checksums: an interface shows packets before its card fills in their checksums; only a device of DPDK or a capture of another machine has them".to_owned(),
        ));
    }
    signal_hook::flag::register(SIGTERM, interrupt.shared()).map_err(ProcessError::Signals)?;
    let ranking = Ranking { most: args.top as usize, order: args.top_by };
    let style = table.map_or(Style::Lines, Style::Table);
    let (label, seen) = live.seen();
    console.note(&format!("flows of {label}; Ctrl-C ends"));
    let view = (!args.quiet).then(|| View::new(console, style, ranking, (label, seen)));
    Ok((Input::Live(live), view))
}

/// A secret for the hash of the flow table.
fn secret() -> HashSeed {
    let random = |number: u8| RandomState::new().hash_one(number);
    HashSeed::new(random(0), random(1))
}

/// Tracks flows on this thread.
fn alone(job: Job<'_>) -> Result<Tracked, ProcessError> {
    let Job { input, bounds, config, output, frames, mut view, interrupt } = job;
    let mut tracker = Tracker::new(&config, secret(), Tables::default())?;
    let mut talkers = view.as_ref().map(|view| Talkers::new(view.ranking()));
    let mut last = Duration::ZERO;
    let ended = input.read(&bounds, frames, interrupt, |arrival| {
        match arrival {
            Arrival::Packet(packet, at) => {
                last = at;
                // What becomes of the packet is in the tracker's counters.
                let tracked = tracker.track(packet, 0, at, output);
                let whole = output.completed.take();
                if let (Some(talkers), Ok(tracked)) = (&mut talkers, tracked) {
                    talkers.add(&tracker, &tracked, whole.unwrap_or_else(|| live::ip_len(packet)));
                }
                tracker.sweep(at, SWEEP, output);
            }
            Arrival::Tick(tick) => {
                last = tick.at;
                tracker.sweep(tick.at, usize::MAX, output);
                output.flush();
                if let (Some(view), Some(talkers), true) = (&mut view, &mut talkers, tick.shows) {
                    view.show([talkers.report(&tracker)]);
                }
            }
        }
        if output.error.is_some() { Err(Stopped::Written) } else { Ok(()) }
    });
    drop(view);
    finish(&mut tracker, last, output);
    let mut totals = Totals::default();
    totals.add(&tracker);
    Ok((totals, ended))
}

/// Ends all flows: those whose time is over at the last packet as timed out, wherever the hand is.
fn finish(tracker: &mut Tracker, last: Duration, sink: &mut impl Sink) {
    // The first round may be a partial one.
    tracker.sweep(last, usize::MAX, sink);
    tracker.sweep(last, usize::MAX, sink);
    tracker.finish(sink);
}

/// Counters that are not zero, by name.
fn counted<E: Named>(tally: &Tally<E>) -> Vec<(&'static str, u64)> {
    tally.iter().filter(|(_, count)| *count > 0).collect()
}
