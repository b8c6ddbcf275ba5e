//! Traffic matrices.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// Rates by input and output; 1 is the rate of a port.
#[derive(Debug, Clone)]
pub struct Matrix(Vec<Vec<f64>>);

impl Matrix {
    fn new(size: usize, rate: impl Fn(usize, usize) -> f64) -> Self {
        Self((0..size).map(|input| (0..size).map(|output| rate(input, output)).collect()).collect())
    }

    /// Every input sends equally to all other outputs.
    pub fn uniform(size: usize) -> Self {
        Self::new(size, |input, output| if input == output { 0.0 } else { 1.0 / (size - 1) as f64 })
    }

    /// Every input sends to one output.
    pub fn permutation(to: &[usize]) -> Self {
        Self::new(to.len(), |input, output| f64::from(u8::from(to[input] == output)))
    }

    /// A permutation in which nobody sends to itself.
    pub fn shift(size: usize) -> Self {
        Self::permutation(&(0..size).map(|input| (input + 1) % size).collect::<Vec<_>>())
    }

    /// Loads the link from node 0 to node 1 with 3R/N under Direct VLB: node 0 sends R/N to node 1 and the rest to node
    /// 2, and node 3 sends as much to node 1.
    pub fn worst_of_direct_vlb(size: usize) -> Self {
        let (share, rest) = (1.0 / size as f64, 1.0 - 1.0 / size as f64);
        Self::new(size, |input, output| match (input, output) {
            (0, 1) => share,
            (0, 2) | (3, 1) => rest,
            _ => 0.0,
        })
    }

    /// All inputs send to output 0 what it can take, and the rest of half their rate to the others.
    pub fn hot_spot(size: usize) -> Self {
        let hot = 1.0 / (size - 1) as f64;
        Self::new(size, |input, output| match (input, output) {
            (0, _) => 0.0,
            (_, 0) => hot,
            _ if input == output => 0.0,
            _ => (0.5 - hot).max(0.0) / (size - 2) as f64,
        })
    }

    /// All other inputs send equal parts of `load` to output 0.
    pub fn to_one(size: usize, load: f64) -> Self {
        Self::new(size, |input, output| if output == 0 && input > 0 { load / (size - 1) as f64 } else { 0.0 })
    }

    /// A random doubly stochastic matrix: a sum of random permutations with random weights (Birkhoff).
    pub fn birkhoff(size: usize, permutations: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let weights: Vec<f64> = (0..permutations).map(|_| random.random_range(0.05..1.0)).collect();
        let sum: f64 = weights.iter().sum();
        let mut rates = vec![vec![0.0; size]; size];
        for weight in weights {
            let mut to: Vec<usize> = (0..size).collect();
            to.shuffle(&mut random);
            for (input, &output) in to.iter().enumerate() {
                rates[input][output] += weight / sum;
            }
        }
        Self(rates)
    }

    /// All rates times a load.
    pub fn times(&self, load: f64) -> Self {
        Self(self.0.iter().map(|row| row.iter().map(|rate| rate * load).collect()).collect())
    }

    pub fn size(&self) -> usize {
        self.0.len()
    }

    pub fn rate(&self, input: usize, output: usize) -> f64 {
        self.0[input][output]
    }

    /// The largest sum of a row or column.
    pub fn largest(&self) -> f64 {
        let rows = self.0.iter().map(|row| row.iter().sum::<f64>());
        let columns = (0..self.size()).map(|output| self.0.iter().map(|row| row[output]).sum::<f64>());
        rows.chain(columns).fold(0.0, f64::max)
    }
}

#[test]
fn all_matrices_are_admissible() {
    for size in [4, 8, 16] {
        let mut all = vec![
            Matrix::uniform(size),
            Matrix::shift(size),
            Matrix::worst_of_direct_vlb(size),
            Matrix::hot_spot(size),
        ];
        all.extend((0..20).map(|seed| Matrix::birkhoff(size, 3 + seed as usize % 5, seed)));
        for matrix in all {
            let largest = matrix.largest();
            assert!((0.999..1.000_001).contains(&largest), "{largest}: {matrix:?}");
        }
    }
}
