//! Determines what elements open without opening it: an element that opens the same as its predecessor keeps what that
//! one has.

use scalebricks_graph::{Clock, Environment, Graph, Inlet, Outlet, Recording, Secret};
use scalebricks_io::{CaptureReader, PacketBuf};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Something that an element opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OpenRequest {
    /// The receiving side of a device.
    Inlet(String),
    /// The sending side of a device.
    Outlet(String),
    /// A capture file to read.
    Read(PathBuf),
    /// A capture file to write.
    Write(PathBuf),
    /// A file to print lines to.
    Print(PathBuf),
}

/// What a graph's elements open, by name: their classes and requests.
pub(super) type OpenRequests = HashMap<String, (&'static str, Vec<OpenRequest>)>;

/// Records requests and grants none.
struct RequestRecorder {
    clock: Clock,
    wants: Vec<OpenRequest>,
}

impl<P> Environment<P> for RequestRecorder {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn inlet(&mut self, device: &str) -> Result<Inlet<P>, String> {
        self.wants.push(OpenRequest::Inlet(device.to_owned()));
        Ok(Inlet::Nothing)
    }

    fn outlet(&mut self, device: &str) -> Result<Outlet<P>, String> {
        self.wants.push(OpenRequest::Outlet(device.to_owned()));
        Ok(Outlet::Nothing)
    }

    fn read(&mut self, file: &Path) -> Result<CaptureReader, String> {
        self.wants.push(OpenRequest::Read(file.to_owned()));
        Err(String::new())
    }

    fn write(&mut self, file: &Path) -> Result<Recording, String> {
        self.wants.push(OpenRequest::Write(file.to_owned()));
        Err(String::new())
    }

    // Tables are read again for each graph, so such a file is no request.
    fn text(&mut self, _: &Path) -> Result<Box<dyn io::BufRead>, String> {
        Err(String::new())
    }

    fn print(&mut self, file: &Path) -> Result<Box<dyn io::Write + Send>, String> {
        self.wants.push(OpenRequest::Print(file.to_owned()));
        Err(String::new())
    }

    // Not recorded: a new configuration reads its keys again.
    fn secret(&mut self, _file: &Path) -> Result<Secret, String> {
        Err(String::new())
    }
}

/// What the elements of a graph would open. Leaves them unopened.
pub(super) fn wants<P: PacketBuf + 'static>(graph: &mut Graph<P>, clock: Clock) -> OpenRequests {
    let mut all = OpenRequests::new();
    let asked = graph.open_each(|name, element| {
        let mut asked = RequestRecorder { clock, wants: Vec::new() };
        // A refused file is no error here.
        drop(element.open(&mut asked));
        if !asked.wants.is_empty() {
            all.insert(name.to_owned(), (element.spec().class, asked.wants));
        }
        Ok(())
    });
    debug_assert!(asked.is_ok(), "no element is refused");
    all
}
