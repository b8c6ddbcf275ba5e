//! The kernels that build SetSep and look keys up, for many groups, attempts or keys at a time.
//!
//! A processor that adds two numbers per cycle can add sixteen pairs in the same cycle with vector
//! instructions. Each kernel here finds many independent operations to do at once:
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
//! Every kernel has forms for AVX-512, for AVX2 and for any processor. An [`Isa`] selects the form when the
//! kernel is made. All forms return the same bits. `docs/kernels.md` explains why they work.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod balance;
mod find;
mod lanes;
pub(super) mod lookup;
mod portable;
pub(super) mod search;
mod single;
#[cfg(test)]
mod tests;
mod tile;

use crate::isa::AvailableIsa;

pub(super) use balance::Balancer;
pub(super) use find::Finder;
pub(super) use lanes::Word;
pub(super) use single::Single;
pub(super) use tile::{Tile, TileQueue};
