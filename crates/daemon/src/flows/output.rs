//! What becomes of flows: the log, IPFIX, files of streams, and the lists of the summary.

use super::args::FlowsArgs;
use super::ipfix::IpfixFile;
use super::record::Record;
use super::streams::Streams;
use super::summary::Top;
use crate::error::ProcessError;
use scalebricks_flows::reassembly::Chunk;
use scalebricks_flows::tcp::Anomaly;
use scalebricks_flows::tracker::{Ended, Sink};
use scalebricks_flows::{Direction, Tally};
use scalebricks_wire::IpPacket;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

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
pub(super) struct Output {
    log: Log,
    ipfix: Option<IpfixFile>,
    streams: Option<Streams>,
    pub(super) top: Top,
    /// Unusual segments of flows that have any, by number.
    anomalies: HashMap<u64, Tally<Anomaly>>,
    /// Length of the packet that the last fragment has completed, bytes.
    pub(super) completed: Option<u64>,
    /// The first error; nothing is written after it.
    pub(super) error: Option<ProcessError>,
}

impl Output {
    /// Creates the files.
    pub(super) fn create(args: &FlowsArgs) -> Result<Self, ProcessError> {
        Ok(Self {
            log: Log::open(args.log.as_deref())?,
            ipfix: args.ipfix.as_deref().map(IpfixFile::create).transpose()?,
            streams: args.streams.as_deref().map(Streams::create).transpose()?,
            top: Top::new(args.top as usize),
            anomalies: HashMap::new(),
            completed: None,
            error: None,
        })
    }

    /// Whether the log goes to standard output.
    pub(super) const fn is_standard(&self) -> bool {
        self.log.is_output()
    }

    pub(super) const fn has_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// Hands what is complete to the system, so that readers of the files see it.
    pub(super) fn flush(&mut self) {
        if self.error.is_none() {
            let ipfix = self.ipfix.as_mut().map_or(Ok(()), IpfixFile::flush);
            self.error = self.log.flush().and(ipfix).err();
        }
    }

    /// Completes the files.
    pub(super) fn complete(&mut self) -> Result<(), ProcessError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.log.flush()?;
        self.ipfix.as_mut().map_or(Ok(()), IpfixFile::complete)
    }

    fn write(&mut self, ended: &Ended<'_>, record: &Record) {
        if self.error.is_none() {
            let ipfix = self.ipfix.as_mut().map_or(Ok(()), |ipfix| ipfix.write(ended));
            self.error = self.log.write(record).and(ipfix).err();
        }
    }
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

    fn completed(&mut self, packet: &IpPacket<'_>) {
        self.completed = Some(packet.bytes().len() as u64);
    }

    fn active(&mut self, so_far: &Ended<'_>) {
        let record = Record::new(so_far, self.anomalies.get(&so_far.flow.serial));
        self.write(so_far, &record);
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        let anomalies = self.anomalies.remove(&ended.flow.serial);
        let record = Record::new(ended, anomalies.as_ref());
        self.write(ended, &record);
        self.top.add(&record);
    }
}
