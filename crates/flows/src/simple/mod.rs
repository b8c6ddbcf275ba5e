//! Flows without a tracked connection: UDP, ICMP, SCTP and other protocols, by timeouts.

use scalebricks_tables::dhash::Direction;
use scalebricks_wire::protocol;
use std::time::Duration;

/// Lifetimes of flows without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP without an answer.
    pub udp_one_way: Duration,
    /// UDP in both directions: at least 2 min, 5 min recommended (RFC 4787 REQ-5).
    pub udp: Duration,
    /// ICMP queries: at least 60 s (RFC 5508 REQ-1).
    pub icmp: Duration,
    /// SCTP before the association is established, and after it is shut down.
    pub sctp_opening: Duration,
    /// SCTP: well above the heartbeat interval of 30 s (RFC 9260 §16).
    pub sctp: Duration,
    /// All other protocols.
    pub other: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            udp_one_way: seconds(120),
            udp: seconds(300),
            icmp: seconds(60),
            sctp_opening: seconds(30),
            sctp: seconds(900),
            other: seconds(600),
        }
    }
}

/// State of such a flow.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Packets in one direction only.
    #[default]
    OneWay,
    /// Packets in both directions.
    TwoWay,
    /// SCTP: shut down in both directions.
    Closed,
    /// SCTP: aborted.
    Aborted,
}

impl State {
    /// A name: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneWay => "one_way",
            Self::TwoWay => "two_way",
            Self::Closed => "closed",
            Self::Aborted => "aborted",
        }
    }

    /// The state after a packet with these octets behind the IP header.
    #[must_use]
    pub fn after(self, direction: Direction, protocol: u8, l4: &[u8]) -> Self {
        match sctp_chunk(protocol, l4) {
            Some(SHUTDOWN_COMPLETE) => Self::Closed,
            Some(ABORT) => Self::Aborted,
            Some(INIT) => Self::OneWay,
            _ if self == Self::OneWay && direction == Direction::Reverse => Self::TwoWay,
            _ => self,
        }
    }
}

impl Timeouts {
    /// All lifetimes with their names, to be set.
    pub const fn named(&mut self) -> [(&'static str, &mut Duration); 6] {
        [
            ("udp_one_way", &mut self.udp_one_way),
            ("udp", &mut self.udp),
            ("icmp", &mut self.icmp),
            ("sctp_opening", &mut self.sctp_opening),
            ("sctp", &mut self.sctp),
            ("other", &mut self.other),
        ]
    }

    /// The lifetime of a flow.
    pub const fn of(&self, protocol: u8, state: State) -> Duration {
        match (protocol, state) {
            (protocol::UDP | protocol::UDP_LITE, State::OneWay) => self.udp_one_way,
            (protocol::UDP | protocol::UDP_LITE, _) => self.udp,
            (protocol::ICMPV4 | protocol::ICMPV6, _) => self.icmp,
            (protocol::SCTP, State::TwoWay) => self.sctp,
            (protocol::SCTP, _) => self.sctp_opening,
            _ => self.other,
        }
    }
}

const INIT: u8 = 1;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

/// The type of the first chunk (RFC 9260 §3.2), behind the common header of 12 octets.
fn sctp_chunk(protocol: u8, l4: &[u8]) -> Option<u8> {
    if protocol == protocol::SCTP { l4.get(12).copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_tables::dhash::Direction::{Forward, Reverse};

    #[test]
    fn answers_make_a_flow_two_way() {
        let state = State::default().after(Forward, protocol::UDP, b"");
        assert_eq!(state, State::OneWay);
        let state = state.after(Reverse, protocol::UDP, &[14; 20]);
        assert_eq!(state, State::TwoWay);
        assert_eq!(state.after(Forward, protocol::UDP, b""), State::TwoWay);
        let timeouts = Timeouts::default();
        assert!(timeouts.of(protocol::UDP, state) > timeouts.of(protocol::UDP, State::OneWay));
    }

    #[test]
    fn chunks_of_sctp_end_associations() {
        let packet = |chunk| [[0; 12].as_slice(), &[chunk, 0, 0, 4]].concat();
        let open = State::OneWay.after(Forward, protocol::SCTP, &packet(INIT)).after(
            Reverse,
            protocol::SCTP,
            &packet(2),
        );
        assert_eq!(open, State::TwoWay);
        assert_eq!(open.after(Forward, protocol::SCTP, &packet(ABORT)), State::Aborted);
        assert_eq!(open.after(Forward, protocol::SCTP, &packet(SHUTDOWN_COMPLETE)), State::Closed);
        assert_eq!(open.after(Forward, protocol::SCTP, &[0; 12]), State::TwoWay);
    }
}
