//! The handling node of each region. Flows are pinned by their UE's region, not by a hash of their key: the lookup tables make that
//! possible.

use scalebricks_types::{ClusterSize, NodeId};

/// Regions of a network. Many more than nodes, so that nodes can have nearly equal shares.
pub const REGIONS: u16 = 256;

/// The node of each region.
#[derive(Debug, Clone)]
pub struct Regions(Vec<NodeId>);

impl Regions {
    /// Neighbouring regions have the same node, and the numbers of regions per node differ by at most one.
    pub fn even(size: ClusterSize) -> Self {
        let shares = vec![1.0; size.get()];
        Self::by_shares(size, &shares)
    }

    /// The second node has half as many regions as the first, the third a third, and so on; each has at least one.
    pub fn skewed(size: ClusterSize) -> Self {
        let shares: Vec<f64> = (1..=size.get()).map(|rank| 1.0 / rank as f64).collect();
        Self::by_shares(size, &shares)
    }

    /// The node that handles a region.
    pub fn node(&self, region: u16) -> NodeId {
        self.0[usize::from(region % REGIONS)]
    }

    /// The largest share of all regions that one node handles.
    pub fn largest_share(&self) -> f64 {
        let regions_of = |node: NodeId| self.0.iter().filter(|&&n| n == node).count();
        let most = self.0.iter().map(|&node| regions_of(node)).max().unwrap_or(0);
        most as f64 / self.0.len() as f64
    }

    /// One region per node, and each other region to the node that is furthest below its share.
    fn by_shares(size: ClusterSize, shares: &[f64]) -> Self {
        let total: f64 = shares.iter().sum();
        let wanted: Vec<f64> = shares.iter().map(|share| share / total * f64::from(REGIONS)).collect();
        let mut given = vec![1usize; size.get()];
        for _ in size.get()..usize::from(REGIONS) {
            let behind = |node: usize| wanted[node] - given[node] as f64;
            let next = (0..size.get()).max_by(|&a, &b| behind(a).total_cmp(&behind(b)).then(b.cmp(&a)));
            if let Some(node) = next {
                given[node] += 1;
            }
        }
        let regions = size.nodes().zip(given).flat_map(|(node, count)| std::iter::repeat_n(node, count));
        Self(regions.take(usize::from(REGIONS)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(regions: &Regions, size: ClusterSize) -> Vec<usize> {
        size.nodes().map(|n| (0..REGIONS).filter(|&r| regions.node(r) == n).count()).collect()
    }

    #[test]
    fn even_shares_differ_by_at_most_one() {
        for nodes in 2..=64 {
            let size = ClusterSize::new(nodes).unwrap();
            let counts = counts(&Regions::even(size), size);
            assert_eq!(counts.iter().sum::<usize>(), usize::from(REGIONS));
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }

    #[test]
    fn skewed_shares_decrease_and_no_node_is_empty() {
        for nodes in 2..=64 {
            let size = ClusterSize::new(nodes).unwrap();
            let regions = Regions::skewed(size);
            let counts = counts(&regions, size);
            assert_eq!(counts.iter().sum::<usize>(), usize::from(REGIONS));
            assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
            assert!(*counts.last().unwrap() >= 1);
            assert!((regions.largest_share() - counts[0] as f64 / 256.0).abs() < 1e-9);
        }
        let four = ClusterSize::new(4).unwrap();
        assert_eq!(counts(&Regions::skewed(four), four), [123, 61, 41, 31]);
    }
}
