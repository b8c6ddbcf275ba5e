//! The states of a connection.

/// State of a connection, as a middlebox sees it. RFC 9293 §3.3.2 has the states of endpoints, which are two at a time.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// No segment yet.
    #[default]
    New,
    /// A SYN without answer: half-open.
    SynSent,
    /// A SYN from each endpoint, neither acknowledged.
    SimultaneousOpen,
    /// The SYN is answered; the handshake's last ACK is missing: half-open.
    SynReceived,
    /// Both may send.
    Established,
    /// One endpoint has sent its FIN.
    HalfClosed,
    /// Both have sent their FIN; not both are acknowledged.
    Closing,
    /// Both FINs are acknowledged.
    TimeWait,
    /// Reset by one endpoint.
    Reset,
}

impl State {
    /// All states, in order.
    pub const ALL: [Self; 9] = [
        Self::New,
        Self::SynSent,
        Self::SimultaneousOpen,
        Self::SynReceived,
        Self::Established,
        Self::HalfClosed,
        Self::Closing,
        Self::TimeWait,
        Self::Reset,
    ];

    /// A name: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::SynSent => "syn_sent",
            Self::SimultaneousOpen => "simultaneous_open",
            Self::SynReceived => "syn_received",
            Self::Established => "established",
            Self::HalfClosed => "half_closed",
            Self::Closing => "closing",
            Self::TimeWait => "time_wait",
            Self::Reset => "reset",
        }
    }

    /// Whether the handshake is not complete.
    pub const fn is_half_open(self) -> bool {
        matches!(self, Self::New | Self::SynSent | Self::SimultaneousOpen | Self::SynReceived)
    }

    /// Whether the connection is over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TimeWait | Self::Reset)
    }
}
