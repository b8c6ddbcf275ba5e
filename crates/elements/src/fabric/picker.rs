//! Random choices of a node, from a seed.

use scalebricks_types::mix::{GAMMA, SplitMix64};

/// A random generator. Eight bytes of state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picker(SplitMix64);

impl Picker {
    /// The generator of a node: with one seed, each node has its own sequence.
    pub(crate) const fn of_node(number: u8, seed: u64) -> Self {
        // Any odd multiplier works.
        Self(SplitMix64(seed ^ GAMMA.wrapping_mul(number as u64 * 2 + 1)))
    }

    /// The next number.
    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random number below `count`, or 0 if that is 0.
    #[inline]
    pub(crate) const fn below(&mut self, count: usize) -> usize {
        scaled(self.next(), count)
    }
}

/// Scales 64 random bits to a number below `count`.
#[inline]
pub(crate) const fn scaled(random: u64, count: usize) -> usize {
    ((random as u128 * count as u128) >> 64) as usize // below `count`
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_drawn_about_equally_often_and_nodes_draw_differently() {
        let mut picker = Picker::of_node(3, 1);
        let mut drawn = [0u32; 7];
        (0..70_000).for_each(|_| drawn[picker.below(7)] += 1);
        assert!(drawn.iter().all(|count| (9_500..10_500).contains(count)), "{drawn:?}");
        let first = |number, seed| Picker::of_node(number, seed).next();
        assert!(first(0, 1) != first(1, 1) && first(0, 1) != first(0, 2));
        assert_eq!(picker.below(0), 0);
    }
}
