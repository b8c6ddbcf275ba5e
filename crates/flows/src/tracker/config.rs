//! Configuration of a tracker.

use crate::{fragments, reassembly, simple, tcp};

/// How flows are tracked.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// TCP connections.
    pub tcp: tcp::Config,
    /// Lifetimes of other flows.
    pub simple: simple::Timeouts,
    /// Fragments.
    pub fragments: fragments::Config,
    /// Streams; `None` does not reassemble.
    pub reassembly: Option<reassembly::Config>,
    /// Refuse packets with wrong checksums. Captures taken with checksum offload contain them.
    pub verify_checksums: bool,
    /// Most flows of each IP version. Address space for them is reserved at the start; memory comes with the flows.
    pub flows: u32,
    /// Whether the tables begin small and grow. A table that does not grow takes all its memory at the start, and a flow keeps
    /// its record until it ends.
    pub grows: bool,
    /// Whether there are IPv6 flows. Without them, their table takes no memory.
    pub has_ipv6: bool,
    /// Most young flows of each IP version: half-open connections, and flows without an answer.
    pub young_flows: u32,
}

impl Default for Config {
    /// 1,048,576 flows of each IP version, 65,536 of them young; in path, with reassembly, no pick-up.
    fn default() -> Self {
        Self {
            tcp: tcp::Config::default(),
            simple: simple::Timeouts::default(),
            fragments: fragments::Config::default(),
            reassembly: Some(reassembly::Config::default()),
            verify_checksums: false,
            flows: 1 << 20,
            grows: true,
            has_ipv6: true,
            young_flows: 1 << 16,
        }
    }
}
