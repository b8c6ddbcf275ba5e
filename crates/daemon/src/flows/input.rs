//! Where packets come from: a capture, or ports.

use super::live::Live;
use super::summary::Frames;
use crate::error::ProcessError;
use scalebricks_console::Interrupt;
use scalebricks_io::{CaptureError, CaptureReader, LinkType};
use scalebricks_wire::parse_frame;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames between two looks at Ctrl-C.
const STRIDE: u64 = 1_024;

/// Longest IPv4 packet, and longest payload of an IPv6 packet, bytes. The kernel can join more (BIG TCP), with lengths of 0.
const LONGEST: usize = 65_535;

/// Length of an IPv6 header.
const IPV6_HEADER: usize = 40;

/// What an input gives.
pub(super) enum Arrival<'a> {
    /// An IP packet, and when it came.
    Packet(&'a [u8], Duration),
    /// Time has passed. Only from ports, about once a second, with or without packets.
    Tick(Tick),
}

/// A moment of a live input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    /// Now.
    pub(super) at: Duration,
    /// It is time to show what happened.
    pub(super) shows: bool,
}

/// When to stop before the input ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    /// After so long: on the clock of the capture, or of the machine.
    pub(super) duration: Option<Duration>,
    /// After so many frames.
    pub(super) count: Option<u64>,
}

impl Bounds {
    /// Whether so many frames are enough.
    pub(super) fn is_reached(&self, frames: &Frames) -> bool {
        self.count.is_some_and(|most| frames.all >= most)
    }
}

/// Why an input was not read to its end.
pub(super) enum Stopped {
    Interrupted,
    /// Writing failed; the output has the error.
    Written,
    /// The capture is cut or damaged, or a port has failed.
    Failed(ProcessError),
}

/// Where packets come from.
pub(super) enum Input {
    Capture(PathBuf, CaptureReader),
    Live(Live),
}

impl Input {
    /// Opens a capture.
    pub(super) fn capture(path: &Path) -> Result<Self, ProcessError> {
        let reader = CaptureReader::open(path).map_err(|error| match error {
            error if error.names_its_file() => ProcessError::CaptureFile(error),
            error => ProcessError::Capture { path: path.to_owned(), error },
        })?;
        Ok(Self::Capture(path.to_owned(), reader))
    }

    /// Calls `take` with each IP packet, and counts frames. Ports end with an interrupt, captures before it.
    pub(super) fn read(
        self,
        bounds: &Bounds,
        frames: &mut Frames,
        interrupt: &Interrupt,
        mut take: impl FnMut(Arrival<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        match self {
            Self::Live(live) => live.read(bounds, frames, interrupt, &mut take),
            Self::Capture(path, reader) => {
                let take = |packet: &[u8], at| take(Arrival::Packet(packet, at));
                capture(&path, reader, bounds, frames, interrupt, take)
            }
        }
    }
}

fn capture(
    path: &Path,
    reader: CaptureReader,
    bounds: &Bounds,
    frames: &mut Frames,
    interrupt: &Interrupt,
    mut take: impl FnMut(&[u8], Duration) -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    let mut first = None;
    for frame in reader {
        if bounds.is_reached(frames) {
            return Ok(());
        }
        if let (Ok(frame), Some(most)) = (&frame, bounds.duration)
            && frame.timestamp.saturating_sub(*first.get_or_insert(frame.timestamp)) > most
        {
            return Ok(());
        }
        frames.all += 1;
        if frames.all.is_multiple_of(STRIDE) && interrupt.check().is_err() {
            return Err(Stopped::Interrupted);
        }
        match frame {
            Ok(frame) => {
                frames.bytes += u64::from(frame.original_len);
                if let Some(packet) = ip_packet(&frame.data, LinkType::ETHERNET, frames) {
                    take(packet, frame.timestamp)?;
                }
            }
            Err(CaptureError::UnsupportedLinkType { .. }) => frames.unsupported_link += 1,
            Err(error) => {
                frames.all -= 1;
                return Err(Stopped::Failed(ProcessError::Capture { path: path.to_owned(), error }));
            }
        }
    }
    Ok(())
}

/// The IP packet of a frame, if it has one: an Ethernet frame, or for [`LinkType::RAW`] the packet itself.
pub(super) fn ip_packet<'a>(frame: &'a [u8], link: LinkType, frames: &mut Frames) -> Option<&'a [u8]> {
    let packet = if link == LinkType::RAW {
        frame
    } else {
        let Ok(header) = parse_frame(frame) else {
            frames.malformed += 1;
            return None;
        };
        if !header.is_ip() {
            frames.not_ip += 1;
            return None;
        }
        frame.get(header.l3_offset..).unwrap_or_default()
    };
    let longest = match packet.first().map(|first| first >> 4) {
        Some(4) => LONGEST,
        Some(6) => LONGEST + IPV6_HEADER,
        _ if link == LinkType::RAW => {
            frames.not_ip += 1;
            return None;
        }
        _ => usize::MAX, // the tracker finds it malformed
    };
    if packet.len() > longest {
        frames.too_long += 1;
        return None;
    }
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame.
    fn ethernet(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, kind[0], kind[1]], payload].concat()
    }

    #[test]
    fn frames_without_a_packet_are_counted_by_name() {
        let mut frames = Frames::default();
        let mut of = |frame: &[u8], link| ip_packet(frame, link, &mut frames).map(<[u8]>::len);
        let ipv4 = |len: usize| [&[0x45][..], &vec![0; len - 1]].concat();
        assert_eq!(of(&ethernet([8, 0], &ipv4(100)), LinkType::ETHERNET), Some(100));
        // What the kernel joined: as much as fits, and more.
        assert_eq!(of(&ethernet([8, 0], &ipv4(65_535)), LinkType::ETHERNET), Some(65_535));
        assert_eq!(of(&ethernet([8, 0], &ipv4(65_536)), LinkType::ETHERNET), None);
        assert_eq!(of(&ethernet([8, 6], &[0; 28]), LinkType::ETHERNET), None);
        assert_eq!(of(&[0; 13], LinkType::ETHERNET), None);
        assert_eq!(of(&ipv4(40), LinkType::RAW), Some(40));
        assert_eq!(of(&vec![0x60; 65_576], LinkType::RAW), None);
        assert_eq!(of(&[0; 40], LinkType::RAW), None);
        assert_eq!(of(&[], LinkType::RAW), None);
        assert_eq!((frames.not_ip, frames.malformed, frames.too_long), (3, 1, 2));
    }
}
