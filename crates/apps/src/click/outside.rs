//! What elements open: devices and captures, by what a user binds to their names.

use scalebricks_graph::{Clock, Inlet, Outlet, Recording, World};
use scalebricks_io::{CaptureError, CaptureReader, CaptureWriter, PacketBuf, RxPort, TxPort};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// What stands for the receiving side of a device.
pub enum Receives<P> {
    /// A port.
    Port(Box<dyn RxPort<P>>),
    /// A capture.
    Capture(PathBuf),
    /// Nothing comes.
    Nothing,
}

/// What stands for the sending side of a device.
pub enum Sends<P> {
    /// A port.
    Port(Box<dyn TxPort<P>>),
    /// A capture.
    Capture(PathBuf),
    /// Packets are dropped on purpose.
    Nothing,
}

impl<P> fmt::Debug for Receives<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receives")
    }
}

impl<P> fmt::Debug for Sends<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sends")
    }
}

/// What went wrong when captures were completed.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// A capture could not be written to its end.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        error: CaptureError,
    },
    /// A complete capture could not be given its name.
    #[error("{}: {error}", path.display())]
    Rename {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A capture being written under another name.
#[derive(Debug)]
struct Staged {
    recording: Recording,
    temporary: PathBuf,
    path: PathBuf,
}

impl Drop for Staged {
    fn drop(&mut self) {
        drop(self.recording.lock().take());
        // Gone already if it was renamed; else nobody wants half a file, and there is nobody left to tell.
        drop(fs::remove_file(&self.temporary));
    }
}

/// Devices by name, and the captures that a run writes. Captures have their names once they are complete: one that is
/// dropped leaves none.
#[derive(Debug)]
pub struct Outside<P> {
    clock: Clock,
    receives: BTreeMap<String, Receives<P>>,
    sends: BTreeMap<String, Sends<P>>,
    /// For the only device that has nothing bound to it.
    receives_any: Option<Receives<P>>,
    sends_any: Option<PathBuf>,
    /// The device that got it.
    sends_taken: Option<(String, PathBuf)>,
    staged: Vec<Staged>,
}

impl<P: PacketBuf + 'static> Outside<P> {
    /// Nothing is bound to any name.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            receives: BTreeMap::new(),
            sends: BTreeMap::new(),
            receives_any: None,
            sends_any: None,
            sends_taken: None,
            staged: Vec::new(),
        }
    }

    /// Binds the receiving side of a device. `None` is the one device of the configuration that has nothing bound to it.
    pub fn receive(&mut self, device: Option<&str>, from: Receives<P>) -> &mut Self {
        match device {
            Some(device) => drop(self.receives.insert(device.to_owned(), from)),
            None => self.receives_any = Some(from),
        }
        self
    }

    /// Binds the sending side of a device.
    pub fn send(&mut self, device: &str, to: Sends<P>) -> &mut Self {
        self.sends.insert(device.to_owned(), to);
        self
    }

    /// Binds a capture to the sending side of the one device of the configuration that has nothing bound to it.
    pub fn send_any(&mut self, file: PathBuf) -> &mut Self {
        self.sends_any = Some(file);
        self
    }

    /// What was bound and no element asked for, in words.
    pub fn unused(&self) -> Vec<String> {
        let receives = self.receives.keys().map(|device| format!("nothing receives from {device}"));
        let sends = self.sends.iter().filter(|(_, sends)| matches!(sends, Sends::Port(_)));
        let sends = sends.map(|(device, _)| format!("nothing sends to {device}"));
        let any_in = self
            .receives_any
            .as_ref()
            .map(|_| "no device is left that the capture could stand for".to_owned());
        let any_out = self.sends_any.as_ref().map(|_| "no device is left to capture for".to_owned());
        receives.chain(sends).chain(any_in).chain(any_out).collect()
    }

    /// Completes all captures and gives them their names; returns those.
    ///
    /// # Errors
    /// [`OutsideError`]. Captures that are not renamed yet are removed.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, OutsideError> {
        for staged in &self.staged {
            let writer = staged.recording.lock().take();
            let finished = writer.map_or(Ok(()), CaptureWriter::finish);
            finished.map_err(|error| OutsideError::Capture { path: staged.path.clone(), error })?;
        }
        let mut paths = Vec::with_capacity(self.staged.len());
        for staged in self.staged.drain(..) {
            let renamed = fs::rename(&staged.temporary, &staged.path);
            renamed.map_err(|error| OutsideError::Rename { path: staged.path.clone(), error })?;
            paths.push(staged.path.clone());
        }
        Ok(paths)
    }

    fn stage(&mut self, path: &Path) -> Result<Recording, String> {
        if let Some(there) = self.staged.iter().find(|staged| staged.path == path) {
            return Ok(there.recording.clone());
        }
        let name = path.file_name().ok_or_else(|| format!("{}: not the name of a file", path.display()))?;
        // The writer tells the format by the end of the name.
        let temporary = path.with_file_name(format!(".{}.{}", std::process::id(), name.display()));
        let writer = CaptureWriter::create(&temporary).map_err(|error| named(path, &error))?;
        let recording = Recording::new(writer);
        self.staged.push(Staged { recording: recording.clone(), temporary, path: path.to_owned() });
        Ok(recording)
    }
}

/// An error about a file under the name that the user knows.
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

fn open(path: &Path) -> Result<CaptureReader, String> {
    CaptureReader::open(path).map_err(|error| named(path, &error))
}

impl<P: PacketBuf + 'static> World<P> for Outside<P> {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn inlet(&mut self, device: &str) -> Result<Inlet<P>, String> {
        match self.receives.remove(device).or_else(|| self.receives_any.take()) {
            Some(Receives::Port(port)) => Ok(Inlet::Port(port)),
            Some(Receives::Capture(path)) => open(&path).map(Inlet::Capture),
            Some(Receives::Nothing) => Ok(Inlet::Nothing),
            None => Err(format!(
                "nothing is bound to the device {device}, or another element receives from it: \
                 --pcap in:{device}=FILE or --port {device}=DEVICE"
            )),
        }
    }

    fn outlet(&mut self, device: &str) -> Result<Outlet<P>, String> {
        if let Some((taken, path)) = self.sends_taken.clone()
            && taken == device
        {
            return self.stage(&path).map(Outlet::Capture);
        }
        match self.sends.get(device) {
            Some(Sends::Capture(path)) => {
                let path = path.clone();
                self.stage(&path).map(Outlet::Capture)
            }
            Some(Sends::Nothing) => Ok(Outlet::Nothing),
            Some(Sends::Port(_)) => match self.sends.remove(device) {
                Some(Sends::Port(port)) => Ok(Outlet::Port(port)),
                _ => unreachable!("it was there"),
            },
            None => match self.sends_any.take() {
                Some(path) => {
                    self.sends_taken = Some((device.to_owned(), path.clone()));
                    self.stage(&path).map(Outlet::Capture)
                }
                None => Err(format!(
                    "nothing is bound to the device {device}: --pcap out:{device}=FILE or --port {device}=DEVICE"
                )),
            },
        }
    }

    fn read(&mut self, file: &Path) -> Result<CaptureReader, String> {
        open(file)
    }

    fn write(&mut self, file: &Path) -> Result<Recording, String> {
        self.stage(file)
    }
}
