//! One endpoint of a connection, as far as its segments and those of its peer show.

use super::marks::Marks;
use super::segment::Segment;
use super::seq::{is_after, later};
use scalebricks_wire::tcp_options::MAX_WINDOW_SHIFT;

/// What is known of an endpoint, as far as each segment needs it. Names are as seen from the endpoint: `next` is what it sends next.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Side {
    /// Sequence number after the last that it has sent, SYN and FIN included: SND.NXT.
    pub(super) next: u32,
    /// Sequence number up to which its peer lets it send.
    pub(super) allowed: u32,
    /// Its latest acknowledgment: RCV.NXT, or a little less.
    pub(super) acked: u32,
    /// The last window that it advertised, scaled.
    pub(super) window: u32,
    /// The largest window that it advertised, scaled.
    pub(super) max_window: u32,
    /// TS.Recent of its peer for it (RFC 7323 §4.3).
    pub(super) timestamp: u32,
    /// When that was stored, seconds.
    pub(super) timestamp_at: u32,
    /// Its window's shift; meaningless before its SYN.
    pub(super) shift: u8,
    pub(super) flags: u8,
    /// It has sent data.
    pub(super) has_data: bool,
    pub(super) unused: u8,
}

const _: () = assert!(size_of::<Side>() == 32, "both sides share a cache line");

/// Sequence numbers are known.
pub(super) const KNOWN: u8 = 1;
/// Its SYN was seen.
pub(super) const SYN: u8 = 2;
/// Its SYN, or its first data if picked up, was acknowledged.
pub(super) const SYN_ACKED: u8 = 4;
/// Its FIN was seen.
pub(super) const FIN: u8 = 8;
/// Its FIN was acknowledged.
pub(super) const FIN_ACKED: u8 = 16;
/// It sends timestamps.
pub(super) const TIMESTAMPS: u8 = 32;
/// It offered window scaling.
pub(super) const SCALING: u8 = 64;
/// It has acknowledged and advertised a window.
pub(super) const WINDOW: u8 = 128;

/// Oldest valid TS.Recent (RFC 7323 §5.5), seconds.
const TIMESTAMP_LIFETIME: u32 = 24 * 24 * 3600;

impl Side {
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The endpoint that sent this SYN, with or without ACK.
    pub(super) fn of_syn(segment: &Segment, seconds: u32) -> Self {
        let mut side = Self { next: segment.end(), allowed: segment.end(), ..Self::default() };
        side.flags = KNOWN | SYN;
        if let Some(shift) = segment.options.window_shift {
            side.shift = shift;
            side.flags |= SCALING;
        }
        if let Some(timestamps) = segment.options.timestamps {
            side.flags |= TIMESTAMPS;
            (side.timestamp, side.timestamp_at) = (timestamps.value, seconds);
        }
        side.window = u32::from(segment.window);
        side.max_window = side.window.max(1);
        side
    }

    /// An endpoint whose next sequence number is `next`, picked up midway. Its window's shift is not known: the largest
    /// one refuses nothing that should pass.
    pub(super) const fn picked_up(next: u32) -> Self {
        Self {
            next,
            allowed: next,
            acked: 0,
            window: 0,
            max_window: 0,
            timestamp: 0,
            timestamp_at: 0,
            shift: MAX_WINDOW_SHIFT,
            flags: KNOWN | SYN_ACKED,
            has_data: false,
            unused: 0,
        }
    }

    /// Whether all that it has sent was acknowledged by `peer`.
    pub(super) const fn is_idle(&self, peer: &Self) -> bool {
        peer.has(WINDOW) && self.next == peer.acked
    }

    /// The window field of a segment, scaled: windows of SYNs are not (RFC 7323 §2.2).
    pub(super) const fn scaled(&self, segment: &Segment) -> u32 {
        let shift = if segment.has(scalebricks_wire::transport::TcpFlags::SYN) { 0 } else { self.shift };
        (segment.window as u32) << shift
    }

    /// Takes over the acknowledgment and window of an acceptable segment that it sent, and lets `peer`, which has these marks,
    /// send up to them.
    #[inline]
    pub(super) fn advertise(&mut self, peer: &mut Self, marks: &Marks, segment: &Segment) {
        let window = self.scaled(segment);
        if !self.has(WINDOW) {
            self.acked = segment.acknowledgment;
            self.flags |= WINDOW;
        }
        if !is_after(self.acked, segment.acknowledgment) {
            self.window = window;
        }
        self.acked = later(self.acked, segment.acknowledgment);
        self.max_window = self.max_window.max(window).max(1);
        // One octet more than a zero window, for its probes.
        peer.allowed = later(peer.allowed, segment.acknowledgment.wrapping_add(window.max(1)));
        if is_after(segment.acknowledgment, marks.first.wrapping_sub(1)) {
            peer.flags |= SYN_ACKED;
        }
        if peer.has(FIN) && !is_after(marks.end, segment.acknowledgment) {
            peer.flags |= FIN_ACKED;
        }
    }

    /// Whether a timestamp of its segments is older than the last one (RFC 7323 §5.3 R1). The last one does not count if it
    /// is older than 24 days, as its clock may have wrapped.
    pub(super) const fn is_old_timestamp(&self, value: u32, seconds: u32) -> bool {
        self.has(TIMESTAMPS)
            && is_after(self.timestamp, value)
            && seconds.saturating_sub(self.timestamp_at) < TIMESTAMP_LIFETIME
    }

    /// Stores a timestamp of a segment that it sent, unless the segment is ahead of what `peer` has acknowledged (RFC 7323
    /// §4.3).
    pub(super) fn store_timestamp(&mut self, peer: &Self, segment: &Segment, seconds: u32) {
        let Some(timestamps) = segment.options.timestamps else { return };
        let expired = seconds.saturating_sub(self.timestamp_at) >= TIMESTAMP_LIFETIME;
        let is_newer = !self.has(TIMESTAMPS) || expired || !is_after(self.timestamp, timestamps.value);
        if is_newer && (!peer.has(WINDOW) || !is_after(segment.sequence, peer.acked)) {
            (self.timestamp, self.timestamp_at) = (timestamps.value, seconds);
        }
    }
}
