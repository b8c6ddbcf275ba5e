//! The paths that packets take through a simulated network. The tag of a packet has the number of the packet and of its
//! path.

use std::collections::HashMap;

/// Bits of a tag's `id` that are the packet's number; the others are the number of its path.
const NUMBER_BITS: u32 = 40;

/// The largest number of a path.
pub const MOST_PATHS: u64 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// The packet's number in the `id` of a tag.
pub const fn number(id: u64) -> u64 {
    id & ((1 << NUMBER_BITS) - 1)
}

/// The number of the path in the `id` of a tag; 0 before the first link.
pub const fn path(id: u64) -> u64 {
    id >> NUMBER_BITS
}

/// All paths that packets took, each with a number of its own.
///
/// The numbers are exact. Hashes of 24 bits are not enough: among the paths of the packets of one run of 64 nodes two of a
/// flow had the same hash, and then packets seem late on a path.
#[derive(Debug, Default)]
pub struct Paths {
    /// The number of a path by the number of the path that it prolongs, 0 for none, and the node that it adds.
    longer: HashMap<(u64, usize), u64>,
}

impl Paths {
    /// The `id` of a packet that reaches a node; nothing if there are too many paths. Cost: a hash table's lookup.
    /// Memory: about 32 bytes per path.
    pub fn prolong(&mut self, id: u64, node: usize) -> Option<u64> {
        let next = self.longer.len() as u64 + 1;
        let path = *self.longer.entry((path(id), node)).or_insert(next);
        (path <= MOST_PATHS).then_some(number(id) | path << NUMBER_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn packets_have_the_same_path_if_they_passed_the_same_nodes_in_the_same_order() {
        let mut paths = Paths::default();
        let mut walk = |packet: u64, nodes: &[usize]| {
            let id = nodes.iter().fold(packet, |id, &node| paths.prolong(id, node).unwrap());
            assert_eq!(number(id), packet);
            path(id)
        };
        assert_eq!(walk((1 << NUMBER_BITS) - 1, &[3, 1, 2]), walk(7, &[3, 1, 2]));
        // A hash of 24 bits gives the same value to about twelve pairs of 20,000 paths.
        let mut seen = HashSet::from([walk(7, &[3, 1, 2]), walk(7, &[1, 3, 2]), walk(7, &[3, 1])]);
        seen.extend((0..20_000).map(|path| walk(path, &[path as usize / 200, path as usize % 200, 200])));
        assert_eq!(seen.len(), 3 + 20_000);
    }
}
