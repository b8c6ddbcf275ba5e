//! Configuration of a tracker.

use crate::{fragments, reassembly, simple, tcp};
use scalebricks_tables::dhash::Signature;
use std::time::Duration;

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
    /// A flow that lasts is reported to [`Sink::active`](super::Sink::active) each time this has passed, if it had packets; `None`
    /// never.
    pub active_timeout: Option<Duration>,
    /// Most young flows of each IP version: half-open connections, and flows without an answer.
    pub young_flows: u32,
    /// The table's function for signatures. Others than the default are for comparison.
    pub signature: Signature,
}

impl Config {
    /// The lifetimes of flows without packets, by name: the states of TCP, and the other protocols.
    pub fn lifetimes(&mut self) -> impl Iterator<Item = (&'static str, &mut Duration)> {
        self.tcp.timeouts.named().into_iter().chain(self.simple.named())
    }
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
            active_timeout: None,
            young_flows: 1 << 16,
            signature: Signature::Keyed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lifetime_has_a_name_of_its_own() {
        let mut config = Config::default();
        for (at, (_, lifetime)) in config.lifetimes().enumerate() {
            *lifetime = Duration::from_secs(at as u64);
        }
        assert_eq!(config.tcp.timeouts.of(tcp::State::HalfClosed), Duration::from_secs(3));
        assert_eq!(config.simple.other, Duration::from_secs(12));
        let mut names: Vec<_> = config.lifetimes().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 13);
    }
}
