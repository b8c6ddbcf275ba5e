//! IP packets from their fragments (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! [`Defragmenter`] keeps the fragments of packets that are not complete. A packet whose fragments overlap is refused as a
//! whole, and so is all of it that comes later (RFC 5722); only exact repetitions are ignored (RFC 8200 §4.5). So no two
//! receivers can read a packet differently. Fragments per packet, packets per source, packets and octets in total are
//! bounded; when the total is reached, the oldest packet goes.

mod datagram;
mod defragmenter;

pub use defragmenter::{Defragmented, Defragmenter};

use crate::named::named_enum;
use std::time::Duration;

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How long an incomplete IPv4 packet waits for its fragments.
    pub ipv4_lifetime: Duration,
    /// How long an incomplete IPv6 packet waits: 60 s (RFC 8200 §4.5).
    pub ipv6_lifetime: Duration,
    /// Most fragments of a packet.
    pub packet_fragments: usize,
    /// Most incomplete packets of a source address.
    pub source_packets: u32,
    /// Most incomplete packets.
    pub packets: usize,
    /// Most octets of all incomplete packets, with [`PACKET_COST`] and [`FRAGMENT_COST`].
    pub bytes: u64,
}

/// What an incomplete packet costs besides its fragments, octets.
pub const PACKET_COST: u64 = 256;
/// What a fragment costs besides its data, octets.
pub const FRAGMENT_COST: u64 = 64;

impl Default for Config {
    /// 30 s and 60 s, 128 fragments per packet, 64 packets per source, 4,096 packets and 16 MiB in total.
    fn default() -> Self {
        Self {
            ipv4_lifetime: Duration::from_secs(30),
            ipv6_lifetime: Duration::from_secs(60),
            packet_fragments: 128,
            source_packets: 64,
            packets: 4_096,
            bytes: 16 << 20,
        }
    }
}

named_enum! {
    /// Why a fragment is not used.
    pub enum Refusal {
        /// It has no data.
        Empty => "fragment_empty",
        /// It overlaps another in part (teardrop). The packet is refused.
        Overlap => "fragment_overlap",
        /// It ends behind the last fragment, or is another last fragment with another end. The packet is refused.
        End => "fragment_end",
        /// The packet would have more than 65,535 octets. The packet is refused.
        TooLong => "fragment_too_long",
        /// The packet has too many fragments. The packet is refused.
        TooMany => "fragment_too_many",
        /// Its packet was refused before.
        Refused => "fragment_of_refused_packet",
        /// It repeats another exactly.
        Repeated => "fragment_repeated",
        /// Its source has too many incomplete packets.
        SourceLimit => "fragment_source_limit",
        /// It is larger than all fragments may be together.
        NoRoom => "fragment_no_room",
        /// Its headers cannot be read.
        Malformed => "fragment_malformed",
    }
}

named_enum! {
    /// Counted besides refusals.
    pub enum Event {
        /// Fragments that wait or have waited.
        Held => "fragments_held",
        /// Packets completed.
        Completed => "packets_completed",
        /// Packets that did not become complete in time.
        TimedOut => "packets_timed_out",
        /// Packets that had to go for others.
        Evicted => "packets_evicted",
    }
}
