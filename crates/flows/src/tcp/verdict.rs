//! What a tracker says about a segment.

use crate::named::{EventSet, named_enum};

named_enum! {
    /// An unusual segment. Some are refused, others only noted.
    pub enum Anomaly {
        /// No flags, SYN with FIN or RST, or no ACK where one is due. Refused.
        BadFlags => "bad_flags",
        /// An option with a wrong length. Noted.
        BadOptions => "bad_options",
        /// A segment of a connection that is not known, where connections are not picked up midway. Refused.
        NoConnection => "no_connection",
        /// A segment before the handshake has come so far. Refused.
        BeforeHandshake => "before_handshake",
        /// The answer to a SYN acknowledges something else: the other endpoint is half-open (RFC 9293 §3.5.1). Refused.
        HalfOpen => "half_open",
        /// A segment after the connection was reset. Refused.
        AfterReset => "after_reset",
        /// A reset that is not at the exact sequence number (RFC 5961 §3). Refused, to be challenged.
        ResetNotExact => "reset_not_exact",
        /// A SYN in a connection that exists (RFC 5961 §4). Refused, to be challenged.
        SynInConnection => "syn_in_connection",
        /// An acknowledgment of data that was not sent (RFC 5961 §5). Refused, to be challenged.
        AckOfUnsent => "ack_of_unsent",
        /// An acknowledgment older than the largest window (RFC 5961 §5). Refused, to be challenged.
        AckTooOld => "ack_too_old",
        /// Data beyond the window that the receiver has advertised (RFC 9293 §3.10.7.4). Refused.
        BeyondWindow => "beyond_window",
        /// Data older than the largest window. Refused.
        BelowWindow => "below_window",
        /// A timestamp older than the last one (PAWS, RFC 7323 §5.3). Refused.
        OldTimestamp => "old_timestamp",
        /// No timestamp on a connection that has them (RFC 7323 §3.2). Refused in path, else noted.
        NoTimestamp => "no_timestamp",
        /// Data or FIN beyond an earlier FIN, or another end of the stream. Refused.
        AfterFin => "after_fin",
        /// An acknowledgment of data that was not seen: packets passed elsewhere or were not captured. Noted.
        AckOfUnseen => "ack_of_unseen",
        /// Sequence numbers are missing before this segment: packets are lost or late. Noted.
        Gap => "gap",
        /// All of the segment's sequence numbers were seen before, or skipped before. Noted.
        Repeated => "repeated",
        /// A keep-alive probe (RFC 9293 §3.8.4). Noted.
        KeepAlive => "keep_alive",
        /// A window of zero. Noted.
        ZeroWindow => "zero_window",
        /// A probe of a zero window (RFC 9293 §3.8.6.1). Noted.
        ZeroWindowProbe => "zero_window_probe",
        /// Picked up midway: the handshake was not seen. Noted.
        PickedUp => "picked_up",
        /// Both endpoints opened the connection (RFC 9293 §3.5). Noted.
        SimultaneousOpen => "simultaneous_open",
    }
}

impl Anomaly {
    /// Whether an endpoint that receives such a segment answers with a challenge ACK (RFC 5961), so that a middlebox that
    /// lets the segment pass does no harm.
    pub const fn is_challenge(self) -> bool {
        matches!(self, Self::ResetNotExact | Self::SynInConnection | Self::AckOfUnsent | Self::AckTooOld)
    }
}

/// What to do with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs to the connection, which has changed accordingly.
    Accepted,
    /// It does not fit, and nothing but the record of anomalies has changed.
    Refused(Anomaly),
    /// It begins another connection between the same endpoints; this one is over and has not changed. The caller goes on
    /// with [`Connection::successor`](super::Connection::successor) and the same segment.
    Replaced,
}

/// A verdict, and what was unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What to do with the segment.
    pub verdict: Verdict,
    /// What was unusual, including the reason of a refusal.
    pub anomalies: EventSet<Anomaly>,
}

impl Outcome {
    pub(super) fn refused(anomaly: Anomaly) -> Self {
        let mut anomalies = EventSet::default();
        anomalies.insert(anomaly);
        Self { verdict: Verdict::Refused(anomaly), anomalies }
    }

    pub(super) fn replaced() -> Self {
        Self { verdict: Verdict::Replaced, anomalies: EventSet::default() }
    }

    /// Whether the segment was accepted.
    pub fn is_accepted(&self) -> bool {
        self.verdict == Verdict::Accepted
    }
}
