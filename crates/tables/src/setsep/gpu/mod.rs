//! Builds SetSep tables on a GPU. The bits are those of [`SetSepBuilder`](super::SetSepBuilder).
//!
//! | step | kernel | threads |
//! |---|---|---|
//! | hash keys, if they are not hashed | `hash_keys` | one per key |
//! | count the keys of each block | `histogram` | one per key |
//! | prefix sum: the first key of each block | `scan_tiles`, `scan_totals` | four blocks each |
//! | move the keys to their blocks | `scatter` | one per key |
//! | count, balance, place, solve | `build_blocks` | a thread block per table block, a warp per group |
//!
//! `kernels.cu` contains the kernels. They are compiled when the builder is made, for the parameters of one table.
//! The host finishes the few groups without a solution: it fetches the keys of their blocks and makes the fallback
//! lists.
//!
//! Without a GPU, tests prove the kernels in two ways. `reference` executes the same steps over the same arrays in
//! Rust. `host` compiles `kernels.cu` as C++ and runs its threads as fibers. Both must give the bits of
//! [`SetSepBuilder`](super::SetSepBuilder).
//!
//! `docs/gpu-construction.md` has the memory layout and says what was not run.

#[cfg(feature = "cuda")]
mod compile;
#[cfg(feature = "cuda")]
mod device;
#[cfg(test)]
mod device_tests;
#[cfg(feature = "cuda")]
mod error;
mod finish;
#[cfg(test)]
mod host;
mod plan;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

#[cfg(feature = "cuda")]
pub use device::{DeviceKeys, DeviceTable, GpuBuilder};
#[cfg(feature = "cuda")]
pub use error::GpuError;
