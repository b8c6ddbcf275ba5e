//! `scalebricks trace`: builds the request, and formats the result.

use super::{CommandError, TraceArgs, list};
use crate::model::{PortRole, Trace, TracePacket, TraceRequest};
use crate::trace::{hex, unhex};
use scalebricks_io::CaptureReader;
use std::path::{Path, PathBuf};

/// The request for the arguments.
pub(super) fn request(args: &TraceArgs) -> Result<TraceRequest, CommandError> {
    let packet = match (&args.packet, args.teid) {
        (Some(text), _) => frame(text, args)?,
        (None, Some(teid)) => TracePacket::Upstream {
            teid,
            base_station: args.base_station,
            inner_src: needed(args.inner_src, "--inner-src")?,
            inner_dst: needed(args.inner_dst, "--inner-dst")?,
            protocol: args.proto,
            src_port: args.sport,
            dst_port: args.dport,
            payload_bytes: args.payload,
        },
        (None, None) => TracePacket::Downstream {
            src: needed(args.src, "PACKET, --teid or --src")?,
            dst: needed(args.dst, "--dst")?,
            protocol: args.proto,
            src_port: args.sport,
            dst_port: args.dport,
            payload_bytes: args.payload,
        },
    };
    Ok(TraceRequest { packet })
}

fn needed<T>(given: Option<T>, name: &str) -> Result<T, CommandError> {
    given.ok_or_else(|| {
        CommandError::Usage(format!("the packet is incomplete: {name} is missing (see --help)"))
    })
}

/// A frame in hexadecimal digits, or in a file if one with that name exists.
fn frame(text: &str, args: &TraceArgs) -> Result<TracePacket, CommandError> {
    let port: PortRole = needed(args.port, "--port")?;
    let path = Path::new(text);
    let bytes = if path.is_file() { captured(path, args.frame)? } else { unhex(text).unwrap_or_default() };
    if bytes.is_empty() {
        let what = "neither a capture file nor a frame in hexadecimal digits".to_owned();
        return Err(CommandError::File { path: PathBuf::from(text), what });
    }
    Ok(TracePacket::Frame { port, frame_hex: hex(&bytes), readdress: args.readdress })
}

/// The frame with this number in a capture file.
fn captured(path: &Path, number: u64) -> Result<Vec<u8>, CommandError> {
    let bad = |what: String| CommandError::File { path: path.to_owned(), what };
    let mut reader = CaptureReader::open(path).map_err(|error| {
        let what = error.to_string();
        if error.names_its_file() { CommandError::Usage(what) } else { bad(what) }
    })?;
    let skipped = usize::try_from(number - 1).unwrap_or(usize::MAX);
    match reader.nth(skipped) {
        None => Err(bad(format!("has only {} frames, not frame {number}", reader.frames()))),
        Some(Err(error)) => Err(bad(error.to_string())),
        Some(Ok(frame)) if (frame.original_len as usize) > frame.data.len() => {
            Err(bad(format!("frame {number} was not captured completely")))
        }
        Some(Ok(frame)) => Ok(frame.data),
    }
}

pub(super) fn render(trace: &Trace) -> String {
    let steps: Vec<_> = trace.steps.iter().map(|step| (step.at.as_str(), step.found.clone())).collect();
    format!("{}\n\n{}", trace.verdict, list(&steps))
}
