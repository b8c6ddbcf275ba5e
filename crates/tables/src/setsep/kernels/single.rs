//! Solves one system of linear equations, for an update that changes a single group.
//!
//! The sixteen lanes of [`lanes`](super::lanes) take as long for one group as for sixteen. Here the lanes are
//! the rows of one system. Each row in turn is broadcast to all lanes, and added to those that have its pivot
//! (its lowest set bit), except itself. [`lanes`](super::lanes) explains pivots, zero rows and contradictions.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::AvailableIsa;
use super::lanes::BITS_AT_ONCE;
use crate::isa::Isa;
use crate::setsep::linear::{FieldLayout, Rows};
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;

/// Rows per system.
const ROWS: usize = 32;

/// The solver for single groups of format Linear with values of up to four bits.
#[derive(Debug, Clone, Copy)]
pub(in crate::setsep) struct Single {
    present: AvailableIsa,
    shape: FieldLayout,
    rows: Rows,
    value_bits: usize,
}

/// The keys of a group and their values, in the form that the kernels read.
struct Equations {
    /// The low halves of the hashes, which make the rows.
    keys: [u32; ROWS],
    values: [u32; ROWS],
    /// Number of keys.
    count: usize,
}

impl Single {
    /// The solver for these parameters, if there is one.
    pub(in crate::setsep) fn new(params: &Params, isa: Isa) -> Option<Self> {
        let fits = params.format().is_linear()
            && params.format().field_bits() == u32::BITS
            && usize::from(params.value_bits()) <= BITS_AT_ONCE;
        fits.then(|| Self {
            present: AvailableIsa::new(isa),
            shape: FieldLayout::of(params),
            rows: Rows::of(params),
            value_bits: params.value_bits().into(),
        })
    }

    /// The canonical fields of a group of at most 32 keys, or `None` if no seed has a solution.
    pub(in crate::setsep) fn solve(&self, hashes: &[u64], values: &[u8]) -> Option<Fields> {
        let count = hashes.len().min(ROWS).min(values.len());
        let mut equations = Equations { keys: [0; ROWS], values: [0; ROWS], count };
        let Equations { keys, values: asked, .. } = &mut equations;
        for ((key, ask), (&hash, &value)) in keys.iter_mut().zip(asked).zip(hashes.iter().zip(values)) {
            (*key, *ask) = (hash as u32, u32::from(value)); // the low half makes the row
        }
        (0..self.shape.seeds()).find_map(|seed| {
            let vectors = self.eliminate(&equations, seed)?;
            Some(self.shape.fields(vectors, seed))
        })
    }

    /// What the low half of a hash is first xored with.
    #[cfg(target_arch = "x86_64")]
    const fn key(&self) -> u32 {
        self.rows.key() as u32
    }

    /// The vectors of the equations under a seed, or `None` on a contradiction.
    #[cfg_attr(target_arch = "x86_64", allow(unsafe_code, reason = "see SAFETY"))]
    fn eliminate(&self, equations: &Equations, seed: u32) -> Option<Fields> {
        match self.present.isa() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor.
            Isa::Avx512 | Isa::Avx512Gfni => unsafe { avx512::eliminate(self, equations, seed) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { avx2::eliminate(self, equations, seed) },
            _ => portable::eliminate(self, equations, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setsep::format::Format;
    use crate::setsep::geometry::mix64;
    use crate::setsep::linear;
    use crate::setsep::solver::GroupKeys;
    use scalebricks_types::PartitionCount;

    #[test]
    fn equals_the_definition() {
        for (bits, isa) in
            (1..=4).flat_map(|bits| crate::isa::compared().into_iter().map(move |isa| (bits, isa)))
        {
            let params =
                Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(Format::Linear).unwrap();
            let params = params.with_seed(bits.into());
            let single = Single::new(&params, isa);
            let single = single.expect("format Linear, few value bits");
            for n in 0..=32 {
                for round in 0..if cfg!(miri) { 1 } else { 40 } {
                    let mut keys = GroupKeys::default();
                    for i in 0..n {
                        let hash = mix64(i ^ round << 8 ^ u64::from(bits) << 32 ^ 1 << 63);
                        keys.push(hash, (mix64(hash) & ((1 << bits) - 1)) as u8);
                    }
                    assert_eq!(
                        single.solve(&keys.hashes, &keys.values),
                        linear::solve(&keys, &params),
                        "{n}, {isa}"
                    );
                }
            }
        }
    }
}
