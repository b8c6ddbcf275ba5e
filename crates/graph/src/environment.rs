//! What lies outside a graph: devices and capture files, which elements open before the graph runs.
//!
//! Building a graph has no effects. [`Graph::open`](crate::Graph::open) has: it asks every element to open what it
//! works with, and each asks a [`Environment`]. So one configuration runs over devices, or over captures in their place.

use scalebricks_io::{CaptureReader, CaptureWriter, RxPort, TxPort};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where packets of a device come from.
pub enum Inlet<P> {
    /// A port.
    Port(Box<dyn RxPort<P>>),
    /// A capture, in the device's place.
    Capture(CaptureReader),
    /// Nothing comes.
    Nothing,
}

impl<P> fmt::Debug for Inlet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port(_) => "Port",
            Self::Capture(_) => "Capture",
            Self::Nothing => "Nothing",
        })
    }
}

/// Where packets for a device go.
pub enum Outlet<P> {
    /// A port.
    Port(Box<dyn TxPort<P>>),
    /// A capture, in the device's place.
    Capture(Recording),
    /// They are dropped on purpose.
    Nothing,
}

impl<P> fmt::Debug for Outlet<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port(_) => "Port",
            Self::Capture(_) => "Capture",
            Self::Nothing => "Nothing",
        })
    }
}

/// A capture file that several elements write to, and that whoever made it completes.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Option<CaptureWriter>>>);

impl Recording {
    /// Shares a writer.
    pub fn new(writer: CaptureWriter) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// The writer, held; `None` once it was taken.
    pub fn lock(&self) -> MutexGuard<'_, Option<CaptureWriter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // a frame is written whole or not at all
    }
}

/// How time passes for those who read captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// As it does everywhere.
    #[default]
    Wall,
    /// As the captures say: the time of a turn is that of the packets it brings.
    Captures,
}

/// What elements can open. Errors are told to the user beside the element's place.
pub trait Environment<P> {
    /// How time passes.
    fn clock(&self) -> Clock;

    /// The receiving side of a device.
    ///
    /// # Errors
    /// Why there is none.
    fn inlet(&mut self, device: &str) -> Result<Inlet<P>, String>;

    /// The sending side of a device.
    ///
    /// # Errors
    /// Why there is none.
    fn outlet(&mut self, device: &str) -> Result<Outlet<P>, String>;

    /// A capture file to read.
    ///
    /// # Errors
    /// Why it cannot be.
    fn read(&mut self, file: &Path) -> Result<CaptureReader, String>;

    /// A capture file to write.
    ///
    /// # Errors
    /// Why it cannot be.
    fn write(&mut self, file: &Path) -> Result<Recording, String>;

    /// A file to print lines to, which is made anew.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn print(&mut self, file: &Path) -> Result<Box<dyn Write + Send>, String>;
}

/// What a source still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Packets that come no earlier than this, on the worker's clock.
    At(Duration),
    /// None any more.
    Ended,
}
