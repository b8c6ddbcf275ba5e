//! Turns a table's arbitrary answers for unknown names into a weighted choice between actions.
//!
//! A compact table returns *some* value for a name it does not hold. For a balancer of flows this is useful
//! (Concise proposes it): a known flow goes where it was pinned, and a new flow gets a destination at once,
//! without a second table. But the values of unknown names are not evenly distributed: slots that no name
//! uses are 0, as is one slot of every tree of an Othello table. So 0 occurs far more often than its share,
//! and the rest depends on the stored data.
//!
//! So values are not actions here but *codes*, and a table stores for a name its code xor a hash of the name
//! ([`Spread`]). For any value that an unknown name gets from the table, the xor with its own hash makes
//! every code equally likely, independent of the stored data. An action with more weight has more of the
//! codes. Cost: a multiplication per lookup, and no memory except the 2^l codes.
//!
//! A new flow keeps its destination if it is installed with exactly the value that the table returned: the
//! answer does not change, and so nearly always the table does not change either. Its delta is then empty,
//! unless a range takes another seed. Until then the answer may change with any update of the flow's range,
//! so install a flow with its first packet, not later.

use scalebricks_types::KeyHash;

/// Masks what a table stores with bits of each name's own hash, so that the answers for names it does not
/// hold are spread evenly over all values.
///
/// ```
/// use scalebricks_tables::Spread;
/// use scalebricks_types::KeyHash;
///
/// let (spread, name) = (Spread::over(4, 0), KeyHash::new(0x1234_5678_9ABC_DEF0));
/// let stored = spread.mask(name, 5);
/// assert!(stored < 16 && spread.mask(name, stored) == 5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    mask: u16,
    seed: u64,
}

impl Spread {
    /// Values without masks.
    pub const NONE: Self = Self { mask: 0, seed: 0 };

    /// Masks values of this many bits, at most 16. When the number of bits increases, all names must get new
    /// values.
    pub const fn over(value_bits: u8, seed: u64) -> Self {
        let bits = if value_bits < 16 { value_bits } else { 16 };
        Self { mask: ((1_u32 << bits) - 1) as u16, seed } // at most 16 bits
    }

    /// Converts a value to what is stored, and what is stored to the value. Cost: a multiplication.
    #[inline(always)]
    pub const fn mask(self, name: KeyHash, value: u16) -> u16 {
        value ^ (self.bits(name) & self.mask)
    }

    /// Bits of a name's hash that no table uses.
    #[inline(always)]
    pub const fn bits(self, name: KeyHash) -> u16 {
        (self.mix(name) >> 40) as u16
    }

    /// A hash function different from those that give a name its slots.
    const fn mix(self, name: KeyHash) -> u64 {
        (name.get() ^ self.seed).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }
}

/// Why weights cannot be converted to codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// 0 bits, or more than 16.
    #[error("{0} value bits are not 1 to 16")]
    ValueBits(u8),
    /// No weight above 0.
    #[error("no action has a weight")]
    None,
    /// More actions with a weight than there are codes.
    #[error("{actions} actions do not fit {codes} codes: take more value bits")]
    Actions {
        /// Actions with a weight.
        actions: usize,
        /// Number of codes.
        codes: usize,
    },
}

/// Assigns codes to actions; an action with more weight has more codes.
///
/// ```
/// use scalebricks_tables::WeightedActions;
/// use scalebricks_types::KeyHash;
///
/// let actions = WeightedActions::new(&[3, 1], 8, 7)?;
/// let flow = KeyHash::new(0x1234_5678_9ABC_DEF0);
/// let value = actions.value(flow, 1).unwrap_or(0); // what a table is to store for a flow pinned to action 1
/// assert_eq!(actions.action(flow, value), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedActions {
    /// The action of each code; the codes of one action are consecutive.
    actions: Vec<u16>,
    /// The first code of each action, and its number of codes.
    codes: Vec<(u16, u32)>,
    value_bits: u8,
    spread: Spread,
}

