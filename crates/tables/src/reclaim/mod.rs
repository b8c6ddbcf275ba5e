//! How tables are changed while readers that never wait use them: memory is written where no reader looks,
//! published by one store, and reused when no reader can look there any more
//! (`docs/adr/0002-publish-blocks-whole.md`).
//!
//! | module | contents |
//! |---|---|
//! | [`epoch`] | when retired memory is free: one cell per reader, one fence per pin |
//! | [`retired`] | the queue of retired memory |
//! | [`cache_line`] | the cache lines that tables are made of |
//! | [`sync`] | the atomics, or under `--cfg loom` those of the model checker |

pub(crate) mod cache_line;
pub(crate) mod epoch;
#[cfg(loom)]
pub(crate) mod loom_shims;
pub(crate) mod retired;
#[cfg(not(loom))]
#[cfg(test)]
mod stress_tests;
pub(crate) mod sync;
