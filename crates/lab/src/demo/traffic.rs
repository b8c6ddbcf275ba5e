//! The packets of a synthetic run: each is a function of the seed and its number.

use super::mix::hash;
use super::population::{Flow, Population};
use crate::tunnel::TunnelForm;
use scalebricks_types::{ClusterSize, NodeId};

/// The simple IMIX: of twelve frames, seven have 64 bytes, four 594 and one 1518, with frame check sequence. Here as lengths of
/// the user's IP packet. The smallest packets are larger if their headers are.
pub const IMIX_IP_LENGTHS: [(u64, usize); 3] = [(7, 46), (4, 576), (1, 1_500)];

/// Longest user packet.
pub const MAX_IP_LENGTH: usize = 1_500;

/// Upstream packets of four.
const UPSTREAM_QUARTERS: u64 = 1;

const SALT: u64 = 0x7ac;

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the Internet.
    Downstream,
    /// From a base station.
    Upstream(TunnelForm),
}

/// The properties of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Its number in the run.
    pub id: u64,
    /// Its flow.
    pub flow: Flow,
    /// Its ingress node.
    pub ingress: NodeId,
    /// Its direction.
    pub direction: Direction,
    /// Requested length of the user's IP packet.
    pub ip_len: usize,
}

/// All packets of a run, the same for every architecture.
#[derive(Debug, Clone)]
pub struct Traffic {
    seed: u64,
    population: Population,
    nodes: ClusterSize,
}

impl Traffic {
    /// Traffic of these flows with random ingress nodes in a cluster of this size.
    pub const fn new(seed: u64, population: Population, nodes: ClusterSize) -> Self {
        Self { seed, population, nodes }
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The flows.
    pub const fn population(&self) -> &Population {
        &self.population
    }

    /// The packet with this number.
    pub fn plan(&self, id: u64) -> Plan {
        let draw = hash(self.seed, SALT, id);
        let more = hash(self.seed, SALT + 1, id);
        Plan {
            id,
            flow: self.population.flow(scale(draw, u64::from(self.population.flows())) as u32),
            // A node number fits an octet.
            ingress: NodeId::new(scale(more, self.nodes.get() as u64) as u8),
            direction: direction(more),
            ip_len: imix(more >> 8),
        }
    }
}

/// A uniform draw below `n`, by the top bits of a random word.
const fn scale(random: u64, n: u64) -> u64 {
    ((random as u128 * n as u128) >> 64) as u64
}

const fn direction(random: u64) -> Direction {
    if random & 3 >= UPSTREAM_QUARTERS {
        return Direction::Downstream;
    }
    Direction::Upstream(match (random >> 2) & 15 {
        0..=8 => TunnelForm::Plain,
        9..=10 => TunnelForm::SequenceNumber,
        _ => TunnelForm::PduSession,
    })
}

fn imix(random: u64) -> usize {
    let [(small, small_len), (medium, medium_len), (large, large_len)] = IMIX_IP_LENGTHS;
    match (random & 0xffff_ffff) % (small + medium + large) {
        draw if draw < small => small_len,
        draw if draw < small + medium => medium_len,
        _ => large_len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::KeyProfile;

    #[test]
    fn the_mix_is_the_documented_one() {
        let size = ClusterSize::new(4).unwrap();
        let population = Population::new(5, 1_000, KeyProfile::Flow5, size, false);
        let traffic = Traffic::new(5, population, size);
        let plans: Vec<_> = (0..120_000).map(|id| traffic.plan(id)).collect();
        let share = |is: &dyn Fn(&Plan) -> bool| plans.iter().filter(|p| is(p)).count() as f64 / 120_000.0;
        for (parts, len) in IMIX_IP_LENGTHS {
            assert!((share(&|p| p.ip_len == len) - parts as f64 / 12.0).abs() < 0.01, "{len}");
        }
        assert!((share(&|p| p.direction == Direction::Downstream) - 0.75).abs() < 0.01);
        let container = Direction::Upstream(TunnelForm::PduSession);
        assert!((share(&|p| p.direction == container) - 0.25 * 5.0 / 16.0).abs() < 0.01);
        for node in size.nodes() {
            assert!((share(&|p| p.ingress == node) - 0.25).abs() < 0.01);
            // The ingress node is independent of the handling node.
            assert!((share(&|p| p.ingress == node && p.flow.node == node) - 1.0 / 16.0).abs() < 0.01);
        }
    }
}
