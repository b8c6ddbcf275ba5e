//! Configuration of TCP tracking.

use super::State;
use std::time::Duration;

/// Where the packets are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vantage {
    /// Every packet passes here, as in a firewall: an acknowledgment of unseen data is forged, unless the connection was
    /// picked up midway.
    #[default]
    InPath,
    /// A copy of the packets, which may have lost some, as in a capture: an acknowledgment within the window is believed and
    /// what it skips is a gap.
    Capture,
}

/// How connections are tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// Where the packets are seen.
    pub vantage: Vantage,
    /// Track connections whose handshake was not seen: after a restart, or when another node's flows move here. The first
    /// segments seen may repeat old data or probe a closed window, so an acknowledgment of up to a window of unseen data is
    /// believed in such a connection.
    pub pick_up: bool,
    /// Lifetimes by state.
    pub timeouts: Timeouts,
}

/// How long a connection without packets is remembered, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// SYN without answer: the retransmissions of a Linux client end after 127 s, but half-open flows are an attacker's means.
    pub syn_sent: Duration,
    /// SYN and SYN-ACK without ACK.
    pub syn_received: Duration,
    /// Established: at least 2 h 4 min (RFC 5382 REQ-5).
    pub established: Duration,
    /// One endpoint has finished: at least 4 min (RFC 5382 REQ-5), as the other may send on.
    pub half_closed: Duration,
    /// Both have finished, and the last FIN is not acknowledged: at least 4 min (RFC 5382 REQ-5).
    pub closing: Duration,
    /// Both have finished: twice the maximum segment lifetime (RFC 9293 §3.4.1) of one minute.
    pub time_wait: Duration,
    /// Reset: long enough for packets in flight.
    pub reset: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            syn_sent: seconds(30),
            syn_received: seconds(60),
            established: seconds(2 * 3_600 + 240),
            half_closed: seconds(240),
            closing: seconds(240),
            time_wait: seconds(120),
            reset: seconds(10),
        }
    }
}

impl Timeouts {
    /// All lifetimes with their names, to be set.
    pub const fn named(&mut self) -> [(&'static str, &mut Duration); 7] {
        [
            (State::SynSent.name(), &mut self.syn_sent),
            (State::SynReceived.name(), &mut self.syn_received),
            (State::Established.name(), &mut self.established),
            (State::HalfClosed.name(), &mut self.half_closed),
            (State::Closing.name(), &mut self.closing),
            (State::TimeWait.name(), &mut self.time_wait),
            (State::Reset.name(), &mut self.reset),
        ]
    }

    /// The lifetime of a connection in this state.
    #[inline]
    pub const fn of(&self, state: State) -> Duration {
        match state {
            State::New | State::SynSent => self.syn_sent,
            State::SimultaneousOpen | State::SynReceived => self.syn_received,
            State::Established => self.established,
            State::HalfClosed => self.half_closed,
            State::Closing => self.closing,
            State::TimeWait => self.time_wait,
            State::Reset => self.reset,
        }
    }
}
