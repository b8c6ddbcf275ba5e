//! How tables are changed under readers that never wait: memory is written where nobody looks, published by one
//! store, and used again when nobody can be looking any more (`docs/adr/0002-publish-blocks-whole.md`).
//!
//! | module | what it holds |
//! |---|---|
//! | [`epoch`] | when retired memory is free: one cell a reader, one fence a pin |
//! | [`retired`] | what waits for that |
//! | [`cache_line`] | the cache lines that tables are made of |
//! | [`sync`] | the atomics, or under `--cfg loom` those of the model checker |

pub(crate) mod cache_line;
pub(crate) mod epoch;
#[cfg(loom)]
pub(crate) mod loom_shims;
pub(crate) mod retired;
#[cfg(not(loom))]
#[cfg(test)]
mod stress;
pub(crate) mod sync;
