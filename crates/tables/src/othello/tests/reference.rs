//! The slow, simple reference model: a map of names, from which all contents are recomputed by the documented
//! rules.

use super::*;
use std::collections::BTreeMap;

/// The ranges of the reference model: a seed and names for each.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    params: Params,
    ranges: BTreeMap<u32, (u8, BTreeMap<u64, u16>)>,
}

impl Reference {
    pub(super) fn new(params: Params) -> Self {
        Self { params, ranges: BTreeMap::new() }
    }

    fn number(&self, hash: u64) -> u32 {
        ((u128::from(hash) * u128::from(self.params.ranges())) >> 64) as u32
    }

    /// The contents of each slot, or `None` if there is a cycle. Slot by slot upwards, each slot without
    /// contents gets 0, which is spread until nothing changes.
    fn contents(&self, seed: u8, names: &BTreeMap<u64, u16>) -> Option<Vec<u32>> {
        let places = placement::Placement::of(&self.params);
        let edges: Vec<([u32; 2], u32)> = names
            .iter()
            .map(|(&hash, &value)| (places.pair(hash, seed), places.difference(hash, value)))
            .collect();
        let mut slots: Vec<Option<u32>> = vec![None; self.params.slots_per_range() as usize];
        let mut trees = 0;
        for root in 0..slots.len() {
            if slots[root].is_some() {
                continue;
            }
            (slots[root], trees) = (Some(0), trees + 1);
            while let Some((to, content)) =
                edges.iter().find_map(|&([a, b], difference)| match (slots[a as usize], slots[b as usize]) {
                    (Some(held), None) => Some((b, held ^ difference)),
                    (None, Some(held)) => Some((a, held ^ difference)),
                    _ => None,
                })
            {
                slots[to as usize] = Some(content);
            }
        }
        // In a forest, the number of trees is the number of slots minus the number of edges.
        (trees + edges.len() == slots.len()).then(|| slots.into_iter().flatten().collect())
    }

    /// Applies an operation. Returns whether it was possible.
    pub(super) fn perform(&mut self, op: Op) -> bool {
        let hash = op.hash().get();
        let (number, limit) = (self.number(hash), self.params.capacity());
        let (mut seed, mut names) = self.ranges.remove(&number).unwrap_or_default();
        let before = (seed, names.clone());
        let done = match op {
            Op::Insert(_, value) => names.len() < limit && names.insert(hash, value).is_none(),
            Op::Update(_, value) => names.get_mut(&hash).map(|held| *held = value).is_some(),
            Op::Remove(_) => names.remove(&hash).is_some(),
        };
        let mut suits = done;
        if done {
            let seeds = (0..=u8::MAX).map(|step| before.0.wrapping_add(step));
            let found = seeds.into_iter().find(|&seed| self.contents(seed, &names).is_some());
            suits = found.is_some();
            seed = found.unwrap_or(seed);
        }
        self.ranges.insert(number, if suits { (seed, names) } else { before });
        suits
    }

    /// Compares seeds and all slots.
    pub(super) fn assert_equals(&self, control: &OthelloControl) {
        let layout = layout::Layout::of(&self.params);
        for number in 0..self.params.ranges() {
            let (seed, names) = self.ranges.get(&number).cloned().unwrap_or_default();
            let each = self.params.ranges_per_partition();
            let store = control.part(scalebricks_types::PartitionId((number / each) as u16)).unwrap();
            assert_eq!(store.head(number % each).seed, seed, "seed of range {number}");
            let wanted = self.contents(seed, &names).unwrap();
            let words = store.words(number % each);
            let held: Vec<u32> = (0..wanted.len() as u32).map(|slot| layout.get(words, slot)).collect();
            assert_eq!(held, wanted, "range {number}");
            assert!(layout.is_clean(words));
        }
    }
}
