//! Reads the frames of a capture as packets, for source elements.

use crate::annotations::PacketType;
use scalebricks_graph::{Clock, DropId, Frame, Meta, Out, Supply};
use scalebricks_io::{CaptureError, CaptureReader, CapturedFrame, PacketBuf};
use scalebricks_wire::MacAddr;
use std::time::Duration;

/// Records to which hosts of its link a frame was sent. A frame too short for an address counts as sent to this host.
#[inline]
pub(crate) fn note_link(data: &[u8], meta: &mut Meta) {
    match data.first_chunk::<6>() {
        // Most frames go to one host.
        Some(destination) if destination[0] & 1 == 0 => PacketType::Host.note(meta),
        Some(&destination) => PacketType::of(MacAddr(destination), None).note(meta),
        None => {}
    }
}

/// When frames are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timing {
    /// As fast as the graph takes it.
    Free,
    /// When the worker's clock reaches their time stamp.
    Stamps,
    /// By time stamp relative to the first frame; its values are the worker's clock and the time stamp of that frame.
    Shifted(Option<(Duration, Duration)>),
}

/// A capture that is read as time passes.
#[derive(Debug)]
pub(crate) struct CaptureSource {
    reader: CaptureReader,
    head: Option<CapturedFrame>,
    pace: Timing,
    fault: Option<String>,
    /// Frames of link types that are not supported.
    pub(crate) unsupported: u64,
}

/// The result of reading frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadCount {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) had_no_buffer: bool,
}

impl CaptureSource {
    /// `timing` keeps the pace of the time stamps on the wall clock; on the captures' clock that is always the case.
    pub(crate) fn new(reader: CaptureReader, clock: Clock, timing: bool) -> Self {
        let pace = match (clock, timing) {
            (Clock::Captures, _) => Timing::Stamps,
            (Clock::Wall, true) => Timing::Shifted(None),
            (Clock::Wall, false) => Timing::Free,
        };
        let mut frames = Self { reader, head: None, pace, fault: None, unsupported: 0 };
        frames.advance();
        frames
    }

    fn advance(&mut self) {
        self.head = loop {
            match self.reader.next() {
                Some(Ok(frame)) => break Some(frame),
                Some(Err(CaptureError::UnsupportedLinkType { .. })) => self.unsupported += 1,
                Some(Err(error)) => {
                    self.fault = Some(error.to_string());
                    break None;
                }
                None => break None,
            }
        };
    }

    /// When the next frame is due.
    pub(crate) fn supply(&self) -> Supply {
        match (&self.head, self.pace) {
            (None, _) => Supply::Ended,
            (Some(_), Timing::Free | Timing::Shifted(None)) => Supply::At(Duration::ZERO),
            (Some(head), Timing::Stamps) => Supply::At(head.timestamp),
            (Some(head), Timing::Shifted(Some((start, first)))) => {
                Supply::At(start.saturating_add(head.timestamp.saturating_sub(first)))
            }
        }
    }

    /// The error in the file, if any.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Sends up to `want` due frames by output 0. A frame too large for every buffer is dropped.
    pub(crate) fn bring<P: PacketBuf>(
        &mut self,
        want: usize,
        too_long: DropId,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) -> ReadCount {
        let mut brought = ReadCount::default();
        if let (Timing::Shifted(None), Some(head)) = (self.pace, &self.head) {
            self.pace = Timing::Shifted(Some((out.now(), head.timestamp)));
        }
        while brought.packets < want as u64
            && let Supply::At(at) = self.supply()
            && at <= out.now()
            && let Some(head) = &self.head
        {
            let Some(mut packet) = frame.alloc() else {
                brought.had_no_buffer = true;
                break;
            };
            if packet.append(&head.data).is_err() {
                out.count_drops(too_long, 1);
            } else {
                let Ok(slot) = frame.put(packet) else { break };
                note_link(&head.data, frame.meta_mut(&slot));
                brought.packets += 1;
                brought.bytes += head.data.len() as u64;
                out.push(0, slot);
            }
            self.advance();
        }
        brought
    }
}
