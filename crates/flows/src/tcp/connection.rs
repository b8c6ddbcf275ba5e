//! One connection: the checks and updates once both endpoints are known.

use super::marks::Marks;
use super::seq::{distance, is_after, later};
use super::side::{self, Side};
use super::{Anomaly, Config, Outcome, Segment, State, Vantage, Verdict};
use crate::Direction;
use crate::named::EventSet;
use scalebricks_wire::transport::TcpFlags;
use std::time::Duration;

/// A connection. See the [module](super).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Connection {
    /// By direction. They take one cache line, and an expected segment needs no other field.
    pub(super) sides: [Side; 2],
    /// By direction.
    pub(super) marks: [Marks; 2],
    /// What was unusual so far.
    pub(super) anomalies: EventSet<Anomaly>,
    /// The last SYN that was not believed: its initial sequence number, window, and shift + 1 of its scaling or 0.
    pub(super) doubtful: u32,
    pub(super) doubtful_window: u16,
    pub(super) doubtful_shift: u8,
    /// 1 + direction of that SYN, 0 without one.
    pub(super) doubtful_from: u8,
    pub(super) state: State,
    /// 1 + direction of the reset, or 0.
    reset_from: u8,
    /// The handshake was not seen.
    pub(super) is_picked_up: bool,
}

const _: () = assert!(size_of::<Connection>() <= 112, "it lives beside a flow's record");

impl Connection {
    /// The state.
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// What was unusual so far.
    pub const fn anomalies(&self) -> EventSet<Anomaly> {
        self.anomalies
    }

    /// Whether the handshake was not seen.
    pub const fn is_picked_up(&self) -> bool {
        self.is_picked_up
    }

    /// The endpoint that reset the connection, before or after its close.
    pub const fn reset_by(&self) -> Option<Direction> {
        match self.reset_from {
            1 => Some(Direction::Forward),
            2 => Some(Direction::Reverse),
            _ => None,
        }
    }

    /// Sequence number of the first octet of data in a direction, if the endpoint's numbers are known.
    #[inline]
    pub fn first_sequence(&self, from: Direction) -> Option<u32> {
        let side = self.side(from);
        side.has(side::KNOWN).then_some(self.marks(from).first)
    }

    /// The latest acknowledgment of the data in a direction.
    #[inline]
    pub fn acknowledged(&self, from: Direction) -> Option<u32> {
        let peer = self.side(from.reversed());
        peer.has(side::WINDOW).then_some(peer.acked)
    }

    /// Whether the endpoint has sent a SYN.
    pub fn has_syn(&self, from: Direction) -> bool {
        self.side(from).has(side::SYN)
    }

    /// Whether the endpoint's SYN was acknowledged.
    pub fn is_syn_acknowledged(&self, from: Direction) -> bool {
        self.side(from).has(side::SYN) && self.side(from).has(side::SYN_ACKED)
    }

    /// Whether the endpoint has sent a FIN.
    pub fn has_fin(&self, from: Direction) -> bool {
        self.side(from).has(side::FIN)
    }

    /// The sequence number of the endpoint's FIN, if it has sent one: its stream ends before it.
    #[inline]
    pub fn fin_sequence(&self, from: Direction) -> Option<u32> {
        let side = self.side(from);
        side.has(side::FIN).then_some(self.marks(from).end.wrapping_sub(1))
    }

    /// Whether an accepted segment had data.
    pub const fn has_data(&self) -> bool {
        let [a, b] = &self.sides;
        a.has_data || b.has_data
    }

    /// Segments of an endpoint that carried nothing new.
    pub fn repeated(&self, from: Direction) -> u32 {
        self.marks(from).repeated
    }

    #[inline]
    pub(super) const fn marks(&self, of: Direction) -> &Marks {
        let [forward, backward] = &self.marks;
        match of {
            Direction::Forward => forward,
            Direction::Reverse => backward,
        }
    }

    #[inline]
    pub(super) const fn marks_mut(&mut self, of: Direction) -> &mut Marks {
        let [forward, backward] = &mut self.marks;
        match of {
            Direction::Forward => forward,
            Direction::Reverse => backward,
        }
    }

    #[inline]
    pub(super) fn side(&self, of: Direction) -> &Side {
        let [forward, backward] = &self.sides;
        match of {
            Direction::Forward => forward,
            Direction::Reverse => backward,
        }
    }

    /// The sender's side and its peer's.
    #[inline]
    pub(super) fn sides(&mut self, from: Direction) -> (&mut Side, &mut Side) {
        let [forward, backward] = &mut self.sides;
        match from {
            Direction::Forward => (forward, backward),
            Direction::Reverse => (backward, forward),
        }
    }

