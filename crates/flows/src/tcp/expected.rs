//! The expected segment: what almost every segment of an established connection is.
//!
//! Source: V. Jacobson, "4BSD TCP header prediction", ACM Computer Communication Review 20(2), 1990.

use super::seq::later;
use super::side;
use super::{Connection, Segment, State};
use crate::Direction;
use scalebricks_wire::tcp_options::MAX_WINDOW_SHIFT;
use scalebricks_wire::transport::TcpFlags;

/// Farthest that an expected number may be from the known ones, octets: at least the largest window, and a quarter of all
/// numbers, so that sums of two distances do not wrap.
const NEAR: u32 = 1 << (16 + MAX_WINDOW_SHIFT);

impl Connection {
    /// Takes over a segment that continues an established connection: an ACK whose data, if it has any, is the next in
    /// order and whose acknowledgment is no older than the last one. `state` is that of the connection. Returns whether
    /// it was such a segment; otherwise nothing has changed, and [`Self::segment`] judges it.
    ///
    /// Equal to [`Self::segment`] if it returns true: accepted, without anomalies, and the same state.
    ///
    /// Cost: one cache line.
    #[inline(always)]
    pub(crate) fn expects(&mut self, from: Direction, segment: &Segment, seconds: u32, state: State) -> bool {
        const PLAIN: u8 = TcpFlags::ACK.0;
        const CONTROL: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0 | PLAIN;
        const OWN: u8 = side::KNOWN | side::WINDOW;
        const PEERS: u8 = side::KNOWN | side::SYN_ACKED;
        const FIN: u8 = side::FIN;
        debug_assert_eq!(state, self.state, "the caller's copy of the state");
        let (side, peer) = self.sides(from);
        let ack = segment.acknowledgment;
        let is_plain = segment.flags.0 & CONTROL == PLAIN && !segment.options.is_malformed;
        let is_established = state == State::Established
            && side.flags & (OWN | FIN) == OWN
            && peer.flags & (PEERS | FIN) == PEERS;
        // In order, and neither beyond the window nor a probe of a closed one.
        let is_next = segment.sequence == side.next
            && side.allowed.wrapping_sub(segment.sequence) <= NEAR
            && (peer.window != 0 || segment.payload_len != 1);
        // Of what was sent, and not older than the last.
        let is_acceptable = ack.wrapping_sub(side.acked) <= NEAR && peer.next.wrapping_sub(ack) <= NEAR;
        let has_timestamp = match segment.options.timestamps {
            Some(timestamps) => {
                !side.has(side::TIMESTAMPS) || !super::seq::is_after(side.timestamp, timestamps.value)
            }
            None => side.flags & peer.flags & side::TIMESTAMPS == 0,
        };
        let is_expected = is_plain & is_established & is_next & is_acceptable & has_timestamp;
        if !is_expected || segment.window == 0 {
            return false;
        }
        side.store_timestamp(peer, segment, seconds);
        let window = u32::from(segment.window) << side.shift;
        side.window = window;
        side.acked = ack;
        side.max_window = side.max_window.max(window);
        peer.allowed = later(peer.allowed, ack.wrapping_add(window));
        side.next = segment.sequence.wrapping_add(segment.payload_len);
        side.has_data |= segment.payload_len > 0;
        true
    }
}
