//! `scalebricks flows`: a log of the flows of a capture.
//!
//! ```text
//! capture ─▶ frame ─▶ tracker ─┬─▶ log: one JSON object per flow
//!                              ├─▶ the same as IPFIX
//!                              ├─▶ streams: one file per direction
//!                              └─▶ summary
//! ```
//!
//! [`pipelines`] does the same with a tracker on each of several cores.

pub mod args;
mod ipfix;
mod pipelines;
mod record;
mod streams;
mod summary;

use crate::error::ProcessError;
use args::FlowsArgs;
use ipfix::IpfixFile;
use record::Record;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_flows::reassembly::Chunk;
use scalebricks_flows::tcp::Anomaly;
use scalebricks_flows::tracker::{Config, Ended, Sink, Tables, Tracker};
use scalebricks_flows::{Direction, Named, Tally};
use scalebricks_io::{CaptureError, CaptureReader, CapturedFrame};
use scalebricks_types::HashSeed;
use scalebricks_wire::parse_frame;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;
use streams::Streams;
use summary::{Frames, Summary, Top, Totals};

/// Frames between two looks at Ctrl-C.
const STRIDE: u64 = 1_024;

/// Records that are looked at for expiry per packet. The table has ten flows in sixteen records, so that the hand passes each
/// flow once while the table's number of packets arrives.
const SWEEP: usize = 4;

/// Where the log goes.
enum Log {
    None,
    File(std::path::PathBuf, BufWriter<File>),
    Output(BufWriter<std::io::Stdout>),
}

impl Log {
    fn open(path: Option<&Path>) -> Result<Self, ProcessError> {
        match path {
            None => Ok(Self::None),
            Some(path) if path.as_os_str() == "-" => Ok(Self::Output(BufWriter::new(std::io::stdout()))),
            Some(path) => {
                let file = File::create(path).map_err(ProcessError::file(path))?;
                Ok(Self::File(path.to_owned(), BufWriter::new(file)))
            }
        }
    }

    fn write(&mut self, record: &Record) -> Result<(), ProcessError> {
        let (out, path): (&mut dyn Write, _) = match self {
            Self::None => return Ok(()),
            Self::File(path, file) => (file, path.as_path()),
            Self::Output(out) => (out, Path::new("standard output")),
        };
        let line = serde_json::to_string(record).map_err(|error| ProcessError::file(path)(error.into()))?;
        writeln!(out, "{line}").map_err(ProcessError::file(path))
    }

    fn flush(&mut self) -> Result<(), ProcessError> {
        match self {
            Self::None => Ok(()),
            Self::File(path, file) => file.flush().map_err(ProcessError::file(path)),
            Self::Output(out) => out.flush().map_err(ProcessError::file(Path::new("standard output"))),
        }
    }

    const fn is_output(&self) -> bool {
        matches!(self, Self::Output(_))
    }
}

/// Receives flows.
struct Output {
    log: Log,
    ipfix: Option<IpfixFile>,
    streams: Option<Streams>,
    top: Top,
    /// Unusual segments of flows that have any, by number.
    anomalies: HashMap<u64, Tally<Anomaly>>,
    /// The first error; nothing is written after it.
    error: Option<ProcessError>,
}

impl Sink for Output {
    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        if let (Some(streams), Chunk::Data { bytes, .. }, None) = (&mut self.streams, chunk, &self.error) {
            self.error = streams.write(serial, direction, bytes).err();
        }
    }

    fn anomaly(&mut self, serial: u64, anomaly: Anomaly) {
        self.anomalies.entry(serial).or_default().count(anomaly);
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        let anomalies = self.anomalies.remove(&ended.flow.serial);
        let record = Record::new(ended, anomalies.as_ref());
        if self.error.is_none() {
            let ipfix = self.ipfix.as_mut().map_or(Ok(()), |ipfix| ipfix.write(ended));
            self.error = self.log.write(&record).and(ipfix).err();
        }
        self.top.add(&record);
    }
}

