//! Probability that a random function separates the keys of a group.
//!
//! A function maps each of `n` keys to one of `m` cells. It works if no cell gets keys with different values.
//! If earlier values occupy `j` cells, the `k` keys of the next value occupy exactly `i` cells, all new, with
//! probability `(m-j)(m-j-1)…(m-j-i+1) · S(k, i) / m^k`, where `S` is the Stirling number of the second kind.
//! The sum over all `i`, value by value, is the probability for one *composition* (the number of keys with
//! each value). The composition is random too, but fixed during the search of a group. So the expected number
//! of functions is the mean of the inverse probabilities, which exceeds the inverse of the mean probability.

/// A composition: key counts per value in descending order, and its probability for uniform values.
#[derive(Debug, Clone, PartialEq)]
pub struct Composition {
    /// Keys for each value that occurs.
    pub counts: Vec<u32>,
    /// Probability for random values.
    pub probability: f64,
}

/// All compositions of `keys` keys with values of `value_bits` bits.
pub fn compositions(keys: u32, value_bits: u8) -> Vec<Composition> {
    let values = 1_u32 << value_bits;
    let mut found = Vec::new();
    partition(keys, keys, values, &mut Vec::new(), &mut |counts| {
        let each: f64 = counts.iter().map(|&count| factorial(count)).product();
        let same: f64 = counts.chunk_by(|a, b| a == b).map(|run| factorial(run.len() as u32)).product();
        let named: f64 = (0..counts.len() as u32).map(|taken| f64::from(values - taken)).product();
        let ways = factorial(keys) / each * (named / same);
        let probability = ways / f64::from(values).powi(keys.cast_signed());
        found.push(Composition { counts: counts.to_vec(), probability });
    });
    found
}

/// All partitions of `rest` into at most `parts` non-increasing numbers of at most `most`.
fn partition(rest: u32, most: u32, parts: u32, counts: &mut Vec<u32>, found: &mut impl FnMut(&[u32])) {
    if rest == 0 {
        found(counts);
    } else if parts > 0 {
        for count in (1..=rest.min(most)).rev() {
            counts.push(count);
            partition(rest - count, count, parts - 1, counts, found);
            counts.pop();
        }
    }
}

fn factorial(n: u32) -> f64 {
    (2..=n).map(f64::from).product()
}

/// Probability that a random function into `cells` cells works for this composition.
pub fn chance(counts: &[u32], cells: u32) -> f64 {
    let mut taken = vec![0.0; cells as usize + 1];
    taken[0] = 1.0;
    for &count in counts {
        let surjections = stirling(count);
        let all = f64::from(cells).powi(count.cast_signed());
        let mut next = vec![0.0; taken.len()];
        for (before, share) in taken.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let mut falling = 1.0;
            for (new, ways) in surjections.iter().enumerate().skip(1).take(cells as usize - before) {
                falling *= (cells as usize - before - (new - 1)) as f64;
                next[before + new] += share * falling * ways / all;
            }
        }
        taken = next;
    }
    taken.iter().sum::<f64>().min(1.0) // rounding may carry a certainty above 1
}

/// Stirling numbers of the second kind: the ways to partition `n` things into 0, 1, … `n` sets.
fn stirling(n: u32) -> Vec<f64> {
    let mut row = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; row.len() + 1];
        for (heaps, ways) in row.iter().enumerate() {
            next[heaps] += heaps as f64 * ways;
            next[heaps + 1] += ways;
        }
        row = next;
    }
    row
}

/// Expected number of functions to try for a group of `keys` keys; `None` if some groups have no function.
pub fn iterations(keys: u32, value_bits: u8, cells: u32) -> Option<f64> {
    let mean: f64 = compositions(keys, value_bits)
        .iter()
        .map(|composition| composition.probability / chance(&composition.counts, cells))
        .sum();
    mean.is_finite().then_some(mean)
}

/// The share of groups for which none of `functions` functions works.
pub fn failures(keys: u32, value_bits: u8, cells: u32, functions: f64) -> f64 {
    let each = compositions(keys, value_bits).into_iter();
    each.map(|composition| {
        let none = functions * (-chance(&composition.counts, cells)).ln_1p();
        composition.probability * none.exp()
    })
    .sum()
}

/// The least index bits that leave at most this share of groups without a function; `None` above 40.
pub fn index_bits(keys: u32, value_bits: u8, cells: u32, tolerated: f64) -> Option<u32> {
    let known: Vec<(f64, f64)> = compositions(keys, value_bits)
        .into_iter()
        .map(|composition| (composition.probability, (-chance(&composition.counts, cells)).ln_1p()))
        .collect();
    let failing = |bits: u32| -> f64 {
        let functions = (1_u64 << bits) as f64;
        known.iter().map(|(probability, none)| probability * (functions * none).exp()).sum()
    };
    (0..=40).find(|&bits| failing(bits) <= tolerated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(got: f64, want: f64) {
        assert!((got / want - 1.0).abs() < 1e-9, "{got} is not {want}");
    }

    #[test]
    fn compositions_are_all_there_are() {
        for (keys, value_bits) in [(1, 1), (7, 1), (16, 1), (16, 2), (16, 4), (5, 8)] {
            near(compositions(keys, value_bits).iter().map(|c| c.probability).sum(), 1.0);
        }
        assert_eq!(compositions(16, 1).len(), 9);
        assert_eq!(compositions(4, 2).len(), 5);
    }

    #[test]
    fn chances_are_those_of_counting_all_throws() {
        for (counts, cells) in [(&[2_u32, 1][..], 2_u32), (&[3, 2], 4), (&[2, 2, 1], 4), (&[1, 1, 1, 1], 5)] {
            let values: Vec<usize> =
                counts.iter().enumerate().flat_map(|(v, &count)| vec![v; count as usize]).collect();
            let throws = cells.pow(values.len() as u32);
            let works = |throw: u32| {
                let mut held = vec![None; cells as usize];
                let mut rest = throw;
                values.iter().all(|&value| {
                    let cell = (rest % cells) as usize;
                    rest /= cells;
                    held[cell].replace(value).is_none_or(|before| before == value)
                })
            };
            let good = (0..throws).filter(|&throw| works(throw)).count();
            near(chance(counts, cells), good as f64 / f64::from(throws));
        }
    }

    #[test]
    fn two_cells_are_one_bit_a_key() {
        // Each value needs its own cell: two of 2^16 assignments work.
        near(chance(&[9, 7], 2), 2.0 / 65_536.0);
        near(chance(&[16], 2), 1.0);
        assert!((32_766.0..32_768.0).contains(&iterations(16, 1, 2).unwrap()));
        // Four values do not fit in two cells.
        assert_eq!(iterations(16, 2, 2), None);
    }

    #[test]
    fn sixteen_keys_in_eight_cells() {
        assert!((580.0..580.3).contains(&iterations(16, 1, 8).unwrap()));
        assert_eq!(index_bits(16, 1, 8, 1e-6), Some(14));
        assert_eq!(index_bits(16, 1, 16, 1e-6), Some(10));
        assert!((2..=30).all(|cells| index_bits(16, 1, cells, 1e-6).is_some()));
        // Loads that a 16-bit index can still handle, and one that it cannot.
        let failing = |keys| failures(keys, 1, 8, 65_535.0);
        assert!(failing(16) < 1e-38 && failing(19) < 2e-6);
        assert!((7e-4..9e-4).contains(&failing(20)) && (0.02..0.025).contains(&failing(21)));
    }
}
