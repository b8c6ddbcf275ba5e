//! How a connection begins: the handshake, the simultaneous open, pick-up midway, and SYNs in an existing connection.

use super::marks::Marks;
use super::seq::{is_after, later};
use super::side::{self, Side};
use super::{Anomaly, Config, Connection, Outcome, Segment, State, Vantage, Verdict};
use crate::Direction;
use crate::named::EventSet;
use scalebricks_wire::transport::TcpFlags;

fn accepted(noted: &[Anomaly]) -> Outcome {
    let mut anomalies = EventSet::default();
    for anomaly in noted {
        anomalies.insert(*anomaly);
    }
    Outcome { verdict: Verdict::Accepted, anomalies }
}

impl Connection {
    /// The first segment.
    pub(super) fn open(
        &mut self,
        from: Direction,
        segment: &Segment,
        seconds: u32,
        config: &Config,
    ) -> Outcome {
        if segment.is_first_syn() {
            self.begin(from, segment, seconds);
            self.state = State::SynSent;
            return accepted(&[]);
        }
        // A reset alone shows no connection.
        if !config.pick_up || segment.has(TcpFlags::RST) {
            return Outcome::refused(Anomaly::NoConnection);
        }
        self.is_picked_up = true;
        if segment.is_syn_ack() {
            self.begin(from, segment, seconds);
            self.pick_up(from.reversed(), segment.acknowledgment);
            self.negotiate(from);
            self.update(from, segment, seconds);
            return accepted(&[Anomaly::PickedUp]);
        }
        self.pick_up(from, segment.sequence);
        self.pick_up(from.reversed(), segment.acknowledgment);
        let (side, _) = self.sides(from);
        if let Some(timestamps) = segment.options.timestamps {
            side.flags |= side::TIMESTAMPS;
            (side.timestamp, side.timestamp_at) = (timestamps.value, seconds);
        }
        self.state = State::Established;
        self.update(from, segment, seconds);
        accepted(&[Anomaly::PickedUp])
    }

    /// A segment after a SYN without answer.
    pub(super) fn answer(
        &mut self,
        from: Direction,
        segment: &Segment,
        seconds: u32,
        config: &Config,
    ) -> Outcome {
        if self.side(from).has(side::KNOWN) {
            return self.again(from, segment, seconds, config);
        }
        let peer = self.side(from.reversed());
        // RFC 9293 §3.10.7.3: an acknowledgment must be of the SYN, and of no more than was sent.
        let ack = segment.acknowledgment;
        let acks_syn = segment.has(TcpFlags::ACK)
            && !is_after(self.marks(from.reversed()).first, ack)
            && !is_after(ack, peer.next);
        if segment.has(TcpFlags::RST) {
            if !acks_syn {
                return Outcome::refused(Anomaly::ResetNotExact);
            }
            self.over_by_reset(from);
            return accepted(&[]);
        }
        if segment.is_first_syn() {
            self.begin(from, segment, seconds);
            self.negotiate(from);
            self.state = State::SimultaneousOpen;
            return accepted(&[Anomaly::SimultaneousOpen]);
        }
        if !acks_syn {
            return Outcome::refused(Anomaly::HalfOpen);
        }
        if segment.is_syn_ack() {
            self.begin(from, segment, seconds);
            self.negotiate(from);
            self.update(from, segment, seconds);
            return accepted(&[]);
        }
        if config.vantage == Vantage::InPath {
            return Outcome::refused(Anomaly::BeforeHandshake);
        }
        // The capture has lost the SYN-ACK.
        self.pick_up(from, segment.sequence);
        self.update(from, segment, seconds);
        accepted(&[Anomaly::Gap])
    }

    /// Another segment of the endpoint whose SYN has no answer yet.
    fn again(&mut self, from: Direction, segment: &Segment, seconds: u32, config: &Config) -> Outcome {
        let isn = self.marks(from).first.wrapping_sub(1);
        let next = self.side(from).next;
        if segment.has(TcpFlags::RST) {
            if segment.sequence != next && segment.sequence != isn {
                return Outcome::refused(Anomaly::ResetNotExact);
            }
            self.over_by_reset(from);
            return accepted(&[]);
        }
        if segment.is_first_syn() {
            if segment.sequence != isn {
                return Outcome::replaced();
            }
            self.repeat(from);
            return accepted(&[Anomaly::Repeated]);
        }
        if config.vantage == Vantage::InPath || segment.has(TcpFlags::SYN) || segment.sequence != next {
            return Outcome::refused(Anomaly::BeforeHandshake);
        }
        // The capture has lost the SYN-ACK.
        self.pick_up(from.reversed(), segment.acknowledgment);
        self.sides(from).0.flags |= side::SYN_ACKED;
        self.state = State::Established;
        self.update(from, segment, seconds);
        accepted(&[Anomaly::AckOfUnseen])
    }

