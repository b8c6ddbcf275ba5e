//! Devices and captures that elements open, by the user's bindings.

use super::open_requests::OpenRequest;
use super::shared_port::SharedPort;
use scalebricks_graph::environment::DeviceSide;
use scalebricks_graph::{Clock, Environment, Inlet, Outlet, Recording, Secret};
use scalebricks_io::{CaptureError, CaptureReader, CaptureWriter, PacketBuf, RxPort, TxPort, secret_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Longest file with keys, bytes.
const KEY_FILE_BYTES: usize = 1 << 20;

/// The binding of a device's receiving side.
pub type ReceiveBinding<P> = DeviceSide<dyn RxPort<P>, PathBuf>;

/// The binding of a device's sending side.
pub type SendBinding<P> = DeviceSide<dyn TxPort<P>, PathBuf>;

/// A capture could not be completed or renamed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct DevicesError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: Box<dyn std::error::Error + Send + Sync>,
}

/// A capture being written under a temporary name.
#[derive(Debug)]
struct StagedCapture {
    recording: Recording,
    temporary: PathBuf,
    path: PathBuf,
}

impl StagedCapture {
    fn failed(&self, error: impl std::error::Error + Send + Sync + 'static) -> DevicesError {
        DevicesError { path: self.path.clone(), error: Box::new(error) }
    }
}

impl Drop for StagedCapture {
    fn drop(&mut self) {
        drop(self.recording.lock().take());
        // Already gone if it was renamed. Otherwise an incomplete file has no use, and there is nowhere to report an
        // error.
        drop(fs::remove_file(&self.temporary));
    }
}

/// A binding whose port passes from one graph to the next.
enum Bound<T: ?Sized> {
    Port(SharedPort<T>),
    Capture(PathBuf),
    Nothing,
}

impl<T: ?Sized> From<DeviceSide<T, PathBuf>> for Bound<T> {
    fn from(binding: DeviceSide<T, PathBuf>) -> Self {
        match binding {
            DeviceSide::Port(port) => Self::Port(SharedPort::new(port)),
            DeviceSide::Capture(path) => Self::Capture(path),
            DeviceSide::Nothing => Self::Nothing,
        }
    }
}

/// Devices by name, and the captures that a run writes. A capture gets its final name once it is complete; a dropped
/// one is removed.
///
/// It serves successive graphs: call `begin` before a graph is opened, then `settle` if it runs, or `give_up`.
pub struct Devices<P> {
    clock: Clock,
    receives: BTreeMap<String, Bound<dyn RxPort<P>>>,
    sends: BTreeMap<String, Bound<dyn TxPort<P>>>,
    /// For the only device without a binding.
    receives_any: Option<ReceiveBinding<P>>,
    sends_any: Option<PathBuf>,
    /// Devices that the graph being opened receives from, or sends to by a port.
    receiving: BTreeSet<String>,
    sending: BTreeSet<String>,
    /// Devices whose captures a graph has begun to read.
    begun: BTreeSet<String>,
    staged: Vec<StagedCapture>,
    /// Captures written by other graphs.
    others: usize,
}

impl<P> fmt::Debug for Devices<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Devices<P> {
    /// No bindings.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            receives: BTreeMap::new(),
            sends: BTreeMap::new(),
            receives_any: None,
            sends_any: None,
            receiving: BTreeSet::new(),
            sending: BTreeSet::new(),
            begun: BTreeSet::new(),
            staged: Vec::new(),
            others: 0,
        }
    }

    /// Prepares for opening another graph. `kept` is what its elements keep from their predecessors and will not open.
    pub(super) fn begin<'a>(&mut self, kept: impl Iterator<Item = &'a OpenRequest>) {
        self.receiving.clear();
        self.sending.clear();
        self.others = self.staged.len();
        for want in kept {
            match want {
                OpenRequest::Inlet(device) => drop(self.receiving.insert(device.clone())),
                OpenRequest::Outlet(device) => drop(self.sending.insert(device.clone())),
                OpenRequest::Read(_) | OpenRequest::Write(_) | OpenRequest::Print(_) => {}
            }
        }
    }

    /// The opened graph runs.
    pub(super) fn settle(&mut self) {
        let is_capture = |device: &&String| matches!(self.receives.get(*device), Some(Bound::Capture(_)));
        let begun: Vec<String> = self.receiving.iter().filter(is_capture).cloned().collect();
        self.begun.extend(begun);
        self.others = self.staged.len();
    }

    /// The opened graph will not run: removes captures that only it would write.
    pub(super) fn give_up(&mut self) {
        self.staged.truncate(self.others);
    }

    /// Binds the receiving side of a device. `None` means the only device of the configuration without a binding.
    pub fn receive(&mut self, device: Option<&str>, from: ReceiveBinding<P>) -> &mut Self {
        match device {
            Some(device) => drop(self.receives.insert(device.to_owned(), from.into())),
            None => self.receives_any = Some(from),
        }
        self
    }

    /// Binds the sending side of a device.
    pub fn send(&mut self, device: &str, to: SendBinding<P>) -> &mut Self {
        self.sends.insert(device.to_owned(), to.into());
        self
    }

    /// Binds a capture to the sending side of the only device without a binding.
    pub fn send_any(&mut self, file: PathBuf) -> &mut Self {
        self.sends_any = Some(file);
        self
    }

    /// Bindings that no element used, as text.
    pub fn unused(&self) -> Vec<String> {
        let receives = self.receives.keys().filter(|device| !self.receiving.contains(*device));
        let receives = receives.map(|device| format!("nothing receives from {device}"));
        let ports = self.sends.iter().filter(|(_, sink)| matches!(sink, Bound::Port(_)));
        let sends = ports.map(|(device, _)| device).filter(|device| !self.sending.contains(*device));
        let sends = sends.map(|device| format!("nothing sends to {device}"));
        let any_in = self
            .receives_any
            .as_ref()
            .map(|_| "no device is left that the capture could stand for".to_owned());
        let any_out = self.sends_any.as_ref().map(|_| "no device is left to capture for".to_owned());
        receives.chain(sends).chain(any_in).chain(any_out).collect()
    }

    /// Completes all captures, renames them and returns their names.
    ///
    /// # Errors
    /// [`DevicesError`]. Captures that are not renamed yet are removed.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, DevicesError> {
        for staged in &self.staged {
            let writer = staged.recording.lock().take();
            let finished = writer.map_or(Ok(()), CaptureWriter::finish);
            finished.map_err(|error| staged.failed(error))?;
        }
        let mut paths = Vec::with_capacity(self.staged.len());
        for staged in self.staged.drain(..) {
            let renamed = fs::rename(&staged.temporary, &staged.path);
            renamed.map_err(|error| staged.failed(error))?;
            paths.push(staged.path.clone());
        }
        Ok(paths)
    }

    fn stage(&mut self, path: &Path) -> Result<Recording, String> {
        if let Some(there) = self.staged.iter().find(|staged| staged.path == path) {
            return Ok(there.recording.clone());
        }
        let name = path.file_name().ok_or_else(|| format!("{}: not the name of a file", path.display()))?;
        // The writer derives the format from the end of the name.
        let temporary = path.with_file_name(format!(".{}.{}", std::process::id(), name.display()));
        let writer = CaptureWriter::create(&temporary).map_err(|error| named(path, &error))?;
        let recording = Recording::new(writer);
        self.staged.push(StagedCapture { recording: recording.clone(), temporary, path: path.to_owned() });
        Ok(recording)
    }
}

