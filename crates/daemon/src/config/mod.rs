//! What the configurations of all processes share: one description of their keys, and how a file is checked with it.
//!
//! The types of a file's sections are the description: their documentation, ranges, defaults and formats. Three things
//! follow from it: reading, the problems of a file, and the page `docs/reference/configuration.md`.
//!
//! | module | content |
//! |---|---|
//! | [`keys`] | the description as a tree of keys |
//! | [`forms`] | forms of text: addresses, devices, names |
//! | [`drivers`] | names of DPDK's virtual devices |
//! | [`walk`] | compares a file with the description |
//! | [`problems`] | reads a file, and collects all problems |

mod drivers;
pub(crate) mod forms;
mod keys;
mod problems;
#[cfg(test)]
mod reference;
mod spanned;
#[cfg(test)]
mod tests;
mod walk;

pub use problems::Problem;
pub(crate) use problems::Problems;
pub(crate) use spanned::Spanned;