    /// A SYN, with or without ACK, that does not repeat one.
    pub(super) fn unexpected_syn(&mut self, from: Direction, segment: &Segment) -> Outcome {
        if segment.is_syn_ack() && self.confirms_doubtful(from, segment) {
            return Outcome::replaced();
        }
        // The second SYN of a simultaneous open with another number is an attack as well.
        if segment.is_first_syn() {
            match self.state {
                State::Reset => return Outcome::replaced(),
                State::TimeWait if self.may_reuse(from, segment) => return Outcome::replaced(),
                _ => {}
            }
            self.doubtful = segment.sequence;
            self.doubtful_window = segment.window;
            self.doubtful_shift = segment.options.window_shift.map_or(0, |shift| shift + 1);
            self.doubtful_from = 1 + from as u8;
        } else if self.state == State::Reset {
            return Outcome::refused(Anomaly::AfterReset);
        }
        Outcome::refused(Anomaly::SynInConnection)
    }

    /// Whether a SYN-ACK from the other endpoint acknowledges the SYN that was not believed: that endpoint had forgotten the
    /// connection, and no blind attacker can make it say so.
    fn confirms_doubtful(&self, from: Direction, segment: &Segment) -> bool {
        self.doubtful_from == 1 + from.reversed() as u8
            && segment.acknowledgment == self.doubtful.wrapping_add(1)
    }

    /// RFC 9293 §3.10.7.4 and RFC 6191: a SYN may reopen a connection in TIME-WAIT if its sequence number or timestamp is
    /// later than all of the old connection.
    fn may_reuse(&self, from: Direction, segment: &Segment) -> bool {
        let side = self.side(from);
        let is_later = segment.options.timestamps.is_some_and(|timestamps| {
            side.has(side::TIMESTAMPS) && is_after(timestamps.value, side.timestamp)
        });
        is_later || is_after(segment.sequence, side.next.wrapping_sub(1))
    }

    /// The connection that the segment of a [`Verdict::Replaced`] begins, and the segment's direction in it: a new one, or
    /// one whose SYN was not believed when it came. The same segment is to be given to it next.
    pub fn successor(&self, from: Direction, segment: &Segment) -> (Self, Direction) {
        let mut next = Self::default();
        if !segment.is_syn_ack() || !self.confirms_doubtful(from, segment) {
            return (next, Direction::Forward);
        }
        let first = self.doubtful.wrapping_add(1);
        next.marks_mut(Direction::Forward).first = first;
        let (side, _) = next.sides(Direction::Forward);
        side.next = first;
        side.allowed = first;
        side.window = u32::from(self.doubtful_window);
        side.max_window = side.window.max(1);
        // Without timestamps: that SYN's is not kept, so PAWS cannot be applied.
        side.flags = side::KNOWN | side::SYN;
        if let Some(shift) = self.doubtful_shift.checked_sub(1) {
            side.shift = shift;
            side.flags |= side::SCALING;
        }
        next.state = State::SynSent;
        (next, Direction::Reverse)
    }

    /// The endpoint has sent this SYN, with or without ACK.
    fn begin(&mut self, from: Direction, segment: &Segment, seconds: u32) {
        *self.sides(from).0 = Side::of_syn(segment, seconds);
        *self.marks_mut(from) = Marks { first: segment.sequence.wrapping_add(1), ..Marks::default() };
    }

    /// The endpoint sends this sequence number next; what came before was not seen.
    fn pick_up(&mut self, from: Direction, next: u32) {
        *self.sides(from).0 = Side::picked_up(next);
        *self.marks_mut(from) = Marks { first: next, ..Marks::default() };
    }

    /// What the two SYNs agree on: window scaling and timestamps only if both offered them (RFC 7323 §1.3, §3.2). The windows
    /// of the SYNs let the peers send.
    fn negotiate(&mut self, from: Direction) {
        let (first, peer_first) = (self.marks(from).first, self.marks(from.reversed()).first);
        let (side, peer) = self.sides(from);
        if peer.has(side::SYN) {
            if !(side.has(side::SCALING) && peer.has(side::SCALING)) {
                side.shift = 0;
                peer.shift = 0;
            }
            if !(side.has(side::TIMESTAMPS) && peer.has(side::TIMESTAMPS)) {
                side.flags &= !side::TIMESTAMPS;
                peer.flags &= !side::TIMESTAMPS;
            }
        }
        side.allowed = later(side.allowed, first.wrapping_add(peer.window.max(1)));
        peer.allowed = later(peer.allowed, peer_first.wrapping_add(side.window.max(1)));
    }
}
