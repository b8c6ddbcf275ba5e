//! What is counted by name.

use crate::named::named_enum;
use crate::tracker::Untracked;

named_enum! {
    /// Why a packet is not translated. It has not been changed.
    pub enum Refusal {
        /// The IP header is malformed, or the packet is cut or not IPv4.
        MalformedIp => "cut_or_malformed_ip",
        /// The IPv4 header's checksum is wrong.
        IpChecksum => "ip_checksum",
        /// A fragment that overlaps others, or exceeds a limit.
        FragmentRefused => "fragment_refused",
        /// The header behind the IP header is malformed or cut.
        MalformedTransport => "malformed_transport",
        /// The checksum behind the IP header is wrong.
        TransportChecksum => "transport_checksum",
        /// A TCP segment that the connection's state refuses (RFC 9293, RFC 5961).
        Segment => "segment_refused",
        /// All sessions are established, and none more fits.
        SessionsFull => "sessions_full",
        /// The source is no inside address: forged, or not configured.
        NotInside => "not_inside",
        /// From outside with an inside or public source: forged.
        ForgedSource => "forged_source",
        /// The destination is no public address.
        NotPublic => "not_public",
        /// Nobody inside has the public port.
        NoMapping => "no_mapping",
        /// The inside endpoint has not sent there, and filtering asks for it (RFC 4787 §5).
        Filtered => "filtered",
        /// No block of ports is free.
        NoBlock => "no_block",
        /// The subscriber's blocks have no free port.
        NoPort => "no_free_port",
        /// The subscriber has as many mappings as it may have (RFC 6888 REQ-4).
        MappingLimit => "mapping_limit",
        /// The subscriber has as many sessions as it may have (RFC 6888 REQ-5).
        SessionLimit => "session_limit",
        /// There are as many mappings as there may be.
        MappingsFull => "mappings_full",
        /// An ICMP error about no session.
        UnrelatedError => "unrelated_icmp_error",
        /// An ICMP error with a wrong checksum, or about a packet with a wrong header checksum (RFC 5508 REQ-3).
        ErrorChecksum => "icmp_error_checksum",
        /// An ICMP error about a packet that is malformed, or was not sent by whom the error goes to.
        ErrorQuote => "icmp_error_quote",
        /// An ICMP message that is not translated: no query in this direction, a redirect, a source quench.
        IcmpType => "icmp_type",
        /// SCTP: its ports cannot be changed without the endpoints.
        Sctp => "sctp",
        /// Another protocol without ports.
        Protocol => "protocol",
    }
}

impl From<Untracked> for Refusal {
    fn from(untracked: Untracked) -> Self {
        match untracked {
            Untracked::MalformedIp => Self::MalformedIp,
            Untracked::IpChecksum => Self::IpChecksum,
            Untracked::FragmentHeld | Untracked::FragmentRefused => Self::FragmentRefused,
            Untracked::MalformedTransport => Self::MalformedTransport,
            Untracked::TransportChecksum => Self::TransportChecksum,
            Untracked::Segment => Self::Segment,
            Untracked::UnrelatedError => Self::UnrelatedError,
            Untracked::TableFull => Self::SessionsFull,
            Untracked::NotAllowed => Self::Filtered, // the caller knows the reason
        }
    }
}

named_enum! {
    /// Counted besides refusals.
    pub enum Event {
        /// Blocks that subscribers got.
        BlockAssigned => "blocks_assigned",
        /// Blocks that became free.
        BlockReleased => "blocks_released",
        /// Mappings that began.
        MappingBegan => "mappings_began",
        /// Mappings that ended.
        MappingEnded => "mappings_ended",
        /// New mappings whose first choice of a port was taken: with deterministic allocation, these may get another port
        /// after their state was lost.
        PortDisplaced => "ports_displaced",
        /// New mappings whose port has the other parity.
        ParityLost => "parity_lost",
        /// Packets between two inside hosts (RFC 4787 REQ-9).
        Hairpinned => "hairpinned",
        /// ICMP errors translated.
        ErrorTranslated => "icmp_errors_translated",
        /// Segments from inside that the connection's state refuses, sent on for the peer to challenge (RFC 5961).
        Challenged => "challenged",
        /// Sessions whose mapping had ended, and which got another.
        Remapped => "sessions_remapped",
    }
}
