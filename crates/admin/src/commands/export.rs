//! `scalebricks flow export`: exports all flows of the cluster.

use super::CommandError;
use super::flow_args::FlowExportArgs;
use crate::client::sockets::Daemon;
use scalebricks_console::atomic_file::AtomicWriter;
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, Progress, status as exit};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

pub(super) fn run(
    args: &FlowExportArgs,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let is_pipe = args.file == Path::new("-");
    if is_pipe && io::stdout().is_terminal() {
        return Err(CommandError::Usage(
            "standard output is a terminal: use a pipe or name a file".to_owned(),
        ));
    }
    let client = args.reach.client(Daemon::Node)?;
    let progress = console.progress("flows", client.cluster()?.flows);
    let failed = |error: io::Error| CommandError::File { path: args.file.clone(), what: error.to_string() };
    let mut file = None;
    let mut lines = Lines::default();
    let mut write_error = None;
    let exported = client.export(|bytes| {
        lines.count(bytes, &progress);
        let written = match (is_pipe, &mut file) {
            (true, _) => io::stdout().lock().write_all(bytes),
            (false, Some(file)) => AtomicWriter::write_all(file, bytes),
            // Created when the first bytes arrive, so that a refused request creates no file.
            (false, None) if bytes.is_empty() => Ok(()),
            (false, None) => {
                AtomicWriter::create(&args.file).and_then(|new| file.insert(new).write_all(bytes))
            }
        };
        if let Err(error) = written {
            write_error = Some(error);
        }
        Ok(write_error.is_none() && interrupt.check().is_ok())
    });
    if let Some(error) = write_error {
        // The reader has closed the pipe.
        let is_enough = is_pipe && error.kind() == ErrorKind::BrokenPipe;
        return if is_enough { Ok(exit::SUCCESS) } else { Err(failed(error)) };
    }
    let is_whole = exported.inspect_err(|_| {
        if lines.0 > 0 {
            console.note("the export is incomplete, and no file is kept: see the node's log");
        }
    })?;
    if !is_whole {
        return Ok(exit::INTERRUPTED);
    }
    match file {
        Some(file) => file.finish().map_err(failed)?,
        None => io::stdout().lock().flush().map_err(failed)?,
    }
    progress.finish();
    console.note(&format!("{} flows exported", count(lines.flows())));
    Ok(exit::SUCCESS)
}

/// Counts lines.
#[derive(Default)]
struct Lines(u64);

impl Lines {
    fn count(&mut self, bytes: &[u8], progress: &Progress) {
        let before = self.flows();
        self.0 += bytes.split(|byte| *byte == b'\n').skip(1).count() as u64;
        progress.add(self.flows() - before);
    }

    /// The number of lines without the header.
    const fn flows(&self) -> u64 {
        self.0.saturating_sub(1)
    }
}
