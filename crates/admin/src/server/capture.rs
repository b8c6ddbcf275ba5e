//! The body of a capture's answer: pcapng, block by block.

use crate::inspect::CaptureStream;
use crate::model::{CaptureRequest, MAX_SNAP_BYTES, PortRole};
use hyper::body::{Body, Bytes, Frame};
use scalebricks_graph::tap::{CapturePoint, CapturedPacket, Direction};
use scalebricks_io::CaptureError;
use scalebricks_io::capture::{PcapNgStream, StreamDirection, StreamFrame};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// How often the queue is polled; workers do not wake the reader.
const POLL: Duration = Duration::from_millis(20);

/// Approximate bytes of a chunk.
const CHUNK_BYTES: usize = 64 * 1024;

/// Interface of dropped packets, after two interfaces per port.
const DROPS: u32 = 2 * PortRole::ALL.len() as u32;

/// Interface of packets on edges.
const EDGES: u32 = DROPS + 1;

/// A running capture.
pub(super) struct CaptureBody {
    /// `None` after the capture has ended.
    stream: Option<CaptureStream>,
    pcapng: PcapNgStream,
    poll: Interval,
    ends: Option<Instant>,
    /// Number of frames still to capture.
    wanted: u64,
    /// Number of lost frames already reported.
    reported_lost: u64,
}

impl CaptureBody {
    /// Creates the body. Its first bytes describe the interfaces.
    pub(super) fn new(stream: CaptureStream, request: &CaptureRequest) -> Result<Self, CaptureError> {
        let mut pcapng = PcapNgStream::new(concat!("scalebricks ", env!("CARGO_PKG_VERSION")))?;
        let snap_bytes = request.snap_bytes.unwrap_or(MAX_SNAP_BYTES);
        for role in PortRole::ALL {
            let (rx, tx) = (format!("{role} rx"), format!("{role} tx"));
            pcapng.interface(&rx, &format!("received from the {role} port"), snap_bytes)?;
            pcapng.interface(&tx, &format!("sent by the {role} port"), snap_bytes)?;
        }
        pcapng.interface("drops", "dropped by the node, the reason in the comment", snap_bytes)?;
        pcapng.interface(
            "edges",
            "between elements of the node's graph, the edge in the comment",
            snap_bytes,
        )?;
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            stream: Some(stream),
            pcapng,
            poll,
            ends: request.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into())),
            wanted: request.count.unwrap_or(u64::MAX),
            reported_lost: 0,
        })
    }

    /// Writes the waiting frames, up to a chunk, and ends the capture when it is complete.
    fn advance(&mut self) -> Result<(), CaptureError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.wanted > 0 && self.pcapng.waiting_bytes() < CHUNK_BYTES {
            let Some(frame) = stream.take() else { break };
            let lost = stream.lost();
            write(&mut self.pcapng, &frame, lost - self.reported_lost)?;
            self.reported_lost = lost;
            self.wanted -= 1;
        }
        let is_over = self.wanted == 0 || self.ends.is_some_and(|end| Instant::now() >= end);
        if is_over {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.pcapng.lost(0, now, stream.lost())?;
            self.stream = None;
        }
        Ok(())
    }
}

/// Writes a frame. `lost` frames were lost before it.
fn write(pcapng: &mut PcapNgStream, frame: &CapturedPacket, lost: u64) -> Result<(), CaptureError> {
    let (interface, direction, place) = match &frame.seen {
        // Ports have the numbers of their roles.
        CapturePoint::Port(port, Direction::Received) => (2 * *port as u32, StreamDirection::Inbound, None),
        CapturePoint::Port(port, Direction::Sent) => (2 * *port as u32 + 1, StreamDirection::Outbound, None),
        CapturePoint::Edge { from, output } => {
            (EDGES, StreamDirection::Unknown, Some(format!("edge: {from}.{output}")))
        }
        CapturePoint::Dropped(reason) => {
            (DROPS, StreamDirection::Unknown, Some(format!("dropped: {reason}")))
        }
    };
    let lost = (lost > 0).then(|| format!("{lost} frames lost before this one: the reader is too slow"));
    let comment = [place, lost].into_iter().flatten().collect::<Vec<_>>().join("; ");
    pcapng.frame(&StreamFrame {
        interface,
        timestamp: frame.at,
        data: &frame.data,
        original_len: u32::try_from(frame.original_len).unwrap_or(u32::MAX),
        direction,
        comment: (!comment.is_empty()).then_some(&comment),
    })
}

impl Body for CaptureBody {
    type Data = Bytes;
    type Error = CaptureError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CaptureError>>> {
        loop {
            if let Err(error) = self.advance() {
                self.stream = None;
                return Poll::Ready(Some(Err(error)));
            }
            if self.pcapng.waiting_bytes() > 0 {
                return Poll::Ready(Some(Ok(Frame::data(self.pcapng.take().into()))));
            }
            if self.stream.is_none() {
                return Poll::Ready(None);
            }
            if self.poll.poll_tick(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