/// Runs the command.
///
/// # Errors
/// [`ProcessError`]. If the capture is cut or damaged, the flows before are logged and summarised first.
pub fn run(args: &FlowsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
    let capture = |error| ProcessError::Capture { path: args.pcap.clone(), error };
    let reader = CaptureReader::open(&args.pcap).map_err(|error| match error {
        error if error.names_its_file() => ProcessError::CaptureFile(error),
        error => capture(error),
    })?;
    let mut output = Output {
        log: Log::open(args.log.as_deref())?,
        ipfix: args.ipfix.as_deref().map(IpfixFile::create).transpose()?,
        streams: args.streams.as_deref().map(Streams::create).transpose()?,
        top: Top::new(args.top as usize),
        anomalies: HashMap::new(),
        error: None,
    };
    let mut frames = Frames::default();
    let busy = console.busy("flows", "reading the capture");
    let config = args.config();
    let (totals, ended) = match args.cores {
        None => alone(reader, &config, &mut output, &mut frames, interrupt)?,
        Some(cores) => {
            pipelines::track(reader, (&config, secret(), cores), &mut output, &mut frames, interrupt)?
        }
    };
    drop(busy);
    if let Some(error) = output.error.take() {
        return Err(error);
    }
    output.log.flush()?;
    if let Some(ipfix) = &mut output.ipfix {
        ipfix.complete()?;
    }
    let summary = Summary { frames: &frames, totals: &totals, top: &output.top }.render();
    if output.log.is_output() {
        console.note(&summary);
    } else if !args.quiet {
        console.result(&summary)?;
    }
    match ended {
        // An error of writing has been returned above.
        Ok(()) | Err(Stopped::Written) => Ok(status::SUCCESS),
        Err(Stopped::Interrupted) => Ok(status::INTERRUPTED),
        Err(Stopped::Capture(error)) => Err(capture(error)),
    }
}

/// A secret for the hash of the flow table.
fn secret() -> HashSeed {
    let random = |number: u8| RandomState::new().hash_one(number);
    HashSeed::new(random(0), random(1))
}

/// Why a capture was not read to its end.
enum Stopped {
    Interrupted,
    /// Writing failed; the output has the error.
    Written,
    Capture(CaptureError),
}

/// Tracks the flows of a capture on this thread. Returns why the input ended before its end.
fn alone(
    reader: CaptureReader,
    config: &Config,
    output: &mut Output,
    frames: &mut Frames,
    interrupt: &Interrupt,
) -> Result<(Totals, Result<(), Stopped>), ProcessError> {
    let mut tracker = Tracker::new(config, secret(), Tables::default())?;
    let mut last = Duration::ZERO;
    let ended = read(reader, frames, interrupt, |packet, at| {
        last = at;
        // What becomes of the packet is in the tracker's counters.
        let _ = tracker.track(packet, 0, at, output);
        tracker.sweep(at, SWEEP, output);
        if output.error.is_some() { Err(Stopped::Written) } else { Ok(()) }
    });
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

/// Calls `take` with each IP packet of a capture, and counts frames.
fn read(
    reader: CaptureReader,
    frames: &mut Frames,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[u8], Duration) -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    for frame in reader {
        frames.all += 1;
        if frames.all.is_multiple_of(STRIDE) && interrupt.check().is_err() {
            return Err(Stopped::Interrupted);
        }
        match frame {
            Ok(frame) => {
                if let Some(packet) = ip_packet(&frame, frames) {
                    take(packet, frame.timestamp)?;
                }
            }
            Err(CaptureError::UnsupportedLinkType { .. }) => frames.unsupported_link += 1,
            Err(error) => {
                frames.all -= 1;
                return Err(Stopped::Capture(error));
            }
        }
    }
    Ok(())
}

/// The IP packet of a frame, if it has one.
fn ip_packet<'a>(frame: &'a CapturedFrame, frames: &mut Frames) -> Option<&'a [u8]> {
    frames.bytes += u64::from(frame.original_len);
    let Ok(header) = parse_frame(&frame.data) else {
        frames.malformed += 1;
        return None;
    };
    if !header.is_ip() {
        frames.not_ip += 1;
        return None;
    }
    Some(frame.data.get(header.l3_offset..).unwrap_or_default())
}

/// Counters that are not zero, by name.
fn counted<E: Named>(tally: &Tally<E>) -> Vec<(&'static str, u64)> {
    tally.iter().filter(|(_, count)| *count > 0).collect()
}
