//! The counters of the base station.

use super::tunnels::Refused;
use serde::{Deserialize, Serialize};

/// The counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Packets of phones sent to the gateway.
    pub upstream: u64,
    /// Packets from the gateway delivered to phones.
    pub downstream: u64,
    /// Octets of those upstream, without tunnel headers.
    pub upstream_bytes: u64,
    /// Octets of those downstream, without tunnel headers.
    pub downstream_bytes: u64,
    /// Packets whose source is not a phone.
    pub not_a_ue: u64,
    /// Packets and messages that are malformed or too long.
    pub malformed: u64,
    /// Packets in tunnels that do not exist.
    pub bad_teid: u64,
    /// Packets in the tunnel of another phone.
    pub wrong_ue: u64,
    /// Packets with another QoS flow than their phone's.
    pub wrong_qfi: u64,
    /// Echo requests that were answered.
    pub echo_requests: u64,
    /// Answers to echo requests.
    pub echo_responses: u64,
    /// Error Indications: the gateway does not know a tunnel.
    pub error_indications: u64,
    /// Messages of other kinds.
    pub other_messages: u64,
    /// Packets that the system did not send or deliver.
    pub system_errors: u64,
}

impl Counts {
    /// Counts a refused packet.
    pub const fn refuse(&mut self, why: Refused) {
        let counter = match why {
            Refused::Malformed | Refused::TooLong => &mut self.malformed,
            Refused::NoSuchUe => &mut self.not_a_ue,
            Refused::BadTeid => &mut self.bad_teid,
            Refused::WrongUe => &mut self.wrong_ue,
            Refused::WrongQfi => &mut self.wrong_qfi,
        };
        *counter += 1;
    }

    /// Counters of errors that are not 0.
    pub fn mistakes(&self) -> Vec<(&'static str, u64)> {
        let mut mistakes = vec![
            ("not_a_ue", self.not_a_ue),
            ("malformed", self.malformed),
            ("bad_teid", self.bad_teid),
            ("wrong_ue", self.wrong_ue),
            ("wrong_qfi", self.wrong_qfi),
            ("system_errors", self.system_errors),
        ];
        mistakes.retain(|(_, count)| *count > 0);
        mistakes
    }
}
