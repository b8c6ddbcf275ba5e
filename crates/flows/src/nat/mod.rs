//! Translation of IPv4 addresses and ports (NAT44): RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), RFC 6888
//! (carrier-grade NATs), RFC 7422 (deterministic blocks), RFC 7857 (updates).
//!
//! ```text
//! inside ─▶ tracker: one lookup ─▶ session beside the flow's record ─▶ mapping ─▶ source replaced ─▶ outside
//! inside ◀─ destination replaced ◀─ tracker: one lookup by inside tuple ◀─ mapping ◀─ index: address, port ◀─ outside
//! ```
//!
//! A *mapping* binds an inside endpoint (address, port, protocol) to a public one, whatever the destination. A *session* is a
//! flow of the [tracker](crate::tracker), in terms of the inside; its mapping is kept beside its record. A *block* is a range
//! of ports of a public address that one inside address, the *subscriber*, has at a time.
//!
//! | module | contents |
//! |---|---|
//! | [`Plan`] | addresses, ports and blocks: arithmetic without state |
//! | `blocks` | which subscriber has a block; the mapping of each port |
//! | `state` | mappings, subscribers, limits, lifetimes |
//! | `sessions` | which flows may begin, and which mapping each has |
//! | [`Nat`] | packets: checks, translation, hairpinning, ICMP errors, fragments |
//!
//! Memory: sessions and mappings are bounded by [`Config::sessions`]; subscribers by blocks and sessions; a block's index
//! takes 4 bytes per port and protocol in use. All else is refused by a named [`Refusal`].

mod blocks;
mod config;
mod dump;
mod errors;
mod plan;
mod refusal;
mod sessions;
mod slab;
mod state;
mod translator;

pub use blocks::BlockEvent;
pub use config::{Allocation, Config, ConfigError, Filtering, Timeouts};
pub use plan::{BlockOfPorts, MAX_BLOCKS, MAX_PUBLIC, Plan, PlanError, Prefix};
pub use refusal::{Event, Refusal};
pub use translator::{Nat, Outcome, Side, Translated};

use scalebricks_wire::protocol;
use std::net::Ipv4Addr;

/// A protocol whose ports are translated.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Tcp,
    Udp,
    /// Queries, by identifier.
    Icmp,
}

impl Kind {
    const fn of(number: u8) -> Result<Self, Refusal> {
        match number {
            protocol::TCP => Ok(Self::Tcp),
            protocol::UDP => Ok(Self::Udp),
            protocol::ICMPV4 => Ok(Self::Icmp),
            protocol::SCTP => Err(Refusal::Sctp),
            _ => Err(Refusal::Protocol),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
            Self::Icmp => protocol::ICMPV4,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }
}

/// An inside address with a port or identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Endpoint {
    address: Ipv4Addr,
    port: u16,
    kind: Kind,
}
