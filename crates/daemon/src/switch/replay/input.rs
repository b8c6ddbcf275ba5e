//! The input captures: one or several per port, merged by time.

use super::super::args::Input;
use crate::error::ProcessError;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_io::{CaptureError, CaptureReader, CapturedFrame};
use std::path::PathBuf;

/// A frame that arrives at a port.
pub(super) struct Arrival {
    pub(super) port: usize,
    pub(super) frame: CapturedFrame,
}

/// All captures.
pub(super) struct Inputs {
    sources: Vec<Source>,
}

struct Source {
    port: usize,
    path: PathBuf,
    reader: CaptureReader,
    head: Option<CapturedFrame>,
}

impl Source {
    /// Takes the next frame, and reads the one after it.
    fn take(&mut self) -> Result<Option<CapturedFrame>, ProcessError> {
        let next = match self.reader.next() {
            None => None,
            Some(Ok(frame)) => Some(frame),
            Some(Err(error)) => return Err(self.failed(error)),
        };
        Ok(std::mem::replace(&mut self.head, next))
    }

    fn failed(&self, error: CaptureError) -> ProcessError {
        ProcessError::Capture { path: self.path.clone(), error }
    }
}

impl Inputs {
    /// Opens all captures.
    pub(super) fn open(inputs: &[Input], ports: &PortNames) -> Result<Self, ProcessError> {
        let mut sources = Vec::with_capacity(inputs.len());
        for Input { port, path } in inputs {
            let Some(number) = ports.port(port) else {
                let there = ports.all().join(", ");
                return Err(ProcessError::Usage(format!("no port is named '{port}'; there are {there}")));
            };
            let reader = CaptureReader::open(path)
                .map_err(|error| ProcessError::Capture { path: path.clone(), error })?;
            let mut source = Source { port: number.index(), path: path.clone(), reader, head: None };
            source.take()?;
            sources.push(source);
        }
        Ok(Self { sources })
    }

    /// The oldest of the next frames of all captures; of equally old ones that of the capture named first.
    pub(super) fn next(&mut self) -> Result<Option<Arrival>, ProcessError> {
        let heads = self.sources.iter_mut().filter_map(|source| {
            let at = source.head.as_ref()?.timestamp;
            Some((at, source))
        });
        let Some((_, source)) = heads.min_by_key(|(at, _)| *at) else { return Ok(None) };
        let port = source.port;
        Ok(source.take()?.map(|frame| Arrival { port, frame }))
    }
}
