//! Searches hash functions for groups, many at once, in the formats whose groups store an index and an array.
//!
//! | | portable | AVX2 | AVX-512 | with GFNI |
//! |---|---|---|---|---|
//! | the paper's family | one index at a time | 32 | 64 | 64 |
//! | `brute` | 64 × 64, bit-sliced | the same in two registers | in one | 64 × 64, one byte each |
//!
//! All forms return the same fields. `docs/kernels.md` explains how they work.

#[cfg(target_arch = "x86_64")]
mod affine;
#[cfg(target_arch = "x86_64")]
mod candidates;
mod meet;
mod sliced;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::isa::Isa;
use crate::setsep::format::Format;
use crate::setsep::paper;
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;
#[cfg(target_arch = "x86_64")]
use x86::{Avx2, Avx512, Gfni};

/// Solves one group at a time for the searched formats. Make one and reuse it: it is small and allocates no
/// memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::setsep) struct SearchSolver {
    params: Params,
    form: Form,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "the portable form has one way"))]
    bits: SearchBits,
}

/// How many value bits share the sums of an index in the vector forms of the paper's formats. The result does
/// not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SearchBits {
    /// Two value bits: the third and fourth start again from index 0.
    #[default]
    Pairs,
    /// All value bits, for values of up to four bits; four at a time for wider values. It computes fewer
    /// sums, with more work per sum.
    Together,
}

impl SearchBits {
    /// The number of value bits at once.
    #[cfg(target_arch = "x86_64")]
    const fn at_once(self) -> u8 {
        match self {
            Self::Pairs => 2,
            Self::Together => 4,
        }
    }
}

/// The form of the kernels, each with the proof that the processor supports it.
#[derive(Debug, Clone, Copy)]
enum Form {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni(Avx512, Gfni),
}

impl Form {
    fn of(isa: Isa) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if isa >= Isa::Avx512
                && let Some(machine) = Avx512::new()
            {
                let gfni = if isa >= Isa::Avx512Gfni { Gfni::new() } else { None };
                return gfni.map_or(Self::Avx512(machine), |gfni| Self::Avx512Gfni(machine, gfni));
            }
            if isa >= Isa::Avx2
                && let Some(machine) = Avx2::new()
            {
                return Self::Avx2(machine);
            }
        }
        let _ = isa;
        Self::Portable
    }
}

impl SearchSolver {
    /// A solver for tables with these parameters, with the kernels of `isa`, or of the best instruction set
    /// below it that is available.
    pub(in crate::setsep) fn new(params: &Params, isa: Isa) -> Self {
        Self { params: *params, form: Form::of(isa), bits: SearchBits::default() }
    }

    /// The same solver with this many value bits at once.
    pub(in crate::setsep) const fn with_bits(self, bits: SearchBits) -> Self {
        Self { bits, ..self }
    }

    /// The canonical fields of a group with these keys and values, in any order, or `None` if some value bit has no
    /// index that works.
    pub(in crate::setsep) fn solve(&self, hashes: &[u64], values: &[u8]) -> Option<Fields> {
        if self.params.format() == Format::Brute {
            return meet::solve(self.form, hashes, values, &self.params);
        }
        match self.form {
            Form::Portable => paper::solve(hashes, values, &self.params),
            #[cfg(target_arch = "x86_64")]
            form => candidates::solve(form, self.bits, hashes, values, &self.params),
        }
    }
}
