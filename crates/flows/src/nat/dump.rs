//! The state as text, bounded.

use super::Nat;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

impl Nat {
    /// Mappings now.
    pub fn mappings(&self) -> usize {
        self.state.mappings.len()
    }

    /// Subscribers now: inside addresses with blocks or sessions.
    pub fn subscribers(&self) -> usize {
        self.state.subscribers.len()
    }

    /// Blocks that subscribers have now.
    pub const fn blocks_in_use(&self) -> usize {
        self.state.blocks.in_use()
    }

    /// At most `most` mappings, one per line: protocol, inside endpoint, public endpoint, sessions that hold it, seconds since
    /// the inside has sent. `only` limits them to an inside address.
    pub fn mapping_lines(&self, only: Option<Ipv4Addr>, most: usize) -> String {
        let mut lines = String::new();
        let wanted = self.state.mappings.iter().filter(|m| only.is_none_or(|only| m.inside.address == only));
        for mapping in wanted.take(most) {
            let inside = mapping.inside;
            let idle_s = self.state.now.saturating_sub(mapping.last_out).as_secs();
            let _ = writeln!(
                lines,
                "{}\t{}:{}\t{}:{}\t{}\t{idle_s}",
                inside.kind.name(),
                inside.address,
                inside.port,
                mapping.public,
                mapping.port,
                mapping.holders
            );
        }
        lines
    }

    /// At most `most` blocks in use, one per line: inside address, public address, first and last port, and the subscriber's
    /// mappings, sessions and refused packets.
    pub fn block_lines(&self, only: Option<Ipv4Addr>, most: usize) -> String {
        let mut lines = String::new();
        let wanted = self.state.subscribers.iter().filter(|s| only.is_none_or(|only| s.address == only));
        let blocks =
            wanted.flat_map(|subscriber| subscriber.blocks.iter().map(move |block| (subscriber, *block)));
        for (subscriber, number) in blocks.take(most) {
            let Some(block) = self.state.config.plan.block(number) else { continue };
            let _ = writeln!(
                lines,
                "{}\t{}\t{}-{}\t{}\t{}\t{}",
                subscriber.address,
                block.public,
                block.ports.start(),
                block.ports.end(),
                subscriber.mappings,
                subscriber.sessions,
                subscriber.refused
            );
        }
        lines
    }

    /// At most `most` subscribers with refused packets, those with most first: inside address and refused packets.
    pub fn refused_lines(&self, most: usize) -> String {
        let mut refused: Vec<_> =
            self.state.subscribers.iter().filter(|s| s.refused > 0).map(|s| (s.refused, s.address)).collect();
        refused.sort_unstable_by(|a, b| b.cmp(a));
        refused.iter().take(most).fold(String::new(), |mut lines, (refused, address)| {
            let _ = writeln!(lines, "{address}\t{refused}");
            lines
        })
    }

    /// The latest assigned and released blocks, oldest first: nanoseconds on the NAT's clock, `assigned` or `released`,
    /// inside address, public address, first and last port. What RFC 6888 §4 asks to log of NATs with blocks.
    pub fn event_lines(&self) -> String {
        let mut lines = String::new();
        for event in &self.state.log {
            let Some(block) = self.state.config.plan.block(event.block) else { continue };
            let _ = writeln!(
                lines,
                "{}\t{}\t{}\t{}\t{}-{}",
                event.at.as_nanos(),
                if event.is_assigned { "assigned" } else { "released" },
                event.inside,
                block.public,
                block.ports.start(),
                block.ports.end()
            );
        }
        lines
    }
}