    /// Judges a segment from one endpoint, and takes over what it says.
    ///
    /// Cost: two cache lines, no loop.
    #[inline]
    pub fn segment(&mut self, from: Direction, segment: &Segment, now: Duration, config: &Config) -> Outcome {
        let seconds = now.as_secs() as u32; // wraps after 136 years
        let mut outcome = if segment.has_plausible_flags() {
            match self.state {
                State::New => self.open(from, segment, seconds, config),
                State::SynSent => self.answer(from, segment, seconds, config),
                _ => self.proceed(from, segment, seconds, config),
            }
        } else {
            Outcome::refused(Anomaly::BadFlags)
        };
        if segment.options.is_malformed {
            outcome.anomalies.insert(Anomaly::BadOptions);
        }
        if outcome.verdict != Verdict::Replaced {
            self.anomalies.extend(outcome.anomalies);
        }
        outcome
    }

    /// A segment when both endpoints have sent.
    pub(super) fn proceed(
        &mut self,
        from: Direction,
        segment: &Segment,
        seconds: u32,
        config: &Config,
    ) -> Outcome {
        if segment.has(TcpFlags::SYN) {
            let side = self.side(from);
            // A capture may have the SYN-ACK late.
            let may_come = side.has(side::SYN)
                || config.vantage == Vantage::Capture && side.has(side::KNOWN) && segment.is_syn_ack();
            if !may_come || segment.sequence.wrapping_add(1) != self.marks(from).first || self.state.is_over()
            {
                return self.unexpected_syn(from, segment);
            }
        } else if self.state == State::Reset {
            return Outcome::refused(Anomaly::AfterReset);
        }
        if segment.has(TcpFlags::RST) {
            return self.reset(from, segment);
        }
        let mut anomalies = EventSet::default();
        if let Err(anomaly) = self.check(from, segment, seconds, config, &mut anomalies) {
            return Outcome::refused(anomaly);
        }
        self.note(from, segment, &mut anomalies);
        self.update(from, segment, seconds);
        Outcome { verdict: Verdict::Accepted, anomalies }
    }

    /// RFC 5961 §3: a reset counts only at the sequence number that the receiver expects: what it has acknowledged, or all
    /// that the sender has sent.
    pub(super) fn reset(&mut self, from: Direction, segment: &Segment) -> Outcome {
        let (side, peer) = self.sides(from);
        let is_next = side.has(side::KNOWN) && segment.sequence == side.next;
        let is_acked = peer.has(side::WINDOW) && segment.sequence == peer.acked;
        if !is_next && !is_acked {
            return Outcome::refused(Anomaly::ResetNotExact);
        }
        if self.state == State::TimeWait {
            // RFC 1337: TIME-WAIT goes on. Both ends have closed already.
            self.reset_from = 1 + from as u8;
        } else {
            self.over_by_reset(from);
        }
        Outcome { verdict: Verdict::Accepted, anomalies: EventSet::default() }
    }

    pub(super) fn over_by_reset(&mut self, from: Direction) {
        self.state = State::Reset;
        self.reset_from = 1 + from as u8;
    }

    fn check(
        &mut self,
        from: Direction,
        segment: &Segment,
        seconds: u32,
        config: &Config,
        anomalies: &mut EventSet<Anomaly>,
    ) -> Result<(), Anomaly> {
        let (is_picked_up, marks) = (self.is_picked_up, *self.marks(from));
        let (side, peer) = self.sides(from);
        match segment.options.timestamps {
            Some(timestamps) if side.is_old_timestamp(timestamps.value, seconds) => {
                return Err(Anomaly::OldTimestamp);
            }
            None if side.has(side::TIMESTAMPS) && peer.has(side::TIMESTAMPS) => match config.vantage {
                Vantage::InPath => return Err(Anomaly::NoTimestamp),
                Vantage::Capture => anomalies.insert(Anomaly::NoTimestamp),
            },
            _ => {}
        }
        check_sequence(side, peer, segment, config)?;
        if segment.has(TcpFlags::ACK) {
            let saw_all = config.vantage == Vantage::InPath && !is_picked_up;
            check_acknowledgment(side, peer, segment, saw_all, anomalies)?;
        }
        let end = segment.end();
        if side.has(side::FIN) && is_after(end, marks.end) || moves_the_end(side, &marks, segment) {
            return Err(Anomaly::AfterFin);
        }
        Ok(())
    }