impl WeightedActions {
    /// Distributes the 2^`value_bits` codes by weight, to the nearest: an action gets its share rounded down,
    /// and the remaining codes go to the largest remainders (if equal, to the lower action). An action with a
    /// weight has at least one code.
    ///
    /// # Errors
    /// [`WeightError`].
    pub fn new(weights: &[u32], value_bits: u8, seed: u64) -> Result<Self, WeightError> {
        if !(1..=16).contains(&value_bits) {
            return Err(WeightError::ValueBits(value_bits));
        }
        let codes = 1_usize << value_bits;
        let with_weight = weights.iter().filter(|&&weight| weight > 0).count();
        if with_weight == 0 {
            return Err(WeightError::None);
        }
        // Numbers of actions must also fit their type.
        if with_weight > codes || weights.len() > 1 << 16 {
            return Err(WeightError::Actions { actions: with_weight, codes });
        }
        let counts = share_out(weights, codes as u32);
        let mut actions = Vec::with_capacity(codes);
        let mut places = Vec::with_capacity(weights.len());
        for (&count, action) in counts.iter().zip(0..=u16::MAX) {
            places.push((actions.len() as u16, count)); // below 2^16 unless it is empty
            actions.extend((0..count).map(|_| action));
        }
        Ok(Self { actions, codes: places, value_bits, spread: Spread::over(value_bits, seed) })
    }

    /// The action for a name that a table's value stands for, whether or not the name is known. Excess bits
    /// of the value are ignored.
    #[inline]
    pub fn action(&self, name: KeyHash, value: u16) -> u16 {
        let code = usize::from(self.spread.mask(name, value)) & (self.actions.len() - 1);
        self.actions[code]
    }

    /// A value that stands for this action for a name: one of the action's codes, selected by the name's
    /// hash. `None` for an action without weight.
    pub fn value(&self, name: KeyHash, action: u16) -> Option<u16> {
        let &(first, count) = self.codes.get(usize::from(action))?;
        // Uses other bits than the mask does.
        let step = (u64::from(count) * (self.spread.mix(name) & 0xFFFF_FFFF)) >> 32;
        (count > 0).then(|| self.spread.mask(name, (u32::from(first) + step as u32) as u16)) // a code
    }

    /// Number of codes of an action.
    pub fn codes(&self, action: u16) -> u32 {
        self.codes.get(usize::from(action)).map_or(0, |place| place.1)
    }

    /// Bits per code.
    pub const fn value_bits(&self) -> u8 {
        self.value_bits
    }
}

