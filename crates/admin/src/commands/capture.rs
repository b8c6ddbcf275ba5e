//! `scalebricks capture`: captures into a file or a pipe.

use super::blocks::Blocks;
use super::{CaptureArgs, CommandError};
use crate::client::{Client, ClientError};
use crate::model::{CaptureRequest, Direction};
use scalebricks_console::quantity::count;
use scalebricks_console::{Console, Interrupt, status};
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;

/// The request for the arguments.
fn request(args: &CaptureArgs) -> CaptureRequest {
    let is_elsewhere = (args.drops.is_some() || !args.edge.is_empty()) && args.port.is_empty();
    let drop_reasons = args.drops.clone().unwrap_or_default();
    CaptureRequest {
        ports: args.port.clone(),
        direction: args.direction.unwrap_or(if is_elsewhere { Direction::None } else { Direction::Both }),
        edges: args.edge.clone(),
        drops: args.drops.is_some(),
        drop_reasons: if drop_reasons.iter().any(|reason| reason == "all") {
            Vec::new()
        } else {
            drop_reasons
        },
        host: args.host,
        teid: args.teid,
        udp_port: args.udp_port,
        count: args.count,
        seconds: args.seconds,
        snap_bytes: args.snap_len,
    }
}

pub(super) fn run(
    args: &CaptureArgs,
    client: &Client,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let is_pipe = args.write == Path::new("-");
    if is_pipe && io::stdout().is_terminal() {
        return Err(CommandError::Usage(
            "standard output is a terminal: use a pipe or name a file".to_owned(),
        ));
    }
    let failed = |error: io::Error| CommandError::File { path: args.write.clone(), what: error.to_string() };
    // Created when the first bytes arrive, so that a refused request does not truncate a file.
    let mut out: Option<Box<dyn Write>> = None;
    let open = || -> io::Result<Box<dyn Write>> {
        if is_pipe {
            return Ok(Box::new(io::stdout().lock()));
        }
        Ok(Box::new(BufWriter::new(File::create(&args.write)?)))
    };
    let mut blocks = Blocks::default();
    let mut write_error = None;
    let done = client.capture(&request(args), |bytes| {
        let mut write = || {
            let whole = blocks.feed(bytes)?;
            if whole.is_empty() {
                return Ok(());
            }
            let out = match &mut out {
                Some(out) => out,
                None => out.insert(open()?),
            };
            out.write_all(&whole)?;
            if is_pipe { out.flush() } else { Ok(()) }
        };
        match write() {
            Ok(()) => Ok(interrupt.check().is_ok()),
            // The reader has closed the pipe.
            Err(error) if is_pipe && error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                write_error = Some(error);
                Ok(false)
            }
        }
    });
    let flushed = out.as_mut().map_or(Ok(()), Write::flush);
    match write_error.map_or(flushed, Err) {
        Err(error) if is_pipe && error.kind() == ErrorKind::BrokenPipe => {}
        kept => kept.map_err(failed)?,
    }
    let frames = blocks.frames();
    let lost = match blocks.lost() {
        None | Some(0) => String::new(),
        Some(lost) => format!(", {} lost because this reader was too slow", count(lost)),
    };
    console.note(&format!("{} frames captured{lost}", count(frames)));
    match done {
        // The connection broke: the frames received so far are kept.
        Err(error @ ClientError::Protocol { .. }) if out.is_some() => {
            console.note("the capture is incomplete");
            Err(error.into())
        }
        done => done.map(|()| status::SUCCESS).map_err(Into::into),
    }
}