    /// Names what is unusual about an acceptable segment.
    fn note(&mut self, from: Direction, segment: &Segment, anomalies: &mut EventSet<Anomaly>) {
        let mut is_repeated = false;
        let (side, peer) = self.sides(from);
        let is_plain = !segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::FIN);
        let ahead = distance(segment.sequence, side.next);
        if ahead > 0 {
            anomalies.insert(Anomaly::Gap);
        } else if ahead == -1 && is_plain && segment.payload_len <= 1 && side.is_idle(peer) {
            anomalies.insert(Anomaly::KeepAlive);
        } else if segment.sequence_len() > 0 && !is_after(segment.end(), side.next) {
            anomalies.insert(Anomaly::Repeated);
            is_repeated = true;
        } else if is_plain && segment.payload_len == 1 && peer.has(side::WINDOW) && peer.window == 0 {
            anomalies.insert(Anomaly::ZeroWindowProbe);
        }
        if segment.window == 0 && segment.has(TcpFlags::ACK) {
            anomalies.insert(Anomaly::ZeroWindow);
        }
        if is_repeated {
            self.repeat(from);
        }
    }

    /// Counts a segment that carried nothing new.
    pub(super) fn repeat(&mut self, from: Direction) {
        let marks = self.marks_mut(from);
        marks.repeated = marks.repeated.saturating_add(1);
    }

    /// Takes over an acceptable segment.
    pub(super) fn update(&mut self, from: Direction, segment: &Segment, seconds: u32) {
        let marks = *self.marks(from.reversed());
        let (side, peer) = self.sides(from);
        side.store_timestamp(peer, segment, seconds);
        if segment.has(TcpFlags::ACK) {
            // It may acknowledge what was not seen.
            peer.next = later(peer.next, segment.acknowledgment);
            side.advertise(peer, &marks, segment);
        }
        side.next = later(side.next, segment.end());
        if segment.has(TcpFlags::SYN) && !side.has(side::SYN) {
            side.flags |= side::SYN;
            side.shift = segment.options.window_shift.filter(|_| peer.has(side::SCALING)).unwrap_or(0);
        }
        if segment.has(TcpFlags::FIN) {
            side.flags |= side::FIN;
            if peer.has(side::WINDOW) && !is_after(segment.end(), peer.acked) {
                side.flags |= side::FIN_ACKED;
            }
        }
        side.has_data |= segment.payload_len > 0;
        if segment.has(TcpFlags::FIN) {
            self.marks_mut(from).end = segment.end();
        }
        self.state = self.next_state();
    }

    fn next_state(&self) -> State {
        let [a, b] = &self.sides;
        let both = |flag| a.has(flag) && b.has(flag);
        if both(side::FIN_ACKED) {
            State::TimeWait
        } else if both(side::FIN) {
            State::Closing
        } else if a.has(side::FIN) || b.has(side::FIN) {
            State::HalfClosed
        } else if both(side::SYN_ACKED) || self.state == State::Established {
            State::Established
        } else if a.has(side::SYN_ACKED) || b.has(side::SYN_ACKED) {
            State::SynReceived
        } else {
            self.state
        }
    }
}

/// Whether a FIN would move the end of the stream: before data that was acknowledged, or to another place than an earlier
/// FIN.
fn moves_the_end(side: &Side, marks: &Marks, segment: &Segment) -> bool {
    segment.has(TcpFlags::FIN)
        && (side.has(side::FIN) && segment.end() != marks.end
            || !side.has(side::FIN) && is_after(side.next, segment.end()))
}

/// RFC 9293 §3.10.7.4: a segment is acceptable if it begins in the window. Older segments, which an endpoint answers with an
/// ACK, are acceptable up to the largest window: they are retransmissions.
fn check_sequence(side: &Side, peer: &Side, segment: &Segment, config: &Config) -> Result<(), Anomaly> {
    if !side.has(side::KNOWN) || !(peer.has(side::WINDOW) || peer.has(side::SYN)) {
        return Ok(());
    }
    let slack = match config.vantage {
        Vantage::InPath => 0,
        // Window updates may be missing.
        Vantage::Capture => peer.max_window.max(1 << 16),
    };
    if is_after(segment.sequence, side.allowed.wrapping_add(slack)) {
        return Err(Anomaly::BeyondWindow);
    }
    if distance(segment.end(), side.next) < -i64::from(peer.max_window).min(1 << 30) as i32 - 1 {
        return Err(Anomaly::BelowWindow);
    }
    Ok(())
}

/// RFC 5961 §5.2: an acknowledgment is acceptable from the largest window before what was acknowledged to what was sent.
/// Unless all data was seen, that may be a window more than was seen.
fn check_acknowledgment(
    side: &Side,
    peer: &Side,
    segment: &Segment,
    saw_all: bool,
    anomalies: &mut EventSet<Anomaly>,
) -> Result<(), Anomaly> {
    /// Smallest of the largest windows that bound the age of acknowledgments, octets.
    const OLD_ACK: u32 = 1 << 16;
    let ack = segment.acknowledgment;
    if !peer.has(side::KNOWN) {
        return Ok(());
    }
    let unseen = distance(ack, peer.next);
    if unseen > 0 {
        let most = side.max_window.max(1 << 16);
        if saw_all || unseen.unsigned_abs() > most {
            return Err(Anomaly::AckOfUnsent);
        }
        anomalies.insert(Anomaly::AckOfUnseen);
    }
    if side.has(side::WINDOW) {
        let oldest = side.acked.wrapping_sub(side.max_window.max(OLD_ACK));
        if is_after(oldest, ack) {
            return Err(Anomaly::AckTooOld);
        }
    }
    Ok(())
}