/// Distributes `codes` by the largest remainders, with at least one for each weight above 0. There are at
/// most as many such weights as codes.
fn share_out(weights: &[u32], codes: u32) -> Vec<u32> {
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let exact = |weight: u32| u64::from(weight) * u64::from(codes);
    let least = |weight: u32| ((exact(weight) / total) as u32).max(u32::from(weight > 0)); // at most `codes`
    let mut counts: Vec<u32> = weights.iter().map(|&weight| least(weight)).collect();
    let mut order: Vec<usize> = (0..weights.len()).filter(|&action| weights[action] > 0).collect();
    // How far an action is below its share; the order begins with the one furthest below.
    let lack = |counts: &[u32], action: usize| {
        exact(weights[action]).cast_signed() - (u64::from(counts[action]) * total).cast_signed()
    };
    loop {
        let given: u32 = counts.iter().sum();
        order.sort_by_key(|&action| (std::cmp::Reverse(lack(&counts, action)), action));
        if given == codes {
            return counts;
        }
        let missing = codes.abs_diff(given) as usize;
        if given < codes {
            order.iter().take(missing).for_each(|&action| counts[action] += 1);
        } else {
            // Small weights were rounded up: the actions furthest above their share give codes back.
            let mut rich = order.iter().rev().filter(|&&action| counts[action] > 1);
            let Some(&action) = rich.next() else { return counts };
            counts[action] -= 1;
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::othello::{OthelloBuilder, OthelloReader, Params};
    use scalebricks_types::PartitionCount;
    use std::collections::HashMap;
    use std::sync::Arc;

    fn name(number: u64) -> KeyHash {
        let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        KeyHash::new(z ^ (z >> 31))
    }

    /// Masking twice restores a value, masks stay within their bits, and a stored 0 stands for every value
    /// equally often: five sigma of a binomial.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of names, and nothing unsafe")]
    fn masks_spread_what_is_stored_alike() {
        for (bits, seed) in [(1, 0), (4, 0), (4, 7), (16, 3)] {
            let spread = Spread::over(bits, seed);
            let most = ((1_u32 << bits) - 1) as u16;
            let draws = 4096_u32;
            let mut seen = HashMap::new();
            for number in 0..draws {
                let name = name(number.into());
                assert_eq!(spread.mask(name, spread.mask(name, most)), most);
                let meaning = spread.mask(name, 0);
                assert!(meaning <= most);
                *seen.entry(meaning >> bits.saturating_sub(4)).or_insert(0_u32) += 1;
            }
            let share = 1.0 / f64::from(1_u32 << bits.min(4));
            let (mean, sigma) = (f64::from(draws) * share, (f64::from(draws) * share * (1.0 - share)).sqrt());
            for (meaning, count) in seen {
                assert!((f64::from(count) - mean).abs() < 5.0 * sigma, "{bits} bits: {meaning}: {count}");
            }
        }
        assert_eq!(Spread::NONE.mask(name(1), 77), 77);
        assert_ne!(Spread::over(16, 1).mask(name(1), 0), Spread::over(16, 2).mask(name(1), 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn codes_are_shared_out_to_the_nearest() {
        assert_eq!(share_out(&[1, 1], 4), [2, 2]);
        assert_eq!(share_out(&[3, 1], 8), [6, 2]);
        assert_eq!(share_out(&[1, 1, 1], 8), [3, 3, 2]);
        assert_eq!(share_out(&[5, 0, 3], 16), [10, 0, 6]);
        assert_eq!(share_out(&[1_000_000, 1, 1], 4), [2, 1, 1]);
        // No share is off by more than one code, and all codes are assigned, for any weights.
        for seed in 0..200_u64 {
            let weights: Vec<u32> = (0..7).map(|at| (name(seed * 7 + at).get() % 50 + 5) as u32).collect();
            let counts = share_out(&weights, 256);
            let total: u32 = weights.iter().sum();
            assert_eq!(counts.iter().sum::<u32>(), 256);
            for (&weight, &count) in weights.iter().zip(&counts) {
                let share = f64::from(weight) * 256.0 / f64::from(total);
                assert!((share - f64::from(count)).abs() < 1.0, "{weights:?} {counts:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "two minutes under the interpreter, and nothing unsafe")]
    fn wishes_that_cannot_be_are_refused() {
        assert_eq!(WeightedActions::new(&[1], 0, 0), Err(WeightError::ValueBits(0)));
        assert_eq!(WeightedActions::new(&[1], 17, 0), Err(WeightError::ValueBits(17)));
        assert_eq!(WeightedActions::new(&[0, 0], 4, 0), Err(WeightError::None));
        assert_eq!(WeightedActions::new(&[1; 5], 2, 0), Err(WeightError::Actions { actions: 5, codes: 4 }));
        let actions = WeightedActions::new(&[1, 0], 16, 0).unwrap();
        assert_eq!(actions.value(name(1), 1), None);
        assert_eq!((actions.codes(0), actions.codes(1), actions.codes(2)), (1 << 16, 0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn a_value_means_its_action() {
        let actions = WeightedActions::new(&[7, 1, 0, 9], 6, 3).unwrap();
        for number in 0..500 {
            for action in [0, 1, 3] {
                let value = actions.value(name(number), action).unwrap();
                assert!(value < 64);
                assert_eq!(actions.action(name(number), value), action);
            }
        }
    }

    /// The reference is a plain map for known flows, and five sigma of a binomial for unknown ones.
    #[test]
    #[cfg_attr(miri, ignore = "builds a table of thousands of names")]
    fn known_flows_go_where_they_are_pinned_and_new_ones_by_weight_and_stay() {
        let weights = [5, 3, 0, 8];
        let actions = WeightedActions::new(&weights, 8, 11).unwrap();
        // All known flows have one action, so that the table's own answers are as uneven as possible.
        let pinned: HashMap<KeyHash, u16> = (0..4000).map(|number| (name(number), 3)).collect();
        let stored = pinned.iter().map(|(&flow, &action)| (flow, actions.value(flow, action).unwrap()));
        let params = Params::for_keys(5000, 8, PartitionCount::ONE).unwrap();
        let mut control = OthelloBuilder::new(params).build(&stored.collect::<Vec<_>>()).unwrap();
        let table = Arc::new(control.export());
        let mut reader = OthelloReader::new(Arc::clone(&table));
        let draws = 100_000_u64;
        let mut seen = [0_u64; 4];
        for number in 10_000..10_000 + draws {
            let value = reader.pin().get(name(number));
            seen[usize::from(actions.action(name(number), value))] += 1;
        }
        for (action, &count) in seen.iter().enumerate() {
            let share = f64::from(weights[action]) / 16.0;
            let sigma = (draws as f64 * share * (1.0 - share)).sqrt();
            assert!((count as f64 - draws as f64 * share).abs() <= 5.0 * sigma, "{action}: {seen:?}");
        }
        // New flows are installed with the returned answers, among other updates.
        let mut flows = pinned;
        for number in 200_000..201_000 {
            let value = reader.pin().get(name(number));
            flows.insert(name(number), actions.action(name(number), value));
            let _ = table.apply(&control.insert(name(number), value).unwrap()).unwrap();
        }
        for (&flow, &action) in &flows {
            assert_eq!(actions.action(flow, reader.pin().get(flow)), action);
        }
    }
}
