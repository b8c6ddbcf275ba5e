//! Configuration of a NAT.

use super::plan::{Plan, PlanError};
use crate::{fragments, simple, tcp};
use scalebricks_tables::dhash;
use std::time::Duration;

/// From whom a mapping accepts packets that no session of it explains (RFC 4787 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Filtering {
    /// From everybody: what RFC 6888 REQ-7 recommends for carrier-grade NATs, so that applications between peers work.
    #[default]
    EndpointIndependent,
    /// From addresses to which the inside endpoint has sent.
    AddressDependent,
    /// From addresses and ports to which it has sent.
    AddressAndPortDependent,
}

/// How subscribers get their blocks of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Allocation {
    /// A free block when it is needed, and further ones up to [`Config::subscriber_blocks`], all of one public address
    /// (RFC 6888 REQ-2).
    #[default]
    Dynamic,
    /// One block each, computed from the inside address (RFC 7422).
    Deterministic,
}

/// Lifetimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP mappings without outbound packets, and UDP sessions without packets: at least 2 min, 5 min recommended (RFC 4787
    /// REQ-5).
    pub udp: Duration,
    /// Established TCP connections: at least 2 h 4 min (RFC 5382 REQ-5).
    pub tcp: Duration,
    /// TCP connections that are opening, closing or reset: at least 4 min (RFC 5382 REQ-5, RFC 7857 §2).
    pub tcp_transitory: Duration,
    /// ICMP queries: at least 1 min (RFC 5508 REQ-2).
    pub icmp: Duration,
    /// How long a block stays with its subscriber after its last mapping has ended: at least 2 min, so that no other
    /// subscriber gets packets for the last one (RFC 6888 REQ-8).
    pub block: Duration,
}

impl Timeouts {
    /// The shortest lifetimes that the RFCs allow.
    pub const LEAST: Self = Self {
        udp: Duration::from_secs(120),
        tcp: Duration::from_secs(2 * 3_600 + 240),
        tcp_transitory: Duration::from_secs(240),
        icmp: Duration::from_secs(60),
        block: Duration::from_secs(120),
    };

    const fn all(&self) -> [(&'static str, Duration); 5] {
        [
            ("UDP", self.udp),
            ("TCP", self.tcp),
            ("opening and closing TCP connections", self.tcp_transitory),
            ("ICMP", self.icmp),
            ("blocks", self.block),
        ]
    }
}

impl Default for Timeouts {
    /// The recommended ones.
    fn default() -> Self {
        Self { udp: Duration::from_secs(300), ..Self::LEAST }
    }
}

/// How addresses are translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Addresses, ports and blocks.
    pub plan: Plan,
    /// How subscribers get blocks.
    pub allocation: Allocation,
    /// Most blocks of a subscriber with dynamic allocation.
    pub subscriber_blocks: u16,
    /// Most mappings of a subscriber, of all protocols.
    pub subscriber_mappings: u32,
    /// Most sessions of a subscriber; half of them may begin outside (RFC 6888 REQ-5).
    pub subscriber_sessions: u32,
    /// From whom mappings accept packets.
    pub filtering: Filtering,
    /// Whether an even inside port gets an even public one, and an odd one an odd one, while there are any (RFC 4787 REQ-4).
    pub parity: bool,
    /// Whether to track TCP connections whose handshake was not seen: flows of another node, or from before a restart.
    pub pick_up: bool,
    /// Lifetimes.
    pub timeouts: Timeouts,
    /// Most sessions, and most mappings. Memory for the sessions is taken at the start.
    pub sessions: u32,
    /// Most sessions that are half-open or unanswered; the oldest goes first.
    pub young_sessions: u32,
    /// Refuse packets with wrong checksums.
    pub verify_checksums: bool,
    /// Fragments that wait for others.
    pub fragments: fragments::Config,
    /// Events that are kept for the log.
    pub events: usize,
}

/// Why a NAT cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// Addresses, ports or blocks do not fit together.
    Plan(PlanError),
    /// Deterministic allocation needs a block for every inside address.
    TooFewBlocks {
        /// Inside addresses.
        inside: u64,
        /// Blocks of all public addresses.
        blocks: u64,
    },
    /// A lifetime is shorter than the RFCs allow.
    TooShort {
        /// Of what.
        of: &'static str,
        /// The shortest allowed, seconds.
        least_s: u64,
    },
    /// A limit is zero.
    Zero,
    /// The table of sessions cannot be made.
    Table(dhash::ConfigError),
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::TooFewBlocks { inside, blocks } => {
                write!(f, "{inside} inside addresses need as many blocks, and there are {blocks}")
            }
            Self::TooShort { of, least_s } => write!(f, "the lifetime of {of} is at least {least_s} s"),
            Self::Zero => f.write_str("limits are at least 1"),
            Self::Table(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The default behaviour with this plan: dynamic blocks, one per subscriber, with as many mappings as it has ports;
    /// 65,536 sessions in total and 8,192 per subscriber.
    pub fn new(plan: Plan) -> Self {
        let ports = u32::from(plan.block_len()).saturating_mul(3);
        Self {
            plan,
            allocation: Allocation::Dynamic,
            subscriber_blocks: 1,
            subscriber_mappings: ports,
            subscriber_sessions: 8_192,
            filtering: Filtering::default(),
            parity: true,
            pick_up: false,
            timeouts: Timeouts::default(),
            sessions: 1 << 16,
            young_sessions: 1 << 15,
            verify_checksums: true,
            fragments: fragments::Config::default(),
            events: 256,
        }
    }

    /// # Errors
    /// [`ConfigError`], but for the table of sessions.
    pub fn check(&self) -> Result<(), ConfigError> {
        for ((of, lifetime), (_, least)) in self.timeouts.all().into_iter().zip(Timeouts::LEAST.all()) {
            if lifetime < least {
                return Err(ConfigError::TooShort { of, least_s: least.as_secs() });
            }
        }
        let limits = [self.subscriber_mappings, self.subscriber_sessions, self.sessions, self.young_sessions];
        if limits.contains(&0) || self.subscriber_blocks == 0 {
            return Err(ConfigError::Zero);
        }
        let (inside, blocks) = (self.plan.inside_addresses(), u64::from(self.plan.blocks()));
        if self.allocation == Allocation::Deterministic && inside > blocks {
            return Err(ConfigError::TooFewBlocks { inside, blocks });
        }
        Ok(())
    }

    /// How sessions are tracked.
    pub(super) fn tracker(&self) -> crate::tracker::Config {
        let Timeouts { udp, tcp, tcp_transitory, icmp, .. } = self.timeouts;
        let timeouts = tcp::Timeouts {
            syn_sent: tcp_transitory,
            syn_received: tcp_transitory,
            established: tcp,
            half_closed: tcp_transitory,
            closing: tcp_transitory,
            time_wait: tcp_transitory,
            reset: tcp_transitory,
        };
        crate::tracker::Config {
            tcp: tcp::Config { vantage: tcp::Vantage::InPath, pick_up: self.pick_up, timeouts },
            simple: simple::Timeouts { udp_one_way: udp, udp, icmp, ..simple::Timeouts::default() },
            reassembly: None,
            verify_checksums: self.verify_checksums,
            flows: self.sessions,
            grows: false,
            has_ipv6: false,
            young_flows: self.young_sessions,
            ..crate::tracker::Config::default()
        }
    }
}
