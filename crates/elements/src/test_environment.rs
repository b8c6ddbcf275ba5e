//! Devices and capture files for tests of elements that open them.

use scalebricks_graph::{Clock, Environment, Inlet, Outlet, Recording, Secret};
use scalebricks_io::{CaptureReader, CaptureWriter, MemoryPort, Packet, memory_port_pair, secret_file};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What elements can open in a test.
#[derive(Debug, Default)]
pub(crate) struct TestEnvironment {
    pub(crate) clock: Clock,
    pub(crate) inlets: HashMap<String, Inlet<Packet>>,
    pub(crate) outlets: HashMap<String, Outlet<Packet>>,
    written: Vec<Recording>,
}

impl TestEnvironment {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// A device that receives from a port; returns the port's far end.
    pub(crate) fn receives(&mut self, device: &str, capacity: usize) -> MemoryPort<Packet> {
        let (near, far) = memory_port_pair(capacity);
        self.inlets.insert(device.to_owned(), Inlet::Port(Box::new(near)));
        far
    }

    /// A device that sends to a port; returns the port's far end.
    pub(crate) fn sends(&mut self, device: &str, capacity: usize) -> MemoryPort<Packet> {
        let (near, far) = memory_port_pair(capacity);
        self.outlets.insert(device.to_owned(), Outlet::Port(Box::new(near)));
        far
    }

    /// Completes the written captures.
    pub(crate) fn finish(&mut self) {
        for recording in self.written.drain(..) {
            let writer = recording.lock().take();
            writer.unwrap().finish().unwrap();
        }
    }
}

impl Environment<Packet> for TestEnvironment {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn inlet(&mut self, device: &str) -> Result<Inlet<Packet>, String> {
        self.inlets.remove(device).ok_or_else(|| format!("no device {device}"))
    }

    fn outlet(&mut self, device: &str) -> Result<Outlet<Packet>, String> {
        self.outlets.remove(device).ok_or_else(|| format!("no device {device}"))
    }

    fn read(&mut self, file: &Path) -> Result<CaptureReader, String> {
        CaptureReader::open(file).map_err(|error| error.to_string())
    }

    fn write(&mut self, file: &Path) -> Result<Recording, String> {
        let writer = CaptureWriter::create(file).map_err(|error| error.to_string())?;
        let recording = Recording::new(writer);
        self.written.push(recording.clone());
        Ok(recording)
    }

    fn print(&mut self, file: &Path) -> Result<Box<dyn Write + Send>, String> {
        Ok(Box::new(File::create(file).map_err(|error| error.to_string())?))
    }

    fn secret(&mut self, file: &Path) -> Result<Secret, String> {
        secret_file::read_private(file, 1 << 20)
    }
}

/// Frames with time stamps in nanoseconds.
pub(crate) type Frames = Vec<(u64, Vec<u8>)>;

/// A directory that contains a capture.
pub(crate) fn capture(frames: &[(u64, Vec<u8>)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    for (at, frame) in frames {
        writer.write_frame(Duration::from_nanos(*at), frame).unwrap();
    }
    writer.finish().unwrap();
    (folder, path)
}

/// The frames of a capture.
pub(crate) fn frames(path: &Path) -> Frames {
    let frame = |frame: Result<scalebricks_io::CapturedFrame, _>| {
        let frame = frame.unwrap();
        (frame.timestamp.as_nanos() as u64, frame.data)
    };
    CaptureReader::open(path).unwrap().map(frame).collect()
}