/// An error about a file, with the name that the user knows.
fn named(path: &Path, error: &CaptureError) -> String {
    match error {
        CaptureError::Open { source, .. } => format!("{}: {source}", path.display()),
        CaptureError::UnknownExtension { .. } => {
            CaptureError::UnknownExtension { path: path.to_owned() }.to_string()
        }
        error if error.names_its_file() => error.to_string(),
        error => format!("{}: {error}", path.display()),
    }
}

fn unbound(device: &str, side: &str) -> String {
    format!("nothing is bound to the device {device}: --pcap {side}:{device}=FILE or --port {device}=DEVICE")
}

fn open(path: &Path) -> Result<CaptureReader, String> {
    CaptureReader::open(path).map_err(|error| named(path, &error))
}

impl<P: PacketBuf + 'static> Environment<P> for Devices<P> {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn inlet(&mut self, device: &str) -> Result<Inlet<P>, String> {
        if self.receiving.contains(device) {
            return Err(format!("another element receives from {device}"));
        }
        if !self.receives.contains_key(device) {
            let any = self.receives_any.take().ok_or_else(|| unbound(device, "in"))?;
            self.receives.insert(device.to_owned(), any.into());
        }
        let inlet = match self.receives.get(device) {
            Some(Bound::Port(port)) => Inlet::Port(Box::new(port.clone())),
            Some(Bound::Capture(_)) if self.begun.contains(device) => {
                return Err(format!(
                    "an element of another name has begun to read the capture for {device}: only an element of that \
                     name can go on"
                ));
            }
            Some(Bound::Capture(path)) => open(path).map(Inlet::Capture)?,
            Some(Bound::Nothing) | None => Inlet::Nothing,
        };
        self.receiving.insert(device.to_owned());
        Ok(inlet)
    }

    fn outlet(&mut self, device: &str) -> Result<Outlet<P>, String> {
        if !self.sends.contains_key(device) {
            let any = self.sends_any.take().ok_or_else(|| unbound(device, "out"))?;
            self.sends.insert(device.to_owned(), Bound::Capture(any));
        }
        match self.sends.get(device) {
            Some(Bound::Port(port)) => {
                if !self.sending.insert(device.to_owned()) {
                    return Err(format!("another element sends to {device}"));
                }
                Ok(Outlet::Port(Box::new(port.clone())))
            }
            Some(Bound::Capture(path)) => {
                let path = path.clone();
                self.stage(&path).map(Outlet::Capture)
            }
            Some(Bound::Nothing) | None => Ok(Outlet::Nothing),
        }
    }

    fn read(&mut self, file: &Path) -> Result<CaptureReader, String> {
        open(file)
    }

    fn write(&mut self, file: &Path) -> Result<Recording, String> {
        self.stage(file)
    }

    fn print(&mut self, file: &Path) -> Result<Box<dyn io::Write + Send>, String> {
        let created = fs::File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Box::new(created))
    }

    fn secret(&mut self, file: &Path) -> Result<Secret, String> {
        secret_file::read_private(file, KEY_FILE_BYTES)
            .map_err(|error| format!("{}: {error}", file.display()))
    }
}
