//! The work of building SetSep and of looking keys up, done many groups, attempts or keys at a time.
//!
//! A processor that adds two numbers in a cycle adds sixteen pairs in the same cycle, if told to. Each kernel here is
//! a way to have many independent things to do at once:
//!
//! | kernel | side by side | definition it equals |
//! |---|---|---|
//! | `tile`, `lanes` | sixteen groups' systems of equations | `linear::solve` |
//! | `single` | the equations of one group | `linear::solve` |
//! | `search` | many hash functions for one group | `paper::solve`, `brute::solve` |
//! | `lookup` | many keys | `solver::evaluate` |
//! | `balance` | sixteen attempts to balance one block | one attempt after another |
//! | `find` | the slots of one group's row | one slot after another |
//!
//! Every kernel comes in forms for AVX-512, for AVX2 and for any processor, chosen by an [`Isa`] when it is made. All
//! give the same bits. `docs/kernels.md` tells why they work.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod balance;
mod find;
mod lanes;
pub(super) mod lookup;
mod portable;
pub(super) mod search;
mod single;
#[cfg(test)]
mod tests;
mod tile;

use crate::isa::Isa;

pub(super) use balance::Balancer;
pub(super) use find::Finder;
pub(super) use lanes::Word;
pub(super) use single::Single;
pub(super) use tile::{LaneSolver, Tile};

/// An [`Isa`] that this processor was seen to have: what makes it sound to call a kernel's fast form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::setsep) struct AvailableIsa(Isa);

impl AvailableIsa {
    /// The level asked for, or the portable one where this processor lacks it.
    pub(super) fn new(isa: Isa) -> Self {
        Self(if isa.is_available() { isa } else { Isa::Portable })
    }

    /// The level; this processor has it.
    pub(super) const fn isa(self) -> Isa {
        self.0
    }
}
