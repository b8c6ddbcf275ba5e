//! Devices and files, which elements open before a graph runs.
//!
//! Building a graph has no side effects. [`Graph::open`](crate::Graph::open) asks all elements to open what they need from
//! an [`Environment`]. So one configuration runs over devices, or over captures that replace them.

use scalebricks_io::{CaptureReader, CaptureWriter, RxPort, TxPort, open_text};
use std::fmt;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zeroize::Zeroizing;

/// One side of a device, with a port of type `T` or a capture of type `C`.
pub enum DeviceSide<T: ?Sized, C> {
    /// A port.
    Port(Box<T>),
    /// A capture that replaces the device.
    Capture(C),
    /// Nothing: no packets are received, or they are dropped on purpose.
    Nothing,
}

/// The receiving side of a device.
pub type Inlet<P> = DeviceSide<dyn RxPort<P>, CaptureReader>;

/// The sending side of a device.
pub type Outlet<P> = DeviceSide<dyn TxPort<P>, Recording>;

impl<T: ?Sized, C> fmt::Debug for DeviceSide<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port(_) => "Port",
            Self::Capture(_) => "Capture",
            Self::Nothing => "Nothing",
        })
    }
}

/// A capture file that several elements write to. Its creator completes it.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Option<CaptureWriter>>>);

impl Recording {
    /// Shares a writer.
    pub fn new(writer: CaptureWriter) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// Locks the writer; `None` once it was taken.
    pub fn lock(&self) -> MutexGuard<'_, Option<CaptureWriter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // frames are written as a whole or not at all
    }
}

/// The clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The wall clock.
    #[default]
    Wall,
    /// The time stamps of captures: the time of a turn is that of its packets.
    Captures,
}

/// What elements can open. Users see errors with the position of the element.
pub trait Environment<P> {
    /// The clock.
    fn clock(&self) -> Clock;

    /// The receiving side of a device.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn inlet(&mut self, device: &str) -> Result<Inlet<P>, String>;

    /// The sending side of a device.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn outlet(&mut self, device: &str) -> Result<Outlet<P>, String>;

    /// A capture file to read.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn read(&mut self, file: &Path) -> Result<CaptureReader, String>;

    /// A capture file to write.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn write(&mut self, file: &Path) -> Result<Recording, String>;

    /// A text file to read, plain or gzipped.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn text(&mut self, file: &Path) -> Result<Box<dyn BufRead>, String> {
        open_text(file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// A new file to print lines to.
    ///
    /// # Errors
    /// Why it cannot be created.
    fn print(&mut self, file: &Path) -> Result<Box<dyn Write + Send>, String>;

    /// The contents of a file with keys, which only its owner may read. They are overwritten when they are dropped.
    ///
    /// # Errors
    /// Why it cannot be read, with its name.
    fn secret(&mut self, file: &Path) -> Result<Secret, String>;
}

/// The contents of a file with keys.
pub type Secret = Zeroizing<Vec<u8>>;

/// The packets that a source still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Packets, not before this time on the worker's clock.
    At(Duration),
    /// None.
    Ended,
}
