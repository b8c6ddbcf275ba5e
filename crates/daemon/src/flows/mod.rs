//! `scalebricks flows`: a log of the flows of a capture.
//!
//! ```text
//! capture ─▶ frame ─▶ tracker ─┬─▶ log: one JSON object per flow
//!                              ├─▶ the same as IPFIX
//!                              ├─▶ streams: one file per direction
//!                              └─▶ summary
//! ```

pub mod args;
mod ipfix;
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
use scalebricks_flows::tracker::{Ended, Sink, Tables, Tracker};
use scalebricks_flows::{Direction, Named, Tally};
use scalebricks_io::{CaptureError, CaptureReader, CapturedFrame};
use scalebricks_types::HashSeed;
use scalebricks_wire::parse_frame;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::path::Path;
use streams::Streams;
use summary::{Frames, Summary, Top};

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
    let mut tracker = Tracker::new(&args.config(), secret(), Tables::default())?;
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
    let ended = track(reader, &mut tracker, &mut output, &mut frames, interrupt);
    tracker.finish(&mut output);
    drop(busy);
    if let Some(error) = output.error.take() {
        return Err(error);
    }
    output.log.flush()?;
    if let Some(ipfix) = &mut output.ipfix {
        ipfix.complete()?;
    }
    let summary = Summary { frames: &frames, tracker: &tracker, top: &output.top }.render();
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

fn track(
    reader: CaptureReader,
    tracker: &mut Tracker,
    output: &mut Output,
    frames: &mut Frames,
    interrupt: &Interrupt,
) -> Result<(), Stopped> {
    for frame in reader {
        frames.all += 1;
        if frames.all.is_multiple_of(STRIDE) && interrupt.check().is_err() {
            return Err(Stopped::Interrupted);
        }
        match frame {
            Ok(frame) => take(&frame, tracker, output, frames),
            Err(CaptureError::UnsupportedLinkType { .. }) => frames.unsupported_link += 1,
            Err(error) => {
                frames.all -= 1;
                return Err(Stopped::Capture(error));
            }
        }
        if output.error.is_some() {
            return Err(Stopped::Written);
        }
    }
    Ok(())
}

fn take(frame: &CapturedFrame, tracker: &mut Tracker, output: &mut Output, frames: &mut Frames) {
    frames.bytes += u64::from(frame.original_len);
    let Ok(header) = parse_frame(&frame.data) else {
        frames.malformed += 1;
        return;
    };
    if !header.is_ip() {
        frames.not_ip += 1;
        return;
    }
    let packet = frame.data.get(header.l3_offset..).unwrap_or_default();
    // What becomes of the packet is in the tracker's counters.
    let _ = tracker.track(packet, 0, frame.timestamp, output);
    tracker.sweep(frame.timestamp, SWEEP, output);
}

/// Counters that are not zero, by name.
fn counted<E: Named>(tally: &Tally<E>) -> Vec<(&'static str, u64)> {
    tally.iter().filter(|(_, count)| *count > 0).collect()
}
