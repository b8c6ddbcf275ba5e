//! What a tracker tells its caller.

use super::process::Family;
use super::record::{Flow, State};
use crate::named::named_enum;
use crate::reassembly::{Chunk, Stream};
use crate::tcp::{self, Anomaly};
use scalebricks_tables::dhash::{Direction, Record, StartedRecords};
use scalebricks_types::FiveTuple;
use scalebricks_wire::IpPacket;

/// A packet that belongs to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracked {
    /// The IP version, which selects the table.
    pub family: Family,
    /// The flow's record, valid until the next packet; in a tracker whose tables do not grow, until the flow ends.
    pub record: Record,
    /// The flow's number, by which a record that was used again is noticed.
    pub serial: u64,
    /// The packet's direction in the flow.
    pub direction: Direction,
    /// The state after the packet.
    pub state: State,
    /// The packet is the first of the flow.
    pub is_new: bool,
    /// The packet is an ICMP error about the flow, not part of it.
    pub is_related: bool,
}

named_enum! {
    /// Why a packet belongs to no flow, or is not believed.
    pub enum Untracked {
        /// The IP header is malformed, or the packet is cut.
        MalformedIp => "malformed_ip",
        /// The IPv4 header's checksum is wrong.
        IpChecksum => "ip_checksum",
        /// A fragment that waits for others.
        FragmentHeld => "fragment_held",
        /// A fragment that was refused; see the counters of fragments.
        FragmentRefused => "fragment_refused",
        /// The header behind the IP header is malformed or cut.
        MalformedTransport => "malformed_transport",
        /// The checksum behind the IP header is wrong.
        TransportChecksum => "transport_checksum",
        /// A TCP segment that was refused; see the counters of anomalies.
        Segment => "segment_refused",
        /// An ICMP error about no known flow.
        UnrelatedError => "unrelated_icmp_error",
        /// All flows are established, and none more fits.
        TableFull => "table_full",
        /// It would begin a flow, which the caller does not allow.
        NotAllowed => "flow_not_allowed",
    }
}

impl std::fmt::Display for Untracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(crate::named::Named::name(*self))
    }
}

impl std::error::Error for Untracked {}

named_enum! {
    /// Counted besides what is untracked.
    pub enum Event {
        /// Packets given to the tracker.
        Packets => "packets",
        /// Packets of flows.
        Tracked => "tracked_packets",
        /// ICMP errors about known flows.
        RelatedError => "related_icmp_errors",
        /// Flows that began.
        Began => "flows_began",
        /// Flows that ended, for any cause.
        Ended => "flows_ended",
        /// Reports of flows that last.
        Reported => "active_timeouts",
    }
}

named_enum! {
    /// How a flow ended.
    pub enum EndCause {
        /// Closed by both ends.
        Closed => "closed",
        /// Reset or aborted.
        Reset => "reset",
        /// No packet for as long as its state lasts.
        TimedOut => "timed_out",
        /// Another connection between the same ends replaced it.
        Replaced => "replaced",
        /// It was the oldest young flow when there were too many.
        Evicted => "evicted",
        /// The caller ended it: see [`Tracker::dismiss`](super::Tracker::dismiss).
        Dismissed => "dismissed",
        /// The input ended.
        InputEnded => "input_ended",
        /// It has not ended: see [`Sink::active`].
        ActiveTimeout => "active_timeout",
    }
}

impl EndCause {
    /// The cause of the end in this state.
    pub(super) const fn of(self, state: State) -> Self {
        match state {
            State::Tcp(tcp::State::TimeWait) | State::Simple(crate::simple::State::Closed) => Self::Closed,
            State::Tcp(tcp::State::Reset) | State::Simple(crate::simple::State::Aborted) => Self::Reset,
            _ => self,
        }
    }
}

/// A flow that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The ends, as in the first packet.
    pub tuple: FiveTuple,
    /// The zone.
    pub zone: u16,
    /// Times, packets and octets.
    pub flow: &'a Flow,
    /// The last state.
    pub state: State,
    /// The connection, if the protocol is TCP.
    pub connection: Option<&'a tcp::Connection>,
    /// The streams by direction, if the protocol is TCP.
    pub streams: Option<&'a [Stream; 2]>,
    /// How it ended.
    pub cause: EndCause,
}

/// Receives what a tracker finds.
pub trait Sink {
    /// A segment of the flow with this number was accepted: its fields and its data. Called before the parts of streams that
    /// are due because of it.
    fn segment(&mut self, serial: u64, direction: Direction, segment: &tcp::Segment, payload: &[u8]) {
        let _ = (serial, direction, segment, payload);
    }

    /// Part of a stream of the flow with this number.
    fn chunk(&mut self, serial: u64, direction: Direction, chunk: Chunk<'_>) {
        let _ = (serial, direction, chunk);
    }

    /// An unusual segment of the flow with this number.
    fn anomaly(&mut self, serial: u64, anomaly: Anomaly) {
        let _ = (serial, anomaly);
    }

    /// A packet was completed from fragments, and is tracked next. The packet of the caller was its last fragment.
    fn completed(&mut self, packet: &IpPacket<'_>) {
        let _ = packet;
    }

    /// Whether a packet may begin this flow. Asked once the packet is otherwise right, before the flow has a record.
    fn may_begin(&mut self, tuple: &FiveTuple, zone: u16) -> bool {
        let _ = (tuple, zone);
        true
    }

    /// The record of a flow that is about to end, and all arrays, with the values that the caller keeps beside the flow.
    fn released(&mut self, tuple: FiveTuple, record: Record, records: &StartedRecords) {
        let _ = (tuple, record, records);
    }

    /// A flow lasts, and the active timeout has passed since it began or was reported last: what it has so far, with the cause
    /// [`EndCause::ActiveTimeout`].
    fn active(&mut self, so_far: &Ended<'_>) {
        let _ = so_far;
    }

    /// A flow has ended.
    fn ended(&mut self, ended: &Ended<'_>) {
        let _ = ended;
    }
}

impl Sink for () {}
